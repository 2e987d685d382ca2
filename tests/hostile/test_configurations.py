"""Configuration files that come with a repository: whatever is in them, the run goes on, and soon,
and shows nothing of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.frameworks import configuration
from amplint.frameworks.configuration import stated_precisions
from amplint.frameworks.models import models_with
from amplint.project import configurations
from amplint.project.config import Settings
from amplint.project.configurations import Configurations
from amplint.project.discover import select
from tests.command import Amplint
from tests.hostile.test_reach import KINDS, SPECIAL
from tests.hostile.test_size import within

SECRET = "hunter2-is-the-password"
NAMING = "import deepspeed, mmcv, mmengine\n"
CAST = '{"fp16": {"enabled": true}}'
DEEP = 30_000

JSON = {
    "lists": "[" * DEEP,
    "objects": '{"fp16":' * DEEP,
    "closed objects": '{"fp16":' * 5_000 + "1" + "}" * 5_000,
    "number": f'{{"fp16": {"9" * 60_000}}}',
    "exponent": '{"fp16": {"enabled": 1e999999}}',
    "no number": '{"fp16": {"enabled": NaN}}',
    "text": f'{{"fp16": "{SECRET}"}}',
    "no JSON": f"fp16 {SECRET}",
    "surrogate": '{"fp16": {"enabled": "\\ud800"}}',
    "null": "fp16\0",
    "keys": json.dumps({"fp16": {f"k{i}": i for i in range(5_000)}}),
    "empty": "",
}
PYTHON = {
    "calls": "fp16 = " + "dict(loss_scale=" * 5_000,
    "closed calls": "fp16 = " + "dict(loss_scale=" * 90 + "1" + ")" * 90,
    "attributes": "fp16 = a" + ".a" * 20_000,
    "additions": "fp16 = 1" + "+1" * 20_000,
    "signs": "fp16 = " + "-" * 20_000 + "1",
    "number": f"fp16 = dict(loss_scale={'9' * 60_000})",
    "assignments": "fp16 = 1\n" * 6_000,
    "targets": "fp16 = " + "a = " * 10_000 + "1",
    "no Python": f"fp16 = {SECRET} {SECRET}",
    "null": "fp16 = 1\0",
    "running": "fp16 = dict(loss_scale=open('ran', 'w'))\noptim_wrapper = open('ran', 'w')",
    "unpacked": "fp16 = dict(**x)\noptim_wrapper = {**x, 1: 2}",
}


@pytest.fixture(autouse=True)
def naming(repository: Path) -> None:
    """The repository names the frameworks that are configured so."""
    (repository / "b.py").write_text(NAMING)


@pytest.mark.parametrize("text", JSON.values(), ids=JSON)
def test_json_that_is_no_configuration_says_nothing(
    repository: Path, amplint: Amplint, text: str
) -> None:
    (repository / "ds.json").write_text(text)
    with within(5):
        done = amplint("check", "--no-cache")
    assert done.status == 1
    assert done.err == ""
    assert SECRET not in done.out


@pytest.mark.parametrize("text", PYTHON.values(), ids=PYTHON)
def test_python_that_is_no_configuration_is_not_run(text: str) -> None:
    texts = {"b.py": NAMING, "amp.py": text}
    with within(5):
        assert {each.dtype for each in stated_precisions(models_with(()), texts)} <= {"float16"}
    assert not os.path.lexists("ran")


def test_bytes_that_are_no_text_are_left_alone(repository: Path, amplint: Amplint) -> None:
    (repository / "ds.json").write_bytes(b'{"fp16": "\xff"}')
    (repository / "os.json").write_bytes(b"\xff\xfe\x00")
    done = amplint("check", "--no-cache")
    assert (done.status, done.err) == (1, "")


@pytest.mark.parametrize("make", SPECIAL, ids=KINDS)
def test_what_only_looks_like_a_file_is_not_read(
    repository: Path, amplint: Amplint, make: Callable[[Path], None]
) -> None:
    make(repository / "ds.json")
    with within(5):
        done = amplint("check", "--no-cache")
    assert (done.status, done.err) == (1, "")


def read(repository: Path) -> list[str]:
    """The JSON files that are read."""
    settings = Settings(repository)
    found = Configurations(select(["."], settings), settings)
    return sorted(found.texts(str(repository)))


def test_no_file_outside_is_read(repository: Path, home: Path) -> None:
    (home / "ds.json").write_text(CAST)
    (repository / "in").symlink_to(home, target_is_directory=True)
    (repository / "link.json").symlink_to(home / "ds.json")
    (repository / ".." / "above.json").write_text(CAST)
    (repository / "own.json").write_text(CAST)
    assert read(repository) == ["own.json"]


def test_as_many_files_as_there_may_be_are_read(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configurations, "MOST_FILES", 5)
    for i in range(20):
        (repository / f"{i:02}.json").write_text(CAST)
    assert read(repository) == ["00.json", "01.json", "02.json", "03.json", "04.json"]


def test_a_large_file_is_not_read(repository: Path) -> None:
    (repository / "large.json").write_text(CAST + " " * configurations.MOST_BYTES)
    (repository / "fits.json").write_text(CAST.ljust(configurations.MOST_BYTES))
    assert read(repository) == ["fits.json"]


def test_no_more_python_files_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "MOST_FILES", 5)
    texts = {f"{i:02}.py": "fp16 = dict(loss_scale=1)\n" for i in range(20)}
    assert len(stated_precisions(models_with(()), {**texts, "z.py": NAMING})) == 5


def test_a_row_of_a_strangers_model_is_no_pattern() -> None:
    """The first part of a key is looked for as it is written."""
    row = '[[setting]]\nformat = "python"\nkey = "*.*"\nvalues = { a = "float16" }\n'
    models = models_with((f'name = "x"\npackages = ["b"]\n{row}',))
    with within(1):
        assert stated_precisions(models, {"b.py": "*" + "a" * 60_000}) == ()
