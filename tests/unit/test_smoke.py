"""`pytest -m smoke` runs a part of everything."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import FIXTURE_TESTS, SMOKE_FIXTURES, SMOKE_MODULES
from tests.helpers import ROOT


def test_each_family_of_rules_has_a_fixture() -> None:
    families = {path.parent.name for path in (ROOT / "rules").glob("[!_]*/[!_]*.py")}
    assert SMOKE_FIXTURES.keys() == families
    for family, name in SMOKE_FIXTURES.items():
        assert (ROOT / "rules" / family / f"{name}.py").is_file()
        assert (ROOT / "fixtures" / name).is_dir()


def test_each_part_is_collected() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "smoke"]
    paths = [*sorted(SMOKE_MODULES), FIXTURE_TESTS]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for path in paths:
        assert f"\n{path}::" in f"\n{done.stdout}"
    for name in SMOKE_FIXTURES.values():
        assert f"[{name}]\n" in done.stdout
    assert "deselected" in done.stdout
