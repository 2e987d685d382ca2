"""The page of a run: one step, its events in their order, and the dtypes of modules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from amplint.output.formats import Report, render
from amplint.run.request import Outcome
from amplint_verify.observing import timeline_page
from amplint_verify.observing.folding import blocks_of, common_path, groups_of
from amplint_verify.recording import timeline as recording
from amplint_verify.recording.events import Event, EventKind, ModuleDtypes, Timeline
from amplint_verify.recording.observation import Observation, RunOutcome
from amplint_verify.recording.sightings import ModulePath
from amplint_verify.recording.timeline import TimelineStep
from tests.command import Amplint
from tests.helpers import write

Observe = Callable[..., Any]

HEAD = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        return h.float()


"""
RUN = """\
def run(device):
    net = Net().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device)
    for _ in range(STEPS):
        optimizer.zero_grad()
        x = torch.ones(2, 4).to(device)
        with torch.autocast(device, dtype=torch.float16):
            loss = net(x).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        loss.item()
"""


def program(steps: int) -> str:
    return HEAD + RUN.replace("STEPS", str(steps))


def seen(observe: Observe, text: str, backend: str = "sim") -> Timeline:
    observation, _ = observe(text, backend, timeline=True)
    found: Timeline = observation.timeline
    return found


def kinds(timeline: Timeline) -> list[str]:
    """The events that the lines of the program ask for."""
    return [event.kind.value for event in timeline.events if event.direct or "Linear" in str(event)]


ORDER = [
    "zero-grad",
    "wait",
    "region-on",
    "call",
    "cast",
    "own-cast",
    "region-off",
    "scale",
    "backward",
    "unscale",
    "clip",
    "scaler-step",
    "step",
    "update",
    "wait",
]


def test_the_second_step_is_shown_in_its_order(observe: Observe) -> None:
    found = seen(observe, program(4))
    assert kinds(found) == ORDER
    assert (found.first, found.made, found.left_out) == (2, 2, 0)


def test_a_last_step_is_whole(observe: Observe) -> None:
    found = seen(observe, program(2))
    assert (kinds(found), found.first, found.made) == (ORDER, 2, 2)


def test_what_follows_the_loop_is_no_part_of_its_last_step(observe: Observe) -> None:
    text = program(2) + "    with torch.autocast(device):\n        net(x).sum().item()\n"
    found = seen(observe, text)
    assert (kinds(found), found.first, found.made) == (ORDER, 2, 2)


def test_a_single_step_has_what_came_before_it(observe: Observe) -> None:
    found = seen(observe, program(1))
    assert kinds(found)[-len(ORDER) :] == ORDER
    assert (found.first, found.made) == (1, 1)


def test_without_a_step_the_beginning_is_shown(observe: Observe) -> None:
    found = seen(
        observe, HEAD + "def run(device):\n    Net().to(device)(torch.ones(2, 4).to(device))\n"
    )
    assert (found.first, found.made) == (1, 0)
    assert kinds(found)[-1] == "call"
    assert timeline_page.title(found) == "What ran"


def test_nothing_at_all(observe: Observe) -> None:
    observation, _ = observe("def run(device):\n    pass\n", timeline=True)
    assert "The run showed nothing for this section." in shown(observation)


def test_what_is_not_asked_for_is_not_written_down(observe: Observe) -> None:
    observation, _ = observe(program(2))
    assert observation.timeline is None


def test_two_optimizers_that_take_turns_at_one_line_make_one_step(observe: Observe) -> None:
    text = HEAD + (
        "def train(net, optimizer, x):\n    net(x).sum().backward()\n    optimizer.step()\n\n\n"
        "def run(device):\n    nets = Net().to(device), Net().to(device)\n"
        "    pairs = [(net, torch.optim.SGD(net.parameters(), 0.1)) for net in nets]\n"
        "    for _ in range(3):\n        x = torch.ones(2, 4, device=device)\n"
        "        train(*pairs[0], x)\n        train(*pairs[1], x)\n        x.sum().item()\n"
    )
    found = seen(observe, text)
    assert kinds(found) == ["call", "backward", "step", "call", "backward", "step", "wait"]


def test_the_dtypes_of_modules(observe: Observe) -> None:
    found = seen(observe, program(2))
    root, linear = found.modules
    assert (root.module.kind, root.inputs, root.outputs) == ("Net", ("float32",), ("float32",))
    assert (root.casts, root.own_casts, root.parameters) == (0, 1, ())
    assert linear.module == ModulePath("Net", "fc", "Linear")
    assert (linear.inputs, linear.outputs) == (("float32",), ("float16",))
    assert (linear.parameters, linear.calls, linear.casts) == (("float32",), 1, 3)


def test_gradients_are_cast_where_they_are_computed(observe: Observe) -> None:
    found = seen(observe, program(2), "policy")
    assert "gradient-cast" in {event.kind.value for event in found.events}


# ------------------------------------------------------------------------------- bounds


def test_a_step_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_EVENTS", 3)
    monkeypatch.setattr(recording, "MOST_MODULES", 2)
    step = TimelineStep(1)
    for row in (1, 1, 2, 3, 4, 5):
        step.add(Event(EventKind.CLIP, row=row))
    for name in "abc":
        step.list(ModulePath("Net", name, "Linear"))
    found = step.timeline(1)
    assert [(event.row, event.count) for event in found.events] == [(1, 2), (2, 1), (3, 1)]
    assert (found.left_out, len(found.modules), found.modules_left_out) == (2, 2, 1)


def layer(number: int) -> Iterator[Event]:
    for name in ("norm", "mlp.0", "mlp.2"):
        module = ModulePath("Net", f"layers.{number}.{name}", "Linear")
        yield Event(
            EventKind.CAST, "float32 → float16", "linear", "net.py", 7, False, module, "float16"
        )


def test_layers_that_are_alike_are_one() -> None:
    events = [
        Event(EventKind.CLIP, row=1),
        *(e for n in range(40) for e in layer(n)),
        Event(EventKind.STEP),
    ]
    blocks = list(blocks_of(groups_of(events)))
    assert [len(block.groups) for block in blocks] == [1, 3, 1]
    assert blocks[1].again == tuple(f"layers.{number}" for number in range(1, 40))
    page = shown(observation(events))
    assert "The same 39 more times: in <code>layers.1</code>, <code>layers.2</code>" in page
    assert "<code>layers.39</code>" in page


def test_what_differs_is_not_folded() -> None:
    events = [Event(EventKind.CLIP, row=row) for row in range(30)]
    assert len(list(blocks_of(groups_of(events)))) == 1
    modules = [ModulePath("Net", f"a.{row}", f"Kind{row}") for row in range(30)]
    events = [Event(EventKind.CALL, module=module) for module in modules]
    assert len(list(blocks_of(groups_of(events)))) == 30


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["a.0.b", "a.1.b"], "a.*.b"),
        (["a.0.b1", "a.1.b1"], "a.*.b1"),
        (["fc"], "fc"),
        ([""], ""),
    ],
)
def test_a_path_for_several(paths: Sequence[str], expected: str) -> None:
    assert common_path(paths) == expected


def test_a_page_is_bounded_and_says_so() -> None:
    modules = [ModulePath("Net", f"m{'x' * row}", "Linear") for row in range(2000)]
    events = [Event(EventKind.CAST, "a → b", module=module, row=1) for module in modules]
    page = shown(
        observation(
            events,
            left_out=7,
            modules=tuple(ModuleDtypes(module) for module in modules),
            modules_left_out=5,
        )
    )
    assert page.count("cast by autocast</span>") == timeline_page.MOST_EVENTS
    assert "1,007 more events left out: a page holds no more." in page
    assert f"{2005 - timeline_page.MOST_MODULES:,} more modules left out" in page
    assert page.count("<rect") < 1000
    assert '<details id="events"><summary>' in page  # folded, for it is long


# ------------------------------------------------------------------------------- the page


def observation(events: Sequence[Event], **fields: Any) -> Observation:
    found = Timeline(2, 2, tuple(events), **fields)
    return Observation("sim", "", RunOutcome.OK, timeline=found, steps=4)


def shown(found: Observation) -> str:
    outcome = Outcome(Path("/project"), (), (), (), (), {})
    return render("html", Report(outcome, [], Path("/project"), lead=timeline_page.lead(found)))


class Nested(HTMLParser):
    """Raises AssertionError where tags do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert "style" not in dict(attrs), "the policy of the page forbids it"
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


EVIL = "<script>alert(1)</script>"


def test_every_text_is_escaped() -> None:
    module = ModulePath(f"{EVIL}r", f"{EVIL}p", f"{EVIL}k")
    other = ModulePath("Other", "", EVIL)
    event = Event(EventKind.CAST, f"{EVIL}d", f"{EVIL}a", f"{EVIL}.py", 3, True, module, f"{EVIL}l")
    events = [
        event,
        *(
            Event(kind, EVIL, EVIL, EVIL, 1, True, other)
            for kind in EventKind
            if kind is not EventKind.WAIT
        ),
    ]
    dtypes = (EVIL,)
    modules = tuple(ModuleDtypes(each, dtypes, dtypes, dtypes) for each in (module, other))
    page = shown(observation(events, modules=modules))
    assert "<script" not in page
    assert "alert(1)" in "".join(Nested(page).words)


def test_each_kind_has_words() -> None:
    details = {EventKind.WAIT: "scalar-read"}
    events = [
        Event(kind, details.get(kind, "x"), path="a.py", row=row)
        for row, kind in enumerate(EventKind)
    ]
    page = shown(observation(events))
    words = " ".join(Nested(page).words)
    assert "There are no times: sim computes nothing." in words
    for said in ("x.step()", "x.zero_grad()", "unscale_(x)", "update(x)", "gradients are clipped"):
        assert said in words
    assert re.search(r'<svg role="img" aria-label="[^"]+"', page)
    assert page.count('scope="col"') == 0  # no module, no table


def test_the_page_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text = program(3) + "\n\nrun('cuda')\n"
    monkeypatch.chdir(write({"train.py": text.encode(), "pyproject.toml": b""}, tmp_path))
    ran = Amplint(capfd)("observe", "--backend", "sim", "--format", "html", "--script", "train.py")
    assert ran.status == 1
    Nested(ran.out.replace(re.search(r"<script>.*?</script>", ran.out, re.DOTALL)[0], ""))  # type: ignore[index]
    assert "Step 2, from its first line to its last" in ran.out
    row = text[: text.index("loss.item()")].count("\n") + 1
    assert f'train.py:{row}</span> <a href="#f2">AMP101</a>' in ran.out
    assert ran.out.index('id="step"') < ran.out.index('id="findings"')
    assert '<th scope="row"><code>fc</code></th><td>Linear</td>' in ran.out
