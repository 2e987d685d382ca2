"""The one engine of inference: what an operation of a library returns, from what its operands are.

Everything here is a pure function of values. Functions and classes of the project are `infer`'s
business; here a call is one of torch, of the builtins or of another library that amplint knows.
The parts, each of which uses only those before it: kinds, symbols, promotion, arguments, results,
containers, then arithmetic, attributes, factories, modules, methods, and calls over them all.
"""

from amplint.inference.transfer.arguments import chosen_types, dtype_of, names_dtype
from amplint.inference.transfer.arithmetic import (
    augmented,
    binary,
    compare,
    unary,
    used_as_tensor,
    without_nests,
)
from amplint.inference.transfer.attributes import (
    PARAM_GROUPS,
    attribute,
    having,
    object_attribute,
)
from amplint.inference.transfer.calls import (
    GRADIENT_NORMS,
    SOME_ACCELERATOR,
    autocast,
    call,
    host_memory,
    precision_asked,
    with_options,
)
from amplint.inference.transfer.containers import (
    add,
    collating,
    is_loader,
    iterate,
    iterate_atom,
    put,
    subscript_atom,
    unpack,
)
from amplint.inference.transfer.kinds import OBJECT, STR, Site
from amplint.inference.transfer.modules import output_device
from amplint.inference.transfer.promotion import as_float32, region_dtype, tensors_in, without_half
from amplint.inference.transfer.symbols import canonical, symbol_attribute

__all__ = [
    "GRADIENT_NORMS",
    "OBJECT",
    "PARAM_GROUPS",
    "SOME_ACCELERATOR",
    "STR",
    "Site",
    "add",
    "as_float32",
    "attribute",
    "augmented",
    "autocast",
    "binary",
    "call",
    "canonical",
    "chosen_types",
    "collating",
    "compare",
    "dtype_of",
    "having",
    "host_memory",
    "is_loader",
    "iterate",
    "iterate_atom",
    "names_dtype",
    "object_attribute",
    "output_device",
    "precision_asked",
    "put",
    "region_dtype",
    "subscript_atom",
    "symbol_attribute",
    "tensors_in",
    "unary",
    "unpack",
    "used_as_tensor",
    "with_options",
    "without_half",
    "without_nests",
]
