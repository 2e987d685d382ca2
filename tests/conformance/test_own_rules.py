"""A package of rules as somebody else makes it: started, built, installed beside amplint, used."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

PROGRAM = "import torch\n\n\ndef step(x):\n    return torch.my_pattern(x)\n"


class Environment:
    """A virtual environment, which has amplint's dependencies and pytest from the one that runs
    the tests; a package of its own comes before one of the same name there."""

    def __init__(self, directory: Path) -> None:
        venv.create(directory, symlinks=os.name != "nt")
        self.programs = directory / ("Scripts" if os.name == "nt" else "bin")
        site = self.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
        Path(site.strip(), "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def run(self, name: str, *arguments: object, cwd: Path | None = None, status: int = 0) -> str:
        """The output of a program that has to end with this status."""
        done = subprocess.run(
            [self.programs / name, *map(str, arguments)],
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout
        return done.stdout

    def install(self, *arguments: object) -> None:
        pip = [sys.executable, "-m", "pip", "--python", self.programs / "python", "install"]
        subprocess.run([*pip, "-q", "--no-deps", *map(str, arguments)], check=True)


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = Environment(tmp_path_factory.mktemp("environment"))
    made.install(wheel)
    return made


@pytest.fixture(scope="module")
def package(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package as it was started."""
    base = tmp_path_factory.mktemp("packages")
    environment.run("amplint", "new", "--package", "acme-rules", "ACM101", "my-pattern", cwd=base)
    return base / "acme-rules"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path


def test_its_wheel_brings_its_rule(environment: Environment, package: Path, project: Path) -> None:
    missing = environment.run("amplint", "check", "--select", "ACM", cwd=project, status=2)
    assert "there is no rule `ACM`" in missing
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", "dist", "."]
    subprocess.run(build, check=True, cwd=package, capture_output=True)
    (built,) = (package / "dist").iterdir()
    environment.install(built)

    (line,) = [x for x in environment.run("amplint", "rules").splitlines() if "ACM101" in x]
    assert line.endswith("(of acme-rules 0.1.0)")
    assert environment.run("amplint", "explain", "ACM101").startswith("ACM101 my-pattern\n")
    check = ("amplint", "check", "--format", "concise")
    assert "ACM101" not in environment.run(*check, cwd=project)  # pedantic, and so off
    found = environment.run(*check, "--select", "ACM", cwd=project, status=1)
    assert found.startswith("train.py:5:12: ACM101 my-pattern: `torch.my_pattern` is called\n")
    said = environment.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=package)
    assert "10 passed" in said


def test_an_editable_installation_is_never_stale(
    environment: Environment, package: Path, project: Path
) -> None:
    environment.install("-e", package)
    check = ("amplint", "check", "--format", "concise", "--select", "ACM")
    before = environment.run(*check, cwd=project, status=1)
    assert environment.run(*check, cwd=project, status=1) == before
    rule = package / "src" / "acme_rules" / "my_pattern.py"
    rule.write_text(rule.read_text().replace("is called", "is called again"))
    after = environment.run(*check, cwd=project, status=1)
    assert after == before.replace("is called", "is called again")
