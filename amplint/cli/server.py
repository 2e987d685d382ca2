"""The command `amplint server`."""

from __future__ import annotations

import importlib.util
import sys

import click

from amplint.util.errors import Failure

# What a user sees who types the command to look what it does: without this, it seems to hang.
AT_A_TERMINAL = (
    "an editor starts this command and sends it messages; see docs/editors.md; stop with Ctrl-D"
)


@click.command()
def server() -> int:
    """Serve an editor, as a language server over stdin and stdout.

    It shows findings while you type, offers fixes, and shows the page of the rule under the cursor.
    It needs `pip install 'amplint[server]'`; docs/editors.md says how to set up an editor.
    """
    if importlib.util.find_spec("pygls") is None:
        raise Failure("server needs pygls: pip install 'amplint[server]'")
    if sys.stdin.isatty():
        click.echo("amplint: " + AT_A_TERMINAL, err=True)
    from amplint.server.main import serve  # noqa: PLC0415  (pygls is an extra)

    serve()
    return 0
