"""`join` is the join of a lattice, whatever values meet, and `shallow` leaves its order alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.inference import transfer
from amplint.values.atoms import (
    ACCELERATOR,
    BOTTOM,
    CPU,
    HOST_KINDS,
    NO_DEVICE,
    NONE,
    PERHAPS_CPU,
    UNKNOWN,
    Atom,
    Autocast,
    Class,
    Device,
    DType,
    Function,
    Host,
    Instance,
    Mapping,
    Method,
    Module,
    NoGrad,
    Object,
    Sequence,
    Super,
    Symbol,
    Tensor,
    TensorTree,
    Value,
    _order,
    one,
)
from amplint.values.lattice import (
    MAX_ALTERNATIVES,
    MAX_DEPTH,
    MAX_IN_TABLE,
    MAX_KEYS,
    MAX_MODULES,
    TOP,
    few_functions,
    is_deeper,
    is_open,
    is_unknown,
    join,
    known,
    normalise,
    only,
    shallow,
)

FEW = st.integers(0, 8)  # as many of each part as its cap, and more
TABLE = st.integers(0, MAX_IN_TABLE["Function"] + 2)
DEVICES = st.sampled_from(
    [NO_DEVICE, CPU, PERHAPS_CPU, Device(ACCELERATOR), Device(ACCELERATOR, name="cuda"),
     Device("cpu", pinned=True)]
)  # fmt: skip
UNSURE = st.sampled_from([None, 0, 1])
HOSTS = st.one_of(
    st.builds(lambda number: Host("int", number, True), FEW),
    st.builds(lambda number: Host("str", f"s{number}", True), FEW),
    st.builds(lambda number: Host("object", number, True), FEW),
    st.builds(lambda rank: Host("numpy", dtype="float32", rank=rank), UNSURE),
    st.sampled_from([Host(kind) for kind in HOST_KINDS if kind != "none"]),
    st.just(NONE),
)
LEAVES: st.SearchStrategy[Atom] = st.one_of(
    st.builds(
        Tensor,
        st.sampled_from([None, "float16", "bfloat16", "half or float32", "float32", "float64"]),
        DEVICES,
        UNSURE,
        st.sampled_from([None, True]),
        fresh=st.sampled_from([None, "torch.zeros"]),
        dims=st.sampled_from([None, 2]),
    ),
    st.builds(Tensor, half=st.sampled_from(["float16", "bfloat16", "half"])),
    st.builds(TensorTree, DEVICES, st.sampled_from(["batch", "output"])),
    HOSTS,
    st.builds(lambda number: Symbol(f"lib.f{number}"), FEW),
    st.builds(lambda number: Module(f"{number}.py"), FEW),
    st.builds(lambda number: Class(f"a.py::C{number}"), FEW),
    st.builds(lambda number, device: Instance(f"a.py::C{number}", device), FEW, DEVICES),
    st.builds(lambda number: Super(f"a.py::C{number}", "a.py::D"), FEW),
    st.builds(
        lambda number: Function(f"a.py::f{number}"), st.integers(0, MAX_IN_TABLE["Function"] + 2)
    ),
    st.builds(lambda number: Function(f"a.py::f{number}", Instance("a.py::C")), FEW),
    st.builds(lambda number, device: Object("module", f"M{number}", device), FEW, DEVICES),
    st.builds(lambda number: Object("optimizer", f"O{number}"), FEW),
    st.builds(lambda number: Method(Tensor(), f"m{number}"), FEW),
    st.builds(lambda number: DType(f"float{number}"), FEW),
    st.builds(Autocast, st.sampled_from(["cuda", "cpu"]), st.sampled_from([None, "float16"])),
    st.just(NoGrad()),
    DEVICES,
)


def by_key(items: dict[str, Value]) -> tuple[tuple[str, Value], ...]:
    return tuple(sorted(items.items(), key=lambda item: item[0]))


def nests(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    items = st.lists(inner, max_size=2).map(tuple)
    names = st.sampled_from("abc")
    return st.one_of(
        st.builds(Sequence, st.one_of(st.none(), items), inner, st.booleans()),
        st.builds(Mapping, inner, st.dictionaries(names, inner).map(by_key)),
        st.builds(
            lambda name, held, last: Object("module", f"torch.nn.{name}", holds=held, last=last),
            st.sampled_from(["Sequential", "ModuleList"]),
            st.one_of(st.just(BOTTOM), inner),
            st.sampled_from([None, "torch.nn.Linear", "torch.nn.Conv2d"]),
        ),
    ).map(one)  # fmt: skip


ALTERNATIVES = st.recursive(LEAVES.map(one), nests, max_leaves=4)
VALUES = st.one_of(st.just(BOTTOM), st.just(UNKNOWN), st.lists(ALTERNATIVES, max_size=9).map(join))


def covers(greater: Value, less: Value) -> bool:
    return join([greater, less]) == greater


@given(VALUES, VALUES, VALUES)
def test_join_is_associative(a: Value, b: Value, c: Value) -> None:
    together = join([a, b, c])
    assert join([join([a, b]), c]) == together
    assert join([a, join([b, c])]) == together


@given(VALUES, VALUES)
def test_join_is_commutative_and_covers_both(a: Value, b: Value) -> None:
    joined = join([a, b])
    assert joined == join([b, a])
    assert covers(joined, a)
    assert covers(joined, b)


@given(VALUES)
def test_join_is_idempotent(a: Value) -> None:
    assert join([a, a]) == a == normalise(a) == join([a, BOTTOM])


@given(VALUES, VALUES)
def test_what_is_known_of_less_is_known_of_more(a: Value, b: Value) -> None:
    both = join([a, b])
    assert is_open(both) >= is_open(a)
    assert is_open(both) or not is_unknown(a)


@given(VALUES, VALUES)
def test_shallow_keeps_the_order(a: Value, b: Value) -> None:
    assert not is_deeper(shallow(a), MAX_DEPTH)
    assert shallow(shallow(a)) == shallow(a)
    assert covers(shallow(join([a, b])), shallow(a))


@given(VALUES, VALUES)
def test_few_functions_keeps_the_order(a: Value, b: Value) -> None:
    assert covers(few_functions(a), a)
    assert covers(few_functions(join([a, b])), few_functions(a))


MANY: list[tuple[Callable[[int], Atom], int]] = [
    (lambda n: Symbol(f"lib.f{n}"), MAX_ALTERNATIVES),
    (lambda n: Class(f"a.py::C{n}"), MAX_ALTERNATIVES),
    (lambda n: Function(f"a.py::f{n}"), MAX_IN_TABLE["Function"]),
    (lambda n: Instance(f"a.py::C{n}"), MAX_IN_TABLE["Instance"]),
]


@pytest.mark.parametrize(("make", "cap"), MANY)
def test_too_many_alternatives_absorb_whatever_comes(make: Callable[[int], Atom], cap: int) -> None:
    few = join(one(make(n)) for n in range(cap))
    assert len(few) == cap
    many = join([few, one(make(cap))])
    assert is_unknown(many)
    assert join([many, one(make(cap + 1))]) == many
    beside = BOTTOM if many == TOP else {NONE}  # what a table cannot tell apart leaves the rest
    assert known(join([many, one(NONE)])) == beside


def test_many_modules_absorb_one_more() -> None:
    modules = [one(Object("module", f"M{number}")) for number in range(MAX_MODULES + 2)]
    assert len(join(modules[:MAX_MODULES])) == MAX_MODULES
    many = join(modules[: MAX_MODULES + 1])
    assert only(many) == Object("module", "?")
    assert join([many, modules[-1]]) == many


def test_a_container_of_modules_is_the_same_one_empty_and_filled() -> None:
    linear = one(Object("module", "torch.nn.Linear"))
    empty = Object("module", "torch.nn.ModuleList")
    filled = replace(empty, holds=linear)
    other = Object("module", "torch.nn.Sequential", last="torch.nn.Linear")
    assert join([one(empty), one(filled)]) == one(filled)
    assert join([one(empty), one(other)]) == {empty, other}
    assert only(join([one(other), one(replace(other, last=None))])) == replace(other, last=None)


def of_length(length: int) -> Value:
    return one(Sequence(tuple(one(Host("int", n, True)) for n in range(length)), BOTTOM))


def test_tuples_of_two_lengths_stay_apart() -> None:
    joined = join([of_length(3), of_length(2)])
    assert joined == of_length(3) | of_length(2)
    assert join([joined, of_length(2)]) == joined


def test_of_tuples_of_two_lengths_the_one_that_fits_is_unpacked() -> None:
    returned = join([of_length(3), of_length(2)])
    assert transfer.unpack(returned, 1, 3, False) == one(Host("int", 1, True))
    assert transfer.unpack(returned, 2, 3, False) == one(Host("int", 2, True))
    assert transfer.unpack(of_length(3), 1, 2, False) == one(Host("int", 1, True))


def test_tuples_of_many_lengths_keep_their_items() -> None:
    joined = join([of_length(3), of_length(2), of_length(1)])
    assert joined == one(Sequence(None, one(Host("int"))))
    assert join([joined, of_length(3)]) == joined


def test_an_empty_list_is_one_that_something_is_added_to() -> None:
    joined = only(join([of_length(0), of_length(1)]))
    assert isinstance(joined, Sequence)
    assert joined.items is None
    assert joined.element == {Host("int", 0, True)}


def test_many_keys_leave_a_dict_as_a_whole() -> None:
    def mapping(first: int) -> Value:
        keys = tuple((f"k{n:02}", one(Host("int"))) for n in range(first, first + MAX_KEYS))
        return one(Mapping(one(Host("int")), keys))

    joined = join([mapping(0), mapping(1)])
    assert joined == one(Mapping(one(Host("int")), (), crowded=True))
    assert join([joined, mapping(0)]) == joined


@given(VALUES)
def test_the_order_of_alternatives_is_total(value: Value) -> None:
    """Two that came in the order of their hashes would make reports depend on these."""
    orders = [_order(atom) for atom in value]
    assert len(set(orders)) == len(orders)
