"""Check all pinned packages: exit status, time, memory, faults and findings of each.

    python -m benchmarks.ecosystem [PACKAGE...] [--cache DIR] [--limit SECONDS] [--at REF]
        [--against REF | --findings FILE] [--save FILE] [--results FILE] [--ci [--accept]]

A run over all packages writes results/ecosystem.json. Exits with 1 when amplint hangs on a package
or reports a fault of its own. The packages' code is read and never run.

`--against REF` checks each package with the amplint of that commit too, and lists which findings
came, went, moved or changed. `--save FILE` stores the findings, and `--findings FILE` compares with
stored ones. `--ci` runs the twelve packages of the set "ci" and fails as well when their findings
differ from results/ecosystem-ci.json, which `--ci --accept` writes anew.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import hashlib
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from benchmarks.packages import RESULTS, Package, arguments, fetch, load, sources

ROOT = Path(__file__).resolve().parent.parent
ALL = RESULTS / "ecosystem.json"
CI = RESULTS / "ecosystem-ci.json"

LIMIT = 600  # seconds of a processor for each process of one package
WALL = 6  # times that limit may pass on the clock, for a process that waits and uses no processor
MEMORY = 12 << 30  # bytes of address space for each process
SLOW = 5  # times the median of the seconds per 1,000 lines
FEWEST = 2000  # lines of a package that counts there: below, the time is that of amplint's start

# Runs the amplint of a checkout. The rules are loaded from the checkout's own directory, because a
# checkout that is not installed does not find `amplint.rules`, and an installed amplint finds its
# own. Isolated mode (-I) keeps the package's directory, where this runs, off the path.
START = """
import importlib.util, os, resource, runpy, sys
root, seconds, memory, tree = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
sys.path[:] = [directory for directory in sys.path if directory]  # never the tree
os.chdir(tree)
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
sys.path.insert(0, root)
spec = importlib.util.spec_from_file_location(
    "amplint.rules", root + "/rules/__init__.py", submodule_search_locations=[root + "/rules"]
)
sys.modules["amplint.rules"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["amplint.rules"])
sys.argv[1:] = sys.argv[5:]
runpy.run_module("amplint", run_name="__main__", alter_sys=True)
"""

OWN_ERROR = re.compile(r"^amplint: error: |amplint failed|this is a bug in amplint")
GIVEN_UP = re.compile(r"\bg(?:ave|iven) up\b", re.IGNORECASE)


@dataclass(frozen=True)
class Ran:
    """A finished process.

    Args:
        status: the exit status, or the negative number of the signal that ended it.
        stopped: whether the runner ended it for the time that it took.
        seconds: of processors, with those of its child processes.
        megabytes: the largest resident memory of one of its processes.
    """

    status: int
    stopped: bool
    seconds: float
    megabytes: int
    stdout: str
    stderr: str


@dataclass(frozen=True, order=True)
class Found:
    """One finding. `fix` is its safety and a digest of its edits, or empty."""

    path: str
    row: int
    column: int
    code: str
    message: str
    fix: str = ""


@dataclass(frozen=True)
class Checked:
    """The result for one package, as it stands in the results. `findings`: the number by code."""

    version: str
    lines: int
    status: int
    hang: bool
    seconds: float
    per_1000_lines: float
    megabytes: int
    faults: list[str]
    given_up: list[str]
    findings: dict[str, int] | None

    @property
    def bad(self) -> bool:
        return self.hang or bool(self.faults)


@dataclass(frozen=True)
class Change:
    """A difference between two states: what `kind` says happened to the finding.

    Args:
        found: the finding as it is now; for one that went, as it was.
        was: the finding as it was, where it has moved or changed.
    """

    kind: str
    found: Found
    was: Found | None = None

    def __str__(self) -> str:
        now, was = self.found, self.was or self.found
        lines = [f"{self.kind:<8}{now.path}:{now.row}:{now.column}  {now.code}  {now.message}"]
        if (was.row, was.column) != (now.row, now.column):
            lines.append(f"was at {was.row}:{was.column}")
        if was.message != now.message:
            lines.append(f"was: {was.message}")
        if was.fix != now.fix:
            lines.append(f"fix: {now.fix or 'none'}, was: {was.fix or 'none'}")
        return "\n          ".join(lines)


# ------------------------------------------------------------------------------ running


def run(words: Sequence[str], tree: Path, checkout: Path, limit: int) -> Ran:
    """Run the amplint of a checkout in a directory, and measure the process."""
    given = (checkout, limit, MEMORY, tree)
    command = [sys.executable, "-s", "-c", START, *map(str, given), *words]
    # Findings of allennlp depend on the hashes of strings: two runs have to have the same ones.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment["PYTHONHASHSEED"] = "0"
    with (
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
        tempfile.TemporaryDirectory() as empty,  # Python imports from where it starts
    ):
        process = subprocess.Popen(
            command,
            cwd=empty,
            env=environment,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        watch = threading.Timer(WALL * limit, kill_group, [process.pid])
        watch.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        finally:
            late = not watch.is_alive()
            watch.cancel()
            kill_group(process.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
        return Ran(
            status=process.returncode,
            stopped=late or process.returncode == -signal.SIGXCPU,
            seconds=usage.ru_utime + usage.ru_stime,
            megabytes=round(usage.ru_maxrss / unit),
            stdout=text_of(stdout),
            stderr=text_of(stderr),
        )


def kill_group(leader: int) -> None:
    """Kill a process and those that it has started, as far as they still run."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def text_of(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode("utf-8", "replace"))


def check(
    package: Package, tree: Path, checkout: Path, limit: int
) -> tuple[Checked, tuple[Found, ...]]:
    """Check a package with the amplint of a checkout."""
    words = ["check", "--no-cache", "--quiet", "--format", "json", *package.roots]
    lines = sum(path.read_bytes().count(b"\n") for path in sources(package, tree))
    return judged(package, lines, run(words, tree, checkout, limit))


def judged(package: Package, lines: int, ran: Ran) -> tuple[Checked, tuple[Found, ...]]:
    """The result of a run, and its findings, unless they are not to be read."""
    found = None if package.status_only else findings_in(ran.stdout)
    faults = [] if ran.stopped else faults_in(ran)
    if found is None and not (package.status_only or ran.stopped or faults):
        faults.append("printed no findings")
    checked = Checked(
        version=package.version,
        lines=lines,
        status=ran.status,
        hang=ran.stopped,
        seconds=round(ran.seconds, 2),
        per_1000_lines=round(1000 * ran.seconds / lines, 3),
        megabytes=ran.megabytes,
        faults=faults,
        given_up=[line.strip() for line in ran.stderr.splitlines() if GIVEN_UP.search(line)],
        findings=by_code(found) if found is not None else None,
    )
    return checked, tuple(found or ())


def findings_in(output: str) -> list[Found] | None:
    """The findings in the JSON that amplint printed; None if it printed none."""
    try:
        entries = json.loads(output)
    except json.JSONDecodeError:
        return None
    return sorted(
        Found(
            entry["filename"],
            entry["location"]["row"],
            entry["location"]["column"],
            entry["code"],
            entry["message"],
            fix_of(entry["fix"]),
        )
        for entry in entries
    )


def fix_of(fix: Mapping[str, Any] | None) -> str:
    if fix is None:
        return ""
    edits = json.dumps(fix["edits"], sort_keys=True).encode()
    return f"{fix['safety']} {hashlib.sha256(edits).hexdigest()[:8]}"


def faults_in(ran: Ran) -> list[str]:
    """The errors that amplint reported of itself."""
    faults = []
    lines = ran.stderr.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("Traceback "):  # its first line that is not indented names the error
            faults.append(next((text for text in lines[number + 1 :] if text[:1].strip()), line))
        elif OWN_ERROR.search(line):
            faults.append(line)
    if ran.status not in (0, 1) and not faults:
        faults.append(f"ended with status {ran.status}: {ran.stderr.strip()[-200:]}")
    return [fault[:300] for fault in faults]


def by_code(findings: Iterable[Found]) -> dict[str, int]:
    return dict(sorted(Counter(found.code for found in findings).items()))


@contextlib.contextmanager
def checkout_of(ref: str | None) -> Iterator[Path]:
    """A directory with the compiled code of a commit; this checkout where none is named."""
    if ref is None:
        compile_code(ROOT)
        yield ROOT
        return
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "amplint"
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), ref], check=True)
        try:
            compile_code(tree)
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def compile_code(checkout: Path) -> None:
    """Compile amplint, so that the first package does not pay for it."""
    for directory in ("amplint", "amplint_verify", "rules"):
        compileall.compile_dir(checkout / directory, quiet=1)


# ------------------------------------------------------------------------------ comparing


def changes(before: Iterable[Found], after: Iterable[Found]) -> list[Change]:
    """The differences between two lists of findings of one package, by place.

    A finding whose message or fix is another one at the same place has changed; one with the same
    message elsewhere in the file has moved.
    """
    old, new = Counter(before), Counter(after)
    went, came = sorted((old - new).elements()), sorted((new - old).elements())
    result = []
    for kind, key in (("changed", place), ("moved", content)):
        for was, found in pairs(went, came, key):
            result.append(Change(kind, found, was))
            went.remove(was)
            came.remove(found)
    result += [Change("went", found) for found in went]
    result += [Change("came", found) for found in came]
    return sorted(result, key=lambda change: change.found)


def pairs(
    went: Iterable[Found], came: Iterable[Found], key: Callable[[Found], Hashable]
) -> list[tuple[Found, Found]]:
    """Those of both lists with one key, the first with the first."""
    waiting: dict[Hashable, list[Found]] = defaultdict(list)
    for found in went:
        waiting[key(found)].append(found)
    return [(waiting[key(found)].pop(0), found) for found in came if waiting[key(found)]]


def place(found: Found) -> Hashable:
    return found.path, found.row, found.column, found.code


def content(found: Found) -> Hashable:
    return found.path, found.code, found.message


# ------------------------------------------------------------------------------ what is kept


def read_findings(path: Path | None) -> dict[str, Sequence[Found]]:
    """The stored findings by package; none where there is no file."""
    if path is None or not path.exists():
        return {}
    stored = json.loads(path.read_text(encoding="utf-8"))
    return {name: [Found(*found) for found in findings] for name, findings in stored.items()}


def write_findings(path: Path, findings: Mapping[str, Sequence[Found]]) -> None:
    """Store findings, one a line, so that a difference can be read."""
    packages = []
    for name in sorted(findings):
        lines = [f"  {json.dumps(astuple(found))}" for found in findings[name]]
        packages.append(f" {json.dumps(name)}: [" + ",".join(f"\n{line}" for line in lines) + "]")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(packages) + "\n}\n", encoding="utf-8")


def read_results(path: Path | None) -> dict[str, Checked]:
    """The stored rows by package; none where there is no file."""
    if path is None or not path.exists():
        return {}
    stored = json.loads(path.read_text(encoding="utf-8"))
    return {name: Checked(**row) for name, row in stored["packages"].items()}


def write_results(path: Path, rows: Mapping[str, Checked]) -> None:
    summary = {
        "python": platform.python_version(),
        **totals(rows),
        "packages": {name: asdict(rows[name]) for name in sorted(rows)},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


def totals(rows: Mapping[str, Checked]) -> dict[str, Any]:
    """The sums over all packages."""
    findings: Counter[str] = Counter()
    for row in rows.values():
        findings.update(row.findings or {})
    return {
        "lines": sum(row.lines for row in rows.values()),
        "seconds": round(sum(row.seconds for row in rows.values()), 1),
        "median_per_1000_lines": median(rows),
        "slow": slow(rows),
        "bad": [name for name in sorted(rows) if rows[name].bad],
        "findings": dict(sorted(findings.items())),
    }


def median(rows: Mapping[str, Checked]) -> float:
    """The median of the seconds per 1,000 lines."""
    times = [row.per_1000_lines for row in rows.values() if counts(row)]
    return round(statistics.median(times), 3) if times else 0.0


def counts(row: Checked) -> bool:
    """Whether the seconds per 1,000 lines say something: of a large package that was checked."""
    return row.lines >= FEWEST and not row.hang


def slow(rows: Mapping[str, Checked]) -> list[str]:
    """The packages, of those that the median counts, that take more than `SLOW` times as long."""
    most = SLOW * median(rows)
    return [
        name for name in sorted(rows) if counts(rows[name]) and rows[name].per_1000_lines > most
    ]


# ------------------------------------------------------------------------------ what is printed

HEADER = (
    f"{'package':<28}{'lines':>9}{'status':>8}{'CPU s':>8}{'a 1000':>8}{'MB':>7}"
    f"{'findings':>10}{'given up':>10}{'faults':>8}"
)


def line_of(name: str, row: Checked) -> str:
    """The row of the table for one package."""
    status = "hang" if row.hang else str(row.status)
    findings = "-" if row.findings is None else str(sum(row.findings.values()))
    return (
        f"{name:<28}{row.lines:>9}{status:>8}{row.seconds:>8.1f}{row.per_1000_lines:>8.3f}"
        f"{row.megabytes:>7}{findings:>10}{len(row.given_up):>10}{len(row.faults):>8}"
    )


def summary(rows: Mapping[str, Checked]) -> Iterator[str]:
    """The lines below the table."""
    sums = totals(rows)
    yield (
        f"{len(rows)} packages, {sums['lines']:,} lines, {sums['seconds']} s of CPU; "
        f"median {sums['median_per_1000_lines']} s per 1,000 lines"
    )
    for code, count in sums["findings"].items():
        yield f"{code}  {count:>6}"
    for name in sums["slow"]:
        times = rows[name].per_1000_lines / sums["median_per_1000_lines"]
        yield f"slow: {name} takes {times:.1f} times the median"
    for name in sorted(rows):
        if rows[name].hang:
            yield f"hang: {name}, stopped after {rows[name].seconds} s of CPU"
        for fault in rows[name].faults:
            yield f"fault: {name}: {fault}"


def comparison(name: str, differences: Sequence[Change]) -> Iterator[str]:
    """The changes of one package, to be read."""
    if differences:
        number = Counter(change.kind for change in differences)
        yield f"{name}: " + ", ".join(f"{count} {kind}" for kind, count in sorted(number.items()))
        yield from (f"  {change}" for change in differences)


# ------------------------------------------------------------------------------ the command


def main() -> None:
    options = parse()
    rows: dict[str, Checked] = {}
    findings: dict[str, Sequence[Found]] = {}
    kept_rows = read_results(options.results) if options.packages else {}
    kept_findings = read_findings(options.save) if options.packages else {}
    expected = read_findings(options.findings)
    differences: dict[str, list[Change]] = {}
    print(HEADER, flush=True)
    with contextlib.ExitStack() as stack:
        checkout = stack.enter_context(checkout_of(options.at))
        other = stack.enter_context(checkout_of(options.against)) if options.against else None
        for package in load(options.packages, "ci" if options.ci else None):
            name, tree = package.name, fetch(package, options.cache)
            if other is not None:
                row, known = check(package, tree, other, options.limit)
                print(line_of(f"{name} {options.against}", row), flush=True)
                if row.findings is not None:
                    expected[name] = known
            rows[name], found = check(package, tree, checkout, options.limit)
            print(line_of(name, rows[name]), flush=True)
            if rows[name].findings is not None:
                findings[name] = found
                if name in expected or options.ci:
                    differences[name] = changes(expected.get(name, ()), found)
            if options.save:
                write_findings(options.save, {**kept_findings, **findings})
            if options.results:
                write_results(options.results, {**kept_rows, **rows})
    print(*summary(rows), sep="\n")
    for name, listed in differences.items():
        for line in comparison(name, listed):
            print(line)
    sys.exit(verdict(rows, differences if options.ci and not options.accept else {}))


def verdict(rows: Mapping[str, Checked], unexplained: Mapping[str, Sequence[Change]]) -> int:
    """The exit status: 1 for a hang, a fault, or a change of findings that nobody has accepted."""
    return int(any(row.bad for row in rows.values()) or any(unexplained.values()))


def parse() -> argparse.Namespace:
    """The options, with those that `--ci` and a run over all packages imply."""
    parser = arguments(__doc__)
    add = parser.add_argument
    add("--limit", type=int, default=LIMIT, metavar="SECONDS", help="of CPU, for each package")
    add("--at", metavar="REF", help="check with the amplint of this commit")
    add("--save", type=Path, metavar="FILE", help="store the findings")
    add("--results", type=Path, metavar="FILE", help="store the table; rows of others are kept")
    add("--ci", action="store_true", help="the twelve packages of the set ci, none else")
    add("--accept", action="store_true", help="with --ci: store its findings as the expected ones")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--against", metavar="REF", help="compare with the amplint of this commit")
    other.add_argument("--findings", type=Path, metavar="FILE", help="compare with stored findings")
    options = parser.parse_args()
    if options.accept and not options.ci:
        parser.error("--accept goes with --ci")
    if options.ci:
        if options.accept:
            options.save = CI
        if not options.against and not options.findings:
            options.findings = CI
    elif not options.packages and options.results is None and options.at is None:
        options.results = ALL
    return options


if __name__ == "__main__":
    main()
