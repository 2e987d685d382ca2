"""Findings that are taken from the cache are those of a run that judges every file.

Each edit here changes nothing in the file that has the finding: only what the finding rests on, in
another file.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from amplint.facts.data_flow import DataFlow
from amplint.facts.fact import Fact, Facts
from amplint.facts.program import FileView, linked
from amplint.facts.recorded_questions import Asked, NotedView, Spans, same
from amplint.inference import State
from amplint.inference.incremental import resumption
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.output.formats import Report
from amplint.output.formats import json as json_format
from amplint.rule import search
from amplint.rule.search import FileCandidates
from amplint.run import analysis, engine, searches, session
from amplint.run import judge as judging
from amplint.run.cache import NAME, Cache
from amplint.run.judge import judge
from amplint.run.request import Outcome
from amplint.util import process_pool
from amplint.util.text import Text, span_in
from amplint.values.atoms import Value
from amplint.view.evaluated_node import EvaluatedNode, KnownProject
from benchmarks.packages import request_for
from tests.helpers import FIXTURES

TRAIN = """
    import torch
    from tools import half_of, report, shown, spread

    def train(loader):
        model = torch.nn.Linear(3, 3).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            loss = model(x.cuda()).mean()
            loss.backward()
            optimizer.step()
            report(loss)
        shown(loss)
        return spread(half_of(torch.ones(3, device="cuda")))
"""
TOOLS = """
    def report(loss):
        print(loss.item())

    def shown(loss):
        print("at last", loss.item())

    def half_of(x):
        return x

    def spread(x):
        return x / (x.sum() + 1e-10)

"""
MODEL = """
    import torch
    from base import Base

    class Net(Base):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def training_step(self, batch, batch_idx):
            x = batch[0].cuda()
            return self.layer(x).mean()
"""
BASE = """
    import pytorch_lightning as pl

    class Base(pl.LightningModule):
        pass
"""
SCALED = """
    import torch
    from scaler import Holder

    class Trainer(Holder):
        def step(self, model, loader, optimizer):
            for x in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(x).mean()
                self.scaler.scale(loss).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                self.scaler.step(optimizer)
                self.scaler.update()
                optimizer.zero_grad()
"""
SCALER = """
    import torch

    class Holder:
        def __init__(self):
            self.scaler = torch.amp.GradScaler("cuda")
"""
REGION = """
    import torch

    def probability(x):
        return torch.nn.functional.binary_cross_entropy(torch.sigmoid(x), torch.ones_like(x))
"""
CALLS = """
    import torch
    from region import probability

    def called(x):
        with torch.autocast("cuda", dtype=torch.float16):
            return x + probability(torch.ones(3, 3, device="cuda"))
"""
DTYPES = """
    import torch

    def cast(x):
        return torch.zeros(3).to(torch.float32).cuda()

    def legacy(x):
        return torch.FloatTensor([1.0, 2.0]).cuda()
"""
ALONE = """
    import torch

    scaler = torch.cuda.amp.GradScaler()
"""
PROJECT = {
    f"{name}.py": textwrap.dedent(text).lstrip()
    for name, text in {
        "alone": ALONE, "base": BASE, "calls": CALLS, "dtypes": DTYPES, "model": MODEL,
        "region": REGION, "scaled": SCALED, "scaler": SCALER, "tools": TOOLS, "train": TRAIN,
    }.items()
}  # fmt: skip
# By what changes: the file, what stands there, and what stands there afterwards.
EDITS = {
    "a caller is made hot": ("train.py", "    shown(loss)\n", "        shown(loss)\n"),
    "a caller is no more": ("train.py", "        report(loss)\n", ""),
    "a value becomes half": ("train.py", "half_of(torch", "(lambda x: x.half())(torch"),
    "a region is switched off": ("calls.py", "float16):", "float16, enabled=False):"),
    "a region is on another device": ("calls.py", '"cuda", dtype=torch.float16', '"cpu"'),
    "a related place moves": ("train.py", "import torch\n", "import torch\nimport os\n"),
    "a scaler is switched off": ("scaler.py", '("cuda")', '("cuda", enabled=False)'),
    "a class has another base": ("base.py", "(pl.LightningModule)", ""),
    "factories build elsewhere": ("alone.py", "\n\n", '\ntorch.set_default_device("cuda")\n'),
}  # fmt: skip


@pytest.fixture(autouse=True)
def small_projects(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small project is kept, too, and one function is a large part of it."""
    monkeypatch.setattr(session, "LEAST_KEPT", 0)
    monkeypatch.setattr(resumption, "MOST_CHANGED", 1.0)


@pytest.fixture
def holding(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose questions had the answers that were kept."""
    found: list[str] = []

    def noted(asked: Sequence[Asked], facts: Facts, spans: Spans) -> bool:
        holds = same(asked, facts, spans)
        if holds:
            found.append(asked[0].question[2])
        return holds

    monkeypatch.setattr(analysis, "same", noted)
    return found


def write(tree: Path, texts: Mapping[str, str]) -> None:
    for path, text in texts.items():
        (tree / path).write_text(text, encoding="utf-8")


def report(tree: Path, cache: Cache | None) -> str:
    request = request_for(tree, [tree / path for path in PROJECT])
    outcome = engine.run(replace(request, cache=cache))
    assert not outcome.problems
    return json_format.render(Report(outcome, request.rules, tree))


def edited(path: str, old: str, new: str) -> dict[str, str]:
    assert old in PROJECT[path]
    return {path: PROJECT[path].replace(old, new, 1)}


@pytest.mark.parametrize(("path", "old", "new"), EDITS.values(), ids=EDITS)
def test_only_files_with_other_answers_are_judged(
    path: str, old: str, new: str, tmp_path: Path, holding: list[str]
) -> None:
    write(tmp_path, PROJECT)
    before = report(tmp_path, Cache(tmp_path / NAME))
    write(tmp_path, edited(path, old, new))
    after = report(tmp_path, Cache(tmp_path / NAME))
    assert after == report(tmp_path, None)
    assert after != before
    assert holding and path not in holding
    write(tmp_path, PROJECT)
    assert report(tmp_path, Cache(tmp_path / NAME)) == before


# After these, nothing in the other file is a candidate any more.
BY_CANDIDATES = (
    "a caller is no more",
    "a region is switched off",
    "a class has another base",
    "a region is on another device",
)
BY_ANSWERS = {name: edit for name, edit in EDITS.items() if name not in BY_CANDIDATES}


@pytest.mark.parametrize(("path", "old", "new"), BY_ANSWERS.values(), ids=BY_ANSWERS)
def test_each_edit_changes_what_another_file_rests_on(
    path: str, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the test above would show nothing: without questions, findings would be wrong."""
    monkeypatch.setattr(analysis, "same", lambda *_: True)
    for module in (search, searches):
        monkeypatch.setattr(module, "rows_of", lambda _: [(1, ["the same candidates"])])
    write(tmp_path, PROJECT)
    report(tmp_path, Cache(tmp_path / NAME))
    write(tmp_path, edited(path, old, new))
    assert report(tmp_path, Cache(tmp_path / NAME)) != report(tmp_path, None)


class RunOverFixtures(NamedTuple):
    """A run over all fixtures as one project.

    Args:
        outcome: what was found.
        views: what the rules asked of each file.
    """

    outcome: Outcome
    views: list[NotedView]


@pytest.fixture(scope="module")
def over_fixtures(tmp_path_factory: pytest.TempPathFactory) -> RunOverFixtures:
    views: list[NotedView] = []

    class Remembered(NotedView):
        def __init__(self, file: File, facts: Facts, spans: Spans) -> None:
            super().__init__(file, facts, spans)
            views.append(self)

    # Questions are noted where there is a cache.
    cache = Cache(tmp_path_factory.mktemp("of_fixtures") / NAME)
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(analysis, "NotedView", Remembered)
        patches.setattr(process_pool, "LEAST_WEIGHT", sys.maxsize)
        request = request_for(FIXTURES, [*FIXTURES.rglob("*.py")])
        return RunOverFixtures(engine.run(replace(request, cache=cache)), views)


def test_whatever_rules_ask_can_be_written_down(over_fixtures: RunOverFixtures) -> None:
    """Else a file is judged after each edit."""
    assert not over_fixtures.outcome.problems
    assert len(over_fixtures.views) > 100
    assert not [view.path for view in over_fixtures.views if view.notes.questions is None]


class NoAnswerError(Exception):
    """A View with the code at hand has asked behind the back of the file's facts."""


class Sealed:
    """Values that nobody may read."""

    def __getattr__(self, name: str) -> object:
        raise NoAnswerError(name)

    def __getitem__(self, key: object) -> object:
        raise NoAnswerError(key)


def sealed(state: State) -> State:
    """What the text of a function says, without what is known of its values."""
    return replace(state, values=cast("list[Value]", Sealed()), regions=cast("Any", Sealed()))


def test_with_the_code_at_hand_views_ask_the_facts_of_their_file_alone(
    over_fixtures: RunOverFixtures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a View is asked then is noted, for kept findings rest on it: the search that found
    its node, and the values of its function, are not there to be read."""

    def judged(path: str, text: Text, facts: FileView, found: FileCandidates, *more: Any) -> Any:
        shown = [
            each._replace(
                here=EvaluatedNode(
                    cast("KnownProject", Sealed()),
                    each.here.function,
                    sealed(each.here.state),
                    each.here.number,
                    each.here.block,
                    each.here.location,
                )
            )
            for each in found.nodes
        ]
        return judge(path, text, facts, replace(found, nodes=shown), *more)

    monkeypatch.setattr(process_pool, "LEAST_WEIGHT", sys.maxsize)
    monkeypatch.setattr(judging, "judge", judged)
    state = DataFlow.state
    monkeypatch.setattr(DataFlow, "state", lambda flow, function: sealed(state(flow, function)))
    outcome = engine.run(request_for(FIXTURES, [*FIXTURES.rglob("*.py")]))
    assert not outcome.problems
    assert set(outcome.findings) == set(over_fixtures.outcome.findings)


def test_what_cannot_be_written_down_is_judged_each_time() -> None:
    class Odd(Fact):
        number = 3

        def twice(self, number: int) -> int:
            return 2 * number

        def lazily(self) -> Iterator[int]:
            yield 1

    files = Files({"a.py": File("a.py", "x = 1\n")})
    facts = Facts(linked(files))

    def view() -> NotedView:
        return NotedView(files.own["a.py"], facts, lambda place: span_in(None, place))

    plain, named, attribute, iterator, argument = (view() for _ in range(5))
    assert plain.fact(Odd).twice(3) == 6 and plain.notes.questions is not None
    assert named.fact(Odd).twice(number=3) == 6 and named.notes.questions is None
    assert attribute.fact(Odd).number == 3 and attribute.notes.questions is None
    assert [*iterator.fact(Odd).lazily()] == [1] and iterator.notes.questions is None
    assert argument.fact(Odd).twice(3.0) == 6 and argument.notes.questions is None  # type: ignore[arg-type]
