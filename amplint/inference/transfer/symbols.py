"""Names of libraries: the public one of what torch keeps in a private module, and what they are."""

from __future__ import annotations

import math
from functools import lru_cache

from amplint.inference.transfer.kinds import FLOAT
from amplint.values.atoms import UNKNOWN, DType, Host, Symbol, Value, one

# Names under which torch's own modules keep what they also export at the top.
PRIVATE_MODULES = {
    "torch.nn.modules.": "torch.nn.",
    "torch.functional.": "torch.",
    "torch.Tensor.": "Tensor.",
    "torch._tensor.Tensor": "torch.Tensor",
    "torch.optim.optimizer.": "torch.optim.",
    "torch.cuda.amp.autocast_mode.": "torch.cuda.amp.",
    "torch.cuda.amp.grad_scaler.": "torch.cuda.amp.",
}


@lru_cache(maxsize=10_000)
def canonical(name: str) -> str:
    """The public name of what torch keeps in a private module."""
    for private, public in PRIVATE_MODULES.items():
        if name.startswith(private):
            tail = (
                name[len(private) :].rsplit(".", 1)[-1]
                if private.endswith("modules.")
                else name[len(private) :]
            )
            return public + tail
    return name


def symbol_attribute(name: str, attribute: str) -> Value:
    full = canonical(f"{name}.{attribute}")
    if full.startswith("torch.") and full.count(".") == 1 and attribute in DTYPES:
        return one(DType(DTYPES[attribute]))
    if full in MATH_CONSTANTS:
        return INFINITY if attribute == "inf" else FLOAT
    if full.count(".") > 8:
        return UNKNOWN  # a chain that a loop keeps growing
    return one(Symbol(full))


MATH_CONSTANTS = frozenset(
    {f"{m}.{n}" for m in ("math", "numpy") for n in ("inf", "nan", "pi", "e")} | {"torch.inf"}
)


INFINITY = one(Host("float", math.inf, True))


DTYPES = {
    **{n: n for n in ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32")},
    **{n: n for n in ("int64", "uint8", "bool", "complex64", "complex128")},
    "half": "float16", "float": "float32", "double": "float64", "short": "int16", "int": "int32",
    "long": "int64",
}  # fmt: skip
