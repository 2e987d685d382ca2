"""One line as text: its values, hotness and region, and what the rules say of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from amplint.output.question_text import NOT_HOT, sentence
from amplint.output.values_in_words import Where, placed, reasons_of, value_in_words
from amplint.project.reading import Reading
from amplint.run.inspection import Expression, Inspection, RuleVerdict
from amplint.util.escaping import printable
from amplint.util.text import UndecodableError
from amplint.util.wording import counted
from amplint.values.atoms import Heat, Method, Region, Symbol, evidence_of

STATES = {True: "on", False: "off", None: "on or off"}
NEAREST = 2  # of the rules that are silent, that many are named


def render(
    inspection: Inspection,
    reading: Reading,
    path_of: Callable[[str], str] = str,
    every: bool = False,
) -> str:
    """The whole page, for people.

    Args:
        every: all rules that are silent, and not only the nearest ones.
        reading: has the texts of the project.
        path_of: a path of the project as the reader would write it.
    """

    def where(path: str, row: int) -> str:
        try:
            part = reading.text(path).part(row)
        except (KeyError, UndecodableError):
            return f"{path_of(path)}:{row}"
        return f"{part.of(path_of(path))}:{row - part.above}"

    return "\n".join(map(printable, lines(inspection, where, every))) + "\n"


def lines(inspection: Inspection, where: Where, every: bool) -> Iterator[str]:
    yield f"{where(inspection.path, inspection.row)}: {inspection.line}"
    for notice in inspection.notices:
        yield f"  not checked: {notice}"
    if inspection.notices and not inspection.expressions:
        return
    yield ""
    yield "values"
    yield from (
        indented(of_values(inspection.expressions, where)) if inspection.expressions else ["  none"]
    )
    yield ""
    yield "runs"
    yield from indented(of_heat(heat_of(inspection.expressions), where))
    yield ""
    yield "region"
    yield from indented(of_region(region_of(inspection.expressions), where))
    yield ""
    yield "rules"
    yield from indented(of_verdicts(inspection.verdicts, where, every))


def indented(texts: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in texts)


def heat_of(expressions: Iterable[Expression]) -> Heat | None:
    """Of several places in a line, the hottest: a comprehension may be one that is hot."""
    heats = [each.heat for each in expressions if each.heat is not None]
    return min(heats, key=lambda heat: heat.temperature != "training", default=None)


def region_of(expressions: Iterable[Expression]) -> Region | None:
    return next((each.region for each in expressions if each.region is not None), None)


# ------------------------------------------------------------------------------------ sections


def of_values(expressions: Iterable[Expression], where: Where) -> Iterator[str]:
    for expression in expressions:
        if all(isinstance(atom, Symbol | Method) for atom in expression.value):
            continue  # `torch.zeros` and `x.item` say so themselves
        yield f"{expression.text}: {value_in_words(expression.value)}"
        for reason in reasons_of(expression.value, where):
            yield f"    {reason}"


def of_heat(heat: Heat | None, where: Where) -> Iterator[str]:
    if heat is None:
        yield NOT_HOT
        return
    guess = ", if an ambiguous call means this method" * heat.is_guess
    yield f"for every batch of {heat.temperature}{guess}"
    yield from (f"    {placed(each, where)}" for each in heat.chain)


def of_region(region: Region | None, where: Where) -> Iterator[str]:
    if region is None:
        yield "none is known"
        return
    kind = f"{region.device or 'any device'}, {region.dtype or 'the default dtype'}"
    yield f"autocast for {kind}, {STATES[region.enabled]}, {opened(region)}"
    evidence = evidence_of(region.evidence)
    if evidence is not None:
        yield f"    {placed(evidence, where)}"


def opened(region: Region) -> str:
    """Ex) which a caller opens"""
    if region.presumed:
        return "which is presumed"
    if region.wrapped:
        return "which a framework opens"
    return "which a caller opens" if region.inherited else "which is opened here"


def of_verdicts(verdicts: Sequence[RuleVerdict], where: Where, every: bool) -> Iterator[str]:
    """The verdicts of the rules; of those that are silent, all or the nearest ones."""
    if not verdicts:
        yield "no rule looks at anything in this line"
    silent = [verdict for verdict in verdicts if verdict.is_silent]
    for verdict in verdicts:
        if every or not verdict.is_silent:
            yield from of_verdict(verdict, where)
    if every:
        return
    nearest = sorted(silent, key=distance)[:NEAREST]
    for verdict in nearest:
        yield f"{head(verdict)}, nearly: {obstacle(verdict, where)}"
    if len(silent) > len(nearest):
        others = counted(len(silent) - len(nearest), "other rule")
        yield f"{others} found nothing in this line: --all says why"


def distance(verdict: RuleVerdict) -> tuple[object, ...]:
    """How far a rule was from a finding: a rule on calls of this name is nearer than one on any
    call, and one that asked more is nearer. That one condition is lacking is one answer."""
    return not verdict.is_named, len(verdict.lacking) > 1, -max(len(verdict.answers), 1)


def obstacle(verdict: RuleVerdict, where: Where) -> str:
    """The reason why a rule that is silent has found nothing."""
    if verdict.lacking:
        return verdict.lacking[-1]
    return sentence(verdict.answers[-1], where) if verdict.answers else "it looks at nothing here"


def of_verdict(verdict: RuleVerdict, where: Where) -> Iterator[str]:
    if verdict.problem:
        yield f"{head(verdict)}: failed: {verdict.problem}"
    for finding in verdict.reported:
        yield f"{head(verdict)}: reports: {finding.message}"
    for finding, reason in verdict.hidden:
        yield f"{head(verdict)}: would report this, but {reason}: {finding.message}"
    if not verdict.is_silent:
        return
    about = f" about `{verdict.about}`" * bool(verdict.about)
    texts = (*verdict.lacking, *(sentence(answer, where) for answer in verdict.answers))
    yield f"{head(verdict)}: silent{about}" if texts else f"{head(verdict)}: looks at nothing here"
    yield from (f"    {each}" for each in texts)


def head(verdict: RuleVerdict) -> str:
    return f"{verdict.rule.code} {verdict.rule.name}"
