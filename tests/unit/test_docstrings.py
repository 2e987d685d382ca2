"""A docstring begins with what it describes, or with a verb."""

import ast
import re
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path

from amplint.util.walks import reachable
from tests.helpers import nodes_of, of_each

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    path for room in ("amplint", "amplint_verify", "rules") for path in (ROOT / room).rglob("*.py")
)


@of_each(MODULES)
def test_no_docstring_begins_with_a_question_word(path: Path) -> None:
    for node in nodes_of(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node) or ""
            assert not re.match(r"(What|Who|Whose|Whoever)\b", text), text


@of_each(MODULES)
def test_no_docstring_begins_with_the_same(path: Path) -> None:
    """A docstring is read alone, also that of a constant: the one before it is not at hand."""
    for node in nodes_of(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = str(node.value.value).lstrip()
            assert not re.match(r"The same\b", text), text


DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
ARGUMENTS = re.compile(r"^Args:\n((?:    .*\n?|\n)+)", re.MULTILINE)
ARGUMENT = re.compile(r"^    ([\w*]+(?:, [\w*]+)*):", re.MULTILINE)


def parts(path: Path) -> Iterator[tuple[ast.AST, str]]:
    """What has a docstring in a module, and the docstring."""
    for node in nodes_of(path):
        if isinstance(node, DOCUMENTED):
            yield node, ast.get_docstring(node) or ""


@cache
def defined() -> dict[str, set[str]]:
    """By class of amplint, the names in it and in its bases, and those that an enum has."""
    found: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for path in MODULES:
        for node, _ in parts(path):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, {"name", "value"}).update(names_in(node))
                bases.setdefault(node.name, set()).update(map(ast.unparse, node.bases))
    return {
        name: set().union(*(found[each] for each in reachable([name], bases_of(bases))))
        for name in found
    }


def bases_of(bases: dict[str, set[str]]) -> Callable[[str], Collection[str]]:
    return lambda name: bases[name] & bases.keys()


def names_in(cls: ast.ClassDef) -> Iterator[str]:
    for node in ast.walk(cls):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def test_members_of_classes_that_docstrings_name_are_there() -> None:
    """`View.hotness` in a docstring is something that `View` has."""
    known = defined()
    assert "hotness" in known["View"]
    own = known.keys() - {"Tensor", "Function", "Path"}  # torch and Python have these, too
    gone = [
        f"{path.relative_to(ROOT)}: {name}.{member}"
        for path in MODULES
        for _, text in parts(path)
        for name, member in re.findall(r"`([A-Z]\w+)\.(\w+)", text)
        if name in own and member not in known[name]
    ]
    assert not gone


PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "README.md"])


# Pages show code of users too, whose classes may have any name.
OF_AMPLINT = frozenset("View Source Rule Fix Finding Layout Variables Imports Edits Text".split())


@of_each(PAGES)
def test_members_of_classes_that_pages_name_are_there(page: Path) -> None:
    named = re.findall(r"`([A-Z]\w+)\.(\w+)", page.read_text(encoding="utf-8"))
    known = defined()
    assert not [each for each in named if each[0] in OF_AMPLINT and each[1] not in known[each[0]]]


def parameters(node: ast.AST) -> set[str]:
    """The parameters of a function, or those by which a class is made."""
    if isinstance(node, ast.ClassDef):
        fields = {
            each.target.id
            for each in node.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        }
        makers = [each for each in node.body if getattr(each, "name", "") == "__init__"]
        return fields.union(*map(parameters, makers))
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    own = node.args
    every = [*own.posonlyargs, *own.args, *own.kwonlyargs, own.vararg, own.kwarg]
    return {each.arg for each in every if each is not None}


@of_each(MODULES)
def test_arguments_that_docstrings_explain_are_parameters(path: Path) -> None:
    for node, text in parts(path):
        found = ARGUMENTS.search(text)
        if found is None or isinstance(node, ast.Module):
            continue
        names = {each.lstrip("*") for row in ARGUMENT.findall(found[1]) for each in row.split(", ")}
        assert names and names <= parameters(node), (getattr(node, "name", ""), names)
