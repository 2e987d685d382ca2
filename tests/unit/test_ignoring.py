"""Suppression comments that are written: where they stand, and that the program stays as it was."""

import ast
import re
import tokenize
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.adoption import ignoring
from amplint.findings.finding import Finding, Group
from amplint.findings.rows import Rows
from amplint.findings.suppressions import Suppressions
from amplint.project.line_length import DEFAULT, chosen_length, line_length
from amplint.util.positions import Position, Span
from amplint.util.text import Text
from tests.command import Amplint

REASON = "known, issue 12"
SCALER = "torch.cuda.amp.GradScaler()"
LONG = "torch.cuda.amp.GradScaler(init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5)"
COMMENT = f"# amplint: ignore[AMP702] {REASON}"


pytestmark = pytest.mark.usefixtures("project")


# Code, and the same with comments. `S` is a scaler, `L` one in a long line, `C` the comment.
PLACES = {
    "at the end of the line": ("s = S\n", "s = S  C\n"),
    "no line end at the end": ("s = S", "s = S  C"),
    "blanks at the end": ("s = S  \n", "s = S  C\n"),
    "after a comment": ("s = S  # it scales\n", "s = S  # it scales  C\n"),
    "after remarks to other tools": (
        "s = S  # type: ignore[x]  # noqa: E501\n",
        "s = S  # type: ignore[x]  # noqa: E501  C\n",
    ),
    "a long line": ("if x:\n    s = L\n", "if x:\n    C\n    s = L\n"),
    "a long line with tabs": ("if x:\n\ts = L\n", "if x:\n\tC\n\ts = L\n"),
    "a long comment": (
        f"s = S  # {'x' * 60}\n",
        f"C\ns = S  # {'x' * 60}\n",
    ),
    "a long elif": (
        "if x:\n    pass\nelif L:\n    pass\n",
        "if x:\n    pass\nC\nelif L:\n    pass\n",
    ),
    "a long decorator": (
        "@f(L)\ndef g():\n    pass\n",
        "C\n@f(L)\ndef g():\n    pass\n",
    ),
    "inside of brackets": ("s = [\n    1,\n    S,\n]\n", "s = [\n    1,\n    S,  C\n]\n"),
    "a backslash": ("s = \\\n    S\n", "s = \\\n    S  C\n"),
    "before a backslash": ("s = S \\\n    or 1\n", "s = S \\\n    or 1  C\n"),
    "a string that begins there": ('s = S, """\nx\n"""\n', 's = S, """\nx\n"""  C\n'),
    "a string that ends there": ('s = """\nx\n""", S\n', 's = """\nx\n""", S  C\n'),
    "an f-string": ('s = f"""{S}\n{x}\n"""\n', 's = f"""{S}\n{x}\n"""  C\n'),
    "in an f-string": ('s = f"""\n{S}\n"""\n', 's = f"""\n{S}\n"""  C\n'),
    "two on a line": ("s = S, S\n", "s = S, S  C\n"),
    "statements with semicolons": (
        's = S; t = """\n"""; u = S\n',
        's = S; t = """\n"""; u = S  C\n',
    ),
    "a body on the same line": ("if x: s = S\n", "if x: s = S  C\n"),
    "other line ends": ("x = 1\r\ns = L\r\n", "x = 1\r\nC\r\ns = L\r\n"),
    "a reason of its own": (
        "s = S  # amplint: ignore[AMP101] why\n",
        f"s = S  # amplint: ignore[AMP101, AMP702] why; {REASON}\n",
    ),
    "no reason": (
        "s = S  # amplint: ignore[AMP101]\n",
        f"s = S  # amplint: ignore[AMP101, AMP702] {REASON}\n",
    ),
    "the same reason": (
        f"s = S  # amplint: ignore[AMP101] {REASON}  # noqa: E501\n",
        f"s = S  # amplint: ignore[AMP101, AMP702] {REASON}  # noqa: E501\n",
    ),
    "a comment on a line of its own": (
        "# amplint: ignore[AMP101]\ns = S\n",
        f"# amplint: ignore[AMP101, AMP702] {REASON}\ns = S\n",
    ),
    "a comment at the end of the statement": (
        "s = (\n    S,\n)  # amplint: ignore[AMP101]\n",
        f"s = (\n    S,\n)  # amplint: ignore[AMP101, AMP702] {REASON}\n",
    ),
    "a comment for another file": (
        "# amplint: ignore-file[AMP101]\ns = S\n",
        "# amplint: ignore-file[AMP101]\ns = S  C\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), PLACES.values(), ids=PLACES)
def test_places(amplint: Amplint, project: Path, before: str, after: str) -> None:
    head = "import torch" + ("\r\n" if "\r\n" in before else "\n")
    (project / "ruff.toml").write_text("line-length = 120")
    file = project / "a.py"
    before, after = head + spelled(before), head + spelled(after)
    file.write_bytes(before.encode())
    options = ["--ignore", "AMP001"]  # of the comments that are here before
    ran = amplint("check", "--add-ignores", REASON, *options)
    assert file.read_bytes().decode() == after
    assert ran.status == 0
    assert ran.err.startswith("amplint: suppressed ")
    assert ran.err.endswith(" in 1 file\n")
    assert ast.dump(ast.parse(before)) == ast.dump(ast.parse(after))
    assert amplint("check", *options).status == 0
    again = amplint("check", "--add-ignores", REASON, *options)
    assert again.err == "amplint: suppressed 0 findings in 0 files\n"
    assert file.read_bytes().decode() == after


def spelled(text: str) -> str:
    """The text with the words in place of the single letters S, L and C."""
    pieces = (("S", SCALER), ("L", LONG), ("C", COMMENT))
    for letter, word in pieces:
        text = re.sub(rf"\b{letter}\b", lambda _, word=word: word, text)
    return text


# ------------------------------------------------------------------------------ any place at all

STATEMENTS = (
    "a = b",
    "a = b; c = d",
    "if a: b",
    "a = \\\n  b",
    "a = b \\\n  + c",
    'a = """\n  b\n"""',
    'a = """x""" + c, """\n"""; d = e',
    'a = f"""{b}\n {c}"""',
    "a = f'{b}' 'c'",
    "a = [\n  b,  # c\n\n  d,\n]",
    "if a:\n  b\nelif c:\n  d\nelse:\n  e",
    "@a\n@b(c)\ndef d(\n  e,\n  f=g,\n): h",
    "with a as b, c(\n  d\n) as e:\n  # f\n  g",
    "class A:\n\n  # b\n  c = d  # e",
    "a  # amplint: ignore[AMP101] b",
    "# amplint: ignore[AMP101]\na(\n  b\n)",
    "a  # amplint: ignore[AMP101]  # noqa: E1",
    "a = b  # noqa",
    "# amplint: ignore-file[AMP101]",
    f"a = {'b' * 40}({'c' * 40})",
)
WORDS = frozenset({tokenize.NAME, tokenize.OP, tokenize.STRING})


def words(text: Text) -> list[tokenize.TokenInfo]:
    return [token for token in Rows(text).tokens if token.type in WORDS]


def finding(token: tokenize.TokenInfo, code: str) -> Finding:
    (row, column), (end_row, end_column) = token.start, token.end
    span = Span(Position(row, column + 1), Position(end_row, end_column + 1))
    return Finding(code, "name", Group.PRECISION, "a.py", span, "it is so")


@given(st.data())
def test_a_comment_hides_what_it_is_written_for_and_changes_no_code(data: st.DataObject) -> None:
    source = "\n".join(data.draw(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=5)))
    text = Text(source + data.draw(st.sampled_from(["", "\n"])))
    tokens = words(text)
    if not tokens:
        return
    chosen = data.draw(st.lists(st.integers(0, len(tokens) - 1), min_size=1, max_size=4))
    codes = [data.draw(st.sampled_from(["AMP101", "AMP201"])) for _ in chosen]
    width = data.draw(st.sampled_from([30, 60, 200]))
    shown = [
        one
        for one in map(finding, (tokens[place] for place in chosen), codes)
        if not Suppressions(text).suppresses(one)
    ]
    new = Text(ignoring.commented(text, shown, "why", width))
    assert ast.dump(ast.parse(new.text)) == ast.dump(ast.parse(text.text))
    assert [token.string for token in words(new)] == [token.string for token in tokens]
    for place, code in zip(chosen, codes, strict=True):
        assert Suppressions(new).suppresses(finding(words(new)[place], code))


# ------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("", "give a reason"),
        ("  ", "give a reason"),
        ("one\ntwo", "one line of printable text"),
        ("\x1b[31m", "one line of printable text"),
        ("[AMP101]", "would mean something else in a comment"),
        ("# noqa", "would mean something else in a comment"),
        ("see # amplint: ignore-file", "would mean something else in a comment"),
    ],
)
def test_a_reason_that_cannot_stand_in_a_comment_is_2(
    amplint: Amplint, project: Path, reason: str, sentence: str
) -> None:
    source = f"import torch\ns = {SCALER}\n"
    (project / "a.py").write_text(source)
    ran = amplint("check", "--add-ignores", reason)
    assert (ran.status, ran.out) == (2, "")
    assert sentence in ran.err
    assert (project / "a.py").read_text() == source


def test_a_number_of_an_issue_may_stand_in_a_reason(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(f"import torch\ns = {SCALER}\n")
    assert amplint("check", "--add-ignores", "see #12").status == 0


@pytest.mark.parametrize(
    ("first", "reason", "why"),
    [
        ("# coding: latin-1", "known → gone", "cannot be written in iso-8859-1"),
        ("", "coding: ascii", "the file would be read in another encoding"),
    ],
)
def test_a_comment_that_would_break_the_file_is_refused_and_the_place_named(
    amplint: Amplint, project: Path, first: str, reason: str, why: str
) -> None:
    source = f"{first}\nimport torch; s = {LONG}\n"
    (project / "a.py").write_text(source)
    (project / "b.py").write_text(f"import torch\n\n\ns = {SCALER}\n")
    ran = amplint("check", "--add-ignores", reason)
    assert ran.status == 2
    assert f"error: a.py:2: AMP702 not suppressed: {why}" in ran.err.replace("the new text ", "")
    assert (project / "a.py").read_text() == source
    assert reason in (project / "b.py").read_text()
    assert "a.py:2:" in ran.out


@pytest.mark.parametrize(
    ("source", "code"),
    [("x = (\n", "AMP000"), ("x = 1  # amplint: ignore[AMP701]\n", "AMP001")],
)
def test_what_no_comment_should_hide_is_left(
    amplint: Amplint, project: Path, source: str, code: str
) -> None:
    (project / "a.py").write_text(source)
    ran = amplint("check", "--add-ignores", REASON)
    assert ran.status == 1
    assert code in ran.out
    assert (project / "a.py").read_text() == source


def test_a_file_that_cannot_be_written_is_2(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a.py").write_text(f"import torch\ns = {SCALER}\n")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("amplint.fix.writing.prepared", refuse)
    ran = amplint("check", "--add-ignores", REASON)
    assert ran.status == 2
    assert "AMP702" in ran.out
    assert "a.py: cannot be written: Permission denied" in ran.err
    assert "suppressed 0 findings" in ran.err


def test_standard_input_is_no_file(amplint: Amplint) -> None:
    assert amplint("check", "-", "--add-ignores", REASON).status == 2


def test_what_is_known_gets_no_comment_and_stays_known(amplint: Amplint, project: Path) -> None:
    both = "import torch\n\nwith torch.cuda.amp.autocast(): s = torch.cuda.amp.GradScaler()\n"
    (project / "a.py").write_text(both)
    amplint("baseline", "--select", "AMP701")
    assert amplint("check", "--add-ignores", REASON).status == 0
    assert (project / "a.py").read_text() == both.replace("with", f"{COMMENT}\nwith")
    assert amplint("check").out == "1 file, no new findings; 1 known finding left out\n"


# ------------------------------------------------------------------------------ line length


@pytest.mark.parametrize(
    ("name", "content", "length"),
    [
        ("pyproject.toml", "[tool.ruff]\nline-length = 99", 99),
        ("pyproject.toml", "[tool.black]\nline-length = 77", 77),
        ("pyproject.toml", "[tool.black]\nline-length = 77\n[tool.ruff]\nline-length = 99", 99),
        ("ruff.toml", "line-length = 120", 120),
        (".ruff.toml", "line-length = 121", 121),
        (".flake8", "[flake8]\nmax-line-length = 90", 90),
        ("setup.cfg", "[pycodestyle]\nmax-line-length = 91", 91),
        ("tox.ini", "[flake8]\nmax_line_length = 92\nmax-line-length = 93", 93),
        ("pyproject.toml", "[tool.black]", DEFAULT),
        ("pyproject.toml", "[tool.ruff]\nline-length = 'x'", DEFAULT),
        ("pyproject.toml", "[tool.ruff]\nline-length = true", DEFAULT),
        ("pyproject.toml", "[tool]\nruff = 3", DEFAULT),
        ("pyproject.toml", "[tool.ruff", DEFAULT),
        ("setup.cfg", "max-line-length = 91", DEFAULT),
        ("setup.cfg", "[flake8]\nmax-line-length = %(x)s", DEFAULT),
        ("tox.ini", "[flake8]\nmax-line-length = 0", DEFAULT),
    ],
)
def test_the_line_length_of_a_project(project: Path, name: str, content: str, length: int) -> None:
    (project / name).write_text(content)
    (project / "src").mkdir()
    assert line_length(project / "src") == length


def test_settings_of_a_formatter_hide_those_of_the_directories_above(project: Path) -> None:
    (project / "src").mkdir()
    (project / "pyproject.toml").write_text("[tool.ruff]\nline-length = 99")
    (project / "src" / "pyproject.toml").write_text(
        "[tool.black]\nskip-string-normalization = true"
    )
    assert chosen_length(project) == 99
    assert chosen_length(project / "src") == DEFAULT


def test_without_settings_no_length_is_chosen(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.mypy]")
    assert chosen_length(project) is None


def test_a_line_is_as_long_as_the_project_allows(amplint: Amplint, project: Path) -> None:
    comment = f"s = {LONG}  {COMMENT}"
    for length, same_line in ((len(comment), True), (len(comment) - 1, False)):
        (project / "pyproject.toml").write_text(f"[tool.ruff]\nline-length = {length}\n")
        (project / "a.py").write_text(f"import torch\ns = {LONG}\n")
        amplint("check", "--add-ignores", REASON)
        assert (comment in (project / "a.py").read_text()) is same_line
