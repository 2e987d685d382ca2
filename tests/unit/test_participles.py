"""A name says what it holds, as a noun: `findings`, `arguments`; not `found`, `given`."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.helpers import ROOT, of_each, tree_of

PATHS = sorted(
    path for room in ("amplint", "amplint_verify", "rules") for path in (ROOT / room).rglob("*.py")
)
PARTICIPLES = frozenset(
    """
    found given known made left told seen kept held asked said shown gone taken wanted drawn meant
    tried met chosen
    """.split()
)
# By module and name: why it has to stay.
ALLOWED: Mapping[tuple[str, str], str] = {
    ("amplint/frameworks/schema.py", "made"): "a key of the files that describe frameworks",
    ("amplint/inference/incremental/snapshot.py", "drawn"): "a key of the cache",
    ("amplint/run/kept_analyses.py", "seen"): "a key of the cache",
    ("amplint/server/explainer.py", "shown"): "a field of a message",
    ("amplint/server/messages.py", "shown"): "a field of a message",
    ("amplint/values/atoms.py", "known"): "a field that rules read",
    ("amplint/values/lattice.py", "known"): "a function that rules call",
    ("amplint_verify/recording/events.py", "asked"): "a key of an observation",
    ("amplint_verify/recording/events.py", "made"): "a key of an observation",
    ("amplint_verify/runs/drivers.py", "given"): "a key of a request to a child process",
    ("amplint_verify/runs/spec.py", "asked"): "a key of a request to a child process",
}
Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def bound(scope: ast.AST) -> Iterator[tuple[int, str]]:
    """The names that a scope binds, functions and attributes of `self` among them, by line; not
    those of the scopes in it."""
    for node in ast.iter_child_nodes(scope):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.arg(arg=name)
                | ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store())
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.ExceptHandler(name=str(name))
            ):
                yield node.lineno, name
        if not isinstance(node, Scope):
            yield from bound(node)


def participles(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The names of a module that are nothing but a participle, by line. `left` beside `right` is a
    side."""
    for node in ast.walk(tree):
        if isinstance(node, Scope):
            names = [(line, name.lstrip("_")) for line, name in bound(node)]
            sides = {"left"} if "right" in {name for _, name in names} else set()
            yield from (each for each in names if each[1] in PARTICIPLES - sides)


@of_each(PATHS)
def test_no_name_is_a_bare_participle(path: Path) -> None:
    place = path.relative_to(ROOT).as_posix()
    bare = [
        f"{place}:{line}: `{name}`"
        for line, name in participles(tree_of(path))
        if (place, name) not in ALLOWED
    ]
    assert not bare, (
        f"name what they hold, by a noun of the field (or say why not in ALLOWED): {bare}"
    )


def test_what_is_allowed_is_there() -> None:
    assert not {
        (place, name)
        for place, name in ALLOWED
        if name not in {each for _, each in participles(tree_of(ROOT / place))}
    }


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f(given, *, known=1): pass", ["given", "known"]),
        ("def _found(): pass", ["found"]),
        ("async def f():\n    async for kept in x: pass", ["kept"]),
        ("class A:\n    made: int\n    def f(self): self._seen, self.n = 1, 2", ["made", "seen"]),
        ("if (met := f()): print([n for told in met])", ["met", "told"]),
        ("match x:\n    case [held, *said] | held: pass", ["held", "held", "said"]),
        ("try: f()\nexcept E as shown: pass", ["shown"]),
        ("left = lambda taken: taken", ["left", "taken"]),
        ("def f():\n    left = 1\n    def g(right): pass", ["left"]),
        ("left, right = x", []),
        ("from a import known\nfindings = x.found + f(given=1)\nis_known = kept_views = 1", []),
        ("other.found = found", []),
    ],
)
def test_which_names_are_found(text: str, names: list[str]) -> None:
    assert sorted(name for _, name in participles(ast.parse(text))) == names
