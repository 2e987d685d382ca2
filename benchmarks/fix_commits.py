"""Whether amplint sees the mistakes that people have repaired.

    python -m benchmarks.fix_commits SET [--mirrors DIR] [--only PART]... [--under MODE] [--out F]

SET is a set of labelled commits (tests/accuracy/commits, whose README says what the labels mean).
The parent of a commit holds the mistake, the commit itself does not. Of both, the Python files are
laid out (all of a small project; of a large one what changed, what that imports, what stands around
it and what shows half precision) and checked. Prints the share that is found, by kind, what is
still reported after people's repair, and each case; `--out` writes the verdicts.

Repositories are fetched into DIR, or are read from there: bare ones, as OWNER+NAME/repo. Nothing of
them is run.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from amplint.ir.module_names import ProjectModules
from amplint.project.modes import MODES
from amplint.rule import registry
from benchmarks.packages import amplint, default_cache

SETS = Path(__file__).resolve().parent.parent / "tests" / "accuracy" / "commits"
CODES = frozenset(rule.code for rule in registry.all_rules())

# A finding may stand so many lines beside the label.
TOLERANCE = 2
# So many Python files of a project are laid out; a third of them are those that show half
# precision, for a region that is presumed rests on them.
LIMIT = 160
SHOWS_HALF = r"autocast|GradScaler|precision *= *['\"]?(16|bf16|fp16)|mixed_precision|--fp16|--amp"
TESTS = re.compile(r"(^|/)tests?(/|_)|test_")

# The families of rules, by their first digits, that can be meant where a label has no code.
FAMILIES = {
    "sync": ("1",),
    "dtype": ("2", "309", "501", "504", "8"),
    "region": ("3",),
    "scaler": ("4",),
    "placement": ("5",),
    "half-range": ("205", "209", "3", "8"),
    "parallel": ("6",),
    "memory": ("1", "9"),
    "migration": ("7",),
}
LABELLED = "labelled"
AMP = ("dtype", "region", "scaler", "half-range")


@dataclass(frozen=True)
class Label:
    """A place of the mistake in the parent, and where it must be gone in the child.

    Args:
        code: of the rule that is about it; None where there is none.
        certainty: "sure", or "arguable" where a run alone would tell.
        gone: the first and last line in the child.
    """

    path: str
    row: int
    code: str | None
    certainty: str
    gone: tuple[int, int]


@dataclass(frozen=True)
class Case:
    """A commit with its labels; it is found where any of them is.

    Args:
        mode: under which its users meet the mistake, a name in `MODES`; "" where no label says.
    """

    id: str
    repo: str
    commit: str
    parent: str
    files: tuple[str, ...]
    kind: str
    labels: tuple[Label, ...]
    mode: str = ""

    @property
    def is_sure(self) -> bool:
        """Whether the mistake is certain, and is one that a rule of today is about."""
        return any(each.certainty == "sure" and each.code in CODES for each in self.labels)

    def is_meant(self, label: Label, code: str) -> bool:
        """Whether a finding of a code tells of the mistake: by its own code, or one of its kin."""
        kin = label.code is not None and label.code[3] == code[3]
        return kin or code[3:].startswith(FAMILIES[self.kind])


@dataclass(frozen=True)
class Found:
    """A finding."""

    code: str
    path: str
    first: int
    last: int

    def is_at(self, label: Label) -> bool:
        first, last = self.first - TOLERANCE, self.last + TOLERANCE
        return self.path == label.path and first <= label.row <= last

    def is_left(self, label: Label) -> bool:
        first, last = label.gone
        return self.path == label.path and first - 1 <= self.first <= last + 1


@dataclass(frozen=True)
class Verdict:
    """What came of a case: "found", "kin" (by another code of the family), "still" (reported after
    the repair too) or "missed"."""

    case: Case
    state: str
    told: Found | None = None

    def __str__(self) -> str:
        case, told = self.case, self.told
        codes = ",".join(sorted({each.code or "no code" for each in case.labels}))
        where = f" {told.code} {told.path}:{told.first}" if told else ""
        certainty = "sure" if case.is_sure else ""
        return f"{self.state:<7}{case.kind:<11}{certainty:<5}{case.id:<24}{codes}{where}"


def load(name: str, parts: Sequence[str] = ()) -> list[Case]:
    """The cases of a set; if parts are given, those of these kinds, or with these in their id or
    repository."""
    lines = (SETS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [read(json.loads(line)) for line in lines if line]
    return [
        case
        for case in cases
        if not parts or any(p == case.kind or p in case.id or p in case.repo for p in parts)
    ]


def read(entry: dict[str, Any]) -> Case:
    labels = tuple(
        Label(
            place["path"],
            place["line"],
            place["code"],
            place["certainty"],
            (gone["lines"][0], gone["lines"][1]),
        )
        for place, gone in zip(entry["expect"], entry["gone"], strict=True)
    )
    files = tuple(sorted({*entry["files"], *(label.path for label in labels)}))
    return Case(
        entry["id"],
        entry["repo"],
        entry["commit"],
        entry["parent"],
        files,
        entry["kind"],
        labels,
        next(iter(entry.get("mode", ())), ""),
    )


def judge(case: Case, before: Sequence[Found], after: Sequence[Found]) -> Verdict:
    """What findings in the parent and in the child make of a case."""
    told = [
        (found.code != label.code, found, label)
        for label in case.labels
        for found in before
        if found.is_at(label) and case.is_meant(label, found.code)
    ]
    if not told:
        return Verdict(case, "missed")
    is_kin, found, label = min(told, key=lambda each: each[0])
    if any(each.code == found.code and each.is_left(label) for each in after):
        return Verdict(case, "still", found)
    return Verdict(case, "kin" if is_kin else "found", found)


# ------------------------------------------------------------------------------- the trees


def mirror(repo: str, mirrors: Path) -> Path:
    """The bare repository; fetches it the first time."""
    home = mirrors / repo.replace("/", "+")
    for found in (home / "repo", home / "repo" / ".git"):
        if (found / "HEAD").is_file() and (found / "objects").is_dir():
            return found
    address = f"https://github.com/{repo}"
    subprocess.run(["git", "clone", "--quiet", "--bare", address, str(home / "repo")], check=True)
    return home / "repo"


def git(where: Path, *words: str) -> bytes:
    done = subprocess.run(["git", f"--git-dir={where}", *words], capture_output=True, check=True)
    return done.stdout


def chosen(where: Path, revision: str, wanted: Sequence[str]) -> list[str]:
    """The Python files to lay out: what changed, what that imports, what stands nearest to it, and
    of the rest those that show half precision."""
    names = git(where, "ls-tree", "-r", "--name-only", revision).decode().splitlines()
    paths = [path for path in names if path.endswith(".py")]
    if len(paths) <= LIMIT:
        return sorted(paths)
    modules = ProjectModules(paths)
    texts = {
        path: git(where, "show", f"{revision}:{path}") for path in {*wanted}.intersection(paths)
    }
    read = {found for path, text in texts.items() for found in imports(path, text, modules)}
    paths.sort(key=lambda p: (p not in texts, p not in read, distance(p, wanted), p))
    near = paths[: LIMIT - LIMIT // 3]
    shows = subprocess.run(
        ["git", f"--git-dir={where}", "grep", "-lE", SHOWS_HALF, revision, "--", "*.py"],
        capture_output=True,
        check=False,  # it tells by its status that there is none
    )
    shown = {line.partition(":")[2] for line in shows.stdout.decode().splitlines()}
    far = [path for path in paths if path in shown and path not in near and not TESTS.search(path)]
    return [*near, *far[: LIMIT // 3]]


def imports(path: str, text: bytes, modules: ProjectModules) -> Iterator[str]:
    """The files of a project that one of its files imports; none of a file for another Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [modules.imported(path, 0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = modules.imported(path, node.level, node.module or "")
            inner = [modules.submodule(module, alias.name) for alias in node.names if module]
            found = [module, *inner]
        else:
            continue
        yield from filter(None, found)


def distance(path: str, wanted: Sequence[str]) -> int:
    """How many directories lie between a file and the nearest of some."""
    return min((steps(path, each) for each in wanted), default=0)


def steps(path: str, other: str) -> int:
    """Ex) a/b.py, a/c/d.py: 1"""
    mine, theirs = PurePosixPath(path).parent.parts, PurePosixPath(other).parent.parts
    shared = sum(1 for _ in common(mine, theirs))
    return 0 if path == other else len(mine) + len(theirs) - 2 * shared


def common(one: Sequence[str], other: Sequence[str]) -> Iterator[str]:
    for a, b in zip(one, other, strict=False):
        if a != b:
            return
        yield a


def lay_out(where: Path, revision: str, wanted: Sequence[str], into: Path) -> None:
    """Write the chosen files of a revision, as a project of their own."""
    (into / "pyproject.toml").write_text("", encoding="utf-8")
    paths = chosen(where, revision, wanted)
    for start in range(0, len(paths), 300):  # a command line holds only so many
        names = [f":(literal){path}" for path in paths[start : start + 300]]
        raw = git(where, "archive", "--format=tar", revision, "--", *names)
        with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
            files = [member for member in archive.getmembers() if member.isfile()]
            archive.extractall(into, members=files, filter="data")


def findings(where: Path, revision: str, case: Case, options: Sequence[str]) -> list[Found]:
    """What amplint says of the files of a case, in one revision.

    Raises:
        RuntimeError: if amplint fails.
    """
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory)
        lay_out(where, revision, case.files, tree)
        there = [path for path in case.files if (tree / path).is_file()]
        if not there:
            return []
        words = ["check", "--format", "json", "--no-cache", "--exit-zero", *options, *there]
        done = amplint(words, tree)
    if done.status:
        raise RuntimeError(f"{case.id}: {done.stderr}")
    return [
        Found(f["code"], f["filename"], f["location"]["row"], f["end_location"]["row"])
        for f in json.loads(done.stdout or "[]")
    ]


def run(case: Case, mirrors: Path, options: Sequence[str]) -> Verdict:
    where = mirror(case.repo, mirrors)
    before = findings(where, case.parent, case, options)
    if judge(case, before, ()).state == "missed":
        return Verdict(case, "missed")
    return judge(case, before, findings(where, case.commit, case, options))


# ------------------------------------------------------------------------------- the report


def summary(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The share of each kind that is found, and what is still reported."""
    groups = {
        "all": verdicts,
        "all but migration": [v for v in verdicts if v.case.kind != "migration"],
        "AMP families": [v for v in verdicts if v.case.kind in AMP],
        **{kind: [v for v in verdicts if v.case.kind == kind] for kind in FAMILIES},
    }
    yield f"{'':<20}{'all':>16}{'sure, a rule':>16}{'still':>7}"
    for name, group in groups.items():
        if group:
            sure = [verdict for verdict in group if verdict.case.is_sure]
            still = sum(verdict.state == "still" for verdict in group)
            yield f"{name:<20}{share(group):>16}{share(sure):>16}{still:>7}"


def share(verdicts: Sequence[Verdict]) -> str:
    found = sum(verdict.state in ("found", "kin") for verdict in verdicts)
    return f"{found} of {len(verdicts)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("set", choices=sorted(path.stem for path in SETS.glob("*.jsonl")))
    parser.add_argument("--mirrors", type=Path, default=default_cache() / "mirrors")
    parser.add_argument("--only", action="append", default=[], metavar="PART")
    parser.add_argument("--under", choices=[*MODES, LABELLED], help="labelled: as each case says")
    parser.add_argument("--out", type=Path, help="write the verdicts there")
    options = parser.parse_args()
    verdicts = []
    for case in load(options.set, options.only):
        mode = case.mode if options.under == LABELLED else options.under
        verdicts.append(run(case, options.mirrors, ["--under", mode] if mode else []))
        print(verdicts[-1], flush=True)
    print("\n".join(summary(verdicts)))
    if options.out:
        lines = [*summary(verdicts), "", *map(str, verdicts)]
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
