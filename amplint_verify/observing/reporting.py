"""The report of code that ran where it lies, and was watched. It reads the files that it names, and
no others, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from amplint.adoption import baseline
from amplint.output.console import columns
from amplint.output.formats import Report, render
from amplint.project.discover import FileSearch, Selection
from amplint.project.settings_hierarchy import SettingsHierarchy
from amplint.rule.registry import AllRules
from amplint.run import engine
from amplint.run.request import Outcome, Request
from amplint.util.paths import join, slashes
from amplint.util.text import Text
from amplint.util.wording import counted
from amplint_verify.observing.claims import CLAIMS, FLAGGED
from amplint_verify.observing.findings import findings_of, is_known_refusal, raised_at, speaks
from amplint_verify.observing.second_run import SecondRun, findings_under, lines
from amplint_verify.observing.selection import selected
from amplint_verify.recording.observation import Observation
from amplint_verify.recording.sightings import UserExpression


@dataclass(frozen=True)
class WatchedCode:
    """The watched code.

    Args:
        root: the directory that paths are relative to.
        observations: one for each part that was watched by itself.
        cells: the texts of cells of a notebook, by the paths that these have in observations.
        mode: under which tests ran again; "" if none did.
        second_runs: of these.
    """

    root: Path
    observations: Sequence[Observation]
    cells: Mapping[str, str]
    mode: str = ""
    second_runs: Sequence[SecondRun] = ()

    @property
    def steps(self) -> int:
        return sum(each.steps for each in self.observations)


def reported(watched: WatchedCode) -> tuple[Outcome, str]:
    """The findings, and the text that shows them. Raises Failure."""
    again = [each.observation for each in watched.second_runs]
    paths = set(chain.from_iterable(map(paths_of, (*watched.observations, *again))))
    if not paths:
        return Outcome(watched.root, (), (), (), (), {}), ""
    request = request_for(watched, paths)
    static = engine.run(request)
    runs = (fitting(each, static.all_texts) for each in watched.observations)
    issues = chain.from_iterable(findings_of(run, request.rules, static.all_texts) for run in runs)
    under = findings_under(watched.mode, watched.second_runs, request.rules, static.all_texts)
    findings = selected(chain(issues, under), request, static)
    outcome = replace(static, findings=findings, problems=(), notices=(), key="")
    outcome = baseline.only_new(outcome, baseline.of_run(request))
    directory = watched.root if watched.cells else Path.cwd()
    return outcome, render("text", Report(outcome, request.rules, directory, columns=columns()))


def paths_of(observation: Observation) -> Iterator[str]:
    """The files in which there is something to report."""
    for each in observation.sightings:
        if speaks(CLAIMS[each.act], each, observation):
            yield each.site.path
    yield from (flag.path for flag in observation.flags if flag.op in FLAGGED and flag.path)
    raised = raised_at(observation)
    if raised is not None and is_known_refusal(observation.text):
        yield raised.path


def request_for(watched: WatchedCode, paths: Iterable[str]) -> Request:
    """The request to `check` these files, each by itself, in this process, without a trace."""
    settings = SettingsHierarchy(start=watched.root)
    search = FileSearch(settings)
    root = slashes(str(watched.root))
    files = {path: join(root, path) for path in paths if path not in watched.cells}
    checkable = {path: file for path, file in files.items() if not search.leaves_out(file)}
    read = {path: text for path, text in watched.cells.items() if path in paths}
    all_of_them = tuple(sorted({*checkable, *read}))
    selection = Selection(
        watched.root,
        all_of_them,
        frozenset(all_of_them),
        homes={path: search.project_of(file) or "" for path, file in checkable.items()},
        whole=False,
    )
    return Request(selection, settings, AllRules(), overlays=read, jobs=1)


def fitting(observation: Observation, texts: Mapping[str, Text]) -> Observation:
    """The observation without what was seen in files that have been shortened since."""
    fits = (s for s in observation.sightings if s.site.path in texts and there(s.site, texts))
    return replace(observation, sightings=tuple(fits))


def there(site: UserExpression, texts: Mapping[str, Text]) -> bool:
    return site.column < len(texts[site.path].line(site.row).encode("utf-8", "surrogatepass"))


def notices(watched: WatchedCode, what: str, outcome: Outcome) -> Iterator[str]:
    """Remarks on the run.

    Args:
        watched: the code.
        what: which of its parts were watched one by one: "test"; "" for a single one.
        outcome: what is reported of it.
    """
    observations = watched.observations
    devices = sorted({each.backend for each in observations}) or ["cpu"]
    parts = f" in {counted(len(observations), what)}" if what else ""
    nothing = ", and no mistakes" if not outcome.findings else ""
    on = " and ".join(devices)
    yield f"saw {counted(watched.steps, 'step')} of training{parts} on {on}{nothing}"
    if max((each.steps for each in observations), default=0) < 2:
        yield "mistakes that count only in every step need at least two steps to be seen"
    if devices == ["cpu"]:
        yield "on the CPU nothing waits for a device: `amplint observe --backend sim` shows waits"
    if watched.mode:
        yield from lines(watched.mode, watched.second_runs, outcome.findings)
