"""What is installed: the wheel holds the rules, the types and the licence, and works by itself."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DIFFS = sorted((ROOT / "fixtures").glob("*/fix.diff"))


def modules(folder: str, package: str) -> set[str]:
    base = ROOT / folder
    return {
        f"{package}/{file.relative_to(base).as_posix()}"
        for file in base.rglob("*.py")
        if "__pycache__" not in file.parts
    }


def test_the_wheel_holds_every_module_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == (
        modules("amplint", "amplint")
        | modules("amplint_verify", "amplint_verify")
        | modules("rules", "amplint/rules")
        | modules("fixtures", "amplint/fixtures")
        | {f"amplint/fixtures/{file.parent.name}/{file.name}" for file in DIFFS}
        | {"amplint/py.typed"}
        | {
            f"amplint/frameworks/{file.name}"
            for file in (ROOT / "amplint/frameworks").glob("*.toml")
        }
        | {f"amplint/output/{name}" for name in ("page.css", "report.css", "report.js")}
        | {f"amplint/programs/{name}/train.py" for name in ("cifar", "gan", "lm")}
        | {
            f"{folder}/{file.name}"
            for folder in ("amplint/project", "amplint_verify/backends")
            for file in (ROOT / folder).glob("*.json")
        }
    )


def test_the_wheel_holds_the_licence_and_says_what_it_needs(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    info = next(name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name)
    assert f"{info}/licenses/LICENSE" in archive.namelist()
    metadata = archive.read(f"{info}/METADATA").decode()
    needed = [
        line.removeprefix("Requires-Dist: ")
        for line in metadata.splitlines()
        if line.startswith("Requires-Dist: ") and "extra ==" not in line
    ]
    assert sorted(name.split(">")[0] for name in needed) == [
        "click",
        "libcst",
        "msgspec",
        "pathspec",
        "tomli",
    ]
    assert "License-Expression: MIT" in metadata


def test_the_wheel_works_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    (tmp_path / "a.py").write_text("import torch\nscaler = torch.cuda.amp.GradScaler()\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r});"
        "import amplint.rules, torchless;"
        "from amplint.cli.main import main; assert amplint.__file__.startswith(sys.path[0]);"
        "sys.exit(main(['check', '--format', 'concise', 'a.py']))"
    )
    # Neither the checkout nor torch may be needed: importing torch raises here.
    (tmp_path / "torchless.py").write_text("import sys\nsys.modules['torch'] = None\n")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("a.py:2:10: AMP702")


def test_the_wheel_explains_a_rule_with_its_fix(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    done = subprocess.run(
        [sys.executable, "-m", "amplint", "explain", "AMP702"],
        cwd=tmp_path / "site",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        (ROOT / "docs" / "rules" / "AMP702.md").read_text().endswith(done.stdout.partition("\n")[2])
    )
    assert "\nA fix as a diff: " in done.stdout


def test_the_fixtures_of_the_wheel_are_verified_away_from_the_checkout(
    wheel: Path, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r});"
        "from amplint.cli.main import main; from amplint.rule.fixtures import fixtures;"
        "assert str(fixtures()).startswith(sys.path[0]);"
        "sys.exit(main(['verify', '--rules', 'AMP201', '--backend', 'cpu', '--backend', 'policy']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[1:] == []  # what it says before it runs anything, and no more
    assert done.stdout.splitlines()[-1].endswith("verified")


@pytest.mark.parametrize("words", [["verify", "--rules"], ["observe", "--entry", "a:b"]])
def test_without_torch_it_is_said_in_one_line_what_to_install(
    words: list[str], wheel: Path, tmp_path: Path
) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); sys.modules['torch'] = None;"
        f"from amplint.cli.main import main; sys.exit(main({words!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    said = f"amplint: error: {words[0]} needs torch: pip install torch numpy\n"
    assert done.stderr == said


def test_the_version_is_the_same_everywhere(wheel: Path) -> None:
    from amplint import __version__  # noqa: PLC0415

    assert wheel.name == f"amplint-{__version__}-py3-none-any.whl"
    assert f"## {__version__} (" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
