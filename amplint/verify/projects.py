"""Verify the fixes of a user's project, and write those that are good."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from amplint import engine
from amplint.engine import Request
from amplint.fixing import FixOutcome
from amplint.verify import lab
from amplint.verify.backends import Backend
from amplint.verify.drivers import Program
from amplint.verify.lab import Lab
from amplint.verify.report import Report
from amplint.verify.run import running


@dataclass(frozen=True)
class Options:
    """How to verify.

    Args:
        program: what to run.
        backends: on which.
        unsafe: whether unsafe fixes are tried too.
        seconds: of wall time that a run may take.
        memory: bytes that a run may use.
    """

    program: Program
    backends: Sequence[Backend]
    unsafe: bool
    seconds: float
    memory: int


def verified(request: Request, options: Options) -> Report:
    """Run the program of a project with and without its fixes; nothing of the project is written.

    Raises OSError if the project cannot be copied.
    """
    project = request.project

    def encode(path: str, text: str) -> bytes:
        return engine.read(path, request).encode(text)

    with running() as runner, tempfile.TemporaryDirectory(prefix="amplint-") as directory:
        laboratory = Lab(
            root=project.root,
            files=project.files,
            encode=encode,
            program=options.program,
            backends=options.backends,
            directory=Path(directory),
            run=runner.run,
            seconds=options.seconds,
            memory=options.memory,
        )
        result = lab.verify(request, options.unsafe, laboratory)
    return Report(result, options.backends, str(options.program), laboratory.linked)


def as_fixed(found: Report) -> FixOutcome:
    """The good fixes as `amplint fix` writes them."""
    verified = found.verified
    return FixOutcome(
        outcome=verified.outcome,
        before={path: verified.before[path] for path in verified.texts},
        after=verified.texts,
        applied=tuple(each.finding for each in verified.judged if each.judgement.good),
    )


def announcement(request: Request, options: Options) -> str:
    """What is about to happen, for the user to read first."""
    where = "; ".join(f"{backend.name} ({backend.title})" for backend in options.backends)
    return (
        f"amplint: runs `{options.program}` in copies of {request.project.root}, before and after "
        f"the fixes, on {where}\n"
        f"amplint: this runs your code with your rights; a run may take {options.seconds:g} s and "
        f"{options.memory / 2**30:g} GiB, and is no sandbox"
    )
