"""One line as text: its values, hotness and region, and what the rules say of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from amplint.analyses.hotness import Hotness
from amplint.gradscaler.known_calls import KnownCalls
from amplint.project.reading import Reading
from amplint.run.inspection import AskedQuestion, Expression, Inspection, RuleVerdict
from amplint.util.escaping import printable
from amplint.util.text import UndecodableError
from amplint.values.atoms import (
    ACCELERATOR,
    Atom,
    Autocast,
    Class,
    Device,
    DType,
    Evidence,
    Function,
    Heat,
    Host,
    Instance,
    Mapping,
    Method,
    Module,
    NoGrad,
    Object,
    Reason,
    Region,
    Sequence,
    Super,
    Symbol,
    Tensor,
    TensorTree,
    Value,
    evidence_of,
    ordered,
)

DEVICES = {
    ACCELERATOR: "on the accelerator",
    "cpu": "on the CPU",
    "cpu or not": "on the CPU or elsewhere",
    None: "of unknown device",
}
# The same of a device itself.
PLACES = {
    ACCELERATOR: "that is an accelerator",
    "cpu": "that is the CPU",
    "cpu or not": "that may be the CPU",
    None: "of which nothing is known",
}
HOSTS = {"none": "None", "numpy": "a NumPy array", "object": "an object of the host"}
STATES = {True: "on", False: "off", None: "on or off"}
LONGEST = 160  # of a value in words
DEEPEST = 3  # levels of containers that are shown
NOTHING = "nothing is known"


Where: TypeAlias = Callable[[str, int], str]  # a path and a row as the reader would write them


def render(seen: Inspection, reading: Reading, shown: Callable[[str], str] = str) -> str:
    """The whole page, for people.

    Args:
        reading: has the texts of the project.
        shown: a path of the project as the reader would write it.
    """

    def where(path: str, row: int) -> str:
        try:
            part = reading.text(path).part(row)
        except (KeyError, UndecodableError):
            return f"{shown(path)}:{row}"
        return f"{part.of(shown(path))}:{row - part.above}"

    return "\n".join(map(printable, lines(seen, where))) + "\n"


def lines(seen: Inspection, where: Where) -> Iterator[str]:
    yield f"{where(seen.path, seen.row)}: {seen.line}"
    for notice in seen.notices:
        yield f"  not checked: {notice}"
    if seen.notices and not seen.expressions:
        return
    yield ""
    yield "values"
    yield from indented(of_values(seen.expressions, where)) if seen.expressions else ["  none"]
    yield ""
    yield "runs"
    yield from indented(of_heat(heat_of(seen.expressions), where))
    yield ""
    yield "region"
    yield from indented(of_region(region_of(seen.expressions), where))
    if seen.training is not None:
        yield ""
        yield "scaler"
        yield from indented(of_training(seen.training, where))
    yield ""
    yield "rules"
    for verdict in seen.verdicts:
        yield from indented(of_verdict(verdict, where))
    if not seen.verdicts:
        yield "  no rule looks at anything in this line"


def indented(found: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in found)


def heat_of(expressions: Iterable[Expression]) -> Heat | None:
    """Of several places in a line, the hottest: a comprehension may be one that is hot."""
    found = [each.heat for each in expressions if each.heat is not None]
    return min(found, key=lambda heat: heat.temperature != "training", default=None)


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
        yield "rarely, or nothing shows how often"
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


def of_training(known: KnownCalls, where: Where) -> Iterator[str]:
    """The calls of the training step."""
    if not known.function:
        yield "no call of a scaler is known in this function or its callers"
        return
    yield f"the calls of a training step on the paths of `{known.function}`"
    yield from (f"    {placed(each, where)}" for each in known.calls)
    if not known.complete:
        yield "    it has more paths than amplint tracks"


def of_verdict(verdict: RuleVerdict, where: Where) -> Iterator[str]:
    head = f"{verdict.rule.code} {verdict.rule.name}"
    if verdict.problem:
        yield f"{head}: failed: {verdict.problem}"
    for finding in verdict.reported:
        yield f"{head}: reports: {finding.message}"
    for finding, reason in verdict.hidden:
        yield f"{head}: would report, but {reason}: {finding.message}"
    if verdict.reported or verdict.hidden or verdict.problem:
        return
    if not verdict.asked and not verdict.lacking:
        yield f"{head}: looks at nothing in this line"
        return
    yield f"{head}: silent" + f" about `{verdict.about}`" * bool(verdict.about)
    yield from (f"    does not hold: {condition}" for condition in verdict.lacking)
    yield from (f"    asked {question(asked, where)}" for asked in verdict.asked[:-1])
    yield from (f"    asked last {question(asked, where)}" for asked in verdict.asked[-1:])


def question(asked: AskedQuestion, where: Where) -> str:
    """Ex) Hotness of `loss.item()`: nothing is known"""
    about = f" of `{shortened(asked.about, 60)}`" if asked.about else ""
    return f"{asked.fact.__name__}{about}: {shortened(answer(asked, where), LONGEST)}"


def answer(asked: AskedQuestion, where: Where) -> str:
    """The answer of a fact in words."""
    found = asked.answer
    if found is None:
        return "rarely, or nothing shows how often" if asked.fact is Hotness else NOTHING
    if isinstance(found, bool):
        return "yes" if found else "no"
    if isinstance(found, frozenset):
        return value_in_words(found)
    if isinstance(found, Heat):
        return next(of_heat(found, where))
    if isinstance(found, Region):
        return next(of_region(found, where))
    if isinstance(found, Evidence):
        return placed(found, where)
    if isinstance(found, tuple) and found and all(isinstance(each, Evidence) for each in found):
        return placed(found[-1], where)
    return str(found)


def placed(evidence: Evidence, where: Where) -> str:
    """Ex) train.py:12: `loader` is a loader"""
    return f"{where(evidence.place.path, evidence.place.row)}: {evidence.text}"


def reasons_of(value: Value, where: Where) -> Iterator[str]:
    """The evidence for devices and dtypes, each once."""
    found: dict[str, None] = {}
    for atom in ordered(value):
        for reason in (
            getattr(getattr(atom, "device", None), "evidence", None),
            dtype_reason(atom),
        ):
            evidence = evidence_of(reason)
            if evidence is not None:
                found[placed(evidence, where)] = None
    yield from found


def dtype_reason(atom: Atom) -> Reason | None:
    return atom.dtype_evidence if isinstance(atom, Tensor) else None


# -------------------------------------------------------------------------------------- values


def value_in_words(value: Value, depth: int = 0) -> str:
    """Ex) a float32 tensor on the accelerator, 0-dim, with a graph; or None"""
    if not value:
        return "never reached"
    told = [atom_in_words(atom, depth) for atom in ordered(value)]
    return shortened("; or ".join(dict.fromkeys(told)), LONGEST)


def atom_in_words(atom: Atom, depth: int = 0) -> str:
    """One alternative of a value."""
    if isinstance(atom, Tensor):
        return tensor_in_words(atom)
    if isinstance(atom, TensorTree):
        forms = (
            "a nest of tensors"
            if len(atom.forms) > 1
            else f"{with_article(min(atom.forms))} of tensors"
        )
        return f"{forms} {DEVICES[atom.device.kind]} ({atom.source})"
    if isinstance(atom, Host):
        return host_in_words(atom)
    if isinstance(atom, Sequence):
        return sequence_in_words(atom, depth)
    if isinstance(atom, Mapping):
        return mapping_in_words(atom, depth)
    if isinstance(atom, Method):
        return f"the method `{atom.name}` of {atom_in_words(atom.of, depth)}"
    if isinstance(atom, Autocast):
        return (
            f"an autocast context ({atom.device or 'any device'}, {atom.dtype or 'default dtype'})"
        )
    if isinstance(atom, Object):
        return f"`{atom.type}` ({atom.kind}) {DEVICES[atom.device.kind]}"
    if isinstance(atom, Instance):
        return f"an instance of `{atom.cls.rpartition('::')[2]}`"
    if isinstance(atom, Device):
        return f"the device {atom.name}" if atom.name else f"a device {PLACES[atom.kind]}"
    return named_in_words(atom)


def named_in_words(atom: Atom) -> str:
    """Ex) the function `step`, of which there is nothing else to say."""
    if isinstance(atom, Symbol):
        return f"`{atom.name}`"
    if isinstance(atom, DType):
        return f"the dtype {atom.name}"
    if isinstance(atom, Function):
        return f"the function `{atom.id.rpartition('::')[2]}`"
    if isinstance(atom, Class):
        return f"the class `{atom.id.rpartition('::')[2]}`"
    if isinstance(atom, Super):
        return "super()"
    if isinstance(atom, Module):
        return f"the module {atom.path}"
    return "a context without gradients" if isinstance(atom, NoGrad) else "unknown"


def tensor_in_words(tensor: Tensor) -> str:
    dtype = f"{with_article(tensor.dtype)} tensor" if tensor.dtype else "a tensor of unknown dtype"
    if tensor.half is not None:
        dtype = f"a tensor that is {tensor.half} on one path"
    parts = [f"{dtype} {DEVICES[tensor.device.kind]}"]
    if tensor.rank == 0:
        parts.append("0-dim")
    elif tensor.dims is not None:
        parts.append(f"{tensor.dims} dimension{'s' * (tensor.dims != 1)}")
    elif tensor.rank is not None:
        parts.append("at least one dimension")
    if tensor.grad is not None:
        parts.append("with a graph" if tensor.grad else "without a graph")
    return ", ".join(parts)


def host_in_words(host: Host) -> str:
    if host.known and host.const is not None:
        return f"the constant {host.const!r}"
    return HOSTS.get(host.kind, f"{with_article(host.kind)} of the host")


def sequence_in_words(sequence: Sequence, depth: int) -> str:
    what = "a batch of a loader: " if sequence.batches else "a sequence of "
    if depth >= DEEPEST:
        return what + "..."
    if sequence.items is None:
        return what + value_in_words(sequence.element, depth + 1)
    return f"({', '.join(value_in_words(item, depth + 1) for item in sequence.items)})"


def mapping_in_words(mapping: Mapping, depth: int) -> str:
    if depth >= DEEPEST:
        return "a dict"
    items = [f"{key!r}: {value_in_words(value, depth + 1)}" for key, value in mapping.items]
    rest = [f"other keys: {value_in_words(mapping.rest, depth + 1)}"] if mapping.rest else []
    return f"a dict {{{', '.join(items + rest)}}}"


def shortened(text: str, longest: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def with_article(word: str) -> str:
    """Ex) an int64, a uint8, a float32"""
    return f"an {word}" if word[0] in "aeio" else f"a {word}"
