"""The index of a large project: built in processes and kept, and the same in any way."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplint.ir.file_index import File
from amplint.project.config import Settings
from amplint.project.discover import Selection
from amplint.rule import registry
from amplint.run import cache as caching
from amplint.run import indexing, partition, session
from amplint.run.cache import Cache
from amplint.run.engine import run
from amplint.run.indexing import IndexStore
from amplint.run.kept_analyses import KeptAnalyses
from amplint.run.request import Outcome, Request
from amplint.util import process_pool

TRAIN = """\
from helpers.reads import read

for x in loader:
    loss = model(x.cuda()).sum()
    loss.backward()
    read(loss, lambda y: y)
"""
READ = "def read(x, key=lambda x: x):\n    return key(x).item()\n"
FILES = {
    "train.py": TRAIN,
    "helpers/__init__.py": "",
    "helpers/reads.py": READ,
    "helpers/broken.py": "x = (\n",
    "helpers/more.py": "import torch\n\nwith torch.cuda.amp.autocast():\n    pass\n",
}


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "LEAST_KEPT", 0)
    # A whole analysis that is kept needs no index.
    monkeypatch.setattr(KeptAnalyses, "recall", lambda *_: None)
    for path, text in FILES.items():
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(text)
    return tmp_path


def look(kept: bool = True) -> Outcome:
    root = Path.cwd()
    paths = tuple(sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py")))
    cache = Cache(root / caching.NAME) if kept else None
    project = Selection(root, paths, frozenset(paths))
    return run(Request(project, Settings(root), registry.all_rules(), cache=cache))


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The files that were parsed since this was last asked."""
    paths: list[str] = []
    scan = File._scan_module

    def noted(file: File, *arguments: Any) -> None:
        paths.append(file.path)
        scan(file, *arguments)

    def since() -> list[str]:
        found = sorted({*paths})  # one that was edited, as it was and as it is
        paths.clear()
        return found

    monkeypatch.setattr(File, "_scan_module", noted)
    return since


def test_a_change_has_one_file_parsed(parsed: Callable[[], list[str]]) -> None:
    plain = look(kept=False)
    assert len(plain.findings) >= 3
    parsed()
    assert look() == plain
    assert parsed() == sorted(FILES.keys() - {"helpers/broken.py"})
    Path("train.py").write_text(TRAIN + "# more\n")
    assert look().findings == plain.findings
    assert parsed() == ["train.py"]
    Path("helpers/reads.py").write_text("\n" + READ)
    moved = look()
    assert parsed() == ["helpers/reads.py", "train.py"]  # of this, what it was at the snapshot
    assert moved.findings == look(kept=False).findings
    parsed()
    Path("helpers/reads.py").rename("helpers/lists.py")
    renamed = look()
    assert parsed() == ["helpers/lists.py", "helpers/reads.py", "train.py"]
    assert renamed.findings == look(kept=False).findings


def test_processes_index_the_same(
    monkeypatch: pytest.MonkeyPatch, parsed: Callable[[], list[str]]
) -> None:
    plain = look(kept=False)
    parsed()
    monkeypatch.setattr(session, "workers", lambda _: 3)
    monkeypatch.setattr(process_pool, "LEAST_WEIGHT", 1)
    assert look(kept=False) == plain
    here = parsed()
    assert 0 < len(here) < len(FILES) - 1, "the others were parsed in other processes"
    assert look() == plain


def test_a_part_takes_what_is_known_of_another(
    monkeypatch: pytest.MonkeyPatch, parsed: Callable[[], list[str]]
) -> None:
    monkeypatch.setattr(session, "divide", lambda sizes: partition.divide(sizes, 50, 0))
    monkeypatch.setattr(sys, "platform", "darwin")  # where one process does it all
    plain = look(kept=False)
    look()
    Path("train.py").write_text(TRAIN + "# more\n")
    parsed()
    assert look().findings == plain.findings
    assert parsed() == ["train.py"], "helpers/reads.py is asked for, and was not parsed"


def packs() -> list[Path]:
    keys = {indexing.pack_key(directory) for directory in ("", "helpers")}
    return [path for path in Path(caching.NAME).iterdir() if path.name in keys]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-7],
        lambda _: b"",
        lambda content: content.replace(content[-4:], b"oops"),
        lambda _: caching.MAGIC + caching.digest(b"oops").encode() + b"\noops",
    ],
)
def test_a_damaged_pack_is_a_miss(
    damage: Callable[[bytes], bytes], parsed: Callable[[], list[str]]
) -> None:
    plain = look()
    assert len(packs()) == 2
    for pack in packs():
        pack.write_bytes(damage(pack.read_bytes()))
    Path("train.py").write_text(TRAIN + "# more\n")
    parsed()
    assert look().findings == plain.findings
    assert parsed() == sorted(FILES.keys() - {"helpers/broken.py"})


def test_the_pack_of_another_amplint_is_a_miss_and_replaced(
    monkeypatch: pytest.MonkeyPatch, parsed: Callable[[], list[str]]
) -> None:
    plain = look()
    monkeypatch.setattr(indexing, "environment", lambda: ["another"])
    Path("train.py").write_text(TRAIN + "# more\n")
    parsed()
    assert look().findings == plain.findings
    assert len(parsed()) == len(FILES) - 1
    assert len(packs()) == 2
    Path("train.py").write_text(TRAIN + "# again\n")
    look()
    assert parsed() == ["train.py"]


def test_a_small_project_keeps_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "LEAST_KEPT", sum(map(len, FILES.values())) + 1)
    look()
    assert packs() == []


def test_records_of_files_that_are_gone_go() -> None:
    digests = {"a/b.py": "1", "a/c.py": "2", "a/d.py": "3"}
    cache = Cache(Path(caching.NAME))
    IndexStore(cache, digests.__getitem__).keep({"a/b.py": b"b", "a/c.py": b"c"}, digests)
    IndexStore(cache, digests.__getitem__).keep({"a/d.py": b"d"}, {"a/c.py", "a/d.py"})
    assert IndexStore(cache, digests.__getitem__).recall(digests) == {
        "a/c.py": b"c",
        "a/d.py": b"d",
    }
    digests["a/c.py"] = "4"
    assert IndexStore(cache, digests.__getitem__).recall(digests) == {"a/d.py": b"d"}
