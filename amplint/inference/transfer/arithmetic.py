"""Operators: binary, augmented, unary, comparisons."""

from __future__ import annotations

from dataclasses import replace

from amplint.inference.transfer.arguments import text_begun
from amplint.inference.transfer.containers import updated
from amplint.inference.transfer.kinds import BOOL, FLOAT, INT, NUMBER, STR, Site
from amplint.inference.transfer.promotion import tensors_in
from amplint.inference.transfer.results import from_result, tensor_result
from amplint.knowledge.dtypes import FLOATS
from amplint.knowledge.operations import OPERATORS, REFLECTED, RESULTS
from amplint.values.atoms import (
    BOTTOM,
    CPU,
    NONE,
    NUMBER_KINDS,
    NUMBER_OR_BOOL_KINDS,
    PERHAPS_CPU,
    UNKNOWN,
    Arguments,
    Atom,
    Host,
    Instance,
    Mapping,
    Object,
    Sequence,
    Tensor,
    TensorTree,
    Unknown,
    Value,
    constant,
    is_host,
    one,
    ordered,
)
from amplint.values.lattice import agreed, is_open, is_unknown, join, join_devices, known

MAX_REPEATED = 16  # elements of `(None,) * 8` that are known one by one


def binary(operator: str, left: Value, right: Value, site: Site) -> Value:
    """`left <operator> right`."""
    left, right = beside(left, right), beside(right, left)
    value = join(
        binary_atoms(operator, a, b, site) for a in left for b in right if NONE not in (a, b)
    )
    one_is_unknown = is_unknown(left) or is_unknown(right)
    return join([value, NUMBER]) if one_is_unknown and is_either(left, right) else value


NUMBERS = NUMBER_KINDS | {"size"}  # such as x.size(0)


def beside(value: Value, other: Value) -> Value:
    """The operand that stands beside another one.

    What is a number on one path, and unknown on another, counts as a number beside a tensor: on
    that path the tensor keeps its dtype. Ex) `scores / temperature`, with a number as its default
    """
    if not is_open(value) or not any(isinstance(a, Tensor | TensorTree) for a in other):
        return value
    is_number = any(isinstance(a, Host) and a.kind in NUMBERS for a in value)
    return known(value) if is_number else value


def is_either(*operands: Value) -> bool:
    """Whether an operand is a tensor on one path and a number on another. What is computed from it
    and something unknown is a number on that path still, or unknown: it must not pass for what is
    a tensor wherever it is known. Ex) `num % divisor`, with a `num` that calls give either for
    """
    return any(
        any(isinstance(a, Tensor) for a in operand)
        and any(isinstance(a, Host) and a.kind in NUMBER_KINDS for a in operand)
        for operand in operands
    )


def binary_atoms(operator: str, left: Atom, right: Atom, site: Site) -> Value:
    if isinstance(left, Host) and left.kind == "str" and operator in ("Add", "Mod"):
        return text_begun(left.const, site)
    operands = tensors_in([one(left), one(right)])
    if isinstance(left, Tensor | TensorTree) or isinstance(right, Tensor | TensorTree):
        other = right if isinstance(left, Tensor | TensorTree) else left
        if isinstance(other, Unknown):
            operands.append(Tensor())
            if len(operands) == 2 and isinstance(right, Tensor | TensorTree):
                operands.reverse()
        elif isinstance(other, Sequence):
            return UNKNOWN
        reflected = not isinstance(left, Tensor | TensorTree)
        table = REFLECTED if reflected else OPERATORS
        name = f"Tensor.{table.get(operator, '__add__')}"
        result = RESULTS.get(name)
        if result is None:
            return UNKNOWN
        if isinstance(other, Unknown) and result.dtype.startswith("promote"):
            # An unknown operand may be a number, which changes nothing, or a tensor.
            tensor = (
                next(t for t in operands if t != Tensor())
                if operands != [Tensor()] * 2
                else Tensor()
            )
            both = [tensor, Tensor(rank=tensor.rank)]
            output = tensor_result(name, result, both, Arguments(), site)
            return one(replace(output, rank=1 if tensor.rank == 1 else None, dims=None))
        return from_result(name, result, operands, Arguments((one(other),)), site)
    if isinstance(left, Host) and isinstance(right, Host):
        return host_arithmetic(operator, left, right)
    if isinstance(left, Mapping) and isinstance(right, Mapping) and operator == "BitOr":
        return one(updated(left, [right]))
    if isinstance(left, Sequence) and isinstance(right, Sequence) and operator == "Add":
        return one(
            Sequence(
                None, join([left.element, right.element, *(left.items or ()), *(right.items or ())])
            )
        )
    if isinstance(left, Sequence) and operator == "Mult":
        count = constant(one(right))
        if isinstance(count, int) and left.items and 0 < count * len(left.items) <= MAX_REPEATED:
            return one(replace(left, items=left.items * count, names=()))
        return one(Sequence(None, join([left.element, *(left.items or ())])))
    return UNKNOWN


def host_arithmetic(operator: str, left: Host, right: Host) -> Value:
    kinds = {left.kind, right.kind}
    if "numpy" in kinds:
        arrays = [host for host in (left, right) if host.kind == "numpy"]
        is_known = kinds <= {"numpy", *NUMBER_OR_BOOL_KINDS}
        dtype = agreed(array.dtype for array in arrays) if is_known else None
        ranks = {array.rank for array in arrays}
        rank = 1 if 1 in ranks and operator != "MatMult" else None
        return one(Host("numpy", dtype=dtype if dtype in FLOATS else None, rank=rank))
    if kinds <= {"str"}:
        return STR
    if operator == "Div":
        return FLOAT
    if kinds <= {"int", "bool"}:
        return INT
    return FLOAT if "float" in kinds and kinds <= {"int", "float", "bool", "number"} else NUMBER


def augmented(operator: str, target: Value, value: Value, site: Site) -> Value:
    """`target += value`: in place for tensors, which keep dtype, device and rank."""
    results = []
    for atom in beside(target, value):
        if isinstance(atom, Tensor) and operator != "MatMult":
            others = tensors_in([value])
            grad = True if any(t.grad for t in [atom, *others]) else atom.grad
            results.append(one(replace(begun_by(atom, others), grad=grad)))
        else:
            results.append(binary(operator, one(atom), value, site))
    return join(results)


def begun_by(target: Tensor, added: list[Tensor]) -> Tensor:
    """The target with the evidence of what is added to it, where it has none of its own.

    Ex) `total = 0.0`, and then `total += loss` in a loop: a tensor since the first loss.
    """
    like = next((t for t in added if t.dtype == target.dtype), None)
    near = next((t for t in added if t.device.kind == target.device.kind), None)
    if target.dtype_evidence is None and like is not None:
        target = replace(target, dtype_evidence=like.dtype_evidence)
    if target.device.evidence is None and near is not None:
        device = replace(target.device, evidence=near.device.evidence)
        target = replace(target, device=device)
    return target


def unary(operator: str, operand: Value, site: Site) -> Value:
    if operator == "Not":
        return BOOL
    results = []
    for atom in operand:
        if isinstance(atom, Host):
            if atom.known and operator == "USub" and isinstance(atom.const, int | float):
                results.append(one(replace(atom, const=-atom.const)))
            else:
                results.append(one(Host(atom.kind)))
        elif isinstance(atom, Tensor | TensorTree):
            name = f"Tensor.{OPERATORS.get(operator, '__neg__')}"
            results.append(
                from_result(name, RESULTS[name], tensors_in([one(atom)]), Arguments(), site)
            )
        else:
            results.append(UNKNOWN)
    return join(results)


def compare(operators: tuple[str, ...], operands: list[Value], site: Site) -> Value:
    """A comparison of tensors is a tensor of bools; `is`, `in` and those of numbers are bools. One
    of several parts, as `0 < x < 1`, is the part that decides."""
    parts = zip(operators, operands, operands[1:], strict=False)
    return join(compare_two(operator, left, right, site) for operator, left, right in parts)


def compare_two(operator: str, left: Value, right: Value, site: Site) -> Value:
    if operator in ("Is", "IsNot", "In", "NotIn"):
        return BOOL
    if operator in ORDERING or is_host(left, {"float"}) or is_host(right, {"float"}):
        # Lists and dicts have no order with numbers, and equal no float: what has one, or may, is
        # the tensor itself.
        left, right = without_nests(left), without_nests(right)
    if any(isinstance(a, Tensor) for a in (*left, *right)):
        return join(compare_atoms(operator, a, b, site) for a in left for b in right)
    if any(isinstance(a, Unknown | Instance | Object) for a in (*left, *right)):
        return UNKNOWN
    blobs = [a for a in (*left, *right) if isinstance(a, TensorTree)]
    if blobs:
        # A mask if it is a tensor that is compared, and one answer if it is anything else.
        numbers = all(isinstance(a, TensorTree) or _is_number(a) for a in (*left, *right))
        return one(TensorTree(join_devices([b.device for b in blobs]))) if numbers else UNKNOWN
    if any(isinstance(a, Host) and a.kind == "numpy" for a in (*left, *right)):
        return one(Host("numpy", dtype="bool"))
    return BOOL


ORDERING = frozenset({"Lt", "LtE", "Gt", "GtE"})


def without_nests(value: Value) -> Value:
    """The value, where it cannot be a nest of tensors: what may be one is a tensor."""
    return frozenset(
        Tensor(device=a.device) if isinstance(a, TensorTree) else a for a in ordered(value)
    )


def used_as_tensor(value: Value) -> Value:
    """The value of what is asked for an attribute that tensors have: of its alternatives, those
    without such an attribute are not meant, for there the program would end."""
    return frozenset(atom for atom in value if not _is_plain(atom)) or value


def _is_plain(atom: Atom) -> bool:
    """Whether this is a number, a text, None or a container: all but a namespace."""
    if isinstance(atom, Host):
        return atom.kind not in ("numpy", "size")
    return (isinstance(atom, Sequence) and not atom.names) or (
        isinstance(atom, Mapping) and not atom.items
    )


def _is_number(atom: Atom) -> bool:
    return isinstance(atom, Host) and atom.kind in ("int", "float", "number", "bool")


def compare_atoms(operator: str, left: Atom, right: Atom, site: Site) -> Value:
    if not isinstance(left, Tensor) and not isinstance(right, Tensor):
        return UNKNOWN if isinstance(left, Unknown) or isinstance(right, Unknown) else BOOL
    if NONE in (left, right) and operator not in ("Eq", "NotEq"):
        return BOTTOM  # it would raise
    if NONE in (left, right) or any(isinstance(a, Host) and a.kind == "str" for a in (left, right)):
        return BOOL
    operands = tensors_in([one(left), one(right)])
    alone = operands[0].device if len(operands) == 1 else None
    beside_unknown = isinstance(left, Unknown) or isinstance(right, Unknown)
    if beside_unknown:
        operands.append(Tensor())
    name = f"Tensor.{OPERATORS[operator]}"
    other = right if isinstance(left, Tensor | TensorTree) else left
    arguments = Arguments((one(other),))
    value = from_result(name, RESULTS[name], operands, arguments, site)
    # As likely a size or a count that is compared on the host. So is what is compared with a tensor
    # of the CPU, of which nothing is known: it may be a number.
    kind = alone.kind if alone is not None else None
    if kind == PERHAPS_CPU.kind or (kind == CPU.kind and beside_unknown):
        value = frozenset(
            replace(a, device=PERHAPS_CPU) if isinstance(a, Tensor) else a for a in value
        )
    return value
