"""Large projects are analysed in parts: which, what they see of each other, and what is kept."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.facts.program import linked
from amplint.fix.project_fixes import fix_project
from amplint.inference.fixpoint import evaluate
from amplint.inference.state import WHOLE, Key
from amplint.ir.file_index import File
from amplint.ir.file_set import QUESTIONS, Files
from amplint.project.discover import select
from amplint.project.settings_hierarchy import SettingsHierarchy
from amplint.rule import registry
from amplint.run import judge as judging
from amplint.run import partition, session
from amplint.run.cache import NAME, Cache
from amplint.run.engine import run
from amplint.run.partition import divide
from amplint.run.request import Outcome, Request
from amplint.values.atoms import BOTTOM
from tests.helpers import write

TRAIN = """\
import torch


def train(model, loader, optimizer):
    for x in loader:
        loss = model(x.cuda()).sum()
        loss.backward()
        optimizer.step()
        print(loss.item())
"""

NAMES = st.sampled_from(["a", "b", "c", "d.py", "e.py", "f.py"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@given(st.dictionaries(PATHS, st.integers(0, 9)), st.integers(1, 30))
def test_every_file_is_in_one_part_and_no_part_is_too_large(
    sizes: dict[str, int], largest: int
) -> None:
    sizes = {f"{path}/x.py": size for path, size in sizes.items()}
    found = divide(sizes, largest, 0)
    assert sorted(path for part in found for path in part) == sorted(sizes)
    assert all(sum(sizes[p] for p in part) <= largest or len(part) == 1 for part in found)


def test_directories_stay_together() -> None:
    sizes = {"m/a/x.py": 3, "m/a/y.py": 3, "m/b/x.py": 3, "m/b/y.py": 3, "u.py": 1}
    assert divide(sizes, 100) == [tuple(sorted(sizes))]
    assert divide(sizes, 7, 0) == [("m/a/x.py", "m/a/y.py"), ("m/b/x.py", "m/b/y.py"), ("u.py",)]


# ------------------------------------------------------------------------ two parts of a project

COMMON = """\
import torch


def to_device(batch):
    return batch.cuda()


class Net(torch.nn.Module):
    pass
"""
MODEL = """\
import torch

from common.tools import Net, to_device


class Model(Net):
    def forward(self, x):
        if (x > 0).any():
            x = x + torch.zeros(3).to(x.device)
        return to_device(x).item()
"""
FILES = {
    "common/__init__.py": "",
    "common/tools.py": COMMON,
    "common/seeds.py": "SEED = 1  # of whatever is drawn\n",
    "common/broken.py": "def (:\n",
    "models/__init__.py": "",
    "models/model.py": MODEL,
    "models/other.py": "import torch\n\nwith torch.cuda.amp.autocast():\n    pass\n",
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose two directories are two parts."""
    (tmp_path / "pyproject.toml").touch()
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "divide", lambda sizes: partition.divide(sizes, 300, 0))
    return tmp_path


def request_of(*paths: str) -> Request:
    settings = SettingsHierarchy()
    return Request(select(paths, settings), settings, registry.all_rules())


def look(*paths: str, cache: Cache | None = None) -> Outcome:
    return run(replace(request_of(*(paths or (".",))), cache=cache))


def told(outcome: Outcome) -> list[tuple[str, int, str]]:
    return [(one.path, one.span.start.row, one.code) for one in outcome.findings]


@pytest.mark.usefixtures("tree")
def test_a_part_sees_what_it_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = told(look())
    assert [code for path, _, code in apart if path == "models/model.py"] == [
        "AMP103", "AMP501", "AMP101",
    ]  # fmt: skip
    monkeypatch.setattr(session, "divide", partition.divide)
    # What is not seen: that a model of another part makes `to_device` hot.
    assert set(told(look())) - set(apart) == {("common/tools.py", 5, "AMP508")}


@pytest.mark.usefixtures("tree")
def test_a_file_is_said_the_same_of_whatever_is_named_beside_it() -> None:
    everything = told(look())
    for path in FILES:
        assert told(look(path)) == [one for one in everything if one[0] == path]


def test_only_what_is_needed_of_another_part_is_indexed() -> None:
    own = {"models/model.py": File("models/model.py", MODEL)}
    others = {path: text for path, text in FILES.items() if path not in own}
    files = Files(own, others)
    assert files["common/tools.py"].facts.classes
    assert files.used == {"common/tools.py"}
    assert not files["common/broken.py"].facts.classes


@pytest.mark.parametrize("last", ["own.py::here", "another.py::there"])
def test_who_asks_afterwards_is_in_no_part(last: str) -> None:
    own = File("own.py", "from another import there\n\n\ndef here():\n    return there()\n")
    another = "def there():\n    return 1\n\n\ndef unasked():\n    return 2\n"
    inference = linked(Files({"own.py": own}, {"another.py": another}))
    evaluate(inference, last, {WHOLE})
    assert inference.store.read(Key("return", "another.py::unasked")) == BOTTOM


class Counting:
    """`analyse_part`, and which parts it was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parts: list[str] = []
        original = session.analyse_part

        def counted(part: tuple[str, ...], *rest: object) -> object:
            self.parts.append(part[0].partition("/")[0])
            return original(part, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(session, "analyse_part", counted)
        # In this process, where they can be counted.
        monkeypatch.setattr(session, "each", lambda work, items, *_: [work(item) for item in items])

    def take(self) -> list[str]:
        taken, self.parts = self.parts, []
        return sorted(taken)


def test_what_a_part_has_asked_of_all_files_is_kept_on_disk_alone(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all parts together, it grows with the square of the project."""
    asked: list[object] = []

    def counted(work, items, *_):  # type: ignore[no-untyped-def]
        results = [work(item) for item in items]
        asked.extend(result.answers for result in results)
        return results

    monkeypatch.setattr(session, "each", counted)
    look(cache=Cache(tree / NAME))
    assert asked == [{}, {}]
    asked.clear()
    look(cache=Cache(tree / NAME))
    (tree / "common/seeds.py").write_text("SEED = 2\n")
    look(cache=Cache(tree / NAME))
    assert asked == [{}]  # the answers of the other part still hold


def test_a_change_has_the_parts_analysed_that_depend_on_it(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "common/broken.py").unlink()
    counting = Counting(monkeypatch)
    cache = Cache(tree / NAME)
    first = look(cache=cache)
    assert counting.take() == ["common", "models"]
    assert look(cache=cache).findings == first.findings
    assert counting.take() == []

    # Nobody has asked anything of this file that another number would answer otherwise.
    (tree / "common/seeds.py").write_text("SEED = 2  # of whatever is drawn\n")
    assert look(cache=cache).findings == first.findings
    assert counting.take() == ["common"]

    (tree / "models/other.py").write_text("x = 1\n")
    assert {path for path, _, _ in told(look(cache=cache))} == {"models/model.py"}
    assert counting.take() == ["models"]

    # What another part imports of it has changed, and with it what is found there.
    (tree / "common/tools.py").write_text(COMMON.replace("torch.nn.Module", "object"))
    changed = look(cache=cache)
    assert counting.take() == ["common", "models"]
    assert changed.findings == look().findings != first.findings


def test_a_word_in_another_part_is_asked_for_again(tree: Path) -> None:
    """AMP701 is a safe fix where no file looks for the class of the old autocast."""
    (tree / "common/broken.py").unlink()
    cache = Cache(tree / NAME)
    (before,) = (one for one in look(cache=cache).findings if one.code == "AMP701")
    (tree / "common/seeds.py").write_text(
        "import torch\n\nclass Cast(torch.cuda.amp.autocast):\n    pass\n"
        "def f(x):\n    return isinstance(x, torch.cuda.amp.autocast)\n"
    )
    (after,) = (
        one for one in look(cache=cache).findings
        if (one.code, one.path) == ("AMP701", "models/other.py")
    )  # fmt: skip
    assert before.fix is not None
    assert after.fix is not None
    assert before.fix.safety != after.fix.safety


# -------------------------------------------------------------------------- roots in the settings


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose two directories are projects of their own."""
    (tmp_path / "pyproject.toml").write_text('[tool.amplint]\nroots = ["*"]\n')
    write({path: text.encode() for path, text in FILES.items()}, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_root_is_analysed_as_if_it_stood_alone(
    roots: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = told(look())
    alone = []
    for name in ("common", "models"):
        place = tmp_path_factory.mktemp("alone")
        shutil.copytree(roots / name, place / name)
        monkeypatch.chdir(place)
        alone += told(look())
    assert together == alone
    monkeypatch.chdir(roots)
    (roots / "pyproject.toml").write_text("")
    assert told(look()) != together


def test_a_change_in_a_root_has_no_other_analysed(
    roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (roots / "common/broken.py").unlink()
    counting = Counting(monkeypatch)
    cache = Cache(roots / NAME)
    before = look(cache=cache)
    assert counting.take() == ["common", "models"]
    (roots / "common/tools.py").write_text(COMMON.replace("torch.nn.Module", "object"))
    assert look(cache=cache).findings == before.findings
    assert counting.take() == ["common"]


def test_an_edit_of_a_root_is_taken_up_from_what_is_kept_of_it(
    roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each root has an entry of its own, for its values and for its findings."""
    monkeypatch.setattr(session, "LEAST_KEPT", 0)
    (roots / "common/broken.py").unlink()
    for root in ("common", "models"):
        for number in range(6):
            (roots / root / f"train{number}.py").write_text(TRAIN)
    cache = Cache(roots / NAME)

    log = roots / "judged"  # by whatever process

    def judge(path: str, *rest: Any, original: Any = judging.judge) -> judging.JudgedFile:
        with log.open("a") as stream:
            stream.write(f"{path}\n")
        judged: judging.JudgedFile = original(path, *rest)
        return judged

    monkeypatch.setattr(judging, "judge", judge)

    def judged() -> list[str]:
        """The files that train whose findings are not known."""
        log.write_text("")
        outcome = run(replace(request_of("."), cache=cache))
        found = sorted(path for path in log.read_text().split() if "/train" in path)
        assert outcome.findings == run(request_of(".")).findings
        return found

    assert len(judged()) == 12
    for root in ("models", "common", "models"):
        file = roots / root / "train3.py"
        file.write_text(file.read_text() + "\nunusual = 1\n")
        assert judged() == [f"{root}/train3.py"]


def test_a_fix_asks_the_files_of_its_root_whether_a_name_is_in_use(roots: Path) -> None:
    """An import that a fix leaves without a use stays where another file may take it from there."""
    (roots / "models/other.py").write_text(
        "import torch\nfrom torch.cuda.amp import autocast\n\nwith autocast():\n    pass\n"
    )
    (roots / "models/user.py").write_text("from models.other import autocast\n")
    assert "from torch.cuda.amp import autocast" in fixed("models/other.py")
    (roots / "models/user.py").rename(roots / "common/user.py")
    assert "from torch.cuda.amp import autocast" not in fixed("models/other.py")


def fixed(path: str) -> str:
    """The file after its safe fixes."""
    settings = SettingsHierarchy()
    request = Request(select((".",), settings), settings, registry.all_rules())
    return fix_project(request, False).after[path]


# ---------------------------------------------------------------------------- questions to texts


@pytest.mark.parametrize(
    ("question", "about", "text", "answer"),
    [
        ("stores", "scale", "model.scale = 2\n", True),
        ("stores", "scale", "a.b.scale, y = 1, 2\n", True),
        ("stores", "scale", "myself.scale = 2\n", True),
        ("stores", "scale", "self.scale = 2\n", False),
        ("stores", "scale", "if model.scale == 2: pass\n", False),
        ("stores", "scale", "model.scales = 2\n", False),
        ("stores", "scale", "print(model.scale)\n", False),
        ("has star", "", "from a import *\n", True),
        ("has star", "", "from a import\t( *)\n", True),
        ("has star", "", "from a import*\n", True),
        ("has star", "", "important = 2 * 3\n", False),
        ("has star", "", "reimport *\n", False),
        ("has star", "", "from a import b\nx = b * 2\n", False),
    ],
)
def test_what_a_text_is_asked(question: str, about: str, text: str, answer: bool) -> None:
    assert QUESTIONS[question](text, about) is answer
