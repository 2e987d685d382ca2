"""Options and fixtures that all tests share."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import settings

from amplint.run import seal
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


# Tests that ask the same of each fixture, file or program. `pytest` alone runs a fifth
# of each, the same one each time; `pytest --whole`, a path or `-k` run all. They hold one engine to
# another one of its kind, and fail by the dozen where they fail.
OF_EACH = frozenset(
    {
        "test_a_command_that_runs_a_program_runs",
        "test_findings_do_not_depend_on_the_order",
        "test_findings_survive_a_change_that_means_nothing",
        "test_graphs_and_places_are_the_same_when_the_tree_was_forgotten",
        "test_a_fixture_split_by_definition_says_the_same",
        "test_fixing_commutes_with_a_change_of_bytes",
        "test_no_fix_loses_a_comment",
        "test_no_program_refutes_a_safe_fix",
        "test_of_every_node_of_a_fixture_is_said_what_is_said",
        "test_segments_of_a_fixture_are_the_whole_file",
        "test_twice_the_program_is_twice_the_work",
    }
)
PART = 5

# What `pytest` alone leaves out: it needs programs that no extra brings, and a package index.
BY_HAND = frozenset({"tests/conformance/test_managers_run.py"})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of the smoke subset, and leave out what `pytest` alone does not run."""
    for item in items:
        path = item.path.relative_to(ROOT).as_posix()
        chosen = path in SMOKE_MODULES or (path == FIXTURE_TESTS and is_smoke_fixture(item))
        if chosen and item.name != TOO_LONG:
            item.add_marker("smoke")

    options = config.option
    chosen_by_hand = config.args != config.getini("testpaths") or options.keyword
    if not (options.whole or options.markexpr or chosen_by_hand):
        left_out = set(left_out_of(items))
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]


def left_out_of(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """The tests by hand, and four fifths of those of each fixture, other ones for each test."""
    seen: Counter[str] = Counter()
    for item in items:
        if item.path.relative_to(ROOT).as_posix() in BY_HAND:
            yield item
        name = getattr(item, "originalname", item.name)
        if name in OF_EACH:
            seen[name] += 1
            if (seen[name] + len(name)) % PART:
                yield item


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
        help="run what is asked of each fixture of all of them, not of a fifth",
    )


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
