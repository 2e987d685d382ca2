"""The options of `check` for a project that has findings already: which of them are reported,
which end with status 1, and which become suppression comments."""

# Some modules are imported where they are needed: a command pays for what it uses.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from amplint.cli import completion
from amplint.cli.options import comma_separated
from amplint.findings.finding import Group
from amplint.findings.selectors import did_you_mean
from amplint.output.console import STDIN

if TYPE_CHECKING:
    from amplint.adoption.adoption import Adoption

Command = TypeVar("Command", bound=Callable[..., int])


def groups(_: click.Context, parameter: click.Parameter, values: Iterable[str]) -> frozenset[Group]:
    by_value = {group.value: group for group in Group}
    words = comma_separated(_, parameter, values)
    for word in words:
        if word not in by_value:
            hint = did_you_mean(word, by_value) or f"; the groups are {', '.join(by_value)}"
            raise click.BadParameter(f"there is no group `{word}`{hint}", param=parameter)
    return frozenset(by_value[word] for word in words)


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
    """These options of `check`, for `adoption_of`."""
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


def adoption_of(arguments: dict[str, Any]) -> Adoption:
    """Take these options out of those given, and check them."""
    from amplint.adoption.adoption import Adoption

    adoption = Adoption(**{name: arguments.pop(name) for name in Adoption.__dataclass_fields__})
    if adoption.no_baseline and arguments["baseline"]:
        raise click.UsageError("--baseline and --no-baseline cannot be combined")
    if None not in adoption.revisions.values():
        raise click.UsageError("--new-since and --caused-since cannot be combined")
    for option, value in {**adoption.revisions, "--add-ignores": adoption.add_ignores}.items():
        if value is not None and STDIN in arguments["paths"]:
            raise click.UsageError(f"{option} needs files, not `-`")
    if adoption.add_ignores is None:
        return adoption
    from amplint.adoption import ignoring

    return replace(adoption, add_ignores=ignoring.check_reason(adoption.add_ignores))
