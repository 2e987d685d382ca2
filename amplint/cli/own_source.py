"""Where this amplint was installed from: a CI that is to have the same one installs it from there.

What is known of that is what pip writes down (PEP 610): the address and the commit, or the
directory of a checkout, which git knows more about.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import msgspec

from amplint.cli.recipes import CloneSource
from amplint.project import git

SCP = re.compile(r"([\w.-]+@[\w.-]+):([\w.~/-]+)")  # git@host:owner/name


class Commit(msgspec.Struct):
    """The commit that pip has cloned."""

    commit_id: str


class Origin(msgspec.Struct):
    """The origin that pip has written down."""

    url: str
    vcs_info: Commit | None = None


def find() -> CloneSource | None:
    """The address and the commit; None where they are unknown, or nobody else could clone them."""
    origin = _written_down()
    if origin is None:
        return None
    if origin.vcs_info is not None:
        return _plain(origin.url, origin.vcs_info.commit_id)
    parts = urlsplit(origin.url)
    if parts.scheme != "file":
        return None
    return of_checkout(Path(url2pathname(unquote(parts.path))))


def of_checkout(directory: Path) -> CloneSource | None:
    """The address and the commit of a checkout; None where its commit is not in the repository that
    it came from."""
    top = git.answer(directory, "rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() != directory.resolve():
        return None
    pushed = git.answer(
        directory, "for-each-ref", "--count=1", "--contains=HEAD", "refs/remotes/origin"
    )
    if not pushed:
        return None
    address = git.answer(directory, "remote", "get-url", "origin")
    return _plain(address, git.answer(directory, "rev-parse", "HEAD"))


def _written_down() -> Origin | None:
    try:
        text = distribution("amplint").read_text("direct_url.json")
        return msgspec.json.decode(text, type=Origin) if text else None
    except (PackageNotFoundError, msgspec.MsgspecError):
        return None


def _plain(address: str, commit: str) -> CloneSource | None:
    source = CloneSource(cleaned(address), commit)
    return source if source.is_plain else None


def cleaned(address: str) -> str:
    """An address as a URL, without the password or token that it may have."""
    if scp := SCP.fullmatch(address):
        return f"ssh://{scp[1]}/{scp[2]}"
    parts = urlsplit(address)
    if parts.scheme in ("http", "https"):
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return address
