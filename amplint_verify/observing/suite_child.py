"""Run the tests of a project under a mode, in the process of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from amplint_verify.backends.standin import asked_regions
from amplint_verify.observing.second_run import TestRecord
from amplint_verify.observing.suite import SuiteWatcher
from amplint_verify.runs.drivers import Landmarks, Suite, in_mirror

PART = 0.8  # of the time limit; the rest is for the test that runs by then, and the report


def run(program: Mapping[str, Any], of: str, mode: str, seconds: float) -> str:
    """The record of the tests, the JSON of a `TestRecord`.

    Args:
        program: a `UserProgram` as JSON: the arguments of pytest.
        of: the tree that the working directory mirrors.
        mode: one of `MODES`.
        seconds: the time limit. First runs have half of it, and what is left when it is nearly up
            does not run.

    Raises as `drivers.run`.
    """
    record = TestRecord(mode)
    now = time.monotonic()
    ends = now + seconds * PART / 2, now + seconds * PART
    with asked_regions():
        Suite(Landmarks(None), SuiteWatcher(record, *ends)).run(in_mirror(program, of))
    return record.to_json()
