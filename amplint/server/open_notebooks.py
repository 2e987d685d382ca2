"""The notebooks that are open in the editor cell by cell.

Each cell is a text with an address of its own. All of them together are one program, and so they
are looked at as one notebook: as the JSON that a file with these cells would hold.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from amplint.server.documents import OpenText, TextChange, encodable
from amplint.server.messages import Open
from amplint.server.protocol_positions import Encoding
from amplint.util.text import Text


@dataclass(frozen=True)
class OpenNotebook:
    """A notebook that is open.

    Args:
        uri: how the editor calls it.
        version: goes up with each change. It is counted here, for an editor may send changes of
            several cells under one version of the notebook.
        order: the addresses of its cells.
        texts: the cells with Python, by address.
    """

    uri: str
    version: int
    order: tuple[str, ...]
    texts: Mapping[str, OpenText]

    @property
    def cells(self) -> list[OpenText]:
        """The cells with Python, from top to bottom."""
        return [self.texts[uri] for uri in dict.fromkeys(self.order) if uri in self.texts]

    @property
    def versions(self) -> dict[str, int]:
        """The texts in which findings are shown, with their versions."""
        return {cell.uri: cell.version for cell in self.cells}

    def rearranged(
        self,
        start: int,
        removed: int,
        added: Sequence[str],
        opened: Iterable[OpenText],
        closed: Collection[str] = (),
    ) -> OpenNotebook:
        """The notebook with other cells in the place of some.

        Args:
            start: the number of the first cell that goes, from 0.
            removed: how many go.
            added: the addresses of those that come. A cell that moves goes and comes.
            opened: the texts with Python of those that were not in the notebook.
            closed: the addresses of those that are not in it any more; one that is opened in
                another language is closed first.
        """
        order = (*self.order[:start], *added, *self.order[start + removed :])
        remaining = {uri: text for uri, text in self.texts.items() if uri not in closed}
        texts = {**remaining, **{each.uri: each for each in opened}}
        cells = {uri: text for uri, text in texts.items() if uri in order}
        return OpenNotebook(self.uri, self.version + 1, order, cells)

    def changed(
        self, cell: str, version: int, changes: Iterable[TextChange], encoding: Encoding
    ) -> OpenNotebook:
        """The notebook after changes of the text of a cell."""
        text = self.texts.get(cell)
        if text is None:  # in another language
            return self
        texts = {**self.texts, cell: text.changed(version, changes, encoding)}
        return replace(self, version=self.version + 1, texts=texts)

    def text_in(self, uri: str) -> Text | None:
        """The text of a cell; None where it has no Python, or is in no cell."""
        cell = self.texts.get(uri)
        return cell.content if cell is not None else None

    def as_open(self) -> Open:
        """The notebook for a look."""
        sources = [encodable(cell.content.text) for cell in self.cells]
        cells = [{"cell_type": "code", "metadata": {}, "source": source} for source in sources]
        text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
        return Open(text, [*self.versions])
