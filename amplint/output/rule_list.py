"""Rules as `amplint rules` and `amplint explain` print them: lines, pages, or data for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from amplint.output import rule_page
from amplint.rule.rule import Rule


def lines(rules: Sequence[Rule]) -> str:
    """A line for each rule."""
    width = max(len(rule.name) for rule in rules)
    code = max(len(rule.code) for rule in rules)
    groups = {rule: f"{rule.group.value}{state_of(rule)}" for rule in rules}
    group = max(map(len, groups.values()))
    text_lines = []
    for rule in rules:
        package = f" (of {rule.package})" if rule.package else ""
        start = f"{rule.code:{code}}  {rule.name:{width}}  {groups[rule]:{group}}"
        text_lines.append(f"{start}  {rule.summary}{package}")
    return "\n".join(text_lines)


def state_of(rule: Rule) -> str:
    """Of a rule that is off by default, what is to be said of that in a list."""
    if rule.preview:
        return ", preview"
    return "" if rule.default else ", off"


def page(rule: Rule, form: str) -> str:
    """The page of a rule, as "text", "markdown" or "json"."""
    if form == "json":
        return json.dumps(entry(rule), indent=2)
    heading = rule_page.heading(rule)
    if form == "markdown":
        return f"# {heading}\n\n{rule_page.body(rule)}"
    return f"{click.style(heading, bold=True)}\n{rule_page.body(rule)}"


def pages(rules: Sequence[Rule], form: str) -> str:
    """The pages of rules, one after the other; as "json", an array."""
    if form == "json":
        return json.dumps([entry(rule) for rule in rules], indent=2)
    return "\n\n".join(page(rule, form) for rule in rules)


def entry(rule: Rule) -> dict[str, object]:
    """All about a rule, for a program."""
    return {
        "code": rule.code,
        "name": rule.name,
        "group": rule.group.value,
        "default": rule.default,
        "preview": rule.preview,
        "stage": "preview" if rule.preview else "stable",
        "since": rule.since,
        "torch": rule.torch,
        "until": rule.until,
        "safe_if": list(rule.safe_if),
        "help": rule.help,
        "fix": rule_page.fix_safety(rule),
        "url": rule.url or None,
        "package": rule.package or None,
        "summary": rule.summary,
        "doc": rule.doc.strip(),
    }
