"""Each syntax of each Python: AMP000 where Python refuses it, and what stands below is fixed."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from amplint.facts.program import Program
from amplint.fix.project_fixes import fix_project
from amplint.ir import file_index
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.run import engine
from amplint.run.request import Outcome, Request
from amplint.source.segments import RefusedUnitError, Units
from amplint.testing import write
from amplint.util.text import Text
from amplint.values.atoms import UNKNOWN, Atom, Host, Mapping, Sequence, one
from benchmarks.robustness.files import GRAFT, python_reads, request
from tests.fuzz.syntax import ONLY_AST, REFUSED, SYNTAX

SINCE = {
    name: (since, text)
    for table in (SYNTAX, ONLY_AST)
    for since, texts in table.items()
    for name, text in texts.items()
}
READ = {name: text for name, (since, text) in SINCE.items() if since <= sys.version_info[:2]}
TEXTS = {**{name: text for name, (_, text) in SINCE.items()}, **REFUSED}
PATHS = {name: f"m{number}.py" for number, name in enumerate(TEXTS)}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Request:
    """Each snippet in a file, with a function below it whose mistakes have fixes."""
    files = {path: (TEXTS[name] + GRAFT).encode() for name, path in PATHS.items()}
    return request(write(files, tmp_path_factory.mktemp("syntax")), files)


@pytest.fixture(scope="module")
def outcome(asked: Request) -> Outcome:
    return engine.run(asked)


def test_the_table_says_what_python_reads() -> None:
    assert {name for name, text in TEXTS.items() if python_reads(text)} == READ.keys()


def test_amp000_is_found_where_python_refuses_and_nowhere_else(outcome: Outcome) -> None:
    assert outcome.problems == ()
    refused = {PATHS[name] for name in TEXTS.keys() - READ.keys()}
    assert {f.path for f in outcome.findings if f.code == "AMP000"} == refused


def test_what_stands_below_any_syntax_is_fixed_and_the_syntax_stays(asked: Request) -> None:
    fixed = fix_project(asked, unsafe=True)
    assert fixed.outcome.problems == ()
    assert fixed.after.keys() == {PATHS[name] for name in READ}
    below = {fixed.after[PATHS[name]].removeprefix(text) for name, text in READ.items()}
    (function,) = {each.replace("'", '"') for each in below}  # what is written has a file's quotes
    assert function.startswith("\n\ndef amplint_graft(") and "empty_cache" not in function


@pytest.mark.parametrize("name", READ)
def test_libcst_reads_what_ast_reads(name: str) -> None:
    """But for some statements, which cost nothing else in their file."""
    refused = False
    units = Units(Text(READ[name]), ast.parse(READ[name]))
    for unit in units.units:
        try:
            units.tree(unit)
        except RefusedUnitError:
            refused = True
    assert refused == any(name in texts for texts in ONLY_AST.values())


def test_a_mistake_in_what_libcst_refuses_is_told(tmp_path: Path) -> None:
    inside = GRAFT.lstrip().replace("\n", "\n    ").rstrip(" ")
    text = f"class A(x=1, *b):\n    (c): int = torch.cuda.empty_cache()\n    {inside}"
    loop = f"for batch in loader:\n    batch.sum().backward()\n    {text.splitlines()[1].strip()}\n"
    files = {"a.py": f"import torch\n\n{loop}\n{text}".encode()}
    outcome = engine.run(request(write(files, tmp_path), files))
    assert outcome.problems == ()
    assert outcome.notices == ("a.py: line 3 ff. not checked: LibCST cannot read it",)
    assert {finding.scope for finding in outcome.findings} == {"A.amplint_graft"}


# --------------------------------------------------- trees of Python 3.15, made by hand for others


def as_in_315(tree: ast.Module) -> ast.Module:
    """The tree with `{**k for ...}` for `{k: v for ...}`, and `[*a for ...]` for `[+a for ...]`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.DictComp):
            node.value = None  # type: ignore[assignment]  # no other version has none
        if isinstance(node, ast.ListComp) and isinstance(node.elt, ast.UnaryOp):
            starred = ast.Starred(node.elt.operand, ast.Load())
            node.elt = ast.copy_location(starred, node.elt)
    return tree


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("{d: 0 for d in [{1: 2}]}", Mapping(UNKNOWN)),
        ("[+a for a in [[1, 2], [3, 4]]]", Sequence(None, one(Host("int", None)))),
    ],
)
def test_what_is_unpacked_in_a_comprehension(
    written: str, value: Atom, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"def f():\n    return {written}\n"
    tree = as_in_315(ast.parse(text))
    monkeypatch.setattr(file_index.ast, "parse", lambda *_: tree)
    facts = Program(Files({"a.py": File("a.py", text)})).about("a.py")
    (returned,) = (node.value for node in ast.walk(tree) if isinstance(node, ast.Return))
    assert returned is not None and facts.value(returned) == one(value)
