"""Predicates, evidence and edits that several rules share, by the question that they answer.

- May it stay as it is? `guards` (another version of torch, a test, a `try`, a cache), `constants`
- Is it a tensor, and for every caller? `tensors`, `parameters`, `local_values`, `dtypes`
- Where and how is it built? `factories`, `default_device`, `host_copies`, `gpus`
- Where does it go? `moves`, `hoisting`, `growth`
- Who waits, and what runs in a step? `reads`, `waits`, `forward`, `regions`, `scalers`, `steps`
- Whose code is it? `classes`, `lightning`

`arithmetic` computes. Modules whose names begin with `_` are of this directory alone.
"""
