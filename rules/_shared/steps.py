"""The check that the rules on the protocol of a GradScaler share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from amplint import MISUSED, Edit, Finding, Fix, Misuse, Related, Rule, Safety, View, Violation

if TYPE_CHECKING:
    Message = str | Callable[[View, Misuse], str | None]
    FindFix = Callable[[View, Misuse], Fix | None]


def report(
    rule: Rule,
    message: Message,
    find_fix: FindFix | None = None,
    violation: Violation | None = None,
) -> None:
    """Let a rule report the calls with its violation.

    Args:
        message: with `{call}` and `{function}` where the call, or what it calls, stands in it; or a
            function that returns such a message, or None where nothing is to be reported.
        find_fix: makes the fix of a call, if there is one.
        violation: which calls, if not those with the rule's own.
    """

    @rule.on(MISUSED)
    def check(call: View) -> Iterator[Finding]:
        misuse = call.misuse(violation or rule.violation)
        if misuse is None:
            return
        text = message if isinstance(message, str) else message(call, misuse)
        if text is not None:
            text = text.format(call=call.brief, function=call.source.brief(call.cst.func))
            fix = find_fix(call, misuse) if find_fix is not None else None
            yield call.finding(text, places(call, misuse), fix)


def places(call: View, misuse: Misuse) -> list[Related]:
    """The places that a violation rests on, each once, except that of the finding itself.

    A call that goes wrong in the next iteration is the other call of its own violation.
    """
    src = call.source
    *inner, last = (src.related(evidence) for evidence in (*misuse.inner, misuse.other))
    all_places = [*(one for one in inner if _where(one) != _where(last)), last]
    return [one for one in all_places if _where(one) != (src.path, call.span)]


def _where(place: Related) -> tuple[str, object]:
    return place.path, place.span


def unsafe(title: str, *edits: Edit | None) -> Fix | None:
    """A fix that changes how the model is trained; None where one of its edits cannot be made."""
    possible_edits = tuple(edit for edit in edits if edit is not None)
    return Fix(title, possible_edits, Safety.UNSAFE) if len(possible_edits) == len(edits) else None
