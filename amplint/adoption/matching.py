"""Which known finding a finding is, if it is one.

The same line in the same definition is the same finding, however far it has moved. What is left
over on both sides may belong together all the same, since code is edited: by amplint's own fixes,
which change a line that has other findings, and by hand. So a finding that is not known takes the
place of a known one that is no longer found: where the line in the same definition has become
another one with most of its words; where the line is the same, in a definition of another name;
and where the file is gone, and another one has the line. Each known finding is taken once, so that
one more of the same kind is always a new one.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence

from amplint.run.fingerprint import Identity

WORD = re.compile(r"\w+")
# Of the words of both lines, the part that has to be the same, in the same order. Fixes of amplint
# in s3prl 0.4.18 leave 0.6 and more; `total += loss.item()` and `count += hits.item()` have 0.33.
SIMILAR = 0.5
# Edited lines of a definition that are compared with each other: the work grows with the square.
MOST = 100


def match(
    identities: Sequence[Identity],
    counts: Counter[Identity],
    lines: Callable[[], Collection[str]],
    orphans: Counter[Identity],
) -> list[Identity | None]:
    """The known finding that each finding of a file is, None for a new one. Of equal findings, the
    first are the known ones.

    Args:
        identities: in the order of their places.
        counts: how many are known of each identity in this file; those that are found are taken
            out.
        lines: returns all that stand in the file: one of these was not edited.
        orphans: the known findings in files that are no more; those that are found are taken out.
    """
    result: list[Identity | None] = [_take(counts, identity) for identity in identities]
    for pair in _edited(_open(identities, result), counts, lines):
        _settle(result, pair, counts)
    for key, pool in ((_but_scope, counts), (_but_path, orphans)):
        for pair in _equal(_open(identities, result), pool, key):
            _settle(result, pair, pool)
    return result


Pair = tuple[int, Identity]  # the number of a finding, and an identity


def _open(identities: Sequence[Identity], result: Sequence[Identity | None]) -> list[Pair]:
    """The findings that are not known so far, by their numbers."""
    return [(at, each) for at, each in enumerate(identities) if result[at] is None]


def _take(pool: Counter[Identity], identity: Identity) -> Identity | None:
    if pool[identity] <= 0:
        return None
    pool[identity] -= 1
    return identity


def _settle(result: list[Identity | None], pair: Pair, pool: Counter[Identity]) -> None:
    at, identity = pair
    if result[at] is None:
        result[at] = _take(pool, identity)


def _edited(
    findings: Collection[Pair], counts: Counter[Identity], lines: Callable[[], Collection[str]]
) -> Iterator[Pair]:
    """Findings with the known ones whose lines they may have, edited; the most similar first."""
    if not findings or not +counts:
        return
    there = lines()
    old = [each for each in sorted(+counts) if each.line not in there]
    by_place = _grouped(old, lambda each: (each.code, each.scope))
    words = {each: WORD.findall(each.line) for each in old}
    pairs: list[tuple[float, int, Identity]] = []
    tally: Counter[Hashable] = Counter()
    for at, each in findings:
        place = (each.code, each.scope)
        tally[place] += 1
        if tally[place] > MOST or place not in by_place:
            continue
        compared = difflib.SequenceMatcher(None, autojunk=False)
        compared.set_seq2(WORD.findall(each.line))
        for other in by_place[place][:MOST]:
            compared.set_seq1(words[other])
            if compared.quick_ratio() >= SIMILAR and (likeness := compared.ratio()) >= SIMILAR:
                pairs.append((-likeness, at, other))
    for _, at, other in sorted(pairs):
        yield at, other


def _equal(
    findings: Iterable[Pair], pool: Counter[Identity], key: Callable[[Identity], Hashable]
) -> Iterator[Pair]:
    """Findings with the known ones that have the same key."""
    others = _grouped(sorted(+pool), key) if +pool else {}
    for at, each in findings:
        for other in others.get(key(each), ()):
            yield at, other


def _but_scope(identity: Identity) -> Hashable:
    return identity.code, identity.line


def _but_path(identity: Identity) -> Hashable:
    return identity.code, identity.line, identity.scope


def _grouped(
    identities: Iterable[Identity], key: Callable[[Identity], Hashable]
) -> dict[Hashable, list[Identity]]:
    groups: dict[Hashable, list[Identity]] = defaultdict(list)
    for each in identities:
        groups[key(each)].append(each)
    return groups
