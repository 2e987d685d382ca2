"""From what was seen to findings, with the codes and the words of the rules."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain

from amplint.findings.finding import Cost, Finding, Group, Related
from amplint.rule.rule import Rule
from amplint.util.positions import Position, Span
from amplint.util.text import Text
from amplint.util.wording import counted
from amplint_verify.observing.claims import (
    ABOUT_HALF,
    CLAIMS,
    FLAGGED,
    NAMES_HALF,
    OF_FUNCTION,
    REFUSALS,
    UNEQUAL,
    ActMeaning,
)
from amplint_verify.recording.observation import Observation
from amplint_verify.recording.sightings import Act, ModulePath, Sighting, UserExpression

LONGEST = 60  # characters of an expression in a message
REFUSED = "torch refuses this: "
BUILTINS = ("all(", "any(", "list(", "max(", "min(", "sorted(", "sum(")  # AMP107's


def findings_of(
    observation: Observation, rules: Sequence[Rule], texts: Mapping[str, Text]
) -> Iterator[Finding]:
    """The mistakes that a run has shown, each once, with how often it was made."""
    by_code = {rule.code: rule for rule in rules}
    for original in observation.sightings:
        claim, text = CLAIMS[original.act], texts.get(original.site.path)
        if text is None or not speaks(claim, original, observation):
            continue
        sighting = replace(original, site=narrowed(original.site, text))
        rule = by_code[code_of(claim, sighting, text)]
        message = message_of(claim, sighting, text, observation)
        yield finding(rule, sighting.site, message, text, sighting)
    for flag in observation.flags:
        name = flag.op.split(".")[1] if flag.op.startswith("aten.") else flag.op
        if name in FLAGGED and flag.path in texts:
            message = f"{REFUSED}`{name}` of {' and '.join(flag.dtypes)}"
            site = UserExpression(flag.path, flag.row, flag.row)
            yield finding(by_code[FLAGGED[name]], site, message, texts[flag.path])
    refused = refusal(observation, texts)
    if refused is not None:
        code, site = refused
        message = REFUSED + first_line(observation.text)
        yield finding(by_code[code], site, message, texts[site.path])


def refusal(
    observation: Observation, texts: Mapping[str, Text]
) -> tuple[str, UserExpression] | None:
    """The code of the rule that explains the error that ended a run, and the place to show."""
    site = raised_at(observation)
    if site is None or site.path not in texts:
        return None
    text = first_line(observation.text)
    is_of_half = NAMES_HALF.search(text) is not None
    if is_of_half and any(words in text for words in UNEQUAL):
        forward = forward_of(site, texts[site.path])
        if forward is not None:
            return OF_FUNCTION, forward
    code = next((code for words, code in REFUSALS.items() if words in observation.text), None)
    return None if code is None or (code in ABOUT_HALF and not is_of_half) else (code, site)


def is_known_refusal(text: str) -> bool:
    """Whether a rule may explain an error with this text."""
    return any(words in text for words in (*REFUSALS, *UNEQUAL))


def forward_of(site: UserExpression, text: Text) -> UserExpression | None:
    """The `def` of the forward pass, of a row in the backward pass of an `autograd.Function`."""
    for node in ast.walk(parsed(text.text)):
        if not isinstance(node, ast.ClassDef) or not any(map(is_function, node.bases)):
            continue
        methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
        backward, forward = methods.get("backward"), methods.get("forward")
        if backward is None or forward is None:
            continue
        if backward.lineno <= site.row <= (backward.end_lineno or 0):
            return UserExpression(site.path, forward.lineno, forward.lineno)
    return None


def is_function(base: ast.expr) -> bool:
    """Ex) torch.autograd.Function"""
    return ast.unparse(base).rpartition(".")[2] == "Function"


def speaks(claim: ActMeaning, sighting: Sighting, observation: Observation) -> bool:
    """Whether a claim can be made of what was seen.

    What is a mistake only in every step has to be seen in two of them, and in at least half: a loop
    that logs every tenth step reads nothing in the others.
    """
    if observation.backend not in claim.backends:
        return False
    enough = max(2, observation.steps / 2)
    return not claim.every_step or sighting.steps >= enough


def code_of(claim: ActMeaning, sighting: Sighting, text: Text) -> str:
    """The code of the rule: that of Python's functions over a tensor where one of these asked."""
    at_builtin = expression(sighting.site, text).startswith(BUILTINS)
    return "AMP107" if at_builtin and sighting.act in (Act.READ, Act.TRUTH) else claim.code


def message_of(claim: ActMeaning, sighting: Sighting, text: Text, observation: Observation) -> str:
    """The message: the expression, what it was seen to do, and how often."""
    source = brief(expression(sighting.site, text))
    phrase = claim.phrase.format(detail=sighting.detail)
    times = "once" if sighting.count == 1 else f"{sighting.count:,} times"
    among = f" in {counted(observation.steps, 'step')}" if observation.steps else ""
    return f"`{source}` {phrase} ({times}{among}{megabytes(sighting)}){where(claim, sighting)}"


def where(claim: ActMeaning, sighting: Sighting) -> str:
    """The modules, and the first step where it is not the first of all.

    Ex) , in `layers.3` (Block) and 2 more modules, first in step 2
    """
    text = ""
    if sighting.module is not None:
        more = sighting.modules - 1
        text = f", in {named(sighting.module)}"
        text += f" and {counted(more, 'more module')}" if more else ""
    late = sighting.first > 1 and not claim.every_step
    return f"{text}, first in step {sighting.first:,}" if late else text


def named(module: ModulePath) -> str:
    """A module by its path; a root, which has none, by its class."""
    return f"`{module.path}` ({module.kind})" if module.path else f"`{module.kind}`"


def megabytes(sighting: Sighting) -> str:
    """The memory that each time costs, if that is known and large enough to be reported."""
    size = sighting.size / sighting.count / 1e6
    return f", {size:.1f} MB each time" if size >= 0.1 else ""


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def raised_at(observation: Observation) -> UserExpression | None:
    """The line of the user's at which the run ended by an error."""
    path, _, row = observation.place.rpartition(":")
    return UserExpression(path, int(row), int(row)) if path else None


# ------------------------------------------------------------------------------- one finding


def finding(
    rule: Rule, site: UserExpression, message: str, text: Text, sighting: Sighting | None = None
) -> Finding:
    callers = sighting.callers if sighting is not None else ()
    return Finding(
        code=rule.code,
        name=rule.name,
        group=rule.group,
        path=site.path,
        span=span_of(site, text),
        message=message,
        scope=scope_of(site, text),
        related=tuple(related(callers)),
        help=rule.help,
        cost=rule.cost or (Cost.RUN if rule.group is Group.CORRECTNESS else Cost.STEP),
        url=rule.page,
    )


def related(callers: Iterable[UserExpression]) -> Iterator[Related]:
    """The calls that led to a place, the nearest first."""
    for site in callers:
        row = Position(site.row, 1)
        yield Related(site.path, Span(row, row), "called here", leads=True)


def span_of(site: UserExpression, text: Text) -> Span:
    """The expression; where Python does not say which one it is, the row without its margins."""
    if site.column < 0:
        line = text.line(site.row)
        first = len(line) - len(line.lstrip()) + 1
        start = Position(site.row, first)
        return Span(start, Position(site.row, max(len(line.rstrip()), first) + 1))
    start = text.position(text.offset(site.row, site.column))
    return Span(start, text.position(text.offset(site.end_row, site.end_column)))


def expression(site: UserExpression, text: Text) -> str:
    """The text of an expression; the whole row where Python does not say which it is."""
    if site.column < 0:
        return text.line(site.row).strip()
    start = text.offset(site.row, site.column)
    return text.text[start : text.offset(site.end_row, site.end_column)]


def narrowed(site: UserExpression, text: Text) -> UserExpression:
    """The test alone, of a statement that tests, and the first context of a `with`: Python has
    the statement's place."""
    for node in ast.walk(parsed(text.text)):
        if isinstance(node, ast.If | ast.While | ast.Assert) and begins_at(node, site):
            return at(node.test, site)
        if isinstance(node, ast.With | ast.AsyncWith) and begins_at(node, site):
            return at(node.items[0].context_expr, site)
    return site


def at(node: ast.expr, site: UserExpression) -> UserExpression:
    """The place of an expression in the file of a place."""
    end_row, end_column = node.end_lineno or node.lineno, node.end_col_offset or -1
    return replace(
        site, row=node.lineno, column=node.col_offset, end_row=end_row, end_column=end_column
    )


def begins_at(node: ast.stmt, site: UserExpression) -> bool:
    return (node.lineno, node.col_offset) == (site.row, site.column)


def brief(text: str) -> str:
    """An expression in one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def scope_of(site: UserExpression, text: Text) -> str:
    """The qualified name of the definition that holds a row; "" of none."""
    names: list[str] = []
    pending: list[ast.AST] = [parsed(text.text)]
    while pending:
        for child in ast.iter_child_nodes(pending.pop()):
            if isinstance(child, ast.stmt) and child.lineno <= site.row <= (child.end_lineno or 0):
                if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    names.append(child.name)
                pending = [child]
                break
            if not isinstance(child, ast.expr | ast.stmt):
                pending.append(child)  # the handlers of a `try`, the cases of a `match`
    return ".".join(names)


@cache
def parsed(code: str) -> ast.Module:
    """The tree of a file, which each of its findings asks for."""
    try:
        return ast.parse(code)
    except SyntaxError:  # of another Python than this one
        return ast.Module([], [])


def explained(
    observed: Iterable[Finding], static: Iterable[Finding], rules: Iterable[Rule]
) -> Iterator[Finding]:
    """The findings, with the fix of `check` where it reports the same; and with the code of a rule
    that speaks before theirs, where that one reports the place. Torch's own words for a refusal may
    stand for several mistakes: the rule that reports the row knows which one it is.
    """
    before = {(rule.code, code) for rule in rules for code in rule.supersedes}
    at_row: dict[tuple[str, int], list[Finding]] = {}
    for each in static:
        at_row.setdefault((each.path, each.span.start.row), []).append(each)
    for each in observed:
        there = at_row.get((each.path, each.span.start.row), ())
        same = (one for one in there if one.code == each.code)
        nearer = (one for one in there if (one.code, each.code) in before)
        refusals = (one for one in there if is_refusal(each) and one.group is Group.CORRECTNESS)
        match = next(chain(same, nearer, refusals), None)
        if match is None:
            yield each
        else:
            yield replace(match, message=each.message, related=each.related or match.related)


def is_refusal(finding: Finding) -> bool:
    return finding.message.startswith(REFUSED)
