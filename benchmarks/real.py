"""Run amplint over real packages: what it reports, what it takes, and what its fixes leave behind.

    python -m benchmarks.real [PACKAGE...] [--cache DIR] [--no-fix]

Writes results/real.json when all packages were run. Exits with 1 when amplint could not do its work
on a package, when a fixed file no longer compiles, when pyflakes finds names in it that are now
undefined or imports that are now unused, or when fixing a second time changes anything. The
packages' code is read and compiled, and never run.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.packages import RESULTS, Package, amplint, arguments, check, fetch, load, sources

DOUBT = re.compile(
    r"^(?P<path>.+?):\d+:\d+:? (?P<text>"
    r"undefined name .+|.+ imported but unused|redefinition of unused '.+'(?= from line \d+$))",
    re.MULTILINE,
)


@dataclass
class Checked:
    """What `amplint check` says of one package."""

    version: str
    files: int
    lines: int
    findings: dict[str, int]
    per_1000_lines: float
    times_parse: float
    failures: list[str] = field(default_factory=list)


@dataclass
class Fixed:
    """What `amplint fix --apply` makes of a copy of one package."""

    files_changed: int
    findings: dict[str, int]
    failures: list[str] = field(default_factory=list)


@dataclass
class Snapshot:
    """A tree: its bytes, the files that compile, and what pyflakes says of their names."""

    texts: dict[str, bytes]
    compile: set[str]
    doubts: Counter[tuple[str, str]]


def run_check(package: Package, tree: Path) -> Checked:
    files = list(sources(package, tree))
    parse = _seconds_to_parse(files)
    start = time.perf_counter()
    findings, run = check(package, tree)
    seconds = time.perf_counter() - start
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    checked = Checked(
        version=package.version,
        files=len(files),
        lines=lines,
        findings=by_code(found["code"] for found in findings),
        per_1000_lines=round(1000 * len(findings) / lines, 3),
        times_parse=round(seconds / parse, 1),
    )
    if run.status not in (0, 1):
        checked.failures.append(f"check ended with {run.status}: {run.stderr.strip()}")
    return checked


def run_fix(package: Package, tree: Path, options: Sequence[str]) -> Fixed:
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / tree.name
        shutil.copytree(tree, copy)
        before = snapshot(package, copy)
        command = ["fix", "--apply", *options, *package.roots]
        first = amplint(command, copy)
        once = snapshot(package, copy)
        left, _ = check(package, copy)
        second = amplint(command, copy)
        twice = snapshot(package, copy)

    fixed = Fixed(
        files_changed=len(changed(before, once)),
        findings=by_code(found["code"] for found in left),
    )
    for run in (first, second):
        if run.status not in (0, 1):
            fixed.failures.append(f"fix ended with {run.status}: {run.stderr.strip()}")
    fixed.failures += worse(before, once)
    again = changed(once, twice)
    fixed.failures += [f"changed by a second run: {path}" for path in sorted(again)]
    return fixed


def worse(before: Snapshot, after: Snapshot) -> list[str]:
    """What is wrong with a tree and was not before."""
    broken = before.compile - after.compile
    doubts = after.doubts - before.doubts
    return [
        *(f"no longer compiles: {path}" for path in sorted(broken)),
        *(f"new in {path}: {text}" for path, text in sorted(doubts)),
    ]


def _seconds_to_parse(files: Sequence[Path]) -> float:
    start = time.perf_counter()
    for path in files:
        try:
            _parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
    return time.perf_counter() - start


def _parse(data: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(data)


def snapshot(package: Package, tree: Path) -> Snapshot:
    state = Snapshot({}, set(), Counter())
    for path in sources(package, tree):
        name = path.relative_to(tree).as_posix()
        data = state.texts[name] = path.read_bytes()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(data, name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        state.compile.add(name)
    pyflakes = subprocess.run(
        [sys.executable, "-m", "pyflakes", *package.roots],
        cwd=tree,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    for match in DOUBT.finditer(pyflakes.stdout):
        state.doubts[match["path"], match["text"]] += 1
    return state


def changed(before: Snapshot, after: Snapshot) -> list[str]:
    return [name for name, data in before.texts.items() if after.texts.get(name) != data]


def by_code(codes: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(codes).items()))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--no-fix", action="store_true", help="check only")
    options = parser.parse_args()

    failures: list[str] = []
    table: dict[str, dict[str, object]] = {}
    totals: Counter[str] = Counter()
    lines = 0
    print(f"{'package':<18}{'lines':>9}{'findings':>10}{'a 1000':>8}{'x parse':>9}", end="")
    print(f"{'fixed files':>13}{'with unsafe':>13}")
    for package in load(options.packages):
        tree = fetch(package, options.cache)
        checked = run_check(package, tree)
        row: dict[str, object] = asdict(checked)
        totals.update(checked.findings)
        lines += checked.lines
        print(
            f"{package.name:<18}{checked.lines:>9}{sum(checked.findings.values()):>10}"
            f"{checked.per_1000_lines:>8.2f}{checked.times_parse:>9.1f}",
            end="",
            flush=True,
        )
        wrong = [f"{package.name}: {text}" for text in checked.failures]
        if not options.no_fix:
            for key, extra in (("fix", []), ("fix_unsafe", ["--unsafe"])):
                fixed = run_fix(package, tree, extra)
                row[key] = asdict(fixed)
                print(f"{fixed.files_changed:>13}", end="", flush=True)
                wrong += [f"{package.name}, {key}: {text}" for text in fixed.failures]
        print()
        table[package.name] = row
        failures += wrong

    total = sum(totals.values())
    print(f"{'all':<18}{lines:>9}{total:>10}{1000 * total / max(lines, 1):>8.2f}\n")
    for code, count in sorted(totals.items()):
        print(f"{code}  {count:>5}")
    for text in failures:
        print(text, file=sys.stderr)
    if not options.packages and not options.no_fix:
        summary = {
            "lines": lines,
            "findings": dict(sorted(totals.items())),
            "per_1000_lines": round(1000 * total / lines, 3),
            "packages": table,
        }
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "real.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
