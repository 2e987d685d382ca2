"""A repository that a stranger has made, beside files of the user that are none of its business."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import LEGACY


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository, which is the current directory."""
    root = tmp_path / "repository"
    root.mkdir()
    (root / "pyproject.toml").write_text("[tool.amplint]\n")
    (root / "a.py").write_text(LEGACY)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory of the user."""
    directory = tmp_path / "home"
    directory.mkdir()
    return directory
