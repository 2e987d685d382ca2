"""The pages as a site, built as a user builds it; skipped without the extra `docs`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from amplint.rule import registry
from tests.helpers import ROOT

pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
pytest.importorskip("material", reason="the extra `docs` is not installed")


FETCHED = re.compile(r'<(?:img|link|script|source)\b[^>]*\s(?:src|href)="([^"]+)"')
LINK = re.compile(r'<a\b[^>]*\shref="([^"#]+)')
ARTICLE = re.compile(r"<article.*</article>", re.DOTALL)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site. A link or an anchor that leads nowhere fails the build."""
    directory = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return directory


def test_a_page_of_the_site_stands_for_each_page_and_each_rule(site: Path) -> None:
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name != "README.md"]
    for page in pages:
        assert (site / page.relative_to(ROOT / "docs").with_suffix("") / "index.html").is_file()
    navigation = (site / "index.html").read_text(encoding="utf-8")
    for rule in registry.all_rules():
        assert f'href="rules/{rule.code}/"' in navigation


def test_links_lead_to_pages_that_are_there(site: Path) -> None:
    """Also those from the repository's files, which the hook has made pages."""
    for page in site.rglob("index.html"):
        article = ARTICLE.search(page.read_text(encoding="utf-8"))
        assert article is not None, page
        for link in LINK.findall(article[0]):
            if "://" not in link:
                there = (page.parent / link).resolve()
                assert (there / "index.html" if there.is_dir() else there).is_file(), (page, link)


def test_the_site_holds_pages_and_no_sources(site: Path) -> None:
    added = {
        page.parent.relative_to(site / "repository").as_posix()
        for page in (site / "repository").rglob("index.html")
    }
    assert "CHANGELOG" in added
    for page in added - {"."}:  # the README is the index of its directory
        assert (
            any((ROOT / page).parent.glob(f"{Path(page).name}*.md"))
            or (ROOT / page / "README.md").is_file()
        ), page


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        fetched = FETCHED.findall(page.read_text(encoding="utf-8"))
        assert fetched
        assert not [each for each in fetched if re.match(r"(\w+:)?//", each)], page


def test_the_page_of_a_rule_has_its_parts_as_headings(site: Path) -> None:
    page = (site / "rules" / "AMP702" / "index.html").read_text(encoding="utf-8")
    headings = re.findall(r'<h2 id="([\w-]+)"', page)
    assert headings == [
        *("what-to-do", "why-it-hurts", "fix-safety", "a-fix-as-a-diff"),
        *("known-limits", "when-run", "to-suppress-it"),
    ]
    assert '<span class="gi">' in page, "a line that the fix adds is green"
