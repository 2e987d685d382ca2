"""The command `amplint server`."""

from __future__ import annotations

import importlib.util

import click

from amplint.core.errors import Failure


@click.command()
def server() -> int:
    """Serve an editor, as a language server over stdin and stdout.

    Diagnostics while you type, fixes, and the page of a rule under the cursor. It needs
    `pip install 'amplint[server]'`; docs/editors.md says how editors start it.
    """
    if importlib.util.find_spec("pygls") is None:
        raise Failure("server needs pygls: pip install 'amplint[server]'")
    from amplint.server.main import serve  # noqa: PLC0415  (pygls is an extra)

    serve()
    return 0
