"""The parts of the language server that talk to nobody."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amplint.cli.main import main
from amplint.server.addresses import path_of, uri_of
from amplint.server.documents import OpenText, TextChange
from amplint.server.explaining import explain
from amplint.server.looking import Looker, SupersededError
from amplint.server.messages import (
    HEAD,
    Answer,
    Explain,
    Explained,
    JudgedText,
    LogLine,
    Look,
    LookEnded,
    Open,
    Repaired,
    Supersede,
    TextEdit,
    answer_in,
    body_from,
    framed,
    request_in,
)
from amplint.server.open_notebooks import OpenNotebook
from amplint.server.protocol_positions import (
    ENCODINGS,
    EditorPlace,
    Encoding,
    Range,
    characters,
    offset_of,
    place_of,
    range_of,
    units,
)
from amplint.server.schedule import Schedule
from amplint.server.showing import differences
from amplint.util.positions import Position, Span
from amplint.util.text import Text

Kind = TypeVar("Kind")

# Letters of one to four bytes, all line ends, and what ends a line for `str.splitlines` alone.
TEXTS = st.text(st.sampled_from("aé€😀\n\r\f\u2028"), max_size=20)
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=TEXTS)
def test_units_are_those_of_the_codec(encoding: Encoding, text: str) -> None:
    codec, size = CODECS[encoding]
    assert units(text, encoding) == len(text.encode(codec)) // size


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(content=TEXTS, data=st.data())
def test_a_place_and_back(encoding: Encoding, content: str, data: st.DataObject) -> None:
    text = Text(content)
    offset = data.draw(st.integers(0, len(content)))
    if content[offset - 1 : offset + 1] == "\r\n":
        offset -= 1  # between the two there is no place of its own
    assert offset_of(text, place_of(text, text.position(offset), encoding), encoding) == offset


def test_places_that_are_none() -> None:
    """An editor may name a place behind the end of a line or of the text, or within a character."""
    text = Text("a😀b\r\nc")
    assert offset_of(text, EditorPlace(0, 99), "utf-16") == 3
    assert offset_of(text, EditorPlace(9, 0), "utf-16") == len(text.text)
    assert offset_of(text, EditorPlace(0, 2), "utf-16") == 1
    assert characters("a😀b", 3, "utf-8") == 1


def test_the_range_of_a_span() -> None:
    span = Span(Position(2, 2), Position(2, 3))
    assert range_of(Text("x\n😀y"), span, "utf-16") == Range(EditorPlace(1, 2), EditorPlace(1, 3))


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(content=TEXTS, new=TEXTS, data=st.data())
def test_a_change_of_a_range(
    encoding: Encoding, content: str, new: str, data: st.DataObject
) -> None:
    text = Text(content)
    offsets = st.integers(0, len(content)).filter(
        lambda offset: content[offset - 1 : offset + 1] != "\r\n"
    )
    start, end = sorted((data.draw(offsets), data.draw(offsets)))
    span = Span(text.position(start), text.position(end))
    change = TextChange(new, range_of(text, span, encoding))
    changed = OpenText.opened("u", 1, content).changed(2, [change], encoding)
    assert changed.content.text == content[:start] + new + content[end:]
    assert changed.version == 2


def test_changes_come_one_upon_the_other() -> None:
    insert = TextChange("b", Range(EditorPlace(0, 1), EditorPlace(0, 1)))
    changed = OpenText.opened("u", 1, "x").changed(2, [TextChange("a"), insert, insert], "utf-16")
    assert changed.content.text == "abb"


@given(before=TEXTS, after=TEXTS)
def test_differences_make_the_new_text(before: str, after: str) -> None:
    text = before
    for start, end, new in sorted(differences(Text(before), Text(after)), reverse=True):
        text = text[:start] + new + text[end:]
    assert text == after


def test_differences_are_lines() -> None:
    before = Text("a\nb\nc\nd\n")
    assert [*differences(before, Text("a\nB\nc\n"))] == [(2, 4, "B\n"), (6, 8, "")]


# ------------------------------------------------------------------------------------- addresses


@pytest.mark.skipif(os.name == "nt", reason="names are no bytes there")
@example(name=b"...")
@given(
    name=st.binary(min_size=1).filter(
        lambda name: not {0, ord("/")} & {*name} and name not in (b".", b"..")
    )
)
def test_a_path_and_back(name: bytes) -> None:
    """Whatever bytes a file is called by."""
    path = Path("/") / os.fsdecode(name)
    uri = uri_of(path)
    assert uri.isascii()
    assert path_of(uri) == str(path)
    # An editor may write what it likes in hexadecimal digits, of whatever case.
    spelled = "".join(f"%{byte:02x}" for byte in name)
    assert path_of(f"file:///{spelled}") == path_of(f"file://localhost/{spelled}") == f"{path}"


def test_addresses_as_editors_write_them() -> None:
    path = "/p/a b#c%41?d;e\u00e9\u6f22&f=g+h.py"
    for uri in (
        "file:///p/a%20b%23c%2541%3Fd%3Be%C3%A9%E6%BC%A2%26f%3Dg%2Bh.py",  # VS Code, Emacs
        "file:///p/a%20b%23c%2541%3Fd;e%C3%A9%E6%BC%A2&f=g+h.py",  # Neovim
        "file:///p/a b%23c%2541%3Fd;e\u00e9\u6f22&f=g+h.py",  # none that is right
    ):
        assert path_of(uri) == path
    assert uri_of(Path(os.fsdecode(b"/p/\xff\xc3\xa9"))) == "file:///p/%FF%C3%A9"
    assert path_of("untitled:Untitled-1") == path_of("http://host/a.py") == ""
    assert path_of("vscode-notebook-cell:/p/a.ipynb#W0sZmlsZQ%3D%3D") == ""


# ------------------------------------------------------------------------------------- schedule


def test_one_look_at_a_time_and_the_last_touched_first() -> None:
    schedule = Schedule()
    schedule.touch(["a", "b"])
    assert schedule.next() == (1, "b")
    assert schedule.next() is None
    schedule.done(1, ["b"])
    assert schedule.next() == (2, "a")
    schedule.done(2, ["a"])
    assert schedule.next() is None


def test_a_look_judges_other_texts_as_well() -> None:
    schedule = Schedule()
    schedule.touch(["a", "b"])
    schedule.next()
    schedule.done(1, ["b", "a"])
    assert schedule.next() is None


def test_a_text_that_has_changed_since_is_looked_at_again() -> None:
    schedule = Schedule()
    schedule.touch(["a"])
    assert schedule.next() == (1, "a")
    assert schedule.superseded() is None
    schedule.touch(["b"])
    assert schedule.superseded() is None  # another text
    schedule.touch(["a"])
    assert schedule.superseded() == 1
    schedule.done(1, ["a"])
    assert schedule.next() == (2, "a")


def test_a_look_that_never_ends_is_not_begun_again() -> None:
    schedule = Schedule()
    schedule.touch(["b", "a"])
    assert schedule.next() == (1, "a")
    schedule.failed()
    assert schedule.next() == (2, "b")
    schedule.forget("b")
    schedule.done(1, ["b"])  # the answer to another look
    schedule.done(2, ["b"])
    assert schedule.next() is None


# ------------------------------------------------------------------------------------- messages


def test_messages_go_through_a_stream() -> None:
    look = Look(7, "u", {"u": Open("😀\n")}, "utf-8")
    stream = io.BytesIO(framed(look) + framed(Supersede(7)))
    found = [request_in(body) for body in iter(lambda: body_from(stream), None)]
    assert found == [look, Supersede(7)]
    assert body_from(io.BytesIO(framed(look)[:-1])) is None


# ------------------------------------------------------------------------------------- looks

WAITS = """\
def train(model, loader):
    for batch in loader:
        loss = model(batch.cuda()).mean()
        loss.backward()
        print(loss.item())
"""
CLASHING = """\
from torch.cuda.amp import GradScaler, autocast

scaler = GradScaler()
with autocast():
    pass
"""


LEGACY_CELL = ["with torch.cuda.amp.autocast():\n", "    pass"]


def looked(looker: Looker, *files: Path, **texts: str) -> list[Answer]:
    opened = {file.as_uri(): Open(texts[file.stem]) for file in files}
    return [*looker.look(Look(1, files[0].as_uri(), opened, "utf-16"))]


def one(kind: type[Kind], answers: Iterable[object]) -> Kind:
    """The only answer of a kind."""
    [found] = (each for each in answers if isinstance(each, kind))
    return found


def judged(answers: list[Answer]) -> dict[str, list[str]]:
    return {
        answer.uri.rpartition("/")[2]: [item.code for item in answer.items]
        for answer in answers
        if isinstance(answer, JudgedText)
    }


def test_a_project_stays_in_memory(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    looker = Looker()
    file, other = tmp_path / "a.py", tmp_path / "b.py"
    other.write_text("x = 1\n")
    for text, codes in (
        (WAITS, ["AMP101"]),
        ("\n" + WAITS, ["AMP101"]),
        ("", []),
        (WAITS, ["AMP101"]),
    ):
        answers = looked(looker, file, a=text)
        assert judged(answers) == {"a.py": codes}
        assert answers[-1] == LookEnded(1, [file.as_uri()])
        # The file as it was is forgotten.
        assert sorted(looker._memory.indexed) == [("a.py", text), ("b.py", "x = 1\n")]
    [finding] = one(JudgedText, answers).items
    assert finding.range == Range(EditorPlace(4, 14), EditorPlace(4, 25))


NAMES = [
    b"a b.py", b"#.py", b"a#b%41%.py", b"%ff.py", b"a?b=c&d.py", b"a;b:c.py", b"+@!$'\"\\.py",
    "größe.py".encode(), "漢字😀.py".encode(), b"caf\xe9.py", b"\xff.py", b"\xed\xa0\x80.py",
    b"d\xff #/x.py", b"tab\t.py", b"line\n.py", b"\x1b[31m.py",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_files_whatever_they_are_called(tmp_path: Path, name: bytes) -> None:
    """Both what is open and what a finding in it rests on; and what is said when that fails."""
    (tmp_path / "pyproject.toml").touch()
    try:
        path = tmp_path / os.fsdecode(name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(WAITS)
    except (OSError, UnicodeError):
        pytest.skip("the file system has no such names")
    uri = uri_of(path)
    opened = {uri: Open(WAITS.replace("loss.item()", "loss.tolist()"))}
    answers = [*Looker().look(Look(1, uri, opened, "utf-16"))]
    assert all(answer_in(framed(answer)[HEAD.size :]) == answer for answer in answers)
    judged = one(JudgedText, answers)
    [item] = judged.items
    assert item.uri == uri and "loss.tolist()" in item.message
    assert {other.uri for other in item.related} == {uri}
    (path.parent / "pyproject.toml").write_text("[tool.amplint]\nselect = 3\n")
    answers = [*Looker().look(Look(2, uri, opened, "utf-16"))]
    assert all(answer_in(framed(answer)[HEAD.size :]) == answer for answer in answers)
    told = one(LogLine, answers)
    assert "`select`" in told.text


MODELS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.pick = lambda x: x * SCALE
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.pick(self.layer(x))


SCALE = 2
net = Net().cuda()
"""
EDITED = [
    MODELS + WAITS,
    MODELS.replace("Net", "Other") + WAITS,
    MODELS.replace("SCALE = 2", "SCALE = 3") + WAITS.replace("model(", "net("),
    "",
    WAITS.replace("print(loss.item())", "pass") + MODELS.replace("x * SCALE", "x.item()"),
    MODELS.replace("    def forward", "    def more(self):\n        pass\n\n    def forward")
    + WAITS,
]


def test_edits_beside_a_file_whose_name_is_no_text(tmp_path: Path) -> None:
    """Ids of functions and classes begin with it, and are in all that is compared after an edit."""
    (tmp_path / "pyproject.toml").touch()
    odd = tmp_path / os.fsdecode(b"caf\xe9.py")
    try:
        odd.write_text(EDITED[0])
    except (OSError, UnicodeError):
        pytest.skip("the file system has no such names")
    plain, looker = tmp_path / "a.py", Looker()
    for number, text in enumerate(EDITED):
        other = EDITED[number - 1]
        for texts in ((text, other), (text, text), (other, text)):
            opened = dict(zip(map(uri_of, (odd, plain)), map(Open, texts), strict=True))
            look = Look(1, uri_of(odd), opened, "utf-16")
            warm, cold = [*looker.look(look)], [*Looker().look(look)]
            assert warm == cold
            assert not any(isinstance(answer, LogLine) for answer in warm)


def test_a_place_in_a_file_that_is_not_open(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "total.py").write_text("def total(x):\n    print(x.item())\n    return x\n")
    caller = tmp_path / os.fsdecode("ü #%41.py".encode())
    caller.write_text(
        "from total import total\n" + WAITS.replace("print(loss.item())", "total(loss)")
    )
    uri = uri_of(tmp_path / "total.py")
    look = Look(1, uri, {uri: Open((tmp_path / "total.py").read_text())}, "utf-16")
    judged = one(JudgedText, Looker().look(look))
    [item] = judged.items
    assert uri_of(caller) in {other.uri for other in item.related}
    assert path_of(uri_of(caller)) == str(caller)


def test_all_safe_fixes_at_once(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=2.4")
    answers = looked(Looker(), tmp_path / "a.py", a=CLASHING)
    repaired = one(Repaired, answers)
    assert len(repaired.repairs) == 2
    assert {repair.safety for repair in repaired.repairs.values()} == {"safe"}
    text = Text(CLASHING)
    [edits] = repaired.all_safe.values()
    for edit in sorted(edits, key=lambda edit: edit.range, reverse=True):
        start, end = (offset_of(text, place, "utf-16") for place in edit.range)
        text = Text(text.text[:start] + edit.text + text.text[end:])
    assert "torch.cuda.amp" not in text.text


def test_a_notebook_is_shown_and_mended_in_its_json(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    cells = [
        {"cell_type": "code", "metadata": {}, "source": source, "outputs": []}
        for source in (["%matplotlib inline\n", "import torch"], LEGACY_CELL)
    ]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}, indent=1)
    answers = looked(Looker(), tmp_path / "a.ipynb", a=text)
    assert judged(answers) == {"a.ipynb": ["AMP701"]}
    (item,), repaired = one(JudgedText, answers).items, one(Repaired, answers)
    start, end = (offset_of(Text(text), place, "utf-16") for place in item.range)
    assert text[start:end] == "torch.cuda.amp.autocast()"
    (edit,) = repaired.repairs[0].edits
    start, end = (offset_of(Text(text), place, "utf-16") for place in edit.range)
    mended = json.loads(text[:start] + edit.text + text[end:])["cells"]
    assert mended[0]["source"] == cells[0]["source"]
    assert mended[1]["source"] == ['with torch.amp.autocast("cuda"):\n', "    pass"]


def test_a_cell_by_itself_is_no_program(tmp_path: Path) -> None:
    """As VS Code opens the cells of a notebook."""
    uri = f"vscode-notebook-cell:{tmp_path}/a.ipynb#W0sZmlsZQ%3D%3D"
    look = Look(1, uri, {uri: Open("%time x = torch.cuda.amp.autocast()\n")}, "utf-16")
    assert [*Looker().look(look)] == [JudgedText(1, uri, [], {}), LookEnded(1, [uri])]


NOTEBOOK = [
    "# 😀\nimport torch\nfrom torch.cuda.amp import GradScaler",
    "# A heading",
    "%time scaler = GradScaler()",
    "%%bash\nls",
    "def total(losses):\r\n    print('😀', losses.item())\r\n    return losses",
    "x = (",
    "for batch in loader:\n    loss = total(model(batch.cuda()).mean())\n    loss.backward()",
    "with torch.cuda.amp.autocast():\n    pass",
]


def test_cells_show_what_check_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each finding in its cell, also those that rest on other cells."""
    (tmp_path / "pyproject.toml").touch()
    file = tmp_path / "a.ipynb"
    kinds = ["markdown" if source.startswith("# A") else "code" for source in NOTEBOOK]
    cells = [
        {"cell_type": kind, "metadata": {}, "source": source, "outputs": []}
        for kind, source in zip(kinds, NOTEBOOK, strict=True)
    ]
    file.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    main(["check", str(file), "--format", "json"])
    found = sorted(
        (f"cell-{each['cell']}", each["code"], *each["location"].values())
        for each in json.loads(capsys.readouterr().out)
    )
    assert {cell for cell, *_ in found} == {"cell-3", "cell-5", "cell-6", "cell-8"}

    uris = [f"cell-{number}" for number in range(1, len(NOTEBOOK) + 1)]
    texts = [OpenText.opened(uri, 1, text) for uri, text in zip(uris, NOTEBOOK, strict=True)]
    empty = OpenNotebook(file.as_uri(), 0, (), {})
    python = [text for text in texts if text.uri != "cell-2"]
    notebook = empty.rearranged(0, 0, uris, python)
    for address in (file.as_uri(), "untitled:Untitled-1.ipynb", "file:///a.other"):
        look = Look(1, address, {address: notebook.as_open()}, "utf-32")
        judged = one(JudgedText, Looker().look(look))
        assert judged.uri == address
        assert found == sorted(
            (item.uri, item.code, item.range.start.line + 1, item.range.start.character + 1)
            for item in judged.items
        )
        [read] = [item for item in judged.items if item.code == "AMP101"]
        assert {other.uri for other in read.related} == {"cell-7"}


def test_fixes_of_cells_are_edits_of_cells(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=2.4")
    (tmp_path / "pyproject.toml").touch()
    uri = (tmp_path / "a.ipynb").as_uri()
    sources = {
        "a": "from torch.cuda.amp import GradScaler\nimport torch\r\n",
        "b": "%matplotlib inline\n%time scaler = GradScaler()",
        "c": "with torch.cuda.amp.autocast():\n    pass",
    }
    texts = [OpenText.opened(name, 1, text) for name, text in sources.items()]
    notebook = OpenNotebook(uri, 0, (), {}).rearranged(0, 0, list(sources), texts)
    look = Look(1, uri, {uri: notebook.as_open()}, "utf-16")
    repaired = one(Repaired, Looker().look(look))
    mended = {
        "a": "from torch.amp import GradScaler\nimport torch\r\n",
        "b": '%matplotlib inline\n%time scaler = GradScaler("cuda")',
        "c": 'with torch.amp.autocast("cuda"):\n    pass',
    }
    assert applied_to(sources, repaired.all_safe[uri]) == mended
    # The fix of the scaler changes its import, too; that of the region stays in its cell.
    assert set(repaired.all_safe) == {uri, "a", "b", "c"}
    assert repaired.all_safe["a"] == repaired.all_safe["b"] == []
    assert applied_to(sources, repaired.all_safe["c"]) == {**sources, "c": mended["c"]}
    scaler, region = sorted(repaired.repairs.values(), key=lambda each: each.title, reverse=True)
    assert {edit.uri for edit in scaler.edits} | {edit.uri for edit in region.edits} == set("abc")


def applied_to(sources: dict[str, str], edits: list[TextEdit]) -> dict[str, str]:
    """Texts after edits of them."""
    texts = {uri: Text(source) for uri, source in sources.items()}
    for edit in sorted(edits, key=lambda edit: edit.range, reverse=True):
        text = texts[edit.uri]
        start, end = (offset_of(text, place, "utf-16") for place in edit.range)
        texts[edit.uri] = Text(text.text[:start] + edit.text + text.text[end:])
    return {uri: text.text for uri, text in texts.items()}


@given(data=st.data())
def test_cells_come_go_and_move(data: st.DataObject) -> None:
    """As in a list of texts: an editor sends stretches of cells in the place of others."""
    wanted: list[str] = []
    notebook = OpenNotebook("n", 0, (), {})
    for number in range(data.draw(st.integers(1, 6))):
        start, end = sorted(
            (data.draw(st.integers(0, len(wanted))), data.draw(st.integers(0, len(wanted))))
        )
        gone = wanted[start:end]
        moved = data.draw(st.sets(st.sampled_from(gone))) if gone else set()
        back = data.draw(st.permutations(sorted(moved)))
        added = [f"{number}.{each}" for each in range(data.draw(st.integers(0, 2)))]
        wanted[start:end] = [*back, *added]
        opened = [OpenText.opened(uri, 1, uri) for uri in added if not uri.endswith(".1")]
        closed = set(gone) - set(back)
        version = notebook.version
        notebook = notebook.rearranged(start, end - start, [*back, *added], opened, closed)
        assert notebook.version > version
        python = [uri for uri in wanted if not uri.endswith(".1")]
        assert [cell.content.text for cell in notebook.cells] == python
        assert [*notebook.versions] == python
        for uri in wanted:
            changed = notebook.changed(uri, 2, [TextChange("new")], "utf-16")
            assert [cell.content.text for cell in changed.cells] == [
                "new" if each == uri else each for each in python
            ]


def test_a_cell_may_change_its_language() -> None:
    """It is closed, and opened with the same address."""
    notebook = OpenNotebook("n", 0, (), {}).rearranged(
        0, 0, ["a"], [OpenText.opened("a", 1, "x = 1")]
    )
    assert notebook.rearranged(0, 1, ["a"], [], ["a"]).cells == []


def test_a_model_that_changes_is_taken_into_account(tmp_path: Path) -> None:
    """A change of any TOML file makes the server look again."""
    looker, file = Looker(), tmp_path / "a.py"
    text = "import acme\nclass Mine(acme.Learner):\n    def on(self, loss):\n        loss.item()\n"
    model = 'name = "acme"\n[[class]]\nnames = ["acme.Learner"]\n[[class.method]]\nnames = ["on"]\n'
    called = 'called = "step"\nparameters = { loss = "loss" }\n'
    (tmp_path / "pyproject.toml").write_text('[tool.amplint]\nmodels = ["ours.toml"]\n')
    for written, codes in ((model, []), (model + called, ["AMP101"]), (model, [])):
        (tmp_path / "ours.toml").write_text(written)
        assert judged(looked(looker, file, a=text)) == {"a.py": codes}
    (tmp_path / "ours.toml").write_text("name = 3\n")
    (told, *_) = looked(looker, file, a=text)
    assert isinstance(told, LogLine) and "ours.toml: Expected `str`" in told.text


def test_faults_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("as a test")

    (tmp_path / "pyproject.toml").write_text("[tool.amplint]\nselect = 3\n")
    answers = looked(Looker(), tmp_path / "a.py", a=WAITS)
    assert isinstance(answers[0], LogLine) and "`select`" in answers[0].text
    assert answers[-1] == LookEnded(1, [(tmp_path / "a.py").as_uri()])
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.setattr("amplint.server.looking.engine.run", fails)
    answers = looked(Looker(), tmp_path / "a.py", a=WAITS)
    assert isinstance(answers[0], LogLine) and "ZeroDivisionError: as a test" in answers[0].text


def test_a_look_that_nobody_waits_for_ends(tmp_path: Path) -> None:
    def check() -> None:
        raise SupersededError

    assert looked(Looker(check), tmp_path / "a.py", a=WAITS) == [LookEnded(1, [])]


def test_a_look_may_end_between_link_and_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    file = tmp_path / "a.py"
    linked: list[bool] = []
    monkeypatch.setattr(
        "amplint.run.analysis.CandidateSearch", lambda *_: pytest.fail("it was to be judged")
    )

    def check() -> None:
        if linked:
            raise SupersededError
        linked.append(True)

    looker = Looker(check)
    assert looked(looker, file, a=WAITS) == [LookEnded(1, [])]
    monkeypatch.undo()
    looker.check = looker._memory.linker.on_values = lambda: None
    assert judged(looked(looker, file, a=WAITS)) == {"a.py": ["AMP101"]}


def test_nothing_is_written_but_the_cache(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    file = tmp_path / "a.py"
    file.write_text(CLASHING)
    looked(Looker(), file, a=CLASHING)
    looked(Looker(), file, a=WAITS)
    assert {path.name for path in tmp_path.iterdir()} <= {
        "pyproject.toml", "a.py", ".amplint_cache",
    }  # fmt: skip
    assert file.read_text() == CLASHING


# ------------------------------------------------------------------------------------- explanations


def explained(file: Path, text: str, line: int) -> Explained:
    [answer] = explain(Explain(1, file.as_uri(), file.as_uri(), line, {file.as_uri(): Open(text)}))
    assert isinstance(answer, Explained)
    assert answer_in(framed(answer)[HEAD.size :]) == answer
    return answer


def test_a_line_of_a_notebook_that_is_open_as_json(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    cells = [{"cell_type": "code", "metadata": {}, "source": LEGACY_CELL}]
    text = json.dumps(
        {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1
    )
    line = next(at for at, row in enumerate(text.split("\n")) if "with torch" in row)
    found = explained(tmp_path / "a.ipynb", text, line)
    assert found.text.startswith("a.ipynb:cell 1:1: with torch.cuda.amp.autocast():\n")
    assert "no Python code" in explained(tmp_path / "a.ipynb", text, 0).text
    assert "no Python code" in explained(tmp_path / "a.py", "x = 1\n", 9).text


def test_settings_that_cannot_be_used_are_the_explanation(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.amplint]\nselect = 3\n")
    found = explained(tmp_path / "a.py", WAITS, 0)
    assert "`select` must be a list" in found.text
    assert found.file == ""


def test_an_explanation_is_written_through_no_link(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (project / "pyproject.toml").touch()
    (project / ".amplint_cache").symlink_to(outside)
    assert explained(project / "a.py", WAITS, 0).file == ""
    assert list(outside.iterdir()) == []
    (project / ".amplint_cache").unlink()
    (project / ".amplint_cache").mkdir()
    (project / ".amplint_cache" / "explained.txt").symlink_to(outside / "new")
    found = explained(project / "a.py", WAITS, 0)
    assert (project / ".amplint_cache" / "explained.txt").read_text() == found.text
    assert list(outside.iterdir()) == []


# ------------------------------------------------------------------------------------- the command


def test_without_pygls_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert main(["server"]) == 2
    assert "pip install 'amplint[server]'" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pty")
def test_at_a_terminal_it_says_who_starts_it() -> None:
    import pty  # noqa: PLC0415  (Windows has none)

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "amplint", "server"]
    started = subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert started.stderr is not None
    said = started.stderr.readline().decode()
    assert said.startswith("amplint: an editor starts this command") and "stop with Ctrl-D" in said
    os.write(ours, b"\x04")
    assert started.wait(30) == 0
    os.close(theirs)
    os.close(ours)
    started.communicate()
