"""Work that is spread over processes comes to the same as in one."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.core import process_pool
from amplint.core.process_pool import divide, each, spread


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("there are no forks")
    monkeypatch.setattr(process_pool, "available", lambda: 4)


@pytest.mark.usefixtures("four")
def test_results_come_in_the_order_of_the_items() -> None:
    items = list(range(20))
    results = spread(
        lambda item: (item, os.getpid()), items, [1 + i % 3 for i in items], 4, least=5
    )
    assert [item for item, _ in results] == items
    assert len({process for _, process in results}) == 4


@pytest.mark.usefixtures("four")
def test_little_work_stays_in_one_process() -> None:
    results = spread(lambda _: os.getpid(), [1, 2, 3], [1, 1, 1], 4, least=4)
    assert set(results) == {os.getpid()}


@pytest.mark.usefixtures("four")
def test_no_work_is_done() -> None:
    assert spread(str, [], [], 4) == []


@pytest.mark.usefixtures("four")
def test_what_a_killed_process_leaves_is_done_here() -> None:
    here = os.getpid()

    def work(item: int) -> int:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item

    assert spread(work, [1, 2, 3, 4], [1, 1, 1, 1], 4, least=1) == [1, 4, 9, 16]


@pytest.mark.usefixtures("four")
def test_what_fails_elsewhere_fails_here() -> None:
    with pytest.raises(ZeroDivisionError):
        spread(lambda item: 1 // item, [1, 1, 1, 0], [1, 1, 1, 1], 4, least=1)


@pytest.mark.usefixtures("four")
def test_each_item_has_a_process_of_its_own() -> None:
    results = each(lambda item: (item, os.getpid(), "x" * 300_000), list(range(9)), [1] * 9)
    assert [item for item, _, _ in results] == list(range(9))
    assert len({process for _, process, _ in results}) == 9
    assert os.getpid() not in {process for _, process, _ in results}


def test_where_processes_cannot_fork_one_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_pool.sys, "platform", "darwin")
    results = each(lambda item: (item, os.getpid()), [3, 1, 2], [1, 1, 1])
    assert results == [(item, os.getpid()) for item in (3, 1, 2)]


@pytest.mark.usefixtures("four")
def test_an_item_whose_process_is_killed_is_done_here() -> None:
    here = os.getpid()

    def work(item: int) -> int:
        if os.getpid() != here and item == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item

    assert each(work, [1, 2, 3, 4], [1, 1, 1, 1]) == [1, 4, 9, 16]


@given(st.lists(st.integers(0, 1000)), st.integers(1, 8))
def test_each_item_is_in_one_share_and_no_share_is_far_heavier(
    weights: list[int], shares: int
) -> None:
    divided = divide(weights, shares)
    assert sorted(item for share in divided for item in share) == list(range(len(weights)))
    loads = [sum(weights[item] for item in share) for share in divided]
    assert max(loads) - min(loads) <= max(weights, default=0)
