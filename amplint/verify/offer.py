"""`amplint verify` without a program: what it could do on this project. Nothing is run for that.

Programs are found by reading: scripts have a test on `__name__`, tests have the names that pytest
looks for, and an entry is a function in a file with a fix that needs no argument but a device.
"""

from __future__ import annotations

import ast
import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from amplint.core.finding import Finding, Safety
from amplint.core.text import Text
from amplint.run.request import Outcome
from amplint.verify import HOW_TO_GET_TORCH

MOST = 5  # of each kind that are shown
SHOWN = 10  # fixes
USUAL = ("main", "train", "run", "smoke_test")  # names of functions that run the most


@dataclass(frozen=True)
class Programs:
    """The programs that could be run, by path or name.

    Args:
        scripts: those in which fixes are come first.
        tests: files of tests.
        entries: as `--entry` takes them.
    """

    scripts: tuple[str, ...]
    tests: tuple[str, ...]
    entries: tuple[str, ...]


def programs(texts: Mapping[str, Text], fixed: Iterable[str]) -> Programs:
    """The programs of a project.

    Args:
        texts: of its files, by path.
        fixed: the files that a fix would change.
    """
    changed = set(fixed)
    tests = tuple(path for path in sorted(texts) if is_test(path, texts[path].text))
    others = [path for path in sorted(texts) if path not in tests and path.endswith(".py")]
    scripts = [path for path in others if "torch" in texts[path].text and is_script(texts[path])]
    names = [(path, name) for path in others if path in changed for name in callables(texts[path])]
    names.sort(key=lambda each: each[1] not in USUAL)
    entries = [f"{module_name(path)}:{name}" for path, name in names]
    by_fix = sorted(scripts, key=lambda path: path not in changed)
    return Programs(tuple(by_fix), tests, tuple(entries))


def is_test(path: str, text: str) -> bool:
    name = PurePosixPath(path).name
    return (name.startswith("test_") or name.endswith("_test.py")) and "def test" in text


def is_script(text: Text) -> bool:
    """Whether there is a test on `__name__` at the level of the module."""
    return "__main__" in text.text and any(
        isinstance(node, ast.If) and "__name__" in names_in(node.test) for node in body_of(text)
    )


def names_in(test: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}


def callables(text: Text) -> Iterator[str]:
    """The functions of a module that need no argument but a device, without private ones."""
    for node in body_of(text):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            positional = [*node.args.posonlyargs, *node.args.args]
            needed = positional[: len(positional) - len(node.args.defaults)]
            keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            needed += [argument for argument, default in keywords if default is None]
            if {argument.arg for argument in needed} <= {"device"}:
                yield node.name


def body_of(text: Text) -> list[ast.stmt]:
    """The statements of a module; none of one that Python does not read."""
    try:
        return ast.parse(text.text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def module_name(path: str) -> str:
    """The name to import a file by. One below a folder that no name fits is imported by its own."""
    parts = PurePosixPath(path).with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" and len(parts) > 1 else parts
    return ".".join(parts) if all(part.isidentifier() for part in parts) else parts[-1]


# ------------------------------------------------------------------------------- words


def text(outcome: Outcome, paths: Sequence[str], has_torch: bool) -> str:
    """The commands to type, and the fixes that they would verify.

    Args:
        outcome: of a check of the project.
        paths: as the user named them.
        has_torch: whether programs can be run in this environment.
    """
    fixable = [finding for finding in outcome.findings if finding.fix is not None]
    lines = [*of_fixes(fixable, outcome)]
    if fixable:
        found = programs(outcome.all_texts or outcome.texts, {each.path for each in fixable})
        lines += ["", *of_programs(found, outcome.root, paths)]
        if any(each.fix is not None and each.fix.safety is Safety.UNSAFE for each in fixable):
            lines.append("With --unsafe behind `verify`, the unsafe fixes are verified too.")
        lines.append(
            "With --report DIRECTORY behind `verify`, there is a page with the diff of each fix."
        )
    lines.append("`amplint verify --help` says what the verdicts mean. Nothing was run.")
    if not has_torch:
        lines.append(f"To run anything, torch is needed here: {HOW_TO_GET_TORCH}")
    return "\n".join(lines)


def of_fixes(fixable: Sequence[Finding], outcome: Outcome) -> Iterator[str]:
    """The fixes that there are to verify."""
    if not fixable:
        yield "No finding has a fix: there is nothing to verify."
        return
    counts = Counter(each.fix.safety.value for each in fixable if each.fix is not None)
    safeties = (f"{counts[each.value]} {each.value}" for each in Safety if counts[each.value])
    yield f"Fixes that could be verified: {len(fixable)} ({', '.join(safeties)})"
    for finding in fixable[:SHOWN]:
        assert finding.fix is not None
        part = outcome.texts[finding.path].part(finding.span.start.row)
        row = part.place(finding.span.start).row
        yield (
            f"  {part.of(finding.path)}:{row} {finding.code} "
            f"{finding.fix.safety.value} fix: {finding.fix.title}"
        )
    if len(fixable) > SHOWN:
        yield f"  and {len(fixable) - SHOWN} more, which `amplint check` lists"


def of_programs(found: Programs, root: Path, paths: Sequence[str]) -> Iterator[str]:
    """The commands, one a line."""
    given = shlex.join(paths or (".",))
    yield "A verdict takes a program that runs the lines of these fixes. Found here:"
    commands = [
        f"--steps 20 --script {shlex.quote(os.path.relpath(root / script))}"
        for script in found.scripts[:MOST]
    ]
    commands += [f"--entry {entry}" for entry in found.entries[:MOST]]
    if found.tests:
        commands.append("--pytest")
    yield from (f"  amplint verify {given} {command}" for command in commands)
    if not commands:
        yield "  nothing; name a function that needs no arguments:"
        yield f"  amplint verify {given} --entry package.module:function"
