"""What is taken up of an earlier fixpoint, after an edit, is what a fixpoint from nothing gives."""

from __future__ import annotations

import ast
import itertools
import random
import textwrap
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given

from amplint.facts.fact import Facts
from amplint.facts.program import linked
from amplint.inference import Inference
from amplint.inference.explanation import Explanations
from amplint.inference.function.evaluation import Evaluation
from amplint.inference.incremental import continuation, resumption
from amplint.inference.incremental.continuation import (
    FixpointEdit,
    HandingOver,
    can_go_on,
    continued,
)
from amplint.inference.incremental.grafting import Graft, graft
from amplint.inference.incremental.moves import rows_moved
from amplint.inference.incremental.resumption import ProjectEdit
from amplint.inference.incremental.snapshot import Snapshot, restored, snapshot_of
from amplint.inference.incremental.value_codec import Decoder, Encoder
from amplint.inference.state import Key, SiteId
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.output.formats import Report
from amplint.output.formats import json as json_format
from amplint.rule.search import CandidateSearch, FileCandidates
from amplint.run import engine, linking, session
from amplint.run.cache import NAME, Cache
from amplint.run.indexing import IndexStore
from amplint.run.linking import KeptValues, Linker, LiveLinker, key_of_project
from amplint.run.request import Outcome
from amplint.util.progress import SILENT
from amplint.values.atoms import Tensor, Value
from benchmarks.edits import edit
from benchmarks.packages import request_for
from tests.helpers import FIXTURES
from tests.unit.test_values import VALUES

Texts = Mapping[str, str]

BLOCKS = """
    import torch

    class Block:
        def __init__(self):
            self.held = None

        def put(self, value):
            self.held = value

        def take(self):
            return self.held

    def made(number):
        return torch.ones(number, device="cuda")

    def handed_on(x, depth):
        return handed_on(x, depth - 1) if depth else x
"""
TRAIN = """
    from blocks import Block, handed_on, made

    def fill(block):
        block.put(made(3))

    def keep(block):
        block.put(block.take())

    def main():
        block = Block()
        fill(block)
        keep(block)
        return handed_on(block.take(), 3)
"""
REGION = """
    import torch
    from blocks import handed_on

    def outer(x):
        with torch.autocast("cuda"):
            return inner(x)

    def inner(x):
        return handed_on(x @ x, 2)

    def other():
        return inner(torch.ones(3, 3, device="cuda"))

    def table():
        return kept

    def assign():
        global kept
        kept = torch.zeros(3)
"""
PROJECT = {
    name: textwrap.dedent(text)
    for name, text in {"blocks.py": BLOCKS, "train.py": TRAIN, "region.py": REGION}.items()
}
# By what changes: the file, what stands there, and what stands there afterwards.
ASSIGNS = "def assign():\n    global kept\n    kept = torch.zeros(3)\n"
CALLS_ITSELF = "return handed_on(x, depth - 1) if depth else x"
EDITS = {
    "nothing": ("train.py", "", ""),
    "lines that move": ("blocks.py", "import torch\n", "import torch\n\n# why\n\n"),
    "a field that feeds itself loses its only support": (
        "train.py", "    block.put(made(3))", "    pass",
    ),
    "a function that calls itself loses an argument": (
        "train.py", "return handed_on(block.take(), 3)", "return None",
    ),
    "another value is returned": (
        "blocks.py", 'return torch.ones(number, device="cuda")', "return number",
    ),
    "a region is opened no more": ("region.py", 'with torch.autocast("cuda"):', "if x:"),
    "a region is opened around every call": (
        "region.py", '    return inner(torch.ones(3, 3, device="cuda"))', "    return None",
    ),
    "a function goes that binds a name of its module": (
        "region.py", ASSIGNS, "",
    ),
    "a component is broken": ("blocks.py", CALLS_ITSELF, "return x"),
    "a component is closed": (
        "blocks.py", "return torch.ones(", "return made(number - 1) or torch.ones(",
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def small_projects(monkeypatch: pytest.MonkeyPatch) -> None:
    """One function is a large part of these."""
    monkeypatch.setattr(resumption, "MOST_CHANGED", 1.0)


def indexed(texts: Texts) -> Files:
    return Files({path: File(path, text) for path, text in texts.items()})


def snapshot(inference: Inference) -> Snapshot:
    found = snapshot_of(inference)
    assert found is not None
    return msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=Snapshot)


def outcome(inference: Inference) -> dict[str, object]:
    """All that the fixpoint tells others, in a form that can be compared."""
    return {
        "values": {function: state.values for function, state in inference.states.items()},
        "regions": {function: state.regions for function, state in inference.states.items()},
        "keys": {
            key: (slot.joined or frozenset(), slot.parts)
            for key, slot in inference.store.slots.items()
            if slot.parts
        },
        "edges": inference.calls.edges,
        "drawn": inference.calls.choices,
        "threads": inference.calls.threads,
        "flags": inference.calls.off_flags,
        "bases": inference.hierarchy.own_bases,
        "dispatches": {f: cases for f, cases in inference.store.known_dispatches.items() if cases},
        "components": {*inference.components},
        "unsettled": inference.unsettled,
    }


TakeUp = Callable[[Inference, Texts], "Inference | None"]


def followed_by(take_up: TakeUp, before: Inference, after: Texts) -> Inference:
    """What is taken up after an edit, which is what a run from nothing gives."""
    inference = take_up(before, after)
    assert inference is not None
    assert outcome(inference) == outcome(linked(indexed(after)))
    return inference


def there_and_back(take_up: TakeUp, before: Texts, after: Texts) -> Inference:
    """What is taken up in its turn is that, too."""
    inference = followed_by(take_up, linked(indexed(before)), after)
    followed_by(take_up, inference, before)
    return inference


def from_snapshot(before: Inference, after: Texts) -> Inference | None:
    old = indexed({path: file.text for path, file in before.files.own.items()})
    found = continued(indexed(after), restored(old, snapshot(before)), changed(before, after))
    return found[0] if found is not None else None


def in_memory(before: Inference, after: Texts) -> Inference | None:
    """Files that have not changed are the same objects, and `before` is used up."""
    new = changed(before, after)
    kept = {path: file for path, file in before.files.own.items() if path not in new}
    files = {path: kept.get(path) or File(path, text) for path, text in after.items()}
    assert can_go_on(before)
    found = continued(Files(files), before, new)
    return found[0] if found is not None else None


def changed(before: Inference, after: Texts) -> list[str]:
    texts = {path: file.text for path, file in before.files.own.items()}
    return [path for path in {**texts, **after} if after.get(path) != texts.get(path)]


@pytest.fixture(params=[from_snapshot, in_memory])
def take_up(request: pytest.FixtureRequest) -> TakeUp:
    """A way to take up what an earlier fixpoint has come to."""
    way: TakeUp = request.param
    return way


def edited(path: str, old: str, new: str) -> Texts:
    assert old in PROJECT[path]
    return {**PROJECT, path: PROJECT[path].replace(old, new, 1)}


@pytest.mark.parametrize(("path", "old", "new"), EDITS.values(), ids=EDITS)
def test_an_edit_gives_what_a_run_from_nothing_gives(
    path: str, old: str, new: str, take_up: TakeUp
) -> None:
    there_and_back(take_up, PROJECT, edited(path, old, new))


def readers(inference: Inference) -> dict[Key, set[SiteId]]:
    slots = inference.store.slots.items()
    return {key: {*slot.all_readers} for key, slot in slots if any(slot.all_readers)}


def test_what_explains_values_reads_nothing_for_the_fixpoint(take_up: TakeUp) -> None:
    inference = take_up(linked(indexed(PROJECT)), PROJECT)
    assert inference is not None
    before = readers(inference)
    explanations = Explanations(inference)
    for function, state in inference.states.items():
        for number in range(len(state.values)):
            explanations.of_devices(function, number)
        for block in range(len(state.graph.blocks)):
            explanations.of_region(function, block).get()
    assert readers(inference) == before


def test_of_an_edited_file_only_the_functions_that_have_changed_are_evaluated(
    take_up: TakeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import torch\n\n\ndef one(x):\n    return x + 1\n\n\ndef other(x):\n    return x * 2\n"
    before = linked(indexed({"a.py": text}))
    evaluated: set[str] = set()
    run = Evaluation.run

    def noted(evaluation: Evaluation, *given: Any) -> None:
        evaluated.add(evaluation.facts.id)
        run(evaluation, *given)

    monkeypatch.setattr(Evaluation, "run", noted)
    after = {"a.py": text.replace("    return x + 1", "    # why\n    y = x + 1\n    return y * 3")}
    inference = take_up(before, after)
    assert inference is not None
    assert evaluated == {"a.py::one"}
    assert outcome(inference) == outcome(linked(indexed(after)))


DEFAULTS = {
    "made.py": """
        import torch

        def made(device="cpu", dtype=None):
            return torch.zeros(3, device=device, dtype=dtype)

        class Net:
            def __init__(self, device="cpu", flag=True):
                self.device, self.flag = device, flag

            def __call__(self, x, device="cpu"):
                return x.to(device)
    """,
    "use.py": """
        import threading
        from functools import partial

        from made import Net, made

        again = partial(made, dtype=None)

        class Sub(Net):
            def __init__(self):
                super().__init__()

        def use(*args, **kwargs):
            threading.Thread(target=made).start()
            return made(), again(), made(*args), made(**kwargs), Sub()(Net().device), map(made, [1])

        def alone():
            return 1
    """,
}


@pytest.mark.parametrize("line", ["def made(", "def __init__(self, ", "def __call__(self, x, "])
def test_a_default_that_changes_reaches_those_who_call(line: str, take_up: TakeUp) -> None:
    texts = {path: textwrap.dedent(text) for path, text in DEFAULTS.items()}
    old, new = f'{line}device="cpu"', f'{line}device="cuda"'
    there_and_back(take_up, texts, {**texts, "made.py": texts["made.py"].replace(old, new)})


def test_a_default_that_changes_reaches_nobody_who_does_not_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = {path: textwrap.dedent(text) for path, text in DEFAULTS.items()}
    new = {**texts, "made.py": texts["made.py"].replace("dtype=None):", "dtype=1):")}
    edits: list[ProjectEdit] = []

    def noted(before: Inference, edit: ProjectEdit) -> HandingOver:
        edits.append(edit)
        return HandingOver(before, edit)

    monkeypatch.setattr(continuation, "HandingOver", noted)
    followed_by(in_memory, linked(indexed(texts)), new)
    assert {f.partition("::")[2] for f in edits[0].anew} == {"made", "use", ""}


def test_a_scope_that_comes_to_mean_a_name_of_the_function_around_it(take_up: TakeUp) -> None:
    text = """
import torch

kept = torch.zeros(3)


def outer(x):
    made = 1

    def inner():
        return kept

    return inner()
"""
    there_and_back(take_up, {"a.py": text}, {"a.py": text.replace("made = 1", "kept = 1")})


def test_a_field_that_feeds_itself_does_not_keep_what_it_held(take_up: TakeUp) -> None:
    path, old, new = EDITS["a field that feeds itself loses its only support"]
    inference = take_up(linked(indexed(PROJECT)), edited(path, old, new))
    assert inference is not None
    taken = inference.store.joined(Key("return", "blocks.py::Block.take"))
    assert not any(isinstance(atom, Tensor) for atom in taken)


# What others read of these files past keys.
INTERFACES = {
    "a parameter": ("blocks.py", "def made(number):", "def made(number, more=1):"),
    "a name": ("blocks.py", "def made(number):", "def fresh(number):"),
    "a property": ("blocks.py", "    def take(self):", "    @property\n    def take(self):"),
    "an import": ("blocks.py", "import torch\n", "import torch\nfrom train import keep\n"),
    "a generator": ("blocks.py", "    return torch.ones", "    yield torch.ones"),
    "a class": ("train.py", "def keep(", "class Added(Block):\n    def take(self): ...\ndef keep("),
    "a lambda": ("train.py", "    block.put(made(3))", "    block.put((lambda: made(3))())"),
    "a method": ("blocks.py", "    def put(", "    def __call__(self): ...\n    def put("),
    "a function is gone": ("region.py", "def inner(x):\n", "def inner_then(x):\n"),
    "a method is gone": ("blocks.py", "    def take(self):\n        return self.held\n", ""),
    "a field of a kind": ("blocks.py", "self.held = None", "self.held = self.held.backward()"),
    "a name of the module": ("blocks.py", "class Block:", "made_of = Block = None\nclass Block:"),
}  # fmt: skip


@pytest.mark.parametrize(("path", "old", "new"), INTERFACES.values(), ids=INTERFACES)
def test_who_sees_a_change_past_keys_is_evaluated_again(
    path: str, old: str, new: str, take_up: TakeUp
) -> None:
    after = edited(path, old, new)
    for before, then in ((PROJECT, after), (after, PROJECT)):
        followed_by(take_up, linked(indexed(before)), then)


# A function of which nobody knows what it is given, but that it backpropagates it.
GIVEN_A_LOSS = {
    "steps.py": "def finish(loss):\n    loss.backward()\n",
    "loop.py": (
        "from steps import finish\n"
        "def loop(engine):\n    loss = engine.measure()\n    finish(loss)\n    return loss\n"
    ),
}


def test_who_gives_a_loss_to_a_function_sees_what_becomes_of_it(take_up: TakeUp) -> None:
    with_loss = PROJECT | GIVEN_A_LOSS
    without = with_loss | {"steps.py": "def finish(loss):\n    loss.shown()\n"}
    for before, then in ((with_loss, without), (without, with_loss)):
        followed_by(take_up, linked(indexed(before)), then)
    returned = linked(indexed(with_loss)).store.joined(Key("return", "loop.py::loop"))
    assert any(isinstance(atom, Tensor) for atom in returned)


LONG = """
    import torch
    from blocks import handed_on, made

    def worked(x, rate):
        scale = 3
        y = x * scale
        for step in range(4):
            z = made(step)
            y = y + z
        shown = handed_on(y, 2)
        return y, shown
"""
# By what changes: what stands there and afterwards, and whether a node depends on others then. None
# where the whole function is evaluated.
SHOWN = "    shown = handed_on(y, 2)\n"
INSIDE = {
    "a constant": ("scale = 3", "scale = 4.5", False),
    "a statement that nobody uses": (SHOWN, f"    more = 5\n{SHOWN}", False),
    "a statement that uses a name": (SHOWN, f"    more = x.item()\n{SHOWN}", True),
    "another argument": ("handed_on(y, 2)", "handed_on(x, 2)", True),
    "a statement that goes": (f"{SHOWN}    return y, shown\n", "    return y\n", True),
    "a loop": ("y = y + z", "y = z + y + x", None),
    "a test": (SHOWN, f"    if rate:\n        return y\n{SHOWN}", None),
    "a function inside": ("scale = 3", "scale = (lambda: 3)()", None),
}


# The same of a function whose names are read by scopes in it.
NESTED = """
    from blocks import handed_on, made

    def worked(x, rate):
        scale = 3

        def inner(a):
            return made(a * scale + offset)

        key = lambda v: handed_on(v, rate, shift)
        y = inner(x)
        shown = key(y)
        return y, shown
"""
GIVEN = "    shown = key(y)\n"
OUTSIDE = {
    "a constant that is read inside": ("scale = 3", "scale = 4.5", False),
    "a statement": (GIVEN, f"    more = made(x)\n{GIVEN}", True),
    "another argument": ("inner(x)", "inner(rate)", True),
    "a name that is looked for": (GIVEN, f"    offset = made(x)\n{GIVEN}", True),
    "a name that a lambda looks for": (GIVEN, f"    shift = made(x)\n{GIVEN}", True),
    "a name that is bound twice": (GIVEN, f"    scale = made(x)\n{GIVEN}", None),
    "a name that goes": ("    scale = 3\n", "", None),
    "another function inside": (GIVEN, f"    def more():\n        return y\n{GIVEN}", None),
}
EDITED = {f"{name}, among lines": (LONG, *case) for name, case in INSIDE.items()}
EDITED.update({f"{name}, around a function": (NESTED, *case) for name, case in OUTSIDE.items()})


@pytest.mark.parametrize(("text", "old", "new", "rewired"), EDITED.values(), ids=EDITED)
def test_an_edited_function_keeps_the_nodes_that_stay(
    text: str, old: str, new: str, rewired: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    grafts: list[Graft | None] = []

    def noted(*given: Any, **options: Any) -> Graft | None:
        grafts.append(graft(*given, **options))
        return grafts[-1]

    monkeypatch.setattr(continuation, "graft", noted)
    before = {**PROJECT, "long.py": textwrap.dedent(text)}
    assert old in before["long.py"]
    after = {**before, "long.py": before["long.py"].replace(old, new, 1)}
    inference = followed_by(in_memory, linked(indexed(before)), after)
    if rewired is None:
        assert not any(grafts)
    else:
        (found,) = grafts
        assert found is not None
        assert 0 < len(found.behind) < len(found.numbers)
        assert bool(found.rewired) is rewired
    followed_by(in_memory, inference, before)


ADDED = "def added(x):\n    return made(x)\n"
# By what is new in a module: what it stands before, its text, and whether the module is kept.
DEFINED = {
    "at its end": ("", ADDED, True),
    "at its start": ("def fill", f"{ADDED}\n\n", True),
    "two": ("def keep", f"{ADDED}\n\n{ADDED.replace('added', 'more')}\n\n", True),
    "with a default": ("", "def added(x, by=made(2)):\n    return x\n", True),
    "with a decorator": ("", f"@keep\n{ADDED}", True),
    "that opens a region": (
        "",
        "import torch\n\ndef added(x):\n    with torch.autocast('cuda'):\n        keep(x)\n",
        False,
    ),
    "that another file defines": ("", ADDED.replace("added", "handed_on"), False),
    "with another of its name": ("", ADDED.replace("added", "keep"), False),
    "that is used by its name": ("", f"{ADDED}\nadded(3)\n", True),
    "that was looked for": ("", ADDED.replace("added", "wanted"), False),
    "that another module imports": ("", ADDED.replace("added", "imported"), True),
    "a name": ("", "imported = made(3)\n", True),
    "a name with another value": ("3\n", "4", True),
    "a name that is bound twice": ("", "LIMIT = made(3)\n", False),
    "a name that is read": ("", "wanted = made\n", False),
    "a class": ("", "class Added:\n    pass\n", False),
}


@pytest.mark.parametrize(("where", "text", "stays"), DEFINED.values(), ids=DEFINED)
def test_a_module_with_a_new_function_keeps_its_nodes(
    where: str, text: str, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: set[str] = set()

    def noted(before: Inference, edit: ProjectEdit) -> HandingOver:
        kept.update(edit.grafts)
        return HandingOver(before, edit)

    monkeypatch.setattr(continuation, "HandingOver", noted)
    train = f"{PROJECT['train.py']}\n\nfound = wanted(3) if main() else None\nLIMIT = 3\n"
    other = (
        "from train import LIMIT, imported, main\n\ndef run():\n    main()\n    imported(LIMIT)\n"
    )
    before = {**PROJECT, "train.py": train, "other.py": other}
    changed = train.replace(where, f"{text}{where}", 1) if where else f"{train}\n\n{text}"
    inference = linked(indexed(before))
    for after in ({**before, "train.py": changed}, before):
        inference = followed_by(in_memory, inference, after)
    assert ("train.py::" in kept) is stays


def test_a_comment_that_names_an_idle_scaler_is_seen() -> None:
    """What inference reads in the text of a file, past graphs."""
    train = """
        def step(scaler, model, x):
            loss = model(x).mean()
            scaler.scale(loss).backward()
            return loss
    """
    before = {"train.py": textwrap.dedent(train)}
    after = {"train.py": f"# GradScaler('cpu')\n{before['train.py']}"}
    followed_by(in_memory, linked(indexed(before)), after)


ADDED = """
    import torch
    import blocks
    from train import main

    class Held(torch.nn.Module):
        def forward(self, x):
            return blocks.handed_on(x, 1)

    def take(x: Held):
        return x(main())
"""


def test_files_that_come_and_go(take_up: TakeUp) -> None:
    more = {**PROJECT, "added.py": textwrap.dedent(ADDED)}
    user = {**more, "user.py": "import added\n\nHELD = added.take(added.Held())\n"}
    gone = {path: text for path, text in user.items() if path != "added.py"}
    moved = {**gone, "then.py": user["added.py"]}
    states: list[Texts] = [PROJECT, more, user, gone, moved, user, PROJECT]
    for before, after in itertools.pairwise(states):
        followed_by(take_up, linked(indexed(before)), after)


def test_a_lambda_that_mentions_a_name_is_evaluated_again(take_up: TakeUp) -> None:
    """It is known only once the graph around it is."""
    user = """
        import blocks
        MAKE = lambda: blocks.fresh(3)

        def use():
            return (lambda: blocks.fresh(3))()
    """
    before = {**PROJECT, "user.py": textwrap.dedent(user)}
    after = {**before, "blocks.py": before["blocks.py"].replace("def made(", "def fresh(")}
    followed_by(take_up, linked(indexed(before)), after)


def test_a_package_that_comes_is_not_taken_up(take_up: TakeUp) -> None:
    assert take_up(linked(indexed(PROJECT)), {**PROJECT, "__init__.py": ""}) is None


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("blocks.py", "class Block:", "class Block(torch.nn.Module):"),
        ("train.py", "from blocks import Block, handed_on, made", "from blocks import *"),
    ],
)
def test_other_bases_and_all_names_of_a_module_are_not_taken_up(
    path: str, old: str, new: str, take_up: TakeUp
) -> None:
    assert take_up(linked(indexed(PROJECT)), edited(path, old, new)) is None


def test_another_method_that_gives_a_loss_is_not_taken_up(take_up: TakeUp) -> None:
    trained = "class Trainer:\n    def train(self, x):\n        self.compute(x).backward()\n"
    before = {**PROJECT, "trainer.py": trained}
    then = {**before, "trainer.py": trained.replace("compute", "loss")}
    assert take_up(linked(indexed(before)), then) is None


def test_where_much_has_changed_all_is_linked_from_nothing(
    monkeypatch: pytest.MonkeyPatch, take_up: TakeUp
) -> None:
    before = {f"m{number}.py": "x = 1\n" for number in range(10)}
    monkeypatch.setattr(resumption, "MOST_CHANGED", 0.4)
    for count in (4, 5):
        after = {**before, **dict.fromkeys(list(before)[:count], "import sys\nx = 1\n")}
        assert (take_up(linked(indexed(before)), after) is None) is (count == 5)


# -------------------------------------------------------------------------------- with a cache


@pytest.fixture
def resumptions(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the values of an earlier run were taken up, for each run that has known some."""
    monkeypatch.setattr(session, "LEAST_KEPT", 0)
    seen: list[bool] = []

    original = linking.resumed

    def noted(files: Files, entry: KeptValues, changed: Collection[str]) -> object:
        resumption = original(files, entry, changed)
        seen.append(resumption is not None)
        return resumption

    monkeypatch.setattr(linking, "resumed", noted)
    return seen


@pytest.fixture
def continuations(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the values in memory were taken up, for each run that has known some."""
    seen: list[bool] = []

    def noted(
        files: Files, before: Inference, edited: Collection[str]
    ) -> tuple[Inference, FixpointEdit] | None:
        found = continued(files, before, edited)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(linking, "continued", noted)
    return seen


def report(root: Path, texts: Texts, cache: Cache | None) -> str:
    request = request_for(root, [root / path for path in texts])
    found = engine.run(replace(request, cache=cache))
    return json_format.render(Report(found, request.rules, root))


class InMemory:
    """A project whose reports from what is in memory and from nothing are the same, byte for byte:
    what the rules ask does not change what is in memory.

    Args:
        cache: where it is kept besides, as `check --watch` does.
    """

    def __init__(self, root: Path, texts: dict[str, str], cache: Cache | None = None) -> None:
        self.root, self.texts, self.cache = root, texts, cache
        self.linker = LiveLinker()
        self.files: dict[tuple[str, str], File] = {}
        write(root, texts)

    def change(self, change: Mapping[str, str | None]) -> None:
        write(self.root, change)
        now = {**self.texts, **change}.items()
        self.texts = {path: text for path, text in now if text is not None}

    def report(self, said: str = "") -> Outcome:
        request = request_for(self.root, [self.root / path for path in self.texts])
        kept = replace(request, cache=self.cache, lasting=self.cache is not None)
        found = engine.run(replace(kept, linker=self.linker, indexed=self.files))
        in_memory = json_format.render(Report(found, request.rules, self.root))
        assert in_memory == report(self.root, self.texts, None), said
        return found


def texts_of(folders: Iterable[Path]) -> dict[str, str]:
    return {
        file.relative_to(FIXTURES).as_posix(): file.read_bytes().decode(errors="replace")
        for folder in folders
        for file in sorted(folder.glob("*.py"))
    }


def drawn(chance: random.Random) -> dict[str, str]:
    """The files of some fixtures."""
    return texts_of(chance.sample(sorted(path for path in FIXTURES.iterdir() if path.is_dir()), 3))


def write(root: Path, change: Mapping[str, str | None]) -> None:
    for path, text in change.items():
        if text is None:
            (root / path).unlink()
        else:
            (root / path).parent.mkdir(exist_ok=True)
            (root / path).write_bytes(text.encode())


@pytest.mark.parametrize("seed", range(2))
def test_edits_that_only_move_code(seed: int, tmp_path: Path, resumptions: list[bool]) -> None:
    """Most of the time, nothing is linked; and the reports are the same, byte for byte."""
    chance = random.Random(seed)
    texts = drawn(chance)
    write(tmp_path, texts)
    edits = ["nothing"]
    for _ in range(12):
        with_cache = report(tmp_path, texts, Cache(tmp_path / NAME))
        assert with_cache == report(tmp_path, texts, None), edits
        said, change = edit(texts, chance, moves=True)
        edits.append(said)
        write(tmp_path, change)
        texts.update((path, text) for path, text in change.items() if text is not None)
    assert len(resumptions) < 6


def test_a_comment_inside_of_what_a_fix_replaces_is_kept_by_the_fix(
    tmp_path: Path, resumptions: list[bool]
) -> None:
    old = "import torch\n\n\ndef f(x):\n    return torch.cuda.amp.autocast(\n        True,\n    )\n"
    new = old.replace("True,", "True,  # why")
    for text in (old, new):
        write(tmp_path, {"a.py": text})
        with_cache = report(tmp_path, {"a.py": text}, Cache(tmp_path / NAME))
        assert with_cache == report(tmp_path, {"a.py": text}, None)
    assert "autocast" in with_cache and resumptions == [True]


def test_files_whose_values_are_the_same_are_not_searched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resumptions: list[bool]
) -> None:
    write(tmp_path, PROJECT)
    report(tmp_path, PROJECT, Cache(tmp_path / NAME))
    searched: list[str] = []
    original = CandidateSearch.of

    def noted(search: CandidateSearch, path: str) -> FileCandidates:
        searched.append(path)
        return original(search, path)

    monkeypatch.setattr(CandidateSearch, "of", noted)
    texts = {**PROJECT, "train.py": PROJECT["train.py"] + "\n\ndef alone(x):\n    return x\n"}
    write(tmp_path, texts)
    with_cache = report(tmp_path, texts, Cache(tmp_path / NAME))
    assert resumptions == [True] and searched == ["train.py"]
    assert with_cache == report(tmp_path, texts, None)


@pytest.mark.parametrize("seed", range(2))
def test_random_edits_one_upon_the_other(
    seed: int, tmp_path: Path, resumptions: list[bool]
) -> None:
    """The reports with a cache and without are the same, byte for byte."""
    chance = random.Random(seed)
    texts = drawn(chance)
    write(tmp_path, texts)
    said = "nothing"
    for _ in range(10):
        cache = Cache(tmp_path / NAME)
        assert report(tmp_path, texts, cache) == report(tmp_path, texts, None), said
        assert not cache.notices
        said, change = edit(texts, chance)
        write(tmp_path, change)
        texts = {path: text for path, text in {**texts, **change}.items() if text is not None}
    assert sum(resumptions) > 0


@pytest.mark.parametrize("is_watched", [False, True])
def test_random_edits_of_a_project_that_stays_in_memory(
    is_watched: bool, tmp_path: Path, continuations: list[bool]
) -> None:
    chance = random.Random(2)
    cache = Cache(tmp_path / NAME) if is_watched else None
    project = InMemory(tmp_path, drawn(chance), cache)
    said = "nothing"
    for _ in range(9):
        project.report(said)
        said, change = edit(project.texts, chance)
        project.change(change)
    assert sum(continuations) > 3


NOTES = (
    "# a note",
    "",
    "    # the scaler and .grad_scaler['scaler']",
    "# self.scaler.state_dict() is saved by `GradScaler('cpu')`",
)


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often facts went on with a fixpoint after an edit, by name."""
    seen: Counter[str] = Counter()
    follow = Facts.after

    def noted(facts: Facts, inference: Inference, edit: FixpointEdit) -> Facts:
        after = follow(facts, inference, edit)
        seen.update(kind.__name__ for kind in after.built)
        return after

    monkeypatch.setattr(Facts, "after", noted)
    return seen


def test_comments_that_come_and_go(
    tmp_path: Path, continuations: list[bool], followed: Counter[str]
) -> None:
    """What code moves by them is told of with its new places, and with nothing else."""
    chance = random.Random(0)
    names = ("scaler_state_not_saved", "host_read_in_hot_path", "missing_scaler_update")
    project = InMemory(tmp_path, texts_of(FIXTURES / name for name in names))
    for _ in range(5):
        project.report()
        path = chance.choice(sorted(project.texts))
        project.change({path: with_note(project.texts[path], chance)})
    assert all(continuations)
    assert followed["Hotness"] == followed["BackwardCalls"] > 3
    assert 0 < followed["ScalerMisuse"] <= followed["Hotness"]


def with_note(text: str, chance: random.Random) -> str:
    """A text with another comment or empty line, or without one."""
    lines = text.split("\n")
    rows = [row for row, line in enumerate(lines) if line.strip() in map(str.strip, NOTES)]
    inside = {row for node in ast.walk(ast.parse(text)) for row in inner_rows(node)}
    if rows and chance.random() < 0.3:
        rows = [row for row in rows if row not in inside]
        del lines[chance.choice(rows)]
    else:
        free = [row for row in range(len(lines)) if row not in inside]
        lines.insert(chance.choice(free), chance.choice(NOTES))
    return "\n".join(lines)


def inner_rows(node: ast.AST) -> range:
    """The rows, from 0, before which a line would stand in a string."""
    if not isinstance(node, ast.Constant | ast.JoinedStr):
        return range(0)
    return range(node.lineno, node.end_lineno or node.lineno)


LAYOUTS = {
    "a comment": ("x = f(1)\n", "# f(2)\n\nx = f(1)  # f(3)\n", True),
    "a comment in brackets": ("x = f(\n    1,\n)\n", "x = f(\n    # one\n    1,\n)\n", True),
    "a line that is broken": ("x = f(1)\n", "x = f(\n    1)\n", False),
    "brackets": ("x = a.b\n", "x = (a).b\n", False),
    "blanks": ("x = f(1, 2)\n", "x = f(1,  2)\n", False),
    "a docstring": (
        'def f():\n    """A"""\n    x = 1\n',
        'def f():\n    """B."""\n    x = 1\n',
        True,
    ),
    "a docstring above code": ('"""A."""\nx = 1\n', '"""B\n\nc."""\n\nx = 1\n', True),
    "a docstring that goes": ('"""A."""\nx = 1\n', "x = 1\n", False),
    "an empty line in a string": ('x = """a\nb"""\n', 'x = """a\n\nb"""\n', False),
    "what looks like a comment": ("x = '# a'\n", "x = '# b'\n", False),
}


@pytest.mark.parametrize(("before", "after", "only"), LAYOUTS.values(), ids=LAYOUTS)
def test_only_comments_and_empty_lines_move_code(before: str, after: str, only: bool) -> None:
    assert (rows_moved(before, after) is not None) is only
    assert rows_moved(before, before) is not None


def test_other_files_of_the_same_project_are_reported_from_the_same_values(
    tmp_path: Path, resumptions: list[bool]
) -> None:
    write(tmp_path, PROJECT)
    request = request_for(tmp_path, [tmp_path / path for path in PROJECT])
    for path in ("blocks.py", "train.py"):
        selection = replace(request.selection, reported=frozenset({path}))
        engine.run(replace(request, selection=selection, cache=Cache(tmp_path / NAME)))
    assert resumptions == [True]


def test_a_text_on_no_disk_is_checked_from_the_same_values(
    tmp_path: Path, resumptions: list[bool]
) -> None:
    """What an editor sends, and what the rounds of `fix` have made. Nothing is kept of it."""
    write(tmp_path, PROJECT)
    report(tmp_path, PROJECT, Cache(tmp_path / NAME))
    path, old, new = EDITS["another value is returned"]
    request = request_for(tmp_path, [tmp_path / path for path in PROJECT])
    request = replace(request, overlays={path: edited(path, old, new)[path]})
    kept = {file: file.read_bytes() for file in (tmp_path / NAME).iterdir()}
    found = engine.run(replace(request, cache=Cache(tmp_path / NAME)))
    assert found.findings == engine.run(request).findings
    assert resumptions == [True]
    assert {file: file.read_bytes() for file in (tmp_path / NAME).iterdir()} == kept


def test_what_no_run_has_written_is_no_error(tmp_path: Path) -> None:
    """Whatever stands in an entry, all functions have values in the end."""
    cache = Cache(tmp_path / NAME)

    def link(texts: Texts) -> Inference:
        linker = Linker(IndexStore(cache, lambda path: texts[path]))
        return linker.link(indexed(texts), SILENT)

    link(PROJECT)
    key = key_of_project(".")
    written = cache.read(key)
    assert written is not None
    after = edited(*EDITS["a component is broken"])
    wrong: list[object] = [[], [[10**6]], [[0, 0, [10**6]]], [[0, [10**6], None]], {"a": "b"}, None]
    for place in range(len(Snapshot.__struct_fields__)):
        for value in wrong:
            entry = msgspec.msgpack.decode(zlib.decompress(written))
            entry[2][place] = value
            cache.write({key: zlib.compress(msgspec.msgpack.encode(entry))})
            inference = link(after)
            assert not inference.failures
    for damaged in (b"", b"no entry", zlib.compress(b"no entry"), written[:-9]):
        cache.write({key: damaged})
        assert outcome(link(after)) == outcome(linked(indexed(after)))
    assert not cache.notices


@given(VALUES)
def test_values_are_what_they_were(value: Value) -> None:
    encoder = Encoder()
    number = encoder.value(value)
    plain = msgspec.msgpack.decode(msgspec.msgpack.encode((encoder.values, encoder.atoms)))
    assert Decoder(*plain).values[number] == value
