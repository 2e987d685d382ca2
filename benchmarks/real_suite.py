"""Run the tests of real packages before and after `amplint fix --apply`, with and without --unsafe.

    python -m benchmarks.real_suite [PACKAGE...] [--cache DIR] [--json FILE]

**This runs downloaded code**, the tests of packages, with your rights. Their hashes are pinned. It
needs torch, NumPy, SciPy, pytest and coverage, and of each package what `needs` in its row of
`SUITES` names; it installs nothing. No test and no CI job starts it.

A package is copied for each mode of `MODES`, all of it is fixed, and the same tests run as did
before the fixes. A mode that leaves the same text as the one before it adds no row. Coverage counts
which of the changed lines the tests execute: a line that none of them reaches proves nothing.
Exits with 1 where a test that passed does not pass any more, or amplint fails.
"""

from __future__ import annotations

import ast
import difflib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.packages import RESULTS, Package, arguments, fetch

ROOT = Path(__file__).resolve().parent.parent
RESULT = RESULTS / "real_suite.json"
ADDRESS = "https://files.pythonhosted.org/packages"
MODES: Mapping[str, tuple[str, ...]] = {
    "safe": (),
    "unsafe": ("--unsafe",),
    "unsafe, all rules": ("--unsafe", "--select", "ALL"),
}


@dataclass(frozen=True)
class Suite:
    """A package and those of its tests that reach what amplint changes there.

    Args:
        tests: the arguments for pytest.
        needs: the distributions that the tests import, beside torch, NumPy, SciPy and pytest.
    """

    package: Package
    tests: tuple[str, ...]
    needs: tuple[str, ...] = ()


def archive(name: str, release: str, roots: Sequence[str], sha256: str, path: str) -> Package:
    """A package whose source archive lies at a path of the index's files."""
    return Package(name, release, tuple(roots), sha256, f"{ADDRESS}/{path}")


SUITES = (
    Suite(
        archive(
            "pytorch_optimizer",
            "4.1.0",
            ("pytorch_optimizer", "tests"),
            "76c994e94c0b2d0802976c14804a9de09d7055cd3b05db56a86d3295eced435f",
            "d1/43/fb3782b8200d66d2fcdae1d87b2f46f38a3e7b7f066350b7c0e3354e39ad/"
            "pytorch_optimizer-4.1.0.tar.gz",
        ),
        (
            "tests/optimizers/test_kron.py",
            "tests/test_loss_functions.py",
            "tests/utils/test_matrix.py",
            "tests/optimizers/test_sm3.py",
            "-k",
            "not dtensor",  # waits 45 seconds for a process, by the clock
        ),
    ),
    Suite(
        archive(
            "torch-optimizer",
            "0.3.0",
            ("torch_optimizer", "tests"),
            "b2180629df9d6cd7a2aeabe71fa4a872bba938e8e275965092568cd9931b924c",
            "18/13/c4c0a206131e978d8ceaa095ad1e3153d7daf48efad207b6057efe3491a2/"
            "torch-optimizer-0.3.0.tar.gz",
        ),
        (
            "tests/test_basic.py",
            "tests/test_optimizer_with_nn.py",
            "-k",
            "Adafactor or NovoGrad or SWATS or Shampoo",
        ),
        ("pytorch-ranger",),
    ),
    Suite(
        archive(
            "nflows",
            "0.14",
            ("nflows", "tests"),
            "6299844a62f9999fcdf2d95cb2d01c091a50136bd17826e303aba646b2d11b55",
            "bd/16/a484db41aab28332f42080435c9342fa87cfc9a4fce5495521ea1e80ca27/nflows-0.14.tar.gz",
        ),
        ("tests/transforms/reshape_test.py",),
        ("torchtestcase",),
    ),
    Suite(
        archive(
            "skorch",
            "1.4.0",
            ("skorch",),
            "f7a5d3c13a3aecf0a0fe689ff25188be1145a95268f8fe81f01aaa9fbd7cead1",
            "c1/c4/395ce13f1f22ff7feebb9be69e1f86b656500fe22d80f37542196d5fa00c/"
            "skorch-1.4.0.tar.gz",
        ),
        (
            "skorch/tests/test_utils.py",
            "skorch/tests/test_dataset.py",
            "skorch/tests/test_hf.py::TestAccelerate",
        ),
        ("scikit-learn", "tabulate", "tqdm", "accelerate", "tokenizers"),
    ),
    Suite(
        archive(
            "linear_operator",
            "0.6.1",
            ("linear_operator", "test"),
            "3fba49a8080d16f822a5d870f462279cd6afbcf4ed670f4511b38fad96f61831",
            "02/1a/0d6d0269cf7327e31a2fe80b274d5bf5001dc4462acbef26240da6ac5dfe/"
            "linear_operator-0.6.1.tar.gz",
        ),
        (
            "test/operators/test_interpolated_linear_operator.py",
            "test/utils/test_lanczos.py",
            "test/utils/test_cholesky.py",
            "-k",
            "lanczos or cholesky or test_matmul or test_diagonal or test_to_double",
        ),
        ("jaxtyping", "mpmath"),
    ),
    Suite(
        archive(
            "opacus",
            "1.6.0",
            ("opacus",),
            "20d77252c1e8528cd5826fbaba345cd39ed5c3edb841707eafb6403fe276140a",
            "31/39/a92b485f5a9c65bdd18c574d24c3b17800e39f02d66e665ab9bfbde77c52/"
            "opacus-1.6.0.tar.gz",
        ),
        (
            "opacus/tests/grad_samples/embedding_bag_test.py",
            "opacus/tests/grad_samples/embedding_norm_sample_test.py",
        ),
        ("hypothesis", "opt-einsum"),
    ),
    Suite(
        archive(
            "stable_baselines3",
            "2.9.2",
            ("stable_baselines3", "tests"),
            "8af267e9513343f481b3f0680b7740ad79a746873db24f18a9fb2edcbd9a2df7",
            "ab/86/fb86bf20bc2321d14a5a40221119043186efaebe2490e1038d17e4a4783e/"
            "stable_baselines3-2.9.2.tar.gz",
        ),
        ("tests/test_distributions.py",),
        ("gymnasium", "pandas", "cloudpickle"),
    ),
    Suite(
        archive(
            "pytorch_ignite",
            "0.5.5",
            ("ignite", "tests"),
            "2c14de75c939a3cc06d2e7de00b1e0a261917ef9bd874dac2e69d789dfa9cc64",
            "55/9c/b0123b099d5be1f738fc77c0978e5e0317d0e0131259049aba480e7daa54/"
            "pytorch_ignite-0.5.5.tar.gz",
        ),
        (
            "tests/ignite/metrics",
            "-k",
            "gloo or local_world_size_one",  # processes by gloo need no GPU
            # What wants packages beside those below.
            *(
                f"--ignore-glob=*{name}*"
                for name in "fairness gan bleu rouge ndcg dill psnr ssim vision".split()
            ),
        ),
        ("scikit-learn",),
    ),
)


@dataclass(frozen=True)
class Tests:
    """What each test did: "passed", "skipped", "failed" or "error"."""

    tests: dict[str, str]

    @property
    def counts(self) -> dict[str, int]:
        return dict(sorted(Counter(self.tests.values()).items()))

    def broken(self, after: Tests) -> list[str]:
        """The tests that passed here and did not pass there."""
        return sorted(
            name
            for name, what in self.tests.items()
            if what == "passed" and after.tests.get(name) != "passed"
        )


@dataclass(frozen=True)
class Row:
    """What the fixes of one mode did to the tests of a package.

    Args:
        fixes: how many fixes of each rule there were.
        before: how many tests passed, failed and so on.
        changed_lines: how many lines of code are new.
        executed_lines: how many of them belong to a statement that the tests executed.
        broken: the tests that passed before, and not after.
    """

    package: str
    version: str
    mode: str
    fixes: dict[str, int]
    before: dict[str, int]
    after: dict[str, int]
    changed_lines: int
    executed_lines: int
    broken: list[str]


def run_tests(tree: Path, tests: Sequence[str], covered: Sequence[str] = ()) -> Tests:
    """Run tests of a tree, and count the lines of some of its files that they execute."""
    report = tree / "junit.xml"
    words = ["pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *tests]
    if covered:
        words = ["coverage", "run", f"--include={','.join(covered)}", "-m", *words]
    run([sys.executable, "-m", *words], tree, tree)
    if not report.is_file():
        return Tests({})
    cases = ElementTree.parse(report).iter("testcase")
    return Tests({f"{case.get('classname')}::{case.get('name')}": outcome(case) for case in cases})


def outcome(case: ElementTree.Element) -> str:
    words = {"failure": "failed", "error": "error", "skipped": "skipped"}
    return next((words[child.tag] for child in case if child.tag in words), "passed")


def fix(tree: Path, mode: str) -> dict[str, int]:
    """Apply the fixes of a mode to a tree; how many of each rule there were."""
    words = MODES[mode]
    select = [word for word in words if word != "--unsafe"]
    checked = amplint(tree, ["check", *select, "--format", "json"])
    allowed = {"safe", "unsafe"} if "--unsafe" in words else {"safe"}
    findings = json.loads(checked.stdout)
    fixes = (each["code"] for each in findings if (each["fix"] or {}).get("safety") in allowed)
    amplint(tree, ["fix", "--apply", *words])
    return dict(sorted(Counter(fixes).items()))


def amplint(tree: Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    done = run([sys.executable, "-m", "amplint", *words, "."], tree, ROOT)
    if done.returncode not in (0, 1):
        sys.exit(f"amplint {words[0]} ended with {done.returncode}\n{done.stderr}")
    return done


def run(command: Sequence[str], tree: Path, imported: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a tree, with the packages of a directory."""
    environment = {**os.environ, "PYTHONPATH": str(imported), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, encoding="utf-8", check=False
    )


def texts(tree: Path) -> dict[str, str]:
    """The code of a tree, by path."""
    return {
        str(path.relative_to(tree)): path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(tree.rglob("*.py"))
    }


def new_lines(before: str, after: str) -> Iterator[int]:
    """The numbers of the lines that are new, from 1."""
    old, new = before.splitlines(), after.splitlines()
    for kind, _, _, start, end in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if kind != "equal":
            yield from (row + 1 for row in range(start, end))


def statements(text: str) -> dict[int, range]:
    """The rows of the innermost statement, of its head if it holds others, at each row."""
    found: dict[int, range] = {}
    for node in ast.walk(ast.parse(text)):  # those that lie within come after those around them
        if isinstance(node, ast.stmt):
            decorators = getattr(node, "decorator_list", [])
            start = min(each.lineno for each in [*decorators, node])
            body = getattr(node, "body", None)
            end = body[0].lineno if body else (node.end_lineno or node.lineno) + 1
            rows = range(start, max(end, start + 1))
            found.update(dict.fromkeys(rows, rows))
    return found


def reached(tree: Path, before: Mapping[str, str], after: Mapping[str, str]) -> tuple[int, int]:
    """How many lines of code are new, and how many of them coverage has seen executed."""
    run([sys.executable, "-m", "coverage", "json", "-q"], tree, tree)
    report = tree / "coverage.json"
    files = json.loads(report.read_text(encoding="utf-8"))["files"] if report.is_file() else {}
    changed = executed = 0
    for path in after:
        rows = statements(after[path])
        ran = set(files.get(path, {}).get("executed_lines", ()))
        for row in new_lines(before[path], after[path]):
            if row in rows:
                changed += 1
                executed += not ran.isdisjoint(rows[row])
    return changed, executed


def compare(suite: Suite, cache: Path) -> Iterator[Row]:
    package = suite.package
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory) / "before"
        shutil.copytree(fetch(package, cache), tree)
        code = last = texts(tree)
        amplint(tree, ["check"])  # what it keeps is of use for all modes
        before = run_tests(tree, suite.tests)
        for mode in MODES:
            fixed = Path(directory) / mode
            shutil.copytree(tree, fixed)
            fixes = fix(fixed, mode)
            new = texts(fixed)
            if new == last:
                continue
            last = new
            changed = {path: text for path, text in new.items() if text != code[path]}
            after = run_tests(fixed, suite.tests, sorted(changed))
            lines = reached(fixed, code, changed)
            yield Row(
                package.name,
                package.version,
                mode,
                fixes,
                before.counts,
                after.counts,
                *lines,
                before.broken(after),
            )


def main(words: Sequence[str]) -> int:
    parser = arguments(__doc__)
    parser.add_argument("--json", type=Path, default=RESULT, help="where to write the result")
    asked = parser.parse_args(words)
    chosen = [
        each for each in SUITES if each.package.name in (asked.packages or [each.package.name])
    ]
    kept: list[dict[str, object]] = []
    if asked.packages and asked.json.is_file():  # the other packages keep their rows
        rows = json.loads(asked.json.read_text(encoding="utf-8"))["rows"]
        kept = [row for row in rows if row["package"] not in asked.packages]
    good = bool(chosen)
    for suite in chosen:
        for row in compare(suite, asked.cache):
            print(json.dumps(asdict(row)), flush=True)
            good &= not row.broken and bool(row.before.get("passed"))
            kept.append(asdict(row))
    names = [each.package.name for each in SUITES]
    kept.sort(key=lambda row: names.index(str(row["package"])))
    result = {"torch": version("torch"), "python": platform.python_version(), "rows": kept}
    asked.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
