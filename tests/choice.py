"""Which tests `pytest` alone runs, and which ones a change adds to them.

The short run is to end in five minutes on two idle cores: somebody waits for it. Everything is
`pytest --whole`, which runs each night and before a release. A path, `-k` and `-m` run all that
they name.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What each test took: `python -m benchmarks.suite --whole --update` takes all anew.
TIMES = ROOT / "benchmarks" / "results" / "suite.json"
# Seconds on average, of CPU or of the clock, from which on a test runs at night, unless it is kept.
SLOW = 1.4
KEPT = frozenset(
    {
        # The commands that the README and the docs show, from their start to their report.
        "tests/conformance/test_readme.py::test_the_example_runs_the_same_before_and_after_its_fixes",
        "tests/observe/test_command.py::test_a_mistake_is_one_finding_with_a_count",
        "tests/observe/test_command.py::test_the_chain_of_calls_and_the_fix_of_check",
        "tests/observe/test_plugin.py::test_what_the_tests_show_is_reported",
        "tests/unit/test_ended_runs.py::test_a_run_that_was_ended_is_no_clean_one",
        "tests/verify/test_projects.py::test_fix_writes_what_is_verified",
        "tests/verify/test_projects.py::test_json",
        # What nothing else in the short run asks.
        "tests/conformance/test_action.py::test_paths_and_options_are_those_of_the_inputs",
        "tests/fuzz/test_applied.py::test_fixes_of_a_copy",
        "tests/oracles/test_protocol.py::test_the_automaton_is_torch",
        "tests/unit/test_docstrings.py::test_arguments_that_docstrings_explain_are_parameters",
        "tests/unit/test_docstrings.py::test_members_of_classes_that_docstrings_name_are_there",
        "tests/unit/test_docstrings.py::test_no_docstring_begins_with_a_question_word",
        "tests/unit/test_layers.py::test_nothing_but_commands_imports",
        "tests/unit/test_server.py::test_a_line_is_explained_in_a_message",
        "tests/unit/test_server.py::test_a_notebook_is_one_program_in_cells",
        "tests/unit/test_server.py::test_settings_files_and_closing",
        "tests/unit/test_smoke.py::test_each_part_is_collected",
        "tests/unit/test_words.py::test_messages_and_rule_pages_have_none_either",
        "tests/unit/test_words.py::test_what_is_found",
        "tests/verify/test_selftest.py::test_a_back_end_gives_what_the_lists_say",
    }
)
# Slow by nature, although most of their tests are short: what they build is shared by all of these.
# The first three install, or build, what they try; torch is asked for each row of each table; a
# program is checked, and one of twice its size.
AT_NIGHT = (
    "tests/conformance/test_own_rules.py",
    "tests/conformance/test_precommit.py",
    "tests/conformance/test_wheel.py",
    "tests/oracles/test_captures.py",
    "tests/oracles/test_waits.py",
    "tests/unit/test_check_growth.py",
    "tests/verify/test_safe_programs.py",
)
MOST_ADDED = 600  # seconds that a change adds by itself
MAINS = ("origin/main", "main", "origin/master", "master")

# Tests that ask the same of each fixture, file or program: of so many in a row one runs, another
# one each day.
ONE_IN: Mapping[str, int] = {
    "tests/conformance/test_commands.py::test_a_command_that_runs_a_program_runs": 5,
    "tests/oracles/test_ways.py::test_a_fixture_says_the_same_in_each_way": 10,
    "tests/observe/test_fixtures.py::test_a_run_shows_the_mistake": 4,
    "tests/observe/test_fixtures.py::test_a_run_without_the_mistake_shows_none": 4,
    "tests/fuzz/test_metamorphic.py::test_no_fix_loses_a_comment": 10,
    "tests/verify/test_safe_programs.py::test_no_program_refutes_a_safe_fix": 5,
    "tests/oracles/test_every_node.py::test_of_every_node_of_a_fixture_is_said_what_is_said": 20,
    "tests/oracles/test_torch_ops.py::test_default_dtypes_of_regions": 4,
    "tests/oracles/test_pairing.py::test_segments_of_a_fixture_are_the_whole_file": 10,
    "tests/unit/test_interpreter.py::test_the_mistake_is_found_with_work_in_proportion": 5,
}
# Tests that ask several things of each fixture, or of each rule of a family: one of each.
ONE_OF_EACH: Mapping[str, str] = {
    "tests/fuzz/test_metamorphic.py::test_findings_survive_a_change_of_bytes": "folder",
    "tests/fuzz/test_metamorphic.py::test_findings_survive_a_change_that_means_nothing": "folder",
    "tests/fuzz/test_metamorphic.py::test_fixing_commutes_with_a_change_of_bytes": "folder",
    "tests/verify/test_witnesses.py::test_witness": "family",
}

# What a change below the first paths concerns is run whole.
ENGINE = ("analyses", "gradscaler", "inference", "ir", "rule", "source", "values", "view")
OF_THE_ENGINE = tuple(f"amplint/{room}/" for room in ENGINE)
CONCERNS: Sequence[tuple[tuple[str, ...], tuple[str, ...]]] = (
    (OF_THE_ENGINE, ("tests/oracles/", "tests/fuzz/")),
    (("amplint/knowledge/",), ("tests/oracles/test_torch_ops.py",)),
    (("amplint/frameworks/",), ("tests/frameworks/",)),
    (("amplint_verify/observing/", "amplint_verify/recording/"), ("tests/observe/",)),
    (("amplint_verify/",), ("tests/verify/",)),
    (("rules/", "fixtures/"), ("tests/verify/test_witnesses.py", "tests/observe/test_fixtures.py")),
    (("amplint/run/", "amplint/output/"), ("tests/unit/test_ended_runs.py",)),
    (("amplint/cli/", ".pre-commit-hooks.yaml", ".ci/", "pyproject.toml"), ("tests/conformance/",)),
    (("benchmarks/verify_programs/",), ("tests/verify/test_programs.py",)),
)


@cache
def known_times() -> Mapping[str, Mapping[str, float]]:
    """By file::test: the seconds on average, and how many there are with its parameters."""
    found: dict[str, dict[str, float]] = json.loads(TIMES.read_text())["families"]
    return found


def is_nightly(test: str) -> bool:
    """Whether a test, as file::test, is left to the night."""
    if test.startswith(AT_NIGHT):
        return True
    took = known_times().get(test)
    return took is not None and took["seconds"] >= SLOW and test not in KEPT


def today() -> int:
    """The number of the day, which is the same in all processes of a run."""
    return int(os.environ.setdefault("AMPLINT_TEST_DAY", str(date.today().toordinal())))


def of_today(test: str, count: int) -> range:
    """Which of so many tests that ask the same run today, by their numbers."""
    every = count if test in ONE_OF_EACH else ONE_IN.get(test, 1)
    return range(today() % every, count, every)


@cache
def changed() -> tuple[str, ...] | None:
    """The paths that differ from where this branch has left the main one, and those that git does
    not know yet; None without git, or without a main branch."""
    for main in MAINS:
        base = _git("merge-base", "HEAD", main)
        if base:
            named = _git("diff", "--name-only", base[0]) or []
            new = _git("ls-files", "--others", "--exclude-standard") or []
            return tuple(sorted({*named, *new}))
    return None


def _git(*words: str) -> list[str] | None:
    try:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None


def concerned(paths: Iterable[str]) -> tuple[str, ...]:
    """The files and directories of tests that changes of these paths concern."""
    paths = tuple(paths)
    return tuple(
        dict.fromkeys(
            test
            for places, tests in CONCERNS
            if any(path.startswith(places) for path in paths)
            for test in tests
        )
    )


def seconds(places: Collection[str]) -> float:
    """The seconds that all tests in these files and directories take."""
    within = tuple(places)
    return sum(
        took["seconds"] * took["tests"]
        for test, took in known_times().items()
        if within and test.startswith(within)
    )
