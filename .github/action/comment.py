"""Comments on a pull request with the new findings; safe fixes in changed lines are suggestions.

Reads what GitHub sets, the findings as JSON (AMPLINT_FINDINGS) and the token (AMPLINT_TOKEN). The
status is 0 whatever happens: a pull request from a fork has a token that may not comment, and then
the annotations and the summary of the job say all. A comment that is there is not made again.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGES = 30  # of 100 files or comments each: what GitHub shows of a pull request
MOST_COMMENTS = 30
MOST_LINES = 20  # of a suggestion
HUNK = re.compile(r"@@ -\S+ \+(\d+)")
MARK = re.compile(r"<!-- amplint (\w+) -->")

Finding = dict[str, Any]
Comment = dict[str, Any]


def main() -> int:
    try:
        findings = json.loads(Path(os.environ["AMPLINT_FINDINGS"]).read_text(encoding="utf-8"))
        summarise(findings, os.environ.get("GITHUB_STEP_SUMMARY", ""))
        review(findings, PullRequest(os.environ))
    except Exception as error:  # what keeps a comment from being made is no reason to fail
        text = f"no comments on the pull request, the annotations say all: {error}"
        print(f"::notice title=amplint::{' '.join(text.split()).replace('%', '%25')}")
    return 0


class PullRequest:
    """The pull request of the event, through GitHub's API."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        event = json.loads(Path(environment["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
        self.head: str = event["pull_request"]["head"]["sha"]
        number = int(event["pull_request"]["number"])
        self._url = (
            f"{environment['GITHUB_API_URL']}/repos/{environment['GITHUB_REPOSITORY']}"
            f"/pulls/{number}"
        )
        self._token = environment["AMPLINT_TOKEN"]

    def all(self, what: str) -> list[Any]:
        """Its `files` or its `comments`."""
        found: list[Any] = []
        for page in range(1, PAGES + 1):
            some = self._ask(f"{what}?per_page=100&page={page}")
            found += some
            if len(some) < 100:
                break
        return found

    def add_review(self, body: str, comments: list[Comment]) -> None:
        review = {"commit_id": self.head, "event": "COMMENT", "body": body, "comments": comments}
        self._ask("reviews", review)

    def _ask(self, path: str, content: object = None) -> Any:
        request = urllib.request.Request(
            f"{self._url}/{path}",
            data=None if content is None else json.dumps(content).encode(),
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {self._token}",
                "Content-Type": "application/json",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


def review(findings: list[Finding], pull_request: PullRequest) -> None:
    """Comment on the lines that the pull request shows; name the other findings in the text."""
    if not findings:
        return
    shown = {
        one["filename"]: shown_lines(one.get("patch", "")) for one in pull_request.all("files")
    }
    there = set(MARK.findall("\n".join(one["body"] for one in pull_request.all("comments"))))
    comments: list[Comment] = []
    others: list[Finding] = []
    for finding in findings:
        path = finding["filename"]
        if mark(finding) in there:
            continue
        lines = shown.get(path, frozenset()) if is_as_in(pull_request.head, path) else frozenset()
        if finding["location"]["row"] in lines and len(comments) < MOST_COMMENTS:
            comments.append(comment(finding, lines))
        else:
            others.append(finding)
    if comments:
        listed = "".join(f"\n- {line_of(one)}" for one in others)
        body = "amplint: findings of this change" + (f"; elsewhere:\n{listed}" if others else "")
        pull_request.add_review(body, comments)
        print(f"amplint commented on {len(comments)} of {len(findings)} findings")


def shown_lines(patch: str) -> frozenset[int]:
    """The lines of the new file that a patch shows: GitHub takes comments on no others."""
    rows: set[int] = set()
    row = 0
    for line in patch.split("\n"):
        hunk = HUNK.match(line)
        if hunk:
            row = int(hunk[1])
        elif line.startswith(("+", " ")):
            rows.add(row)
            row += 1
    return frozenset(rows)


def is_as_in(commit: str, path: str) -> bool:
    """Whether a file that was checked is that of a commit: in a merge it may have more lines."""
    names = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{commit}:./{path}"],
        capture_output=True,
        text=True,
        check=False,
    )
    here = subprocess.run(
        ["git", "hash-object", "--", path], capture_output=True, text=True, check=False
    )
    return names.returncode == 0 and names.stdout == here.stdout


def comment(finding: Finding, shown: frozenset[int]) -> Comment:
    row = last = finding["location"]["row"]
    text = f"**{finding['code']}** {finding['message']}\n\n{finding['help'] or ''}"
    suggested = suggestion(finding, shown)
    if suggested is not None:
        row, last, code = suggested
        fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", code)), 3)
        text += f"\n\n{fence}suggestion\n{code}\n{fence}"
    made = {
        "path": finding["filename"],
        "line": last,
        "side": "RIGHT",
        "body": f"{text}\n<!-- amplint {mark(finding)} -->",
    }
    return {**made, "start_line": row, "start_side": "RIGHT"} if row < last else made


def suggestion(finding: Finding, shown: frozenset[int]) -> tuple[int, int, str] | None:
    """The first line, the last, and what a safe fix puts there; None if they are not all shown."""
    fix = finding["fix"]
    if not fix or fix["safety"] != "safe" or finding["filename"].endswith(".ipynb"):
        return None
    edits = [(place(one["location"]), place(one["end_location"]), one["content"])
             for one in fix["edits"]]  # fmt: skip
    first = min(start[0] for start, _, _ in edits)
    last = max(end[0] for _, end, _ in edits)
    if last - first >= MOST_LINES or not shown.issuperset(range(first, last + 1)):
        return None
    with Path(finding["filename"]).open(encoding="utf-8") as file:
        lines = file.read().split("\n")[first - 1 : last]
    for (row, column), (end_row, end_column), content in sorted(edits, reverse=True):
        before = lines[row - first][: column - 1]
        after = lines[end_row - first][end_column - 1 :]
        lines[row - first : end_row - first + 1] = (before + content + after).split("\n")
    return first, last, "\n".join(lines)


def place(location: Mapping[str, int]) -> tuple[int, int]:
    return location["row"], location["column"]


def mark(finding: Finding) -> str:
    """What tells a finding from others, wherever it moves in its file."""
    told = "\0".join((finding["code"], finding["filename"], finding["scope"], finding["line"]))
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def line_of(finding: Finding) -> str:
    return (
        f"`{finding['filename']}:{finding['location']['row']}` "
        f"{finding['code']} {finding['message']}"
    )


def summarise(findings: list[Finding], path: str) -> None:
    if path and findings:
        with Path(path).open("a", encoding="utf-8", newline="\n") as summary:
            print(
                "### amplint\n", *(f"- {line_of(one)}" for one in findings), sep="\n", file=summary
            )


if __name__ == "__main__":
    sys.exit(main())
