"""The options of `check` for a project that has findings already: which of them are reported,
which end with status 1, and which become suppression comments."""

# Some modules are imported where they are needed: a command pays for what it uses.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from amplint.claim.finding import Group
from amplint.claim.selectors import UNREADABLE, did_you_mean
from amplint.cli import completion
from amplint.cli.options import comma_separated
from amplint.output.console import CLEAN, FAILED, FINDINGS, STDIN

if TYPE_CHECKING:
    from amplint.output.baseline import Known
    from amplint.project.git import Changes
    from amplint.run.request import Outcome, Request

ROUNDS = 5  # a comment changes its line, so that what else stands there may be new since a revision
Command = TypeVar("Command", bound=Callable[..., int])


def groups(_: click.Context, parameter: click.Parameter, values: Iterable[str]) -> frozenset[Group]:
    known = {group.value: group for group in Group}
    words = comma_separated(_, parameter, values)
    for word in words:
        if word not in known:
            hint = did_you_mean(word, known) or f"; the groups are {', '.join(known)}"
            raise click.BadParameter(f"there is no group `{word}`{hint}", param=parameter)
    return frozenset(known[word] for word in words)


def baseline_options(command: Command) -> Command:
    """The options that name the baseline."""
    decorators = [
        click.option(
            "--baseline",
            metavar="FILE",
            help="The file of known findings, which are not reported. "
            "Default: .amplint-baseline.json.",
        ),
        click.option("--no-baseline", is_flag=True, help="Report the known findings too."),
    ]
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def adoption_options(command: Command) -> Command:
    """These options of `check`, for `Adoption`."""
    decorators = [
        baseline_options,
        click.option(
            "--new-since",
            metavar="REF",
            help="Report findings on, or caused by, lines changed since this git revision.",
        ),
        click.option(
            "--caused-since",
            metavar="REF",
            help="Also report findings elsewhere that the named files' changes since this git "
            "revision cause.",
        ),
        click.option(
            "--add-ignores",
            metavar="REASON",
            help="Write a suppression comment, with this reason, at each finding.",
        ),
        click.option(
            "--exit-zero", is_flag=True, help="Exit with status 0 even if there are findings."
        ),
        click.option(
            "--fail-on",
            metavar="GROUPS",
            multiple=True,
            callback=groups,
            shell_complete=completion.groups,
            help="Exit with status 1 only for findings of these groups.",
        ),
        click.option(
            "--show-settings",
            is_flag=True,
            help="Print the settings, where each comes from, and how many files there are.",
        ),
    ]
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


@dataclass(frozen=True)
class Adoption:
    """The values of these options; `check` hands on all other ones."""

    no_baseline: bool
    new_since: str | None
    caused_since: str | None
    add_ignores: str | None
    exit_zero: bool
    fail_on: frozenset[Group]
    show_settings: bool

    @classmethod
    def take(cls, given: dict[str, Any]) -> Adoption:
        """Take these options out of those given, and check them."""
        taken = cls(**{name: given.pop(name) for name in cls.__dataclass_fields__})
        if taken.no_baseline and given["baseline"]:
            raise click.UsageError("--baseline and --no-baseline cannot be combined")
        if None not in taken.revisions.values():
            raise click.UsageError("--new-since and --caused-since cannot be combined")
        for option, value in {**taken.revisions, "--add-ignores": taken.add_ignores}.items():
            if value is not None and STDIN in given["paths"]:
                raise click.UsageError(f"{option} needs files, not `-`")
        if taken.add_ignores is not None:
            from amplint.fix import ignoring

            taken = replace(taken, add_ignores=ignoring.check_reason(taken.add_ignores))
        return taken

    @property
    def revisions(self) -> dict[str, str | None]:
        """The options that name a revision."""
        return {"--new-since": self.new_since, "--caused-since": self.caused_since}

    def run(self, request: Request) -> Outcome:
        """Run, leave out what is not to be reported, and suppress the rest if that is wanted."""
        known = self.known(request)  # errors come before work
        outcome = self._reported(request, known)
        return outcome if self.add_ignores is None else self._suppressed(outcome, request, known)

    def known(self, request: Request) -> Known:
        """The findings that are not reported."""
        from amplint.output import baseline

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

    def _reported(self, request: Request, known: Known) -> Outcome:
        from amplint.output import baseline
        from amplint.run import engine

        changes = self._changes(request)
        new = self._new_alone(changes)
        if changes is not None and not request.project.reported.issuperset(request.project.files):
            return self._with_caused(request, known, changes)
        return new(baseline.without_known(engine.run(request), known, request))

    def _with_caused(self, request: Request, known: Known, changes: Changes) -> Outcome:
        """The outcome of the named files, with the findings that their changes cause elsewhere."""
        from amplint.output import baseline, causes
        from amplint.run import engine

        whole = causes.of_whole_project(request)
        named, elsewhere = causes.divided(engine.run(whole), request)
        elsewhere = causes.new_elsewhere(elsewhere, request, changes)
        named = self._new_alone(changes)(baseline.without_known(named, known, request))
        if elsewhere.findings:
            elsewhere = baseline.only_new(elsewhere, self.known(whole))
        return causes.joined(named, elsewhere)

    def _changes(self, request: Request) -> Changes | None:
        """The changes since the revision that is named, if one is. The hook names HEAD, which is
        not there before the first commit: then nothing is caused."""
        from amplint.project import git

        revision, option, root = self.new_since, "--new-since", request.project.root
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
        from amplint.output import changed

        return lambda outcome: changed.since(outcome, changes, revision)

    def _suppressed(self, outcome: Outcome, request: Request, known: Known) -> Outcome:
        from amplint.fix import ignoring, writing

        assert self.add_ignores is not None
        count, paths = 0, set[str]()
        problems: dict[str, None] = {}
        for _ in range(ROUNDS):
            ignored = ignoring.add(outcome, self.add_ignores)
            root = request.project.root
            refused = writing.write_texts(root, ignored.before, ignored.after).refused
            problems |= dict.fromkeys(ignored.refused)
            problems |= dict.fromkeys(f"{path}: {reason}" for path, reason in refused.items())
            done = [finding for finding in ignored.findings if finding.path not in refused]
            if not done:
                break
            count += len(done)
            paths |= {finding.path for finding in done}
            outcome = self._reported(request, known)
        from amplint.util.wording import counted

        said = f"suppressed {counted(count, 'finding')} in {counted(len(paths), 'file')}"
        return replace(
            outcome,
            problems=(*outcome.problems, *problems),
            notices=(*outcome.notices, said),
        )
