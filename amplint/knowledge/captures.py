"""Captures of a graph by `torch.compile`, `torch.export` or CUDA, and what they leave out.

Measured in torch 2.13.0 on the CPU, which tests/oracles/test_captures.py repeats. Where a tensor
lives makes no difference: the compiler sees no values anywhere.
"""

from __future__ import annotations

from amplint.knowledge.libraries import TRANSPARENT_DECORATORS

TORCH = "2.13"
"""The version that was asked."""

COMPILER = "torch.compile"
"""It compiles its first argument, or as a decorator what it stands at."""

EXPORTER = "torch.export.export"
"""It exports its first argument, of which it takes no test of a value."""

GRAPHER = "torch.cuda.make_graphed_callables"
"""It captures its first argument in a CUDA graph."""

CUDA_GRAPH = "torch.cuda.graph"
"""A context in which a CUDA graph is captured, which refuses whatever waits for the device
(https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)."""

SCALARS = "capture_scalar_outputs"
SHAPES = "capture_dynamic_output_shape_ops"
"""Options of `torch._dynamo.config` with which numbers of tensors, and shapes that depend on their
values, are captured. So they are with `fullgraph=True`."""

LEFT_OUT: frozenset[str] = frozenset(
    """
    allow_in_graph assume_constant_result custom_op disable nonstrict_trace triton_op
    """.split()
)
"""Decorators of what runs as it is, and is not looked into (torch.compiler, torch._dynamo,
torch.library)."""

LOOKED_INTO: frozenset[str] = (TRANSPARENT_DECORATORS | {"compile"}) - LEFT_OUT
"""Decorators of functions that are looked into, as of those that have none."""

LEAVERS: frozenset[str] = frozenset({"torch.compiler.disable", "torch._dynamo.disable"})
"""Functions that give such a function."""
