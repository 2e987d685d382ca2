"""`amplint verify --rules`: what each rule says happens at run time, held against what happens.

A rule's fixture is a program with the mistake, `bad.py`, and one without, `good.py`. `run` of
bad.py is run as it is and with all fixes applied (of good.py, where no fix touches `run`), and what
the rule's witness demands must hold of the first and not of the second.
"""

from __future__ import annotations

import ast
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from amplint.findings.witness import Differs, Dtype, Raises, Same, Syncs, Unrun, Warns, Witness
from amplint.fix.project_fixes import fix_project
from amplint.project.config import Settings
from amplint.project.discover import Selection
from amplint.rule import registry
from amplint.rule.fixtures import Files, folder, modules, write
from amplint.rule.of_engine import ENGINE_RULES
from amplint.rule.rule import Rule
from amplint.run.request import Request
from amplint_verify.backends.choice import BACKENDS, Aspect, AspectShown, Backend
from amplint_verify.recording.observation import Leaf, Observation, RunOutcome
from amplint_verify.runs.run import Runner
from amplint_verify.runs.spec import Spec
from amplint_verify.torch_range import NEWEST


class WitnessVerdict(Enum):
    """The verdict of a run on a witness."""

    VERIFIED = "verified"
    DIFFERS = "differs"
    CRASHES = "crashes"
    INCONCLUSIVE = "inconclusive"
    NOT_SHOWN = "not shown"
    UNRUN = "not run"


MEANINGS: Mapping[WitnessVerdict, str] = {
    WitnessVerdict.VERIFIED: "What the rule says happened.",
    WitnessVerdict.DIFFERS: "It did not.",
    WitnessVerdict.CRASHES: (
        "A program ended as it should not: an error, a signal, no answer in time."
    ),
    WitnessVerdict.INCONCLUSIVE: "The back end could not run it, and says why.",
    WitnessVerdict.NOT_SHOWN: "The back end does not show this kind of thing.",
    WitnessVerdict.UNRUN: (
        "No machine that amplint is tested on can run it; the source of the claim is named."
    ),
}

VERIFIED, NOT_VERIFIED, NOT_EXECUTED = 0, 1, 3  # exit status; 2 is for usage
REFUTED = (WitnessVerdict.DIFFERS, WitnessVerdict.CRASHES)


@dataclass(frozen=True)
class WitnessResult:
    """A line of the table.

    Args:
        code, name: of the rule.
        backend: by name; "" for a witness that nothing here runs.
        demanded: what the witness says, in words.
        happened: what was seen of both programs.
        verdict: what follows.
    """

    code: str
    name: str
    backend: str
    demanded: str
    happened: str
    verdict: WitnessVerdict


# ------------------------------------------------------------------------------- the programs


def fixed(files: Files, directory: Path) -> dict[str, bytes]:
    """The files with all fixes applied, the unsafe ones too. They are written to the directory."""
    write(files, directory)
    paths = tuple(sorted(files))
    request = Request(
        selection=Selection(directory, paths, frozenset(paths)),
        settings=Settings(directory, select=("ALL",), preview=True, target_torch=NEWEST),
        rules=registry.own_rules(),
    )
    outcome = fix_project(request, unsafe=True)
    return {path: outcome.after.get(path, data.decode()).encode() for path, data in files.items()}


def source_of_run(data: bytes) -> str | None:
    """The text of a module's `run`."""
    text = data.decode()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == "run":
            return ast.get_source_segment(text, node)
    return None


@dataclass(frozen=True)
class ProgramPair:
    """The two programs of a rule, written to two directories.

    Args:
        bad: where bad.py stands as it is.
        fixed: where all modules stand fixed.
        target: what is run of the fixed ones.
    """

    bad: Path
    fixed: Path
    target: str


def prepared(rule: Rule, directory: Path) -> ProgramPair:
    """Write the programs of a rule below a directory."""
    before = modules(folder(rule.name))
    after = fixed(before, directory / "fixing")
    touched = source_of_run(before["bad.py"]) != source_of_run(after["bad.py"])
    return ProgramPair(
        write(before, directory / "bad"),
        write(after, directory / "fixed"),
        "bad:run" if touched else "good:run",
    )


# ------------------------------------------------------------------------------- what is demanded


@dataclass(frozen=True)
class Demand:
    """The aspects that a kind of witness needs of a back end.

    Args:
        aspect: what the back end must show.
        words: the witness in words.
        check: what happened, and whether it is what the witness says.
    """

    aspect: Callable[[Any], Aspect]
    words: Callable[[Any], str]
    check: Callable[[Any, Observation, Observation], tuple[bool, str]]


def aspect_of_error(witness: Raises) -> Aspect:
    if witness.policy:  # which operations autocast refuses stands in its lists, as dtypes do
        return Aspect.DTYPES
    if witness.backward:
        return Aspect.VALUES
    return Aspect.DEVICES if witness.devices else Aspect.ERRORS


def raises(witness: Raises, bad: Observation, _: Observation) -> tuple[bool, str]:
    if bad.outcome is RunOutcome.EXCEPTION:
        error = f"{bad.error}: {bad.text}"
        text = (bad.backend == "cuda" and witness.on_gpu) or witness.text
        return text.casefold() in error.casefold(), error.partition("\n")[0]
    if bad.flags:
        flag = bad.flags[0]
        return True, f"flagged: {flag.op} of {' and '.join(flag.dtypes)}"
    return False, "the bad program runs"


def dtype(witness: Dtype, bad: Observation, good: Observation) -> tuple[bool, str]:
    dtypes = tuple(leaf.tensor.dtype if leaf.tensor else leaf.kind for leaf in first(bad, good))
    return dtypes == (witness.bad, witness.good), " -> ".join(dtypes)


def same(_: Same, bad: Observation, good: Observation) -> tuple[bool, str]:
    for one, other in zip(bad.result, good.result, strict=False):
        if one != other:
            return False, f"{one.where} differs"
    equal = bad.result == good.result
    return equal, "bitwise equal" if equal else "another number of results"


def differs(witness: Differs, bad: Observation, good: Observation) -> tuple[bool, str]:
    gap = distance(bad.result, good.result)
    return gap > witness.rtol, f"differ by {gap:.2g}, relatively"


def syncs(witness: Syncs, bad: Observation, good: Observation) -> tuple[bool, str]:
    before, after = bad.reads.total, good.reads.total
    holds = before >= witness.before and after <= witness.after
    return holds, f"{before} reads -> {after}"


def warns(witness: Warns, bad: Observation, good: Observation) -> tuple[bool, str]:
    pair = [any(witness.text in text for text in each.warnings) for each in (bad, good)]
    return pair == [True, False], " -> ".join("warns" if each else "silent" for each in pair)


def first(*observations: Observation) -> Iterator[Leaf]:
    """The first leaf of each result."""
    return (each.result[0] for each in observations)


def distance(one: Sequence[Leaf], other: Sequence[Leaf]) -> float:
    """How far the numbers of two results are apart, relative to the second, in the 2-norm."""
    import torch  # noqa: PLC0415

    a, b = (torch.cat([numbers(leaf) for leaf in leaves]) for leaves in (one, other))
    return float((a - b).norm() / b.norm())


def numbers(leaf: Leaf) -> Any:
    """The numbers of a leaf, in float64."""
    import torch  # noqa: PLC0415

    from amplint_verify.recording.snapshot import restored  # noqa: PLC0415

    if leaf.tensor is not None:
        values = restored(leaf.tensor)
        assert values is not None, "results of fixtures are small"
        return values.double().flatten()
    plain = [float(leaf.text)] if leaf.kind in ("float", "int") else []
    return torch.tensor(plain, dtype=torch.float64)


DEMANDS: Mapping[type[Witness], Demand] = {
    Raises: Demand(
        aspect_of_error,
        lambda witness: f"raises {witness.text!r} -> runs",
        raises,
    ),
    Dtype: Demand(
        lambda _: Aspect.DTYPES, lambda witness: f"{witness.bad} -> {witness.good}", dtype
    ),
    Same: Demand(lambda _: Aspect.VALUES, lambda _: "bitwise equal results", same),
    Differs: Demand(
        lambda _: Aspect.VALUES, lambda witness: f"results differ by {witness.rtol:g}", differs
    ),
    Syncs: Demand(
        lambda _: Aspect.WAITS,
        lambda witness: f"{witness.before} reads or more -> {witness.after} or less",
        syncs,
    ),
    Warns: Demand(
        lambda _: Aspect.WARNINGS, lambda witness: f"warns {witness.text!r} -> silent", warns
    ),
}


def judged(
    witness: Witness, backend: Backend, bad: Observation, good: Observation
) -> tuple[WitnessVerdict, str]:
    """The verdict of two runs on a witness, and a description of what happened.

    The fixed program must run, whatever the back end shows. A back end that shows an aspect in
    part confirms what it shows; where it shows nothing, nothing follows from that.
    """
    demand = DEMANDS[type(witness)]
    for name, run in (("bad", bad), ("fixed", good)):
        if run.outcome is RunOutcome.NOT_SIMULABLE:
            return WitnessVerdict.INCONCLUSIVE, f"{name} program not simulable: {run.text}"
        if run.outcome is not RunOutcome.OK and not (
            run.outcome is RunOutcome.EXCEPTION and name == "bad" and isinstance(witness, Raises)
        ):
            return WitnessVerdict.CRASHES, f"{name} program: {run.error}: {run.text}".partition(
                "\n"
            )[0]
    aspect = demand.aspect(witness)
    if backend.shows[aspect] is AspectShown.NO:
        return WitnessVerdict.NOT_SHOWN, f"{aspect.value}: {backend.notes.get(aspect, 'not shown')}"
    holds, happened = demand.check(witness, bad, good)
    return WitnessVerdict.VERIFIED if holds else WitnessVerdict.DIFFERS, happened


# ------------------------------------------------------------------------------- the table


# Programs. On a GPU each has a context of its own, and more of them may not fit on a small one.
BESIDE_EACH_OTHER = min(os.cpu_count() or 1, 8)


def verify(
    rules: Sequence[Rule], backends: Sequence[Backend], runner: Runner
) -> Iterator[WitnessResult]:
    """Run the fixtures of rules on back ends; a result for each pair, in order, as it is known.

    Back ends run beside each other; so do programs that get a process of their own (`cuda`).
    """
    with (
        tempfile.TemporaryDirectory(prefix="amplint-") as directory,
        ThreadPoolExecutor(BESIDE_EACH_OTHER) as pool,
    ):
        pending = [
            pool.submit(task, runner)
            for rule in rules
            for task in tasks(rule, backends, Path(directory) / rule.code)
        ]
        for each in pending:
            yield each.result()


def tasks(
    rule: Rule, backends: Sequence[Backend], directory: Path
) -> Iterator[Callable[[Runner], WitnessResult]]:
    """A function that returns the results of a rule, whose programs are written to a directory."""
    if isinstance(rule.witness, Unrun):
        words = f"{rule.witness.reason} ({rule.witness.source})"
        unrun = WitnessResult(
            rule.code, rule.name, "", "nothing here runs it", words, WitnessVerdict.UNRUN
        )
        yield lambda _: unrun
        return
    pair = prepared(rule, directory)
    for backend in backends:
        yield partial(result_of, rule, pair, backend)


def result_of(rule: Rule, pair: ProgramPair, backend: Backend, runner: Runner) -> WitnessResult:
    """The result of running a rule's programs on a back end."""
    bad = runner.run(Spec(str(pair.bad), "bad:run", backend.name, ("{device}",)))
    good = runner.run(Spec(str(pair.fixed), pair.target, backend.name, ("{device}",)))
    verdict, happened = judged(rule.witness, backend, bad, good)
    demanded = DEMANDS[type(rule.witness)].words(rule.witness)
    return WitnessResult(rule.code, rule.name, backend.name, demanded, happened, verdict)


def rules_of(codes: Sequence[str]) -> tuple[Rule, ...]:
    """The rules that are meant by codes or names; all that have a fixture if none are given.

    Raises registry.UnknownRuleError, also for a rule of another package, which has none here.
    """
    own_rules = tuple(r for r in registry.own_rules() if r not in ENGINE_RULES)
    others = [rule for rule in registry.all_rules() if rule.package] if codes else []
    rules = tuple(registry.find(code, (*own_rules, *others)) for code in codes)
    for rule in rules:
        if rule.package:
            raise registry.UnknownRuleError(f"{rule.code} is of {rule.package}: no example is here")
    return rules or own_rules


def status(results: Sequence[WitnessResult]) -> int:
    """The exit status.

    Returns:
        1 if a back end refutes a witness; 3 if a witness that can be run was verified by none, or
        if there was nothing to run; else 0.
    """
    if any(result.verdict in REFUTED for result in results):
        return NOT_VERIFIED
    run = {result.code for result in results if result.verdict is not WitnessVerdict.UNRUN}
    verified = {result.code for result in results if result.verdict is WitnessVerdict.VERIFIED}
    return VERIFIED if run and run == verified else NOT_EXECUTED


def as_text(results: Sequence[WitnessResult]) -> str:
    """The table, in columns."""
    rows = [("rule", "back end", "demanded", "happened", "verdict")] + [
        (r.code, r.backend, r.demanded, r.happened, r.verdict.value) for r in results
    ]
    widths = [min(60, max(len(row[at]) for row in rows)) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cut(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    )


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def as_markdown(results: Sequence[WitnessResult]) -> str:
    """A row for each rule, a column for each back end: what stands in the documentation."""
    names = [name for name in BACKENDS if any(result.backend == name for result in results)]
    rows: dict[str, dict[str, WitnessResult]] = {}
    for result in results:
        rows.setdefault(result.code, {})[result.backend] = result
    lines = [["rule", "what its witness demands", *(f"`{name}`" for name in names)]]
    lines.append(["---"] * len(lines[0]))
    for code, by_backend in rows.items():
        any_result = next(iter(by_backend.values()))
        unrun = any_result.verdict is WitnessVerdict.UNRUN
        words = f"{any_result.demanded}: {any_result.happened}" if unrun else any_result.demanded
        cells = [by_backend[name].verdict.value if name in by_backend else "" for name in names]
        lines.append([f"{code} {any_result.name}", words, *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
