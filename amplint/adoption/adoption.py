"""Which findings of a run are reported, which end with status 1, and which become suppression
comments, in a project that has findings already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from amplint.adoption import baseline, causes, changed_lines
from amplint.adoption.baseline import Known
from amplint.findings.finding import Group
from amplint.findings.selectors import UNREADABLE
from amplint.output.console import CLEAN, FAILED, FINDINGS
from amplint.project import git
from amplint.project.git import Changes
from amplint.run import engine
from amplint.run.request import Outcome, Request
from amplint.util.wording import counted

ROUNDS = 5  # a comment changes its line, so that what else stands there may be new since a revision


@dataclass(frozen=True)
class Adoption:
    """How `check` treats a project that has findings already.

    Args:
        no_baseline: whether the known findings are reported too.
        new_since: a git revision; what changes since then touch or cause is reported, nothing else.
        caused_since: the same, with all findings of the named files.
        add_ignores: the reason in suppression comments; None to write none.
        exit_zero: whether findings leave the exit status 0.
        fail_on: the groups whose findings end with 1; empty for all.
        show_settings: whether the settings are shown in place of findings.
    """

    no_baseline: bool
    new_since: str | None
    caused_since: str | None
    add_ignores: str | None
    exit_zero: bool
    fail_on: frozenset[Group]
    show_settings: bool

    @property
    def revisions(self) -> dict[str, str | None]:
        """The options that name a revision."""
        return {"--new-since": self.new_since, "--caused-since": self.caused_since}

    def run(self, request: Request) -> Outcome:
        """Run, leave out what is not to be reported, and suppress the rest if that is wanted."""
        baselines = self.baselines(request)  # errors come before work
        result = self._reported(request, baselines)
        return result if self.add_ignores is None else self._suppressed(result, request, baselines)

    def baselines(self, request: Request) -> Known:
        """The findings that are not reported."""
        return {} if self.no_baseline else baseline.of_run(request)

    def status(self, outcome: Outcome) -> int:
        """The exit status. A file that was not looked at fails whatever the groups are."""
        if outcome.problems:
            return FAILED
        fails = any(
            not self.fail_on or finding.group in self.fail_on or finding.code == UNREADABLE
            for finding in outcome.findings
        )
        return FINDINGS if fails and not self.exit_zero else CLEAN

    def _reported(self, request: Request, baselines: Known) -> Outcome:
        changes = self._changes(request)
        new = self._new_alone(changes)
        if changes is not None and not request.selection.reported.issuperset(
            request.selection.files
        ):
            return self._with_caused(request, baselines, changes)
        return new(baseline.without_known(engine.run(request), baselines, request))

    def _with_caused(self, request: Request, baselines: Known, changes: Changes) -> Outcome:
        """The outcome of the named files, with the findings that their changes cause elsewhere."""
        whole = causes.of_whole_project(request)
        named, elsewhere = causes.divided(engine.run(whole), request)
        elsewhere = causes.new_elsewhere(elsewhere, request, changes)
        named = self._new_alone(changes)(baseline.without_known(named, baselines, request))
        if elsewhere.findings:
            elsewhere = baseline.only_new(elsewhere, self.baselines(whole))
        return causes.joined(named, elsewhere)

    def _changes(self, request: Request) -> Changes | None:
        """The changes since the revision that is named, if one is. The hook names HEAD, which is
        not there before the first commit: then nothing is caused."""
        revision, option, root = self.new_since, "--new-since", request.selection.root
        if revision is None and self.caused_since is not None and git.has_commit(root):
            revision, option = self.caused_since, "--caused-since"
        try:
            return None if revision is None else git.changes_since(revision, root)
        except git.GitError as error:
            raise git.GitError(f"{option}: {error.message}") from error

    def _new_alone(self, changes: Changes | None) -> Callable[[Outcome], Outcome]:
        """Leaves out findings that are older than the revision of `--new-since`, if it is given."""
        revision = self.new_since
        if revision is None or changes is None:
            return lambda outcome: outcome
        return lambda outcome: changed_lines.since(outcome, changes, revision)

    def _suppressed(self, outcome: Outcome, request: Request, baselines: Known) -> Outcome:
        # LibCST comes with them, which nothing else here needs.
        from amplint.adoption import ignoring  # noqa: PLC0415
        from amplint.fix import writing  # noqa: PLC0415

        assert self.add_ignores is not None
        count, paths = 0, set[str]()
        problems: dict[str, None] = {}
        for _ in range(ROUNDS):
            ignored = ignoring.add(outcome, self.add_ignores)
            root = request.selection.root
            refused = writing.write_texts(root, ignored.before, ignored.after).refused
            problems |= dict.fromkeys(ignored.refused)
            problems |= dict.fromkeys(f"{path}: {reason}" for path, reason in refused.items())
            done = [finding for finding in ignored.findings if finding.path not in refused]
            if not done:
                break
            count += len(done)
            paths |= {finding.path for finding in done}
            outcome = self._reported(request, baselines)
        notice = f"suppressed {counted(count, 'finding')} in {counted(len(paths), 'file')}"
        return replace(
            outcome,
            problems=(*outcome.problems, *problems),
            notices=(*outcome.notices, notice),
        )
