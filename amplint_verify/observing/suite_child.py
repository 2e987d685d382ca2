"""Run the tests of a project under a mode, in the process of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amplint_verify.observing.second_run import TestRecord
from amplint_verify.observing.suite import SuiteWatcher
from amplint_verify.runs.drivers import Landmarks, Suite, in_mirror


def run(program: Mapping[str, Any], of: str, mode: str) -> str:
    """The record of the tests, the JSON of a `TestRecord`.

    Args:
        program: a `UserProgram` as JSON: the arguments of pytest.
        of: the tree that the working directory mirrors.
        mode: one of `MODES`.

    Raises as `drivers.run`.
    """
    record = TestRecord(mode)
    Suite(Landmarks(None), SuiteWatcher(record)).run(in_mirror(program, of))
    return record.to_json()
