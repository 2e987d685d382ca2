"""Captures of a graph of the operations of a function, and the effect on them where the function
reads a tensor on the host.

Measured in torch 2.13.0 on the CPU, which tests/oracles/test_captures.py repeats. Where a tensor
lives makes no difference to `torch.compile` and `torch.export`, which see no values anywhere. Of a
CUDA graph no CPU can be asked: "CUDA Graphs" in the notes of PyTorch says that whatever
synchronizes the host with the device is prohibited during capture
(https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints).
"""

from __future__ import annotations

from enum import Enum

from amplint.knowledge.libraries import TRANSPARENT_DECORATORS

TORCH = "2.13"
"""The version that was asked."""


class Encloses(Enum):
    """A way to capture a function, as messages name it."""

    COMPILE = "torch.compile"
    WHOLE = "torch.compile(fullgraph=True)"
    PERHAPS_WHOLE = "torch.compile(fullgraph=...)"  # what it is given there is not known
    EXPORT = "torch.export"
    STRICT_EXPORT = "torch.export(strict=True)"
    CUDA_GRAPH = "torch.cuda.graph"


class CaptureEffect(Enum):
    """The effect of a form on a capture."""

    CAPTURED = "is captured"
    BREAKS = "breaks the graph"
    RAISES = "raises"


class Form(Enum):
    """A way in which a value of a tensor comes to the host, by an example."""

    ITEM = "t.item()"
    NUMBER = "float(t)"
    COMPLEX = "complex(t)"
    LIST = "t.tolist()"
    COPY = "t.cpu()"
    ARRAY = "t.numpy()"
    TRUTH = "if t:"
    ASSERTED = "assert t"
    COMPARED = "torch.equal(t, u)"
    PRINTED = "print(t)"
    TEXT = "str(t)"
    COUNT = "range(t)"
    MATH = "math.sqrt(t)"
    SIZE = "torch.zeros(t)"
    INDEX = "values[t]"
    ROW = "t[i]"
    SHAPE = "t[mask]"
    CLASSES = "one_hot(t)"
    ELEMENTS = "sorted(t)"


_C, _B, _R = CaptureEffect.CAPTURED, CaptureEffect.BREAKS, CaptureEffect.RAISES
_MEASURED = (Encloses.COMPILE, Encloses.WHOLE, Encloses.EXPORT, Encloses.STRICT_EXPORT)
_EFFECTS: dict[Form, tuple[CaptureEffect, CaptureEffect, CaptureEffect, CaptureEffect]] = {
    Form.ITEM: (_B, _C, _C, _C),
    Form.NUMBER: (_B, _C, _R, _C),
    Form.COMPLEX: (_B, _R, _R, _R),
    Form.LIST: (_B, _R, _C, _R),
    Form.COPY: (_C, _C, _C, _C),
    Form.ARRAY: (_C, _C, _R, _C),
    Form.TRUTH: (_B, _R, _R, _R),
    Form.ASSERTED: (_C, _C, _R, _C),
    Form.COMPARED: (_B, _R, _R, _R),
    Form.PRINTED: (_B, _R, _C, _C),
    Form.TEXT: (_B, _R, _C, _R),
    Form.COUNT: (_B, _R, _R, _R),
    Form.MATH: (_B, _R, _R, _R),
    Form.SIZE: (_B, _C, _C, _C),
    Form.INDEX: (_B, _R, _R, _R),
    Form.ROW: (_B, _R, _C, _R),
    Form.SHAPE: (_B, _C, _C, _C),
    Form.CLASSES: (_B, _R, _R, _R),
    Form.ELEMENTS: (_B, _R, _R, _R),
}
EFFECTS: dict[Encloses, dict[Form, CaptureEffect]] = {
    **{
        encloses: {form: effects[at] for form, effects in _EFFECTS.items()}
        for at, encloses in enumerate(_MEASURED)
    },
    # What is captured as a whole may be so here: both have to refuse it.
    Encloses.PERHAPS_WHOLE: {
        form: _C if _C in effects[:2] else _B for form, effects in _EFFECTS.items()
    },
    Encloses.CUDA_GRAPH: dict.fromkeys(Form, _R),
}
"""By what captures: what it does to each form."""

OPTIONS: dict[str, frozenset[Form]] = {
    "capture_scalar_outputs": frozenset({Form.ITEM, Form.NUMBER, Form.SIZE}),
    "capture_dynamic_output_shape_ops": frozenset({Form.SHAPE}),
}
"""An option of `torch._dynamo.config` -> the forms that `torch.compile` captures with it."""

COMPILERS: frozenset[str] = frozenset({"torch.compile"})
"""They compile their first argument, or as decorators what they stand at."""

EXPORTERS: frozenset[str] = frozenset({"torch.export.export", "torch.export.export_for_training"})
"""They export their first argument, a module."""

GRAPHERS: frozenset[str] = frozenset(
    {"torch.cuda.make_graphed_callables", "torch.cuda.graphs.make_graphed_callables"}
)
"""They make CUDA graphs of their first argument, one function or module or a tuple of them."""

CUDA_GRAPHS: frozenset[str] = frozenset({"torch.cuda.graph", "torch.cuda.graphs.graph"})
"""The contexts in which a CUDA graph is captured."""

LEFT_OUT: frozenset[str] = frozenset(
    """
    allow_in_graph assume_constant_result custom_op disable nonstrict_trace triton_op
    """.split()
)
"""Decorators of what runs as it is, and is not looked into (torch.compiler, torch._dynamo,
torch.library)."""

LOOKED_INTO: frozenset[str] = (TRANSPARENT_DECORATORS | {"compile", "partial"}) - LEFT_OUT
"""Decorators of functions that are looked into, as of those that have none."""

LEAVERS: frozenset[str] = frozenset({"torch.compiler.disable", "torch._dynamo.disable"})
"""Functions that give such a function."""

READS: dict[str, Form] = {
    "item": Form.ITEM,
    "tolist": Form.LIST,
    "cpu": Form.COPY,
    "to": Form.COPY,
    "numpy": Form.ARRAY,
    "builtins.complex": Form.COMPLEX,
    "builtins.float": Form.NUMBER,
    "builtins.int": Form.NUMBER,
    "numpy.array": Form.ARRAY,
    "numpy.asarray": Form.ARRAY,
    "numpy.ascontiguousarray": Form.ARRAY,
}
"""The methods of a tensor and the functions that bring its value to the host -> their form."""

PRINTING: frozenset[str] = frozenset({"builtins.print"})
TEXTS: frozenset[str] = frozenset({"builtins.str", "builtins.repr"})
COUNTING: frozenset[str] = frozenset({"builtins.range", "builtins.bin", "builtins.hex"})
ORDERING: frozenset[str] = frozenset({"builtins.all", "builtins.any", "builtins.sorted"})
"""Builtins of the forms of the same names; `max` and `min` compare in the graph."""

MATHS: frozenset[str] = frozenset(
    f"math.{name}"
    for name in """
    ceil cos exp floor isfinite isinf isnan log log10 log2 pow sin sqrt tan
    """.split()
)
"""Functions of `math` that take one number, or two."""
