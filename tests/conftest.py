"""Options and fixtures that all tests share."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

from amplint.run import seal
from tests import choice
from tests.helpers import ROOT

# The cache of the tests has a key of its own: a test writes nothing into the home directory.
os.environ.setdefault(seal.VARIABLE, "of the tests")

# Nor does it write into the summary of the job that runs it.
os.environ.pop("GITHUB_STEP_SUMMARY", None)

# A shell has jobs in the background ignore Ctrl-C, and whatever these start does, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine takes longer over an example, and that is no failure.
settings.register_profile("amplint", deadline=None)
settings.load_profile("amplint")


# `pytest -m smoke`: a part of the suite that runs in less than a minute and that few mistakes pass.
SMOKE_MODULES = frozenset(
    {
        "tests/unit/test_cache.py",
        "tests/unit/test_cli.py",
        "tests/unit/test_config.py",
        "tests/unit/test_import_style.py",
        "tests/unit/test_suppress.py",
    }
)
TOO_LONG = "test_many_processes_at_once_say_the_same"
# The tests of one fixture for each family of rules.
SMOKE_FIXTURES = {
    "autocast": "backward_in_autocast",
    "gradscaler": "clip_before_unscale",
    "host_sync": "host_read_in_hot_path",
    "memory": "loss_accumulated_with_graph",
    "migration": "legacy_custom_fwd",
    "numerics": "log_of_probability",
    "parallel": "host_read_in_self_log",
    "placement": "tensor_attribute_not_buffer",
    "precision": "half_accumulator",
}
FIXTURE_TESTS = "tests/fixtures/test_fixtures.py"


# What `pytest` alone leaves out always: it needs programs that no extra brings, and an index.
BY_HAND = frozenset({"tests/conformance/test_managers_run.py"})


# Each file there starts processes with torch, which all of its tests share.
SHARES_PROCESSES = ("tests/observe/", "tests/verify/")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Let one worker run what shares processes: else each starts them for itself."""
    if getattr(config.option, "numprocesses", None) and config.option.dist in ("no", "load"):
        config.option.dist = "loadgroup"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of the smoke subset, and leave out what `pytest` alone does not run."""
    for item in items:
        path = item.path.relative_to(ROOT).as_posix()
        if path.startswith(SHARES_PROCESSES):
            item.add_marker(pytest.mark.xdist_group(path))
        chosen = path in SMOKE_MODULES or (path == FIXTURE_TESTS and is_smoke_fixture(item))
        if chosen and item.name != TOO_LONG:
            item.add_marker("smoke")
    if not is_short(config):
        return
    added = additions()
    left_out = set(left_out_of(items, added.run if added is not None else ()))
    config.hook.pytest_deselected(items=[*left_out])
    items[:] = [item for item in items if item not in left_out]


def is_short(config: pytest.Config) -> bool:
    """Whether this is `pytest` as the README has it, which names no tests."""
    options = config.option
    chosen_by_hand = config.args != config.getini("testpaths") or options.keyword
    return not (options.whole or options.markexpr or chosen_by_hand)


def left_out_of(items: list[pytest.Item], added: Collection[str]) -> Iterator[pytest.Item]:
    """The tests of the night, and of those that ask the same of many things most, but for what a
    change concerns."""
    alike: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        path = item.path.relative_to(ROOT).as_posix()
        if path in BY_HAND:
            yield item
        elif not path.startswith(tuple(added)):
            test = f"{path}::{getattr(item, 'originalname', item.name)}"
            alike.setdefault((test, group_of(item, test)), []).append(item)
    for (test, _), group in alike.items():
        of_today = range(0) if choice.is_nightly(test) else choice.of_today(test, len(group))
        yield from (item for number, item in enumerate(group) if number not in of_today)


def group_of(item: pytest.Item, test: str) -> str:
    """What one test of its name runs for each day: a fixture, or a family of rules."""
    grouped_by = choice.ONE_OF_EACH.get(test)
    if grouped_by is None:
        return ""
    parameters = item.callspec.params  # type: ignore[attr-defined]
    return str(parameters["rule"].code[:4] if grouped_by == "family" else parameters[grouped_by])


class Additions(NamedTuple):
    """What changes add to the short run.

    Args:
        run: the files and directories of tests that are run whole.
        too_long: those for which that would take too long.
    """

    run: tuple[str, ...]
    too_long: tuple[str, ...]


@cache
def additions() -> Additions | None:
    """What the changes of this checkout add; None where nothing says what they are."""
    paths = choice.changed()
    if paths is None:
        return None
    run: list[str] = []
    too_long: list[str] = []
    for place in choice.concerned(paths):
        fits = choice.seconds([*run, place]) <= choice.MOST_ADDED
        (run if fits else too_long).append(place)
    return Additions(tuple(run), tuple(too_long))


def pytest_report_header(config: pytest.Config) -> list[str]:
    """What is run, before anything is."""
    if not is_short(config):
        return []
    lines = ["the short run: `pytest --whole` runs all tests"]
    added = additions()
    if added is None:
        return [*lines, "nothing is added: git names no changes against a main branch"]
    if added.run:
        took = f"{choice.seconds(added.run):.0f} s of CPU"
        lines.append(f"whole, because of your changes: {' '.join(added.run)} (about {took})")
    if added.too_long:
        lines.append(f"run by yourself, because of your changes: pytest {' '.join(added.too_long)}")
    return lines


def is_smoke_fixture(item: pytest.Item) -> bool:
    """Whether a test is one of a chosen folder: its first parameter."""
    _, _, parameters = item.name.removesuffix("]").partition("[")
    return parameters.partition("-")[0] in SMOKE_FIXTURES.values()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update",
        action="store_true",
        help="write the snapshots (fixtures/*/report.txt) anew instead of comparing with them",
    )
    parser.addoption(
        "--whole",
        action="store_true",
        help="run all tests, not those that are done in five minutes",
    )
    parser.addoption(
        "--times",
        metavar="FILE",
        help="write the seconds of CPU that each test took, its processes included",
    )


def cpu() -> float:
    """The seconds of CPU of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Take the time of a test: its setup, its call and its end."""
    begun = cpu()
    try:
        return (yield)
    finally:
        took = cpu() - begun
        if file := item.config.getoption("--times"):
            with open(f"{file}.{os.getpid()}", "a", encoding="utf-8") as stream:  # noqa: PTH123
                name = item.nodeid.partition("@tests/")[0]  # its group, as pytest-xdist adds it
                stream.write(json.dumps([name, round(took, 4)]) + "\n")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Join what the processes of the run have written."""
    file = session.config.getoption("--times")
    if file and not hasattr(session.config, "workerinput"):
        parts = sorted(Path(file).parent.glob(f"{Path(file).name}.*"))
        rows = [json.loads(row) for part in parts for row in part.read_text().splitlines()]
        Path(file).write_text(json.dumps(dict(rows)), encoding="utf-8")


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))


GROWN = 1.25  # times what there was at the last collection
_blocks = sys.getallocatedblocks()


@pytest.fixture(scope="module", autouse=True)
def memory_given_back() -> Iterator[None]:
    """Collect what runs leave behind. A run of amplint freezes its objects, since the process ends
    with it. The process of the tests does not end, and grew to two gigabytes."""
    global _blocks  # noqa: PLW0603
    yield
    if sys.getallocatedblocks() > GROWN * _blocks:
        gc.unfreeze()
        gc.collect()
        _blocks = sys.getallocatedblocks()
