"""Installs the wheel and runs it on the example: python .ci/try_wheel.py dist

The wheel goes into an environment of its own, and runs where it sees nothing of the checkout.
Works on every system that Python runs on.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parent.parent / "examples"


def main(directory: str) -> int:
    (wheel,) = Path(directory).resolve().glob("*.whl")
    version = wheel.name.split("-")[1]
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary)
        environment = base / "environment"
        venv.create(environment, with_pip=True)
        python, amplint = (program(environment, name) for name in ("python", "amplint"))
        subprocess.run([python, "-m", "pip", "install", "-q", wheel], check=True)
        shutil.copytree(EXAMPLE, base / "project" / "examples")

        said = run(amplint, "--version", cwd=base, status=0)
        expect(said.strip() == f"amplint {version}", said)
        said = run(amplint, "check", "examples", cwd=base / "project", status=1)
        expect("2 files, 6 findings" in said, said)
    return 0


def program(environment: Path, name: str) -> Path:
    """A program of a virtual environment."""
    windows = os.name == "nt"
    return environment / ("Scripts" if windows else "bin") / f"{name}{'.exe' * windows}"


def run(*command: str | Path, cwd: Path, status: int) -> str:
    """The output of a command that has to end with this status."""
    done = subprocess.run(
        command,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    print(done.stdout)
    expect(done.returncode == status, f"status {done.returncode}, not {status}")
    return done.stdout


def expect(holds: bool, said: str) -> None:
    if not holds:
        sys.exit(f"not as expected: {said}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
