"""Errors that end a command with status 2 and a sentence for the user; faults of amplint itself.

A fault costs what it was about: one function, one file, one rule at one place. The rest of the run
goes on, ends with status 2, and says how to report the fault.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any

import click

import amplint
from amplint.util.escaping import printable_lines


class Failure(click.ClickException):
    """Something that amplint cannot go on with; the message says what, and where."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        tell(self.message, file)


def tell(message: str, file: Any = None) -> None:
    """Print an error as all of them are printed; what it quotes may be a stranger's."""
    text = printable_lines(message)
    click.echo(f"amplint: {click.style('error', fg='red')}: {text}", err=True, file=file)


def describe(error: BaseException) -> str:
    """An exception as it stands in a sentence."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def function_at_fault(error: BaseException, functions: Collection[str]) -> str | None:
    """The function under analysis that an analysis of many was looking at when it raised.

    It is the first local variable, in the innermost frame that has one, that names a function: no
    analysis has to keep a record of where it is.

    Args:
        error: as it was caught.
        functions: the ids of the functions under analysis.
    """
    function: str | None = None
    at = error.__traceback__
    while at is not None:
        ids = [v for v in at.tb_frame.f_locals.values() if isinstance(v, str) and v in functions]
        function = ids[0] if ids else function
        at = at.tb_next
    return function


def how_to_report(command: str) -> str:
    """The line that says how to report faults.

    Args:
        command: brings them up again.
    """
    version = f"amplint {amplint.__version__} (Python {sys.version.split()[0]})"
    checkout = amplint.__path__[1:]  # of which the owner may have written what failed
    unless = f"unless you have changed {checkout[0]}, " if checkout else ""
    return (
        f"{unless}this is a bug in {version}: please report it with the lines above and the code "
        f"that they name; `{command}` repeats it"
    )
