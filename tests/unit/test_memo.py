"""Equal values are one object in a fixpoint, and a transfer function runs once for its operands."""

from __future__ import annotations

from amplint.inference.memo import Memo
from amplint.values.atoms import BOTTOM, Host, Mapping, Sequence, Tensor, Value, one
from amplint.values.lattice import MAX_DEPTH, MAX_KEYS, is_deeper


def pair() -> Value:
    """A value that is made anew, with all that is in it."""
    return one(Sequence((one(Tensor("float16")), one(Host("int"))), BOTTOM))


def test_equal_values_are_one_object() -> None:
    memo = Memo()
    first = memo.interned(pair())
    assert memo.interned(pair()) is first
    assert memo.interned(BOTTOM) is BOTTOM


def test_what_lies_in_a_value_is_shared_too() -> None:
    memo = Memo()
    tensor = memo.interned(one(Tensor("float16")))
    (sequence,) = memo.interned(pair())
    assert isinstance(sequence, Sequence)
    assert sequence.items is not None
    assert sequence.items[0] is tensor


def test_what_nests_too_deep_is_cut_once() -> None:
    memo = Memo()
    deep = one(Host("int"))
    for _ in range(MAX_DEPTH + 2):
        deep = one(Mapping(deep))
    cut = memo.interned(deep)
    assert not is_deeper(cut, MAX_DEPTH)
    assert memo.interned(deep) is cut
    assert memo.interned(cut) is cut


def test_the_keys_of_nested_dicts_are_few() -> None:
    """Of a dict that is updated with what was in it, which walks would come to 32768 times."""
    memo = Memo()
    losses = one(Tensor("float16"))
    for _ in range(MAX_DEPTH):
        losses = one(Mapping(BOTTOM, tuple((f"loss {key:02}", losses) for key in range(MAX_KEYS))))
    (kept,) = memo.interned(losses)
    assert isinstance(kept, Mapping)
    assert len(kept.items) == MAX_KEYS
    within = {inner for _, value in kept.items for inner in value}
    assert all(isinstance(each, Mapping) and each.crowded and not each.items for each in within)


def test_the_keys_of_a_small_dict_in_a_dict_are_told_apart() -> None:
    batch = one(Mapping(BOTTOM, (("size", one(Host("int"))), ("x", one(Tensor("float16"))))))
    batches = one(Mapping(BOTTOM, (("train", batch),)))
    assert Memo().interned(batches) == batches


def test_a_result_is_computed_once() -> None:
    memo = Memo()
    computed: list[Value] = []

    def compute() -> Value:
        computed.append(pair())
        return computed[-1]

    first = memo.result(("operation", pair()), compute)
    assert memo.result(("operation", pair()), compute) is first
    assert len(computed) == 1
