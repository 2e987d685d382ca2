"""`amplint explain --at FILE:LINE`: what is known of a line, and why rules are silent there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from amplint.facts.fact import Fact
from amplint.output import question_text
from amplint.output.values_in_words import value_in_words
from amplint.run import inspection, linking, session
from amplint.util.walks import reachable
from amplint.values.atoms import (
    ACCELERATOR,
    NONE,
    Device,
    Host,
    Mapping,
    Sequence,
    Tensor,
    TensorTree,
    Unknown,
    one,
)
from tests.command import Amplint
from tests.helpers import ROOT

CODE = """\
import torch


def train(model, loader, optimizer, device):
    model.to(device)
    total = 0.0
    for x, y in loader:
        x = x.to(device)
        with torch.autocast("cuda"):
            loss = model(x).sum()
            keep = torch.zeros(3)
        loss.backward()
        total += loss.item()
        seen = loss.item()  # amplint: ignore[AMP101] shown
    print(loss.item())
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.py").write_text(CODE)
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def section(page: str, name: str) -> list[str]:
    """The lines under a heading, without their indentation."""
    lines = page.partition(f"\n{name}\n")[2].partition("\n\n")[0].splitlines()
    return [line.strip() for line in lines]


def test_a_line_with_a_finding(amplint: Amplint) -> None:
    ran = amplint("explain", "--at", "a.py:13")
    assert ran.status == 0
    assert ran.out.startswith("a.py:13: total += loss.item()\n")
    values = section(ran.out, "values")
    assert "loss: a float32 tensor on the accelerator, 0-dim, with a graph" in values
    assert "a.py:8: moved to the device here" in values or any("a.py:10" in v for v in values)
    assert section(ran.out, "runs") == [
        "for every batch of training",
        "a.py:7: the training loop, once per batch",
    ]
    assert section(ran.out, "region") == ["none is known"]
    told = [line for line in section(ran.out, "rules") if line.startswith("AMP101")]
    assert told == [
        "AMP101 host-read-in-hot-path: reports: "
        "`loss.item()` makes the host wait for the device in every iteration"
    ]


def told(page: str, rule: str) -> str:
    """What a rule says of a line, without its message."""
    said = next(line for line in section(page, "rules") if line.startswith(rule))
    return said.removeprefix(f"{rule}: ").partition(": `")[0]


READ = "AMP101 host-read-in-hot-path"


def test_why_a_finding_is_not_reported(amplint: Amplint, project: Path) -> None:
    by_comment = amplint("explain", "--at", "a.py:14").out
    assert told(by_comment, READ) == "would report this, but a comment allows it"
    (project / "pyproject.toml").write_text('[tool.amplint]\nignore = ["AMP101"]\n')
    by_settings = amplint("explain", "--at", "a.py:13", "AMP101").out
    assert told(by_settings, READ) == "would report this, but the settings do not select it here"


def test_a_finding_in_whose_place_another_rule_speaks(amplint: Amplint, project: Path) -> None:
    text = CODE.replace("total += loss.item()", "x = torch.full_like(x, loss.item())")
    (project / "a.py").write_text(text)
    page = amplint("explain", "--at", "a.py:13").out
    assert told(page, "AMP110 host-value-fed-back") == "reports"
    assert told(page, READ) == "would report this, but another rule reports it instead"


def test_the_condition_that_is_lacking(amplint: Amplint) -> None:
    page = amplint("explain", "--at", "a.py:15").out
    assert section(page, "runs") == ["not seen to run once per batch"]
    assert (
        "AMP101 host-read-in-hot-path, nearly: this is not seen to run once per batch of training"
        in section(page, "rules")[:2]
    )
    backward = section(amplint("explain", "--at", "a.py:12", "--all").out, "rules")
    at = backward.index("AMP301 backward-in-autocast: silent")
    assert backward[at + 1] == "this is in no autocast region"
    # No call of a function without mistakes is what rules on mistakes of any call are about.
    assert not [line for line in backward if line.startswith("AMP405")]


def test_what_a_rule_asked_before_it_gave_up(amplint: Amplint) -> None:
    rules = section(amplint("explain", "AMP101", "--at", "a.py:15").out, "rules")
    assert rules[0] == "AMP101 host-read-in-hot-path: silent about `loss.item()`"
    assert rules[-1] == "amplint does not see that `loss.item()` runs once per batch"


def test_the_nearest_of_the_rules_that_are_silent(amplint: Amplint) -> None:
    few = section(amplint("explain", "--at", "a.py:15").out, "rules")
    every = section(amplint("explain", "--at", "a.py:15", "--all").out, "rules")
    silent = [line for line in every if ": silent" in line]
    assert len(few) == 3 and all(", nearly: " in line for line in few[:2])
    assert few[2] == (f"{len(silent) - 2} other rules found nothing in this line: --all says why")


def test_a_rule_that_is_off_by_default(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(CODE.replace("total = 0.0", "total = torch.FloatTensor(3)"))
    page = amplint("explain", "--at", "a.py:6").out
    assert "would report this, but is off by default: `--extend-select AMP504`: " in page


def test_what_rules_ask_has_a_sentence() -> None:
    """A class of the engine means nothing to the reader."""
    code = [path for root in ("rules", "amplint/view") for path in (ROOT / root).rglob("*.py")]
    asked = {
        name
        for path in code
        for name in re.findall(r"\b(?:ask|fact)\((\w+)", path.read_text(encoding="utf-8"))
    }
    every = reachable([Fact], lambda each: each.__subclasses__())
    facts = {fact.__name__: fact.sentence for fact in every}
    assert len(asked & facts.keys()) > 40
    said = {name for name, sentence in facts.items() if sentence}
    assert said | question_text.SENTENCES.keys() >= asked & facts.keys()
    assert facts.keys() - said >= question_text.SENTENCES.keys()


def test_the_region(amplint: Amplint) -> None:
    region = section(amplint("explain", "--at", "a.py:11").out, "region")
    assert region == [
        "autocast for cuda, the default dtype, on, which is opened here",
        "a.py:9: the autocast region is opened here",
    ]


def test_a_rule_that_nothing_in_the_line_is_about(amplint: Amplint) -> None:
    rules = section(amplint("explain", "AMP201", "--at", "a.py:6").out, "rules")
    assert rules == ["AMP201 factory-without-dtype: looks at nothing here"]
    rules = section(amplint("explain", "--at", "a.py:1").out, "rules")
    assert rules == ["no rule looks at anything in this line"]


def test_nothing_is_written(amplint: Amplint, project: Path) -> None:
    amplint("explain", "--at", "a.py:13")
    assert sorted(path.name for path in project.iterdir()) == ["a.py", "pyproject.toml"]


def test_what_is_kept_of_a_check_is_used_and_stays_as_it_is(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LEAST_KEPT", 0)
    (project / "b.py").write_text("def f(x):\n    return x\n")
    alone = amplint("explain", "--at", "a.py:13")
    amplint("check")
    kept = {file: file.read_bytes() for file in (project / ".amplint_cache").iterdir()}
    monkeypatch.setattr(linking, "linked", lambda *_: pytest.fail("all was linked anew"))
    assert amplint("explain", "--at", "a.py:13") == alone
    (project / "b.py").write_text("def f(x):\n    return x.item()\n")
    assert amplint("explain", "--at", "a.py:13") == alone
    assert {file: file.read_bytes() for file in (project / ".amplint_cache").iterdir()} == kept


def write_notebook(path: Path, *sources: str) -> None:
    cells: list[dict[str, object]] = [
        {
            "cell_type": "code",
            "metadata": {},
            "outputs": [],
            "execution_count": None,
            "source": code,
        }
        for code in sources
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(notebook))


def test_a_cell_of_a_notebook(amplint: Amplint, project: Path) -> None:
    write_notebook(project / "n.ipynb", "import torch\nx = 1", "y = torch.zeros(3)\n")
    ran = amplint("explain", "--at", "n.ipynb:2:1")
    assert ran.out.startswith("n.ipynb:cell 2:1: y = torch.zeros(3)\n")
    assert amplint("explain", "--at", "n.ipynb:2:7").status == 2


def test_a_place_is_taken_as_a_report_prints_it(amplint: Amplint, project: Path) -> None:
    write_notebook(project / "n.ipynb", "import torch\nx = 1", "y = torch.zeros(3)\n")
    asked = amplint("explain", "--at", "n.ipynb:2:1")
    for place in ("n.ipynb:cell 2:1", "n.ipynb:cell 2:1:5", "n.ipynb:2:1:5"):
        assert amplint("explain", "--at", place).out == asked.out
    reported = amplint("check", "--select", "AMP101", "--format", "concise", "a.py").out.partition(
        ": AMP101"
    )[0]
    assert reported == "a.py:13:18"
    assert amplint("explain", "--at", reported).out.startswith("a.py:13: total += loss.item()\n")


def test_what_is_known_of_a_notebook_is_placed_in_its_cells(
    amplint: Amplint, project: Path
) -> None:
    (project / "helper.py").write_text("def read(loss):\n    return loss.item()\n")
    first, _, rest = CODE.partition("\n\n\n")
    train = rest.replace("seen = loss.item()  # amplint: ignore[AMP101] shown", "read(loss)")
    write_notebook(project / "n.ipynb", f"%time 1\n{first}\nfrom helper import read", "", train)
    assert section(amplint("explain", "--at", "n.ipynb:3:10").out, "runs") == [
        "for every batch of training",
        "n.ipynb:cell 3:4: the training loop, once per batch",
    ]
    there = section(amplint("explain", "--at", "helper.py:2").out, "runs")
    assert there[1].startswith("n.ipynb:cell 3:11: ")
    magic = amplint("explain", "--at", "n.ipynb:cell 1:1").out
    assert magic.startswith("n.ipynb:cell 1:1: %time 1\n")


def test_paths_are_those_from_where_the_user_stands(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "below").mkdir()
    monkeypatch.chdir(project / "below")
    page = amplint("explain", "--at", "../a.py:13").out
    assert page.startswith("../a.py:13: total += loss.item()\n")
    assert section(page, "runs")[1].startswith("../a.py:7: ")


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("a.py", "--at 'a.py' is not of the form FILE:LINE"),
        (":3", "--at ':3' is not of the form FILE:LINE"),
        ("a.py:0", "a.py:0: the file has no such line"),
        ("a.py:99", "a.py:99: the file has no such line"),
        ("a.py:13:1:1", "--at 'a.py:13:1:1' is not of the form FILE:LINE"),
        ("a.py:cell 1:1", "--at 'a.py:cell 1:1' is not of the form FILE:LINE"),
        ("n.ipynb:3", "names no cell: write n.ipynb:CELL:LINE, as a report does"),
        ("a.py:9999999999999999999999", "the file has no such line"),
        ("b.py:1", "b.py: not a file that amplint reads"),
    ],
)
def test_places_that_are_none(amplint: Amplint, place: str, said: str) -> None:
    ran = amplint("explain", "--at", place)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


def test_a_file_that_python_cannot_read(amplint: Amplint, project: Path) -> None:
    (project / "b.py").write_text("def f(:\n")
    ran = amplint("explain", "--at", "b.py:1")
    assert "not checked: " in ran.out and "cannot read this file" in ran.out


def test_a_rule_that_fails_there_says_so(amplint: Amplint, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(inspection.InspectedLine, "_farthest", fails)
    rules = section(amplint("explain", "AMP101", "--at", "a.py:15").out, "rules")
    assert rules == ["AMP101 host-read-in-hot-path: failed: RuntimeError: broken"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (frozenset(), "never reached"),
        (one(Unknown()), "unknown"),
        (one(Host("int", 3, True)), "the constant 3"),
        (one(Host("numpy")), "a NumPy array"),
        (one(Tensor()), "a tensor of unknown dtype of unknown device"),
        (
            one(Tensor("float16", Device("cpu"), 1, False, dims=2)),
            "a float16 tensor on the CPU, 2 dimensions, without a graph",
        ),
        (
            one(TensorTree(Device(ACCELERATOR), "output", frozenset({"list"}))),
            "a list of tensors on the accelerator (output)",
        ),
        (one(Sequence(None, one(NONE))), "a sequence of None"),
        (one(Mapping(one(NONE), (("a", one(NONE)),))), "a dict {'a': None, other keys: None}"),
        (frozenset({NONE, Unknown()}), "None; or unknown"),
    ],
)
def test_values_in_words(value: frozenset, words: str) -> None:  # type: ignore[type-arg]
    assert value_in_words(value) == words
