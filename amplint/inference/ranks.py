"""How many dimensions a tensor has: what torch's operations make of those that they are given.

A rule is a small function of a call, the tables say which operation follows which, and None stands
for "unknown" all through. Whatever a rule says must be so: a tensor that is wrongly taken for one
without dimensions is a false alarm. `tests/oracles/test_torch_ops.py` holds every rule
against torch.

Where the word that RESULTS or MODULES has for the rank says the number as well ("same",
"scalar", "broadcast"), it is the rule; the tables here are for the rest.
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
    NUMBER_OR_BOOL_KINDS,
    UNKNOWN,
    Arguments,
    Atom,
    DType,
    Host,
    Symbol,
    Tensor,
    Value,
    constant,
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
        given = [self.rest.keywords[word] for word in keywords if word in self.rest.keywords]
        if given:
            return given[0]
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
    rule = RULES.get(name) or BY_RANK.get(rank, unknown)
    if "out" in call.rest.keywords or (call.rest.unsure and rule not in (same, no_dimension)):
        return None
    return rule(call)


def of_layer(name: str, facts: ModuleFacts, call: RankedCall) -> int | None:
    """How many dimensions the output of a layer of torch.nn has, or the first of several."""
    keeps = same if facts.rank in ("same", "some") else unknown
    return None if call.rest.unsure else LAYERS.get(name, keeps)(call)


def of_factory(name: str, facts: Factory, arguments: Arguments) -> int | None:
    """How many dimensions the tensor that a factory builds has.

    Args:
        arguments: without the receiver, where it is a method.
    """
    if facts.rank in ("scalar", "some"):
        return 0 if facts.rank == "scalar" else FACTORIES_OF_PLANES.get(name, 1)
    given = shaping(facts, arguments)
    if facts.rank == "sizes":
        return of_sizes(given)
    return nesting(given[0]) if given and facts.rank in ("like", "data") else None


def shaping(facts: Factory, arguments: Arguments) -> tuple[Value, ...]:
    """Those of the arguments that decide the shape: the sizes, the data, a tensor of that shape."""
    word = "size" if facts.rank == "sizes" else facts.parameters[0]
    if word in arguments.keywords:
        return (arguments.keywords[word],)
    given = arguments.positional
    if arguments.unsure or facts.sizes or not given:
        return () if arguments.unsure else given
    # torch.randint has its size last, whether it is given a lower bound or not.
    place = min(facts.parameters.index(word), len(given) - 1)
    return given[place : place + 1]


def of_constructor(arguments: Arguments) -> int | None:
    """Ex) torch.Tensor(2, 3), torch.LongTensor([1, 2])"""
    given = arguments.positional
    if arguments.unsure or not given:
        return None
    if isinstance(sole(given[0]), Row):
        return nesting(given[0])
    return len(given) if all(is_number(value, INTEGER_KINDS) for value in given) else None


def of_item(tensor: int | None, keys: Sequence[Value]) -> int | None:
    """The rank of a subscripted tensor; the elements of the index are the keys: `x[:, 0, mask]`.

    A number takes a dimension away and None adds one. What gathers takes one away, a mask as many
    as it has itself, and all that gather put those that they have in common in their place.
    """
    if tensor is None:
        return None
    gathered = []
    for key in keys:
        atom = sole(key)
        if atom == NONE:
            tensor += 1
        elif is_number(key, INTEGER_KINDS):
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


def sole(value: Value) -> Atom | None:
    """The one thing that the value certainly is, None as a value included."""
    return next(iter(value)) if len(value) == 1 else None


def is_number(value: Value, kinds: frozenset[str] = NUMBER_OR_BOOL_KINDS) -> bool:
    return bool(value) and all(isinstance(atom, Host) and atom.kind in kinds for atom in value)


def is_slice(value: Value) -> bool:
    atom = sole(value)
    return isinstance(atom, Host) and atom.kind == "object"


def count(value: Value | None) -> int | None:
    """How many dimensions an operand has; a number of Python has none.

    What is a tensor on one path, and anything on another, counts as that tensor: as everywhere in
    the engine, what is said holds on the path that is seen.
    """
    if value is None or is_number(value):
        return None if value is None else 0
    atom = sole(known(value) - {NONE})
    if not isinstance(atom, Tensor):
        return None
    return 0 if atom.rank == 0 else atom.dims


def nesting(value: Value) -> int | None:
    """How many dimensions a tensor of these data has: a tensor, a number, a nest of lists."""
    atom = sole(value)
    if not isinstance(atom, Row):
        return count(value)
    inside = atom.items if atom.items is not None else (atom.element,)
    return plus(nesting(inside[0]), 1) if inside else 1


def of_sizes(given: Sequence[Value]) -> int | None:
    """How many sizes these are: (2, 3), ((2, 3),), (n,)"""
    if len(given) != 1:
        return len(given) or None
    atom = sole(given[0])
    if isinstance(atom, Row):
        return len(atom.items) if atom.items is not None else None
    return 1 if is_number(given[0], INTEGER_KINDS) else None


def plus(number: int | None, more: int | None) -> int | None:
    return None if number is None or more is None else number + more


def less(number: int | None, gone: int | None) -> int | None:
    """The rank that is left: at least 0, since torch lets 0-dim tensors name a dimension."""
    return None if number is None or gone is None else max(number - gone, 0)


def most(counts: Iterable[int | None]) -> int | None:
    """The rank of a broadcast."""
    known = list(counts)
    return max((n for n in known if n is not None), default=None) if None not in known else None


# ---------------------------------------------------------------------------- rules


def unknown(_: RankedCall) -> int | None:
    return None


def same(call: RankedCall) -> int | None:
    return count(call.tensor)


def no_dimension(_: RankedCall) -> int | None:
    return 0


def fixed(number: int) -> Rule:
    return lambda _: number


def more(number: int) -> Rule:
    """Ex) unsqueeze, diagonal (-1)"""
    return lambda call: plus(same(call), number) if number > 0 else less(same(call), -number)


def at_least(number: int) -> Rule:
    """Ex) torch.vstack, which makes rows of two dimensions of what has fewer"""
    return lambda call: most([number, joined(call) if is_nest(call.tensor) else same(call)])


def like(position: int) -> Rule:
    """Ex) x.view_as(other)"""
    return lambda call: count(call.get(position, "other"))


def lookup(call: RankedCall) -> int | None:
    return plus(like(0)(call), 1)


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


def sizes(call: RankedCall) -> int | None:
    """Ex) x.view(2, -1), torch.reshape(x, (2, -1)), x.view(torch.int32)"""
    named = call.get(len(call.rest.positional), "size", "shape", "dims", "repeats")
    given = call.rest.positional if named is None else (named,)
    return same(call) if given and isinstance(sole(given[0]), DType) else of_sizes(given)


def strided(call: RankedCall) -> int | None:
    return of_sizes([call.get(0, "size") or UNKNOWN])


def tiled(call: RankedCall) -> int | None:
    return most([same(call), sizes(call)])


def unflattened(call: RankedCall) -> int | None:
    given = call.get(1, "sizes", "unflattened_size")
    return None if given is None else less(plus(same(call), of_sizes([given])), 1)


def flattened(call: RankedCall) -> int | None:
    """Ex) x.flatten(), x.flatten(1), which leaves two dimensions of any number, x.flatten(0, 1)"""
    given = call.get(0, "start_dim"), call.get(1, "end_dim")
    first, last = (
        default if value is None else constant(value)
        for value, default in zip(given, (0, -1), strict=True)
    )
    if not isinstance(first, int) or not isinstance(last, int):
        return None
    if first >= 0 and last == -1:
        return first + 1
    number = same(call)
    if number is None or number < 2:
        return number and 1
    return number - (last % number - first % number)


def joined(call: RankedCall) -> int | None:
    """Ex) torch.cat: all have as many, but that an empty one of one dimension is left out"""
    found = [count(value) for atom in call.tensor for value in parts(atom)]
    known = [number for number in found if number is not None]
    return max(known) if known and (max(known) > 1 or len(known) == len(found)) else None


def stacked(call: RankedCall) -> int | None:
    """Ex) torch.stack, where all have as many"""
    found = (count(value) for atom in call.tensor for value in parts(atom))
    return plus(next((number for number in found if number is not None), None), 1)


def parts(atom: Atom) -> tuple[Value, ...]:
    """The tensors of a list."""
    if not isinstance(atom, Row):
        return (UNKNOWN,)
    return atom.items if atom.items is not None else (atom.element,)


def is_nest(value: Value) -> bool:
    return any(isinstance(atom, Row) for atom in value)


def meshed(call: RankedCall) -> int | None:
    """Ex) torch.meshgrid(x, y), torch.meshgrid([x, y]): one dimension for each"""
    atom = sole(call.tensor)
    if isinstance(atom, Row):
        return None if atom.items is None else len(atom.items)
    return 1 + len(call.rest.positional)


def reduction(dim: int, keepdim: int = -1, gone: int | None = None) -> Rule:
    """Ex) x.sum(1), x.mean((1, 2), keepdim=True), torch.median(x)

    Args:
        dim: where the dim may stand after the tensor.
        keepdim: likewise; right after the dim if it is not said.
        gone: how many dimensions go where no dim is given; all of them if it is not said.
    """

    def rule(call: RankedCall) -> int | None:
        kept = call.get(dim + 1 if keepdim < 0 else keepdim, "keepdim", "keepdims")
        if kept is not None and constant(kept) is not False:
            return same(call) if constant(kept) is True else None
        given = call.get(dim, "dim", "axis")
        if given is not None and not is_number(given, frozenset({"bool"})) and given != {NONE}:
            return less(same(call), of_sizes([given]) or None)
        return 0 if gone is None else less(same(call), gone)

    return rule


def extremum(call: RankedCall) -> int | None:
    """Ex) torch.max(x, 1), torch.max(x, y)"""
    second = sole(call.get(0, "other") or frozenset())
    return broadcast(call) if isinstance(second, Tensor) else reduction(0)(call)


def quantile(call: RankedCall) -> int | None:
    """One dimension more for the quantiles, if there are several."""
    return plus(reduction(1)(call), count(call.get(0, "q")))


def attention(call: RankedCall) -> int | None:
    """Whatever the mask."""
    return most([same(call), count(call.get(0, "key")), count(call.get(1, "value"))])


def similarity(call: RankedCall) -> int | None:
    """Ex) F.cosine_similarity(x, y), along one dimension"""
    return less(most([same(call), count(call.get(0, "x2"))]), 1)


def product(call: RankedCall) -> int | None:
    """Ex) x @ y"""
    operands = [same(call), count(call.get(0, "other"))]
    return less(most(operands), operands.count(1))


def inner(call: RankedCall) -> int | None:
    own, other = same(call), count(call.get(0, "other"))
    return most([own, other]) if 0 in (own, other) else less(plus(own, other), 2)


def contracted(call: RankedCall) -> int | None:
    """Ex) torch.tensordot(x, y, dims=1), torch.tensordot(x, y, ([0], [1]))"""
    given = call.get(1, "dims")
    pairs = 2 if given is None else constant(given)
    lists = sole(given or frozenset())
    if isinstance(lists, Row) and lists.items:
        pairs = of_sizes([lists.items[0]])
    both = plus(same(call), count(call.get(0, "b")))
    return less(both, 2 * pairs) if isinstance(pairs, int) else None


def einsum(call: RankedCall) -> int | None:
    """Ex) torch.einsum("bij,bjk->bik", x, y); without an arrow what stands once is left"""
    equation = constant(call.tensor)
    if not isinstance(equation, str) or "..." in equation:
        return None
    given, arrow, left = equation.replace(" ", "").partition("->")
    return len(left) if arrow else sum(given.count(axis) == 1 for axis in {*given} - {","})


def linear(call: RankedCall) -> int | None:
    """A weight of one dimension takes that of the input away; hardly any has it."""
    return less(same(call), 1) if count(call.get(0, "weight")) == 1 else same(call)


def diagonal_matrix(call: RankedCall) -> int | None:
    number = same(call)
    return None if number is None else 3 - number


def along(dim: int) -> Rule:
    """Ex) repeat_interleave, unique: of all elements as one line, unless a dim is given"""

    def rule(call: RankedCall) -> int | None:
        given = call.get(dim, "dim") or one(NONE)
        return 1 if given == {NONE} else same(call) if is_number(given, INTEGER_KINDS) else None

    return rule


def unique(call: RankedCall) -> int | None:
    """With the counts and the places, tensors of several shapes."""
    alone = not call.rest.positional and not {"return_inverse", "return_counts"} & {
        *call.rest.keywords
    }
    return along(0)(call) if alone else None


def places(call: RankedCall) -> int | None:
    """Ex) x.nonzero(), x.nonzero(as_tuple=True)"""
    as_tuple = constant(call.rest.keywords.get("as_tuple", one(Host("bool", False, True))))
    return 2 - as_tuple if isinstance(as_tuple, bool) else None


def chosen(call: RankedCall) -> int | None:
    """Ex) torch.where(mask, x, y), torch.where(mask)"""
    return broadcast(call) if call.rest.positional or call.rest.keywords else 1


# ---------------------------------------------------------------------------- tables

BY_RANK: dict[str, Rule] = {
    "same": same,
    "scalar": no_dimension,
    "broadcast": broadcast,
    "reduction": loss,
    "sizes": sizes,
}

_RULES: tuple[tuple[Rule, str], ...] = (
    (
        same,
        """
        adjoint chunk cholesky cholesky_inverse inverse matrix_exp matrix_power pinverse split
        split_with_sizes tensor_split tril triu unsafe_chunk unsafe_split unsafe_split_with_sizes
        dsplit hsplit vsplit multinomial
        torch.adaptive_avg_pool1d torch.adaptive_max_pool1d torch.avg_pool1d torch.batch_norm
        torch.bilinear torch.channel_shuffle torch.constant_pad_nd torch.conv1d torch.conv2d
        torch.conv3d torch.conv_tbc torch.conv_transpose1d torch.conv_transpose2d
        torch.conv_transpose3d torch.convolution torch.cumulative_trapezoid torch.grid_sampler
        torch.group_norm torch.instance_norm torch.layer_norm torch.max_pool1d torch.max_pool2d
        torch.max_pool3d torch.pixel_shuffle torch.pixel_unshuffle torch.rms_norm
        torch.unravel_index
        F.adaptive_avg_pool1d F.adaptive_avg_pool2d F.adaptive_avg_pool3d F.adaptive_max_pool1d
        F.adaptive_max_pool2d F.adaptive_max_pool3d F.avg_pool1d F.avg_pool2d F.avg_pool3d
        F.batch_norm F.bilinear F.channel_shuffle F.conv1d F.conv2d F.conv3d F.conv_tbc
        F.conv_transpose1d F.conv_transpose2d F.conv_transpose3d F.fractional_max_pool2d
        F.fractional_max_pool3d F.glu F.grid_sample F.group_norm F.instance_norm F.interpolate
        F.layer_norm F.local_response_norm F.lp_pool1d F.lp_pool2d F.lp_pool3d F.max_pool1d
        F.max_pool2d F.max_pool3d F.max_unpool1d F.max_unpool2d F.max_unpool3d F.pad
        F.pixel_shuffle F.pixel_unshuffle F.rms_norm F.upsample F.upsample_bilinear
        F.upsample_nearest
        linalg.cholesky linalg.inv linalg.matrix_exp linalg.matrix_power linalg.pinv
        """,
    ),
    (broadcast, "torch.cdist kron"),
    (attention, "F.scaled_dot_product_attention"),
    (
        fixed(1),
        """
        bincount histc masked_select mv ravel addmv
        torch.get_rng_state torch.pdist F.pdist nn.utils.parameters_to_vector
        """,
    ),
    (
        fixed(2),
        """
        addbmm addmm addr argwhere diagflat ger mm nonzero_static outer
        torch.block_diag torch.combinations torch.vander F.embedding_bag
        """,
    ),
    (fixed(3), "baddbmm bmm"),
    (
        more(1),
        "unsqueeze .unsqueeze_ diag_embed .unfold F.fold F.one_hot linalg.vander F.embedding",
    ),
    (more(1), "torch.view_as_real"),
    (lookup, "torch.embedding"),
    (
        more(-1),
        """
        diagonal select unbind .__iter__ F.unfold torch.trapezoid torch.trapz torch.view_as_complex
        linalg.diagonal linalg.eigvals linalg.eigvalsh linalg.svdvals
        """,
    ),
    (more(-2), "det logdet slogdet linalg.det linalg.slogdet linalg.cond linalg.matrix_rank"),
    (at_least(1), "torch.atleast_1d torch.hstack"),
    (at_least(2), "torch.atleast_2d torch.column_stack torch.row_stack torch.vstack"),
    (at_least(3), "torch.atleast_3d torch.dstack"),
    (like(0), ".view_as .expand_as .reshape_as take torch.searchsorted"),
    (like(0), "torch.polygamma special.polygamma"),
    (sizes, ".resize_ .sum_to_size"),
    (strided, "as_strided"),
    (tiled, "tile"),
    (unflattened, "unflatten"),
    (flattened, "flatten"),
    (joined, "torch.cat torch.concat torch.concatenate"),
    (stacked, "torch.stack nn.utils.rnn.pad_sequence"),
    (meshed, "torch.meshgrid"),
    (
        reduction(0),
        """
        all amax amin any argmax argmin count_nonzero hash_tensor logsumexp mean median nanmean
        nanmedian nansum prod sum special.logsumexp
        """,
    ),
    (reduction(0, 2), "std var torch.std_mean torch.var_mean"),
    (reduction(1), "norm linalg.norm linalg.vector_norm"),
    (reduction(0, gone=1), "mode"),
    (reduction(1, gone=1), "kthvalue"),
    (reduction(1, gone=2), "linalg.matrix_norm"),
    (reduction(9, 9), "aminmax"),  # by their names alone
    (extremum, "max min"),
    (quantile, "quantile nanquantile"),
    (similarity, "torch.cosine_similarity F.cosine_similarity linalg.vecdot"),
    (product, "matmul .__matmul__ .__rmatmul__ linalg.matmul"),
    (inner, "inner"),
    (contracted, "torch.tensordot"),
    (einsum, "torch.einsum"),
    (linear, "F.linear"),
    (diagonal_matrix, "diag"),
    (along(1), "repeat_interleave take_along_dim"),
    (unique, "unique unique_consecutive"),
    (places, "nonzero"),
    (chosen, "where"),
)
RULES: dict[str, Rule] = {name: rule for rule, words in _RULES for name in names(words)}
"""What an operation follows where the rank does not tell the number."""

LAYERS: dict[str, Rule] = {
    "torch.nn.CosineSimilarity": similarity,
    "torch.nn.Embedding": more(1),
    "torch.nn.EmbeddingBag": fixed(2),
    "torch.nn.Flatten": unknown,  # as its arguments say when it is built
    "torch.nn.Unflatten": unknown,
    "torch.nn.Fold": more(1),
    "torch.nn.Unfold": more(-1),
}
"""The layers that do not give as many dimensions as they are given."""

FACTORIES_OF_PLANES = {"torch.eye": 2, "torch.tril_indices": 2, "torch.triu_indices": 2}
"""The factories of a fixed number of dimensions that is not one."""
