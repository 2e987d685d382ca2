"""`amplint verify` without a program: what it could do on this project. Nothing is run for that.

Programs are found by reading: scripts have a test on `__name__`, tests have the names that pytest
looks for, and an entry is a function that needs no argument but a device, and that runs lines of
fixes, itself or by what it calls.
"""

from __future__ import annotations

import ast
import os
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from amplint.findings.finding import Finding, Safety
from amplint.fix import applying
from amplint.inference import Inference
from amplint.ir.model import FunctionFacts
from amplint.run.request import Outcome
from amplint.util.text import Text
from amplint.util.walks import reachable
from amplint_verify import HOW_TO_GET_TORCH

MOST = 5  # of each kind that are shown
SHOWN = 10  # fixes
USUAL = ("main", "train", "run", "smoke_test")  # names of functions that run the most


@dataclass(frozen=True)
class Programs:
    """The programs that could be run, by path or name.

    Args:
        scripts: those that run the lines of most fixes come first.
        tests: files of tests.
        entries: as `--entry` takes them; each runs lines of fixes.
    """

    scripts: tuple[str, ...]
    tests: tuple[str, ...]
    entries: tuple[str, ...]


class FixesByFunction:
    """The fixes whose lines a function runs, as far as the call graph shows it.

    Args:
        functions: all functions, by id.
        called: by function, those that its calls may run.
        fixed: the findings with a fix.
    """

    def __init__(
        self,
        functions: Mapping[str, FunctionFacts],
        called: Mapping[str, Iterable[str]],
        fixed: Iterable[Finding],
    ) -> None:
        self._runs: dict[str, set[str]] = {name: set(called.get(name, ())) for name in functions}
        self._own: Counter[str] = Counter()  # how many fixes are in a function
        by_path: dict[str, list[FunctionFacts]] = {}
        for function in functions.values():
            by_path.setdefault(function.path, []).append(function)
            outer = functions.get(function.parent or "")
            # Of what a function defines, hooks and keys for sorting are called out of sight; a
            # class body runs where it stands.
            if outer and (outer.kind in INNER or function.kind in ("class", "lambda")):
                self._runs[outer.id].add(function.id)
        for finding in fixed:
            row = finding.span.start.row
            own = by_path.get(finding.path, ())
            around = [each for each in own if each.location[0] <= row <= each.location[2]]
            if around:  # the innermost one begins last
                self._own[max(around, key=lambda each: each.location[:2]).id] += 1

    def fixes(self, function: str) -> int:
        """The number of fixes whose lines are run when this function is; 0 of an unknown one."""
        start = [function] if function in self._runs else []
        return sum(self._own[each] for each in reachable(start, self._runs.__getitem__))


INNER = ("function", "lambda")


def calls_of(inference: Inference | None, fixed: Iterable[Finding]) -> FixesByFunction:
    """The calls of a project that was linked as a whole; of another one, nothing is known."""
    if inference is None:
        return FixesByFunction({}, {}, ())
    files = inference.files.own.values()
    functions = {name: each for file in files for name, each in file.facts.functions.items()}
    called: dict[str, set[str]] = {}
    for (function, _), callees in inference.calls.edges.items():
        called.setdefault(function, set()).update(callees & functions.keys())
    return FixesByFunction(functions, called, fixed)


def applicable(outcome: Outcome) -> list[Finding]:
    """The findings with a fix that `verify` tries; what is only shown is applied by nobody."""
    return applying.fixable(outcome.findings, applying.UNSAFE)


def programs(
    texts: Mapping[str, Text], changed: Collection[str], calls: FixesByFunction
) -> Programs:
    """The programs of a project.

    Args:
        texts: of its files, by path.
        changed: the files that a fix would change.
        calls: which functions run lines of fixes.
    """
    tests = tuple(path for path in sorted(texts) if is_test(path, texts[path].text))
    others = [path for path in sorted(texts) if path not in tests and path.endswith(".py")]
    scripts = [path for path in others if "torch" in texts[path].text and is_script(texts[path])]
    scripts.sort(key=lambda path: (-calls.fixes(f"{path}::"), path not in changed))
    entries = [
        (-number, name not in USUAL, f"{module_name(path)}:{name}")
        for path in others
        for name in callables(texts[path])
        if (number := calls.fixes(f"{path}::{name}"))
    ]
    return Programs(tuple(scripts), tests, tuple(name for *_, name in sorted(entries)))


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


def text(
    outcome: Outcome, inference: Inference | None, paths: Sequence[str], has_torch: bool
) -> str:
    """The commands to type, and the fixes that they would verify.

    Args:
        outcome: of a check of the project.
        inference: its values, where it was linked as a whole.
        paths: as the user named them.
        has_torch: whether programs can be run in this environment.
    """
    fixable = applicable(outcome)
    lines = [*of_fixes(fixable, outcome)]
    if fixable:
        calls = calls_of(inference, fixable)
        candidates = programs(outcome.all_texts or outcome.texts, {e.path for e in fixable}, calls)
        safeties = {each.fix.safety for each in fixable if each.fix is not None}
        arguments = [*(paths or (".",)), *(["--unsafe"] if safeties == {Safety.UNSAFE} else [])]
        lines += ["", *of_programs(candidates, outcome.root, arguments)]
        if len(safeties) > 1:
            lines.append("`amplint verify --unsafe` verifies the unsafe fixes too.")
        lines.append("`amplint verify --report DIRECTORY` writes a page with the diff of each fix.")
    lines.append("`amplint verify --help` says what the verdicts mean. Nothing was run.")
    if not has_torch:
        lines.append(f"To run anything, torch is needed here: {HOW_TO_GET_TORCH}")
    return "\n".join(lines)


def of_fixes(fixable: Sequence[Finding], outcome: Outcome) -> Iterator[str]:
    """The fixes that there are to verify."""
    if not fixable:
        yield "No finding has a fix that may be applied: there is nothing to verify."
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


def of_programs(candidates: Programs, root: Path, words: Sequence[str]) -> Iterator[str]:
    """The commands, one a line; these words stand behind `verify`."""
    arguments = shlex.join(words)
    yield "To verify, name a program that runs these lines. Found here:"
    commands = [
        f"--steps 20 --script {shlex.quote(os.path.relpath(root / script))}"
        for script in candidates.scripts[:MOST]
    ]
    commands += [f"--entry {entry}" for entry in candidates.entries[:MOST]]
    if candidates.tests:
        commands.append("--pytest")
    yield from (f"  amplint verify {arguments} {command}" for command in commands)
    if not commands:
        yield "  nothing; name a function that needs no arguments:"
        yield f"  amplint verify {arguments} --entry package.module:function"
