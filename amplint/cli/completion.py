"""The values of options that a shell offers; click itself knows the options and the files."""

# Rules are imported where a value is asked for: a shell waits for the answer.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Iterable

import click

from amplint.findings.finding import Group
from amplint.output import FORMATS


def groups(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    return continued(begun, (group.value for group in Group))


def selectors(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    from amplint.project.config import selectors_of
    from amplint.rule import registry

    return continued(begun, selectors_of(registry.all_rules()))


def rules(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    from amplint.rule import registry

    all_rules = registry.all_rules()
    return [word for rule in all_rules for word in (rule.code, rule.name) if word.startswith(begun)]


def formats(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    return [name for name in FORMATS if name.startswith(begun)]


def continued(begun: str, words: Iterable[str]) -> list[str]:
    """The words that what was typed, a list with commas, may go on with."""
    before, comma, last = begun.rpartition(",")
    return sorted(before + comma + word for word in words if word.startswith(last))
