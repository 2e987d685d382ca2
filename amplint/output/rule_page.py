"""The page of a rule, as `amplint explain` prints it and as `docs/rules/` holds it."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.core.rule import Rule


def heading(rule: Rule) -> str:
    return f"{rule.code} {rule.name}"


def body(rule: Rule) -> str:
    """All below the heading, in Markdown that reads well in a terminal."""
    return "\n\n".join(paragraphs(rule))


def paragraphs(rule: Rule) -> Iterator[str]:
    default = "on by default" if rule.group.default else "off by default"
    needs = f", for torch {rule.torch} and later" if rule.torch else ""
    needs += f", for a target-torch below {rule.until}" if rule.until else ""
    package = f"of {rule.package}, since its version" if rule.package else "since amplint"
    yield f"{rule.group.value}, {default}, {package} {rule.since}{needs}"
    first, _, rest = rule.doc.strip().partition("\n\n")
    yield first
    yield f"What to do: {rule.help}."
    yield rest
    if rule.safe_if:
        yield "A safe fix rests on some of these, and names them:"
        yield "\n".join(f"- {condition}" for condition in rule.safe_if)
