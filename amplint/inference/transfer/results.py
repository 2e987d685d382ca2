"""The tensor that an operation of RESULTS returns, from what its operands are."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from amplint.inference.transfer import ranks
from amplint.inference.transfer.arguments import dtype_of, names_dtype
from amplint.inference.transfer.kinds import NOTHING, Site
from amplint.inference.transfer.promotion import (
    autocast_dtype,
    common_device,
    lifted,
    number_kinds,
    promote,
    tensors_in,
)
from amplint.inference.transfer.ranks import RankedCall
from amplint.knowledge.casts import DTYPE_OF_CAST, EQUAL_DTYPES
from amplint.knowledge.dtypes import FLOATS
from amplint.knowledge.operations import DETACHED, OperationResult
from amplint.values.atoms import (
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
    surely,
)
from amplint.values.lattice import agreed, only


def tensor_result(
    name: str, result: OperationResult, operands: list[Tensor], arguments: Arguments, site: Site
) -> Tensor:
    """The tensor that an operation of RESULTS returns."""
    first = operands[0] if operands else Tensor()
    # A view, and what is named by its sizes, stay where they are, wherever the sizes come from.
    stays = result.kind == "same" or result.rank == "sizes"
    on_host = result.device == "cpu" or (not operands and is_of_numbers(arguments))
    device = CPU if on_host else common_device(operands[: 1 if stays else None])
    dtype, evidence, half = result_dtype(name, result, operands, arguments, site)
    rank = result_rank(result.rank, operands, arguments)
    grad = result_grad(name, dtype, operands)
    tensor = Tensor(dtype, device, rank, grad, evidence, half=half)
    of_method = name.startswith("Tensor.") and operands
    call = RankedCall(one(first), arguments) if of_method else ranks.of_function(arguments)
    return with_dims(tensor, ranks.of_result(name, result.rank, call))


def is_of_numbers(arguments: Arguments) -> bool:
    """Whether a function of torch is given numbers of the host alone: `torch.div(height, 16)`.

    It takes them where a trace has made tensors of them, and these are on the CPU.
    """
    operands = arguments.positional
    return bool(operands) and all(surely(value, Host) for value in operands)


class ShownDtype(NamedTuple):
    """A dtype, and the evidence for it; of an unknown one, the half that it is on one path."""

    dtype: str | None
    evidence: Reason | None
    half: str | None = None


NOT_KNOWN = ShownDtype(None, None)
# The words for a dtype that follows the first operand's -> what other dtypes than floats become.
LIKE_FIRST = {"same": None, "float-of": "float32", "long-of": "int64"}


def result_dtype(
    name: str, result: OperationResult, operands: list[Tensor], arguments: Arguments, site: Site
) -> ShownDtype:
    """The dtype of a result: the one that is asked for, or autocast's, or the operation's own."""
    explicit = explicit_dtype(arguments)
    if explicit is not None:
        dtype = dtype_of(explicit)
        evidence = site.evidence(f"made as {dtype} here", Shows.DTYPE)
        return ShownDtype(dtype, evidence) if dtype is not None else NOT_KNOWN
    word = division_dtype(arguments) or result.dtype
    cast = autocast_dtype(name, operands, arguments, site)
    if cast is not None and word not in ("bool", "int64"):
        return NOT_KNOWN if word == "unknown" else ShownDtype(*cast)
    dtypes = {t.dtype for t in operands}
    if result.rank == "reduction" and len(dtypes) > 1:
        return NOT_KNOWN  # losses of mixed dtypes do not agree on what they do
    if name in EQUAL_DTYPES and len(dtypes & FLOATS) > 1:
        return NOT_KNOWN  # it raises; a mask of bools may stand beside the others
    return native_dtype(word, name, result, operands, arguments, site)


def native_dtype(
    word: str,
    name: str,
    result: OperationResult,
    operands: list[Tensor],
    arguments: Arguments,
    site: Site,
) -> ShownDtype:
    """The dtype that an operation has by itself, by the word for it in RESULTS."""
    if word in LIKE_FIRST:
        first = operands[0] if operands else Tensor()
        converted = first.dtype is not None and first.dtype not in FLOATS and LIKE_FIRST[word]
        return ShownDtype(converted or first.dtype, first.dtype_evidence, first.half)
    if word in ("promote", "promote-float"):
        # What is joined has the same number of dimensions.
        sides = without_condition(name, operands, arguments)
        ranked = [replace(t, rank=1) for t in sides] if result.rank == "some" else sides
        numbers = number_kinds(arguments.all)
        dtype = promote(ranked, word == "promote-float", numbers)
        if not sides and numbers and numbers <= {"bool", "float", "int"}:
            dtype = lifted("bool", numbers)  # torch.where(mask, 1.0, 0.0)
        half = agreed(t.half_on_a_path for t in ranked) if dtype is None else None
        like = [t for t in sides if t.dtype == dtype or (half and t.half_on_a_path)]
        return ShownDtype(dtype, first_of(t.dtype_evidence for t in like), half)
    if word in ("default", "arg", "unknown"):
        return ShownDtype("float32", None) if word == "default" else NOT_KNOWN
    cast = name in DTYPE_OF_CAST
    return ShownDtype(word, site.evidence(f"cast to {word} here", Shows.DTYPE) if cast else None)


def without_condition(name: str, operands: list[Tensor], arguments: Arguments) -> list[Tensor]:
    """The operands that a result is promoted of: a condition is none. It need not be known that it
    is a mask: another tensor raises.

    Ex) x and y of torch.where(mask, x, y), and of x.where(mask, y)
    """
    if name not in ("torch.where", "Tensor.where") or not tensors_in(arguments.positional[:1]):
        return operands
    place = 1 if name == "Tensor.where" else 0
    return [*operands[:place], *operands[place + 1 :]]


def explicit_dtype(arguments: Arguments) -> Value | None:
    """The dtype that a call asks for, by name or by place: `x.softmax(-1, torch.float32)`."""
    explicit = arguments.get("dtype")
    if explicit is None:
        explicit = next((v for v in reversed(arguments.positional) if names_dtype(v)), None)
    return explicit if explicit != NOTHING else None


def division_dtype(arguments: Arguments) -> str | None:
    """The dtype word of a division that rounds: the quotient of integers is one."""
    rounding = arguments.keywords.get("rounding_mode", NOTHING)
    if rounding == NOTHING:
        return None
    return "promote" if isinstance(constant(rounding), str) else "unknown"


def result_rank(word: str, operands: list[Tensor], arguments: Arguments) -> int | None:
    """Whether the result has dimensions, where their number is unknown."""
    ranks = [t.rank for t in operands]
    if word == "same" or keeps_dimensions(arguments):
        return ranks[0] if ranks else None
    if word == "sizes":
        sizes = arguments.positional
        empty = any(isinstance(a, Sequence) and a.items == () for v in sizes[:1] for a in v)
        return 1 if sizes and not empty else None
    if word == "product":  # of two vectors it has none; what may be a matrix is taken for one
        return 1 if any(t.rank == 1 and t.dims != 1 for t in operands) else None
    return 1 if word == "some" or (word == "broadcast" and 1 in ranks) else None


def keeps_dimensions(arguments: Arguments) -> bool:
    """Ex) x.mean(-1, keepdim=True)"""
    return constant(arguments.keywords.get("keepdim", NOTHING)) is True


def with_dims(tensor: Tensor, number: int | None) -> Tensor:
    """The tensor with this number of dimensions; as it is, where their number is unknown."""
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
    name: str, result: OperationResult, operands: list[Tensor], arguments: Arguments, site: Site
) -> Value:
    """The result that RESULTS has for a call with these tensor operands."""
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
        operand = operands[0]
        tensor = replace(tensor, fresh=operand.fresh if result.kind == "self" else None)
        if result.kind == "self":
            tensor = replace(tensor, dtype=operand.dtype, half=operand.half, device=operand.device)
    further = [k for k in result.tuple_if if constant(arguments.get(k)) is True]
    if result.kind == "tensors" or further:
        if further and result.dtype == "same":
            dtypes: tuple[str, ...] = ("same", *("int64" for _ in further))
        elif result.count is None:
            return one(Sequence(None, one(tensor)))
        else:
            dtypes = result.dtypes or ("same",) * result.count
        items = tuple(
            one(tensor if d == "same" else replace(tensor, dtype=d, half=None, grad=False))
            for d in dtypes
        )
        return one(Sequence(items, one(tensor), names=result.names))
    return one(tensor)


def at_dim(name: str, result: OperationResult, arguments: Arguments) -> Value | None:
    """The positional argument that stands where `dim` may."""
    if result.dim is None:
        return None
    position = result.dim + (0 if name.startswith("Tensor.") else 1)
    return arguments.positional[position] if position < len(arguments.positional) else None


def tensor_for_dim(name: str, result: OperationResult, arguments: Arguments) -> bool:
    """Ex) torch.max(a, b), which is elementwise"""
    argument = arguments.get("other") or at_dim(name, result, arguments)
    return argument is not None and isinstance(only(argument), Tensor | TensorTree)


def has_dim(name: str, result: OperationResult, arguments: Arguments) -> bool:
    if arguments.has("dim") or arguments.has("axis") or arguments.unsure:
        return True
    argument = at_dim(name, result, arguments)
    atom = only(argument) if argument is not None else NONE
    return argument is not None and not (isinstance(atom, Host) and atom.kind == "bool")
