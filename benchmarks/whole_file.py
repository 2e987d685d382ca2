"""Whether amplint, which reads little with LibCST, says what an analysis of whole files says.

    python -m benchmarks.whole_file [PACKAGE...] [--cache DIR]

The fast path parses the units that can matter, pairs their nodes with those of `ast` by order,
and shows a rule the units that hold one of its candidates. The long way parses each file whole, by
one `libcst.parse_module`, takes every place from LibCST's PositionProvider, pairs the nodes by
place, and shows every rule every node, names and white space included.

A large project is linked in parts, and of what calls from another part nobody knows. That is no
matter of what is parsed, and so both ways have the same parts at first. The long way is then gone
once more with the project as one part, and what differs then is written down besides.

Both ways have in common what `ast` says, inference itself, and the answers to what rules ask.
Findings are compared in all that they say: place, message, scope, strength, fix with its edits,
related places; so are problems and notices. All rules are on. The timm is that of
benchmarks.speed. Writes results/whole_file.json when all packages were run; exits with 1 when
anything differs with the same parts.
"""

from __future__ import annotations

import ast
import json
import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from unittest import mock

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from amplint.analyses.candidates import Candidate, FileCandidates, Search
from amplint.analyses.fact import Facts
from amplint.analyses.program import FileView
from amplint.core import registry
from amplint.core.candidate import Trait
from amplint.core.finding import Finding
from amplint.core.rule import Rule
from amplint.core.text import Text, span_in
from amplint.cst.navigation import FSTRING_PLACES_HOLD, Layout
from amplint.cst.pairing import KINDS, ast_nodes, pair_by_order, walk
from amplint.cst.segments import RefusedUnitError, Spans, Tree, Unit, Units, place
from amplint.ir.file_set import Files
from amplint.project.config import Settings
from amplint.project.discover import Project
from amplint.run import analysis, engine, judge, parts, session
from amplint.run.judge import JudgedFile, show
from amplint.run.request import Outcome, Request
from amplint.source import Source
from amplint.source import Spans as Where
from amplint.view.view import Code
from benchmarks.packages import RESULTS, Package, arguments, fetch, load, sources
from benchmarks.speed import TREES

OTHERS = ("pytorch-ignite", "recbole")
Divide = Callable[[Mapping[str, int]], list[tuple[str, ...]]]

# ------------------------------------------------------------------------------ one file

# A kind of LibCST's nodes, and a stretch of the text; of statements only the beginning, since
# LibCST counts what follows the last line of a block.
Key = tuple[type[cst.CSTNode], int, int]
STATEMENTS = frozenset(KINDS[kind] for kind in KINDS if issubclass(kind, ast.stmt))
STRINGS = (cst.FormattedString, cst.ConcatenatedString)
# What not every one of has a node in the other tree.
NESTED: Mapping[type[ast.AST], tuple[type[cst.CSTNode], ...]] = {
    ast.BoolOp: (cst.BooleanOperation,),
    ast.JoinedStr: STRINGS,
    ast.Tuple: (cst.Tuple,),
}


@dataclass(frozen=True)
class Positions(Spans):
    """Where LibCST's PositionProvider says that nodes stand."""

    text: Text
    ranges: Mapping[cst.CSTNode, CodeRange]

    def of(self, node: cst.CSTNode) -> tuple[int, int] | None:
        """The offsets of a node without its own parentheses."""
        found = self.ranges.get(node)
        if found is None:
            return None
        start, end = found.start, found.end
        return self.text.start(start.line) + start.column, self.text.start(end.line) + end.column


class WholeFile(Units):
    """A file as one unit."""

    def __init__(self, text: Text, module: ast.Module) -> None:
        super().__init__(text, module)
        self.units = [Unit(0, len(text.text), 1, tuple(module.body))]
        self._starts = [0]

    def tree(self, unit: Unit) -> Tree:
        """The file as LibCST reads it. Raises RefusedUnitError."""
        if unit.start not in self._trees:
            self._trees[unit.start] = parsed(self.text, self.module, unit)
        return super().tree(unit)


class WholeLayout(Layout):
    """A file parsed whole, every place by LibCST."""

    def __init__(self, path: str, text: Text, module: ast.Module) -> None:
        super().__init__(path, text, module)
        self.units = WholeFile(text, module)

    def _place(self, node: cst.CSTNode) -> None:
        """`ast` is not asked where a node stands."""


def judge_whole(
    path: str,
    text: Text,
    facts: FileView,
    found: FileCandidates,
    rules: Sequence[Rule],
    spans: Where = lambda place: span_in(None, place),
    _watch: None = None,
) -> JudgedFile:
    """`amplint.run.judge.judge`, except what it leaves out: every node is shown to every rule."""
    source = Source(WholeLayout(path, text, facts.module), facts, spans)
    shown = [(unit, rules) for unit in source.layout.units.units]
    return show(Code(source, facts), shown, found.shown)


class Everywhere:
    """`amplint.analyses.candidates.Search`, but that every rule may speak in every file, and that
    every node of a function is held against the condition of every check of Views: no table leaves
    out what a function is known not to hold, and no check is run on the value graph alone."""

    def __init__(self, files: Files, facts: Facts, rules: Sequence[Rule], _: object) -> None:
        self._codes = frozenset(rule.code for rule in rules)
        self._search = Search(files, facts, rules)
        self._looks = [
            (rule.code, number, way)
            for rule in rules
            for number, look in enumerate(rule.looks)
            for way in look.condition.ways
        ]

    def of(self, path: str) -> FileCandidates:
        found = {
            (code, number, spot.function, spot.number): Candidate(1, code, number, spot)
            for op, spot in self._search.every_spot(path)
            for code, number, way in self._looks
            if way.lacking(op, spot, frozenset(Trait), way.symbols or frozenset()) == []
        }
        return FileCandidates({1: self._codes}, shown=[*found.values()])


def parsed(text: Text, module: ast.Module, unit: Unit) -> Tree:
    """The whole file through LibCST. Raises RefusedUnitError."""
    try:
        wrapper = MetadataWrapper(cst.parse_module(text.text))
    except cst.ParserSyntaxError as error:
        raise RefusedUnitError(1, "LibCST cannot read it") from error
    if wrapper.module.code != text.text:
        raise RefusedUnitError(1, "LibCST does not give back what it has read")
    positions = Positions(wrapper.module, text.text, 0, text, wrapper.resolve(PositionProvider))
    nodes, parents = walk_all(wrapper.module)
    return Tree(unit, nodes, parents, pair_by_place(text, module, nodes, positions), positions)


def walk_all(module: cst.Module) -> tuple[list[cst.CSTNode], dict[int, cst.CSTNode]]:
    """Every node, names and white space included, in source order; by `id`: the one around it."""
    nodes: list[cst.CSTNode] = []
    parents: dict[int, cst.CSTNode] = {}
    stack: list[cst.CSTNode] = [module]
    while stack:
        node = stack.pop()
        nodes.append(node)
        children = node.children
        parents.update((id(child), node) for child in children)
        stack.extend(reversed(children))
    return nodes, parents


def pair_by_place(
    text: Text, module: ast.Module, nodes: Iterable[cst.CSTNode], positions: Positions
) -> dict[int, ast.AST]:
    """By the `id` of a LibCST node, the `ast` node of its kind that stands in its place.

    Raises ValueError for one that is not found.
    """
    kinds = frozenset((*KINDS.values(), *(kind for several in NESTED.values() for kind in several)))
    at = {key: node for node in nodes if type(node) in kinds for key in keys(node, positions)}
    pairs: dict[int, ast.AST] = {}
    for thing in with_places(module):
        found: dict[int, ast.AST] | None = {}
        if isinstance(thing, ast.JoinedStr) and not FSTRING_PLACES_HOLD:
            span = place(text, thing)
            strings = [node for kind in STRINGS if (node := at.get((kind, *span)))]
            found = pair_by_order(walk(strings)[0], ast_nodes([thing])) if strings else None
        elif type(thing) in NESTED:
            places = [(kind, *place(text, thing)) for kind in NESTED[type(thing)]]
            found = {id(at[key]): thing for key in places if key in at}
        elif type(thing) in KINDS:
            key = key_of(text, thing)
            found = {id(at[key]): thing} if key in at else None
        if found is None:
            raise ValueError(f"line {thing.lineno}: LibCST has no {type(thing).__name__} there")
        pairs.update(found)
    return pairs


def with_places(module: ast.Module) -> Iterator[ast.expr | ast.stmt]:
    """The nodes of `ast` whose places are right: before Python 3.12, none within an f-string."""
    stack: list[ast.AST] = [module]
    while stack:
        thing = stack.pop()
        if isinstance(thing, ast.expr | ast.stmt):
            yield thing
        if FSTRING_PLACES_HOLD or not isinstance(thing, ast.JoinedStr):
            stack.extend(ast.iter_child_nodes(thing))


def key_of(text: Text, thing: ast.expr | ast.stmt) -> Key:
    kind = KINDS[type(thing)]
    if isinstance(thing, ast.GeneratorExp):
        return (kind, *place(text, thing.elt))
    start, end = place(text, thing)
    return (kind, start, -1) if kind in STATEMENTS else (kind, start, end)


def keys(node: cst.CSTNode, positions: Positions) -> Iterator[Key]:
    """Where `ast` may say that a node stands.

    The two disagree about the parentheses of tuples, and of generators, which are found by what
    they yield.
    """
    kind = type(node)
    shown = node.elt if isinstance(node, cst.GeneratorExp) else node
    span = positions.of(shown)
    if span is None:
        return
    yield (kind, span[0], -1) if kind in STATEMENTS else (kind, *span)
    if (
        isinstance(shown, cst.BaseExpression)
        and shown.lpar
        and kind in (cst.GeneratorExp, cst.Tuple)
    ):
        first, last = positions.of(shown.lpar[-1]), positions.of(shown.rpar[0])
        if first is not None and last is not None:
            yield kind, first[0], last[1]


# ------------------------------------------------------------------------------ a project


def one_part(sizes: Mapping[str, int]) -> list[tuple[str, ...]]:
    """`parts.divide`, with all files of a project together, however large it is."""
    return [tuple(sorted(sizes))]


@dataclass(frozen=True)
class Whole:
    """What the long way says, and how many files it has parsed."""

    outcome: Outcome
    parsed: int


def run_whole(request: Request, divide: Divide = parts.divide) -> Whole:
    """`engine.run` the long way; nothing that was indexed or found before is used."""
    count = multiprocessing.Value("i")  # files are judged in several processes

    def judged(*arguments: object) -> JudgedFile:
        with count.get_lock():
            count.value += 1
        return judge_whole(*arguments)  # type: ignore[arg-type]  # they are those of `judge`

    with (
        mock.patch.object(session, "divide", divide),
        mock.patch.object(judge, "judge", judged),
        mock.patch.object(analysis, "Search", Everywhere),
    ):
        outcome = engine.run(replace(request, indexed={}, cache=None))
    return Whole(outcome, count.value)


def said(outcome: Outcome) -> Counter[Finding | str]:
    """All that can differ."""
    return Counter((*outcome.findings, *outcome.problems, *outcome.notices))


@dataclass(frozen=True)
class Difference:
    """How many findings, problems and notices only one of the ways has.

    Args:
        lost: of the long way.
        made_up: of the fast one.
    """

    lost: int
    made_up: int


@dataclass(frozen=True)
class Compared:
    """What both ways say of one package.

    Args:
        parts: in which it is linked.
        parsed_whole: files that the long way has parsed.
        findings: of the fast path.
        difference: with the same parts.
        as_one_part: where the long way links the package as one; None where both do.
    """

    version: str
    files: int
    lines: int
    parts: int
    parsed_whole: int
    findings: int
    difference: Difference
    as_one_part: Difference | None


def request_for(root: Path, files: Sequence[Path]) -> Request:
    """Every rule, the pedantic ones included, and those that hold for an older torch alone."""
    paths = tuple(sorted(file.relative_to(root).as_posix() for file in files))
    settings = Settings(root, select=("ALL",), target_torch="2.10")
    return Request(Project(root, paths, frozenset(paths)), settings, registry.all_rules())


def compare(version: str, root: Path, files: Sequence[Path]) -> Compared:
    """Analyse files both ways."""
    request = request_for(root, files)
    fast = engine.run(request)
    whole = run_whole(request)
    difference = told(fast, whole.outcome)
    divided = parts.divide({path: len(text.text) for path, text in fast.texts.items()})
    as_one = None
    if len(divided) > 1:
        print(f"linked in {len(divided)} parts; as one:")
        as_one = told(fast, run_whole(request, one_part).outcome)
    lines = sum(file.read_bytes().count(b"\n") for file in files)
    return Compared(
        version=version,
        files=len(files),
        lines=lines,
        parts=len(divided),
        parsed_whole=whole.parsed,
        findings=len(fast.findings),
        difference=difference,
        as_one_part=as_one,
    )


def told(fast: Outcome, whole: Outcome) -> Difference:
    """How outcomes differ; what only one of them has is printed."""
    lost, made_up = said(whole) - said(fast), said(fast) - said(whole)
    for sign, some in (("-", lost), ("+", made_up)):
        for one in sorted(map(str, some)):
            print(f"{sign} {one}")
    return Difference(lost.total(), made_up.total())


def default_packages() -> tuple[Package, ...]:
    return TREES["timm"].package, *load(OTHERS)


def main() -> None:
    options = arguments(__doc__).parse_args()
    found: dict[str, Compared] = {}
    print(f"{'package':<18}{'files':>7}{'lines':>9}{'findings':>10}{'lost':>6}{'made up':>9}")
    packages = (
        load(options.packages) if options.packages else (TREES["timm"].package, *load(OTHERS))
    )
    for package in packages:
        tree = fetch(package, options.cache)
        one = found[package.name] = compare(package.version, tree, list(sources(package, tree)))
        print(
            f"{package.name:<18}{one.files:>7}{one.lines:>9}{one.findings:>10}"
            f"{one.difference.lost:>6}{one.difference.made_up:>9}",
            flush=True,
        )
        if one.as_one_part is not None:
            print(f"{'  as one part':<44}{one.as_one_part.lost:>6}{one.as_one_part.made_up:>9}")
    if not options.packages:
        RESULTS.mkdir(exist_ok=True)
        summary = {name: asdict(one) for name, one in sorted(found.items())}
        (RESULTS / "whole_file.json").write_text(
            json.dumps(summary, indent=1) + "\n", encoding="utf-8"
        )
    sys.exit(0 if all(one.difference == Difference(0, 0) for one in found.values()) else 1)


if __name__ == "__main__":
    main()
