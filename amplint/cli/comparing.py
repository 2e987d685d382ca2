"""The option `--compare` of `check`."""

# Some modules are imported where they are needed: a command pays for what it uses.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from amplint.output import HTML
from amplint.output.console import STDIN, Output

if TYPE_CHECKING:
    from amplint.output.comparing import Comparison
    from amplint.run.request import Outcome, Request

Command = TypeVar("Command", bound=Callable[..., int])
Compare = Callable[["Outcome", "Request"], tuple["Outcome", "Comparison"]]


def compare_option(command: Command) -> Command:
    """The option, for `taken`."""
    return click.option(
        "--compare",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="With --format html: show which findings are new and which are gone since this JSON "
        "report or baseline.",
    )(command)


def taken(compare: Path | None, outputs: Sequence[Output], given: dict[str, Any]) -> Compare | None:
    """The function that holds a run against the file; None without the option. The file is read
    now: the run may write a new one in its place. Raises click.UsageError and Failure."""
    if compare is None:
        return None
    if all(output.format != HTML for output in outputs):
        raise click.UsageError("--compare needs --format html")
    if given["new_since"] is not None:
        raise click.UsageError("--compare and --new-since cannot be combined")
    if STDIN in given["paths"]:
        raise click.UsageError("--compare needs files, not `-`")
    from amplint.output import comparing

    return partial(comparing.compare, earlier=comparing.read(compare))
