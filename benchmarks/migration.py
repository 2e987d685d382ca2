"""Migrate real packages, and look at what it leaves behind.

    python -m benchmarks.migration [PACKAGE...] [--cache DIR] [--diffs DIR]

Each package is copied, and the fixes of the migration rules are applied: the safe ones, then the
others. Writes what became of each to results/migration.json, from which `pytest --update
tests/fixtures/test_migration.py` makes the tables of benchmarks/results/migration.md. Exits with 1
when amplint could not do its work, a changed file no longer compiles, pyflakes finds a name that is
now undefined, unused or defined twice, a second run changes anything, or a form of a deprecated
name is more frequent than it was. The packages' code is read and compiled, and never run.
"""

from __future__ import annotations

import difflib
import json
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from amplint.fix.project_fixes import FixOutcome, fix_project, write_project
from amplint.project.config import Settings
from amplint.project.discover import select
from amplint.rule import registry
from amplint.run.request import Request
from benchmarks.legacy_uses import Use, uses
from benchmarks.packages import RESULTS, Package, arguments, fetch, load
from benchmarks.real import Snapshot, by_code, changed, snapshot, worse

WORDS = re.compile(
    r"(in a function: |in a `try` or an `if`: |, the module itself|, not called|, and then in full"
    r"| in an annotation|a docstring|a string)"
)
RESULT = RESULTS / "migration.json"
CODES = ("AMP701", "AMP702", "AMP703", "AMP704", "AMP705", "AMP611", "AMP612")


@dataclass
class Migrated:
    """What became of one package: files changed, findings by code, by the safe fixes and by the
    others, and the uses of deprecated names before, between and after."""

    version: str
    files_changed: tuple[int, int]
    safe: dict[str, int]
    unsafe: dict[str, int]
    left: dict[str, int]
    uses: list[Row]
    seconds: int
    failures: list[str] = field(default_factory=list)


@dataclass(order=True)
class Row:
    """How often a form was seen, and how many of them each kind of fixes has rewritten."""

    form: str
    source: str
    why: str
    seen: int
    safe: int
    unsafe: int


def migrate(package: Package, tree: Path, diffs: Path | None = None) -> Migrated:
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / tree.name
        shutil.copytree(tree, copy)
        states, outcomes = [snapshot(package, copy)], []
        for unsafe in (False, True, True):
            outcomes.append(_fix(package, copy, unsafe))
            states.append(snapshot(package, copy))
    before, safe, unsafe_too, again = states
    if diffs is not None:
        lines = [*_diff("safe", before, safe), *_diff("unsafe", safe, unsafe_too)]
        (diffs / f"{package.name}.diff").write_text("".join(lines), encoding="utf-8")
    rows = _rows(before, safe, unsafe_too)
    migrated = Migrated(
        version=package.version,
        files_changed=(len(changed(before, safe)), len(changed(safe, unsafe_too))),
        safe=by_code(each.code for each in outcomes[0].applied),
        unsafe=by_code(each.code for each in outcomes[1].applied),
        left=by_code(each.code for each in outcomes[1].outcome.findings),
        uses=rows,
        seconds=round(time.perf_counter() - start),
    )
    problems = [each for outcome in outcomes for each in outcome.outcome.problems]
    migrated.failures += sorted(set(problems))
    migrated.failures += worse(before, safe) + worse(safe, unsafe_too)
    migrated.failures += [f"changed by a second run: {name}" for name in changed(unsafe_too, again)]
    migrated.failures += [f"more of `{row.form}`" for row in rows if min(row.safe, row.unsafe) < 0]
    return migrated


def _fix(package: Package, tree: Path, unsafe: bool) -> FixOutcome:
    """What `amplint fix --apply` does, by its own functions, that tell what they did."""
    settings = Settings(tree, select=CODES)
    found = select([tree / root for root in package.roots], settings)
    request = Request(found, settings, registry.all_rules())
    fixed = fix_project(request, unsafe)
    write_project(request, fixed, unsafe)
    return fixed


def _diff(kind: str, before: Snapshot, after: Snapshot) -> Iterator[str]:
    for name in changed(before, after):
        old, new = (
            state.texts[name].decode(errors="replace").splitlines(keepends=True)
            for state in (before, after)
        )
        for line in difflib.unified_diff(old, new, name, f"{name} ({kind})"):
            yield line if line.endswith("\n") else f"{line}\n"


def _rows(before: Snapshot, safe: Snapshot, unsafe: Snapshot) -> list[Row]:
    seen, once, twice = (Counter(_uses(state)) for state in (before, safe, unsafe))
    return sorted(
        Row(use.form, use.source, use.why, seen[use], seen[use] - once[use], once[use] - twice[use])
        for use in {*seen, *once, *twice}
    )


def _uses(state: Snapshot) -> Iterator[Use]:
    for name, data in state.texts.items():
        if name in state.compile:
            yield from uses(data)


# ------------------------------------------------------------------------------------- tables


def result() -> dict[str, Any]:
    """What the last runs have found."""
    known: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    return known


def tables(known: Mapping[str, Any]) -> str:
    """The part of benchmarks/results/migration.md that says what became of real packages."""
    return "\n".join([*_packages(known), "", *_forms(known), "", *_sources(known), ""])


def _packages(known: Mapping[str, Any]) -> Iterator[str]:
    yield "| package | files | rewritten by safe fixes | by unsafe ones | reported and left |"
    yield "| --- | --- | --- | --- | --- |"
    for name, row in known["packages"].items():
        counts = " | ".join(_counts(row[key]) for key in ("safe", "unsafe", "left"))
        yield f"| {name} {row['version']} | {sum(row['files_changed'])} | {counts} |"


def _counts(by_code: Mapping[str, int]) -> str:
    return ", ".join(f"{code} {count}" for code, count in by_code.items()) or "-"


def _forms(known: Mapping[str, Any]) -> Iterator[str]:
    yield "| form | seen | safe | unsafe | left, and why |"
    yield "| --- | --- | --- | --- | --- |"
    for form, rows in _grouped(known, "form"):
        yield f"| {_code(form)} | {_total(rows)} | {_left(rows)} |"


def _sources(known: Mapping[str, Any]) -> Iterator[str]:
    yield "| import | uses | safe | unsafe | left |"
    yield "| --- | --- | --- | --- | --- |"
    for source, rows in _grouped(known, "source"):
        if source:
            left = sum(row["seen"] - row["safe"] - row["unsafe"] for row in rows)
            yield f"| {_code(source)} | {_total(rows)} | {left or '-'} |"


def _grouped(known: Mapping[str, Any], key: str) -> list[tuple[str, list[Any]]]:
    groups: dict[str, list[Any]] = {}
    for package in known["packages"].values():
        for row in package["uses"]:
            groups.setdefault(row[key], []).append(row)
    return sorted(groups.items(), key=lambda group: (group[0].lstrip("@").lower(), group[0]))


def _total(rows: Iterable[Any]) -> str:
    rows = list(rows)
    sums = [sum(row[key] for row in rows) for key in ("seen", "safe", "unsafe")]
    return " | ".join(str(each) if each else "-" for each in sums)


def _left(rows: Iterable[Any]) -> str:
    reasons: Counter[str] = Counter()
    for row in rows:
        reasons[row["why"] or "no reason"] += row["seen"] - row["safe"] - row["unsafe"]
    return "; ".join(f"{count}: {why}" for why, count in sorted(reasons.items()) if count) or "-"


def _code(form: str) -> str:
    """As code, except for the words that say where it stands."""
    parts = (part if WORDS.fullmatch(part) else f"`{part}`" for part in WORDS.split(form) if part)
    return "".join(parts).replace(": ", ", ")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--diffs", type=Path, help="a directory to write the diffs to")
    options = parser.parse_args()
    failures: list[str] = []
    rows: dict[str, Any] = result()["packages"] if options.packages else {}
    print(f"{'package':<28}{'files':>7}{'safe':>7}{'unsafe':>8}{'left':>6}{'seconds':>9}")
    for package in load(options.packages, "migration"):
        migrated = migrate(package, fetch(package, options.cache), options.diffs)
        counts = [sum(each.values()) for each in (migrated.safe, migrated.unsafe, migrated.left)]
        print(
            f"{package.name:<28}{sum(migrated.files_changed):>7}"
            f"{counts[0]:>7}{counts[1]:>8}{counts[2]:>6}{migrated.seconds:>9}",
            flush=True,
        )
        failures += [f"{package.name}: {text}" for text in migrated.failures]
        rows[package.name] = asdict(migrated)
        del rows[package.name]["seconds"]
        text = json.dumps({"packages": dict(sorted(rows.items()))}, indent=1) + "\n"
        RESULT.write_text(text, encoding="utf-8")
    for failure in failures:
        print(failure, file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
