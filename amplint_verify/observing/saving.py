"""Write down what runs have shown of a project's functions, for `check` to read.

See `amplint.project.observations` for the file. What is written are dtypes, devices, regions and
places; no value of a tensor, and no path outside of the project.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from amplint.inference.whole_program.observation_values import digest_of, innermost
from amplint.ir.file_index import File
from amplint.ir.model import FunctionFacts
from amplint.project import observations
from amplint.project.observations import ObservedFunction, Shape
from amplint.run.request import Request
from amplint.util.replacing import replace_file
from amplint.util.text import Text
from amplint_verify.recording.observation import Observation
from amplint_verify.recording.sightings import OTHER, Called, Gave

MOST_RUNS = 4  # of a function whose names are kept
DRIVERS = frozenset({*dir(builtins), "OrderedDict", "defaultdict", "deque"})
MOST_SHAPES = 8  # of a place that are kept apart


class Functions:
    """The functions of a file, to be found by rows.

    Args:
        path: of the file, relative to the root of the run.
        text: of it.
    """

    def __init__(self, path: str, text: str) -> None:
        self.file = File(path, text)
        facts = self.file.facts.functions.values()
        self.by_place = {f.location[:2]: f for f in facts if f.kind == "function"}
        self.firsts = dict(first_rows(self.file.parsed.module))
        self.callees = {
            (node.end_lineno, node.end_col_offset): node.func.id
            for node in ast.walk(self.file.parsed.module)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }

    def entered(self, row: int, name: str) -> FunctionFacts | None:
        """The function whose code begins at a row, with its decorators."""
        return self.by_place.get(self.firsts.get((row, name), (0, 0)))

    def around(self, row: int) -> FunctionFacts:
        """The innermost function around a row, or else the module."""
        return innermost(self.file.facts, row)

    def drives_others(self, gave: Gave) -> bool:
        """Whether what returned there may be a function that the called one has called: a type that
        is written in C has no frame, and Python reports none of its calls. Ex) list(map(f, xs))"""
        name = self.callees.get((gave.site.end_row, gave.site.end_column))
        return gave.kind == observations.CALL and name in DRIVERS

    def digest(self, function: FunctionFacts) -> str:
        return digest_of(function, self.file.lines)


def first_rows(module: ast.Module) -> Iterator[tuple[tuple[int, str], tuple[int, int]]]:
    """By the first row of a function, decorators included, and its name: where it stands."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min((each.lineno for each in node.decorator_list), default=node.lineno)
            yield (first, node.name), (node.lineno, node.col_offset)


def observed(
    runs: Iterable[Observation], program: str, texts: Mapping[str, Text]
) -> dict[str, ObservedFunction]:
    """The functions as runs have shown them, by id.

    Args:
        runs: on back ends that follow CUDA's autocast.
        program: the name of what was run.
        texts: of the files of the project.
    """

    files: dict[str, Functions | None] = {}
    by_id: dict[str, ObservedFunction] = {}

    def functions_of(path: str) -> Functions | None:
        if path not in files:
            files[path] = indexed(path, texts)
        return files[path]

    def entry(functions: Functions, facts: FunctionFacts) -> ObservedFunction:
        if facts.id not in by_id:
            by_id[facts.id] = ObservedFunction(functions.digest(facts), [program])
        return by_id[facts.id]

    for run in runs:
        for calling in run.called:
            functions = functions_of(calling.path)
            facts = functions.entered(calling.row, calling.name) if functions else None
            if functions is not None and facts is not None:
                add_calls(entry(functions, facts), calling, run.steps)
        for path, rows in run.calling.items():
            functions = functions_of(path)
            if functions is None:
                continue
            for facts, inside in groupby(rows, functions.around):  # rows are sorted
                function = entry(functions, facts)
                first = facts.location[0]
                function.rows = sorted({*function.rows, *(row - first for row in inside)})
        for gave in run.gave:
            functions = functions_of(gave.site.path)
            shapes = shapes_of(gave.shapes)
            if functions is None or not shapes or functions.drives_others(gave):
                continue
            site = gave.site
            facts = functions.around(site.row)
            location = site.row, site.column, site.end_row, site.end_column
            place = observations.place(gave.kind, location, facts.location[0])
            expressions = entry(functions, facts).expressions
            expressions[place] = merged(expressions.get(place, []), shapes)
    return by_id


def add_calls(function: ObservedFunction, calling: Called, steps: int) -> None:
    """Add what the calls of a function have shown."""
    function.regions = sorted({*function.regions, *calling.regions})
    enough = max(2, steps / 2)
    function.every_step |= calling.learns and calling.steps >= enough
    for name, shapes in calling.parameters.items():
        if shapes_of(shapes):
            function.parameters[name] = merged(function.parameters.get(name, []), shapes_of(shapes))


def shapes_of(shapes: Iterable[Shape]) -> list[Shape]:
    """The shapes of a place, if all of them say something."""
    all_shapes = [*shapes]
    return [] if OTHER in all_shapes else all_shapes


def merged(before: list[Shape], new: list[Shape]) -> list[Shape]:
    """The shapes of one place, each once. A run that does not show the device adds nothing to one
    that does."""
    shapes = [*before, *(each for each in new if each not in before)]
    full = {without_device(each) for each in shapes if "?" not in str(each)}
    distinct = (each for each in shapes if "?" not in str(each) or without_device(each) not in full)
    return sorted(distinct, key=str)[:MOST_SHAPES]


def without_device(shape: Shape) -> str:
    """The text of a shape, whatever devices it names."""
    return re.sub(r" (\?|cpu|cuda) ", " ", str(shape))


def joined(
    before: Mapping[str, ObservedFunction],
    new: Mapping[str, ObservedFunction],
    current: Mapping[str, str],
) -> dict[str, ObservedFunction]:
    """The observations of earlier runs and of this one.

    Args:
        before: those in the file.
        new: those of this run.
        current: the digests of the functions that there are now: others have lost theirs.
    """
    valid = {name: each for name, each in before.items() if current.get(name) == each.text}
    return {**valid, **{n: both(valid[n], s) if n in valid else s for n, s in new.items()}}


def both(one: ObservedFunction, other: ObservedFunction) -> ObservedFunction:
    """The observations of two runs of the same text."""
    return ObservedFunction(
        one.text,
        [*dict.fromkeys([*one.runs, *other.runs])][:MOST_RUNS],
        sorted({*one.regions, *other.regions}),
        one.every_step or other.every_step,
        places(one.parameters, other.parameters),
        places(one.expressions, other.expressions),
        sorted({*one.rows, *other.rows}),
    )


def places(
    one: Mapping[str, list[Shape]], other: Mapping[str, list[Shape]]
) -> dict[str, list[Shape]]:
    return {place: merged(one.get(place, []), other.get(place, [])) for place in {**one, **other}}


def save(
    request: Request, new: Mapping[str, ObservedFunction], texts: Mapping[str, Text]
) -> list[Path]:
    """Write what was observed into the files of the projects it is of, beside what earlier runs
    have shown of the same texts. Raises OSError; UnusableError for a file that holds none."""
    by_project: dict[str, dict[str, ObservedFunction]] = {}
    for name, function in new.items():
        home = request.selection.home_of(name.partition("::")[0])
        by_project.setdefault(home, {})[name] = function
    written: list[Path] = []
    for directory, functions in sorted(by_project.items()):
        prefix = request.projects[directory].prefix
        before = {f"{prefix}{name}": each for name, each in observations.read(directory).items()}
        paths = {name.partition("::")[0] for name in before}
        current = {name: text for path in paths for name, text in digests(path, texts)}
        union = joined(before, functions, current)
        target = Path(directory, observations.FILE)
        target.parent.mkdir(exist_ok=True)
        content = observations.written({name[len(prefix) :]: each for name, each in union.items()})
        observations.parsed(content)  # what nobody would read is not written
        replace_file(target, content)
        written.append(target)
    return written


def digests(path: str, texts: Mapping[str, Text]) -> Iterator[tuple[str, str]]:
    """The digests of the functions of a file, as they are now."""
    functions = indexed(path, texts)
    if functions is not None:
        for facts in functions.file.facts.functions.values():
            yield facts.id, functions.digest(facts)


def indexed(path: str, texts: Mapping[str, Text]) -> Functions | None:
    """The functions of a file; None for one that is none of the project's, or that this Python
    cannot read."""
    try:
        return Functions(path, texts[path].text) if path in texts else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
