"""Known findings: what is written down, what is new, what is fixed; files that are no baseline."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.output import baseline as module
from amplint.output.fingerprint import Identity
from tests.command import Amplint, Ran

CAST = "with torch.cuda.amp.autocast():\n    pass\n"
SCALER = "s = torch.cuda.amp.GradScaler()\n"
OLD = f"import torch\n\n{CAST}{SCALER}"
FILE = ".amplint-baseline.json"


@pytest.fixture
def amplint(capfd: pytest.CaptureFixture[str]) -> Amplint:
    return Amplint(capfd)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "a.py").write_text(OLD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def reported(ran: Ran) -> list[str]:
    """Place and code of each finding in the text report."""
    return [line.split(" ")[0] for line in ran.out.splitlines() if " AMP" in line]


# ------------------------------------------------------------------------------ what is written


def test_the_file_is_readable_and_stable(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(f"{OLD}{SCALER}")
    ran = amplint("baseline")
    assert ran == Ran(0, "", f"{FILE}: 3 known findings, 3 added, 0 dropped\n")
    text = (project / FILE).read_text()
    assert text == (
        '{\n  "amplint-baseline": 1,\n  "findings": [\n'
        '    {"path": "a.py", "code": "AMP701", "scope": "",'
        ' "line": "with torch.cuda.amp.autocast():"},\n'
        '    {"path": "a.py", "code": "AMP702", "scope": "",'
        ' "line": "s = torch.cuda.amp.GradScaler()", "count": 2}\n'
        "  ]\n}\n"
    )
    assert amplint("baseline").err == f"{FILE}: 3 known findings, as before\n"
    assert (project / FILE).read_text() == text


def test_known_findings_are_counted_and_not_reported(amplint: Amplint) -> None:
    amplint("baseline")
    assert amplint("check") == Ran(0, "1 file, no new findings; 2 known findings left out\n", "")
    assert amplint("check", "--format", "json") == Ran(0, "[]\n", "")
    assert amplint("check", "--no-baseline").status == 1


def test_lines_may_move_and_comments_may_come(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    moved = OLD.replace("torch\n", "torch\n\nx = 1\n").replace("():\n", "():  # known\n")
    (project / "a.py").write_text(moved)
    assert amplint("check").status == 0


def test_one_more_of_the_same_is_new(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(f"{OLD}{SCALER}")
    amplint("baseline")
    (project / "a.py").write_text(f"{OLD}{SCALER}{SCALER}")
    ran = amplint("check")
    assert ran.status == 1
    assert reported(ran) == ["a.py:7:5"]
    assert ran.out.endswith("fixable: 1 safe; 3 known findings left out\n")


def test_the_same_line_in_another_file_or_function_is_new(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    (project / "b.py").write_text(f"import torch\n\n{SCALER}")
    (project / "a.py").write_text(f"{OLD}def f():\n    {SCALER}")
    assert reported(amplint("check")) == ["a.py:7:9", "b.py:3:5"]


def test_a_file_that_does_not_parse_is_never_known(amplint: Amplint, project: Path) -> None:
    (project / "b.py").write_text("x = (\n")
    amplint("baseline")
    assert "AMP000" not in (project / FILE).read_text()
    assert reported(amplint("check")) == ["b.py:1:5"]
    entry = {"path": "b.py", "code": "AMP000", "scope": "", "line": "x = ("}
    (project / FILE).write_text(json.dumps({"amplint-baseline": 1, "findings": [entry]}))
    assert "b.py:1:5" in reported(amplint("check"))


def test_paths_are_relative_to_the_file_whatever_is_named(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "pyproject.toml").write_text("[tool.amplint]\n")
    inner = project / "packages" / "one"
    inner.mkdir(parents=True)
    (inner / "pyproject.toml").touch()  # the root of a run over this directory alone
    (inner / "b.py").write_text(OLD)
    amplint("baseline")
    assert '"path": "packages/one/b.py"' in (project / FILE).read_text()
    assert amplint("check", "packages/one").status == 0
    monkeypatch.chdir(inner)
    assert amplint("check").status == 0


# ------------------------------------------------------------------------------ which file


def test_the_settings_and_the_command_line_name_the_file(amplint: Amplint, project: Path) -> None:
    (project / "sub").mkdir()
    (project / "pyproject.toml").write_text('[tool.amplint]\nbaseline = "sub/known.json"\n')
    ran = amplint("check")
    assert ran.status == 2
    assert ran.err == (
        "amplint: error: sub/known.json: is not there; `amplint baseline` writes it\n"
    )
    assert amplint("baseline").status == 0
    assert (project / "sub" / "known.json").exists()
    assert amplint("check").status == 0
    assert amplint("check", "--baseline", "other.json").status == 2
    assert amplint("baseline", "--baseline", "other.json").status == 0
    assert amplint("check", "--baseline", "other.json").status == 0
    assert amplint("check", "--baseline", "other.json", "--no-baseline").status == 2


@pytest.mark.parametrize("value", ["3", '""', '["a"]'])
def test_a_setting_that_names_no_file_is_2(amplint: Amplint, project: Path, value: str) -> None:
    (project / "pyproject.toml").write_text(f"[tool.amplint]\nbaseline = {value}\n")
    ran = amplint("check")
    assert ran.status == 2
    assert "`baseline` must be the name of a file" in ran.err


# ------------------------------------------------------------------------------ what is fixed


def test_update_drops_what_is_fixed_and_adds_nothing(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    (project / "a.py").write_text(f"import torch\n\n{SCALER}x = torch.cuda.amp.GradScaler()\n")
    ran = amplint("check")
    assert ran.err == (
        f"amplint: {FILE}: 1 finding is fixed or ignored by now; "
        "`amplint baseline --update` drops them\n"
    )
    assert amplint("check", "-q").err == ""
    assert amplint("baseline", "--update").err == f"{FILE}: 1 known finding, 0 added, 1 dropped\n"
    assert reported(amplint("check")) == ["a.py:4:5"]
    assert amplint("baseline").err == f"{FILE}: 2 known findings, 1 added, 0 dropped\n"
    assert amplint("check").status == 0


def test_update_without_a_baseline_is_2(amplint: Amplint, project: Path) -> None:
    ran = amplint("baseline", "--update")
    assert ran.status == 2
    assert "is not there" in ran.err
    assert not (project / FILE).exists()


def test_of_two_equal_ones_one_may_be_fixed(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(f"{OLD}{SCALER}")
    amplint("baseline")
    (project / "a.py").write_text(OLD)
    amplint("baseline", "--update")
    assert '"count"' not in (project / FILE).read_text()
    (project / "a.py").write_text(f"{OLD}{SCALER}")
    assert reported(amplint("check")) == ["a.py:6:5"]


def test_what_was_not_looked_at_stays(amplint: Amplint, project: Path) -> None:
    for name in ("b.py", "c.py", "gone.py"):
        (project / name).write_text(OLD)
    amplint("baseline")
    (project / "gone.py").unlink()
    (project / "a.py").write_text("import torch\n")
    (project / "b.py").write_text("import torch\n")  # not named
    (project / "c.py").write_text("import torch (\n")  # named, and cannot be parsed
    (project / "d.py").write_text(f"import torch\n{CAST}")
    amplint("baseline", "--update", "a.py", "c.py", "--select", "AMP701")
    entries = json.loads((project / FILE).read_text())["findings"]
    assert [(entry["path"], entry["code"]) for entry in entries] == [
        ("a.py", "AMP702"),  # its rule was switched off
        ("b.py", "AMP701"),
        ("b.py", "AMP702"),
        ("c.py", "AMP701"),
        ("c.py", "AMP702"),
        ("gone.py", "AMP702"),
    ]
    amplint("baseline", "d.py")
    entries = json.loads((project / FILE).read_text())["findings"]
    assert {entry["path"] for entry in entries} == {"a.py", "b.py", "c.py", "d.py"}


def test_a_rule_that_is_no_more_is_dropped(amplint: Amplint, project: Path) -> None:
    entry = {"path": "a.py", "code": "AMP799", "scope": "", "line": "x"}
    (project / FILE).write_text(json.dumps({"amplint-baseline": 1, "findings": [entry]}))
    assert amplint("baseline", "--update").err == f"{FILE}: 0 known findings, 0 added, 1 dropped\n"


def test_nothing_is_written_where_something_could_not_be_looked_at(
    amplint: Amplint, project: Path
) -> None:
    ran = amplint("baseline", "a.py", "gone.py")
    assert ran.status == 2
    assert "gone.py: there is no such file" in ran.err
    assert f"{FILE} was not written" in ran.err
    assert not (project / FILE).exists()


def test_fixing_mends_known_findings_and_what_is_left_may_be_known(
    amplint: Amplint, project: Path
) -> None:
    (project / "a.py").write_text(
        f"import torch\n\n{SCALER}\n\ndef f(device):\n    return torch.rand(3).to(device)\n"
    )
    amplint("baseline")
    ran = amplint("fix", "--apply", "a.py")
    assert ran.status == 0
    assert ran.out == "1 file, no new findings; 1 known finding left out\n"
    assert "torch.amp.GradScaler" in (project / "a.py").read_text()
    assert amplint("fix", "--no-baseline").status == 1


# ------------------------------------------------------------------------------ other files


def nested(depth: int) -> str:
    return '{"amplint-baseline": 1, "findings": ' + "[" * depth + "]" * depth + "}"


HEAD = '{"amplint-baseline": 1, "findings": '


NONE = "is not a baseline of amplint"
NEWER = "its format is 2, and this amplint reads format 1; a newer amplint wrote it"


def entry(**fields: object) -> str:
    values = {"path": "a.py", "code": "AMP701", "scope": "", "line": "", **fields}
    return f"{HEAD}[{json.dumps(values)}]}}"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", NONE),
        ("[]", NONE),
        ('{"findings": []}', NONE),
        ("import torch\n", NONE),
        ('{"amplint-baseline": true}', NONE),
        ('{"amplint-baseline": 2, "findings": {}}', NEWER),
        ('{"amplint-baseline": 0}', "its format is 0, and this amplint reads format 1\n"),
        (f"{HEAD}[]", NONE),
        (f"<<<<<<< HEAD\n{HEAD}[]}}", NONE),
        (nested(100_000), NONE),
        (f"{HEAD}null}}", "is damaged"),
        (f"{HEAD}[1]}}", "is damaged"),
        (f"{HEAD}[{{}}]}}", "is damaged"),
        (entry(path=1), "is damaged"),
        (entry(count=0), "is damaged"),
        (entry(count=1.5), "is damaged"),
        (entry(count=10**400), "is damaged"),
        (entry(other=1), "is damaged"),
    ],
)
def test_a_file_that_is_no_baseline_is_2_and_stays(
    amplint: Amplint, project: Path, content: str, sentence: str
) -> None:
    (project / FILE).write_text(content)
    for command in (["check"], ["baseline"], ["baseline", "--update"], ["fix"]):
        ran = amplint(*command)
        assert ran.status == 2
        assert ran.out == ""
        assert f"{FILE}: " in ran.err
        assert sentence in ran.err
        assert "Traceback" not in ran.err
    assert (project / FILE).read_text() == content


def test_what_is_no_file_is_2(amplint: Amplint, project: Path) -> None:
    (project / FILE).mkdir()
    assert "is not a file" in amplint("check").err
    assert "/dev/zero: is not a file" in amplint("check", "--baseline", "/dev/zero").err


def test_a_file_that_is_too_large_is_2(amplint: Amplint, monkeypatch: pytest.MonkeyPatch) -> None:
    amplint("baseline")
    monkeypatch.setattr(module, "MOST_BYTES", 20)
    assert "it is too large" in amplint("check").err


def test_a_directory_that_is_not_there_is_2(amplint: Amplint) -> None:
    ran = amplint("baseline", "--baseline", "gone/known.json")
    assert ran.status == 2
    assert "gone/known.json: cannot be written: No such file" in ran.err


def test_an_entry_that_a_merge_has_doubled_counts_once(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(f"{OLD}{SCALER}")
    amplint("baseline")
    document = json.loads((project / FILE).read_text())
    *others, last = document["findings"]
    document["findings"] = [*others, last, {**last, "count": 1}]
    (project / FILE).write_text(json.dumps(document))
    (project / "a.py").write_text(f"{OLD}{SCALER}{SCALER}")
    assert reported(amplint("check")) == ["a.py:7:5"]


identities = st.builds(
    Identity, st.text(), st.text(), st.text(), st.text()
)  # surrogates are taken out before


@given(st.dictionaries(identities, st.integers(1, 10**6), max_size=5))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, known: dict[Identity, int]
) -> None:
    file = tmp_path_factory.mktemp("b") / FILE
    module.write(module.Baseline(file, known))
    assert module.read(file).known == known
    text = file.read_text("utf-8")
    module.write(module.Baseline(file, dict(reversed(known.items()))))
    assert file.read_text("utf-8") == text


def test_names_and_lines_of_any_kind_are_known_again(amplint: Amplint, project: Path) -> None:
    long = f"s = torch.cuda.amp.GradScaler(), '{'x' * 500}'\n"
    (project / "bad\udcff.py").write_text(f"import torch\n{long}", encoding="utf-8")
    assert amplint("baseline").status == 0
    assert amplint("check").status == 0
    other = long.replace("x'", "y'")
    (project / "bad\udcff.py").write_text(f"import torch\n{other}{long}")
    ran = amplint("check")
    assert [place.partition(":")[2] for place in reported(ran)] == ["2:5"], (
        "the part that is not written down counts too"
    )
