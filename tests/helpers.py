"""What the tests of the fixtures share: read a folder, lint it, apply its fixes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from amplint.core import registry
from amplint.core.finding import Finding, Safety
from amplint.core.rule import Rule
from amplint.ir.file_index import File
from amplint.output import fixing
from amplint.project.config import DEFAULT_SELECT, Settings
from amplint.project.discover import Project
from amplint.run.engine import run
from amplint.run.request import Outcome, Request

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures"
MARKER = re.compile(r"# (expect|miss): (AMP\d{3}(?:, AMP\d{3})*)")
APPLIED = (Safety.SAFE, Safety.UNSAFE)

Files = Mapping[str, bytes]  # a project: paths, relative to its root, and what is in the files
Place = tuple[int, str]  # a row and a code

# What was indexed before, by path and text: a file is the same in all tests.
_indexed: dict[tuple[str, str], File] = {}


def folders() -> list[str]:
    return sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())


def fixture_rules() -> list[Rule]:
    """The rules that have a fixture: all but those of the engine itself."""
    return [rule for rule in registry.all_rules() if rule not in registry.ENGINE_RULES]


def rule_of(folder: str) -> Rule | None:
    names = {rule.name.replace("-", "_"): rule for rule in fixture_rules()}
    return names.get(folder)


def modules(folder: str) -> dict[str, bytes]:
    """All modules of a folder: bad.py, good.py, and what they import."""
    base = FIXTURES / folder
    return {
        path.relative_to(base).as_posix(): path.read_bytes() for path in sorted(base.rglob("*.py"))
    }


def program(folder: str, name: str) -> dict[str, bytes]:
    """The project of bad.py or of good.py: all modules of the folder but the other one."""
    left_out = {"bad": "good.py", "good": "bad.py"}[name]
    return {path: data for path, data in modules(folder).items() if path != left_out}


def selected(folder: str) -> tuple[str, ...]:
    """What a folder is checked for: its own rule, and the groups that are on by default."""
    rule = rule_of(folder)
    return (*DEFAULT_SELECT, *([rule.code] if rule else []))


def markers(text: str, kind: str) -> list[Place]:
    """The rows and codes of the `# expect:` or `# miss:` comments, one for each code."""
    found = []
    for row, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        for match in MARKER.finditer(line):
            if match[1] == kind:
                found += [(row, code) for code in match[2].split(", ")]
    return found


def expectations(text: str) -> list[Place]:
    return markers(text, "expect")


def write(files: Files, directory: Path) -> Path:
    for path, data in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return directory


def request(
    files: Files,
    directory: Path,
    overlays: Mapping[str, str] | None = None,
    select: Sequence[str] = ("ALL",),
) -> Request:
    """A request to check all the files, also with rules for an older torch."""
    paths = tuple(sorted(files))
    return Request(
        project=Project(directory, paths, frozenset(paths)),
        settings=Settings(directory, select=tuple(select), target_torch="2.10"),
        rules=registry.all_rules(),
        overlays=overlays or {},
        indexed=_indexed,
    )


def lint(
    files: Files,
    directory: Path,
    overlays: Mapping[str, str] | None = None,
    select: Sequence[str] = ("ALL",),
) -> Outcome:
    """Write the files and check them. Whatever amplint could not do fails the test."""
    write(files, directory)
    outcome = run(request(files, directory, overlays, select))
    assert not outcome.problems, outcome.problems
    return outcome


class Linted:
    """What is found in the bad program of each folder, asked once."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self.factory = factory
        self.known: dict[str, Outcome] = {}

    def __call__(self, folder: str) -> Outcome:
        if folder not in self.known:
            self.known[folder] = lint(
                program(folder, "bad"), self.factory.mktemp(folder), select=selected(folder)
            )
        return self.known[folder]


def places(findings: Iterable[Finding], path: str) -> list[Place]:
    """Where findings in one file begin, sorted."""
    return sorted((f.span.start.row, f.code) for f in findings if f.path == path)


def counts(findings: Iterable[Finding]) -> Counter[str]:
    return Counter(finding.code for finding in findings)


def fix(
    files: Files, directory: Path, unsafe: bool, select: Sequence[str] = ("ALL",)
) -> dict[str, bytes]:
    """Write the files, apply all fixes that may be applied until none is left, read them back."""
    write(files, directory)
    asked = request(files, directory, select=select)
    fixed = fixing.fix_project(asked, unsafe)
    problems = (*fixed.outcome.problems, *fixing.write_project(asked, fixed))
    assert not problems, problems
    return {path: (directory / path).read_bytes() for path in files}
