"""Integers are cast to half, which cannot hold them.

float16 holds the integers up to 2048, bfloat16 those up to 256; beyond, neighbours become one
number (2049 is 2048), and above 65504 float16 is infinite. Ids, labels and codes that were cast are
other ids, labels and codes, without a word; where they are used as an index after all, it raises.
The cast is mostly one over a whole batch, meant for its images.

    batch = {k: v.half() for k, v in batch.items()}                # input_ids, too

    batch = {k: v.half() if v.is_floating_point() else v for k, v in batch.items()}

A cast is a finding where the tensor, before or after it, is used as an index, where one entry of
the batch is known to be of integers, or where the numbers are in the text.

Fix safety: there is no fix; which entries are to be cast, or whether ids belong into arithmetic at
all, is for the author.

Known limits: that a tensor is of integers is no finding by itself: masks, counts and one-hot codes
are exact in half. Positions (`torch.arange`) are left alone, as is a batch of which nothing is
known. A loop that guards its cast with any condition is taken to know what it does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from amplint import (
    WITH_HALF,
    Differs,
    Finding,
    Group,
    Mapping,
    Method,
    Object,
    Related,
    Rule,
    Sequence,
    Spot,
    Tensor,
    Value,
    calls,
    constant,
    nodes,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.dtypes import INTEGERS_BEYOND_HALF, half_on_a_path
from amplint.knowledge.operations import INDEX_ARGUMENTS

from .._shared.dtypes import SAME_DTYPE, behind, cast_dtype, cast_of, dtype_places

if TYPE_CHECKING:
    from amplint import Source

LIMITS = {"float16": 2048, "bfloat16": 256, "half": 2048}  # integers are exact up to here
DIGITS = {"float16": 11, "bfloat16": 8, "half": 11}  # half: at most
LARGEST = {"float16": 65504, "bfloat16": 2**127, "half": 2**127}
INDEX_NAMES = ("index", "input", "indices")
# What leaves the numbers as they are.
SAME_NUMBERS = SAME_DTYPE | {"long", "int", "to"}
# These take what may be one of a few classes, rather than of many rows.
OF_CLASSES = frozenset({"gather", "one_hot", "take_along_dim", "scatter", "scatter_"})


def casts_integers(at: Spot) -> bool:
    """Whether what is cast to half may be integers."""
    tensor = at.tensor(at.receiver)
    return half_on_a_path(cast_of(at)) in LIMITS and (
        tensor is None or tensor.dtype in (None, *INTEGERS_BEYOND_HALF)
    )


def has_half_index(at: Spot) -> bool:
    """Ex) x[index], x.gather(0, index), where the index is half"""
    if at.node.op == "call":
        if INDEX_ARGUMENTS.keys().isdisjoint(at.names):
            return False
        indices = at.arguments
    else:
        container, index = at.node.operands[:2]
        inner = at.graph.nodes[index]
        indices = inner.operands if inner.op == "tuple" else (index,)
        if at.tensor(container) is None:
            return False
    return any((t := at.tensor(each)) is not None and half_on_a_path(t.dtype) for each in indices)


rule = Rule(
    "AMP207",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="cast only tensors of floating point: test `t.is_floating_point()` first",
    witness=Differs(rtol=1e-5),
    presumes=False,
    candidates=(
        calls(".half", ".bfloat16", ".to", ".type") & casts_integers
        | nodes("call", "subscript", "put") & has_half_index
    )
    & WITH_HALF,
)


@rule.check
def check_cast(call: cst.Call, src: Source) -> Iterator[Finding]:
    dtype = half_on_a_path(cast_dtype(call, src))
    if dtype not in LIMITS:
        return
    assert dtype is not None and isinstance(call.func, cst.Attribute)
    tensor = call.func.value
    name = src.brief(tensor)
    index = next(index_uses(call, SAME_DTYPE, src), None)
    if index is not None:
        message = f"`{name}` is cast to {dtype} and then used as an index: this raises"
        yield src.finding(rule, call, message, related=(used_here(index, src),))
        return
    index = index_before(tensor, src) or next(index_uses(call, SAME_NUMBERS, src), None)
    if index is not None:
        message = f"`{name}` holds indices, and {dtype} holds integers only up to {LIMITS[dtype]}"
        yield src.finding(rule, call, message, related=(used_here(index, src),))
    elif holds_large(tensor, dtype, src):
        message = f"`{name}` holds integers beyond {LIMITS[dtype]}, which {dtype} rounds"
        yield src.finding(rule, call, message, related=dtype_places(src, src.tensor(tensor)))
    elif isinstance(tensor, cst.Name) and (entry := integer_entry(tensor, src)) is not None:
        message = f"every `{name}` is cast to {dtype}, which rounds the integers of one of them"
        yield src.finding(rule, call, message, related=dtype_places(src, entry))


@rule.check
def check_index(node: cst.Call | cst.Subscript, src: Source) -> Iterator[Finding]:
    """The operands that are half on arrival here; a cast in sight is reported itself."""
    for index in indices_of(node, src):
        tensor = src.tensor(index)
        made = src.origin(index) if isinstance(index, cst.Name) else index
        half = half_on_a_path(tensor.dtype) if tensor is not None else None
        if tensor is None or half is None:
            continue
        if isinstance(made, cst.Call) and half_on_a_path(cast_dtype(made, src)) in LIMITS:
            continue
        message = f"`{src.brief(index)}` is {half}: as an index it raises"
        yield src.finding(rule, index, message, related=dtype_places(src, tensor))


def used_here(node: cst.CSTNode, src: Source) -> Related:
    return src.related_node(node, "used as an index here")


def index_uses(
    node: cst.BaseExpression, through: Collection[str], src: Source
) -> Iterator[cst.BaseExpression]:
    """The places where the value of an expression is an index, behind methods of these names."""
    for read in (node, *src.uses(node)):
        use = behind(read, through, src)
        parent = src.parent(use)
        around = src.parent(parent)
        if isinstance(parent, cst.Index):
            around = src.parent(around)  # an element of the subscript
        if not isinstance(around, cst.Call | cst.Subscript):
            continue
        if any(index is use for index in indices_of(around, src)):
            yield use


def indices_of(node: cst.Call | cst.Subscript, src: Source) -> Iterator[cst.BaseExpression]:
    """The expressions that a call or a subscript takes as indices."""
    if isinstance(node, cst.Subscript):
        if src.tensor(node.value) is not None:
            for element in node.slice:
                if isinstance(element.slice, cst.Index):
                    yield element.slice.value
        return
    name = index_taker(node, src)
    if name in INDEX_ARGUMENTS:
        given = src.argument(node, INDEX_NAMES[0], INDEX_ARGUMENTS[name])
        for keyword in INDEX_NAMES[1:]:
            given = given or src.keyword(node, keyword)
        if given is not None:
            yield given.value


def index_taker(call: cst.Call, src: Source) -> str | None:
    """The name in the table of what is called."""
    name = src.name(call.func)
    if name is not None:
        return name
    called = only(src.value(call.func))
    if isinstance(called, Object):
        return called.type
    if isinstance(called, Method) and isinstance(called.of, Tensor):
        return f"Tensor.{called.name}"
    return None


def index_before(tensor: cst.BaseExpression, src: Source) -> cst.BaseExpression | None:
    """Where the same value is the index of a row. A subscript may take it for a mask."""
    if not isinstance(tensor, cst.Name):
        return None
    known = src.tensor(tensor)
    if known is not None and known.dtype not in (None, *INTEGERS_BEYOND_HALF):
        return None
    made = src.origin(tensor)
    if isinstance(made, cst.Call) and src.name(made.func) == "torch.arange":
        return None
    integers = known is not None and known.dtype in INTEGERS_BEYOND_HALF
    for use in index_uses(tensor, SAME_NUMBERS, src):
        taker = src.parent(src.parent(use))
        if isinstance(taker, cst.Call):
            if src.brief(taker.func).rpartition(".")[2] not in OF_CLASSES:
                return use
        elif integers:
            return use
    return None


def holds_large(tensor: cst.BaseExpression, dtype: str, src: Source) -> bool:
    """Whether the text says that the integers are too large."""
    made = src.origin(tensor) if isinstance(tensor, cst.Name) else tensor
    known = src.tensor(tensor)
    if not isinstance(made, cst.Call) or known is None or known.dtype not in INTEGERS_BEYOND_HALF:
        return False
    name = src.name(made.func)
    if name == "torch.randint":
        high = highest(made, src)
        return high is not None and high - 1 > LIMITS[dtype]
    if name == "torch.full":
        fill = src.argument(made, "fill_value", 1)
        return fill is not None and not all_exact(src.value(fill.value), dtype)
    if name == "torch.tensor" and made.args:
        return not all_exact(src.value(made.args[0].value), dtype)
    return False


def highest(call: cst.Call, src: Source) -> int | None:
    """Ex) 10 of torch.randint(10, (n,)), torch.randint(0, 10, (n,)), torch.randint(high=10, ...)"""
    given = src.keyword(call, "high")
    if given is None:
        second = src.argument(call, "high", 1)
        sized = second is None or isinstance(only(src.value(second.value)), Sequence)
        given = src.argument(call, "high", 0) if sized else second
    value = constant(src.value(given.value)) if given is not None else None
    return value if isinstance(value, int) else None


def all_exact(value: Value, dtype: str) -> bool:
    """Whether the integers, as far as they are known, are numbers of the dtype."""
    number = constant(value)
    if isinstance(number, int):
        digits = len(f"{abs(number):b}".rstrip("0"))
        return digits <= DIGITS[dtype] and abs(number) <= LARGEST[dtype]
    atom = only(value)
    if isinstance(atom, Sequence) and atom.items is not None:
        return all(all_exact(item, dtype) for item in atom.items)
    return True


def integer_entry(name: cst.Name, src: Source) -> Tensor | None:
    """The integers among what the variable of a loop runs over, where no condition picks."""
    container: cst.BaseExpression | None = None
    for around in src.ancestors(name):
        if isinstance(around, cst.If | cst.IfExp):
            return None
        if isinstance(around, cst.For) and binds(around.target, name):
            container = around.iter
            break
        if isinstance(around, cst.DictComp | cst.ListComp | cst.SetComp | cst.GeneratorExp):
            loop = around.for_in
            if binds(loop.target, name):
                container = None if loop.ifs else loop.iter
                break
        if isinstance(around, cst.FunctionDef | cst.Lambda):
            break
    return integers_in(container, src) if container is not None else None


def binds(target: cst.BaseAssignTargetExpression, name: cst.Name) -> bool:
    """Ex) value, of `key, value`"""
    parts = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else [target]
    return any(isinstance(part, cst.Name) and part.value == name.value for part in parts)


def integers_in(container: cst.BaseExpression, src: Source) -> Tensor | None:
    """Ex) the labels in batch.items(), (images, labels)"""
    if isinstance(container, cst.Call) and isinstance(container.func, cst.Attribute):
        if container.func.attr.value not in ("items", "values"):
            return None
        container = container.func.value
    atom = only(src.value(container))
    values: tuple[Value, ...] = ()
    if isinstance(atom, Mapping):
        values = tuple(value for _, value in atom.items)
    elif isinstance(atom, Sequence) and atom.items is not None:
        values = atom.items
    entries = [only(value) for value in values]
    found = (e for e in entries if isinstance(e, Tensor) and e.dtype in INTEGERS_BEYOND_HALF)
    return next(found, None)
