"""Paths of files as addresses (URIs), and back.

An address has the bytes of a name, as `%FF` where they are no ASCII. What is no UTF-8 in a path of
Python is half of a surrogate pair, which only `os.fsencode` takes. (pygls reads such a byte as
U+FFFD, and ends a name at a `;`, which Neovim leaves as it is.)
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes, urlsplit


def path_of(uri: str) -> str:
    """The path of the file that an editor names; "" for what is in no file."""
    try:
        parts = urlsplit(uri)
        path = os.fsdecode(unquote_to_bytes(parts.path.encode("utf-8", "surrogatepass")))
    except ValueError:  # of a host that is none; or bytes of which Windows has no names
        return ""
    if parts.scheme != "file":
        return ""
    if parts.netloc not in ("", "localhost"):
        return f"//{unquote(parts.netloc)}{path}"
    has_drive = os.name == "nt" and path[2:3] == ":"
    return f"{path[1].lower()}{path[2:]}" if has_drive else path


def uri_of(path: Path) -> str:
    """The address of a file."""
    return path.absolute().as_uri()
