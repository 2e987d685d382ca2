"""Small projects in the style of the users of each framework, checked with the default rules.

bad.py is one project and good.py another one; modules beside them belong to both. In their place
may be the folders bad/ and good/, all of whose files are a project. `# expect: CODE` ends each line
where something is found, and `# miss: CODE` each where a mistake is known to be missed.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from amplint import testing
from amplint.findings.finding import Finding
from amplint.frameworks.models import bundled
from amplint.project.config import DEFAULT_SELECT
from amplint.rule.fixtures import modules
from tests.helpers import lint, markers, places

HERE = Path(__file__).resolve().parent
PROJECTS = sorted(
    folder.name
    for folder in HERE.iterdir()
    if any(folder.glob("bad*")) or any(folder.glob("good*"))
)


def program(name: str, kind: str) -> dict[str, bytes]:
    """The files of the bad project of a framework, or of the good one."""
    folder = HERE / name
    return modules(folder / kind) if (folder / kind).is_dir() else testing.program(folder, kind)


def found_in(files: dict[str, bytes], directory: Path) -> tuple[Finding, ...]:
    return tuple(lint(files, directory, select=DEFAULT_SELECT).findings)


@pytest.mark.parametrize("name", PROJECTS)
def test_what_is_marked_is_found_and_nothing_else(name: str, tmp_path: Path) -> None:
    files = program(name, "bad")
    found = found_in(files, tmp_path)
    for path, data in files.items():
        text = data.decode()
        expected, here = Counter(markers(text, "expect")), Counter(places(found, path))
        assert (path, sorted((expected - here).elements())) == (path, []), "marked and not found"
        assert (path, sorted((here - expected).elements())) == (path, []), "found and not marked"
        assert not set(here) & set(markers(text, "miss")), f"{path}: no longer missed"


@pytest.mark.parametrize("name", PROJECTS)
def test_nothing_is_found_in_good_code(name: str, tmp_path: Path) -> None:
    files = program(name, "good")
    assert [(f.path, f.span.start.row, f.code) for f in found_in(files, tmp_path)] == []
    assert not any(testing.MARKER.search(data.decode()) for data in files.values())


@pytest.mark.parametrize("name", PROJECTS)
def test_a_project_is_of_a_model_and_shows_something(name: str) -> None:
    assert name in {model.name for model in bundled()}
    texts = [data.decode() for data in program(name, "bad").values()]
    assert any(markers(text, "expect") for text in texts)
    assert program(name, "good")
