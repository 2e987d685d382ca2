"""Bytes become text and the same bytes again, and places in the one are places in the other."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.util.positions import Position
from amplint.util.text import (
    Text,
    UndecodableError,
    UnencodableError,
    code_of,
    has_line,
    in_long_lines,
)
from tests.helpers import of_each

BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("data", "encoding", "text"),
    [
        (b"", "utf-8", ""),
        (b"x = 1", "utf-8", "x = 1"),
        (b"x = '\xc3\xa9'\r\n", "utf-8", "x = 'é'\r\n"),
        (BOM + b"x = 1\n", "utf-8-sig", "x = 1\n"),
        (BOM + b"# coding: utf-8\n", "utf-8-sig", "# coding: utf-8\n"),
        (b"# coding: latin-1\nx = '\xe9'\n", "iso-8859-1", "# coding: latin-1\nx = 'é'\n"),
        (b"#!x\n# -*- coding: cp1252 -*-\n'\x80'", "cp1252", "#!x\n# -*- coding: cp1252 -*-\n'€'"),
        # The second byte of this character is an ASCII backslash.
        (b"# coding: shift-jis\n'\x83\x5c'", "shift-jis", "# coding: shift-jis\n'ソ'"),
        # A cookie counts in the first two lines only, also where lines end at a lone \r.
        (b"# a\r# b\r# coding: latin-1\r", "utf-8", "# a\r# b\r# coding: latin-1\r"),
        (b"# a\r# coding: latin-1\r'\xe9'", "iso-8859-1", "# a\r# coding: latin-1\r'é'"),
    ],
)
def test_reads_as_the_interpreter_does_and_writes_the_same_bytes(
    data: bytes, encoding: str, text: str
) -> None:
    read = Text.decode(data)
    assert (read.encoding, read.text) == (encoding, text)
    assert read.encode(read.text) == data
    assert ast.dump(ast.parse(data)) == ast.dump(ast.parse(read.text))


@pytest.mark.parametrize(
    ("data", "row", "column", "reason"),
    [
        (b"x = 1\n'\xc3\xa9\xff'\n", 2, 3, "not valid utf-8 (byte 0xff): invalid start byte"),
        (b"\n\r\n\rx = '\xff'", 4, 6, "not valid utf-8 (byte 0xff): invalid start byte"),
        (b"\xff\xfex\x00", 1, 1, "not valid utf-8 (byte 0xff): invalid start byte"),
        (
            b"# coding: ascii\n#\xe9\n",
            2,
            2,
            "not valid ascii (byte 0xe9): ordinal not in range(128)",
        ),
        (
            # Its codec decodes with no replacement.
            b"# coding: idna\n#\xe9\n",
            2,
            2,
            "not valid idna (byte 0xe9): ordinal not in range(128)",
        ),
        (b"# coding: klingon\n", 1, 1, "unknown encoding: klingon"),
        (b"# coding: rot13\n", 1, 1, "'rot13' is not a text encoding"),
        (BOM + b"# coding: latin-1\n", 1, 1, "encoding problem: utf-8"),
    ],
)
def test_what_cannot_be_decoded_is_told_with_its_place(
    data: bytes, row: int, column: int, reason: str
) -> None:
    with pytest.raises(UndecodableError) as error:
        Text.decode(data)
    assert (error.value.row, error.value.column) == (row, column)
    assert error.value.reason.startswith(reason)


def test_text_that_the_encoding_cannot_hold_is_refused() -> None:
    with pytest.raises(UnencodableError, match="cannot be written in iso-8859-1"):
        Text.decode(b"# coding: latin-1\n").encode("'€'")


def test_an_encoding_that_would_change_bytes_elsewhere_is_refused() -> None:
    read = Text.decode(b"# coding: utf-7\nx = '+AGE-'\n")
    assert read.text == "# coding: utf-7\nx = 'a'\n"
    with pytest.raises(UnencodableError, match="would not give back the bytes"):
        read.encode(read.text)


def test_reads_files(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(BOM + b"x\r\n")
    assert Text.read(path) == Text("x\r\n", "utf-8-sig")


def test_lines_end_at_carriage_returns_and_line_feeds_only() -> None:
    text = Text("a\fb\r\nc\u2028d\re\x85f\ng")
    assert [text.line(row) for row in range(7)] == ["", "a\fb", "c\u2028d", "e\x85f", "g", "", ""]
    assert (text.rows, text.newline) == (4, "\r\n")


def test_positions_count_characters_from_one() -> None:
    text = Text("é\r\nxy\n")
    positions = [text.position(offset) for offset in range(7)]
    assert positions == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (3, 1)]
    assert text.start(3) == text.start(9) == 6


LINES = st.text(st.sampled_from("aé€\U0001f600 \f\u2028"), max_size=6)


@given(st.lists(LINES, min_size=1), st.sampled_from(["\n", "\r\n", "\r"]))
def test_every_character_is_found_by_the_bytes_before_it(lines: list[str], end: str) -> None:
    text = Text(end.join(lines))
    assert text.rows == len(lines)
    offset = 0
    for row, line in enumerate(lines, start=1):
        assert text.line(row) == line
        for column in range(len(line) + 1):
            assert text.position(offset + column) == Position(row, column + 1)
            assert text.offset(row, len(line[:column].encode())) == offset + column
        offset += len(line) + len(end)


ENCODINGS = {
    "utf-8": "aé€ソ\U0001f600", "latin-1": "aéÿ", "cp1252": "aé€", "shift_jis": "aソ表",
    "euc_jp": "aソ", "gb18030": "aé€\U0001f600", "koi8-r": "aж", "cp437": "aé", "ascii": "a",
}  # fmt: skip


@given(st.sampled_from(sorted(ENCODINGS)), st.booleans(), st.data())
def test_every_encoding_gives_back_its_bytes(encoding: str, bom: bool, data: st.DataObject) -> None:
    letters = st.text(st.sampled_from(ENCODINGS[encoding] + "#\n\r\f\\"))
    text = f"# coding: {encoding}\n" + data.draw(letters)
    bom &= encoding == "utf-8"
    encoded = (BOM if bom else b"") + text.encode(encoding)
    read = Text.decode(encoded)
    assert read.text == text
    assert read.encode(text) == encoded


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x  # to", "x      "),
        ('"""with\nto"""\nx', "       \n     \nx"),
        ("x = '# no comment'  # to", "x = '# no comment'      "),
        ('x = \'"""\'  # to\ny', 'x = \'"""\'      \ny'),
        ("x = 'it\\'s'  # to", "x = 'it\\'s'      "),
        ('f"""{x.item()}"""', 'f"""{x.item()}"""'),
        ("rf'''{x.item()}'''", "rf'''{x.item()}'''"),
        ('Tr"""{x.item()}"""', 'Tr"""{x.item()}"""'),
        ("x = '''a \\''' b'''; y", "x = " + " " * 14 + "; y"),
    ],
)
def test_code_is_the_text_without_prose(text: str, code: str) -> None:
    assert code_of(text) == code


@of_each(sorted(Path(tokenize.__file__).parent.glob("[a-m]*.py")))
def test_no_name_and_no_place_is_lost_with_the_prose(path: Path) -> None:
    text = Text.read(path).text
    code = code_of(text)
    assert [len(line) for line in code.splitlines()] == [len(line) for line in text.splitlines()]
    assert names(code) >= names(text)


def names(text: str) -> set[tuple[str, tuple[int, int]]]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {(token.string, token.start) for token in tokens if token.type == tokenize.NAME}


def test_a_line_is_found_by_its_words_too() -> None:
    text = "model.cuda().half()\rx = 1\r\nmodel = net\n# half"
    pattern = r"model\b.*half"
    assert has_line(text, pattern) and has_line(text, pattern, ("float16", "half"))
    assert not has_line(text, pattern, ("float16", "bfloat16"))  # words that are not its own
    assert not has_line(text, r"x\b.*half", ("half",))  # no match goes on in the next line


def test_a_long_line_has_what_stands_in_brackets() -> None:
    code = "with (\n    nothing()\n    if off[\n 0\n]\n    else region()\n):\n    pass\n)\nx = 1\n"
    lines = in_long_lines(code).split("\n")
    assert [" ".join(line.split()) for line in lines] == [
        "with ( nothing() if off[ 0 ] else region() ):",
        "pass",
        ")",
        "x = 1",
        "",
    ]
