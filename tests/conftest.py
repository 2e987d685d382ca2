"""Options and fixtures that all tests share."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import sys
import time
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import settings

from amplint.run import seal
from tests import choice
from tests.command import Amplint
from tests.helpers import ROOT, folders

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling  # type: ignore[import-untyped]

# The cache of the tests has a key of its own: a test writes nothing into the home directory.
os.environ.setdefault(seal.VARIABLE, "of the tests")

# A shell has jobs in the background ignore Ctrl-C, and whatever these start does, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine takes longer over an example, and that is no failure.
settings.register_profile("amplint", deadline=None)
settings.load_profile("amplint")


# With the default a tenth of the time goes into collections that find nothing: what was indexed
# stays.
gc.set_threshold(100_000, 50, 100)


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


# The tests there import torch, which takes seconds, or share `runner`, whose processes have.
WITH_TORCH = (
    "tests/observe/",
    "tests/verify/",
    "tests/fixtures/test_myths.py",
    "tests/oracles/test_distributions.py",
    "tests/oracles/test_protocol.py",
    "tests/oracles/test_torch_ops.py",
    "tests/oracles/test_transfer.py",
)
FOLDERS = frozenset(folders())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Let one worker run what imports torch, and one the tests of a fixture, which read one
    outcome: else each worker does all of it.

    The marks that pytest-xdist has for this go into the names of tests, where pytest 9.2 does not
    read them any more.
    """
    if config.option.dist != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415

    class ByWhatIsShared(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    return ByWhatIsShared(config, log)


def unit_of(test: str) -> str:
    """What a test is run with on one worker: torch, a folder of fixtures, or itself alone."""
    if test.startswith(WITH_TORCH):
        return "torch"
    parameters = re.split(r"[\[\]-]", test)[1:]
    return next((each for each in parameters if each in FOLDERS), test)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of the smoke subset, and leave out what `pytest` alone does not run."""
    for item in items:
        path = item.path.relative_to(ROOT).as_posix()
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
        took = f"{choice.seconds(added.run):.0f} s on one core"
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
        help="write the seconds of CPU, processes included, and of the clock that each test took",
    )


def cpu() -> float:
    """The seconds of CPU of this process, and of those that it has started."""
    times = os.times()
    ended = times.children_user + times.children_system
    return times.user + times.system + ended + sum(map(cpu_of, running_children()))


def running_children() -> list[str]:
    """The numbers of the processes that this one has started and that still run; none where the
    system does not list them."""
    lists = Path("/proc/self/task").glob("*/children")
    return [number for each in lists for number in told_by(each).split()]


def cpu_of(process: str) -> float:
    """The seconds of CPU of another process and of those that it has waited for: see proc(5)."""
    fields = told_by(Path(f"/proc/{process}/stat")).rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def told_by(path: Path) -> str:
    """What the system says of a thread or a process: nothing if it has ended just now."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Take the time of a test: its setup, its call and its end."""
    file = item.config.getoption("--times")
    begun, clock = (cpu() if file else 0.0), time.perf_counter()
    try:
        return (yield)
    finally:
        if file:
            took = [round(cpu() - begun, 4), round(time.perf_counter() - clock, 4)]
            with open(f"{file}.{os.getpid()}", "a", encoding="utf-8") as stream:  # noqa: PTH123
                stream.write(json.dumps([item.nodeid, took]) + "\n")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Join what the processes of the run have written."""
    file = session.config.getoption("--times")
    if file and not hasattr(session.config, "workerinput"):
        parts = sorted(Path(file).parent.glob(f"{Path(file).name}.*"))
        rows = [json.loads(row) for part in parts for row in part.read_text().splitlines()]
        Path(file).write_text(json.dumps(dict(rows)), encoding="utf-8")
        for part in parts:
            part.unlink()


@pytest.fixture
def amplint(capfd: pytest.CaptureFixture[str]) -> Amplint:
    return Amplint(capfd)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, which is also the current directory."""
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))


@pytest.fixture(scope="session")
def runner() -> Iterator[object]:
    """Runs specs; torch is imported once for each back end."""
    pytest.importorskip("torch")
    from amplint_verify.runs.run import running  # noqa: PLC0415

    with running() as runner:
        yield runner


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
