"""Comparison: each tier takes what it should, and refuses the nearest thing that it should not."""

from __future__ import annotations

import math
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from amplint.findings.declaration import Change  # noqa: E402
from amplint_verify.backends.choice import BACKENDS  # noqa: E402
from amplint_verify.compare import operations as compare  # noqa: E402
from amplint_verify.compare import verdicts  # noqa: E402
from amplint_verify.compare.verdict import Verdict  # noqa: E402
from amplint_verify.recording.observation import Leaf, Observation, RunOutcome  # noqa: E402
from amplint_verify.recording.snapshot import NamedValues, leaves, tensor  # noqa: E402
from tests.verify.leaves import leaf, row  # noqa: E402

ONE = torch.tensor([1.0, 2.0])


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (ONE.clone(), None),
        (ONE + torch.tensor([0.0, 2.4e-7]), "value"),
        (ONE.double(), "dtype"),
        (ONE.reshape(1, 2), "shape"),
        (ONE.clone().requires_grad_(), "grad"),
        (1.0, "kind"),
    ],
)
def test_bits(other: object, what: str | None) -> None:
    difference = compare.bits(leaf(ONE), leaf(other))
    assert (difference and difference.what) == what


def test_bits_of_layout_and_device() -> None:
    matrix = torch.arange(4.0).reshape(2, 2)
    transposed = matrix.t().contiguous().t()
    assert torch.equal(matrix, transposed)
    difference = compare.bits(leaf(matrix), leaf(transposed))
    assert difference is not None
    assert str(difference) == "result: stride [2, 1] -> [1, 2]"
    moved = compare.bits(leaf(ONE), leaf(ONE, device="cuda:0"))
    assert moved is not None and moved.what == "device"


def test_bits_tell_zeros_apart_and_equal_nans_not() -> None:
    assert compare.bits(leaf(torch.tensor(0.0)), leaf(torch.tensor(-0.0))) is not None
    assert compare.bits(leaf(torch.tensor(math.nan)), leaf(torch.tensor(math.nan))) is None


def test_bits_of_large_tensors_are_hashes() -> None:
    assert compare.bits(leaf(ONE, kept=False), leaf(ONE.clone(), kept=False)) is None
    difference = compare.bits(leaf(ONE, kept=False), leaf(ONE + 1, kept=False))
    assert difference is not None and "values are not kept" in difference.after


def test_values_are_told_by_their_greatest_difference() -> None:
    one = torch.zeros(2, 3)
    other = one.clone()
    other[1, 2], other[0, 1] = 0.5, 0.25
    difference = compare.bits(leaf(one), leaf(other))
    assert str(difference) == (
        "result: float32[2x3]@cpu: values differ (by 0.5 at [1, 2]: 0 -> 0.5)"
    )
    other[0, 0] = math.nan
    assert "by nan at [0, 0]: 0 -> nan" in str(compare.bits(leaf(one), leaf(other)))


def test_large_tensors_are_told_by_a_sample() -> None:
    one = torch.zeros(1000, 500)
    other = one.clone()
    other[1, 1] = 1.0  # in no sample of every 123rd
    (ours,), (theirs,) = (
        leaves(NamedValues({"w": tensor(each, most=0)}), "") for each in (one, other)
    )
    assert str(compare.bits(ours, theirs)) == (
        "w: float32[1000x500]@cpu: values differ (in none of 4066 elements that were kept)"
    )
    other[0, 492] = -2.0
    (theirs,) = leaves(NamedValues({"w": tensor(other, most=0)}), "")
    assert str(compare.bits(ours, theirs)) == (
        "w: float32[1000x500]@cpu: values differ "
        "(by 2 at [0, 492]: 0 -> -2, of 4066 elements that were kept)"
    )
    assert compare.bits(ours, ours) is None


def test_bits_of_numbers() -> None:
    assert compare.bits(leaf(0.1 + 0.2), leaf(0.1 + 0.2)) is None
    difference = compare.bits(leaf(0.1 + 0.2), leaf(0.3))
    assert difference is not None
    assert str(difference) == "result: value 0.30000000000000004 -> 0.3 (by 5.55e-17)"


@pytest.mark.parametrize("low", [torch.float16, torch.bfloat16])
def test_after_cast(low: torch.dtype) -> None:
    wide = torch.linspace(-3, 3, 101)
    narrow = wide.to(low)
    assert compare.after_cast(leaf(wide), leaf(narrow)) is None
    one_step = (narrow.view(torch.int16) + 1).view(low)
    assert compare.after_cast(leaf(wide), leaf(one_step)) is None
    far = compare.after_cast(leaf(wide), leaf((narrow.view(torch.int16) + 2).view(low)))
    assert far is not None and "units in the last place" in far.after
    assert compare.after_cast(leaf(wide), leaf(narrow.reshape(1, 101))) is not None
    assert compare.after_cast(leaf(wide), leaf(wide.long())) is not None


def test_accurate() -> None:
    """The error may grow by a tenth, and may be whatever rounding alone makes it."""
    exact = torch.linspace(1, 2, 50, dtype=torch.float64)
    reference = {"result": leaf(exact)}
    within = partial(compare.accurate, reference, 0.0)
    bad, worse, good = exact + 1e-3, exact + 2e-3, exact
    assert within(leaf(bad.float()), leaf(good.float())) is None
    assert within(leaf(bad.float()), leaf(bad.float() * 1.00000012)) is None
    refused = within(leaf(bad.float()), leaf(worse.float()))
    assert refused is not None and "the error was 6.5e-04 and is 1.3e-03" in refused.after
    assert within(leaf(good.float()), leaf(exact.to(torch.bfloat16))) is None  # to its precision
    assert within(leaf(good.float()), leaf((exact * math.nan).float())) is not None
    coarse = partial(compare.accurate, reference, 2e-3)
    assert coarse(leaf(bad.float()), leaf(worse.float())) is None
    assert compare.accurate({}, 0.0, leaf(bad.float()), leaf(good.float())) is not None


def test_accurate_of_python_numbers() -> None:
    """A sum of float32 on the device instead of one of Python's float64."""
    within = partial(compare.accurate, {"result": leaf(8.7176562104)}, 0.0)
    assert within(leaf(8.717656210), leaf(8.717656136)) is None
    assert within(leaf(8.717656210), leaf(8.7177)) is not None


def test_close() -> None:
    assert compare.close(leaf(ONE), leaf(ONE + 1e-6)) is None
    assert compare.close(leaf(ONE), leaf(ONE + 1e-4)) is not None
    assert compare.close(leaf(ONE.half()), leaf(ONE.half() + 2e-3)) is not None
    assert compare.close(leaf(torch.tensor([1])), leaf(torch.tensor([2]))) is not None


def test_what_only_one_side_has() -> None:
    before, after = [leaf(1, "a"), leaf(2, "b")], [leaf(2, "b"), leaf(3, "c")]
    found = compare.differences(before, after, compare.bits)
    assert [(each.where, each.what, each.after) for each in found] == [
        ("a", "presence", "nothing"),
        ("c", "presence", "3"),
    ]


def test_leaf_without_a_value() -> None:
    assert compare.bits(Leaf("model", "Net"), Leaf("model", "Net")) is None
    assert compare.bits(Leaf("model", "Net"), Leaf("model", "OtherNet")) is not None


def test_ulps() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        one = torch.tensor([1.0, -1.0, 0.0], dtype=dtype)
        step = torch.tensor([1 + torch.finfo(dtype).eps, -1.0, 0.0], dtype=dtype)
        assert (compare.ulps(one, one), compare.ulps(one, step)) == (0, 1)
        assert compare.ulps(one, -one) > 1000
        assert compare.ulps(-one * 0, one * 0) == 0
        tiny = torch.full((1,), torch.finfo(dtype).smallest_normal, dtype=dtype)
        smallest = 2 ** round(-math.log2(torch.finfo(dtype).eps)) * 2
        assert compare.ulps(tiny, -tiny) == smallest
        nan = torch.tensor([math.nan], dtype=dtype)
        assert compare.ulps(nan, nan) == 0
        assert compare.ulps(nan, nan * 0 + tiny) == (
            0 if (nan * 0 + tiny).isnan().all() else compare.FAR
        )
        assert compare.ulps(nan, tiny) == compare.FAR
        assert compare.ulps(torch.empty(0, dtype=dtype), torch.empty(0, dtype=dtype)) == 0
    largest = torch.tensor([torch.finfo(torch.float64).max], dtype=torch.float64)
    assert compare.ulps(largest, -largest) == compare.FAR


# ------------------------------------------------------------------------------------- traces


WHERE = [
    row(1, "aten.mm.default", "float16@cuda:0 float16@cuda:0", "float16@cuda:0"),
    row(2, "aten.zeros.default", "", "float32@cuda:0"),
    row(3, "aten.where.self", "bool@cuda:0 float16@cuda:0 float32@cuda:0", "float32@cuda:0"),
    row(4, "aten.sum.default", "float32@cuda:0", "float32@cuda:0"),
]
FIXED = [
    row(1, "aten.mm.default", "float16@cuda:0 float16@cuda:0", "float16@cuda:0"),
    row(3, "aten.new_zeros.default", "float16@cuda:0", "float16@cuda:0"),
    row(4, "aten.where.self", "bool@cuda:0 float16@cuda:0 float16@cuda:0", "float16@cuda:0"),
    row(5, "aten.sum.default", "float16@cuda:0", "float32@cuda:0"),
]


def test_equal_traces_do_not_part() -> None:
    moved = [
        row(each.row + 7, each.op, *map(" ".join, (each.inputs, each.outputs))) for each in WHERE
    ]
    assert compare.first_divergence(WHERE, moved) is None
    assert compare.first_divergence([], []) is None


def test_first_divergence() -> None:
    parting = compare.first_divergence(WHERE, FIXED)
    assert parting is not None
    assert (parting.before[0], parting.after[0]) == (WHERE[1], FIXED[1])


def test_operation_that_was_added_or_is_gone() -> None:
    added = compare.first_divergence(WHERE[:1] + WHERE[2:], WHERE)
    assert added is not None and (added.before, added.after) == ((), (WHERE[1],))
    gone = compare.first_divergence(WHERE, WHERE[:3])
    assert gone is not None and (gone.before, gone.after) == ((WHERE[3],), ())


def test_operations_by_line_leave_casts_aside() -> None:
    cast = row(1, "aten._to_copy.default", "float32@cuda:0", "float16@cuda:0")
    library = row(0, "aten.mul.Tensor", "float32@cpu", "float32@cpu", path="")
    found = compare.operations([cast, library, *WHERE[:2]])
    assert found == {
        ("train.py", 1): {
            ("aten.mm.default", "float16@cuda:0", "float16@cuda:0", "->", "float16@cuda:0")
        },
        ("train.py", 2): {("aten.zeros.default", "->", "float32@cuda:0")},
    }


def test_draws() -> None:
    """An operation in place draws as its twin does; the number of the device does not matter."""
    rows = [
        row(1, "aten.rand.default", "", "float32@cpu"),
        row(2, "aten.bernoulli_.float", "float32@cuda:0", "float32@cuda:0"),
        row(2, "aten.bernoulli.default", "float32@cuda:1", "float32@cuda:1"),
        row(3, "aten.mm.default", "float32@cpu float32@cpu", "float32@cpu"),
    ]
    assert compare.draws(rows) == {("rand", "cpu"): 1, ("bernoulli", "cuda"): 2}


def test_without_a_reference_nothing_is_said_of_accuracy() -> None:
    """The float64 run fails on a line that no fix touches: a fix that changes nothing is exact."""
    failing = Observation("cpu", "", RunOutcome.EXCEPTION, "TypeError", "no", place="a.py:3")

    def verdict(other: object) -> verdicts.GroundedVerdict:
        before, after = (
            Observation("cpu", "", RunOutcome.OK, result=(leaf(each),)) for each in (ONE, other)
        )
        runs = verdicts.Runs(
            BACKENDS["cpu"], before, before, after, lambda _, __: failing, lambda place: place
        )
        return verdicts.judge(runs, frozenset({Change.ROUNDING}))

    assert verdict(ONE).verdict is Verdict.EXACT
    changed = verdict(ONE * 1.0000002)
    assert (changed.verdict, changed.good) == (Verdict.INCONCLUSIVE, False)
    assert changed.reason.startswith(
        "changed, without a reference (the float64 run raises TypeError at a.py:3: no): result"
    )
