"""How many dimensions a tensor has: what torch's operations make of those that they are given.

A rule is a small function of a call, the tables say which operation follows which, and None stands
for "unknown" all through. Whatever a rule says must be so: a tensor that is wrongly taken for one
without dimensions is a false alarm. `tests/oracles/test_torch_ops.py` holds every rule
against torch.

Where the word that RESULTS or MODULES has for the rank says the number as well ("same",
"scalar", "broadcast"), it is the rule; the tables here are for the most common of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from amplint.knowledge.factories import Factory
from amplint.knowledge.modules import ModuleFacts
from amplint.knowledge.names import names
from amplint.values.atoms import (
    INTEGER_KINDS,
    NONE,
    UNKNOWN,
    Arguments,
    Atom,
    DType,
    Host,
    Symbol,
    Tensor,
    Value,
    constant,
    is_host,
    is_number,
    one,
)
from amplint.values.atoms import Sequence as Row
from amplint.values.lattice import known

ELLIPSIS = Symbol("builtins.Ellipsis")
MASKS = frozenset({"bool", "uint8"})


class RankedCall(NamedTuple):
    """A call as the rules see it: a function of torch looks like the method of that name.

    Args:
        tensor: the receiver of a method, the first argument of a function.
        rest: the arguments after it.
    """

    tensor: Value
    rest: Arguments

    def get(self, position: int, *keywords: str) -> Value | None:
        """The argument of that position after the tensor, or of one of the names."""
        values = [self.rest.keywords[word] for word in keywords if word in self.rest.keywords]
        if values:
            return values[0]
        return self.rest.positional[position] if position < len(self.rest.positional) else None


Rule = Callable[[RankedCall], int | None]


def of_function(arguments: Arguments) -> RankedCall:
    """The call of a function of torch, whose first argument is the tensor, or are the tensors."""
    first, rest = arguments.positional[:1], arguments.positional[1:]
    named = arguments.get("input") or arguments.get("tensors") or UNKNOWN
    return RankedCall(
        first[0] if first and not arguments.stars else named,
        replace(arguments, positional=rest),
    )


def of_result(name: str, rank: str, call: RankedCall) -> int | None:
    """How many dimensions the result of an operation has, or each of several.

    Args:
        name: a key of RESULTS.
        rank: the word for the rank there.
    """
    rule = RULES.get(name) or BY_RANK.get(rank)
    is_unsure = call.rest.unsure and rule not in (same, no_dimension)
    return None if rule is None or is_unsure or "out" in call.rest.keywords else rule(call)


def of_layer(name: str, facts: ModuleFacts, call: RankedCall) -> int | None:
    """How many dimensions the output of a layer of torch.nn has, or the first of several."""
    keeps = facts.rank in ("same", "some") and name not in CHANGING
    return same(call) if keeps and not call.rest.unsure else None


def of_factory(name: str, facts: Factory, arguments: Arguments) -> int | None:
    """How many dimensions the tensor that a factory builds has.

    Args:
        arguments: without the receiver, where it is a method.
    """
    if facts.rank in ("scalar", "some"):
        return 0 if facts.rank == "scalar" else FACTORIES_OF_PLANES.get(name, 1)
    shape = shape_arguments(facts, arguments)
    if facts.rank == "sizes":
        return of_sizes(shape)
    return nesting(shape[0]) if shape and facts.rank in ("like", "data") else None


def shape_arguments(facts: Factory, arguments: Arguments) -> tuple[Value, ...]:
    """Those of the arguments that decide the shape: the sizes, the data, a tensor of that shape."""
    word = "size" if facts.rank == "sizes" else facts.parameters[0]
    if word in arguments.keywords:
        return (arguments.keywords[word],)
    positional = arguments.positional
    if arguments.unsure or facts.sizes or not positional:
        return () if arguments.unsure else positional
    # torch.randint has its size last, whether it is given a lower bound or not.
    place = min(facts.parameters.index(word), len(positional) - 1)
    return positional[place : place + 1]


def of_constructor(arguments: Arguments) -> int | None:
    """Ex) torch.Tensor(2, 3), torch.LongTensor([1, 2])"""
    positional = arguments.positional
    if arguments.unsure or not positional:
        return None
    if isinstance(single_atom(positional[0]), Row):
        return nesting(positional[0])
    return len(positional) if all(is_host(value, INTEGER_KINDS) for value in positional) else None


def of_item(tensor: int | None, keys: Sequence[Value]) -> int | None:
    """The rank of a subscripted tensor; the elements of the index are the keys: `x[:, 0, mask]`.

    A number takes a dimension away and None adds one. What gathers takes one away, a mask as many
    as it has itself, and all that gather put those that they have in common in their place.
    """
    if tensor is None:
        return None
    gathered = []
    for key in keys:
        atom = single_atom(key)
        if atom == NONE:
            tensor += 1
        elif is_host(key, INTEGER_KINDS):
            tensor -= 1
        elif isinstance(atom, Tensor | Row):
            own = nesting(key)
            kind = atom.dtype if isinstance(atom, Tensor) else None
            # Of one dimension, a mask and a list of indices come to the same.
            if own is None or (kind is None and own != 1):
                return None
            tensor -= own if kind in MASKS else 1
            gathered.append(1 if kind in MASKS else own)
        elif not is_slice(key) and atom != ELLIPSIS:
            return None
    return tensor + max(gathered, default=0) if tensor >= 0 else None


# ---------------------------------------------------------------------------- values


def single_atom(value: Value) -> Atom | None:
    """The one thing that the value certainly is, None as a value included."""
    return next(iter(value)) if len(value) == 1 else None


def is_slice(value: Value) -> bool:
    atom = single_atom(value)
    return isinstance(atom, Host) and atom.kind == "object"


def count(value: Value | None) -> int | None:
    """How many dimensions an operand has; a number of Python has none.

    What is a tensor on one path, and anything on another, counts as that tensor: as everywhere in
    the engine, what is said holds on the path that is seen.
    """
    if value is None or is_number(value):
        return None if value is None else 0
    atom = single_atom(known(value) - {NONE})
    if not isinstance(atom, Tensor):
        return None
    return 0 if atom.rank == 0 else atom.dims


def nesting(value: Value) -> int | None:
    """How many dimensions a tensor of these data has: a tensor, a number, a nest of lists."""
    atom = single_atom(value)
    if not isinstance(atom, Row):
        return count(value)
    inside = atom.items if atom.items is not None else (atom.element,)
    return plus(nesting(inside[0]), 1) if inside else 1


def of_sizes(sizes: Sequence[Value]) -> int | None:
    """How many sizes these are: (2, 3), ((2, 3),), (n,)"""
    if len(sizes) != 1:
        return len(sizes) or None
    atom = single_atom(sizes[0])
    if isinstance(atom, Row):
        return len(atom.items) if atom.items is not None else None
    return 1 if is_host(sizes[0], INTEGER_KINDS) else None


def plus(number: int | None, more: int | None) -> int | None:
    return None if number is None or more is None else number + more


def minus(number: int | None, dimensions: int | None) -> int | None:
    """The rank that is left: at least 0, since torch lets 0-dim tensors name a dimension."""
    return None if number is None or dimensions is None else max(number - dimensions, 0)


def most(counts: Iterable[int | None]) -> int | None:
    """The rank of a broadcast."""
    ranks = list(counts)
    return max((n for n in ranks if n is not None), default=None) if None not in ranks else None


# ---------------------------------------------------------------------------- rules


def same(call: RankedCall) -> int | None:
    return count(call.tensor)


def no_dimension(_: RankedCall) -> int | None:
    return 0


def fixed(number: int) -> Rule:
    return lambda _: number


def more(number: int) -> Rule:
    """Ex) unsqueeze, diagonal (-1)"""
    return lambda call: plus(same(call), number) if number > 0 else minus(same(call), -number)


def broadcast(call: RankedCall) -> int | None:
    """Ex) x + y, torch.where(mask, x, 0), torch.broadcast_tensors(x, y)"""
    operands = [call.tensor, *call.rest.positional, *call.rest.keywords.values()]
    return most(count(operand) for operand in operands if not is_setting(operand))


def is_setting(value: Value) -> bool:
    """Ex) rounding_mode="floor", max=None, dtype=torch.float32"""
    return bool(value) and all(
        atom == NONE or isinstance(atom, DType) or (isinstance(atom, Host) and atom.kind == "str")
        for atom in value
    )


def loss(call: RankedCall) -> int | None:
    """Ex) F.mse_loss(x, y), which has no dimension unless reduction="none"."""
    reduction = call.rest.keywords.get("reduction")
    return 0 if reduction is None or constant(reduction) in ("mean", "sum") else None


def rank_of_sizes(call: RankedCall) -> int | None:
    """Ex) x.view(2, -1), torch.reshape(x, (2, -1)), x.view(torch.int32)"""
    named = call.get(len(call.rest.positional), "size", "shape", "dims", "repeats")
    sizes = call.rest.positional if named is None else (named,)
    return same(call) if sizes and isinstance(single_atom(sizes[0]), DType) else of_sizes(sizes)


def reduction(dim: int, keepdim: int) -> Rule:
    """Ex) x.sum(1), x.mean((1, 2), keepdim=True), torch.median(x)

    Args:
        dim: where the dim may stand after the tensor.
        keepdim: likewise.
    """

    def rule(call: RankedCall) -> int | None:
        keeps_dim = call.get(keepdim, "keepdim", "keepdims")
        if keeps_dim is not None and constant(keeps_dim) is not False:
            return same(call) if constant(keeps_dim) is True else None
        dims = call.get(dim, "dim", "axis")
        if dims is not None and not is_host(dims, {"bool"}) and dims != {NONE}:
            return minus(same(call), of_sizes([dims]) or None)
        return 0

    return rule


def extremum(call: RankedCall) -> int | None:
    """Ex) torch.max(x, 1), torch.max(x, y)"""
    second = single_atom(call.get(0, "other") or frozenset())
    return broadcast(call) if isinstance(second, Tensor) else reduction(0, 1)(call)


def flattened_rank(call: RankedCall) -> int | None:
    """Ex) x.ravel(), x.unique(): all elements as one line, where nothing else is said"""
    return None if call.rest.positional or call.rest.keywords else 1


def flattened(call: RankedCall) -> int | None:
    """Ex) x.flatten(), x.flatten(1), which leaves two dimensions of any number"""
    start = call.get(0, "start_dim")
    first = 0 if start is None else constant(start)
    to_the_end = call.get(1, "end_dim") is None
    return first + 1 if to_the_end and isinstance(first, int) and first >= 0 else None


def places(call: RankedCall) -> int | None:
    """Ex) x.nonzero(), x.nonzero(as_tuple=True)"""
    as_tuple = constant(call.rest.keywords.get("as_tuple", one(Host("bool", False, True))))
    return 2 - as_tuple if isinstance(as_tuple, bool) else None


def rank_of_where(call: RankedCall) -> int | None:
    """Ex) torch.where(mask, x, y), torch.where(mask)"""
    return broadcast(call) if call.rest.positional or call.rest.keywords else 1


def rank_of_einsum(call: RankedCall) -> int | None:
    """Ex) 2, of torch.einsum("ij,jk->ik", x, y)"""
    equation = constant(call.tensor)
    _, arrow, result = equation.partition("->") if isinstance(equation, str) else ("", "", "")
    return len(result.replace(" ", "")) if arrow and "." not in result else None


BY_RANK: dict[str, Rule] = {
    "same": same,
    "scalar": no_dimension,
    "scalar-without-dim": reduction(0, 1),
    "broadcast": broadcast,
    "reduction": loss,
    "sizes": rank_of_sizes,
}

_RULES: tuple[tuple[Rule, str], ...] = (
    (same, "chunk multinomial split tril triu"),
    (fixed(1), "addmv bincount masked_select mv"),
    (fixed(2), "addbmm addmm mm torch.chain_matmul"),
    (fixed(3), "baddbmm bmm"),
    (more(1), "unsqueeze F.embedding F.one_hot"),
    (more(-1), "select unbind .__iter__"),
    (reduction(0, 2), "std var torch.std_mean torch.var_mean"),
    (reduction(1, 2), "norm linalg.norm linalg.vector_norm"),
    (extremum, "max min"),
    (flattened_rank, "ravel unique unique_consecutive"),
    (flattened, "flatten"),
    (places, "nonzero"),
    (rank_of_where, "where"),
    (rank_of_einsum, "torch.einsum"),
)
RULES: dict[str, Rule] = {name: rule for rule, words in _RULES for name in names(words)}
"""What an operation follows where the rank does not tell the number."""

CHANGING = frozenset(
    f"torch.nn.{name}"
    for name in ("Embedding", "EmbeddingBag", "Flatten", "Fold", "Unflatten", "Unfold")
)
"""The layers that do not give as many dimensions as they are given."""

FACTORIES_OF_PLANES = {"torch.eye": 2, "torch.tril_indices": 2, "torch.triu_indices": 2}
"""The factories of a fixed number of dimensions that is not one."""
