"""What `amplint verify` can run of its own: the examples of the rules, and its self-test.

The two may go together, e.g. on a machine that is had for an hour. As JSON they are one document,
which names the machine; such documents are what benchmarks/results keeps.
"""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from amplint import __version__
from amplint.rule import Rule
from amplint.verify import selftest, witnesses
from amplint.verify.backends import Aspect, Backend
from amplint.verify.run import running

SCHEMA = 1
WORST_FIRST = (1, 3, 0)  # exit statuses: refuted, not shown, verified
UNTESTED = "none of these back ends shows CUDA autocast: there is nothing to test"


@dataclass(frozen=True)
class Checked:
    """What was run, and seen.

    Args:
        backends: on which.
        rules: the table of the rules; None if they were not asked for.
        self_test: a report for each back end that can be tested; None likewise.
    """

    backends: Sequence[Backend]
    rules: Sequence[witnesses.Result] | None
    self_test: Sequence[selftest.Report] | None

    @property
    def status(self) -> int:
        """The exit status, the worst of both."""
        found = []
        if self.rules is not None:
            found.append(witnesses.status(self.rules))
        if self.self_test is not None:
            found.append(selftest.status(self.self_test))
        return min(found, key=WORST_FIRST.index)


def run(rules: Sequence[Rule], self_test: bool, backends: Sequence[Backend]) -> Checked:
    """Run the examples of rules, if there are any, and the self-test, if it is asked for."""
    with running() as runner:
        return Checked(
            backends,
            tuple(witnesses.verify(rules, backends, runner)) if rules else None,
            tuple(selftest.run(backends, runner)) if self_test else None,
        )


def environment() -> dict[str, Any]:
    """The machine and the versions, as JSON has them. Imports torch."""
    torch: Any = importlib.import_module("torch")
    found = {
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
        found["GPU"] = {
            "name": facts.name,
            "compute capability": f"{facts.major}.{facts.minor}",
            "memory": facts.total_memory,
            "count": torch.cuda.device_count(),
            "cuDNN": torch.backends.cudnn.version(),
        }
    return found


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
        else {report.backend.name: of_self_test(report) for report in checked.self_test},
    }


def of_rule(result: witnesses.Result) -> dict[str, str]:
    return {**vars(result), "verdict": result.verdict.value}


def of_self_test(report: selftest.Report) -> dict[str, Any]:
    return {"obstacle": report.obstacle or None, "calls": [asdict(row) for row in report.rows]}


def announcement(rules: Sequence[Rule], self_test: bool, backends: Sequence[Backend]) -> str:
    """What is about to be run, for the user to read first."""
    named = ", ".join(rule.code for rule in rules) if len(rules) < 6 else f"{len(rules)} rules"
    what = [f"the examples of {named}"] if rules else []
    what += [f"the calls of {selftest.LISTS}"] if self_test else []
    where = "; ".join(f"{backend.name} ({backend.title})" for backend in backends)
    return f"runs {' and '.join(what)} on {where}"


def as_text(checked: Checked) -> str:
    """What the terminal shows."""
    parts = [] if checked.rules is None else [witnesses.as_text(checked.rules)]
    if checked.self_test is not None:
        parts += [selftest.as_text(report) for report in checked.self_test] or [UNTESTED]
    return "\n\n".join(parts)


def as_markdown(checked: Checked) -> str:
    """The table of the rules as the documentation has it; the self-test as text."""
    parts = []
    if checked.rules is not None:
        parts.append(witnesses.as_markdown(checked.rules).rstrip("\n"))
    if checked.self_test is not None:
        shown = [selftest.as_text(report) for report in checked.self_test] or [UNTESTED]
        parts += [f"```\n{text}\n```" for text in shown]
    return "\n\n".join(parts)
