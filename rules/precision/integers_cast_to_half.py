"""Integers are cast to half, which cannot hold them.

float16 represents the integers up to 2048, bfloat16 those up to 256. Beyond these limits,
neighbouring integers become equal (2049 becomes 2048), and above 65504 float16 is infinite. So a
cast silently changes ids, labels and codes; using them as an index then raises. Usually the cast
covers a whole batch, but was meant for its images.

    batch = {k: v.half() for k, v in batch.items()}                # input_ids, too

    batch = {k: v.half() if v.is_floating_point() else v for k, v in batch.items()}

A cast is reported if the tensor is used as an index before or after it, if an entry of the batch is
known to hold integers, or if the numbers are written in the code.

Fix safety: there is no fix; the author has to decide which entries to cast, or whether ids belong
in arithmetic at all.

Known limits: casting integers is not reported by itself: masks, counts and one-hot codes are exact
in half. Positions (`torch.arange`) and batches with unknown entries are not reported. If a loop
guards its cast with any condition, amplint assumes that it is right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from amplint import (
    READ,
    WITH_HALF,
    Differs,
    Finding,
    Group,
    Mapping,
    Presumes,
    Rule,
    Sequence,
    Tensor,
    Value,
    View,
    calls,
    constant,
    nodes,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.dtypes import INTEGERS_BEYOND_HALF, half_on_a_path
from amplint.knowledge.operations import INDEX_ARGUMENTS

from .._shared.dtypes import SAME_DTYPE, dtype_evidence, dtype_of_cast, first, operation, takers

LIMITS = {"float16": 2048, "bfloat16": 256, "half": 2048}  # integers are exact up to here
DIGITS = {"float16": 11, "bfloat16": 8, "half": 11}  # half: at most
LARGEST = {"float16": 65504, "bfloat16": 2**127, "half": 2**127}
INDEX_NAMES = ("index", "input", "indices")
# What leaves the numbers as they are.
SAME_NUMBERS = SAME_DTYPE | {"long", "int", "to"}
# These take what may be one of a few classes, rather than of many rows.
OF_CLASSES = frozenset({"gather", "one_hot", "take_along_dim", "scatter", "scatter_"})
USED = "used as an index here"

rule = Rule(
    "AMP207",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="cast only floating-point tensors: test `t.is_floating_point()` first",
    witness=Differs(rtol=1e-5),
    presumes=Presumes.AUDITED,
)


@rule.on(calls(".half", ".bfloat16", ".to", ".type") & WITH_HALF)
def check_cast(call: View) -> Iterator[Finding]:
    dtype, tensor = half_on_a_path(dtype_of_cast(call)), call.receiver
    if dtype not in LIMITS or tensor is None or not may_be_integers(tensor):
        return
    index = first(index for _, index in index_uses(call, SAME_DTYPE))
    if index is not None:
        message = f"`{tensor.brief}` is cast to {dtype} and then used as an index: this raises"
        yield call.finding(message, (index.related(USED),))
        return
    index = index_before(tensor) or first(index for _, index in index_uses(call, SAME_NUMBERS))
    if index is not None:
        holds = f"holds indices, and {dtype} holds integers only up to {LIMITS[dtype]}"
        yield call.finding(f"`{tensor.brief}` {holds}", (index.related(USED),))
    elif holds_large(tensor, dtype):
        message = f"`{tensor.brief}` holds integers beyond {LIMITS[dtype]}, which {dtype} rounds"
        yield call.finding(message, dtype_evidence(tensor.tensor))
    elif (entry := integer_entry(tensor)) is not None:
        rounds = f"is cast to {dtype}, which rounds one entry's integers"
        yield call.finding(f"every `{tensor.brief}` {rounds}", dtype_evidence(entry))


@rule.on((calls(*INDEX_ARGUMENTS) | nodes("subscript", "put")) & WITH_HALF)
def check_index(at: View) -> Iterator[Finding]:
    """The operands that are half on arrival here; a cast in sight is reported itself."""
    for index in indices_of(at):
        tensor = index.tensor
        half = half_on_a_path(tensor.dtype) if tensor is not None else None
        if half is not None and half_on_a_path(dtype_of_cast(cast_behind(index))) not in LIMITS:
            message = f"`{index.brief}` is {half}: using it as an index raises"
            yield index.finding(message, dtype_evidence(tensor))


def cast_behind(at: View) -> View:
    """Ex) ids.half() of `flat`, after `flat = ids.half().view(-1)`"""
    made = at.origin
    while made.op == "call" and made.method in SAME_DTYPE and made.receiver is not None:
        made = made.receiver.origin
    return made


def may_be_integers(at: View) -> bool:
    tensor = at.tensor
    return tensor is None or tensor.dtype in (None, *INTEGERS_BEYOND_HALF)


def index_uses(at: View, through: Collection[str]) -> Iterator[tuple[View, View]]:
    """The operations that take a value as an index, behind methods of these names.

    Each with this index.
    """
    for taker, taken in takers(at, through):
        yield from ((taker, index) for index in indices_of(taker) if index.is_same(taken))


def indices_of(at: View) -> Iterator[View]:
    """The operands that a call or a subscript takes as indices."""
    if at.op in ("subscript", "put"):
        container, index = at.operands[:2]
        if container.tensor is not None:
            parts = index.operands if index.op == "tuple" else (index,)
            yield from (part for part in parts if part.op != "slice")
        return
    called = operation(at)
    if called is not None and called.name in INDEX_ARGUMENTS:
        given = at.arg(INDEX_NAMES[0], INDEX_ARGUMENTS[called.name])
        for keyword in INDEX_NAMES[1:]:
            given = given or at.arg(keyword)
        if given is not None:
            yield given


def index_before(tensor: View) -> View | None:
    """Where the same value is the index of a row. A subscript may take it for a mask."""
    if tensor.op != READ or tensor.origin.callee == "torch.arange":
        return None
    known = tensor.tensor
    integers = known is not None and known.dtype in INTEGERS_BEYOND_HALF
    uses = index_uses(tensor, SAME_NUMBERS)
    return first(i for by, i in uses if (takes_rows(by) if by.op == "call" else integers))


def takes_rows(call: View) -> bool:
    return (call.callee or call.method).rpartition(".")[2] not in OF_CLASSES


def holds_large(tensor: View, dtype: str) -> bool:
    """Whether the text says that the integers are too large."""
    made, known = tensor.origin, tensor.tensor
    if known is None or known.dtype not in INTEGERS_BEYOND_HALF:
        return False
    if made.callee == "torch.randint":
        high = highest(made)
        return high is not None and high - 1 > LIMITS[dtype]
    if made.callee == "torch.full":
        fill = made.arg("fill_value", 1)
    else:
        fill = made.arg("data", 0) if made.callee == "torch.tensor" else None
    return fill is not None and not all_exact(fill.value, dtype)


def highest(call: View) -> int | None:
    """Ex) 10 of torch.randint(10, (n,)), torch.randint(0, 10, (n,)), torch.randint(high=10, ...)"""
    given = call.arg("high")
    if given is None:
        second = call.arg("high", 1)
        sized = second is None or isinstance(only(second.value), Sequence)
        given = call.arg("high", 0) if sized else second
    value = constant(given.value) if given is not None else None
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


def integer_entry(at: View) -> Tensor | None:
    """The integers among what the variable of a loop runs over, where no condition picks."""
    made = at.origin if at.op == READ else at
    element = made.operands[0].origin if made.op == "unpack" else made
    entry = integers_in(element.operands[0]) if element.op == "iter" else None
    return entry if entry is not None and not is_picked(at) else None


def integers_in(container: View) -> Tensor | None:
    """Ex) the labels in batch.items(), (images, labels)"""
    call = container.origin
    if call.receiver is not None and call.op == "call":
        if call.method not in ("items", "values"):
            return None
        container = call.receiver
    atom = only(container.value)
    values: tuple[Value, ...] = ()
    if isinstance(atom, Mapping):
        values = tuple(value for _, value in atom.items)
    elif isinstance(atom, Sequence) and atom.items is not None:
        values = atom.items
    entries = [only(value) for value in values]
    found = (e for e in entries if isinstance(e, Tensor) and e.dtype in INTEGERS_BEYOND_HALF)
    return next(found, None)


def is_picked(name: View) -> bool:
    """Whether a condition picks what is done with the variable of a loop."""
    for around in name.source.ancestors(name.cst):
        if isinstance(around, cst.If | cst.IfExp):
            return True
        if isinstance(around, cst.For) and binds(around.target, name.text):
            return False
        if isinstance(around, cst.DictComp | cst.ListComp | cst.SetComp | cst.GeneratorExp):
            loop = around.for_in
            if binds(loop.target, name.text):
                return bool(loop.ifs)
        if isinstance(around, cst.FunctionDef | cst.Lambda):
            break
    return True


def binds(target: cst.BaseAssignTargetExpression, name: str) -> bool:
    """Ex) value, of `key, value`"""
    parts = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else [target]
    return any(isinstance(part, cst.Name) and part.value == name for part in parts)
