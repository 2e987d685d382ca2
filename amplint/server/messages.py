"""The messages between the server and the process that analyses, as MessagePack behind a length."""

from __future__ import annotations

import os
import struct
import sys
from typing import BinaryIO

import msgspec

from amplint.server.protocol_positions import Encoding, Range

HEAD = struct.Struct(">I")


class Open(msgspec.Struct):
    """A text that is open.

    Args:
        text: of a notebook, its JSON.
        cells: the addresses of its cells, if these are what is open; else None.
    """

    text: str
    cells: list[str] | None = None


class Look(msgspec.Struct, tag=True):
    """The request to look at the project around a text.

    Args:
        number: goes up with each request.
        uri: the text that is looked at first.
        opened: all texts that are open, by URI.
        encoding: by which places are counted.
    """

    number: int
    uri: str
    opened: dict[str, Open]
    encoding: Encoding


class Supersede(msgspec.Struct, tag=True):
    """The request to stop: the texts of this look are no longer those in the editor."""

    number: int


class Explain(msgspec.Struct, tag=True):
    """The request to explain a line of a text.

    Args:
        number: goes up with each request.
        uri: the text, or the notebook.
        shown: the text that the line is counted in: of a notebook, the cell.
        line: counted from 0.
        opened: all texts that are open, by URI.
    """

    number: int
    uri: str
    shown: str
    line: int
    opened: dict[str, Open]


class TextEdit(msgspec.Struct):
    """A replacement of a range of a text."""

    uri: str
    range: Range
    text: str


class Repair(msgspec.Struct):
    """A fix that an editor may apply."""

    title: str
    safety: str
    edits: list[TextEdit]


class Elsewhere(msgspec.Struct):
    """A place that a finding rests on."""

    uri: str
    range: Range
    message: str


class Item(msgspec.Struct):
    """A finding, as an editor shows it.

    Args:
        uri: the text that it stands in.
        is_error: else it is a warning.
        is_deprecated: whether it is about what a newer torch does in another way.
        advice: what to do where there is no fix to apply; "" where there is one.
    """

    code: str
    name: str
    group: str
    message: str
    uri: str
    range: Range
    is_error: bool
    is_deprecated: bool
    advice: str
    related: list[Elsewhere]


class Page(msgspec.Struct):
    """The page of a rule, and its address if it has one."""

    text: str
    address: str


class JudgedText(msgspec.Struct, tag=True):
    """The findings in one text, or in the cells of one notebook."""

    number: int
    uri: str
    items: list[Item]
    pages: dict[str, Page]


class Repaired(msgspec.Struct, tag=True):
    """The fixes of the findings in one text, or in the cells of one notebook.

    Args:
        repairs: by the number of the finding, in the order in which they were shown.
        all_safe: the edits of all safe fixes that do not clash, by what they are about: the text;
            the whole notebook, and each of its cells, where no other cell is changed.
    """

    number: int
    uri: str
    repairs: dict[int, Repair]
    all_safe: dict[str, list[TextEdit]]


class LogLine(msgspec.Struct, tag=True):
    """A sentence for the log of the editor."""

    number: int
    text: str
    is_error: bool


class LookEnded(msgspec.Struct, tag=True):
    """The end of a look.

    Args:
        uris: the texts that were judged.
    """

    number: int
    uris: list[str]


class Explained(msgspec.Struct, tag=True):
    """All that is known of a line, in words.

    Args:
        file: the address of a file that holds the text; "" where none could be written.
    """

    number: int
    text: str
    file: str


Request = Look | Supersede | Explain
Answer = JudgedText | Repaired | LogLine | LookEnded | Explained


def framed(message: Request | Answer) -> bytes:
    """A message as bytes."""
    body = msgspec.msgpack.encode(message)
    return HEAD.pack(len(body)) + body


def request_in(body: bytes) -> Request:
    request: Request = msgspec.msgpack.decode(body, type=Request)
    return request


def answer_in(body: bytes) -> Answer:
    answer: Answer = msgspec.msgpack.decode(body, type=Answer)
    return answer


def body_from(stream: BinaryIO) -> bytes | None:
    """The next message of a stream; None at its end."""
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    (size,) = HEAD.unpack(head)
    body = stream.read(size)
    return body if len(body) == size else None


def reserved_output() -> BinaryIO:
    """Standard output, for messages alone: what is printed by mistake goes to standard error."""
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return output
