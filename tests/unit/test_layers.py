"""A room imports from the rooms before it in the list alone, and a rule from what is for rules."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.helpers import nodes_of, of_each, tree_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "amplint"
HARNESS = ROOT / "amplint_verify"  # which runs programs

# Each after those that it may import from.
LAYERS = (
    "util",
    "values",
    "findings",
    "frameworks",
    "project",
    "knowledge",
    "ir",
    "inference",
    "gradscaler",
    "facts",
    "analyses",
    "source",
    "view",
    "rule",
    "run",
    "fix",
    "output",
    "adoption",
    "server",
    "cli",
)
FOR_RULES = ("amplint", "amplint.knowledge")


@cache
def imports(path: Path) -> tuple[str, ...]:
    """The modules of amplint that a module imports, those of which it names types alone
    included."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            package = node.module.partition(".")[0]
            if package in ("amplint", "amplint_verify"):
                submodules = [alias.name for alias in node.names if is_module(node.module, alias)]
                yield from (f"{node.module}.{name}" for name in submodules)
                if len(submodules) < len(node.names):
                    yield node.module
        elif isinstance(node, ast.Import):
            names = (alias.name for alias in node.names)
            yield from (name for name in names if name.startswith(("amplint.", "amplint_verify")))


def is_module(package: str, alias: ast.alias) -> bool:
    folder = ROOT.joinpath(*package.split("."))
    return (folder / f"{alias.name}.py").exists() or (folder / alias.name).is_dir()


def room_of(dotted: str) -> str:
    """Ex) view, of amplint.view.evaluated_node; amplint_verify, of all that is in it"""
    package, *rest = dotted.split(".")
    if package == HARNESS.name:
        return package
    return "".join(rest[:1])


def modules() -> list[Path]:
    """Those of the rooms. (What lies beside these offers names of all of them.)"""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent != PACKAGE]


@of_each(modules())
def test_a_module_imports_from_its_own_room_and_from_earlier_ones(path: Path) -> None:
    own = LAYERS.index(room_of(".".join(path.relative_to(ROOT).with_suffix("").parts)))
    rooms = {room_of(dotted) for dotted in imports(path)} & set(LAYERS)
    assert {room for room in rooms if LAYERS.index(room) > own} == set()


def test_every_room_has_a_layer() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert rooms == set(LAYERS)


def test_rules_and_commands_make_edits_by_those_of_source() -> None:
    """Only `fix`, which writes in the style of the file, makes its own beside them."""
    makers = {
        path.relative_to(ROOT).parts[:2]
        for path in (*PACKAGE.rglob("*.py"), *(ROOT / "rules").rglob("*.py"))
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Edit"
    }
    assert makers == {("amplint", "source"), ("amplint", "fix")}


def test_modules_import_each_other_in_no_cycle() -> None:
    names = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in (PACKAGE, HARNESS)
        for path in package.rglob("*.py")
        if path != PACKAGE / "__init__.py"  # whose names are imported when they are used
    }
    graph = {
        name: {dotted for dotted in imports(path) if dotted in names} - {name}
        for name, path in names.items()
    }
    done: set[str] = set()
    while ready := {name for name in graph if name not in done and graph[name] <= done}:
        done |= ready
    assert len(done) > 300
    assert set(graph) - done == set()


def is_private(module: str) -> bool:
    """Ex) _workers, which is there for one rule; not the package _shared"""
    return module.startswith("_") and not module.startswith(("__", "_shared"))


@of_each(sorted((ROOT / "rules").rglob("*.py")))
def test_a_rule_imports_what_is_meant_for_rules(path: Path) -> None:
    """An analysis for one rule needs what it rests on, and nobody else has it: a rule that goes
    takes it along."""
    for node in nodes_of(path):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        package, *inner = node.module.split(".")
        assert package != HARNESS.name, node.module
        if package == "amplint" and not is_private(path.stem):
            assert not inner or inner[0] == "knowledge", node.module
        is_beside = node.level == 1 and not inner
        assert is_beside or not any(map(is_private, (package, *inner))), node.module


def test_an_analysis_for_one_rule_has_one() -> None:
    for path in (ROOT / "rules").rglob("*.py"):
        if is_private(path.stem):
            beside = "".join(each.read_text(encoding="utf-8") for each in path.parent.glob("*.py"))
            assert f"from .{path.stem} import" in beside, path


def test_the_documentation_has_the_rooms_in_their_order() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = re.findall(r"^\| \*\*([\w.]+)\*\*:?", text, re.MULTILINE)
    assert rooms == [*LAYERS, HARNESS.name]


@pytest.mark.parametrize("room", ["server", HARNESS.name])
def test_nothing_but_commands_imports(room: str) -> None:
    """As docs/architecture.md says of them."""
    users = {
        path.relative_to(PACKAGE).parts[0]
        for path in modules()
        if room in {room_of(dotted) for dotted in imports(path)}
    }
    assert users <= {room, "cli"}


def test_the_automaton_and_the_interpreter_know_nothing_of_each_other() -> None:
    room = PACKAGE / "gradscaler"
    assert "amplint.gradscaler.automaton" not in imports(room / "interpreter.py")
    assert {room_of(each) for each in imports(room / "automaton.py")} <= {"util", "findings"}


def test_no_class_name_means_two_things() -> None:
    names = Counter(
        node.name
        for room in (PACKAGE, HARNESS, ROOT / "rules")
        for path in room.rglob("*.py")
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef)
    )
    assert len(names) > 500
    assert [name for name, count in names.items() if count > 1] == []
