"""Which files are linked together.

A project is one part, unless it is so large that linking it at once would take a gigabyte: then
neighbouring directories make up parts, which forget the trees that they are through with. What a
part imports of another one is followed; what another one calls of it is not known, as what is
outside of the project never is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

# In characters of code; 6.5 million are some 170,000 lines. An analysis takes about 125 bytes of
# memory for each, and 75 besides the texts where trees are not kept.
UNDIVIDED = 6_500_000
LARGEST = 4_500_000


def divide(
    sizes: Mapping[str, int], largest: int = LARGEST, undivided: int = UNDIVIDED
) -> list[tuple[str, ...]]:
    """The paths in parts, each sorted, of at most that size where no single file is larger.

    Args:
        sizes: the characters of code of each file, by its path with forward slashes.
        largest: of all files of a part together.
        undivided: of all files of a project that is one part.
    """
    if sum(sizes.values()) <= undivided:
        return [tuple(sorted(sizes))]
    return [tuple(sorted(part)) for part in _parts(sorted(sizes), sizes, largest, 0)]


def _parts(
    paths: Sequence[str], sizes: Mapping[str, int], largest: int, depth: int
) -> Iterator[list[str]]:
    """The parts of what lies below a directory that many levels deep."""
    if sum(sizes[path] for path in paths) <= largest or len(paths) == 1:
        yield list(paths)
        return
    entries: dict[str, list[str]] = {}  # by name: a directory's files, or one file
    for path in paths:
        entries.setdefault(path.split("/")[depth], []).append(path)
    gathered: list[str] = []
    room = largest
    for below in entries.values():
        size = sum(sizes[path] for path in below)
        if size > room and gathered:
            yield gathered
            gathered, room = [], largest
        if size > largest and len(below) > 1:
            yield from _parts(below, sizes, largest, depth + 1)
            continue
        gathered += below
        room -= size
    if gathered:
        yield gathered
