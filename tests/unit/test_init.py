"""`amplint init`: what it writes, what it leaves alone, and what it only shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from amplint.cli import own_source, recipes
from amplint.cli.first_files import indentation, is_one_table_more
from amplint.cli.recipes import CloneSource
from amplint.project.config import written_in
from amplint.util.toml import loads
from tests.command import Amplint
from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
SOURCE = CloneSource("https://github.com/someone/amplint", "v0.1.0")
FROM = f"--from={SOURCE.address}@{SOURCE.commit}"
FILES = (".github/workflows/amplint.yml", ".pre-commit-config.yaml", "amplint.toml")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, which is also the current directory."""
    git(tmp_path, "init", "-q", "-b", "main")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", Path(os.devnull).open())  # noqa: SIM115
    return tmp_path


def git(directory: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, env=clean)


def there(project: Path) -> dict[str, bytes]:
    files = (file for file in project.rglob("*") if file.is_file() and ".git" not in file.parts)
    return {file.relative_to(project).as_posix(): file.read_bytes() for file in sorted(files)}


# ------------------------------------------------------------------------------ recipes


def test_the_recipes_are_those_of_the_page() -> None:
    shown = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)
    assert shown[:3] == [recipes.GITHUB, recipes.GITLAB, recipes.HOOK]
    other = "".join(f"    {line}\n" for line in recipes.OTHER.splitlines())
    assert f"\n{other}\n" in PAGE


def test_only_the_blanks_are_filled_in() -> None:
    job = recipes.filled(recipes.GITLAB, SOURCE)
    assert "git+https://github.com/someone/amplint@v0.1.0" in job
    assert "$CI_COMMIT_BRANCH" in job
    steps = yaml.safe_load(recipes.github(SOURCE, "main"))["jobs"]["amplint"]["steps"]
    assert steps[-1]["uses"] == "someone/amplint@v0.1.0"


def test_a_tag_that_is_a_number_stays_a_text() -> None:
    hook = yaml.safe_load(recipes.hook(CloneSource(SOURCE.address, "1.0")))
    assert hook["repos"][0]["rev"] == "1.0"


def test_the_settings_can_be_switched_on(tmp_path: Path) -> None:
    file = tmp_path / "amplint.toml"
    keys = recipes.SETTINGS.partition("\n")[2].replace("# ", "", 1).replace("\n# ", "\n")
    file.write_text(keys)
    assert len(written_in(file).values) == keys.count("\n")


# ------------------------------------------------------------------------------ what it does


def test_all_is_written_and_a_second_run_changes_nothing(amplint: Amplint, project: Path) -> None:
    ran = amplint("init", "--yes", FROM)
    assert (ran.status, ran.err) == (0, "")
    written = there(project)
    assert tuple(written) == FILES
    assert amplint("check", "--show-settings").out.startswith("# configuration: amplint.toml\n")
    again = amplint("init", "--yes", FROM)
    assert again.status == 0
    assert again.out.count("nothing to do") == 3
    assert there(project) == written


def test_without_a_terminal_and_yes_nothing_is_written(amplint: Amplint, project: Path) -> None:
    ran = amplint("init", FROM)
    assert ran.status == 1
    assert there(project) == {}
    for name in FILES:
        assert f"would write {name}\n" in ran.out
    assert ran.err == (
        "amplint: nothing was written: there is no terminal to ask on, and no --yes\n"
    )
    amplint("init", "--yes", FROM)
    assert amplint("init", FROM).status == 0, "nothing is left to do"


def test_each_is_asked_for(project: Path) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    os.write(ours, b"y\nn\n\n")  # the default is yes
    command = [sys.executable, "-m", "amplint", "init", FROM]
    done = subprocess.run(
        command,
        stdin=theirs,
        stdout=subprocess.PIPE,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0
    assert done.stdout.count(b"[Y/n]") == 3
    assert set(there(project)) == {"amplint.toml", ".github/workflows/amplint.yml"}


def test_outside_of_a_repository_there_are_settings_alone(
    amplint: Amplint, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path_factory.mktemp("alone")
    monkeypatch.chdir(project)
    ran = amplint("init", "--yes", FROM)
    assert (ran.status, ran.out.count("this is not a git repository")) == (0, 2)
    assert list(there(project)) == ["amplint.toml"]


def test_a_package_has_settings_and_its_repository_the_rest(
    amplint: Amplint, project: Path
) -> None:
    (project / "packages/a").mkdir(parents=True)
    (project / "packages/a/pyproject.toml").write_text("[project]\nname = 'a'\n")
    assert amplint("init", "--yes", FROM, "packages/a").status == 0
    assert set(there(project)) == {
        ".github/workflows/amplint.yml",
        ".pre-commit-config.yaml",
        "packages/a/pyproject.toml",
    }


def test_an_address_that_is_none(amplint: Amplint, project: Path) -> None:
    for address in ("amplint", "https://github.com/a/b@", 'https://x"; rm@v1', "/srv/amplint@v1"):
        assert amplint("init", "--yes", "--from", address).status == 2
    assert there(project) == {}


# ------------------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[project]\nname = 'a'",
        "[project]\r\nname = 'a'\r\n",
        "\ufeff[tool.ruff]\nline-length = 100\n",
        "tool.ruff.line-length = 100\n",
        "[[tool.mypy.overrides]]\nmodule = 'a'\n",
    ],
)
def test_a_table_is_appended(amplint: Amplint, project: Path, text: str) -> None:
    file = project / "pyproject.toml"
    file.write_bytes(text.encode())
    assert amplint("init", "--yes", FROM).status == 0
    now = file.read_bytes()
    assert now.startswith(text.encode())
    assert now.count(b"\r\n") in (0, now.count(b"\n"))
    document = loads(now.decode("utf-8-sig"))
    assert document["tool"].pop("amplint") == {}
    assert {**document, "tool": document["tool"] or None} == {
        "tool": None,
        **loads(text.removeprefix("\ufeff")),
    }
    assert amplint("check").status == 0


def test_where_no_table_fits_the_lines_are_shown(amplint: Amplint, project: Path) -> None:
    text = "tool = { ruff = { line-length = 100 } }\n"
    (project / "pyproject.toml").write_text(text)
    ran = amplint("init", "--yes", FROM)
    assert ran.status == 1
    assert "add this to pyproject.toml by hand" in ran.out
    assert "    [tool.amplint]\n" in ran.out
    assert (project / "pyproject.toml").read_text() == text


@pytest.mark.parametrize("text", ["x = '''\n", "a = 1\na = 2\n", "[tool]\namplint = 1\n"])
def test_what_is_not_one_table_more_is_not_written(text: str) -> None:
    assert not is_one_table_more(text.encode(), f"{text}\n[tool.amplint]\n".encode())


def test_a_file_that_cannot_be_read_is_an_error(amplint: Amplint, project: Path) -> None:
    (project / "pyproject.toml").write_text("[project\n")
    ran = amplint("init", "--yes", FROM)
    assert (ran.status, "is not valid TOML" in ran.err) == (2, True)
    assert list(there(project)) == ["pyproject.toml"]


@pytest.mark.parametrize("name", ["amplint.toml", ".amplint.toml", "pyproject.toml"])
def test_settings_that_are_there_stay(amplint: Amplint, project: Path, name: str) -> None:
    text = "[tool.amplint]\n" if name == "pyproject.toml" else "preview = true\n"
    (project / name).write_text(text)
    assert f"nothing to do: {name} has them\n" in amplint("init", "--yes", FROM).out
    assert (project / name).read_text() == text


# ------------------------------------------------------------------------------ pre-commit

USUAL = "repos:\n  - repo: https://x/ruff\n    rev: v1\n    hooks:\n      - id: ruff\n"
CONFIGURATIONS = {
    "usual": USUAL,
    "flush": re.sub("(?m)^  ", "", USUAL),
    "no end": USUAL.removesuffix("\n"),
    "windows": USUAL.replace("\n", "\r\n"),
    "keys before": f"default_stages: [pre-commit]\n# all\n{USUAL}",
    "a document": f"---\n{USUAL}",
    "a block": f"{USUAL}  - repo: local\n    hooks:\n      - args: |\n          - repo:\n",
    "comments": f"{USUAL}\n# end\n  # - repo: old\n",
}


@pytest.mark.parametrize("text", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_the_hook_becomes_the_last_one(amplint: Amplint, project: Path, text: str) -> None:
    file = project / ".pre-commit-config.yaml"
    file.write_bytes(text.encode())
    assert amplint("init", "--yes", FROM).status == 0
    assert file.read_bytes().startswith(text.encode())
    before, after = yaml.safe_load(text), yaml.safe_load(file.read_bytes())
    (own,) = yaml.safe_load(recipes.hook(SOURCE))["repos"]
    assert after == {**before, "repos": [*before["repos"], own]}


OTHERWISE = {
    "keys after": f"{USUAL}fail_fast: true\n",
    "in a line": "repos: [{repo: local, hooks: []}]\n",
    "no list": "repos:\n",
    "none": "fail_fast: true\n",
    "empty": "",
    "two documents": f"{USUAL}---\n{USUAL}",
    "a tab": USUAL.replace("    rev", "\t    rev"),
    "another order": "repos:\n  - rev: v1\n    repo: https://x/ruff\n    hooks: []\n",
    "an end": f"{USUAL}...\n",
}


@pytest.mark.parametrize("text", OTHERWISE.values(), ids=OTHERWISE)
def test_where_the_list_cannot_be_seen_the_lines_are_shown(
    amplint: Amplint, project: Path, text: str
) -> None:
    file = project / ".pre-commit-config.yaml"
    file.write_text(text)
    assert indentation(text.encode()) is None
    ran = amplint("init", "--yes", FROM)
    assert ran.status == 1
    assert "add this to .pre-commit-config.yaml by hand" in ran.out
    assert "      - repo: https://github.com/someone/amplint\n" in ran.out
    assert file.read_text() == text


def test_pre_commit_reads_what_is_written(amplint: Amplint, project: Path) -> None:
    pytest.importorskip("pre_commit")
    for text in (None, USUAL):
        file = project / ".pre-commit-config.yaml"
        if text is not None:
            file.write_text(text)
        assert amplint("init", "--yes", FROM).status == 0
        command = [sys.executable, "-m", "pre_commit", "validate-config", str(file)]
        environment = {**os.environ, "PRE_COMMIT_HOME": str(project / "home")}
        done = subprocess.run(command, check=False, capture_output=True, env=environment)
        assert done.returncode == 0, done.stdout


def test_a_hook_that_is_there_stays(amplint: Amplint, project: Path) -> None:
    file = project / ".pre-commit-config.yaml"
    file.write_text(f"{USUAL}      - id: amplint\n")
    before = there(project)
    assert "nothing to do: .pre-commit-config.yaml has it\n" in amplint("init", FROM).out
    assert there(project) == before


# ------------------------------------------------------------------------------ CI


def test_a_pipeline_of_gitlab_is_shown_its_job(amplint: Amplint, project: Path) -> None:
    (project / ".gitlab-ci.yml").write_text("stages: [build]\n")
    ran = amplint("init", "--yes", FROM)
    assert ran.status == 1
    assert "add this to .gitlab-ci.yml by hand" in ran.out
    assert (project / ".gitlab-ci.yml").read_text() == "stages: [build]\n"
    assert not (project / ".github").exists()


def test_a_project_that_comes_from_gitlab_gets_a_pipeline(amplint: Amplint, project: Path) -> None:
    git(project, "remote", "add", "origin", "git@gitlab.com:someone/project.git")
    assert amplint("init", "--yes", FROM).status == 0
    assert list(yaml.safe_load((project / ".gitlab-ci.yml").read_text())) == ["amplint"]


@pytest.mark.parametrize("name", [".github/workflows/lint.yaml", ".gitlab-ci.yml"])
def test_a_check_that_is_there_stays(amplint: Amplint, project: Path, name: str) -> None:
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text("run: amplint check .\n")
    assert f"nothing to do: {name} has it\n" in amplint("init", "--yes", FROM).out
    assert "amplint.yml" not in "".join(there(project))


def test_the_branch_is_that_of_the_project(amplint: Amplint, project: Path) -> None:
    (project / "a.py").touch()
    git(project, "checkout", "-q", "-b", "master")
    git(project, "add", "--all")
    git(project, "commit", "-q", "-m", "all")
    amplint("init", "--yes", FROM)
    workflow = yaml.safe_load((project / ".github/workflows/amplint.yml").read_text())
    assert workflow[True]["push"]["branches"] == ["master"]  # YAML 1.1 takes `on` for true


def test_an_amplint_that_is_elsewhere_has_no_action(amplint: Amplint, project: Path) -> None:
    ran = amplint("init", "--yes", "--from", "https://git.example.org/amplint.git@v0.1.0")
    assert ran.status == 1
    assert 'pip install "amplint @ git+https://git.example.org/amplint.git@v0.1.0"' in ran.out
    assert set(there(project)) == {".pre-commit-config.yaml", "amplint.toml"}


def test_no_name_of_a_file_is_obeyed_by_a_terminal(amplint: Amplint, project: Path) -> None:
    (project / ".github/workflows").mkdir(parents=True)
    (project / ".github/workflows/a\x1b[31m\n::error::.yml").write_text("run: amplint check\n")
    out = amplint("init", FROM).out
    assert ".github/workflows/a\ufffd[31m\ufffd::error::.yml has it\n" in out


# ------------------------------------------------------------------------------ its source


def test_without_a_known_source_nothing_half_right_is_written(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_source, "find", lambda: None)
    ran = amplint("init", "--yes")
    assert ran.status == 1
    assert ran.out.count("fill in ADDRESS and COMMIT") == 2
    assert list(there(project)) == ["amplint.toml"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (None, None),
        ("{", None),
        ('{"url": "https://x/amplint-0.1.0.whl", "archive_info": {}}', None),
        (
            '{"url": "https://token:x@github.com/a/amplint", "vcs_info": {"vcs": "git", '
            '"commit_id": "0123abc"}}',
            CloneSource("https://github.com/a/amplint", "0123abc"),
        ),
        ('{"url": "https://x/`a`", "vcs_info": {"vcs": "git", "commit_id": "0123abc"}}', None),
    ],
)
def test_what_pip_has_written_down(
    monkeypatch: pytest.MonkeyPatch, written: str | None, expected: CloneSource | None
) -> None:
    class Installed:
        def read_text(self, _: str) -> str | None:
            return written

    monkeypatch.setattr(own_source, "distribution", lambda _: Installed())
    assert own_source.find() == expected


def test_a_checkout_is_known_by_git(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (project / "a.py").touch()
    git(project, "add", "--all")
    git(project, "commit", "-q", "-m", "all")
    clone = tmp_path_factory.mktemp("clones") / "amplint"
    git(project, "clone", "-q", str(project), str(clone))
    assert own_source.of_checkout(clone) is None, "nobody else could clone a directory"
    git(clone, "remote", "set-url", "origin", "git@github.com:a/amplint.git")
    found = own_source.of_checkout(clone)
    assert found is not None
    assert (found.address, found.on_github) == ("ssh://git@github.com/a/amplint.git", "a/amplint")
    git(clone, "commit", "-q", "--allow-empty", "-m", "of nobody else")
    assert own_source.of_checkout(clone) is None
    (clone / "below").mkdir()
    assert own_source.of_checkout(clone / "below") is None


# ------------------------------------------------------------------------------ what is in the way


@pytest.mark.parametrize("name", [".github", ".github/workflows/amplint.yml", "amplint.toml"])
def test_nothing_is_written_through_a_link_out_of_the_project(
    amplint: Amplint, project: Path, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).symlink_to(outside if name == ".github" else outside / "new")
    amplint("init", "--yes", FROM)
    assert there(outside) == {}


def test_what_cannot_be_written_is_2(amplint: Amplint, project: Path) -> None:
    (project / ".github").write_text("no directory")
    ran = amplint("init", "--yes", FROM)
    assert ran.status == 2
    assert ".github/workflows/amplint.yml: cannot be written" in ran.err
    assert (project / "amplint.toml").is_file(), "the others are written"
