"""The programs that `amplint verify` brings along: the examples of the rules, and its self-test.

The two may go together, e.g. on a machine that is had for an hour. As JSON they are one document,
which names the machine; such documents are what benchmarks/results keeps.
"""

from __future__ import annotations

import importlib
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from amplint import __version__
from amplint.output.html_page import escape, escape_lines
from amplint.rule.rule import Rule
from amplint_verify import selftest, torch_range, witnesses
from amplint_verify.backends.choice import Aspect, Backend
from amplint_verify.compare import bench
from amplint_verify.compare.bench import Bench, BenchPoint, Subject
from amplint_verify.recording.observation import to_json
from amplint_verify.report import findings as report
from amplint_verify.report import page
from amplint_verify.runs.run import running
from amplint_verify.runs.spec import Spec

SCHEMA = 1
WORST_FIRST = (1, 3, 0)  # exit statuses: refuted, not shown, verified
UNTESTED = "none of these back ends shows CUDA autocast: there is nothing to test"


@dataclass(frozen=True)
class Checked:
    """The runs, and their results.

    Args:
        backends: on which.
        rules: the table of the rules; None if they were not asked for.
        self_test: a report for each back end that can be tested; None likewise.
        points: what fixes are worth; None likewise.
    """

    backends: Sequence[Backend]
    rules: Sequence[witnesses.WitnessResult] | None
    self_test: Sequence[selftest.SelfTestReport] | None
    points: Sequence[BenchPoint] | None = None

    @property
    def status(self) -> int:
        """The exit status, the worst of both."""
        statuses = []
        if self.rules is not None:
            statuses.append(witnesses.status(self.rules))
        if self.self_test is not None:
            statuses.append(selftest.status(self.self_test))
        return min(statuses, key=WORST_FIRST.index)


def run(
    rules: Sequence[Rule],
    self_test: bool,
    backends: Sequence[Backend],
    subjects: Callable[[Path], Iterable[Subject]] | None = None,
    sizes: Sequence[int] = (),
) -> Checked:
    """Run the examples of rules, if there are any, and the self-test, if it is asked for.

    Args:
        rules: whose examples.
        self_test: whether to.
        backends: on which.
        subjects: makes in a directory what is to be measured; None for nothing.
        sizes: of batches to measure it with.
    """
    with running() as runner, tempfile.TemporaryDirectory(prefix="amplint-") as name:
        directory = Path(os.path.realpath(name))
        limits = Spec("", "", "")
        # Where there is a GPU, nothing else needs to be measured that stands for one.
        gpu = [each for each in backends if each.name == "cuda"]
        measuring = Bench(
            gpu or backends, sizes, directory / "runs", runner.run, limits.seconds, limits.memory
        )
        return Checked(
            backends,
            tuple(witnesses.verify(rules, backends, runner)) if rules else None,
            tuple(selftest.run(backends, runner)) if self_test else None,
            None
            if subjects is None
            else tuple(p for each in subjects(directory / "fixed") for p in measuring.points(each)),
        )


def environment() -> dict[str, Any]:
    """The machine and the versions, as JSON has them. Imports torch."""
    torch: Any = importlib.import_module("torch")
    machine = {
        "amplint": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "CUDA of torch": torch.version.cuda,
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "GPU": None,
    }
    if torch.cuda.is_available():
        facts = torch.cuda.get_device_properties(0)
        machine["GPU"] = {
            "name": facts.name,
            "compute capability": f"{facts.major}.{facts.minor}",
            "memory": facts.total_memory,
            "count": torch.cuda.device_count(),
            "cuDNN": torch.backends.cudnn.version(),
        }
    return machine


def as_json(checked: Checked) -> dict[str, Any]:
    """The document; what was not asked for is null."""
    return {
        "schema": SCHEMA,
        "environment": environment(),
        "backends": {
            backend.name: {
                "title": backend.title,
                "shows": {aspect.value: backend.shows[aspect].value for aspect in Aspect},
            }
            for backend in checked.backends
        },
        "status": checked.status,
        "rules": None if checked.rules is None else [of_rule(each) for each in checked.rules],
        "self-test": None
        if checked.self_test is None
        else {each.backend.name: of_self_test(each) for each in checked.self_test},
        "bench": None if checked.points is None else [to_json(each) for each in checked.points],
    }


def of_rule(result: witnesses.WitnessResult) -> dict[str, str]:
    return {**vars(result), "verdict": result.verdict.value}


def of_self_test(tested: selftest.SelfTestReport) -> dict[str, Any]:
    return {"obstacle": tested.obstacle or None, "calls": [asdict(row) for row in tested.rows]}


def announcement(rules: Sequence[Rule], self_test: bool, backends: Sequence[Backend]) -> str:
    """A description of the runs to come, for the user to read first."""
    named = ", ".join(rule.code for rule in rules) if len(rules) < 6 else f"{len(rules)} rules"
    what = [f"the examples of {named}"] if rules else []
    what += [f"the calls of {selftest.LISTS}"] if self_test else []
    where = "; ".join(f"{backend.name} ({backend.title})" for backend in backends)
    untried = torch_range.remark(torch_range.installed())
    return f"runs {' and '.join(what)} on {where}" + (f"; {untried}" if untried else "")


def as_text(checked: Checked) -> str:
    """The text for the terminal."""
    parts = [] if checked.rules is None else [witnesses.as_text(checked.rules)]
    if checked.self_test is not None:
        parts += [selftest.as_text(each) for each in checked.self_test] or [UNTESTED]
    if checked.points is not None:
        parts.append("\n".join(bench.text(checked.points)))
    return "\n\n".join(parts)


def as_html(checked: Checked) -> str:
    """One page that needs no other file."""
    facts = ", ".join(f"{name}: {fact}" for name, fact in environment().items())
    parts = [f"<p>{escape(facts)}</p>"]
    if checked.rules is not None:
        heads = ["rule", "name", "back end", "demanded", "happened", "verdict"]
        rows = (list(of_rule(each).values()) for each in checked.rules)
        meanings = ((each.value, text) for each, text in witnesses.MEANINGS.items())
        parts += ["<h2>Rules</h2>", page.table(heads, rows), page.definitions(meanings)]
    if checked.self_test is not None:
        texts = [selftest.as_text(each) for each in checked.self_test] or [UNTESTED]
        parts += ["<h2>Self-test</h2>", *(f"<pre>{escape_lines(text)}</pre>" for text in texts)]
    parts += report.measured_html(checked.points or ())
    if checked.points is None:
        parts.append("<h2>Benefit</h2><p>Not measured: see <code>--bench</code>.</p>")
    return page.page("amplint verify --rules", [*parts, *report.shown_html(checked.backends)])


def as_markdown(checked: Checked) -> str:
    """The table of the rules as the documentation has it; the self-test as text."""
    parts = []
    if checked.rules is not None:
        parts.append(witnesses.as_markdown(checked.rules).rstrip("\n"))
    if checked.self_test is not None:
        texts = [selftest.as_text(each) for each in checked.self_test] or [UNTESTED]
        parts += [f"```\n{text}\n```" for text in texts]
    return "\n\n".join(parts)
