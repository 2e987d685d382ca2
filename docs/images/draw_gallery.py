"""Draw the pictures of docs/gallery.md: `python docs/images/draw_gallery.py`.

Each shows the right code below the wrong one. They are sketches of an order or of a way, and no
measurement: a bar is as long as its text needs. tests/fixtures/test_pages.py holds the files
against this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

IMAGES = Path(__file__).resolve().parent
WIDTH, LEFT, UNIT = 760, 96, 22  # in pixels; one unit of time is 22 of them
TALL, GAP, HEAD = 24, 6, 22
COLOURS = {"work": "#4f7cc4", "wait": "#d9822b", "copy": "#8a63b8", "wrong": "#c23b3b"}
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1d1d1f}.in{fill:#fff;font-size:12px}"
    ".of{fill:#6b6b70}line{stroke:#b9b9be}rect.page{fill:#fff}"
)


@dataclass(frozen=True)
class Bar:
    """Something that takes time.

    Args:
        lane: "host", "device" and the like.
        start, length: in units.
        text: inside of it.
        kind: one of `COLOURS`.
    """

    lane: str
    start: float
    length: float
    text: str = ""
    kind: str = "work"


Steps = Sequence[str]  # a value's way, from left to right; what is wrong begins with "!"
Half = Sequence[Bar] | Steps


def repeated(*bars: Bar, times: int, period: float) -> list[Bar]:
    """The same bars once in each of several iterations."""
    return [
        Bar(bar.lane, bar.start + turn * period, bar.length, bar.text, bar.kind)
        for turn in range(times)
        for bar in bars
    ]


H, D, C = "host", "device", "bus"
PICTURES: Mapping[str, tuple[Half, Half]] = {
    "AMP101": (
        repeated(
            Bar(H, 0, 3, "queues"),
            Bar(H, 3, 4, "loss.item()", "wait"),
            Bar(D, 1, 6, "computes the step"),
            times=4,
            period=7,
        ),
        [
            *repeated(Bar(H, 0, 3, "queues"), times=4, period=3.2),
            *repeated(Bar(D, 1, 6, "computes the step"), times=4, period=6),
        ],
    ),
    "AMP113": (
        repeated(
            Bar(H, 0, 3.6, "x[i].item()", "wait"),
            Bar(D, 1, 2, "x[i]"),
            times=7,
            period=4,
        ),
        [
            Bar(D, 1, 2, "x"),
            Bar(H, 0, 3.6, "x.tolist()", "wait"),
            Bar(H, 4, 6, "a loop over numbers"),
        ],
    ),
    "AMP106": (
        [
            Bar(H, 0, 3, "queues"),
            Bar(D, 1, 6, "mask"),
            Bar(H, 3, 6, "x[mask]: how many?", "wait"),
            Bar(H, 9, 3, "queues"),
            Bar(D, 10, 6, "loss of the rest"),
        ],
        [
            Bar(H, 0, 3, "queues"),
            Bar(D, 1, 6, "mask"),
            Bar(H, 3, 5.5, "where(mask, x, 0)"),
            Bar(D, 7, 6.5, "loss of all rows"),
        ],
    ),
    "AMP501": (
        [
            Bar(H, 0, 4, "fills zeros"),
            Bar(C, 4, 5, "copies zeros", "copy"),
            Bar(H, 4, 5, "waits", "wait"),
            Bar(D, 9, 4, "computes"),
        ],
        [Bar(H, 0, 2.5, "queues"), Bar(D, 1, 2.5, "zeros"), Bar(D, 3.5, 4, "computes")],
    ),
    "AMP505": (
        [
            Bar(C, 0, 6, "batch", "copy"),
            Bar(H, 0, 6, "waits for the copy", "wait"),
            Bar(H, 6, 3, "queues"),
            Bar(D, 7, 6, "computes"),
        ],
        [
            Bar(C, 0, 6, "batch", "copy"),
            Bar(H, 0, 3, "queues"),
            Bar(H, 3, 6, "the next batch"),
            Bar(D, 6, 6, "computes"),
        ],
    ),
    "AMP601": (
        [
            Bar("GPU 0", 0, 4, "scatters", "copy"),
            Bar("GPU 0", 4, 5, "forward"),
            Bar("GPU 1", 4, 5, "forward"),
            Bar("GPU 0", 9, 5, "gathers, loss", "copy"),
            Bar("GPU 1", 9, 5, "idle", "wait"),
            Bar("GPU 0", 14, 5, "backward"),
            Bar("GPU 1", 14, 5, "backward"),
            Bar("GPU 0", 19, 4, "adds up", "copy"),
            Bar("GPU 1", 19, 4, "idle", "wait"),
        ],
        [
            Bar("GPU 0", 0, 5, "forward"),
            Bar("GPU 1", 0, 5, "forward"),
            Bar("GPU 0", 5, 7, "backward, reduces"),
            Bar("GPU 1", 5, 7, "backward, reduces"),
        ],
    ),
    "AMP203": (
        ("h: float16, 2 bytes", "x: float32", "!where(m, h, x): float32", "!4 bytes a number on"),
        ("h: float16, 2 bytes", "x.to(h.dtype)", "where(m, h, x): float16", "2 bytes a number on"),
    ),
    "AMP301": (
        ("forward in the region", "!backward in the region", "!gradients rounded to half"),
        ("forward in the region", "the region ends", "backward as forward was"),
    ),
    "AMP302": (
        (
            "w is cast, and kept",
            "step: w changes",
            "!forward uses the old",
            "!nothing learnt",
        ),
        ("w is cast, and kept", "the region ends", "step: w changes", "forward casts w anew"),
    ),
    "AMP308": (
        ("loss", "!gradient 1e-8", "!in float16: 0", "!w stays"),
        ("loss * 65536", "gradient 7e-4", "/ 65536 in float32", "w moves by 1e-8 * lr"),
    ),
    "AMP404": (
        ("gradients * 65536", "!clipped to norm 1", "/ 65536", "!a step of norm 1/65536"),
        ("gradients * 65536", "unscale_: / 65536", "clipped to norm 1", "a step of norm 1"),
    ),
    "AMP801": (
        ("scores: float16", "!masked with -1e9", "!beyond 65504: raises"),
        ("scores: float16", "masked with -inf", "softmax: 0"),
    ),
}


def drawn(code: str) -> str:
    """The picture of a rule, as SVG."""
    wrong, right = PICTURES[code]
    top, parts = 0, []
    for title, half in (("wrong", wrong), ("right", right)):
        parts.append(f'<text class="of" x="8" y="{top + 15}">{title}</text>')
        body = bars(half, top + HEAD) if isinstance(half[0], Bar) else way(half, top + HEAD)
        *shapes, height = body
        parts += shapes
        top += HEAD + int(height) + 10
    return (
        f'<svg viewBox="0 0 {WIDTH} {top}" xmlns="http://www.w3.org/2000/svg" role="img">'
        f"<title>{code}, wrong and right</title><style>{STYLE}</style>"
        f'<rect class="page" width="{WIDTH}" height="{top}"/>{"".join(parts)}</svg>\n'
    )


def bars(half: Half, top: int) -> Iterator[str]:
    """The lanes with their bars; the height last."""
    lanes = list(dict.fromkeys(bar.lane for bar in half if isinstance(bar, Bar)))
    for row, lane in enumerate(sorted(lanes, key=order)):
        y = top + row * (TALL + GAP)
        yield f'<text x="8" y="{y + 16}">{lane}</text>'
        yield f'<line x1="{LEFT}" x2="{WIDTH - 8}" y1="{y + TALL}" y2="{y + TALL}"/>'
        for bar in half:
            if isinstance(bar, Bar) and bar.lane == lane:
                yield from box(LEFT + bar.start * UNIT, y, bar.length * UNIT, bar.text, bar.kind)
    yield str(len(lanes) * (TALL + GAP))


def order(lane: str) -> tuple[bool, str]:
    """The host first, then by name."""
    return lane != H, lane


def way(half: Half, top: int) -> Iterator[str]:
    """Boxes with arrows between; the height last."""
    steps = [step for step in half if isinstance(step, str)]
    width = (WIDTH - 16 - 20 * (len(steps) - 1)) / len(steps)
    for index, step in enumerate(steps):
        x = 8 + index * (width + 20)
        if index:
            yield f'<text class="of" x="{x - 16:.0f}" y="{top + 17}">→</text>'
        yield from box(x, top, width, step.removeprefix("!"), "wrong" if "!" in step else "work")
    yield str(TALL)


def box(x: float, y: int, width: float, text: str, kind: str) -> Iterator[str]:
    yield (
        f'<rect x="{x:.0f}" y="{y}" width="{width - 2:.0f}" height="{TALL}" rx="3" '
        f'fill="{COLOURS[kind]}"/>'
    )
    yield f'<text class="in" x="{x + 5:.0f}" y="{y + 16}">{escape(text)}</text>'


def main() -> None:
    for code in PICTURES:
        (IMAGES / f"gallery-{code}.svg").write_text(drawn(code), encoding="utf-8")


if __name__ == "__main__":
    main()
