"""The texts that are open in the editor.

They are kept here and not by pygls, which also ends lines at form feeds and at U+2028, as
`str.splitlines` does and neither Python nor an editor: an edit behind one would come into another
line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from amplint.server.messages import Open
from amplint.server.protocol_positions import Encoding, Range, offset_of
from amplint.util.text import Text


@dataclass(frozen=True)
class TextChange:
    """A change of a text.

    Args:
        text: the new text of the range.
        range: what it replaces; None for all of the text.
    """

    text: str
    range: Range | None = None


@dataclass(frozen=True)
class OpenText:
    """A text that is open.

    Args:
        uri: how the editor calls it.
        version: goes up with each change.
        content: the text.
    """

    uri: str
    version: int
    content: Text

    @classmethod
    def opened(cls, uri: str, version: int, text: str) -> OpenText:
        return cls(uri, version, Text(text))

    @property
    def versions(self) -> dict[str, int]:
        """The texts in which findings are shown, with their versions: this one alone."""
        return {self.uri: self.version}

    def text_in(self, uri: str) -> Text | None:
        """The text that is shown under an address; None where it is not this one."""
        return self.content if uri == self.uri else None

    def as_open(self) -> Open:
        """The text for a look."""
        return Open(encodable(self.content.text))

    def changed(self, version: int, changes: Iterable[TextChange], encoding: Encoding) -> OpenText:
        """The document after changes, of which each is about the text that the last one left."""
        content = self.content
        for change in changes:
            content = applied(content, change, encoding)
        return replace(self, version=version, content=content)


def applied(text: Text, change: TextChange, encoding: Encoding) -> Text:
    """The text after one change."""
    if change.range is None:
        return Text(change.text)
    start = offset_of(text, change.range.start, encoding)
    end = max(offset_of(text, change.range.end, encoding), start)
    return Text(text.text[:start] + change.text + text.text[end:])


def encodable(text: str) -> str:
    """The text with another character in the place of each half of a pair, which UTF-8 lacks."""
    return text.encode("utf-8", "replace").decode("utf-8")
