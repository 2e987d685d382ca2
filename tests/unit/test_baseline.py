"""Known findings: what is written down, what is new, what is fixed; files that are no baseline."""

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.adoption import baseline as module
from amplint.adoption.matching import match
from amplint.run.fingerprint import Identity
from tests.command import Amplint, Ran

CAST = "with torch.cuda.amp.autocast():\n    pass\n"
SCALER = "s = torch.cuda.amp.GradScaler()\n"
OLD = f"import torch\n\n{CAST}{SCALER}"
FILE = ".amplint-baseline.json"


@pytest.fixture(autouse=True)
def project(project: Path) -> Path:
    (project / "requirements.txt").write_text("torch>=2.4")
    (project / "a.py").write_text(OLD)
    return project


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
        "amplint: error: sub/known.json: does not exist; `amplint baseline` writes it\n"
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
    assert "does not exist" in ran.err
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


# ------------------------------------------------------------------------------ what is edited

# Of the line with `mask`, AMP501 is a safe fix: it changes the line of an AMP101.
MASKS = """\
import torch


def masks(loader, model):
    for batch in loader:
        loss = model(batch.cuda()).mean()
        loss.backward()
        mask = torch.zeros(3).to(loss.device), loss.item()
        print(loss.item())
"""
READ = "        print(loss.item())\n"


def written(project: Path) -> list[tuple[str, str]]:
    entries = json.loads((project / FILE).read_text())["findings"]
    return [(entry["code"], entry["line"]) for entry in entries]


@pytest.mark.parametrize("options", [(), ("--unsafe",)])
def test_fixing_keeps_the_baseline_in_step(
    amplint: Amplint, project: Path, options: tuple[str, ...]
) -> None:
    (project / "a.py").write_text(MASKS)
    amplint("baseline")
    before = written(project)
    assert {code for code, _ in before} == {"AMP101", "AMP501"}
    ran = amplint("fix", "--apply", *options)
    assert ran.status == 0
    assert f"{FILE}: " in ran.err
    text = (project / "a.py").read_text()
    assert text != MASKS
    assert amplint("check").status == 0
    assert "AMP501" not in {code for code, _ in written(project)}
    assert {line for _, line in written(project)} <= {line.strip() for line in text.splitlines()}
    assert amplint("baseline", "--update").err.endswith("as before\n")
    # What was mended is forgotten: the same mistake, made anew, is a new one.
    again = text.replace(READ, f"        x = torch.zeros(3).to(loss.device)\n{READ}")
    (project / "a.py").write_text(again)
    assert [place.split(":")[1] for place in reported(amplint("check"))] == ["9"]
    # So is a second one of what is left.
    (project / "a.py").write_text(text.replace(READ, READ * 2))
    assert [place.split(":")[1] for place in reported(amplint("check"))] == ["10"]


@pytest.mark.parametrize("line", ["x = loss.item()", "print(loss.item(), 0)", "print(loss.item())"])
def test_fixing_makes_no_new_finding_a_known_one(
    amplint: Amplint, project: Path, line: str
) -> None:
    """The fixes mend known findings in the same function."""
    (project / "a.py").write_text(MASKS)
    amplint("baseline")
    (project / "a.py").write_text(f"{MASKS}        {line}\n")
    assert len(reported(amplint("check"))) == 1
    assert amplint("fix", "--apply").status == 1
    assert "AMP501" not in {code for code, _ in written(project)}
    (place,) = reported(amplint("check"))
    text = (project / "a.py").read_text()
    assert text.splitlines()[int(place.split(":")[1]) - 1].strip() == line


def test_a_fix_without_baseline_leaves_the_file_alone(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(MASKS)
    amplint("baseline")
    before = (project / FILE).read_text()
    amplint("fix", "--apply", "--no-baseline")
    assert (project / FILE).read_text() == before


def test_what_a_fix_has_edited_is_known_without_its_help(amplint: Amplint, project: Path) -> None:
    """An editor has applied it, say, or it was merged: the file is of an older amplint."""
    (project / "a.py").write_text(MASKS)
    amplint("baseline")
    amplint("fix", "--apply", "--no-baseline")
    text = (project / "a.py").read_text()
    assert text != MASKS
    assert amplint("check").status == 0
    (project / "a.py").write_text(text.replace(READ, READ * 2))
    assert [place.split(":")[1] for place in reported(amplint("check"))] == ["10"]
    # `--update` writes down the lines as they are now.
    (project / "a.py").write_text(text)
    amplint("baseline", "--update")
    assert {line for _, line in written(project)} <= {line.strip() for line in text.splitlines()}


EDITS = {
    "a line above": ("    for batch in loader:\n", "    steps = 0\n    for batch in loader:\n"),
    "the line before": ("        loss.backward()\n", "        (2 * loss).backward()\n"),
    "a name on other lines": ("batch", "images"),
    "the loop in a condition": (READ, f"        if True:\n    {READ}"),
    "the name of the function": ("def masks", "def padded_masks"),
    "an argument": ("print(loss.item())", "print(loss.item(), flush=True)"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edits_by_hand_lose_nothing(amplint: Amplint, project: Path, edit: str) -> None:
    (project / "a.py").write_text(MASKS)
    amplint("baseline")
    old, new = EDITS[edit]
    text = MASKS.replace(old, new)
    (project / "a.py").write_text(text)
    assert amplint("check").status == 0
    at = text.index("print(")
    line = text[text.rindex("\n", 0, at) + 1 : text.index("\n", at) + 1]
    (project / "a.py").write_text(text.replace(line, line * 2))
    assert len(reported(amplint("check"))) == 1, "a second one is new"


def test_a_file_may_be_renamed(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    (project / "a.py").rename(project / "b.py")
    assert amplint("check").status == 0
    assert amplint("check", "--format", "concise", "--no-cache") == Ran(0, "", "")
    (project / "c.py").write_text(OLD)
    assert [place.split(":")[0] for place in reported(amplint("check"))] == ["c.py", "c.py"]
    assert amplint("baseline", "--update").err == f"{FILE}: 2 known findings, 0 added, 0 dropped\n"
    assert '"path": "b.py"' in (project / FILE).read_text()


def test_another_line_is_no_edited_one(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(MASKS)
    amplint("baseline")
    (project / "a.py").write_text(MASKS.replace("print(loss.item())", "total = mask.sum().cpu()"))
    assert [line.split(" ")[1] for line in amplint("check").out.splitlines() if " AMP" in line]


def test_a_line_that_still_stands_there_was_not_edited(amplint: Amplint, project: Path) -> None:
    """It is only no mistake any more; a similar one in its function is new."""
    text = MASKS.replace(", loss.item()\n", "\n")
    (project / "a.py").write_text(text)
    amplint("baseline")
    assert [code for code, _ in written(project)] == ["AMP101", "AMP501"]
    (project / "a.py").write_text(text.replace(READ, f"        show(loss.item())\n    {READ[8:]}"))
    assert [place.split(":")[1] for place in reported(amplint("check"))] == ["9"]


IDENTITIES = st.builds(
    Identity,
    st.just("a.py"),
    st.sampled_from(["AMP101", "AMP501"]),
    st.sampled_from(["x = loss.item()", "y = loss.item()", "y = loss.item() + 1", "z()", "w(z)"]),
    st.sampled_from(["", "f", "C.f"]),
)


@given(st.lists(IDENTITIES, max_size=6), st.lists(IDENTITIES, max_size=6))
def test_each_known_finding_is_taken_once(found: list[Identity], known: list[Identity]) -> None:
    left, gone = Counter(known), Counter[Identity]()
    result = match(found, left, tuple, gone)
    taken = Counter(each for each in result if each is not None)
    assert taken + left == Counter(known)
    assert {one.code for one in result if one} <= {one.code for one in found}
    exact = Counter(found) & Counter(known)
    assert exact - taken == Counter()
    assert sum(each is None for each in result) >= len(found) - len(known)


@given(st.lists(IDENTITIES, max_size=6))
def test_what_is_written_down_is_known(found: list[Identity]) -> None:
    assert None not in match(found, Counter(found), tuple, Counter())


def test_many_edited_lines_take_no_square_of_their_number() -> None:
    """A forged baseline may hold as many as it likes."""
    known = Counter(Identity("a.py", "AMP101", f"x{n} = loss.item()", "f") for n in range(20_000))
    found = [Identity("a.py", "AMP101", f"y{n} = loss.item()", "f") for n in range(2_000)]
    begun = time.thread_time()  # of no thread that another test has left
    match(found, known, tuple, Counter())
    assert time.thread_time() - begun < 10


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
        ("[" * 100_000, NONE),
        (f'{{"amplint-baseline": {"9" * 100_000}}}', NONE),
        (f"{HEAD}null}}", "is damaged"),
        (f"{HEAD}[1]}}", "is damaged"),
        (f"{HEAD}[{{}}]}}", "is damaged"),
        (entry(path=1), "is damaged"),
        (entry(count=0), "is damaged"),
        (entry(count=1.5), "is damaged"),
        (entry(count=10**400), "is damaged"),
        (entry(count=1e300), "is damaged"),
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
    assert module.read(file).counts == known
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
