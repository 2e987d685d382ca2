"""Verify all fixes of the three training programs, the unsafe ones too, and write what was found.

    python -m benchmarks.programs

Writes results/programs.json: the verdict of each fix, and waits and bytes before and after all good
ones, on simulated CUDA autocast and on its policy with values. There are no durations in it.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from amplint.project.config import Settings
from amplint.project.discover import select
from amplint.rule import registry
from amplint.run.request import Request
from amplint_verify import projects
from amplint_verify.backends.choice import BACKENDS
from amplint_verify.report import findings as report
from amplint_verify.runs.drivers import StartKind, UserProgram

HERE = Path(__file__).parent
PROGRAMS = HERE / "verify_programs"
RESULT = HERE / "results" / "programs.json"
# One of each kind, so that all ways to run a program are taken.
RUN = {
    "cifar": UserProgram(StartKind.ENTRY, "train:main"),
    "gan": UserProgram(StartKind.SCRIPT, "train.py"),
    "lm": UserProgram(StartKind.PYTEST),
}


def verified(directory: Path, program: UserProgram) -> report.ReportMaterial:
    """The fixes of the project in a directory, all of them, on both back ends."""
    settings = Settings(directory, target_torch="2.4")
    request = Request(select([directory], settings), settings, registry.all_rules())
    where = (BACKENDS["sim"], BACKENDS["policy"])
    options = projects.Options(program, where, unsafe=True, seconds=120, memory=4 << 30)
    return projects.verified(request, options)


def summary(found: report.ReportMaterial) -> dict[str, Any]:
    """What is kept of a report: nothing that is another on another machine."""
    data = report.as_json(found)
    kept = ("path", "row", "code", "line", "title", "safety", "verdict", "reason")
    return {
        "program": data["program"],
        "torch": data["torch"],
        "verdicts": dict(Counter(fix["verdict"] for fix in data["fixes"])),
        "fixes": [{key: fix[key] for key in kept} for fix in data["fixes"]],
        "runs": {
            name: {
                side: {key: run[side][key] for key in ("waits", "bytes to device")}
                for side in ("before", "after")
            }
            for name, run in data["runs"].items()
            if name == "sim"  # on the policy's, everything is on the CPU
        },
    }


def main() -> None:
    found = {name: summary(verified(PROGRAMS / name, program)) for name, program in RUN.items()}
    RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name, each in found.items():
        print(name, each["program"], each["verdicts"])


if __name__ == "__main__":
    main()
