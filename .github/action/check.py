"""Runs `amplint check` as the inputs of the action and the event of the workflow want it.

All of these come by environment variables, so that no text of theirs is ever read as code: the
inputs as AMPLINT_PATHS, AMPLINT_ARGS, AMPLINT_NEW_SINCE, AMPLINT_SARIF and AMPLINT_COMMENT, the
event as GitHub sets it. The status is that of `amplint check`.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

MERGE = re.compile(r"refs/pull/\d+/merge")


class ActionError(Exception):
    """Why amplint is not run: an input, or a checkout that lacks commits."""


def main() -> int:
    try:
        return check(os.environ)
    except ActionError as error:
        print(f"::error title=amplint::{escaped(str(error))}")
        return 2


def check(environment: Mapping[str, str]) -> int:
    """The status of `amplint check`, after the annotations and the SARIF report are written."""
    options = words(environment["AMPLINT_ARGS"])
    paths = [line.strip() for line in environment["AMPLINT_PATHS"].splitlines() if line.strip()]
    since = revision(environment)
    report = file_for("sarif", environment)
    findings = file_for("comment", environment) if since is not None else None
    to_comment = ["--format", f"json:{findings}"] if findings else []
    to_report = ["--format", f"sarif:{report}"] if report else []
    annotations = ["--format", "github"]
    if since is None:
        status = amplint(*options, *annotations, *to_report, "--", *paths)
    else:
        print(
            f"amplint reports findings on, or caused by, lines changed since {escaped(since)}",
            flush=True,
        )
        new = ["--new-since", since]
        status = amplint(*options, *annotations, *to_comment, *new, "--", *paths)
        # Code scanning compares branches itself, and takes an alert that is not sent for a fixed
        # one: it gets all findings. The cache holds them, so that they are not sought again.
        if status < 2 and report:
            status = max(status, amplint(*options, *to_report, "--exit-zero", "--", *paths))
    if status < 2:
        files = {"sarif-file": report, "findings-file": findings}
        with Path(environment["GITHUB_OUTPUT"]).open(
            "a", encoding="utf-8", newline="\n"
        ) as outputs:
            outputs.writelines(f"{name}={file}\n" for name, file in files.items() if file)
    return status


def amplint(*arguments: str) -> int:
    command = [sys.executable, "-I", "-m", "amplint", "check", *arguments]
    return subprocess.run(command, check=False).returncode


def words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ActionError(f"`args` cannot be split into words ({error}): {text}") from error


def file_for(name: str, environment: Mapping[str, str]) -> Path | None:
    """Where what an input asks for is written; None if it asks for nothing."""
    wanted = environment[f"AMPLINT_{name.upper()}"]
    if wanted not in ("true", "false"):
        raise ActionError(f"`{name}` is {wanted!r}, and must be `true` or `false`")
    ending = {"sarif": "sarif", "comment": "json"}[name]
    return Path(environment["RUNNER_TEMP"], f"amplint.{ending}") if wanted == "true" else None


def revision(environment: Mapping[str, str]) -> str | None:
    """The revision since which findings count; None if all do."""
    wanted = environment["AMPLINT_NEW_SINCE"]
    if wanted != "pull-request":
        return wanted or None
    if environment["GITHUB_EVENT_NAME"] != "pull_request":
        return None
    head = git("rev-parse", "HEAD")
    if head == environment["GITHUB_SHA"] and MERGE.fullmatch(environment["GITHUB_REF"]):
        return first_parent(head)
    # The workflow has checked out something else, such as the last commit of the branch. amplint
    # says what to do where the base or the common history is missing.
    return f"refs/remotes/origin/{environment['GITHUB_BASE_REF']}"


def first_parent(merge: str) -> str:
    """The commit of the base that GitHub has merged the pull request into.

    `actions/checkout` brings the merge alone. Its object names the parents all the same, and one
    commit more makes them known, where the whole history would take minutes in a large project.
    """
    header = git("cat-file", "commit", merge).partition("\n\n")[0]
    parents: list[str] = re.findall(r"^parent (\w+)$", header, re.MULTILINE)
    if not parents:
        raise ActionError(f"the commit {merge}, which GitHub gives for the merge, has no parent")
    if not known(parents[0], merge):
        run_git(
            "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--depth=2", "origin", merge
        )
    if not known(parents[0], merge):
        raise ActionError(
            "the base of the pull request is not in this clone, and could not be fetched: "
            "set `fetch-depth: 2` in the step with actions/checkout"
        )
    return parents[0]


def known(ancestor: str, commit: str) -> bool:
    return run_git("merge-base", "--is-ancestor", ancestor, commit).returncode == 0


def git(*arguments: str) -> str:
    done = run_git(*arguments)
    if done.returncode:
        raise ActionError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def run_git(*arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["git", *arguments],
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise ActionError(f"git cannot be run: {error}") from error


def escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


if __name__ == "__main__":
    sys.exit(main())
