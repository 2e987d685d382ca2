"""Run the test suite of a real package before and after `amplint fix --apply`.

    python -m benchmarks.real_suite [--cache DIR] [--json FILE]

**This runs downloaded code**, the tests of a package, with your rights. Its hash is pinned. It
needs torch, NumPy and pytest, and installs nothing. No test and no CI job starts it.

The package is copied, its tests run as they are, then the safe fixes are applied to all of it, and
the tests run again. Exits with 1 where a test that passed does not pass any more, or amplint fails.
Of pytorch_optimizer, the tests of sparse gradients are run: its SM3 builds a sparse tensor by
`grad.new(indices, values, size)`, which looks as if it were given sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.packages import RESULTS, Package, default_cache, fetch

ROOT = Path(__file__).resolve().parent.parent
RESULT = RESULTS / "real_suite.json"
ARCHIVE = (
    "https://files.pythonhosted.org/packages/15/4e/"
    "e12eb9026eb94be8d8c763b4243845e19080c23b150441b20c00d2e45013/pytorch_optimizer-3.10.1.tar.gz"
)
PACKAGE = Package(
    "pytorch_optimizer",
    "3.10.1",
    ("pytorch_optimizer", "tests"),
    "c262319cc3ae7be9f591e8728f1883d3096b9d7e15bea358b4ca20dd848c6d2a",
    ARCHIVE,
)
TESTS = "sparse"  # the tests whose name, or whose parameter, holds this word


@dataclass(frozen=True)
class Suite:
    """What each test did: "passed", "skipped", "failed" or "error"."""

    tests: dict[str, str]

    @property
    def counts(self) -> dict[str, int]:
        return dict(sorted(Counter(self.tests.values()).items()))

    def broken(self, after: Suite) -> list[str]:
        """The tests that passed here and did not pass there."""
        return sorted(
            name
            for name, what in self.tests.items()
            if what == "passed" and after.tests.get(name) != "passed"
        )


@dataclass(frozen=True)
class Comparison:
    """What the safe fixes did to the tests of a package.

    Args:
        applied: how many fixes of each rule were applied.
        before: how many tests passed, failed and so on.
        broken: the tests that passed before, and not after.
    """

    package: str
    version: str
    tests: str
    torch: str
    python: str
    applied: dict[str, int]
    before: dict[str, int]
    after: dict[str, int]
    broken: list[str]


def suite(tree: Path, word: str) -> Suite:
    """Run the tests of a tree whose names hold a word."""
    report = tree / "junit.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-k", word, f"--junitxml={report}", "tests"]
    run(command, tree, tree)
    if not report.is_file():
        return Suite({})
    cases = ElementTree.parse(report).iter("testcase")
    return Suite({f"{case.get('classname')}::{case.get('name')}": outcome(case) for case in cases})


def outcome(case: ElementTree.Element) -> str:
    words = {"failure": "failed", "error": "error", "skipped": "skipped"}
    return next((words[child.tag] for child in case if child.tag in words), "passed")


def fix(tree: Path) -> dict[str, int]:
    """Apply the safe fixes to a tree; how many of each rule there were."""
    checked = run([sys.executable, "-m", "amplint", "check", "--format", "json", "."], tree, ROOT)
    findings = json.loads(checked.stdout)
    fixes = (each["code"] for each in findings if (each["fix"] or {}).get("safety") == "safe")
    applied = run([sys.executable, "-m", "amplint", "fix", "--apply", "."], tree, ROOT)
    if applied.returncode not in (0, 1):
        sys.exit(f"amplint fix ended with {applied.returncode}\n{applied.stderr}")
    return dict(sorted(Counter(fixes).items()))


def run(command: Sequence[str], tree: Path, imported: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a tree, with the packages of a directory."""
    environment = {**os.environ, "PYTHONPATH": str(imported), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, encoding="utf-8", check=False
    )


def compare(package: Package, cache: Path, word: str) -> Comparison:
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory) / package.name
        shutil.copytree(fetch(package, cache), tree)
        before = suite(tree, word)
        applied = fix(tree)
        after = suite(tree, word)
    return Comparison(
        package.name,
        package.version,
        word,
        version("torch"),
        platform.python_version(),
        applied,
        before.counts,
        after.counts,
        before.broken(after),
    )


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_suite")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="holds the download")
    parser.add_argument("--json", type=Path, default=RESULT, help="where to write the result")
    asked = parser.parse_args(words)
    found = compare(PACKAGE, asked.cache, TESTS)
    asked.json.write_text(json.dumps(asdict(found), indent=2) + "\n", encoding="utf-8")
    print(json.dumps(asdict(found), indent=2))
    return 1 if found.broken or not found.before.get("passed") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
