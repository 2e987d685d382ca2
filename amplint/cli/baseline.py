"""The command `amplint baseline`."""

# The command imports what it needs when it runs, so that its help waits for nothing.
# ruff: noqa: PLC0415

from __future__ import annotations

import os
import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from amplint.cli.options import make_request, settings_options
from amplint.output.console import CLEAN, STDIN, tell_notices
from amplint.util.errors import Failure

if TYPE_CHECKING:
    from amplint.adoption.baseline import Baseline
    from amplint.run.fingerprint import Identity


@click.command()
@settings_options
@click.option(
    "--baseline", metavar="FILE", help="The file to write. Default: .amplint-baseline.json."
)
@click.option(
    "--update", is_flag=True, help="Drop findings that are now fixed or ignored; add none."
)
def baseline(update: bool, **arguments: Any) -> int:
    """Record the present findings; `check` then reports only new ones.

    The file is `.amplint-baseline.json` beside the settings, unless the settings or --baseline name
    another one. Each project has its own. Commit it. With PATHS, the entries of other files stay as
    they are.

    Without --update, new findings are added, and findings that are now fixed or ignored are
    dropped. With --update, none is added.
    """
    from amplint.adoption import baseline as store
    from amplint.run import engine
    from amplint.util import progress

    if STDIN in arguments["paths"]:
        raise click.UsageError("a baseline needs files, not `-`")
    request, _ = make_request(**arguments)
    before: dict[str, store.Baseline] = {}
    for file, paths in store.files_of(request).items():
        there = os.path.lexists(file)
        one = store.read(file) if there or update else store.Baseline(file, {})
        before |= dict.fromkeys(paths, one)
    with progress.terminal_progress(sys.stderr) as display:
        outcome = engine.run(replace(request, progress=display))
    tell_notices(outcome.notices)
    ledgers = store.Ledgers(outcome.root, before)
    if outcome.problems:
        unwritten = [f"{store.label(each.baseline.file)} was not written" for each in ledgers.all]
        raise Failure("\n".join((*outcome.problems, *unwritten)))
    ledgers.without_known(outcome)
    for ledger in ledgers.all:
        dropped = store.fixed(ledger, outcome, request)
        added = Counter() if update else ledger.new
        now = store.total([ledger.absent - dropped, ledger.present, added])
        if not now and len(ledgers.all) > 1 and not os.path.lexists(ledger.baseline.file):
            continue  # of several projects, one without findings needs no file
        settle(ledger.baseline, store.Baseline(ledger.baseline.file, now), added, dropped)
    return CLEAN


def settle(
    before: Baseline, after: Baseline, added: Counter[Identity], dropped: Counter[Identity]
) -> None:
    """Write a baseline, unless it is as before, and say what has changed."""
    from amplint.adoption import baseline as store
    from amplint.util.wording import counted

    name, count = store.label(after.file), counted(after.total, "known finding")
    if os.path.lexists(after.file) and after.counts == before.counts:
        click.echo(f"{name}: {count}, as before", err=True)
        return
    store.write(after)
    change = f"{added.total()} added, {dropped.total()} dropped"
    click.echo(f"{name}: {count}, {change}", err=True)
