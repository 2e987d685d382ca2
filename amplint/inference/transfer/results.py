"""The tensor that an operation of RESULTS returns, from what its operands are."""

from __future__ import annotations

from dataclasses import replace

from amplint.core.lattice import only
from amplint.core.values import (
    CPU,
    NONE,
    UNKNOWN,
    Arguments,
    Host,
    Reason,
    Sequence,
    Shows,
    Tensor,
    TensorTree,
    Value,
    constant,
    first_of,
    one,
)
from amplint.inference import ranks
from amplint.inference.ranks import Call
from amplint.inference.transfer.arguments import dtype_of, names_dtype
from amplint.inference.transfer.kinds import NOTHING, Site
from amplint.inference.transfer.promotion import (
    autocast_dtype,
    common_device,
    number_kinds,
    promote,
)
from amplint.knowledge.casts import DTYPE_OF_CAST
from amplint.knowledge.dtypes import FLOATS
from amplint.knowledge.operations import DETACHED, Result


def tensor_result(
    name: str, result: Result, operands: list[Tensor], arguments: Arguments, site: Site
) -> Tensor:
    """The tensor that an operation of RESULTS returns."""
    first = operands[0] if operands else Tensor()
    # A view, and what is named by its sizes, stay where they are, wherever the sizes come from.
    stays = result.kind == "same" or result.rank == "sizes"
    device = CPU if result.device == "cpu" else common_device(operands[: 1 if stays else None])
    dtype: str | None
    evidence: Reason | None = None
    word = division_dtype(arguments) or result.dtype
    if word in ("same", "float-of", "long-of"):
        dtype, evidence = first.dtype, first.dtype_evidence
        if word == "float-of" and dtype is not None and dtype not in FLOATS:
            dtype = "float32"
        if word == "long-of" and dtype is not None and dtype not in FLOATS:
            dtype = "int64"
    elif word in ("promote", "promote-float"):
        # What is joined has the same number of dimensions.
        ranked = [replace(t, rank=1) for t in operands] if result.rank == "some" else operands
        dtype = promote(ranked, word == "promote-float", number_kinds(arguments.all))
        evidence = first_of(t.dtype_evidence for t in operands if t.dtype == dtype)
    elif word in ("default",):
        dtype = "float32"
    elif word in ("arg", "unknown"):
        dtype = None
    else:
        dtype = word
        evidence = (
            site.evidence(f"cast to {dtype} here", Shows.DTYPE) if name in DTYPE_OF_CAST else None
        )
    if result.rank == "reduction" and len({t.dtype for t in operands}) > 1:
        dtype, evidence = None, None  # losses of mixed dtypes do not agree on what they do
    cast = autocast_dtype(name, operands, arguments, site)
    if cast is not None and word not in ("bool", "int64"):
        dtype, evidence = (None, None) if word == "unknown" else cast
    explicit = arguments.get("dtype")
    for given in arguments.positional if explicit is None else ():
        if names_dtype(given):  # `x.softmax(-1, torch.float32)`
            explicit = given
    if explicit is not None and explicit != NOTHING:
        dtype = dtype_of(explicit)
        evidence = (
            site.evidence(f"made as {dtype} here", Shows.DTYPE) if dtype is not None else None
        )
    rank = result_rank(result.rank, operands, arguments)
    made = Tensor(dtype, device, rank, result_grad(name, dtype, operands), evidence)
    of_method = name.startswith("Tensor.") and operands
    call = Call(one(first), arguments) if of_method else ranks.of_function(arguments)
    return with_dims(made, ranks.of_result(name, result.rank, call))


def division_dtype(arguments: Arguments) -> str | None:
    """The dtype word of a division that rounds: the quotient of integers is one."""
    given = arguments.keywords.get("rounding_mode", NOTHING)
    if given == NOTHING:
        return None
    return "promote" if isinstance(constant(given), str) else "unknown"


def result_rank(word: str, operands: list[Tensor], arguments: Arguments) -> int | None:
    """Whether the result has dimensions, where their number is unknown."""
    ranks = [t.rank for t in operands]
    if word == "same":
        return ranks[0] if ranks else None
    if word == "sizes":
        sizes = arguments.positional
        empty = any(isinstance(a, Sequence) and a.items == () for v in sizes[:1] for a in v)
        return 1 if sizes and not empty else None
    return 1 if word == "some" or (word == "broadcast" and 1 in ranks) else None


def with_dims(tensor: Tensor, number: int | None) -> Tensor:
    """The tensor with so many dimensions; as it is, where their number is unknown."""
    if number is None:
        return tensor
    return replace(tensor, rank=min(number, 1), dims=number or None)


def result_grad(name: str, dtype: str | None, operands: list[Tensor]) -> bool | None:
    if name in DETACHED:
        return False
    if dtype is not None and dtype not in FLOATS:
        return False
    if any(t.grad for t in operands):
        return True
    return False if operands and all(t.grad is False for t in operands) else None


def from_result(
    name: str, result: Result, operands: list[Tensor], arguments: Arguments, site: Site
) -> Value:
    """The result that RESULTS gives for a call with these tensor operands."""
    if result.alone is not None and len(arguments.all) == 1 - name.startswith("Tensor."):
        result = result.alone
    elif result.by_tensor is not None and tensor_for_dim(name, result, arguments):
        result = result.by_tensor
    dim_given = has_dim(name, result, arguments)
    if dim_given and result.by_dim is not None:
        result = result.by_dim
    if result.kind.startswith("host:"):
        return one(Host(result.kind[5:]))
    if result.kind == "none":
        return NOTHING
    if result.kind in ("device", "dtype"):
        return UNKNOWN
    tensor = tensor_result(name, result, operands, arguments, site)
    if result.kind in ("self", "same") and operands:
        kept = operands[0]
        tensor = replace(tensor, fresh=kept.fresh if result.kind == "self" else None)
        if result.kind == "self":
            tensor = replace(tensor, dtype=kept.dtype, device=kept.device)
    if result.kind == "tensors" or any(constant(arguments.get(k)) is True for k in result.tuple_if):
        if result.count is None:
            return one(Sequence(None, one(tensor)))
        dtypes = result.dtypes or ("same",) * result.count
        items = tuple(
            one(tensor if d == "same" else replace(tensor, dtype=d, grad=False)) for d in dtypes
        )
        return one(Sequence(items, one(tensor), names=result.names))
    return one(tensor)


def at_dim(name: str, result: Result, arguments: Arguments) -> Value | None:
    """The positional argument that stands where `dim` may."""
    if result.dim is None:
        return None
    position = result.dim + (0 if name.startswith("Tensor.") else 1)
    return arguments.positional[position] if position < len(arguments.positional) else None


def tensor_for_dim(name: str, result: Result, arguments: Arguments) -> bool:
    """Ex) torch.max(a, b), which is elementwise"""
    given = arguments.get("other") or at_dim(name, result, arguments)
    return given is not None and isinstance(only(given), Tensor | TensorTree)


def has_dim(name: str, result: Result, arguments: Arguments) -> bool:
    if arguments.has("dim") or arguments.has("axis") or arguments.unsure:
        return True
    given = at_dim(name, result, arguments)
    atom = only(given) if given is not None else NONE
    return given is not None and not (isinstance(atom, Host) and atom.kind == "bool")
