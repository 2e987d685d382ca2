"""Watch the tests of a run of pytest, each by itself; with pytest-xdist, in its workers."""

# What needs torch is imported by who runs tests, and the linter when there is something to report.
# ruff: noqa: PLC0415

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from amplint.project.modes import MODES
from amplint.util.errors import Failure, describe
from amplint.util.wording import counted
from amplint_verify.observing.block import check_torch
from amplint_verify.observing.second_run import TestRecord

if TYPE_CHECKING:
    from amplint_verify.observing.again import TestsAgain
    from amplint_verify.observing.live import LiveWatcher

NAME = "amplint"  # of what workers send, and of the section in the report


def register(config: pytest.Config) -> None:
    """Have the tests of this process watched, or those of its workers collected. Raises UsageError
    where there is no torch that can be watched."""
    try:
        check_torch("--amplint-observe")
    except ImportError as error:
        raise pytest.UsageError(str(error)) from error
    if config.getoption("--amplint-under") not in (None, *MODES):
        raise pytest.UsageError(f"--amplint-under takes one of {', '.join(MODES)}")
    record = SuiteRecord(config)
    config.pluginmanager.register(record, "amplint-found")
    config.pluginmanager.register(SuiteWatcher(record), "amplint-watching")


class SuiteRecord(TestRecord):
    """The record of a run of pytest, and the report of it.

    Args:
        config: of the run.
    """

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(config.getoption("--amplint-under") or "")
        self.lost = 0  # workers that have sent nothing
        self.text = ""
        self.notices: list[str] = []
        self._config = config

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:  # noqa: ARG002  (of xdist)
        sent = getattr(node, "workeroutput", {}).get(NAME)
        self.lost += sent is None
        self.extend(sent or "[[], []]")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self._config, "workeroutput"):  # a worker of xdist
            self._config.workeroutput[NAME] = self.to_json()
            return
        has_findings = bool(self.observations or self.lost) and self._report()
        if has_findings and self._config.getoption("--amplint-observe-fail"):
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def _report(self) -> bool:
        """Make the report, and say whether it has findings."""
        from amplint_verify.observing.reporting import WatchedCode, notices, reported
        from amplint_verify.observing.second_run import errors_of

        root = Path(os.path.realpath(self._config.rootpath))
        watched = WatchedCode(root, self.observations, {}, self.mode, self.second_runs)
        try:
            outcome, self.text = reported(watched)
        except Failure as failure:
            self.notices = [f"error: what was seen cannot be reported: {failure.message}"]
            return False
        except Exception as fault:
            bug = describe(fault)
            self.notices = [f"error: what was seen cannot be reported, by a bug in amplint: {bug}"]
            return False
        self.notices = [*notices(watched, "test", outcome)]
        if self.lost:
            workers = counted(self.lost, "worker")
            self.notices.append(f"{workers} ended early, so what was seen there is lost")
        return bool(outcome.findings or errors_of(self.second_runs, outcome.findings))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        import click

        from amplint.util.escaping import printable_lines

        if not self.notices:  # no test was run
            return
        terminalreporter.section(NAME)
        if self.text:
            styled = terminalreporter.hasmarkup
            terminalreporter.write_line(self.text if styled else click.unstyle(self.text))
        for notice in self.notices:
            terminalreporter.write_line(f"amplint: {printable_lines(notice)}")


class SuiteWatcher:
    """Watches the tests of this process.

    Args:
        record: hears what they show.
        end, last: when no test begins any more, and none its second run, by `time.monotonic`.
    """

    def __init__(self, record: TestRecord, end: float = inf, last: float = inf) -> None:
        self._record = record
        self._end, self._last = end, last
        self._watcher: LiveWatcher | None = None
        self._again: TestsAgain | None = None
        self._error: BaseException | None = None

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[None]:
        """Watch once for all: what a test replaces for longer than it runs is put back then."""
        if session.config.pluginmanager.hasplugin("dsession"):  # it hands the tests to workers
            yield
            return
        from amplint_verify.observing.live import NestedError, live

        try:
            with live(session.config.rootpath) as self._watcher, ExitStack() as stack:
                if self._record.mode:
                    from amplint_verify.observing.again import TestsAgain

                    self._again = TestsAgain(session, self._watcher, self._record.mode)
                    stack.enter_context(self._again.leaving())
                outcome: Any = yield
                if self._again is not None and outcome.excinfo is None:
                    self._end = inf  # the second runs pass through here, too
                    self._record.second_runs += self._again.run(self._last)
        except NestedError:  # pytest in a program that is watched
            yield

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        watcher = self._watcher
        if watcher is None:
            yield
            return
        if self._again is not None:
            self._again.before_first()
        watcher.clear()
        self._error = None
        yield
        observation = watcher.observation(self._error)
        self._record.add(observation)
        if self._again is not None and isinstance(self._error, pytest.skip.Exception | None):
            self._again.after_first(item, observation)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        if self._again is not None:
            self._again.note_generators()
            if monotonic() > self._end:
                pytest.skip(self._again.is_late())

    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is not None:
            self._error = call.excinfo.value
