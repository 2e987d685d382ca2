"""The command `amplint baseline`."""

# The command imports what it needs when it runs, so that its help waits for nothing.
# ruff: noqa: PLC0415

from __future__ import annotations

import os
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import click

from amplint.cli.adoption import counted
from amplint.cli.options import make_request, settings_options
from amplint.core.errors import Failure
from amplint.output.console import CLEAN, STDIN, tell_notices


@click.command()
@settings_options
@click.option(
    "--baseline", metavar="FILE", help="The file to write. Default: .amplint-baseline.json."
)
@click.option(
    "--update", is_flag=True, help="Drop what is fixed or ignored by now, and add nothing."
)
def baseline(update: bool, **given: Any) -> int:
    """Write down the known findings, which `check` then leaves out.

    The file is `.amplint-baseline.json` beside the configuration, unless [tool.amplint] or
    --baseline name another one. Commit it. With PATHS, findings in other files stay as they were
    written down.

    Without --update, new findings are added, and those that are fixed or ignored by now are
    dropped. With it, none is added.
    """
    from amplint.core import progress
    from amplint.output import baseline as known
    from amplint.run import engine

    if STDIN in given["paths"]:
        raise click.UsageError("a baseline is of files, not of `-`")
    request, _ = make_request(**given)
    file = known.file_of(request)
    there = os.path.lexists(file)
    before = known.read(file) if there or update else known.Baseline(file, {})
    with progress.shown(sys.stderr) as shown:
        outcome = engine.run(replace(request, progress=shown))
    tell_notices(outcome.notices)
    if outcome.problems:
        raise Failure("\n".join((*outcome.problems, f"{known.shown(file)} was not written")))
    dropped = known.fixed(outcome, before, request)
    added = Counter() if update else known.found(outcome, file) - Counter(before.known)
    after = known.Baseline(file, Counter(before.known) - dropped + added)
    name, total = known.shown(file), counted(after.total, "known finding")
    if there and not dropped and not added:
        click.echo(f"{name}: {total}, as before", err=True)
        return CLEAN
    known.write(after)
    change = f"{sum(added.values())} added, {sum(dropped.values())} dropped"
    click.echo(f"{name}: {total}, {change}", err=True)
    return CLEAN
