"""How settings and comments name rules: codes, the beginnings of codes, and names; and which rules
hold for a version of torch."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from functools import cache
from typing import TypeVar

from amplint.findings.declaration import Declaration

AnyClaim = TypeVar("AnyClaim", bound=Declaration)

OWN = "AMP"
UNREADABLE = "AMP000"  # the code of the finding that a file cannot be read
CODE = re.compile(r"[A-Z]{2,5}\d{3}")
CODE_OR_BEGINNING = re.compile(r"[A-Z]{2,5}\d*")
MOST_NEAR = 12  # codes that are named for one that no rule has
RESERVED = (OWN, "ALL")  # letters that no other package may take; ALL selects every rule
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
# The directory of a rule in rules/, by the first digit of its code.
FAMILIES = {
    "1": "host_sync",
    "2": "precision",
    "3": "autocast",
    "4": "gradscaler",
    "5": "placement",
    "6": "parallel",
    "7": "migration",
    "8": "numerics",
    "9": "memory",
}


def whole(rule: Declaration) -> str:
    """A rule as it is kept apart from one of another package."""
    return f"{rule.name} of {rule.package}" if rule.package else rule.name


def for_torch(
    rules: Iterable[AnyClaim], lowest: str | None, highest: str | None
) -> tuple[AnyClaim, ...]:
    """The rules that hold for the torch of a project.

    Args:
        lowest: the lowest one that it names, if it names one; a rule that a newer torch has made
            needless is left out without.
        highest: the newest one that a rule may need; None for any.
    """
    return tuple(
        rule
        for rule in rules
        if (rule.torch is None or highest is None or version(rule.torch) <= version(highest))
        and (rule.until is None or (lowest is not None and version(lowest) < version(rule.until)))
    )


def version(text: str) -> tuple[int, ...]:
    """A version as numbers that compare, without trailing zeros: "2.10" is above "2.9"."""
    numbers = [int(part) for part in text.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def letters_of(code: str) -> str:
    """The letters in front of a code's digits."""
    return code.rstrip("0123456789")


@cache
def beginnings(code: str) -> tuple[str, ...]:
    """The selectors that mean a code and others: "AMP", "AMP1" and "AMP10" for AMP101."""
    length = len(letters_of(code))
    return tuple(code[:end] for end in range(length, len(code)))


def near_codes(text: str, codes: Collection[str]) -> list[str]:
    """The codes that begin as a code that no rule has, or its beginning, does up to its last digit;
    none for what is neither."""
    if not CODE_OR_BEGINNING.fullmatch(text):
        return []
    for end in range(len(text), max(len(letters_of(text)), len(text) - 1) - 1, -1):
        near = sorted(code for code in codes if code.startswith(text[:end]))
        if near:
            return near
    return []


def is_slip(text: str, word: str) -> bool:
    """Whether a text is a word with one other character, one too many or too few, or two
    neighbours swapped."""
    if abs(len(text) - len(word)) > 1:
        return False
    pairs = zip(text, word, strict=False)
    start = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(text), len(word)))
    one, other = text[start:], word[start:]
    swapped = one[:2] == other[1::-1] and one[2:] == other[2:]
    return swapped or one[1:] == other[1:] or one[1:] == other or one == other[1:]


MISREAD = str.maketrans("oil", "011")  # AMP1O1 is AMP101, and not a slip for AMP11


def did_you_mean(text: str, words: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: the nearest known one, if any is near.

    For a code that is another code with one other digit, or with two of them swapped, and not the
    beginning of many. If no rule has its letters, it is taken for one of a package that is not
    installed, and not for a slip of the pen.
    """
    if CODE.fullmatch(text.upper()):
        letters = letters_of(text.upper())
        words = [word for word in words if CODE.fullmatch(word) and letters_of(word) == letters]
        if not words:
            return f"; no package with rules {letters} is installed beside amplint"
        words = [word for word in words if is_slip(text.upper(), word)]
    spelled = {word.lower(): word for word in words}
    misread = {word.translate(MISREAD): word for word in spelled}
    alike = misread.get(text.lower().translate(MISREAD))
    if alike is not None:
        return f"; did you mean `{spelled[alike]}`?"
    near = difflib.get_close_matches(text.lower(), spelled, n=1, cutoff=0.5)
    return f"; did you mean `{spelled[near[0]]}`?" if near else ""
