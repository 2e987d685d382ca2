"""The places and functions that a run has not reached, so that silence is not taken for health.

Asked are the places that `check` reports, and the functions with calls that a run could judge.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from amplint.findings.finding import Finding
from amplint.project.notebooks import SUFFIX
from amplint.util.text import Text
from amplint.util.wording import counted
from amplint_verify.observing.findings import parsed
from amplint_verify.recording.observation import Observation

NAMED = 3  # places, or functions, that a notice names
# The calls, by the last part of their name, that what is watched is about. Those with names that
# much else has (`step`, `to`, `where`) are left out: a function that trains holds others.
JUDGED = frozenset(
    {
        "GradScaler",
        "autocast",
        "backward",
        "clip_grad_norm_",
        "clip_grad_value_",
        "empty_cache",
        "item",
        "masked_select",
        "nonzero",
        "synchronize",
        "tolist",
        "unscale_",
    }
)
TORCH = "torch"
Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class ReportedPlace:
    """A place that `check` reports.

    Args:
        path, row: where it is.
        rows: those of its statement, each of which shows that it ran.
        entry: of a function that is reported as a whole: its first row, as Python counts; else 0.
    """

    path: str
    row: int
    rows: tuple[int, ...]
    entry: int = 0

    def ran(self, observation: Observation) -> bool:
        if self.entry:
            return self.entry in observation.entered.get(self.path, ())
        return not set(self.rows).isdisjoint(observation.reached.get(self.path, ()))

    def __str__(self) -> str:
        return f"{self.path}:{self.row}"


@dataclass(frozen=True)
class UnreachedFunction:
    """A function with calls that a run could judge.

    Args:
        path: of its file.
        name: with those of the classes and functions around it.
        entry: its first row, as Python counts.
    """

    path: str
    name: str
    entry: int

    def ran(self, observation: Observation) -> bool:
        return self.entry in observation.entered.get(self.path, ())

    def __str__(self) -> str:
        return f"{self.name} ({self.path}:{self.entry})"


@dataclass(frozen=True)
class RunQuestions:
    """The questions to a run."""

    places: Sequence[ReportedPlace]
    functions: Sequence[UnreachedFunction]

    @property
    def rows(self) -> Mapping[str, tuple[int, ...]]:
        """The rows that a run has to speak of, by file."""
        by_path: dict[str, set[int]] = {each.path: set() for each in self.functions}
        for place in self.places:
            by_path.setdefault(place.path, set()).update(place.rows)
        return {path: tuple(sorted(rows)) for path, rows in sorted(by_path.items())}


def asked_of(
    findings: Iterable[Finding], texts: Mapping[str, Text], paths: Iterable[str]
) -> RunQuestions:
    """The questions to a run.

    Args:
        findings: of `check`.
        paths: the files that are reported.
    """
    rows = {(each.path, each.span.start.row): None for each in findings}
    places = (place_at(path, row, parsed(texts[path].text)) for path, row in rows if path in texts)
    readable = [path for path in sorted(paths) if path in texts and not path.endswith(SUFFIX)]
    functions = [one for path in readable for one in functions_of(path, texts[path].text)]
    return RunQuestions(
        [place for place in places if place and not place.path.endswith(SUFFIX)],
        functions,
    )


def place_at(path: str, row: int, tree: ast.Module) -> ReportedPlace | None:
    """The place on a row; None if no statement stands there."""
    stmt: ast.stmt | None = None
    for node in ast.walk(tree):  # from the outside in
        if isinstance(node, ast.stmt) and first_row(node) <= row <= (node.end_lineno or 0):
            stmt = node
    if stmt is None:
        return None
    body = getattr(stmt, "body", None) or getattr(stmt, "cases", None)
    if not body:
        return ReportedPlace(path, row, tuple(range(stmt.lineno, (stmt.end_lineno or row) + 1)))
    if isinstance(stmt, Definition) and row >= stmt.lineno:
        return ReportedPlace(path, row, (), first_row(stmt))
    return ReportedPlace(path, row, (row,))  # the head of a block, or a decorator


def first_row(node: ast.stmt) -> int:
    """The row of a statement's first decorator, or its own: that of its code."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def functions_of(path: str, text: str) -> Iterator[UnreachedFunction]:
    """The functions of a file with calls that a run could judge."""
    tree = parsed(text)
    if not any(map(imports_torch, ast.walk(tree))):
        return
    functions: dict[UnreachedFunction, None] = {}
    pending: list[tuple[ast.AST, UnreachedFunction | None, str]] = [(tree, None, "")]
    while pending:
        node, around, scope = pending.pop()
        for child in ast.iter_child_nodes(node):
            function, name = around, scope
            if isinstance(child, Definition | ast.ClassDef):
                name = f"{scope}.{child.name}".lstrip(".")
            if isinstance(child, Definition):
                function = UnreachedFunction(path, name, first_row(child))
            elif function is not None and is_judged(child):
                functions[function] = None
            pending.append((child, function, name))
    yield from sorted(functions, key=lambda each: each.entry)


def imports_torch(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(each.name.partition(".")[0] == TORCH for each in node.names)
    return isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == TORCH


def is_judged(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
    return name in JUDGED


# ------------------------------------------------------------------------------- what is said


def unreached(questions: RunQuestions, observations: Iterable[Observation]) -> Iterator[str]:
    """Sentences on what no run has reached. Of a run that was killed nothing is known."""
    runs = [each for each in observations if each.entered]
    if not runs:
        return
    places = [each for each in questions.places if not any(map(each.ran, runs))]
    if places:
        of = counted(len(questions.places), "place")
        yield (
            f"{len(places):,} of the {of} that check reports {was(places)} not reached: "
            f"{named(places)}"
        )
    started = {path for run in runs for path in run.entered}
    inside = [each for each in questions.functions if each.path in started]
    missed = [each for each in inside if not any(map(each.ran, runs))]
    if missed:
        of = counted(len(inside), "function")
        yield (
            f"{len(missed):,} of the {of} with calls that a run can judge {was(missed)} "
            f"not entered: {named(missed)}"
        )
    files = {each.path for each in questions.functions} - started
    if files:
        yield (
            f"{counted(len(files), 'file')} with such calls {was(files)} not imported: "
            f"{named(sorted(files))}"
        )


def was(things: Collection[object]) -> str:
    return "was" if len(things) == 1 else "were"


def named(things: Sequence[object]) -> str:
    """The first of them, and how many more there are."""
    more = len(things) - NAMED
    names = ", ".join(map(str, things[:NAMED]))
    return f"{names} and {more:,} more" if more > 0 else names
