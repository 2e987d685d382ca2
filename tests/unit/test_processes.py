"""Work that is spread over processes comes to the same as in one."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.util.process_pool import divide, each, spread, workers

forks = pytest.mark.skipif(sys.platform != "linux", reason="there are no forks")


@forks
def test_results_come_in_the_order_of_the_items() -> None:
    items = list(range(20))
    results = spread(
        lambda item: (item, os.getpid()), items, [1 + i % 3 for i in items], 4, least=5
    )
    assert [item for item, _ in results] == items
    assert len({process for _, process in results}) == 4


@forks
def test_little_work_stays_in_one_process() -> None:
    results = spread(lambda _: os.getpid(), [1, 2, 3], [1, 1, 1], 4, least=4)
    assert set(results) == {os.getpid()}


@forks
def test_no_work_is_done() -> None:
    assert spread(str, [], [], 4) == []


@forks
def test_what_a_killed_process_leaves_is_done_here() -> None:
    here = os.getpid()

    def work(item: int) -> int:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item

    assert spread(work, [1, 2, 3, 4], [1, 1, 1, 1], 4, least=1) == [1, 4, 9, 16]


@forks
def test_what_fails_elsewhere_fails_here() -> None:
    with pytest.raises(ZeroDivisionError):
        spread(lambda item: 1 // item, [1, 1, 1, 0], [1, 1, 1, 1], 4, least=1)


@forks
def test_each_item_has_a_process_of_its_own() -> None:
    results = each(lambda item: (item, os.getpid(), "x" * 300_000), list(range(9)), [1] * 9, 4)
    assert [item for item, _, _ in results] == list(range(9))
    assert len({process for _, process, _ in results}) == 9
    assert os.getpid() not in {process for _, process, _ in results}


def test_where_processes_cannot_fork_one_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    results = each(lambda item: (item, os.getpid()), [3, 1, 2], [1, 1, 1], 4)
    assert results == [(item, os.getpid()) for item in (3, 1, 2)]


@forks
def test_an_item_whose_process_is_killed_is_done_here() -> None:
    here = os.getpid()

    def work(item: int) -> int:
        if os.getpid() != here and item == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item

    assert each(work, [1, 2, 3, 4], [1, 1, 1, 1], 4) == [1, 4, 9, 16]


@forks
def test_a_process_ends_with_the_one_that_has_started_it() -> None:
    """However that ends, and those that it has started itself as well."""
    reading, writing = os.pipe()  # which all of them have open
    process = os.fork()
    if not process:

        def sleep(_: int) -> None:
            os.write(writing, b"x")
            time.sleep(600)

        each(lambda item: spread(sleep, [item, item], [1, 1], 2, least=1), [1, 2], [1, 1], 2)
        os._exit(1)
    os.close(writing)
    assert sum(len(os.read(reading, 1)) for _ in range(4)) == 4
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    assert os.read(reading, 1) == b""  # nobody has it open any more
    os.close(reading)


@forks
def test_ctrl_c_is_for_the_first_process() -> None:
    here = os.getpid()

    def work(_: int) -> int:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGINT)
        return os.getpid()

    assert len(set(spread(work, [1, 2], [1, 1], 2, least=1))) == 2


@forks
def test_what_fails_here_ends_the_others() -> None:
    here = os.getpid()

    def work(_: int) -> None:
        if os.getpid() == here:
            raise ZeroDivisionError
        time.sleep(600)

    with pytest.raises(ZeroDivisionError):
        spread(work, [1, 2], [2, 1], 2, least=1)


def test_so_many_work_as_are_wanted_where_there_are_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert workers(3) == (3 if sys.platform == "linux" else 1)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert workers(3) == workers() == 1


@given(st.lists(st.integers(0, 1000)), st.integers(1, 8))
def test_each_item_is_in_one_share_and_no_share_is_far_heavier(
    weights: list[int], shares: int
) -> None:
    divided = divide(weights, shares)
    assert sorted(item for share in divided for item in share) == list(range(len(weights)))
    loads = [sum(weights[item] for item in share) for share in divided]
    assert max(loads) - min(loads) <= max(weights, default=0)
