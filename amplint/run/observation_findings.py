"""The findings with the observations of runs, beside those without them.

A project with observations is analysed twice: as it is, and with them. What the first analysis
reports stays, whatever a run has shown; what only the second one reports rests on a run, says so,
and is fixed by nobody who has not looked at it. To follow in one analysis what rests on a run was
tempting, at half the time. But a value that is known may be the reason for silence as well, and
evidence, which only the shown reasons carry, would have had to prove that a fix needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from amplint.findings.finding import Finding
from amplint.project import observations
from amplint.project.observations import ObservedFunction, UnusableError
from amplint.project.reading import Reading
from amplint.run.joining import is_about_comments, without_safe_fix
from amplint.run.request import AnalysisResult, Request

if TYPE_CHECKING:
    from amplint.ir.file_index import File

SHOWN = " has shown: "


@dataclass(frozen=True)
class FoundObservations:
    """The observations of the projects of a run.

    Args:
        functions: by id, as the paths of the run have it.
        notices: which files cannot be used, and why.
    """

    functions: Mapping[str, ObservedFunction] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def observations_of(request: Request) -> FoundObservations:
    """The observations of the projects whose files are reported."""
    functions: dict[str, ObservedFunction] = {}
    notices: list[str] = []
    for project in sorted(request.projects.values(), key=lambda project: project.place):
        if not (project.reported and project.settings.observations):
            continue
        prefix = project.prefix
        try:
            by_name = observations.read(project.directory)
        except UnusableError as error:
            notices.append(f"{prefix}{observations.FILE} is not used: {error}")
            continue
        for name, function in by_name.items():
            functions[f"{prefix}{name}"] = function
    return FoundObservations(functions, tuple(notices))


def with_observations(request: Request, runs: FoundObservations) -> Request:
    """The request to the second analysis."""
    return replace(
        request,
        observed=runs.functions,
        linker=request.linker and request.linker.beside("observed"),
    )


def reached(result: AnalysisResult, request: Request, reading: Reading) -> AnalysisResult:
    """The result of the second analysis without what it finds where no run has been: what is known
    of a function makes others hot that it may call, and a branch may be there for other values.

    A function whose text has changed since is one that a run has been in.
    """
    # The second analysis alone needs them, and what is in the cache needs none.
    from amplint.inference.whole_program.observation_values import digest_of, innermost  # noqa: PLC0415
    from amplint.ir.file_index import File  # noqa: PLC0415

    files: dict[str, File] = {}
    seen_paths = {name.partition("::")[0] for name in request.observed}

    def is_reached(finding: Finding) -> bool:
        path = finding.path
        if path not in seen_paths:
            return False
        if path not in files:
            files[path] = File(path, reading.text(path).text)
        facts = innermost(files[path].facts, finding.span.start.row)
        function = request.observed.get(facts.id)
        if function is None or function.text != digest_of(facts, files[path].lines):
            return function is not None
        first = facts.location[0]
        rows = range(finding.span.start.row - first, finding.span.end.row - first + 1)
        return not function.rows or not {*rows}.isdisjoint(function.rows)

    findings = (each for each in result.findings if is_about_comments(each) or is_reached(each))
    return replace(result, findings=tuple(findings))


def marked(finding: Finding, runs: FoundObservations) -> Finding:
    """A finding that rests on a run: it names the run, and its fix is not safe."""
    message = f"as `{run_of(finding, runs)}`{SHOWN}{finding.message}"
    return replace(without_safe_fix(finding), message=message)


def rests_on_run(finding: Finding) -> bool:
    return finding.message.startswith("as `") and SHOWN in finding.message


def run_of(finding: Finding, runs: FoundObservations) -> str:
    """The program that has shown what a finding rests on: the one that has run its function."""
    here = runs.functions.get(f"{finding.path}::{finding.scope}")
    others = (each for name, each in runs.functions.items() if name.startswith(finding.path))
    return next(each.run for each in (here, *others, *runs.functions.values()) if each is not None)
