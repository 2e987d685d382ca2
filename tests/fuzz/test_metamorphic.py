"""Changes to bad.py that must not matter: findings come back, and fixes are the same fixes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from tokenize import OP

import libcst as cst
import pytest

from amplint.findings.finding import Edit, Finding, Safety, edited
from amplint.findings.rows import Rows
from amplint.fix.applying import apply_fixes
from amplint.source.edits.code_edits import Edits
from amplint.source.edits.imports import Imports
from amplint.testing import at
from amplint.util.text import Text
from tests.helpers import Files, expectations, fixture, folders, modules, places

OPENING, CLOSING = "([{", ")]}"

# ------------------------------------------------------------------------------ bytes and layout


def crlf(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


def carriage_returns(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r")


def tabs(data: bytes) -> bytes:
    """Four spaces of indentation are a tab."""
    return re.sub(
        rb"^(?:    )+", lambda match: b"\t" * (len(match[0]) // 4), data, flags=re.MULTILINE
    )


def byte_order_mark(data: bytes) -> bytes:
    return b"\xef\xbb\xbf" + data


def line_above(data: bytes) -> bytes:
    return "# Für größere Bilder: 画像 🙂\n".encode() + data


def no_final_newline(data: bytes) -> bytes:
    return data.rstrip(b"\n")


def cookie(data: bytes) -> bytes:
    """Another encoding, declared in the first line."""
    return b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + data


def foreign_names(data: bytes) -> bytes:
    """Names of the same length in characters, but not in bytes, in front of what is found."""
    return foreign(data.decode()).encode()


def foreign(text: str) -> str:
    """Strings that are one word stay: libraries know them (`{"loss": loss}`)."""
    names = {"loss": "lüßs", "x": "ξ", "h": "ħ", "model": "模型模型模"}
    return re.sub(r"(?<![\"'])\b(loss|x|h|model)\b(?![\"'])", lambda match: names[match[0]], text)


BYTES: dict[str, tuple[Callable[[bytes], bytes], int]] = {
    "crlf": (crlf, 0),
    "cr": (carriage_returns, 0),
    "tabs": (tabs, 0),
    "bom": (byte_order_mark, 0),
    "non-ascii line above": (line_above, 1),
    "no final newline": (no_final_newline, 0),
    "latin-1": (cookie, 2),
    "foreign names": (foreign_names, 0),
}
# A change of bytes can break the code that reads and edits text, which no rule does by itself. So
# these changes run on folders that make all kinds of edits between them.
EDITED = {
    "apex_amp": "indents statements, adds some before and after",
    "async_copy_read_on_host": "removes arguments, also the last one of several lines",
    "backward_bypasses_scaler": "puts a test around statements",
    "backward_in_autocast": "dedents statements, with comments and with strings of several lines",
    "cpu_factory_then_move": "adds arguments, removes calls, and statements from a shared line",
    "empty_cache_in_hot_path": "removes statements that are all of their block",
    "legacy_grad_scaler": "adds and removes imports, inserts first arguments",
    "miscalled_autocast": "inserts text before and after expressions",
    "removed_trainer_argument": "names arguments",
    "tensor_from_tensor": "makes a receiver of an expression that needs parentheses",
}
each_folder_with_edits = pytest.mark.parametrize("folder", EDITED)
each_change = pytest.mark.parametrize("change", BYTES)


def test_all_kinds_of_edits_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders in `EDITED` use every method of `Edits`, and add an import."""
    made = set()

    def counted(owner: type, name: str) -> None:
        method = getattr(owner, name)

        def count(*arguments: object, **named: object) -> object:
            edit = method(*arguments, **named)
            if edit:
                made.add(name)
            return edit

        monkeypatch.setattr(owner, name, count)

    kinds = {name for name in vars(Edits) if not name.startswith("_")}
    for name in kinds:
        counted(Edits, name)
    counted(Imports, "_insert")
    for folder in EDITED:
        fix_bad(fixture(folder).program("bad"), folder)
    assert made == kinds | {"_insert"}


def fix_bad(files: Files, folder: str) -> dict[str, bytes]:
    return fixture(folder).fix(files, unsafe=True)


@each_folder_with_edits
@each_change
def test_findings_survive_a_change_of_bytes(folder: str, change: str) -> None:
    """The same messages, with the same fixes offered, in the same lines."""
    transform, shift = BYTES[change]
    before = fixture(folder).outcome
    changed = {path: transform(data) for path, data in fixture(folder).program("bad").items()}
    after = fixture(folder).lint(changed)
    word = foreign if transform is foreign_names else str
    assert [told(f, 0, word) for f in after.findings] == [
        told(f, shift, word) for f in before.findings
    ]


def told(finding: Finding, shift: int, word: Callable[[str], str] = str) -> tuple[object, ...]:
    """What a reader is told, but for columns."""
    return (
        finding.path,
        finding.span.start.row + shift,
        finding.span.end.row + shift,
        finding.code,
        word(finding.message),
        word(finding.scope),
        [(r.path, r.span.start.row + shift, word(r.message)) for r in finding.related],
        finding.fix and (word(finding.fix.title), finding.fix.safety),
    )


@each_folder_with_edits
@each_change
def test_fixing_commutes_with_a_change_of_bytes(folder: str, change: str) -> None:
    """fix(T(bad)) == T(fix(bad)), byte by byte."""
    transform, _ = BYTES[change]
    files = fixture(folder).program("bad")
    fixed = fix_bad(files, folder)
    changed = {path: transform(data) for path, data in files.items()}
    assert fix_bad(changed, folder) == {path: transform(data) for path, data in fixed.items()}


# ---------------------------------------------------------------------------------------- meaning


def alias(module: cst.Module) -> cst.Module:
    """`import torch` becomes `import torch as tt`, and so do its uses."""
    lines = module.code.splitlines(keepends=True)
    return cst.parse_module("".join(aliased(line) for line in lines))


def aliased(line: str) -> str:
    if re.match(r"\s*(from|import)\b", line):
        return re.sub(r"^(\s*)import torch$", r"\1import torch as tt", line)
    return re.sub(r"(?<![\w.\"'])torch(?=\.)", "tt", line)  # not in "torch.FloatTensor"


def wrapped(
    header: Callable[[cst.IndentedBlock], cst.BaseCompoundStatement],
) -> Callable[[cst.Module], cst.Module]:
    """The whole module, but for its docstring, inside another statement."""

    def wrap(module: cst.Module) -> cst.Module:
        body = list(module.body)
        return module.with_changes(body=[body[0], header(cst.IndentedBlock(body[1:]))])

    return wrap


def function(block: cst.IndentedBlock, asynchronous: bool = False) -> cst.FunctionDef:
    return cst.FunctionDef(
        name=cst.Name("wrapper"),
        params=cst.Parameters(),
        body=block,
        asynchronous=cst.Asynchronous() if asynchronous else None,
    )


MEANING: dict[str, tuple[Callable[[cst.Module], cst.Module], int]] = {
    "import alias": (alias, 0),
    "if True": (wrapped(lambda block: cst.If(cst.Name("True"), block)), 1),
    "def": (wrapped(function), 1),
    "async def": (wrapped(lambda block: function(block, asynchronous=True)), 1),
}


@pytest.mark.parametrize("folder", folders())
@pytest.mark.parametrize("change", MEANING)
def test_findings_survive_a_change_that_means_nothing(folder: str, change: str) -> None:
    """The findings of bad.py and of what it calls are still there; what is fixed still parses."""
    transform, _ = MEANING[change]
    files = fixture(folder).program("bad")
    before = fixture(folder).outcome
    bad = transform(cst.parse_module(files["bad.py"])).bytes
    compile(bad, "bad.py", "exec")
    changed = {**files, "bad.py": bad}
    after = fixture(folder).lint(changed)
    # Markers travel with their lines; what is compared is what is really found.
    assert known(after.findings, bad, files) == known(before.findings, files["bad.py"], files)
    for path, data in fix_bad(changed, folder).items():
        compile(data, path, "exec")


def known(
    findings: tuple[Finding, ...], bad: bytes, files: dict[str, bytes]
) -> dict[str, list[tuple[str, str]]]:
    """By file, the text of the lines of the findings, and their codes."""
    texts = {**files, "bad.py": bad}
    seen = {}
    for path, data in texts.items():
        lines = data.decode().splitlines()
        seen[path] = sorted((renamed(lines[row - 1]), code) for row, code in places(findings, path))
    return seen


def renamed(line: str) -> str:
    return re.sub(r"\btt\b", "torch", line.strip())


def test_the_fixtures_have_what_the_changes_need() -> None:
    """Each bad.py begins with a docstring, imports torch and uses it by its name."""
    for folder in folders():
        module = cst.parse_module(modules(folder)["bad.py"])
        assert module.get_docstring()
        assert alias(module).code != module.code
        assert expectations(module.code)


# ---------------------------------------------------------------------------------------- comments


def commented(data: bytes) -> bytes:
    """A comment of its own behind each opening bracket and each comma within brackets."""
    text = Text(data.decode())
    edits: list[Edit] = []
    depth = 0
    for token in Rows(text).tokens:
        depth += (token.string in OPENING) - (token.string in CLOSING) if token.type == OP else 0
        end = text.start(token.end[0]) + token.end[1]
        follows_code = text.line(token.end[0])[token.end[1] :].strip()[:1] not in ("", "#")
        if depth and token.type == OP and token.string in (*OPENING, ",") and follows_code:
            edits.append(Edit(end, end, f"  # kept {len(edits)}\n        "))
    return edited(text.text, edits).encode()


def comments(text: str) -> Counter[str]:
    return Counter(Rows(Text(text)).comments(0, len(text)))


@pytest.mark.parametrize("folder", folders())
def test_no_fix_loses_a_comment(folder: str) -> None:
    """None of the comments that stand anywhere within brackets, be it by one fix or by all."""
    files = {path: commented(data) for path, data in fixture(folder).program("bad").items()}
    for path, data in files.items():
        compile(data, path, "exec")
    outcome = fixture(folder).lint(files)
    for path in files:
        text = outcome.texts[path].text
        there = comments(text)
        left: Sequence[Finding] = [each for each in outcome.findings if each.path == path]
        while left:  # to read the text once for each fix took half a minute
            fixed = apply_fixes(text, left, frozenset(Safety))
            assert comments(fixed.text) == there, [f"{at(each)}" for each in fixed.applied]
            assert fixed.applied or not fixed.skipped
            left = fixed.skipped
    fixed_files = fix_bad(files, folder)
    for path, data in files.items():
        assert comments(fixed_files[path].decode()) == comments(data.decode())
