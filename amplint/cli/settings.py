"""The output of `check --show-settings`: each setting of the files, and where it comes from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from amplint.adoption.baseline import file_of
from amplint.output.console import CLEAN, FAILED, tell, tell_notices
from amplint.output.formats import path_from
from amplint.project import observations
from amplint.project.config import AND_COMMAND_LINE, KEYS, Settings, check_selectors
from amplint.project.settings_hierarchy import ProjectRoots
from amplint.project.torch_floor import ANY
from amplint.rule import packages as rule_packages
from amplint.rule.registry import all_rules
from amplint.run.project import Project
from amplint.run.request import Request
from amplint.util.paths import seen_from
from amplint.util.wording import counted


def show(request: Request) -> int:
    """Print the settings of the files on standard output, as they would stand in [tool.amplint]:
    once for all files that have the same, with the project that they are analysed with.

    Raises ConfigError for settings that name a rule which does not exist.
    """
    selection, projects = request.selection, ProjectRoots(request.settings)
    groups: dict[tuple[Settings, Project, Path], list[str]] = {}
    for settings, paths in request.settings_in_use().items():
        check_selectors(settings, all_rules())
        for path in paths or [""]:
            baseline = file_of(request, request.directory_of(path), projects)
            project = request.project_of(path) if path else next(iter(request.projects.values()))
            key = settings, project, baseline
            groups.setdefault(key, []).extend(filter(None, [path]))
    click.echo("\n\n".join("\n".join(lines(request, *key, groups[key])) for key in groups))
    tell_notices(selection.notices)
    tell(selection.problems)
    return FAILED if selection.problems else CLEAN


def lines(
    request: Request, settings: Settings, project: Project, baseline: Path, paths: Sequence[str]
) -> Iterator[str]:
    """A line for each setting, in the order of the documentation, and those about the files."""
    here = Path.cwd()
    yield f"# configuration: {'none' if settings.config is None else path_of(settings.config)}"
    yield f"# root of the project: {path_from(here, Path(project.directory), '.')}"
    if packages := rule_packages.installed().packages:
        yield f"# packages with rules: {', '.join(map(str, packages))}"
    yield f"# files: {len(paths)} to report on, {len(project.files)} to analyse"
    start = ProjectRoots(request.settings).root(project.directory) or project.directory
    keys_of_project = ("assume-autocast", "under", "models", "observations")
    of_project = dict.fromkeys(keys_of_project, project.settings)
    of_project["roots"] = request.settings.at(start)
    for key in KEYS:
        of = of_project.get(key, settings)
        origins = dict(of.origins)
        origin = origins.get(key, "default")
        if os.path.isabs(origin):  # noqa: PTH117  (a string that may be no path)
            file = origin.removesuffix(AND_COMMAND_LINE)
            origin = path_of(Path(file)) + origin[len(file) :]
        if key == "baseline":
            there = "" if os.path.lexists(baseline) else ", not there"
            yield f"baseline = {toml(path_of(baseline))}  # {origin}{there}"
        elif key == "observations" and of.observations:
            yield f"{written(key, of)}  # {origin}{observed_in(project.directory)}"
        elif key == "target-torch" and settings.torch_floor is not None:
            floor = settings.torch_floor
            lowest = "any" if floor.version == ANY else floor.version
            why = f"of {origin} does not hold here" if key in origins else "is not set"
            yield f"# {key} {why}: the lowest torch is {lowest}, by {path_of(floor.file)}"
        elif key == "roots" and of.roots is None:
            yield "# roots is not set: a directory with a pyproject.toml or a .git is a project"
        else:
            yield f"{written(key, of)}  # {origin}"


def observed_in(directory: str) -> str:
    """The file of observations that is used, and how many functions are in it."""
    try:
        functions = observations.read(directory)
    except observations.UnusableError as error:
        return f": {observations.FILE} is not used: {error}"
    if not functions:
        return f", no {observations.FILE}"
    return f": {observations.FILE}, of {counted(len(functions), 'function')}"


def written(key: str, settings: Settings) -> str:
    """A setting in TOML."""
    value = getattr(settings, key.replace("-", "_"))
    if key == "per-file-ignores":
        inner = ", ".join(f"{toml(one)} = {toml(list(codes))}" for one, codes in value)
        return f"{key} = {{{inner}}}"
    if value is None:
        return f"# {key} is not set"
    if key == "models":
        value = tuple(path_of(file) for file, _ in settings.models)
    return f"{key} = {toml(list(value) if isinstance(value, tuple) else value)}"


def toml(value: object) -> str:
    """A string or a list of strings in TOML, which writes them as JSON does."""
    return json.dumps(value, ensure_ascii=False)


def path_of(file: Path) -> str:
    return seen_from(".", file)
