"""The summary of a job on GitHub: a short table below the run, in Markdown.

GitHub names a file in `GITHUB_STEP_SUMMARY`, to which each step may append. What is quoted comes
from the code under analysis, so that nothing of it may be markup.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from amplint.claim.finding import Finding
from amplint.output.formats import Report
from amplint.output.formats.text import CUT, summary
from amplint.output.help_pages import help_uri
from amplint.output.ordering import ordered
from amplint.util.escaping import without_controls
from amplint.util.paths import seen_from
from amplint.util.wording import counted

FILE = "GITHUB_STEP_SUMMARY"
# What an address of a line on GitHub is made of.
ADDRESS = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_SHA", "GITHUB_WORKSPACE")
MOST_ROWS = 50  # of the most costly findings; the log has all
WIDEST = 300  # characters of a message
PLAIN = frozenset(" .,:;=()'/+-%?")  # beside letters and digits, what is no markup in a cell


def append(report: Report, environment: Mapping[str, str]) -> None:
    """Append the summary to the file that the environment names, if it does. Raises OSError."""
    if name := environment.get(FILE):
        with Path(name).open("a", encoding="utf-8", newline="\n") as file:
            file.write(render(report, environment))


def render(report: Report, environment: Mapping[str, str]) -> str:
    outcome = report.outcome
    lines = [f"### amplint: {plain(summary(outcome))}", ""]
    if outcome.problems:
        lines += ["amplint could not do all of its work; the log of the step has the reasons.", ""]
    if outcome.findings:
        shown = ordered(outcome.findings, "cost")[:MOST_ROWS]
        lines += ["| place | rule | |", "|---|---|---|"]
        lines += [table_row(finding, report, environment) for finding in shown]
        if left := len(outcome.findings) - len(shown):
            lines += ["", f"{counted(left, 'finding')} more, which cost less: see the log."]
        lines.append("")
    return "\n".join(lines) + "\n"


def table_row(finding: Finding, report: Report, environment: Mapping[str, str]) -> str:
    place = f"<code>{plain(report.place(finding.path, finding.span.start))}</code>"
    addresses = (help_uri(rule) for rule in report.rules if rule.code == finding.code)
    code = linked(finding.code, next(addresses, ""))
    said = code_marked(shortened(finding.message))
    where = linked(place, address_of_line(finding, report, environment))
    return f"| {where} | {code} {plain(finding.name)} | {said} |"


def address_of_line(finding: Finding, report: Report, environment: Mapping[str, str]) -> str:
    """The address of a line on GitHub; "" where it is not known."""
    server, repository, commit, workspace = (environment.get(name, "") for name in ADDRESS)
    if not all((server, repository, commit, workspace)):
        return ""
    path = seen_from(workspace, report.outcome.root / finding.path)
    if path.startswith(("../", "/")):
        return ""
    row = report.text(finding.path).in_file(finding.span.start).row
    return f"{server}/{repository}/blob/{commit}/{quote(path)}#L{row}"


def linked(text: str, address: str) -> str:
    return f"[{text}]({address})" if address else text


def shortened(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + CUT


def code_marked(message: str) -> str:
    """A message, of which every second part between backquotes is code."""
    parts = message.split("`")
    if len(parts) % 2 == 0:  # the last one is not closed
        parts[-2:] = ["`".join(parts[-2:])]
    marked = (
        f"<code>{plain(part)}</code>" if n % 2 else plain(part) for n, part in enumerate(parts)
    )
    return "".join(marked)


def plain(text: str) -> str:
    """The text as Markdown that means nothing but the text."""
    return "".join(
        character if character.isalnum() or character in PLAIN else f"&#{ord(character)};"
        for character in without_controls(text)
    )
