"""No command runs code of the repository that it looks at, without having been asked for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

from tests.command import LEGACY
from tests.helpers import ROOT

# Modules that amplint imports from elsewhere, those that it reads about, and those that Python
# imports by itself.
NAMES = (
    "argparse", "ast", "bisect", "click", "conftest", "copy", "dataclasses", "difflib", "encodings",
    "fnmatch", "hashlib", "json", "libcst", "msgspec", "numpy", "pathlib", "pathspec", "pickle",
    "pygls", "re", "rules", "selectors", "setup", "shutil", "sitecustomize", "subprocess",
    "tempfile", "tokenize", "tomllib", "torch", "typing", "usercustomize", "xml",
)  # fmt: skip
TRAP = "import os\nopen(os.environ['RAN'], 'a').write(__name__ + '\\n')\n"
COMMANDS = [
    ("check", "."),
    ("check", "--no-cache", "--statistics", "."),
    ("check", "--select", "ALL", "--format", "html", "."),
    ("check", "--show-settings", "."),
    ("check", "a.py"),
    ("fix", "."),
    ("fix", "--apply", "--unsafe", "."),
    ("baseline", "."),
    ("rules",),
    ("explain", "AMP101"),
    ("clean", "."),
    ("verify",),
    ("server", "--help"),
]


@pytest.fixture
def trapped(repository: Path) -> Path:
    for name in NAMES:
        (repository / f"{name}.py").write_text(TRAP + f"def run():\n{indent(LEGACY, '    ')}")
    info = repository / "evil-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[amplint.rules]\nevil = conftest\n")
    (info / "METADATA").write_text("Name: evil\nVersion: 1.0\n")
    (info / "RECORD").touch()
    (repository / "evil.pth").write_text("import conftest\n")
    return repository


def run(repository: Path, *command: str) -> tuple[int, list[str]]:
    """The status of a command, and the modules of the repository that were run."""
    ran = repository.parent / "ran"
    ran.write_text("")
    environment = {**os.environ, "RAN": str(ran), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=repository, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode, ran.read_text().split()


def test_the_trap_works(trapped: Path) -> None:
    assert run(trapped, sys.executable, "-c", "import click, torch") == (0, ["click", "torch"])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python itself imports runpy from there")
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_python_m_amplint_runs_no_code_of_the_repository(
    trapped: Path, arguments: tuple[str, ...]
) -> None:
    status, ran = run(trapped, sys.executable, "-m", "amplint", *arguments)
    assert not ran
    assert status in (0, 1, 2)


def test_an_installed_script_runs_no_code_of_the_repository(trapped: Path) -> None:
    script = trapped.parent / "bin" / "amplint"
    script.parent.mkdir()
    script.write_text("import sys\nfrom amplint.cli.main import entry\nsys.exit(entry())\n")
    status, ran = run(trapped, sys.executable, str(script), "check", ".")
    assert (status, ran) == (1, [])


def test_a_module_named_amplint_is_run_where_python_finds_it_first(repository: Path) -> None:
    """What cannot be held: `python -m` itself takes the package of the current directory. The
    documentation says so, and what to write instead."""
    (repository / "amplint").mkdir()
    (repository / "amplint" / "__init__.py").write_text(TRAP)
    (repository / "amplint" / "__main__.py").touch()
    assert run(repository, sys.executable, "-m", "amplint", "check") == (0, ["amplint"])
    said = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
    assert "`python -I -m amplint`" in said


def test_the_own_checkout_stays_on_the_path() -> None:
    """`python -m amplint` in a checkout of amplint itself starts processes that import it."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    code = (
        "import sys; sys.argv[:] = ['-m']; sys.path[0] = r'%s'; import amplint; print(sys.path[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code % ROOT], cwd=ROOT, env=environment, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == str(ROOT)
