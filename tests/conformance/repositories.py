"""Repositories that tests make: of what the checkout holds now, and of projects that use it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.helpers import ROOT


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command, without what a hook of git has put into the environment, and what is empty."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={name: value for name, value in {**clean, **environment}.items() if value},
    )


def commit(repository: Path) -> None:
    run("git", "init", "-q", cwd=repository)
    run("git", "add", "--all", cwd=repository)
    identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    run("git", *identity, "commit", "-q", "-m", "all", cwd=repository)


def copy_checkout(copy: Path) -> None:
    """amplint as a repository of one commit: the files that git tracks, as the checkout has them
    now. What else lies there may be a virtual environment, whatever its name is."""
    listing = run("git", "ls-files", cwd=ROOT).stdout
    for name in listing.splitlines():
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    commit(copy)
