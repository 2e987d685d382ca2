"""These pages as a site: its navigation, the links that leave docs/, the pages of the rules.

mkdocs calls the functions that begin with `on_`. The pages are written for the repository, where
`../README.md` is a file. The site has each such page below `repository/`, and a link to any other
file is its path; a link to the repository's host was no choice, since amplint is published nowhere
yet.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from amplint.output.rule_page import LABELS

ROOT = Path(__file__).resolve().parent.parent
DOCS, REPOSITORY, RULES = "docs/", "repository/", "rules/"
START, TABLE_OF_RULES = "README.md", "coverage.md"
# The heading of docs/README.md below which pages are in no navigation.
OUTSIDE = "\n## For contributors\n"
# The families of rules, by the first digit of their codes.
FAMILIES = {
    "0": "amplint itself",
    "1": "Waits for the device",
    "2": "Dtypes",
    "3": "Autocast regions",
    "4": "GradScaler",
    "5": "Placement and copies",
    "6": "Several devices, Lightning",
    "7": "Deprecated names",
    "8": "The range of float16",
    "9": "Memory and loaders",
}
READER = re.compile(r"\*\*(.+)\*\*$")
ENTRY = re.compile(r"- \[(.+?)\]\((\S+?)\)")
LINK = re.compile(r"(?<=\]\()[^)\s#]+")
WHOLE_LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s#]+)[^)]*\)")
LABEL = re.compile(rf"^({'|'.join(LABELS)}):(?: |\n\n)(\w?)", re.MULTILINE)
EXAMPLES = ("Bad", "Good")
INDENTED = re.compile(r"^ {4}.*\n(?:(?: {4}.*)?\n)*", re.MULTILINE)
LANGUAGE = re.compile(r"^(```\w+) .*$", re.MULTILINE)  # mkdocs knows no second word
CHANGED = re.compile(r"^[-+]", re.MULTILINE)


# ------------------------------------------------------------------------------ called by mkdocs


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = [{"Start": START}, *by_reader(), {"Rules": [*by_family()]}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of docs/ that pages link to, and those that these link to."""
    pages = files.documentation_pages()
    for file in pages:
        if file.src_uri in outside():
            file.inclusion = InclusionLevel.NOT_IN_NAV
    waiting = [repository_path(file.src_uri) for file in pages]
    known = set(waiting)
    while waiting:
        page = waiting.pop()
        new = sorted(path for path in set(linked(page)) - known if path.endswith(".md"))
        known.update(new)
        waiting += new
        for path in new:
            if not is_page(path):
                files.append(
                    File.generated(
                        *(config, site_path(path)),
                        content=(ROOT / path).read_text(encoding="utf-8"),
                        inclusion=InclusionLevel.NOT_IN_NAV,
                    )
                )
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    source = page.file.src_uri
    if source.startswith(RULES):
        markdown = with_headings(markdown)
    path, here = repository_path(source), posixpath.dirname(source)

    def moved(link: re.Match[str]) -> str:
        if "://" in link[0]:
            return link[0]
        return posixpath.relpath(site_path(target(path, link[0])), here or ".")

    def named(link: re.Match[str]) -> str:
        there = target(path, link[2])
        if (
            "://" in link[2]
            or link[2].startswith("mailto:")
            or there.endswith(".md")
            or is_page(there)
        ):
            return link[0]
        return link[1] if posixpath.basename(there) in link[1] else f"{link[1]} (`{there}`)"

    moved_links = (
        LINK.sub(moved, WHOLE_LINK.sub(named, line)) if prose else line
        for line, prose in lines(markdown)
    )
    return LANGUAGE.sub(r"\1", "".join(moved_links))


# ------------------------------------------------------------------------------ navigation


def by_reader() -> Iterator[dict[str, Any]]:
    """The lists of docs/README.md for users, each under its title; the rules have their own."""
    entries: list[dict[str, str]] = []
    for line in start().partition(OUTSIDE)[0].splitlines():
        if reader := READER.match(line):
            entries = []
            yield {reader[1]: entries}
        elif entry := ENTRY.match(line):
            entries.append({entry[1].replace("`", ""): entry[2]})


def outside() -> set[str]:
    """The pages that docs/README.md lists for contributors."""
    return set(LINK.findall(start().partition(OUTSIDE)[2]))


def start() -> str:
    return (ROOT / DOCS / START).read_text(encoding="utf-8")


def by_family() -> Iterator[Any]:
    yield {"All rules": TABLE_OF_RULES}
    pages = sorted((ROOT / DOCS / RULES).glob("AMP*.md"))
    for digit, family in FAMILIES.items():
        own = [f"{RULES}{page.name}" for page in pages if page.name[3] == digit]
        yield {f"{family} (AMP{digit})": own}


# ------------------------------------------------------------------------------ links


def repository_path(source: str) -> str:
    """The path in the repository of a page of the site, given by its path in the site's source."""
    return source.removeprefix(REPOSITORY) if source.startswith(REPOSITORY) else DOCS + source


def site_path(path: str) -> str:
    """The inverse."""
    return path.removeprefix(DOCS) if is_page(path) else REPOSITORY + path


def is_page(path: str) -> bool:
    """Whether mkdocs finds the file in docs/ by itself."""
    return path.startswith(DOCS) and not path.endswith(".py")


def target(page: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def linked(page: str) -> Iterator[str]:
    """The files that a page links to, by their paths in the repository."""
    for line, prose in lines((ROOT / page).read_text(encoding="utf-8")):
        for link in LINK.findall(line) if prose else ():
            if "://" not in link:
                yield target(page, link)


def lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """The lines of a page, and whether each is prose, not code."""
    fenced = False
    for line in markdown.splitlines(keepends=True):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        yield line, not (fence or fenced or line.startswith("    "))


# ------------------------------------------------------------------------------ rules


def with_headings(page: str) -> str:
    """The page of a rule, which is written for a terminal, with headings and highlighted code."""
    return INDENTED.sub(fenced_code, LABEL.sub(as_heading, page))


def as_heading(label: re.Match[str]) -> str:
    title = f"**{label[1]}**" if label[1] in EXAMPLES else f"## {label[1]}"
    return f"{title}\n\n{label[2].upper()}"


def fenced_code(block: re.Match[str]) -> str:
    code = dedent(block[0]).strip("\n")
    return f"```{'diff' if CHANGED.search(code) else 'python'}\n{code}\n```\n\n"
