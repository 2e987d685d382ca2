"""Each fixture says the same as usual with its functions in another order, with its definitions in
other files, and after an edit, from what a cache keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from amplint import testing
from amplint.inference.incremental import resumption
from amplint.run import session
from amplint.run.cache import NAME, Cache
from amplint.run.request import Outcome
from tests.helpers import Files, folders, lint, modules, request, write
from tests.oracles.test_one_answer import shuffled
from tests.oracles.test_splitting import said
from tests.splitting import split

ADDED = b"\n\ndef added_for_a_while(loss):\n    loss.backward()\n    return loss.item()\n"


@pytest.mark.parametrize("folder", folders())
def test_a_fixture_says_the_same_in_each_way(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = modules(folder)
    usual = lint(files, tmp_path)
    with shuffled(0):
        assert lint(files, tmp_path) == usual, "in another order"

    bad = files["bad.py"]
    parts = {path: text.encode() for path, text in split(bad.decode()).items()}
    others = {path: data for path, data in files.items() if path != "bad.py"}
    after = said(lint({**others, **parts}, tmp_path / "split"), parts, set(parts))
    assert after == said(usual, files, {"bad.py"}), "split by definition"

    # One function is a large part of a fixture, and the whole of it is small.
    monkeypatch.setattr(resumption, "MOST_CHANGED", 1.0)
    monkeypatch.setattr(session, "LEAST_KEPT", 0)
    cached({**files, "bad.py": bad + ADDED}, tmp_path)
    assert cached(files, tmp_path) == usual, "after an edit, with a cache"


def cached(files: Files, directory: Path) -> Outcome:
    write(files, directory)
    return testing.checked(replace(request(files, directory), cache=Cache(directory / NAME)))
