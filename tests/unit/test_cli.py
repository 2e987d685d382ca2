"""The command line, end to end: what is printed where, what is written, and the exit status."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from amplint.cli import main as cli
from amplint.findings.witness import NOT_WRITTEN, Unrun, Witness
from amplint.output import FORMATS, console
from amplint.project import reading
from amplint.rule import registry
from tests.command import LEGACY, MODERN, Amplint, Ran

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def project(project: Path) -> Path:
    (project / "requirements.txt").write_text("torch>=2.4")
    return project


# `amplint` as a process of its own, installed or not.
COMMAND = [
    sys.executable,
    "-c",
    f"import runpy, sys; sys.path.insert(0, {str(ROOT)!r});"
    "from amplint.cli.main import main; sys.exit(main())",
]


def process(*arguments: str, stdin: bytes = b"", **environment: str) -> Ran:
    done = subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        env={**os.environ, **environment},
        timeout=120,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


# ------------------------------------------------------------------------------ check


def test_clean_is_0(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(MODERN)
    assert amplint("check") == Ran(0, "1 file, no findings\n", "")


def test_it_runs_as_a_module(project: Path) -> None:
    (project / "main.py").write_text("print('clean')\n", encoding="utf-8")
    as_module = COMMAND[2].replace(
        "from amplint.cli.main import main; sys.exit(main())",
        "runpy.run_module('amplint', run_name='__main__')",
    )
    command = [sys.executable, "-c", as_module, "check", "."]
    done = subprocess.run(command, cwd=project, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_findings_are_1(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    ran = amplint("check", "a.py")
    assert ran.status == 1
    assert ran.out.startswith("a.py:3:6 AMP701 legacy-autocast: ")
    assert ran.out.endswith("\n1 file, 1 finding (1 migration); fixable: 1 safe\n")
    assert ran.err == ""


def test_a_directory_and_the_current_one_give_the_same(amplint: Amplint, project: Path) -> None:
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text(LEGACY)
    assert amplint("check").out == amplint("check", "src").out == amplint("check", ".", "src").out


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "text"])
def test_formats(amplint: Amplint, project: Path, name: str) -> None:
    (project / "a.py").write_text(LEGACY)
    ran = amplint("check", "--format", name)
    assert ran.status == 1
    assert "AMP701" in ran.out
    if name in ("json", "sarif", "gitlab"):
        json.loads(ran.out)


def test_statistics_count_the_findings_of_each_rule(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    (project / "b.py").write_text(
        f"{LEGACY}a = torch.cuda.amp.autocast()\ns = torch.cuda.amp.GradScaler()\n"
    )
    ran = amplint("check", "--statistics")
    rows = ["3  AMP701 [*] legacy-autocast", "1  AMP702 [*] legacy-grad-scaler"]
    rows.append("4  findings; [*] all have a safe fix")
    assert ran == Ran(1, "\n".join(rows) + "\n", "")
    ran = amplint("check", "--statistics", "--format", "json")
    assert ran.status == 1
    assert json.loads(ran.out) == {"files": 2, "count": 4, "fixable_count": 4} | {
        "rules": [
            {"code": code, "name": name, "count": count, "fixable": True, "fixable_count": count}
            for code, name, count in (
                ("AMP701", "legacy-autocast", 3),
                ("AMP702", "legacy-grad-scaler", 1),
            )
        ]
    }
    assert amplint("check", "--statistics", "--format", "sarif").status == 2


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("option", ["--exclude=[a", "--roots=[a", "--per-file-ignores=[a:AMP1"])
def test_a_pattern_that_is_none_is_named(amplint: Amplint, option: str) -> None:
    ran = amplint("check", option)
    assert ran.status == 2
    key = option[2:].partition("=")[0]
    assert ran.err.startswith(f"amplint: error: the command line: `{key}`: '[a' is not a ")


def test_statistics_tell_rules_that_are_fixed_in_part(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(f"{LEGACY}torch.cuda.amp.autocast(*options)\n")
    assert amplint("check", "--statistics").out.startswith("2  AMP701 [-] legacy-autocast\n")
    (rule,) = json.loads(amplint("check", "--statistics", "--format", "json").out)["rules"]
    assert (rule["count"], rule["fixable"], rule["fixable_count"]) == (2, False, 1)


def test_several_formats_are_written_in_one_run(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    alone = {name: amplint("check", "--format", name).out for name in FORMATS}
    files = [f"--format={name}:{name}.out" for name in FORMATS if name != "text"]
    ran = amplint("check", "--format=text", *files)
    assert ran == Ran(1, alone.pop("text"), "")
    assert {name: (project / f"{name}.out").read_text() for name in alone} == alone


def test_the_report_may_go_to_a_file(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    for arguments in ([], ["--format", "json"], ["--statistics"]):
        out = amplint("check", *arguments).out
        assert amplint("check", *arguments, "--output-file", "report") == Ran(1, "", "")
        assert (project / "report").read_text() == out
    (project / "a.py").write_text(MODERN)
    assert amplint("check", "--format", "concise:report") == Ran(0, "", "")
    assert (project / "report").read_text() == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device without room")
def test_a_report_that_cannot_be_written_is_an_error(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    ran = amplint("check", "--format", "text", "--format", "json:/dev/full")
    assert ran.status == 2
    assert ran.err == "amplint: error: /dev/full: cannot be written: No space left on device\n"


TRAINING = """\
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

saved = torch.cuda.amp.GradScaler()


@torch.no_grad()
def evaluate(model: torch.nn.Module, loader: DataLoader):
    model.eval()
    correct = 0
    for x, y in loader:
        hits = model(x.cuda()).argmax(1) == y.cuda()
        correct += hits.sum().item()
    return correct


def names(classes):
    order = torch.tensor([3, 1, 2], device="cuda").flip(0)
    return [classes[int(i)] for i in order]


def train(model, loader, optimizer):
    for x in loader:
        loss = model(x.cuda()).mean()
        loss.backward()
        optimizer.step()
        print(loss.item())


def loss_of(logits, y):
    with torch.autocast("cuda"):
        return F.binary_cross_entropy(torch.sigmoid(logits), y)
"""


@pytest.mark.parametrize(
    ("order", "codes"),
    [
        ("path", "AMP702 AMP102 AMP113 AMP101 AMP304"),
        ("rule", "AMP101 AMP102 AMP113 AMP304 AMP702"),
        ("cost", "AMP304 AMP113 AMP101 AMP102 AMP702"),
    ],
)
def test_findings_are_sorted(amplint: Amplint, project: Path, order: str, codes: str) -> None:
    (project / "a.py").write_text(TRAINING)
    every = ("check", "--extend-select", "AMP102", "--sort", order)
    lines = amplint(*every, "--format", "concise").out.splitlines()
    assert [line.split()[1] for line in lines] == codes.split()
    found = json.loads(amplint(*every, "--format", "json").out)
    cost = {one["code"]: one["cost"] for one in found}
    assert [one["code"] for one in found] == codes.split()
    assert cost == {
        "AMP304": "run",
        "AMP113": "element",
        "AMP101": "step",
        "AMP102": "evaluation",
        "AMP702": "once",
    }
    assert [one["group"] for one in found if one["code"] == "AMP304"] == ["correctness"]
    assert all(one["help"] == registry.find(one["code"]).help for one in found)
    assert all(one["url"] == f"docs/rules/{one['code']}.md" for one in found)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("", True),
        ('ignore = ["AMP102"]', False),
        ('extend-select = ["AMP102"]', False),
        ('select = ["AMP101"]', False),
        ('per-file-ignores = {"a.py" = ["AMP102"]}', False),
    ],
)
def test_what_rules_would_find_that_are_off(
    amplint: Amplint, project: Path, settings: str, said: bool
) -> None:
    (project / "a.py").write_text(TRAINING)
    (project / "pyproject.toml").write_text(f"[tool.amplint]\n{settings}\n")
    line = "1 more in rules that are off: --extend-select AMP102"
    for _ in range(2):  # from the cache, too
        ran = amplint("check")
        assert (ran.out.splitlines()[-1] == line) == said
    (project / "b.py").write_text("import torch\n")
    assert line not in amplint("check", "b.py").out
    quiet = TRAINING.replace("\n", "  # amplint: ignore[AMP102]\n")
    (project / "a.py").write_text(quiet)
    assert "rules that are off" not in amplint("check").out


def test_what_to_do_comes_from_the_cache_too(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(TRAINING)
    first = amplint("check", "--sort", "cost")
    assert "  help: keep it on the device" in first.out
    assert amplint("check", "--sort", "cost") == first


def test_a_terminal_may_decide_on_colors_where_the_environment_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert console.colored() is None
    monkeypatch.setenv("NO_COLOR", "1")
    assert console.colored() is False


@pytest.mark.parametrize(("columns", "widest"), [("60", 60), ("80", 80), ("nonsense", 126)])
def test_lines_of_code_are_as_wide_as_the_terminal(
    amplint: Amplint,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    columns: str,
    widest: int,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    line = f"x = [{'1, ' * 90}torch.cuda.amp.GradScaler(), {'2, ' * 90}]"
    (project / "a.py").write_text(f"import torch\n{line}\n")
    frame = amplint("check").out.splitlines()[1:3]
    assert max(map(len, frame)) == widest
    assert "torch.cuda.amp.GradScaler()" in frame[0]
    amplint("check", "--output-file", "report")
    assert max(map(len, (project / "report").read_text().splitlines()[1:3])) == 126


@pytest.mark.parametrize(
    "name", ["a\nb.py", "::warning::x.py", "a%0Ab.py", 'a<&">.py', "a\x1b[31m.py"]
)
def test_no_file_name_gets_out_of_its_place(amplint: Amplint, project: Path, name: str) -> None:
    """A name is one line of the terminal, one string of JSON, one attribute of XML."""
    (project / name).write_text(LEGACY)
    for format_ in ("text", "concise"):
        lines = amplint("check", "--format", format_).out.splitlines()
        assert not any(line.startswith("::") or "\x1b" in line for line in lines)
        assert re.match(r"\S+:3:6:? AMP701 ", lines[0])
    for format_ in ("json", "gitlab"):
        (one,) = json.loads(amplint("check", "--format", format_).out)
        assert (one["filename"] if format_ == "json" else one["location"]["path"]) == name
    (line,) = amplint("check", "--format", "github").out.splitlines()
    assert re.fullmatch(r"::warning file=[^,:]+,line=3,[^:]*::[^\n]*", line)
    where = line.removeprefix("::warning file=").split(",")[0]
    assert unescaped(where) == name.replace("\x1b", "\N{REPLACEMENT CHARACTER}")
    (sarif,) = json.loads(amplint("check", "--format", "sarif").out)["runs"][0]["results"]
    uri = sarif["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert unquote(uri) == name
    assert re.fullmatch(r"[\w.%-]+", uri)
    case = next(ElementTree.fromstring(amplint("check", "--format", "junit").out).iter("testcase"))
    assert case.get("file") == re.sub(r"[\n\x1b]", "\N{REPLACEMENT CHARACTER}", name)


def unescaped(text: str) -> str:
    """A property of a workflow command as GitHub's runner reads it."""
    for character in "\r\n:,%":
        text = text.replace(f"%{ord(character):02X}", character)
    return text


def test_statistics_of_nothing_are_empty(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(MODERN)
    assert amplint("check", "--statistics") == Ran(0, "", "")


def test_quiet_leaves_out_counts_and_notices(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(MODERN)
    assert amplint("check", "-q") == Ran(0, "", "")
    (project / "empty").mkdir()
    assert amplint("check", "-q", "empty") == Ran(0, "", "")
    assert "no Python files were found" in amplint("check", "empty").err


def test_output_survives_a_terminal_that_knows_ascii_only(project: Path) -> None:
    (project / "a.py").write_text(
        f"import torch\n\nx = '数{'…' * 200}', torch.cuda.amp.autocast()\n"
    )
    ran = process("check", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert ran.status == 1
    assert "AMP701" in ran.out


@pytest.mark.parametrize("arguments", [["check"], ["check", "--format=json"], ["--help"]])
def test_a_reader_that_goes_away_gets_no_traceback(project: Path, arguments: list[str]) -> None:
    (project / "a.py").write_text(LEGACY)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*COMMAND, *arguments], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (2, b"")


# ------------------------------------------------------------------------------ settings


def test_settings_of_the_file_and_of_the_command_line(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    assert amplint("check", "--ignore", "migration").status == 0
    assert amplint("check", "--select", "AMP1,AMP7").status == 1
    assert amplint("check", "--select", "AMP1", "--select", "AMP5").status == 0
    assert amplint("check", "--per-file-ignores", "a.py:AMP701,AMP702").status == 0
    assert amplint("check", "--per-file-ignores", "b.py:AMP701").status == 1
    assert amplint("check", "--exclude", "a.py").status == 0
    (project / "pyproject.toml").write_text('[tool.amplint]\nignore = ["AMP701"]')
    assert amplint("check").status == 0
    assert amplint("check", "--ignore", "AMP702").status == 1, "an option replaces the key"
    (project / "other.toml").write_text('[tool.amplint]\nselect = ["AMP7"]')
    assert amplint("check", "--config", "other.toml").status == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["check", "--select", "AMP7O1"], "there is no rule `AMP7O1`; did you mean `AMP701`?"),
        (["check", "--target-torch", "two"], "`target-torch` must be a version such as 2.4, not"),
        (["check", "--target-torch", "99"], "must be a version such as 2.4, not '99'\n"),
        (["check", "--select", "AMP777"], "there is no rule `AMP777`\n"),
        (["check", ""], "'': there is no such file or directory"),
        (["check", "--select", " , "], "Invalid value for '--select': names no rule"),
        (["check", "--fail-on", "perf"], "there is no group `perf`; did you mean `performance`?"),
        (
            ["check", "--fail-on", "xyz"],
            "`xyz`; the groups are correctness, precision, performance",
        ),
        (["check", "--per-file-ignores", "AMP701"], "is not of the form PATTERN:CODE,CODE"),
        (["check", "--config", "gone.toml"], "gone.toml: cannot be read: No such file"),
        (["check", "--selct", "AMP701"], "--select"),
        (["check", "--format", "xml"], "'xml' is not one of"),
        (["check", "--format", "sarif:"], "'sarif:' names no file after the colon"),
        (["check", "--format", "text", "--format", "json"], "all except one need a file"),
        (["check", "--format", "json:a", "--output-file", "b"], "without a file of its own"),
        (["check", "--format", "json:a", "--format", "sarif:a"], "two reports would be written"),
        (["check", "--output-file", "gone/a.txt"], "gone/a.txt is not a file that can be written"),
        (["check", "--output-file", "."], ". is not a file that can be written"),
        (["check", "--sort", "size"], "'size' is not one of"),
        (["check", "-", "a.py"], "cannot be combined with other paths"),
        (["check", "--stdin-filename", "a.py"], "needs `-` as the path"),
        (["chekc"], "No such command 'chekc'"),
        (["explain", "AMP7O1"], "there is no rule `AMP7O1`; did you mean `AMP701`?"),
        (["explain", "AMP1O1"], "there is no rule `AMP1O1`; did you mean `AMP101`?"),
        (["check", "--select", "AMPl0l"], "there is no rule `AMPl0l`; did you mean `AMP101`?"),
        (
            ["explain", "AMP90"],
            "there is no rule `AMP90`; near it: AMP901, AMP902, AMP903, AMP904 (",
        ),
        (["explain", "amp999"], "there is no rule `amp999`\n"),
        (["check", "--select", "AMP999"], "there is no rule `AMP999`\n"),
        (["check", "--select", "AMP706"], "there is no rule `AMP706`; did you mean `AMP"),
        (["check", "--select", "AMP177"], "there is no rule `AMP177`; did you mean `AMP1"),
        (["explain", "AMP4"], "AMP412 and 9 more (`amplint rules` lists all)"),
        (["explain", "data-paralel"], "did you mean `data-parallel`?"),
        (["check", "gone.py"], "gone.py: there is no such file or directory\n"),
        (["new", "x", "y"], "x is not a code like AMP101\n"),
        (["new", "AMP998", "mine"], "is not in a checkout of amplint"),
    ],
)
def test_what_cannot_be_followed_is_2_and_a_sentence(
    amplint: Amplint, arguments: list[str], sentence: str
) -> None:
    ran = amplint(*arguments)
    assert (ran.status, ran.out) == (2, "")
    assert sentence in ran.err
    assert ran.err.startswith("amplint: error: ")
    assert all(line.startswith("amplint: ") for line in ran.err.splitlines())


def test_which_findings_fail(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(f"{LEGACY}    x = 1  # amplint: ignore[AMP101]\n")
    assert amplint("check", "--exit-zero").status == 0
    assert amplint("check", "--fail-on", "correctness").status == 0
    assert "AMP701" in amplint("check", "--fail-on", "correctness").out
    assert amplint("check", "--fail-on", "correctness,migration").status == 1
    assert amplint("check", "--fail-on", "precision", "--fail-on", "suppression").status == 1
    assert amplint("check", "--fail-on", "migration", "--exit-zero").status == 0
    assert amplint("check", "--exit-zero", "gone.py").status == 2
    (project / "b.py").write_text("x = (\n")
    assert amplint("check", "--fail-on", "pedantic").status == 1, "a file was not looked at"


def test_settings_are_shown_with_their_origins(amplint: Amplint, project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.amplint]\nignore = ["AMP101"]\ntarget-torch = "2.4"\n'
        '[tool.amplint.per-file-ignores]\n"a.py" = ["AMP7"]\n'
    )
    for name in ("a.py", "b.py"):
        (project / name).write_text(LEGACY)
    ran = amplint("check", "--show-settings", "--select", "AMP7", "a.py")
    assert ran == Ran(
        0,
        "# configuration: pyproject.toml\n"
        "# root of the project: .\n"
        "# files: 1 to report on, 2 to analyse\n"
        'select = ["AMP7"]  # the command line\n'
        'ignore = ["AMP101"]  # pyproject.toml\n'
        "extend-select = []  # default\n"
        "preview = false  # default\n"
        "exclude = []  # default\n"
        "extend-exclude = []  # default\n"
        "# roots is not set: a directory with a pyproject.toml or a .git is a project\n"
        'per-file-ignores = {"a.py" = ["AMP7"]}  # pyproject.toml\n'
        'target-torch = "2.4"  # pyproject.toml\n'
        'assume-autocast = "auto"  # default\n'
        "# under is not set  # default\n"
        "models = []  # default\n"
        'baseline = ".amplint-baseline.json"  # default, not there\n'
        "observations = true  # default, no .amplint/observations.json\n"
        "hints = true  # default\n",
        "",
    )
    assert amplint("check", "--show-settings", "--select", "AMP7O1").status == 2
    assert amplint("check", "--show-settings", "gone.py").status == 2


# ------------------------------------------------------------------------------ bad input

BAD_FILES = {
    "syntax.py": (b"x = 1\ny = (\n", "syntax.py:2:5 AMP000", "was never closed"),
    "nul.py": (b"x = 1\ny = 2\0\n", "nul.py:2:6 AMP000", "a NUL byte"),
    "encoding.py": (b"x = 1\ny = '\xff'\n", "encoding.py:2:6 AMP000", "not valid utf-8"),
    "cookie.py": (b"# coding: nowhere\n", "cookie.py:1:1 AMP000", "unknown encoding"),
    "nested.py": (b"x = " + b"(" * 10_000 + b")" * 10_000, "nested.py:1:", "nested parentheses"),
    "chain.py": (b"x = " + b"-" * 20_000 + b"1", "chain.py:1:1 AMP000", "nested too deeply"),
}


def test_files_that_cannot_be_read_are_findings_and_the_rest_goes_on(project: Path) -> None:
    for name, (data, _, _) in BAD_FILES.items():
        (project / name).write_bytes(data)
    (project / "good.py").write_text(LEGACY)
    (project / "loop").symlink_to(project, target_is_directory=True)

    ran = process("check")  # a crash of the interpreter would take only this process along

    assert ran.status == 1
    assert ran.err == ""
    lines = ran.out.splitlines()
    for name, (_, place, reason) in BAD_FILES.items():
        (line,) = (line for line in lines if line.startswith(f"{name}:"))
        assert line.startswith(place)
        assert reason in line
    assert any(line.startswith("good.py:3:6 AMP701") for line in lines)
    assert "7 files, 7 findings (6 correctness, 1 migration)" in lines[-1]
    assert ran.out.count("help: save it as UTF-8") == 3, "NUL, bytes of Latin-1, unknown encoding"


def test_what_python_can_just_read_is_checked(project: Path) -> None:
    """A chain of 900 operators is deeper than Python's own stack of calls."""
    (project / "chain.py").write_text(f"x = {'+'.join(['1'] * 900)}\n{LEGACY}")
    ran = process("check", "--format", "concise")
    assert (ran.status, ran.err) == (1, "")
    assert ran.out.startswith("chain.py:4:6: AMP701")


def test_a_name_that_is_not_utf_8_is_checked(amplint: Amplint, project: Path) -> None:
    (project / "a\udcff.py").write_text(LEGACY)
    for _ in range(2):  # the second run finds what the first one has kept
        ran = amplint("check", "--format", "concise")
        assert ran.status == 1
        assert ran.err == ""


def test_warnings_of_the_parser_are_not_amplints(project: Path) -> None:
    (project / "a.py").write_text("import torch\nx = '\\d', 1 is 1, torch.cuda.amp.GradScaler()\n")
    ran = process("check", PYTHONWARNINGS="always")
    assert (ran.status, ran.err) == (1, "")


def test_a_file_that_may_not_be_read_is_a_problem(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a.py").write_text(LEGACY)
    (project / "locked.py").write_text(LEGACY)
    contents = reading.contents

    def refuse(root: Path, path: str) -> bytes:  # tests may run as root, who may read everything
        if path == "locked.py":
            raise PermissionError(13, "Permission denied", path)
        return contents(root, path)

    monkeypatch.setattr(reading, "contents", refuse)
    ran = amplint("check", "--format", "concise")
    assert ran.status == 2
    assert ran.out.startswith("a.py:3:6: AMP701")
    assert ran.err == "amplint: error: locked.py: cannot be read: Permission denied\n"


def test_a_missing_path_is_2_and_the_rest_goes_on(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    ran = amplint("check", "a.py", "gone.py")
    assert ran.status == 2
    assert "AMP701" in ran.out
    assert ran.err == "amplint: error: gone.py: there is no such file or directory\n"


# ------------------------------------------------------------------------------ amplint's faults


def test_an_error_in_amplint_itself_is_2(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("amplint.run.engine.run", fail)
    (project / "a.py").write_text(LEGACY)
    ran = amplint("check")
    assert ran.status == 2
    assert "ZeroDivisionError" in ran.err
    assert f"unless you have changed {ROOT}, this is a bug in amplint" in ran.err
    assert "please report it" in ran.err
    assert "`amplint check` repeats it" in ran.err


def test_an_error_after_files_were_written_does_not_say_that_none_was(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("amplint.cli.fixing.show", fail)
    (project / "a.py").write_text(LEGACY)
    ran = amplint("fix", "--apply")
    assert ran.status == 2
    assert (project / "a.py").read_text() == MODERN
    assert "nothing was written" not in ran.err


def test_a_broken_rule_module_is_2_and_named(
    amplint: Amplint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise registry.RegistryError("amplint.rules.mine: the module has no docstring")

    monkeypatch.setattr(registry, "all_rules", fail)
    assert amplint("rules") == Ran(
        2, "", "amplint: error: amplint.rules.mine: the module has no docstring\n"
    )


def test_an_interrupt_is_130(amplint: Amplint, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("amplint.project.discover.select", interrupt)
    assert amplint("check") == Ran(130, "", "\namplint: interrupted\n")


# ------------------------------------------------------------------------------ standard input


def test_standard_input() -> None:
    ran = process("check", "-", "--format", "concise", stdin=LEGACY.encode())
    assert ran.status == 1
    assert ran.out.startswith("-:3:6: AMP701")


def test_standard_input_stands_for_a_file_of_the_project(project: Path) -> None:
    (project / "train.py").write_text(
        "import torch\nfrom helpers import log\n\nmodel = torch.nn.Linear(1, 1).cuda()\n"
        "loader = torch.utils.data.DataLoader([1])\nfor x in loader:\n"
        "    loss = model(x.cuda()).sum()\n    loss.backward()\n    log(loss)\n"
    )
    (project / "helpers.py").write_text("def log(loss):\n    pass\n")
    text = b"def log(loss):\n    print(loss.item())\n"
    named = process("check", "-", "--stdin-filename", "helpers.py", "--format=json", stdin=text)
    (found,) = json.loads(named.out)
    assert (found["code"], found["filename"], found["location"]["row"]) == (
        "AMP101",
        "helpers.py",
        2,
    )
    assert process("check", "-", stdin=text).status == 0, "without its callers it is cold"


def test_standard_input_of_a_wrong_encoding_is_2() -> None:
    ran = process("check", "-", "--stdin-filename", "a.py", stdin=b"x = '\xff'\n")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("amplint: error: a.py:1:6: not valid utf-8")


def test_standard_input_is_fixed_to_standard_output() -> None:
    latin = "# coding: latin-1\r\n# \xe9\r\n" + LEGACY.replace("\n", "\r\n")
    done = subprocess.run(
        [*COMMAND, "fix", "-"],
        input=latin.encode("latin-1"),
        capture_output=True,
        check=False,
    )
    fixed = "# coding: latin-1\r\n# \xe9\r\n" + MODERN.replace("\n", "\r\n")
    assert done.stdout == fixed.encode("latin-1")
    assert done.returncode == 0
    assert b"no findings" in done.stderr


# ------------------------------------------------------------------------------ fix


def test_fix_shows_the_diff_and_changes_nothing(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    ran = amplint("fix")
    assert ran.status == 1
    assert ran.out == (
        "--- a/a.py\n+++ b/a.py\n@@ -1,4 +1,4 @@\n import torch\n \n"
        "-with torch.cuda.amp.autocast():\n"
        '+with torch.amp.autocast("cuda"):\n'
        "     pass\n"
    )
    assert ran.err == "would fix 1 finding in 1 file; --apply writes the fixes\n"
    assert (project / "a.py").read_text() == LEGACY


def test_the_diff_is_one_that_git_applies(amplint: Amplint, project: Path) -> None:
    (project / "src").mkdir()
    (project / "src" / "a.py").write_bytes(LEGACY.replace("\n", "\r\n").encode().rstrip())
    (project / "src" / "b.py").write_text(LEGACY)
    diff = amplint("fix").out
    subprocess.run(["git", "apply", "-"], input=diff.encode(), check=True, cwd=project)
    assert amplint("check").status == 0


@pytest.mark.parametrize(
    "name", ["a\n+++ b/c.py", 'a"b.py', "a\\b.py", "a\x1b[31m.py", "é\x07.py", "a b.py", "é.py"]
)
def test_the_diff_of_a_file_of_any_name_is_one_that_git_applies(
    amplint: Amplint, project: Path, name: str
) -> None:
    file = project / f"{name}.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(LEGACY)
    diff = amplint("fix").out
    subprocess.run(["git", "apply", "-"], input=diff.encode(), check=True, cwd=project)
    assert file.read_text() == MODERN
    assert "\x1b" not in diff and "\x07" not in diff


def test_what_python_warns_of_is_no_part_of_what_fix_says(project: Path) -> None:
    """Each parse of the file warned of `1jif` once more."""
    (project / "a.py").write_text(f"x = 1jif y else 2\n{LEGACY}")
    command = [sys.executable, "-m", "amplint", "fix"]
    ran = subprocess.run(command, cwd=project, capture_output=True, encoding="utf-8", check=False)
    assert (ran.returncode, ran.stderr) == (
        1,
        "would fix 1 finding in 1 file; --apply writes the fixes\n",
    )


@pytest.mark.parametrize(
    ("encoding", "cookie"), [("utf-8-sig", ""), ("latin-1", "# coding: latin-1\n")]
)
def test_the_diff_has_the_encoding_of_the_file(
    capfdbinary: pytest.CaptureFixture[bytes], project: Path, encoding: str, cookie: str
) -> None:
    """It was UTF-8 without a BOM, and `git apply` refused it, with the diffs of all other files."""
    before, after = (f"{cookie}# Größe\n{text}".encode(encoding) for text in (LEGACY, MODERN))
    (project / "a.py").write_bytes(before)
    assert cli.main(["fix"]) == 1
    diff = capfdbinary.readouterr().out
    subprocess.run(["git", "apply", "-"], input=diff, check=True, cwd=project)
    assert (project / "a.py").read_bytes() == after


def test_fix_apply_writes_and_twice_changes_nothing_more(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    ran = amplint("fix", "--apply")
    assert ran == Ran(0, "1 file, no findings\n", "fixed 1 finding in 1 file\n")
    assert (project / "a.py").read_text() == MODERN
    again = amplint("fix", "--apply")
    assert again == Ran(0, "1 file, no findings\n", "nothing to fix\n")
    assert (project / "a.py").read_text() == MODERN


def test_what_is_left_after_fixing_decides_the_status(amplint: Amplint, project: Path) -> None:
    text = "import torch\n\ndef f(device):\n    return torch.rand(3).to(device)\n"
    (project / "a.py").write_text(text)
    safe = amplint("fix", "--apply")
    assert safe.status == 1
    assert "a.py:4:12: AMP501" in safe.out
    assert safe.err == "nothing to fix; --unsafe would fix 1 more\n"
    assert (project / "a.py").read_text() == text
    shown = "nothing to fix; 1 left, see `amplint check`; --unsafe would fix 1 more\n"
    assert amplint("fix").err == shown
    assert amplint("fix", "--apply", "--unsafe").status == 0
    assert (project / "a.py").read_text() == text.replace("(3).to(device)", "(3, device=device)")


def test_unused_suppressions_are_fixed_like_all_else(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(
        "# amplint: ignore-file[AMP601] no longer\n"
        + LEGACY.replace("():", "():  # noqa: E501, AMP101")
        + "    # amplint: ignore[AMP103]\n    x = 1  # amplint: ignore[AMP501]\n"
    )
    assert amplint("fix", "--apply").status == 0
    assert (project / "a.py").read_text() == MODERN.replace(":\n", ":  # noqa: E501\n") + (
        "    x = 1\n"
    )


def test_only_the_named_file_is_edited(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    (project / "b.py").write_text(LEGACY)
    assert amplint("fix", "--apply", "a.py").status == 0
    assert (project / "b.py").read_text() == LEGACY


def test_a_file_that_was_not_written_is_not_counted_and_its_findings_are_left(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.py", "b.py"):
        (project / name).write_text(LEGACY)
    access = os.access
    # (Tests may run as root, who may write what is read-only.)
    monkeypatch.setattr(
        "os.access", lambda path, mode: "b.py" not in str(path) and access(path, mode)
    )
    ran = amplint("fix", "--apply")
    assert ran.status == 2
    assert (project / "a.py").read_text() == MODERN
    assert (project / "b.py").read_text() == LEGACY
    assert ran.out.startswith("b.py:3:6 AMP701")
    assert ran.err == (
        "amplint: error: b.py: not fixed: cannot be written: the file is read-only\n"
        "fixed 1 finding in 1 file\n"
    )
    # Once nothing else is left to fix, that is not "nothing to fix".
    ran = amplint("fix", "--apply")
    assert ran.status == 2
    assert ran.err == (
        "amplint: error: b.py: not fixed: cannot be written: the file is read-only\n"
        "fixed nothing: 1 file not written\n"
    )


def test_a_fix_that_cannot_be_made_is_something_to_fix(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a.py").write_text(LEGACY)
    monkeypatch.setattr("amplint.fix.single_round.objection", lambda *_: "it would not parse")
    for arguments in ([], ["--apply"]):
        ran = amplint("fix", *arguments)
        assert "not fixed: it would not parse" in ran.err
        assert "no fix can be made" in ran.err
        assert "nothing to fix" not in ran.err


def test_the_counts_of_fix_add_up(amplint: Amplint, project: Path) -> None:
    """One of the fixes makes a line of which another rule speaks."""
    folder = ROOT / "fixtures" / "host_data_to_device_in_hot_path"
    for file in folder.glob("*.py"):
        (project / file.name).write_text(file.read_text())
    found = len(json.loads(amplint("check", "bad.py", "--format", "json").out))
    said = amplint("fix", "--unsafe", "bad.py").err
    numbers = re.fullmatch(
        r"would fix (\d+) findings in 1 file(?:, which reveals (\d+) others?)?; --apply writes "
        r"the fixes; (\d+) left, see `amplint check`\n",
        said,
    )
    assert numbers is not None
    fixed, new, left = (int(number or 0) for number in numbers.groups())
    assert new > 0
    assert found == fixed + left - new
    assert amplint("fix", "--unsafe", "--apply", "bad.py").err.startswith(f"fixed {fixed} findings")
    assert len(json.loads(amplint("check", "bad.py", "--format", "json").out)) == left


def test_fix_may_be_quiet(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    diff = amplint("fix", "-q")
    assert (diff.status, diff.err) == (1, "")
    assert diff.out.startswith("--- a/a.py")
    assert amplint("fix", "--apply", "--quiet") == Ran(0, "", "")
    assert (project / "a.py").read_text() == MODERN


# ------------------------------------------------------------------------------ the other commands


@pytest.mark.parametrize("word", ["AMP701", "amp701", "legacy-autocast", "legacy_autocast"])
def test_explain_prints_the_page(amplint: Amplint, word: str) -> None:
    ran = amplint("explain", word)
    assert ran.status == 0
    assert ran.out.startswith("AMP701 legacy-autocast\nmigration, on by default, since amplint 0.1")
    assert "\nWhat to do: use `torch.amp.autocast(device_type, ...)`.\n" in ran.out
    assert "Fix safety:" in ran.out
    for condition in registry.find("AMP701").safe_if:
        assert f"- {condition}\n" in ran.out


def test_explain_knows_the_rules_of_the_engine(amplint: Amplint) -> None:
    assert "AMP000 unparsable-file" in amplint("explain", "AMP000").out
    assert "AMP001 unused-suppression" in amplint("explain", "unused-suppression").out


def test_rules_lists_all(amplint: Amplint) -> None:
    codes = [rule.code for rule in registry.all_rules()]
    assert [line.split()[0] for line in amplint("rules").out.splitlines()] == codes
    entries = json.loads(amplint("rules", "--format", "json").out)
    assert [entry["code"] for entry in entries] == codes
    assert {entry["stage"] for entry in entries} <= {"stable", "preview"}
    assert all(entry["fix"] for entry in entries)
    assert set(entries[0]) == {
        "code", "name", "group", "default", "preview", "since", "torch", "until", "safe_if", "help",
        "url", "summary", "doc", "package", "stage", "fix",
    }  # fmt: skip


def test_version_and_help(amplint: Amplint) -> None:
    from amplint import __version__  # noqa: PLC0415

    assert amplint("--version") == Ran(0, f"amplint {__version__}\n", "")
    assert "Exit status: 0 nothing found, 1 findings, 2" in amplint("--help").out


def test_without_a_command_help_is_printed_and_the_status_is_2(amplint: Amplint) -> None:
    ran = amplint()
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == amplint("--help").out


def test_the_list_of_commands_cuts_no_sentence_short(amplint: Amplint) -> None:
    commands = amplint("--help").out.partition("Commands:\n")[2].splitlines()
    assert len(commands) >= 9
    assert all(line.endswith(".") and not line.endswith("...") for line in commands)


def test_help_waits_neither_for_libcst_nor_for_the_rules() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from amplint.cli.main import main;"
        "main(['--help']); late = {'libcst', 'amplint.rules', 'amplint.rule.packages', 'torch'};"
        "print(sorted(late & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.endswith("\n[]\n")


@pytest.mark.parametrize(
    ("text", "imported"),
    [
        ("import torch\n\n\ndef double(x):\n    return x + x\n", ["amplint.rules"]),
        (LEGACY, ["amplint.rules", "libcst"]),
    ],
)
def test_libcst_is_imported_for_candidates_alone(
    project: Path, text: str, imported: list[str]
) -> None:
    (project / "a.py").write_text(text)
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from amplint.cli.main import main;"
        "main(['check', '--no-cache', '.']);"
        "print(sorted({'libcst', 'amplint.rules', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.splitlines()[-1] == str(imported)


# ------------------------------------------------------------------------------ new


@pytest.fixture
def checkout(project: Path) -> Path:
    """What `amplint new` takes for a checkout of amplint."""
    (project / "rules").mkdir()
    (project / "rules" / "__init__.py").touch()
    mark = Path("amplint", "rule", "rule.py")  # by which a checkout is known
    assert (ROOT / mark).is_file()
    (project / mark).parent.mkdir(parents=True)
    (project / mark).touch()
    return project


def test_new_starts_a_rule_that_is_valid_and_finds_its_bad_line(
    amplint: Amplint, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = amplint("new", "AMP998", "my-own-pattern")
    assert ran.status == 0
    assert [line.split()[1] for line in ran.out.splitlines()] == [
        str(checkout / "rules" / "memory" / "my_own_pattern.py"),
        str(checkout / "fixtures" / "my_own_pattern" / "bad.py"),
        str(checkout / "fixtures" / "my_own_pattern" / "good.py"),
    ]
    monkeypatch.syspath_prepend(str(checkout / "rules" / "memory"))
    rule = registry.load("my_own_pattern")
    assert rule.witness == Unrun(NOT_WRITTEN, "amplint new")
    written = (checkout / "rules" / "memory" / "my_own_pattern.py").read_text()
    assert all(f"{kind.__name__}(" in written for kind in Witness.__subclasses__())
    rules = (*registry.all_rules(), rule)
    monkeypatch.setattr(registry, "all_rules", lambda: rules)

    found = amplint("check", "fixtures", "--select", "ALL", "--preview", "--format", "json")

    bad = checkout / "fixtures" / "my_own_pattern" / "bad.py"
    marked = [
        row
        for row, line in enumerate(bad.read_text().splitlines(), 1)
        if "# expect: AMP998" in line
    ]
    assert [(one["code"], one["location"]["row"]) for one in json.loads(found.out)] == [
        ("AMP998", row) for row in marked
    ]
    assert marked


@pytest.mark.parametrize(
    ("code", "name", "sentence"),
    [
        ("AMP9", "mine", "AMP9 is not a code like AMP101"),
        ("AMP998", "My Rule", "My Rule is not a name like"),
        ("AMP701", "mine", "AMP701 legacy-autocast exists already"),
        ("AMP998", "legacy_autocast", "AMP701 legacy-autocast exists already"),
    ],
)
def test_new_refuses(amplint: Amplint, checkout: Path, code: str, name: str, sentence: str) -> None:
    ran = amplint("new", code, name)
    assert ran.status == 2
    assert sentence in ran.err
    assert not (checkout / "fixtures").exists()


def test_new_overwrites_nothing(amplint: Amplint, checkout: Path) -> None:
    mine = checkout / "rules" / "memory" / "mine.py"
    mine.parent.mkdir()
    mine.write_text("precious")
    assert "exists already" in amplint("new", "AMP998", "mine").err
    assert mine.read_text() == "precious"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device is always full here")
def test_output_to_a_full_disk_is_one_sentence(project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-m", "amplint", "check", "--no-cache", "."],
            cwd=project,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert (done.returncode, done.stderr) == (
        2,
        "amplint: error: the output cannot be written: No space left on device\n",
    )


@pytest.mark.skipif(os.name != "posix", reason="closes a stream as a shell does")
@pytest.mark.parametrize(
    ("closed", "file", "status"), [(0, "-", 0), (1, "a.py", 1), (2, "a.py", 1)]
)
def test_a_closed_stream_is_an_empty_one(
    project: Path, closed: int, file: str, status: int
) -> None:
    (project / "a.py").write_text(LEGACY)
    command = f'exec "$0" -m amplint check --no-cache {file} {closed}>&-'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr) == (status, "")
    assert ("AMP701" in done.stdout) == (closed == 2)
