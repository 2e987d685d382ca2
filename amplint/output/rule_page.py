"""The page of a rule, as `amplint explain` prints it and as `docs/rules/` holds it.

It is made from the rule's docstring, from its fixture (`fix.diff`) and from its witness.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from amplint.findings.witness import (
    NOT_RUN,
    Differs,
    Dtype,
    Raises,
    Same,
    Syncs,
    Unrun,
    Warns,
    Witness,
)
from amplint.project.config import PREVIEW
from amplint.rule.fixtures import folder
from amplint.rule.of_engine import UNPARSABLE
from amplint.rule.rule import Rule

# The labels of the parts of a page, in their order.
LABELS = (
    "What to do",
    "Why it hurts",
    "Bad",
    "Good",
    "Fix safety",
    "A fix as a diff",
    "Known limits",
    "When run",
    "To suppress it",
)
DIFF = "fix.diff"
URL = re.compile(r"https?://[^\s<>`)\]]+[^\s<>`)\].,;:]")


def heading(rule: Rule) -> str:
    return f"{rule.code} {rule.name}"


def address(rule: Rule) -> str:
    """The absolute address of the page, else the first that the page names; "" without any."""
    named = URL.search(rule.url) or URL.search(rule.doc)
    return named.group() if named else ""


def body(rule: Rule) -> str:
    """All below the heading, in Markdown that reads well in a terminal."""
    return "\n\n".join(paragraphs(rule))


def fix_safety(rule: Rule) -> str:
    """The words of a rule on whether its fix is safe. Ex) there is no fix."""
    _, _, behind = rule.doc.strip().partition("\n\nFix safety:")
    return " ".join(behind.partition("\n\nKnown limits:")[0].split())


def paragraphs(rule: Rule) -> Iterator[str]:
    default = "on by default" if rule.default else f"off by default ({switched_on(rule)})"
    needs = f", for torch {rule.torch} and later" if rule.torch else ""
    needs += f", for a target-torch below {rule.until}" if rule.until else ""
    package = f"of {rule.package}, since its version" if rule.package else "since amplint"
    yield f"{rule.group.value}, {default}, {package} {rule.since}{needs}"
    why, _, safety_and_limits = rule.doc.strip().partition("\n\nFix safety:")
    safety, _, limits = safety_and_limits.partition("\n\nKnown limits:")
    summary, _, why = why.partition("\n\n")
    yield summary
    yield f"What to do: {rule.help}."
    yield "Why it hurts:"
    yield from with_labels(why)
    yield f"Fix safety:{safety}"
    if rule.safe_if:
        yield "A safe fix relies on some of these conditions, and names them:"
        yield "\n".join(f"- {condition}" for condition in rule.safe_if)
    yield from fix(rule)
    yield f"Known limits:{limits}"
    if rule.witness is not NOT_RUN:
        yield f"When run: {SHOWN[type(rule.witness)](rule.witness)}."
    yield suppression(rule)


def with_labels(text: str) -> Iterator[str]:
    """The paragraphs of a docstring: of examples that follow each other, every second is good.

    A third example without a fourth is good too.
    """
    for is_code, run in itertools.groupby(text.split("\n\n"), lambda each: each.startswith("    ")):
        blocks = list(run)
        paired = is_code and len(blocks) > 1
        for number, block in enumerate(blocks):
            if paired and (number % 2 == 0 and number + 1 < len(blocks)):
                yield "Bad:"
            elif paired and number % 2:
                yield "Good:"
            yield block


def fix(rule: Rule) -> Iterator[str]:
    """A change that the rule's fix makes in its fixture, if it has one."""
    try:
        text = (folder(rule.name) / DIFF).read_text(encoding="utf-8")
    except FileNotFoundError:  # no fix, or the rule is somebody else's
        return
    title, _, diff = text.partition("\n")
    yield f"A fix as a diff: {title}"
    yield diff.rstrip("\n")


WRONG = "a program with the mistake"
SHOWN: Mapping[type[Witness], Callable[[Any], str]] = {
    Raises: lambda w: f'{WRONG} raises "{w.text}", and the fixed one does not',
    Dtype: lambda w: f"{WRONG} returns {w.bad}, and the fixed one {w.good}",
    Same: lambda _: f"{WRONG} and the fixed one have the same result, to the bit",
    Differs: lambda w: f"the result of {WRONG} is off by more than {w.rtol * 100:.3g} %",
    Syncs: lambda w: (
        f"waits of the host for the device: at least {w.before} in {WRONG}, at most {w.after} in "
        "the fixed one"
    ),
    Warns: lambda w: f'{WRONG} warns "{w.text}", and the fixed one does not',
    Unrun: lambda w: f"nothing was run: {w.reason} ({w.source})",
}


def switched_on(rule: Rule) -> str:
    if rule.preview:
        return f"in preview: {PREVIEW} switches it on"
    return f'`extend-select = ["{rule.code}"]` switches it on'


def suppression(rule: Rule) -> str:
    """How a user switches the rule off: for a line, for files, for all."""
    in_project = f'`ignore = ["{rule.code}"]` or `per-file-ignores` in `[tool.amplint]`'
    if rule.code == UNPARSABLE.code:
        return f"To suppress it: {in_project}. A comment cannot."
    return f"To suppress it: `# amplint: ignore[{rule.code}] the reason` on the line, {in_project}."
