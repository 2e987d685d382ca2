"""Findings that have to do with what changed since a revision, and repositories that mean harm."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.project import git
from amplint.util.positions import Position, Span
from tests.command import Amplint, Ran

SCALER = "s = torch.cuda.amp.GradScaler()\n"
LIBRARY = "import torch\n\n\ndef log(loss):\n    value = loss.item()\n    print(value)\n"
TRAIN = """import torch
from lib import log


def train(model, loader, optimizer):
    for batch in loader:
        loss = model(batch.cuda()).mean()
        loss.backward()
        optimizer.step()


s = torch.cuda.amp.GradScaler()
"""
CALLS = TRAIN.replace("optimizer.step()\n", "optimizer.step()\n        log(loss)\n")


class Repository:
    """A repository whose one commit holds what was there."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self("init", "-q", "-b", "main")
        self("config", "user.name", "A")
        self("config", "user.email", "a@example.com")

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.top, check=True, capture_output=True, text=True
        )
        return done.stdout

    def commit(self) -> None:
        self("add", "-A")
        self("commit", "-q", "-m", "x", "--no-verify")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".gitignore").write_text(".amplint_cache\n")
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "lib.py").write_text(LIBRARY)
    (tmp_path / "train.py").write_text(TRAIN)
    repository = Repository(tmp_path)
    repository.commit()
    return repository


def reported(ran: Ran) -> list[str]:
    """File and code of each finding in the text report."""
    places = [line.split(" ")[:2] for line in ran.out.splitlines() if " AMP" in line]
    return [f"{place.split(':')[0]} {code}" for place, code in places]


# ------------------------------------------------------------------------------ what is reported


@pytest.mark.usefixtures("repository")
def test_nothing_has_changed(amplint: Amplint) -> None:
    ran = amplint("check", "--new-since", "HEAD")
    assert ran.status == 0
    assert ran.out == "2 files, no new findings; 1 finding on lines unchanged since HEAD left out\n"


def test_a_changed_caller_shows_the_finding_that_it_causes(
    amplint: Amplint, repository: Repository
) -> None:
    (repository.top / "train.py").write_text(CALLS)
    assert reported(amplint("check", "--new-since", "HEAD")) == ["lib.py AMP101"]
    repository.commit()
    assert reported(amplint("check", "--new-since", "HEAD")) == []
    assert reported(amplint("check", "--new-since", "HEAD~1")) == ["lib.py AMP101"]
    assert reported(amplint("check", "lib.py", "--new-since", "HEAD~1")) == ["lib.py AMP101"]


def test_changed_staged_and_untracked_lines_are_new(
    amplint: Amplint, repository: Repository
) -> None:
    (repository.top / "train.py").write_text(f"{TRAIN}{SCALER}")
    (repository.top / "staged.py").write_text(f"import torch\n{SCALER}")
    repository("add", "staged.py")
    (repository.top / "untracked.py").write_text(f"import torch\n{SCALER}")
    ran = amplint("check", "--new-since", "HEAD")
    assert reported(ran) == ["staged.py AMP702", "train.py AMP702", "untracked.py AMP702"]


def test_renames_are_followed(amplint: Amplint, repository: Repository) -> None:
    name = 'ü "b"\t\\.py '
    repository("mv", "train.py", f"{name}.py")
    assert amplint("check", "--new-since", "HEAD").status == 0
    repository.commit()
    (repository.top / f"{name}.py").write_text(f"x = 1\n{TRAIN}{SCALER}")
    ran = amplint("check", "--new-since", "HEAD~1", "--format", "concise")
    assert [line.split(":")[1:3] for line in ran.out.splitlines()] == [["14", "5"]]


def test_lines_next_to_deleted_ones_have_changed(amplint: Amplint, repository: Repository) -> None:
    text = """import torch


def train(model, loader, optimizer, scaler):
    for x in loader:
        scaler.scale(model(x).mean()).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


train(torch.nn.Linear(1, 1), [], torch.optim.SGD([]), torch.amp.GradScaler("cuda"))
"""
    (repository.top / "clip.py").write_text(text)
    repository.commit()
    assert reported(amplint("check", "clip.py")) == []
    (repository.top / "clip.py").write_text(
        text.replace("        scaler.unscale_(optimizer)\n", "")
    )
    assert "clip.py AMP404" in reported(amplint("check", "clip.py", "--new-since", "HEAD"))


def test_what_others_have_done_meanwhile_is_not_ours(
    amplint: Amplint, repository: Repository
) -> None:
    repository("checkout", "-q", "-b", "ours")
    (repository.top / "ours.py").write_text(f"import torch\n{SCALER}")
    repository.commit()
    repository("checkout", "-q", "main")
    (repository.top / "train.py").write_text(TRAIN.replace("\ns =", "\nscaler ="))
    repository.commit()
    repository("checkout", "-q", "ours")
    assert reported(amplint("check", "--new-since", "main")) == ["ours.py AMP702"]


def test_a_file_that_does_not_parse_is_reported_always(
    amplint: Amplint, repository: Repository
) -> None:
    (repository.top / "bad.py").write_text("x = (\n")
    repository.commit()
    assert reported(amplint("check", "--new-since", "HEAD")) == ["bad.py AMP000"]


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_other_line_ends(amplint: Amplint, repository: Repository, end: str) -> None:
    file = repository.top / "ends.py"
    text = f"import torch\nx = 1\n{SCALER}"
    file.write_bytes(text.replace("\n", end).encode())
    repository.commit()
    assert reported(amplint("check", "ends.py", "--new-since", "HEAD")) == []
    file.write_bytes(f"{text}{SCALER}".replace("\n", end).encode())
    out = amplint("check", "ends.py", "--new-since", "HEAD").out
    assert f"{1 if end == chr(13) + chr(10) else 2} finding" in out, (
        "to git, a file of \\r alone is one line"
    )


def test_a_file_that_its_attributes_call_binary_is_looked_at(
    amplint: Amplint, repository: Repository
) -> None:
    (repository.top / ".gitattributes").write_text("*.py binary\n")
    repository.commit()
    (repository.top / "train.py").write_text(f"{TRAIN}{SCALER}")
    ran = amplint("check", "train.py", "--new-since", "HEAD")
    assert ran.out.endswith("; 1 finding on lines unchanged since HEAD left out\n")
    assert reported(ran) == ["train.py AMP702"]


def test_files_and_directories_behind_links_are_found(
    amplint: Amplint, repository: Repository, tmp_path_factory: pytest.TempPathFactory
) -> None:
    link = tmp_path_factory.mktemp("links") / "link"
    link.symlink_to(repository.top, target_is_directory=True)
    (repository.top / "train.py").write_text(f"{TRAIN}{SCALER}")
    assert len(reported(amplint("check", str(link), "--new-since", "HEAD"))) == 1


def test_inside_of_a_hook(
    amplint: Amplint, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = repository.top / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").touch()
    (inner / "a.py").write_text(f"import torch\n{SCALER}")
    monkeypatch.setenv("GIT_DIR", ".git")  # as git sets it, for the top
    assert reported(amplint("check", "inner", "--new-since", "HEAD")) == ["inner/a.py AMP702"]


# ------------------------------------------------------------------------------ caused elsewhere

READS = CALLS.replace("        log(loss)\n", "        print(float(log(loss)))\n")
OF_HOOK = ("check", "--force-exclude", "--caused-since", "HEAD")


@pytest.fixture
def caused(repository: Repository) -> Repository:
    """A commit of lib.py alone would make a finding in train.py."""
    (repository.top / "lib.py").write_text("def log(loss):\n    return 1.0\n")
    (repository.top / "train.py").write_text(READS)
    repository.commit()
    (repository.top / "lib.py").write_text("def log(loss):\n    return loss\n")
    return repository


@pytest.mark.usefixtures("caused")
@pytest.mark.parametrize("command", [OF_HOOK, ("check", "--new-since", "HEAD")])
def test_what_a_change_causes_elsewhere_is_reported(
    amplint: Amplint, command: tuple[str, ...]
) -> None:
    assert reported(amplint("check", "lib.py")) == []
    for _ in range(2):  # the second one finds all in the cache
        ran = amplint(*command, "lib.py")
        assert reported(ran) == ["train.py AMP101"], "not AMP702, which is older"
        assert "2 files, 1 finding" in ran.out


def test_what_was_there_before_is_not_caused(amplint: Amplint, repository: Repository) -> None:
    (repository.top / "lib.py").write_text("def log(loss):\n    return loss\n")
    (repository.top / "train.py").write_text(READS)
    repository.commit()
    (repository.top / "lib.py").write_text("def log(loss):\n    loss = loss * 1\n    return loss\n")
    ran = amplint(*OF_HOOK, "lib.py")
    assert (ran.status, reported(ran)) == (0, [])


def test_a_new_file_causes_what_it_brings_up(amplint: Amplint, repository: Repository) -> None:
    (repository.top / "train.py").write_text(READS)
    (repository.top / "lib.py").unlink()
    repository.commit()
    assert reported(amplint("check", "train.py")) == ["train.py AMP702"]
    (repository.top / "lib.py").write_text("def log(loss):\n    return loss\n")
    assert reported(amplint(*OF_HOOK, "lib.py")) == ["train.py AMP101"]


@pytest.mark.usefixtures("caused")
def test_all_findings_of_the_named_files_count_for_the_hook(amplint: Amplint) -> None:
    assert reported(amplint(*OF_HOOK, "train.py")) == ["train.py AMP101", "train.py AMP702"]
    assert reported(amplint(*OF_HOOK, "train.py", "lib.py")) == [
        "train.py AMP101",
        "train.py AMP702",
    ]


def test_a_baseline_and_exclude_hold_elsewhere(amplint: Amplint, caused: Repository) -> None:
    settings = caused.top / "pyproject.toml"
    settings.write_text('[tool.amplint]\nexclude = ["train.py"]\n')
    assert reported(amplint(*OF_HOOK, "lib.py")) == []
    settings.write_text("")
    assert amplint("baseline").status == 0
    assert reported(amplint(*OF_HOOK, "lib.py")) == []


def test_before_the_first_commit_nothing_is_caused(amplint: Amplint, caused: Repository) -> None:
    caused("update-ref", "-d", "HEAD")
    assert amplint(*OF_HOOK, "lib.py").status == 0


@pytest.mark.usefixtures("caused")
def test_the_two_revisions_cannot_be_combined(amplint: Amplint) -> None:
    ran = amplint(*OF_HOOK, "--new-since", "HEAD", "lib.py")
    assert (ran.status, ran.out) == (2, "")


# ------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("revision", "sentence"),
    [
        ("nope", "git knows no commit 'nope'\n"),
        ("HEAD~7", "git knows no commit 'HEAD~7'\n"),
        ("HEAD:train.py", "git knows no commit 'HEAD:train.py'\n"),
        ("", "'' is not a revision"),
        ("--output=x", "'--output=x' is not a revision"),
        ("-", "'-' is not a revision"),
        ("a..b", "git knows no commit 'a..b'"),
        ("a\nb", "git knows no commit 'a\\nb'"),
    ],
)
def test_a_revision_that_is_none_is_2(
    amplint: Amplint, repository: Repository, revision: str, sentence: str
) -> None:
    ran = amplint("check", f"--new-since={revision}")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("amplint: error: --new-since: ")
    ran = amplint("check", f"--caused-since={revision}")
    assert ran.status == 2
    assert ran.err.startswith("amplint: error: --caused-since: ")
    assert sentence in ran.err
    assert not (repository.top / "x").exists()


def test_a_branch_without_a_common_commit_is_2(amplint: Amplint, repository: Repository) -> None:
    repository("checkout", "-q", "--orphan", "other")
    (repository.top / "other.py").touch()
    repository.commit()
    ran = amplint("check", "--new-since", "main")
    assert ran.status == 2
    assert "'main' and HEAD have no commit in common\n" in ran.err


def test_a_shallow_clone_is_2_and_says_so(
    amplint: Amplint, repository: Repository, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (repository.top / "more.py").touch()
    repository.commit()
    clone = tmp_path_factory.mktemp("clone")
    repository("clone", "-q", "--depth", "1", repository.top.as_uri(), str(clone))
    ran = amplint("check", str(clone), "--new-since", "HEAD~1")
    assert ran.status == 2
    assert "this is a shallow clone: `git fetch --unshallow`" in ran.err
    assert amplint("check", str(clone), "--new-since", "HEAD").status == 0


def test_where_there_is_no_repository_is_2(
    amplint: Amplint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "a.py").write_text(SCALER)
    ran = amplint("check", str(tmp_path), "--new-since", "HEAD")
    assert ran.status == 2
    assert ran.err == f"amplint: error: --new-since: {tmp_path} is not in a git repository\n"


@pytest.mark.usefixtures("repository")
def test_without_git_is_2(amplint: Amplint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    ran = amplint("check", "--new-since", "HEAD")
    assert ran.status == 2
    assert "git cannot be run: No such file or directory" in ran.err


def test_standard_input_has_no_history(amplint: Amplint) -> None:
    assert amplint("check", "-", "--new-since", "HEAD").status == 2


# ------------------------------------------------------------------------------ hostile ones


@pytest.mark.parametrize(
    ("settings", "attributes"),
    [
        ({"core.fsmonitor": "{run}"}, ""),
        ({"core.hooksPath": "{hooks}"}, ""),
        ({"diff.external": "{run}"}, ""),
        ({"diff.d.command": "{run}"}, "*.py diff=d"),
        ({"diff.d.textconv": "{run}"}, "*.py diff=d"),
        ({"filter.f.clean": "{run}", "filter.f.required": "true"}, "*.py filter=f"),
        ({"filter.f.process": "{run}"}, "*.py filter=f"),
        ({"filter.F.x.clean": "{run}"}, "*.py filter=F.x"),
        ({"core.pager": "{run}", "pager.diff": "true"}, ""),
        ({"core.alternateRefsCommand": "{run}", "core.sshCommand": "{run}"}, ""),
    ],
)
def test_nothing_that_a_repository_names_is_run(
    amplint: Amplint, repository: Repository, settings: dict[str, str], attributes: str
) -> None:
    witness = repository.top / ".git" / "witness"
    run = repository.top / ".git" / "run"
    run.write_text(f"#!/bin/sh\ntouch '{witness}'\ncat\n")
    hooks = repository.top / ".git" / "my-hooks"
    hooks.mkdir()
    for hook in ("post-index-change", "reference-transaction", "fsmonitor-watchman"):
        (hooks / hook).write_text(run.read_text())
        (hooks / hook).chmod(0o755)
    run.chmod(0o755)
    if attributes:
        (repository.top / ".gitattributes").write_text(f"{attributes}\n")
        repository.commit()
    for key, value in settings.items():
        repository("config", key, value.format(run=run, hooks=hooks))
    (repository.top / "train.py").write_text(f"{TRAIN}{SCALER}")
    os.utime(repository.top / "lib.py", (1, 1))  # so that git compares its content
    assert not witness.exists()
    assert reported(amplint("check", "--new-since", "HEAD")) == ["train.py AMP702"]
    assert not witness.exists()


def test_a_filter_that_cannot_be_switched_off_is_refused(
    amplint: Amplint, repository: Repository
) -> None:
    repository("config", "filter.a=b.clean", "touch witness")
    (repository.top / ".gitattributes").write_text("*.py filter=a=b\n")
    (repository.top / "train.py").write_text(f"{TRAIN}{SCALER}")
    ran = amplint("check", "--new-since", "HEAD")
    assert ran.status == 2
    assert "has a filter named 'filter.a=b.clean'" in ran.err
    assert not (repository.top / "witness").exists()


def test_the_guard_is_needed(repository: Repository) -> None:
    """Plain git does run a filter here, so that the tests above can fail."""
    repository("config", "filter.f.clean", "touch witness; cat")
    (repository.top / ".gitattributes").write_text("*.py filter=f\n")
    (repository.top / "train.py").write_text(f"{TRAIN}{SCALER}")
    repository("diff", "HEAD")
    assert (repository.top / "witness").exists()


# ------------------------------------------------------------------------------ patches

LINES = st.lists(
    st.sampled_from(
        ["a", "b", "", "-- x", "++ b/y.py", "diff --git a/z b/z", "@@ -1 +1,9 @@", "\\"]
    ),
    max_size=12,
)


@given(LINES, LINES, st.booleans())
def test_every_new_line_is_changed_and_every_changed_file_named(
    tmp_path_factory: pytest.TempPathFactory, old: list[str], new: list[str], ended: bool
) -> None:
    top = tmp_path_factory.mktemp("r")
    for name, lines in (("old", old), ("new", new)):
        text = "".join(f"{line}\n" for line in lines)
        (top / name).write_text(text if ended or lines[-1:] == [""] else text[:-1])
    command = ["git", *git.DIFF, "--no-index", "old", "new"]
    patch = subprocess.run(command, cwd=top, capture_output=True, check=False).stdout
    changed = git.changed_rows(patch)
    assert set(changed) <= {"new"}
    rows = changed.get("new", set())
    kept = [line for row, line in enumerate(new, 1) if row not in rows]
    left = iter(old)
    assert all(line in left for line in kept), "what is not changed stood there, in this order"


def test_the_rows_of_a_span() -> None:
    span = Span(Position(3, 1), Position(5, 2))
    for rows, touched in [({1, 2}, False), ({3}, True), ({5}, True), ({6}, False)]:
        changes = git.Changes(Path("/r"), frozenset({"a.py"}), {"a.py": frozenset(rows)})
        assert changes.touch(Path("/r/a.py"), span) is touched
    assert changes.touch(Path("/r/b.py"), span), "it is not tracked"


def test_a_notebook_has_changed_where_its_json_has(
    amplint: Amplint, repository: Repository
) -> None:
    file = repository.top / "a.ipynb"
    source = ["import torch\n", SCALER, "y = 1"]
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": source}
    made = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    file.write_text(json.dumps(made, indent=1))
    repository.commit()
    file.write_text(file.read_text().replace("y = 1", "y = 2"))
    assert amplint("check", "a.ipynb", "--new-since", "HEAD").status == 0
    file.write_text(file.read_text().replace("GradScaler()", "GradScaler(growth_interval=9)"))
    assert "a.ipynb:cell 1:2:5 AMP702" in amplint("check", "a.ipynb", "--new-since", "HEAD").out
    assert amplint("check", "a.ipynb", "--add-ignores", "known").status == 0
    [cell] = json.loads(file.read_text())["cells"]
    assert cell["source"][1].endswith("(growth_interval=9)  # amplint: ignore[AMP702] known\n")
