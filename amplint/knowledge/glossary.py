"""The words that a user meets in reports and on the pages of rules, for `amplint explain WORD`.

`docs/glossary.md` has the same sentences, which `tests/unit/test_glossary.py` checks.
"""

from __future__ import annotations

from collections.abc import Mapping

GLOSSARY: Mapping[str, str] = {
    "hot": "Runs for every batch of a training loop, or is called from there. What is "
    "slow matters here. Code that runs once for each epoch or run is not hot.",
    "host": "The CPU, with the Python process that sends work to the GPU. A read by the "
    "host, such as `loss.item()`, waits until the GPU has computed the value.",
    "region": "The code that runs under `torch.autocast`: the body of the `with` statement "
    "or of the decorated function, and all functions that are called from it.",
    "half": "A floating-point dtype of 16 bits: `torch.float16` or `torch.bfloat16`.",
    "pinned": "Memory of the host that the operating system keeps in place "
    "(`pin_memory=True`). Only from there can a copy to the GPU with "
    "`non_blocking=True` run beside other work.",
    "factory": "A function that creates a tensor from numbers or a shape, such as "
    "`torch.zeros` or `torch.arange`. Without `device=`, most create it on the "
    "CPU.",
    "presumed": "Not seen in the code, but likely: for example that `forward` runs under "
    "autocast in a project that uses autocast elsewhere. The finding says what is "
    "presumed, and why.",
    "safe": "A fix that is proven to keep values, dtypes, devices and the autograd graph, "
    "or that changes code which can only raise. `amplint fix --apply` writes it.",
    "unsafe": "A fix that is likely what you want, but may change numerics, random numbers "
    "or control flow. `amplint fix --apply --unsafe` writes it; read its diff.",
    "suggestion": "A fix that is only shown and never written, because it needs a decision of "
    "yours or a newer torch than the project allows.",
}
