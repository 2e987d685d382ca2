"""Count the lines of code: of the rules, of amplint, of a median rule, and what an author faces.

    python -m benchmarks.size [--at REF]

A line of code holds a token that is no comment and no docstring. `--at` counts those of a commit.
tests/unit/test_budget.py holds them against BUDGET.
An author's surface is what a rule may use by name: `amplint.__all__`, and the public members of the
classes that stand for what is judged.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import statistics
import subprocess
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HARNESS = ("amplint/verify/", "amplint/observing/")  # where it lay before it was a package
FOLDERS = ("amplint", "amplint_verify", "rules", "tests")
# What there may be at most. A commit that raises a figure says what a user gets for it.
BUDGET = {
    "rules": 12_130,
    "amplint without verify": 40_090,
    "the harness": 9_550,
    "tests": 42_150,
    "a median rule": 60,
    "names of an author's surface": 300,
    "rules on by default": 85,
    "tests collected": 10_200,
    "words of docs/": 45_720,
}
SILENT = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
        tokenize.ENCODING,
    }
)
# What a rule asks and writes with: the modules whose public classes these are.
SURFACE = {
    "amplint/source/source.py": {"Source"},
    "amplint/source/navigation.py": {"Layout"},
    "amplint/source/variables.py": {"Variables"},
    "amplint/source/edits/imports.py": {"Imports"},
    "amplint/source/edits/code_edits.py": {"Edits"},
    "amplint/view/view.py": {"View"},
}


def main() -> None:
    """Print the counts as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--at", metavar="REF", help="count the files of this commit")
    options = parser.parse_args()
    files = committed(options.at) if options.at else present()
    print(json.dumps(counts(files), indent=1))


def counts(files: Mapping[str, str]) -> dict[str, float]:
    """The figures of these files, by their names."""
    code = {path: lines_of_code(text) for path, text in files.items()}
    rules = [
        lines
        for path, lines in code.items()
        if path.startswith("rules/") and "/_" not in path and path.count("/") == 2
    ]
    return {
        "rules": sum(lines for path, lines in code.items() if path.startswith("rules/")),
        "amplint without verify": sum(
            lines
            for path, lines in code.items()
            if path.startswith("amplint/") and not path.startswith(HARNESS)
        ),
        "the harness": sum(n for path, n in code.items() if path.startswith("amplint_verify/")),
        "tests": sum(n for path, n in code.items() if path.startswith("tests/")),
        "a median rule": statistics.median(rules),
        "names of an author's surface": surface(files),
    }


def lines_of_code(text: str) -> int:
    """How many lines hold code."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            documented.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    rows: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            rows.update(range(token.start[0], token.end[0] + 1))
    return len(rows - documented)


def surface(files: Mapping[str, str]) -> int:
    """How many names the author of a rule faces: those that `amplint` offers to rules, the members
    of what is judged, and the helpers of `rules/_shared`; not those of its `_*.py`, which rules may
    not import (tests/unit/test_layers.py)."""
    offered = set(exported(files))
    members = {
        f"{name}.{member}"
        for path, names in SURFACE.items()
        if path in files
        for name in names
        for member in members_of(files[path], name)
    }
    helpers = {
        name
        for path, text in files.items()
        if path.startswith("rules/_shared/") and "/_shared/_" not in path
        for name in public(text)
    }
    return len(offered) + len(members) + len(helpers)


def exported(files: Mapping[str, str]) -> Iterator[str]:
    """The names that `amplint` offers to its own rules, but those of the harness, which are for
    programs: no rule may import it."""
    for module in ("__init__", "promised", "unpromised"):
        for node in ast.walk(ast.parse(files.get(f"amplint/{module}.py", ""))):
            if isinstance(node, ast.ImportFrom) and "amplint_verify" not in (node.module or ""):
                yield from (each.name for each in node.names if each.name == each.asname)


def members_of(text: str, name: str) -> Iterator[str]:
    """The public methods, properties and fields of a class."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
                    yield each.name
                elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    yield each.target.id


def public(text: str) -> Iterator[str]:
    """The functions and classes of a module that do not begin with an underscore."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def present() -> dict[str, str]:
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


def committed(ref: str) -> dict[str, str]:
    """The files of a commit."""
    listed = git("ls-tree", "-r", "--name-only", ref, *FOLDERS).splitlines()
    return {path: git("show", f"{ref}:{path}") for path in listed if path.endswith(".py")}


def git(*arguments: str) -> str:
    ran = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True, text=True)
    return ran.stdout


if __name__ == "__main__":
    main()
