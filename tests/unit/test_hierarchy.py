"""The settings of a file are those of its own nearest project, wherever a run starts."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from amplint.project.config import Settings
from amplint.project.settings_hierarchy import ProjectRoots, SettingsHierarchy
from amplint.server.looking import Looker
from amplint.server.messages import JudgedText, Look, Open, Repaired
from tests.command import Amplint

SCALER = "import torch\n\n\ndef make():\n    return torch.cuda.amp.GradScaler()\n"
FIXED = SCALER.replace("torch.cuda.amp.GradScaler()", 'torch.amp.GradScaler("cuda")')
HELPER = "def log(loss):\n    print(loss.item())\n"
TRAIN = """\
import torch
from torch.utils.data import DataLoader

from {module} import log

model = torch.nn.Linear(4, 4).cuda()
for x in DataLoader([1]):
    loss = model(x.cuda()).sum()
    loss.backward()
    log(loss)
"""
UNUSED = "x = 1  # amplint: ignore[AMP101]\n"
FILES = {
    "old/pyproject.toml": '[project]\nname = "old"\ndependencies = ["torch>=1.13"]\n',
    "old/old/scaling.py": SCALER,
    "old/old/logging_.py": HELPER,
    "old/old/broken.py": "x = (\n",
    "old/old/unused.py": UNUSED,
    "new/pyproject.toml": '[project]\nname = "new"\ndependencies = ["torch>=2.4"]\n',
    "new/new/scaling.py": SCALER,
    "new/new/helpers.py": HELPER,
    "new/new/unused.py": UNUSED,
    "new/new/train.py": TRAIN.format(module="new.helpers"),
    # It calls what is in another project: neither knows the other.
    "new/new/other.py": TRAIN.format(module="old.logging_"),
    "tools/scaling.py": SCALER,
}
Answer = tuple[str, int, int, str, str]  # file, row, column, code, safety of the fix


@pytest.fixture
def mono(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of two packages, and a directory that belongs to neither."""
    root = tmp_path / "mono"
    (root / ".git").mkdir(parents=True)
    write(root, FILES)
    monkeypatch.chdir(root)
    return root


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def answers(ran: str) -> set[Answer]:
    return {
        (
            os.path.realpath(found["filename"]),
            found["location"]["row"],
            found["location"]["column"],
            found["code"],
            found["fix"]["safety"] if found["fix"] else "",
        )
        for found in json.loads(ran)
    }


def of(found: Iterable[Answer], directory: Path) -> set[Answer]:
    return {one for one in found if one[0].startswith(f"{directory}/")}


def checked(amplint: Amplint, directory: Path, *paths: str) -> set[Answer]:
    os.chdir(directory)
    ran = amplint("check", "--format", "json", *paths)
    assert ran.status in (0, 1), ran.err
    return answers(ran.out)


# ---------------------------------------------------------------------------------- one answer


def test_two_packages_have_one_answer_wherever_a_run_starts(amplint: Amplint, mono: Path) -> None:
    above = checked(amplint, mono)
    by_code = {
        (Path(name).relative_to(mono).as_posix(), code, fix) for name, _, _, code, fix in above
    }
    assert by_code == {
        ("old/old/scaling.py", "AMP702", "suggest"),
        ("old/old/broken.py", "AMP000", ""),
        ("new/new/scaling.py", "AMP702", "safe"),
        ("new/new/helpers.py", "AMP101", ""),
        # (That a comment suppresses nothing is said where all files of a project could be read.)
        ("new/new/unused.py", "AMP001", "safe"),
        ("tools/scaling.py", "AMP702", "unsafe"),
    }
    for name in ("old", "new", "tools"):
        own = of(above, mono / name)
        assert checked(amplint, mono, name) == own
        assert checked(amplint, mono / name) == own
        assert checked(amplint, mono / name, f"../{name}") == own
    assert checked(amplint, mono / "old", "..") == above
    assert checked(amplint, mono, "new", "old/old", "tools") == above
    for name in FILES:
        if name.endswith(".py"):
            file = mono / name
            own = {one for one in above if one[0] == str(file)}
            assert checked(amplint, file.parent, file.name) == own
            assert checked(amplint, mono / "old", f"../{name}") == own


def test_standard_input_and_the_hook_have_it_too(
    amplint: Amplint, mono: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = checked(amplint, mono)
    files = [name for name in FILES if name.endswith(".py")]
    assert checked(amplint, mono, "--force-exclude", *files) == above
    for name in files:
        text = io.TextIOWrapper(io.BytesIO(FILES[name].encode()))
        monkeypatch.setattr(sys, "stdin", text)
        own = {one for one in above if one[0] == str(mono / name)}
        assert checked(amplint, mono, "-", "--stdin-filename", name) == own


def test_the_server_has_it_too(amplint: Amplint, mono: Path) -> None:
    above = checked(amplint, mono)
    opened = {(mono / name).as_uri(): Open(FILES[name]) for name in FILES if name.endswith(".py")}
    looker = Looker()
    for number, (uri, each) in enumerate(opened.items()):
        told = list(looker.look(Look(number, uri, opened, "utf-16")))
        (judged,) = (one for one in told if isinstance(one, JudgedText) and one.uri == uri)
        own = {one for one in above if (Path(one[0]).as_uri()) == uri}
        assert {item.code for item in judged.items} == {code for *_, code, _ in own}
        (repaired,) = (one for one in told if isinstance(one, Repaired) and one.uri == uri)
        safe = {code for *_, code, fix in own if fix == "safe"}
        assert bool(safe) is any(repair.safety == "safe" for repair in repaired.repairs.values()), (
            each.text
        )


@pytest.mark.parametrize("start", [".", "old", "new", "tools"])
def test_fixes_are_the_same_wherever_they_are_applied(
    amplint: Amplint, mono: Path, start: str
) -> None:
    (mono / "old/old/broken.py").unlink()
    os.chdir(mono / start)
    amplint("fix", "--apply", str(mono))
    assert (mono / "old/old/scaling.py").read_text() == SCALER
    assert (mono / "new/new/scaling.py").read_text() == FIXED
    assert (mono / "tools/scaling.py").read_text() == SCALER, "nothing names its torch"


def test_the_cache_knows_whose_settings_hold(amplint: Amplint, mono: Path) -> None:
    """A file of settings that comes, goes or changes changes the answer of the next run."""
    first = checked(amplint, mono)
    assert checked(amplint, mono) == first
    (mono / "old/pyproject.toml").write_text(FILES["new/pyproject.toml"])
    second = checked(amplint, mono)
    assert (str(mono / "old/old/scaling.py"), 5, 12, "AMP702", "safe") in second
    (mono / "old/old/amplint.toml").write_text('ignore = ["AMP702"]\n')
    assert not any(code == "AMP702" for *_, code, _ in of(checked(amplint, mono), mono / "old"))
    (mono / "old/old/amplint.toml").unlink()
    assert checked(amplint, mono) == second
    # Without its pyproject.toml, what it has belongs to the project around it, which calls it.
    (mono / "old/old/broken.py").unlink()
    (mono / "old/pyproject.toml").unlink()
    (mono / "new/pyproject.toml").unlink()
    joined = checked(amplint, mono)
    assert (str(mono / "old/old/logging_.py"), 2, 11, "AMP101", "") in joined
    assert checked(amplint, mono / "new") == of(joined, mono / "new")
    assert checked(amplint, mono / "old") == of(joined, mono / "old")


def test_a_baseline_is_beside_the_settings_of_each_file(amplint: Amplint, mono: Path) -> None:
    (mono / "old/old/broken.py").unlink()
    write(mono, {"clean/pyproject.toml": "", "clean/clean.py": "x = 1\n"})  # it needs none
    assert amplint("baseline").status == 0
    written = sorted(path.relative_to(mono).as_posix() for path in mono.rglob(".amplint-*.json"))
    assert written == [f"{place}.amplint-baseline.json" for place in ("", "new/", "old/")]
    for start in (".", "old", "new", "tools"):
        os.chdir(mono / start)
        assert amplint("check").status == 0
        assert amplint("check", str(mono)).status == 0
        assert amplint("baseline").err.count("as before") == (3 if start == "." else 1)
    (mono / "old/old/more.py").write_text(SCALER)
    os.chdir(mono)
    assert amplint("check").status == 1
    assert amplint("check", "new").status == 0


def test_a_baseline_of_the_whole_repository_goes_on_to_hold(amplint: Amplint, mono: Path) -> None:
    """An older amplint wrote one for all files below where it was started."""
    (mono / "old/old/broken.py").unlink()
    amplint("baseline", "--baseline", ".amplint-baseline.json")
    for start in (".", "old", "new", "tools"):
        os.chdir(mono / start)
        assert amplint("check").status == 0
        assert amplint("check", str(mono)).status == 0


# ---------------------------------------------------------------------------------- which files


def test_roots_decide_where_they_are_given(mono: Path) -> None:
    """They are those of the settings that hold at the root of a project."""
    (mono / "pyproject.toml").write_text("[tool.amplint]\nroots = []\n")
    projects = ProjectRoots(SettingsHierarchy())
    assert {projects.of(str(mono / name)) for name in ("", "old/old", "new", "tools")} == {
        str(mono)
    }
    (mono / "pyproject.toml").write_text('[tool.amplint]\nroots = ["new/*", "tools"]\n')
    projects = ProjectRoots(SettingsHierarchy())
    found = {name: projects.of(str(mono / name)) for name in ("old/old", "new", "new/new", "tools")}
    places = {"old/old": "", "new": "", "new/new": "new/new", "tools": "tools"}
    assert found == {name: str(mono / place) for name, place in places.items()}
    (mono / "old/pyproject.toml").write_text("[tool.amplint]\n")
    assert ProjectRoots(SettingsHierarchy()).of(str(mono / "old/old")) == str(mono / "old")


def test_packages_may_be_analysed_together(amplint: Amplint, mono: Path) -> None:
    (mono / "pyproject.toml").write_text("[tool.amplint]\nroots = []\n")
    above = checked(amplint, mono)
    assert (str(mono / "old/old/logging_.py"), 2, 11, "AMP101", "") in above
    assert (str(mono / "old/old/scaling.py"), 5, 12, "AMP702", "suggest") in above
    for name in ("old", "new", "tools"):
        assert checked(amplint, mono / name) == of(above, mono / name)


def test_an_amplint_toml_makes_a_project_where_nothing_else_does(
    amplint: Amplint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(
        tmp_path, {"work/a/helpers.py": HELPER, "work/a/train.py": TRAIN.format(module="helpers")}
    )
    (tmp_path / "work/amplint.toml").write_text("")
    (tmp_path / "work/a/amplint.toml").write_text("")
    assert ProjectRoots(SettingsHierarchy()).of(str(tmp_path / "work/a")) == str(tmp_path / "work")
    found = checked(amplint, tmp_path / "work/a", "helpers.py")
    assert {code for *_, code, _ in found} == {"AMP101"}


def test_what_is_excluded_above_is_left_out_of_the_hook_whichever_files_it_names(
    amplint: Amplint, mono: Path
) -> None:
    (mono / "pyproject.toml").write_text('[tool.amplint]\nexclude = ["old/"]\n')
    for paths in (["old/old/scaling.py"], ["old/old/scaling.py", "new/new/scaling.py"]):
        found = checked(amplint, mono, "--force-exclude", *paths)
        assert not of(found, mono / "old")
    assert checked(amplint, mono / "old/old", "scaling.py"), "it is named"


# ---------------------------------------------------------------------------------- which settings


def settings(root: Path, where: str, **options: object) -> Settings:
    given = {key.replace("_", "-"): value for key, value in options.items()}
    return SettingsHierarchy(given).at(str(root / where))


def test_the_nearest_file_with_settings_holds(mono: Path) -> None:
    (mono / "pyproject.toml").write_text('[tool.amplint]\nselect = ["AMP1"]\n')
    (mono / "new/pyproject.toml").write_text('[tool.amplint]\nselect = ["AMP2"]\n')
    (mono / "new/new/amplint.toml").write_text('select = ["AMP3"]\n')
    assert settings(mono, "tools").select == ("AMP1",)
    assert settings(mono, "old/old").select == ("AMP1",), "its pyproject.toml says nothing"
    assert settings(mono, "new").select == ("AMP2",)
    assert settings(mono, "new/new").select == ("AMP3",)
    (mono / "new/new/.amplint.toml").write_text('select = ["AMP4"]\n')
    assert settings(mono, "new/new").select == ("AMP4",)
    (mono / "new/amplint.toml").write_text('select = ["AMP5"]\n')
    assert settings(mono, "new").select == ("AMP5",), "it comes before the table beside it"
    assert settings(mono, "new", select=["AMP6"]).select == ("AMP6",)
    strict = mono / "strict.toml"
    strict.write_text('select = ["ALL"]\n')
    for place in ("", "old", "new/new"):
        assert SettingsHierarchy(None, strict).at(str(mono / place)).select == ("ALL",)


@pytest.mark.parametrize(
    ("above", "inside", "expected"),
    [
        # The nearest project says it: by its settings, or by its requirements.
        ("", "", ("1.13", "pyproject.toml")),
        ('target-torch = "2.4"', "", ("1.13", "pyproject.toml")),
        ('target-torch = "2.4"', 'target-torch = "2.0"', ("2.0", "`target-torch`")),
        ('target-torch = "2.4"', 'extend = "../pyproject.toml"', ("1.13", "pyproject.toml")),
    ],
)
def test_the_lowest_torch_is_that_of_the_nearest_project(
    mono: Path, above: str, inside: str, expected: tuple[str, str]
) -> None:
    (mono / "pyproject.toml").write_text(f"[tool.amplint]\n{above}\n")
    own = f"[tool.amplint]\n{inside}\n" if inside else ""
    (mono / "old/pyproject.toml").write_text(f"{FILES['old/pyproject.toml']}\n{own}")
    assert settings(mono, "old/old").lowest_torch == expected
    assert settings(mono, "old/old", target_torch="2.5").lowest_torch == ("2.5", "`target-torch`")


def test_a_requirement_without_a_bound_leaves_the_setting_above(mono: Path) -> None:
    (mono / "pyproject.toml").write_text('[tool.amplint]\ntarget-torch = "2.4"\n')
    for requirement in ("torch", "torch<3"):
        (mono / "old/pyproject.toml").write_text(f'[project]\ndependencies = ["{requirement}"]\n')
        assert settings(mono, "old/old").lowest_torch == ("2.4", "`target-torch`")
    # Not a project: only what it says of itself could make it one.
    (mono / "tools/requirements.txt").write_text("torch>=1.13")
    assert settings(mono, "tools").lowest_torch == ("2.4", "`target-torch`")


def test_per_file_ignores_are_relative_to_the_file_that_has_them(
    amplint: Amplint, mono: Path
) -> None:
    shutil.rmtree(mono / "old")
    (mono / "new/pyproject.toml").write_text(
        '[tool.amplint]\nselect = ["AMP7"]\nper-file-ignores = {"new/scaling.py" = ["AMP702"]}\n'
    )
    assert checked(amplint, mono, "new") == set()
    assert checked(amplint, mono / "new/new", "scaling.py") == set()
    (mono / "new/new/amplint.toml").write_text('extend = "../pyproject.toml"\n')
    assert checked(amplint, mono, "new") == set(), "where it is extended, too"
    (mono / "new/new/amplint.toml").write_text(
        'extend = "../pyproject.toml"\nper-file-ignores = {"new/scaling.py" = ["AMP702"]}\n'
    )
    assert len(checked(amplint, mono, "new")) == 1


def test_a_key_replaces_that_of_what_is_extended(mono: Path) -> None:
    write(mono, {
        "base.toml": 'select = ["AMP1"]\nignore = ["AMP101"]\nexclude = ["gen/"]\n',
        "middle/amplint.toml": 'extend = "../base.toml"\nselect = ["AMP2"]\nbaseline = "a.json"\n',
        "new/pyproject.toml": '[tool.amplint]\nextend = "../middle/amplint.toml"\nignore = []\n',
    })  # fmt: skip
    found = settings(mono, "new/new")
    assert (found.select, found.ignore, found.exclude) == (("AMP2",), (), ("gen/",))
    assert found.baseline == mono / "middle/a.json"
    assert found.root == mono / "new"
    assert dict(found.origins)["exclude"] == str(mono / "base.toml")
    assert found.excludes(str(mono / "gen"), True)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (
            {"new/amplint.toml": 'extend = "gone.toml"'},
            "new/amplint.toml: `extend`: {new}/gone.toml: there is no such file",
        ),
        ({"new/amplint.toml": 'extend = "amplint.toml"'}, "extends itself"),
        (
            {"new/amplint.toml": 'extend = "../b.toml"', "b.toml": 'extend = "new/amplint.toml"'},
            "b.toml: `extend`: {new}/amplint.toml extends itself",
        ),
        ({"new/amplint.toml": "extend = 3"}, "amplint.toml: `extend` must be the name of a file"),
        (
            {"new/amplint.toml": 'selct = ["AMP1"]'},
            "new/amplint.toml: unknown key `selct`; did you mean `select`?",
        ),
        ({"new/amplint.toml": 'extends = "a.toml"'}, "`extends`; did you mean `extend`?"),
        ({"new/amplint.toml": "[tool.amplint]"}, "new/amplint.toml: unknown key `tool`"),
        (
            {"new/amplint.toml": 'extend = "../b.toml"', "b.toml": 'selct = ["AMP1"]'},
            "b.toml: unknown key `selct`",
        ),
        (
            {"new/amplint.toml": 'extend = "../b.toml"', "b.toml": 'select = ["AMP1O1"]'},
            "b.toml: `select`: there is no rule `AMP1O1`",
        ),
        (
            {"new/amplint.toml": 'extend = "../old/pyproject.toml"'},
            "`extend`: {old}/pyproject.toml: there is no [tool.amplint] in it",
        ),
        ({"new/pyproject.toml": "[tool.amplint\n"}, "new/pyproject.toml: is not valid TOML"),
    ],
)  # fmt: skip
def test_an_error_names_the_file(
    amplint: Amplint, mono: Path, files: dict[str, str], sentence: str
) -> None:
    write(mono, files)
    for paths in ((), ("new",), ("new/new/scaling.py",)):
        ran = amplint("check", *paths)
        assert ran.status == 2
        assert sentence.format(new=mono / "new", old=mono / "old") in ran.err
    assert amplint("check", "tools/scaling.py").status == 1, "it is of another project"


def test_a_template_that_is_no_toml_stops_nothing(amplint: Amplint, mono: Path) -> None:
    """Unless it speaks of amplint, or there is no project around it."""
    (mono / "new/pyproject.toml").write_text("[project]\nname = {{ name }}\n")
    assert checked(amplint, mono, "new") == checked(amplint, mono / "new")
    (mono / "new/pyproject.toml").write_text("[tool.amplint]\nselect = {{ codes }}\n")
    assert amplint("check").status == 2


def test_no_nesting_of_directories_is_too_deep(mono: Path) -> None:
    """As deep as a path may be long."""
    deep = f"{mono}/tools/{'a/' * 1900}b"
    hierarchy = SettingsHierarchy()
    assert hierarchy.at(deep) == hierarchy.at(str(mono / "tools"))
    assert ProjectRoots(hierarchy).of(deep) == ProjectRoots(hierarchy).top(deep) == str(mono)
    outside = f"/{'a/' * 1900}b"
    assert ProjectRoots(hierarchy).of(outside) is ProjectRoots(hierarchy).top(outside) is None


# ---------------------------------------------------------------------------------- what is shown


def test_the_settings_of_one_file_are_shown(amplint: Amplint, mono: Path) -> None:
    write(mono, {
        "pyproject.toml": '[tool.amplint]\ntarget-torch = "2.4"\nexclude = ["gen/"]\n',
        "new/amplint.toml": 'extend = "../pyproject.toml"\nignore = ["AMP101"]\n',
    })  # fmt: skip
    shown = amplint("check", "--show-settings", "new/new/train.py").out.splitlines()
    assert shown[:3] == [
        "# configuration: new/amplint.toml",
        "# root of the project: new",
        "# files: 1 to report on, 5 to analyse",
    ]
    assert 'ignore = ["AMP101"]  # new/amplint.toml' in shown
    assert 'exclude = ["gen/"]  # pyproject.toml' in shown
    assert (
        "# target-torch of pyproject.toml does not hold here: the lowest torch is 2.4, "
        "by new/pyproject.toml"
    ) in shown
    all_of_them = amplint("check", "--show-settings").out.split("\n\n")
    assert [block.splitlines()[1] for block in all_of_them] == [
        f"# root of the project: {name}" for name in ("new", "old", ".")
    ]


def test_a_table_with_a_slip_in_its_name_is_said(
    amplint: Amplint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("x = 1\n")
    settings = tmp_path / "pyproject.toml"
    for name in ("amplnt", "ampliint", "amplnit"):
        settings.write_text(f"[tool.{name}]\n")
        ran = amplint("check")
        assert ran.status == 0
        assert f"[tool.{name}] is not read; amplint reads [tool.amplint]" in ran.err
    for text in ("[tool.amplint]\n", "[tool.lint]\n", "tool = 1\n"):
        settings.write_text(text)
        assert "is not read" not in amplint("check").err


def test_extend_exclude_adds_to_what_is_extended(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "base.toml").write_text('exclude = ["gen/"]\n')
    (tmp_path / "sub" / "amplint.toml").write_text(
        'extend = "../base.toml"\nextend-exclude = ["old/"]\n'
    )
    found = SettingsHierarchy().at(str(tmp_path / "sub"))
    assert found.excludes(str(tmp_path / "sub" / "gen"), True)
    assert found.excludes(str(tmp_path / "sub" / "old"), True)
    assert dict(found.bases) == {"exclude": tmp_path}, "each is relative to its own file"
    again = SettingsHierarchy({"extend-exclude": ["!gen/"]}).at(str(tmp_path / "sub"))
    assert not again.excludes(str(tmp_path / "sub" / "gen"), True)
