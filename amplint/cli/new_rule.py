"""`amplint new`: the files of a new rule, which works from the start and waits to be rewritten."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from amplint import __version__
from amplint.core.registry import CODE, FAMILIES
from amplint.core.rule import Rule

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

RULE = '''"""A call of `torch.{name}`. (One line: the pattern that the rule finds.)

What happens at run time, and why that hurts. Say what a run shows, not what the documentation
warns of.

Fix safety: there is no fix. (Or: safe when ..., because ...; unsafe when ...)

Known limits: what the rule does not see, and why it stays silent there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Finding, Group, Rule, Unrun, calls
from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import Source

rule = Rule(
    code="{code}",
    doc=__doc__,
    group=Group.PEDANTIC,  # how strong the claim is
    since="{version}",
    help="say what to write instead",  # shown where a finding has no fix
    # What running bad.py and the fixed program must show, e.g. Raises("same dtype").
    witness=Unrun("not written yet", "amplint new"),
    candidates=calls("torch.{word}"),  # where none of these is, no check looks
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    # Guards first, each a reason to stay silent; then one `yield`.
    if src.name(call.func) != "torch.{word}":
        return
    yield src.finding(rule, call, f"`{{src.text(call.func)}}` is called")
'''

BAD = '''"""What {code} finds; each line that it speaks about ends with the marker."""

import torch


def step(x):
    return torch.{word}(x)  # expect: {code}
'''

GOOD = '''"""Near misses of {code}: each looks like the pattern and is right, for a reason given."""

import math


def step(x):
    # Not torch's: the name alone decides nothing.
    return math.{word}(x)
'''


class ScaffoldError(Exception):
    """The rule cannot be started; the text says why."""


def create(directory: Path, code: str, name: str, rules: Sequence[Rule]) -> list[Path]:
    """Write the files of a new rule and give back their paths.

    Args:
        directory: where the command was started, in a checkout of amplint.
        code: the rule's code, not in use yet.
        name: the pattern, as in "allow NAME".
        rules: the rules that exist.
    """
    name = name.replace("_", "-")
    if not CODE.fullmatch(code):
        raise ScaffoldError(f"{code} is not a code like AMP101")
    if code[3] not in FAMILIES:
        raise ScaffoldError(f"{code} belongs to no family: codes begin with AMP1 to AMP9")
    if not NAME.fullmatch(name):
        raise ScaffoldError(f"{name} is not a name like host-read-in-hot-path")
    for rule in rules:
        if code == rule.code or name == rule.name:
            raise ScaffoldError(f"{rule.code} {rule.name} exists already")
    root = checkout(directory)
    module = name.replace("-", "_")
    values = {"code": code, "name": name, "word": module, "version": __version__}
    files = {
        root / "rules" / FAMILIES[code[3]] / f"{module}.py": RULE,
        root / "fixtures" / module / "bad.py": BAD,
        root / "fixtures" / module / "good.py": GOOD,
    }
    for file in files:
        if file.exists():
            raise ScaffoldError(f"{file} exists already")
    for file, template in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(template.format_map(values), encoding="utf-8")
    return list(files)


def checkout(directory: Path) -> Path:
    """The checkout of amplint around a directory."""
    for up in (directory, *directory.parents):
        if (up / "rules" / "__init__.py").is_file() and (
            up / "amplint" / "core" / "rule.py"
        ).is_file():
            return up
    raise ScaffoldError(f"{directory} is not in a checkout of amplint")
