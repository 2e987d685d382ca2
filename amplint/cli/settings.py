"""The output of `check --show-settings`: each setting, where it comes from, and the files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import click

from amplint.core import rule_packages
from amplint.core.paths import seen_from
from amplint.core.registry import all_rules
from amplint.output.baseline import file_of
from amplint.output.console import CLEAN, FAILED, tell, tell_notices
from amplint.output.formats import path_from
from amplint.project.config import KEYS, Settings, check_selectors
from amplint.project.torch_floor import ANY
from amplint.run.request import Request


def show(request: Request) -> int:
    """Print the settings of a run on standard output, as they would stand in [tool.amplint].

    Raises ConfigError for settings that name a rule which does not exist.
    """
    check_selectors(request.settings, all_rules())
    project = request.project
    click.echo("\n".join(lines(request)))
    tell_notices(project.notices)
    tell(project.problems)
    return FAILED if project.problems else CLEAN


def lines(request: Request) -> Iterator[str]:
    """A line for each setting, in the order of the documentation, and those about the files."""
    settings, project = request.settings, request.project
    here = Path.cwd()
    yield f"# configuration: {'none' if settings.config is None else path_of(settings.config)}"
    yield f"# root of the project: {path_from(here, project.root, '.')}"
    if packages := rule_packages.installed().packages:
        yield f"# packages with rules: {', '.join(map(str, packages))}"
    yield f"# files: {len(project.reported)} to report on, {len(project.files)} to analyse"
    origins = dict(settings.origins)
    for key in KEYS:
        origin = origins.get(key, "default")
        if os.path.isabs(origin):  # noqa: PTH117  (a string that may be no path)
            origin = path_of(Path(origin))
        if key == "baseline":
            file = file_of(request)
            there = "" if os.path.lexists(file) else ", not there"
            yield f"baseline = {toml(path_of(file))}  # {origin}{there}"
        elif key == "target-torch" and settings.torch_floor is not None:
            floor = settings.torch_floor
            lowest = "any" if floor.version == ANY else floor.version
            yield f"# {key} is not set: the lowest torch is {lowest}, by {path_of(floor.file)}"
        else:
            yield f"{written(key, settings)}  # {origin}"


def written(key: str, settings: Settings) -> str:
    """A setting in TOML."""
    value = getattr(settings, key.replace("-", "_"))
    if key == "per-file-ignores":
        inner = ", ".join(f"{toml(one)} = {toml(list(codes))}" for one, codes in value)
        return f"{key} = {{{inner}}}"
    if value is None:
        return f"# {key} is not set"
    return f"{key} = {toml(list(value) if isinstance(value, tuple) else value)}"


def toml(value: object) -> str:
    """A string or a list of strings in TOML, which writes them as JSON does."""
    return json.dumps(value, ensure_ascii=False)


def path_of(file: Path) -> str:
    return seen_from(".", file)
