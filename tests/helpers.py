"""What the tests of the fixtures share: read a folder, lint it, apply its fixes."""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

from amplint import testing
from amplint.findings.finding import Finding
from amplint.ir.file_index import File
from amplint.project.config import AUTO, Settings
from amplint.project.discover import Selection
from amplint.project.modes import Assumption
from amplint.rule import registry
from amplint.rule.fixtures import Files, write
from amplint.rule.of_engine import ENGINE_RULES
from amplint.rule.rule import Rule
from amplint.run.request import Outcome, Request
from amplint.testing import Fixture, Place, markers, places

__all__ = ["Files", "Fixture", "Place", "markers", "places", "write"]

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures"
TORCH = "2.10"  # also the rules for an older one have something to say

Thing = TypeVar("Thing")

# What was indexed before, by path and text: a file is the same in all tests.
_indexed: dict[tuple[str, str], File] = {}


# The tests of how code and docstrings are written ask the same modules of this repository.
@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(path)))


def of_each(things: Iterable[Thing]) -> Callable[[Callable[[Thing], None]], Callable[[], None]]:
    """One test that makes a claim of many things, and lists all of which it does not hold.

    A test for each would be collected and reported by itself: what takes a millisecond would take
    ten, and thousands of them hid the tests that find something.
    """

    def decorate(claim: Callable[[Thing], None]) -> Callable[[], None]:
        def test() -> None:
            failed: list[str] = []
            count = 0
            for count, thing in enumerate(things, 1):  # noqa: B007
                try:
                    claim(thing)
                except AssertionError as error:
                    failed.append(f"{_name_of(thing)}: {error}")
            assert count, "there is nothing that this is claimed of"
            assert not failed, "\n".join(failed)

        test.__name__, test.__doc__ = claim.__name__, claim.__doc__
        test.__module__ = claim.__module__
        return test

    return decorate


def programs(table: str) -> Iterator[tuple[list[str], str]]:
    """The programs of a table, each with what is said of it above, between bars: in a line that is
    not indented, and in those that begin with a bar."""
    for head, body in re.findall(r"^(\S.*(?:\n\|.*)*)\n((?:(?: .*)?\n)+)", table, re.M):
        yield re.split(r"\s\| ", head), textwrap.dedent(body).strip() + "\n"


def _name_of(thing: object) -> str:
    is_own = isinstance(thing, Path) and thing.is_relative_to(ROOT)
    return thing.relative_to(ROOT).as_posix() if is_own and isinstance(thing, Path) else str(thing)


def folders() -> list[str]:
    return sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())


def fixture_rules() -> list[Rule]:
    """The rules that have a fixture: all but those of the engine itself."""
    return [rule for rule in registry.own_rules() if rule not in ENGINE_RULES]


def rule_of(folder: str) -> Rule | None:
    names = {rule.name.replace("-", "_"): rule for rule in fixture_rules()}
    return names.get(folder)


@cache
def fixture(folder: str) -> Fixture:
    """The fixture of a rule of amplint, of which each thing is found out once."""
    return Fixture(FIXTURES / folder, rule_of(folder), registry.own_rules(), TORCH)


def modules(folder: str) -> dict[str, bytes]:
    """All modules of a folder: bad.py, good.py, and what they import."""
    return testing.modules(FIXTURES / folder)


def expectations(text: str) -> list[Place]:
    return markers(text, "expect")


def request(
    files: Files,
    directory: Path,
    overlays: Mapping[str, str] | None = None,
    select: Sequence[str] = ("ALL",),
) -> Request:
    """A request to check all the files."""
    paths = tuple(sorted(files))
    return Request(
        selection=Selection(directory, paths, frozenset(paths)),
        settings=Settings(directory, select=tuple(select), preview=True, target_torch=TORCH),
        rules=registry.own_rules(),
        overlays=overlays or {},
        indexed=_indexed,
    )


def presumes(wished: bool | None) -> Assumption | bool:
    """What `assume-autocast` presumes of callers; None is "auto"."""
    settings = Settings(Path(), assume_autocast=AUTO if wished is None else wished)
    return settings.presumes(is_second=False)


def lint(
    files: Files,
    directory: Path,
    overlays: Mapping[str, str] | None = None,
    select: Sequence[str] = ("ALL",),
) -> Outcome:
    """Write the files and check them. Whatever amplint could not do fails the test."""
    write(files, directory)
    return testing.checked(request(files, directory, overlays, select))


def counts(findings: Iterable[Finding]) -> Counter[str]:
    return Counter(finding.code for finding in findings)


def fix(
    files: Files, directory: Path, unsafe: bool, select: Sequence[str] = ("ALL",)
) -> dict[str, bytes]:
    """Write the files, apply all fixes that may be applied until none is left, read them back."""
    write(files, directory)
    return testing.fixed(request(files, directory, select=select), unsafe)
