"""`--timing`: what it measures, what it tells, and that nothing else changes with it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from amplint import Finding, Group, Rule, Unrun, View, calls
from amplint.cli import main as cli
from amplint.gradscaler import certainty
from amplint.output import FORMATS
from amplint.rule import registry
from amplint.run import session
from amplint.run.cache import NAME
from amplint.run.timing import Judging, Measured, Timing, render

LEGACY = "import torch\n\nwith torch.cuda.amp.autocast():\n    pass\n"
SECOND = re.compile(r"^ +(\d+\.\d+)  (.+)$", re.MULTILINE)


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "a.py").write_text(LEGACY)
    (tmp_path / "b.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capfd.readouterr()
    status = cli.main(["check", *arguments])
    return (status, *capfd.readouterr())


def seconds(text: str) -> dict[str, float]:
    """The rows of the tables: what took how long."""
    return {what: float(taken) for taken, what in SECOND.findall(text)}


def busy_rule() -> Rule:
    rule = Rule(
        "AMP998",
        "Is slow.\n\nFix safety: none.\n\nKnown limits: many.",
        group=Group.PERFORMANCE,
        since="0.1",
        witness=Unrun("", ""),
        name="always-busy",
    )

    @rule.on(calls("torch.cuda.amp.autocast"))
    def check(call: View) -> Iterator[Finding]:
        found = call.finding("found at last")
        until = time.thread_time() + 0.3
        while time.thread_time() < until:
            pass
        yield found

    return rule


@pytest.mark.parametrize("processes", [1, 2])
def test_the_slow_rule_and_the_slow_file_are_named_first(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tree: Path, processes: int
) -> None:
    rules = (*registry.all_rules(), busy_rule())
    monkeypatch.setattr(registry, "all_rules", lambda: rules)
    if processes == 2:  # one is judged in a process of its own
        (tree / "b.py").write_text(LEGACY + "#" * 500_000)
        monkeypatch.setattr("amplint.run.session.workers", lambda _: 2)
    status, out, err = check(capfd, "--timing", "--no-cache", "--format", "concise")
    assert status == 1
    assert out.count("AMP998") == processes
    rows = seconds(err.partition("slowest rules")[2])
    rule = f"AMP998 always-busy, {processes} unit{'s' * (processes > 1)}"
    assert next(iter(rows)) == rule
    assert 0.3 * processes <= rows[rule] < 0.6 * processes
    assert rows["a.py"] >= 0.3


def test_it_tells_how_much_there_was_to_do(capfd: pytest.CaptureFixture[str]) -> None:
    _, _, err = check(capfd, "--timing", "--no-cache")
    rows = seconds(err)
    assert re.match(r"amplint: \d+\.\d\d s elapsed, \d+\.\d\d s of processor time:\n", err)
    assert {
        "read 2 files",
        "index 2 files, 2 of them parsed",
        "judge: 2 units in files with candidates, 1 through LibCST",
    } < rows.keys()
    assert not [what for what in rows if "whole" in what]


@pytest.mark.parametrize("format_", [*FORMATS])
def test_what_is_reported_stays_as_it_is(capfd: pytest.CaptureFixture[str], format_: str) -> None:
    without = check(capfd, "--format", format_, "--no-cache")
    timed = check(capfd, "--format", format_, "--no-cache", "--timing")
    assert timed[:2] == without[:2]
    assert without[2] == ""
    assert timed[2].startswith("amplint: ")


def test_the_cache_knows_nothing_of_it(capfd: pytest.CaptureFixture[str], tree: Path) -> None:
    check(capfd)
    kept = {file.name: file.read_bytes() for file in (tree / NAME).iterdir()}
    _, _, err = check(capfd, "--timing")
    assert re.fullmatch(
        r"amplint: \d+\.\d\d s elapsed; everything was in the cache, nothing was analysed\n", err
    )
    cli.main(["clean"])
    check(capfd, "--timing")
    assert {file.name: file.read_bytes() for file in (tree / NAME).iterdir()} == kept


def test_a_file_that_is_parsed_whole_is_named(
    capfd: pytest.CaptureFixture[str], tree: Path
) -> None:
    (tree / "odd.py").write_text(f"import torch\n\n{ODD}")
    _, _, err = check(capfd, "--timing")
    assert err.endswith("disagreed:\n  odd.py\n")


# `ast` says that the decorator begins on its second line.
ODD = "@\\\ntorch.cuda.amp.autocast()\ndef f():\n    pass\n"


def test_parts_that_were_in_the_cache_are_counted() -> None:
    judging = Judging("m/a.py", 2.0, 9, 4, False, {"AMP101 a": (1.5, 3), "AMP102 b": (0.25, 1)})
    other = Judging("m/b.py", 1.0, 2, 1, False, {"AMP102 b": (0.5, 1)})
    measured = Measured(0.5, 3.0, 1200, 30, 40_000, 2000, (judging, other))
    text = render(Timing(0.0, 0.1, 1500, [None, measured, None]), 4.0, 7.0, "src/{}".format)
    assert "1 of 3 parts analysed" in text
    assert list(seconds(text).items()) == [
        ("read 1,500 files", 0.1),
        ("index 1,200 files, 30 of them parsed", 0.5),
        ("link: 40,000 functions, 2,000 of them evaluated", 3.0),
        ("judge: 11 units in files with candidates, 5 through LibCST", 0.75),
        ("judge: what the rules do", 2.25),
        ("start, cache, report", 0.4),
        ("AMP101 a, 3 units", 1.5),
        ("AMP102 b, 2 units", 0.75),
        ("src/m/a.py", 2.0),
        ("src/m/b.py", 1.0),
    ]


def test_it_is_told_that_inference_goes_on_from_an_earlier_run(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tree: Path
) -> None:
    monkeypatch.setattr(session, "LEAST_KEPT", 0)
    for number in range(20):
        (tree / f"other{number}.py").write_text(TRAIN.replace("def train", f"def train{number}"))
    _, _, err = check(capfd, "--timing")
    assert "of them evaluated\n" in err
    (tree / "other7.py").write_text(TRAIN.replace("def train", "def train7") + "\nunusual = 1\n")
    _, _, err = check(capfd, "--timing")
    assert "; in 20 files more, nothing has changed\n" in err  # all but other7.py
    assert "of them known; only what 1 changed file can affect is evaluated\n" in err


TRAIN = """\
import torch

def train(model, loader, optimizer, flags, scaler: torch.amp.GradScaler):
    for x in loader:
        loss = model(x).mean()
        if flags.auxiliary:
            loss = loss + model.auxiliary(x)
            optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_functions_with_too_many_paths_are_named_and_counted(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tree: Path, processes: int
) -> None:
    (tree / "a.py").write_text(TRAIN)
    (tree / "b.py").write_text(TRAIN + "#" * 500_000 * (processes - 1))
    (tree / "c.py").write_text("x = 1\n")
    monkeypatch.setattr("amplint.run.session.workers", lambda _: processes)
    few = (0, "", "")
    assert check(capfd, "--statistics", "--no-cache") == few
    monkeypatch.setitem(certainty.LIMITS, "situations", 0)
    for cached in (False, True):
        _, out, err = check(capfd, "--statistics", "--timing")
        assert out == ""  # they are no rule, and their number is none of findings
        assert (
            "amplint: 2 functions with more paths than amplint tracks; rules may be silent" in err
        )
        assert ("everything was in the cache" in err) is cached
        named = "functions with more paths than amplint tracks:\n"
        assert err.endswith(f"{named}  a.py: train\n  b.py: train\n")
