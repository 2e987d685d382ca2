"""The wheel of amplint, which several tests install."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a clean copy: a stale `build/` in the checkout must not be able to add to it."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("amplint", "amplint_verify", "rules", "fixtures", "benchmarks/verify_programs"):
        for file in (ROOT / name).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                target = copy / file.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (copy / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", "out", "."],
        check=True,
        cwd=copy,
        capture_output=True,
    )
    (built,) = (copy / "out").iterdir()
    return built
