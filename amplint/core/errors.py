"""Errors that end a command with status 2 and a sentence for the user."""

from __future__ import annotations

from typing import Any

import click


class Failure(click.ClickException):
    """Something that amplint cannot go on with; the message says what, and where."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"amplint: {self.message}", err=True, file=file)
