"""Run the tests again that have passed, under a mode of `--under`.

They run after the last of them: nobody else is there then to see CUDA's policy on the CPU, and all
fixtures are set up anew. Nothing of it is reported to pytest.
"""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import zip_longest
from time import monotonic
from typing import NamedTuple
from unittest import mock

import pytest
from _pytest.runner import runtestprotocol

from amplint.project.modes import MODES
from amplint_verify.backends import policy
from amplint_verify.observing import under
from amplint_verify.observing.live import LiveWatcher
from amplint_verify.observing.second_run import OF_HALF, Ending, SecondRun, ending_of
from amplint_verify.recording.observation import Observation
from amplint_verify.recording.raised import place

LATE = "the time limit"


class FirstRun(NamedTuple):
    """The first run of a test that is to run again.

    Args:
        item: the test.
        generators: the states of the random generators before it.
        records: of the calls that it has made.
        observation: of it.
    """

    item: pytest.Item
    generators: bytes
    records: list[under.CallRecord]
    observation: Observation


class TestsAgain:
    """The tests of this process that run again.

    Args:
        session: of pytest.
        watcher: of its tests.
        mode: one of `MODES`.
    """

    __test__ = False  # for pytest

    def __init__(self, session: pytest.Session, watcher: LiveWatcher, mode: str) -> None:
        specs = (getattr(item, "callspec", None) for item in session.items)
        parameters = [spec.params for spec in specs if spec is not None]
        self._config = session.config
        self._watcher = watcher
        self._calls = under.ProjectCalls(session.config.rootpath, MODES[mode], parameters, watcher)
        self._generators = b""
        self._firsts: list[FirstRun] = []
        self._runs: list[SecondRun] = []
        self._errors: list[BaseException] = []

    def leaving(self) -> AbstractContextManager[None]:
        return self._calls.leaving()

    def before_first(self) -> None:
        """A test is about to run as it is."""
        self._calls.install()
        self._calls.begin(None)

    def note_generators(self) -> None:
        """Keep the states of the random generators, which other plugins have seeded by now."""
        self._generators = under.generators()

    def is_late(self) -> str:
        """A test is not to run, for the time is up. Returns the reason."""
        self._calls.reason = LATE
        return LATE

    def after_first(self, item: pytest.Item, observation: Observation) -> None:
        """A test has passed. One that has called nothing of the project does not run again."""
        calls = self._calls
        if calls.reason:
            self._leave(item, observation, calls.reason)
        elif calls.records:
            self._firsts.append(FirstRun(item, self._generators, calls.records, observation))

    def _leave(self, item: pytest.Item, observation: Observation, reason: str) -> None:
        nothing = replace(observation, sightings=(), flags=())
        self._runs.append(SecondRun(item.nodeid, Ending.AS_IT_IS, nothing, reason=reason))

    def run(self, last: float) -> list[SecondRun]:
        """The second runs of the tests.

        Args:
            last: when none begins any more, by `time.monotonic`.
        """
        with warnings.catch_warnings():  # a suite may raise warnings as errors
            warnings.simplefilter("ignore")
            policy.install()
        self._config.pluginmanager.register(self)
        try:
            followers = (first.item for first in self._firsts[1:])
            # Nobody reads the tracebacks, in which pytest looks up the source of each frame: a
            # third of the time of a suite with many failures.
            with mock.patch.object(self._config.option, "tbstyle", "no"):
                for first, follower in zip_longest(self._firsts, followers):
                    if monotonic() > last:
                        self._leave(first.item, first.observation, LATE)
                    else:
                        self._runs.append(self._second(first, follower))
        finally:
            self._config.pluginmanager.unregister(self)
        return self._runs

    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is not None and not isinstance(call.excinfo.value, pytest.skip.Exception):
            self._errors.append(call.excinfo.value)

    def _second(self, first: FirstRun, follower: pytest.Item | None) -> SecondRun:
        calls, watcher = self._calls, self._watcher
        calls.install()
        calls.begin(first.records)
        under.restore(first.generators)
        watcher.clear()
        self._errors.clear()
        runtestprotocol(first.item, log=False, nextitem=follower)
        error = next(iter(self._errors), None)
        observation = watcher.observation(error)
        where = place(error, calls.source_of) if error is not None else ""
        before = {(each.act, each.site, each.detail) for each in first.observation.sightings}
        sightings = tuple(
            each
            for each in observation.sightings
            if each.act in OF_HALF
            and not under.is_test(each.site.path)
            and (each.act, each.site, each.detail) not in before
        )
        flags = tuple(each for each in observation.flags if each not in first.observation.flags)
        observation = replace(observation, sightings=sightings, flags=flags, place=where)
        ending = ending_of(observation)
        losses = tuple(each for each in watcher.losses if not under.is_test(each.path))
        remarks = tuple(calls.remarks)
        return SecondRun(first.item.nodeid, ending, observation, remarks, losses=losses)
