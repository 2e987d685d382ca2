"""A picture of a step: what happened in which order, a lane for each kind of event, as inline SVG.

The list of events says the same in words; the picture shows how much of it there is, and where.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from amplint.output.html_page import escape
from amplint_verify.recording.events import Event, EventKind

LANES: Mapping[str, tuple[EventKind, ...]] = {
    "autocast's casts": (EventKind.CAST, EventKind.GRADIENT_CAST),
    "other casts": (EventKind.OWN_CAST,),
    "waits": (EventKind.WAIT,),
    "backward": (EventKind.BACKWARD,),
    "scaler": (EventKind.SCALE, EventKind.UNSCALE, EventKind.SCALER_STEP, EventKind.UPDATE),
    "clip, optimizer": (EventKind.CLIP, EventKind.STEP, EventKind.ZERO_GRAD),
}
LEFT, WIDTH, TALL, GAP = 130, 870, 20, 6  # pixels: of the names, of the lanes, of one lane
COLUMNS = 290  # marks beside each other; of more events, neighbours share one
LETTER = 7  # pixels of a letter, about


def picture(events: Sequence[Event]) -> str:
    """The SVG; the text of a bar stands in it where there is room."""
    columns = min(len(events), COLUMNS)
    at = [index * columns // len(events) for index in range(len(events))]
    scale = WIDTH / columns
    rows = ["regions", "modules", *LANES]
    parts = [
        *(name(row, text) for row, text in enumerate(rows)),
        *bars(0, "region", regions(events), at, scale),
        *bars(1, "module", outer_modules(events), at, scale),
    ]
    for row, kinds in enumerate(LANES.values(), 2):
        marked = {at[index] for index, event in enumerate(events) if event.kind in kinds}
        parts += marks(row, marked, scale)
    height = len(rows) * (TALL + GAP)
    label = "The events in their order, from left to right; the list below has them in words"
    box = f'viewBox="0 0 {LEFT + WIDTH} {height}"'
    return (
        f'<figure class="step"><figcaption>{label}.</figcaption>'
        f'<svg role="img" aria-label="{label}" {box}>{"".join(parts)}</svg></figure>'
    )


def name(row: int, text: str) -> str:
    top = row * (TALL + GAP)
    return (
        f'<text x="0" y="{top + 14}">{escape(text)}</text>'
        f'<line x1="{LEFT}" y1="{top + TALL}" x2="{LEFT + WIDTH}" y2="{top + TALL}"/>'
    )


Bar = tuple[int, int, str]  # the first event, the last one, and what it is


def bars(
    row: int, kind: str, stretches: Iterable[Bar], at: Sequence[int], scale: float
) -> Iterator[str]:
    """Stretches of events, with what they are; of those that share a column, the first."""
    top = row * (TALL + GAP)
    before = -1
    for first, last, text in stretches:
        if at[first] == before:
            continue
        before = at[first]
        x, wide = LEFT + at[first] * scale, (at[last] + 1 - at[first]) * scale
        label = text if len(text) * LETTER < wide else ""
        yield (
            f'<rect class="{kind}" x="{x:.1f}" y="{top}" width="{wide:.1f}" height="{TALL}">'
            f"<title>{escape(text)}</title></rect>"
            f'<text x="{x + 3:.1f}" y="{top + 14}">{escape(label)}</text>'
        )


def marks(row: int, columns: set[int], scale: float) -> Iterator[str]:
    """The events of a lane; neighbours are one mark."""
    top = row * (TALL + GAP)
    for _, run in groupby(enumerate(sorted(columns)), key=lambda pair: pair[1] - pair[0]):
        own = [column for _, column in run]
        x, wide = LEFT + own[0] * scale, max(len(own) * scale - 1, 1)
        yield (
            f'<rect class="mark" x="{x:.1f}" y="{top + 3}" width="{wide:.1f}" height="{TALL - 3}"/>'
        )


def regions(events: Sequence[Event]) -> Iterator[Bar]:
    """The stretches in a region of one dtype."""
    yield from stretches(event.region for event in events)


def outer_modules(events: Sequence[Event]) -> Iterator[Bar]:
    """The stretches in one module, to the first number in its path: "layers.3" of
    "layers.3.attention"."""
    yield from stretches(outer(event) for event in events)


def outer(event: Event) -> str:
    if event.module is None:
        return ""
    parts = event.module.path.split(".")
    end = next((at for at, part in enumerate(parts, 1) if part.isdecimal()), 1)
    return ".".join(parts[:end]) or event.module.root


def stretches(texts: Iterable[str]) -> Iterator[Bar]:
    """The stretches of equal texts that are not empty."""
    for text, run in groupby(enumerate(texts), key=lambda pair: pair[1]):
        if text:
            own = [index for index, _ in run]
            yield own[0], own[-1], text
