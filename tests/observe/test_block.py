"""`with amplint.observe():` watches the code of this process, and leaves it as it was."""

from __future__ import annotations

import gc
import json
import linecache
import random
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
import torch.optim.optimizer as optimizers
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import amplint
from amplint.run import engine
from amplint_verify.observing import block, cells
from amplint_verify.observing.live import REPLACED, LiveWatcher
from tests.helpers import write

HEAD = """\
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

import amplint

model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
x = torch.ones(4, 8)


"""
STEP = """\
def step():
    with torch.autocast("cpu", dtype=torch.float16):
        h = model(x)
        torch.where(h > 0, h, torch.zeros(1))
    scaler.scale(h.float().sum()).backward()
    clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()


"""
BLOCK = """\
with amplint.observe() as seen:
    for _ in range(3):
        step()
"""
PROGRAM = HEAD + STEP + BLOCK
Row = tuple[str, int]


def row_of(words: str, text: str = PROGRAM) -> int:
    return text[: text.index(words)].count("\n") + 1


MIXED = ("AMP203", row_of("torch.where("))
CLIPPED = ("AMP404", row_of("clip_grad_norm_(model"))
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a program of a project, and returns its names. It is in sys.modules, as a program is."""
    monkeypatch.chdir(write({"pyproject.toml": b""}, tmp_path))

    def run_program(text: str = PROGRAM, name: str = "train.py") -> dict[str, Any]:
        (tmp_path / name).write_text(text)
        module = type(sys)("program_of_the_test")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(text, str(tmp_path / name), "exec"), vars(module))
        return vars(module)

    return run_program


def rows(names: dict[str, Any], variable: str = "seen") -> list[Row]:
    return [(each.code, each.span.start.row) for each in names[variable].findings]


def test_findings_are_printed_after_the_block(
    run: Run, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert rows(run()) == [MIXED, CLIPPED]
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(
        f"train.py:{MIXED[1]}:9 AMP203 mixed-dtype-where: `torch.where(h > 0, h, "
    )
    assert "float16 and float32: the result is float32 (3 times in 3 steps)" in err
    assert f"train.py:{row_of('        step()')}:1: called here" in err
    assert "amplint: saw 3 steps of training on cpu\n" in err
    assert {path.name for path in tmp_path.iterdir()} == {"pyproject.toml", "train.py"}


def test_a_block_without_findings_says_what_it_saw(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    names = run(HEAD + "with amplint.observe() as seen:\n    model(x).sum().backward()\n")
    assert rows(names) == []
    assert "amplint: saw 0 steps of training on cpu, and no mistakes" in capfd.readouterr().err


RAISES = "        scaler.unscale_(optimizer)\n        scaler.unscale_(optimizer)\n"


def test_what_was_seen_before_an_error(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    text = (
        HEAD + STEP + "seen = amplint.observe()\nwith seen:\n    step()\n    raise KeyError('so')\n"
    )
    with pytest.raises(KeyError, match="so"):
        run(text)
    err = capfd.readouterr().err
    assert [code in err for code in ("AMP203", "AMP404")] == [True, True]
    assert "saw 1 step of training" in err


def test_an_error_that_a_rule_explains(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    text = PROGRAM.replace("        step()\n", RAISES)
    text = text.replace("    for _", "    scaler.scale(model(x).sum()).backward()\n    for _")
    with pytest.raises(RuntimeError, match="unscale_"):
        run(text)
    row = text.count("\n")
    assert f"train.py:{row}:9 AMP405" in capfd.readouterr().err


def state() -> list[object]:
    """What a watch replaces, as it is now."""
    hooks = (
        optimizers._global_optimizer_pre_hooks,
        optimizers._global_optimizer_post_hooks,
    )
    scaler = torch.amp.GradScaler
    return [
        *(getattr(owner, name) for owner, name in REPLACED),
        *(vars(scaler)[name] for name in ("scale", "unscale_", "step")),
        vars(torch.optim.Optimizer)["zero_grad"],
        vars(torch.cuda.Stream)["synchronize"],
        vars(torch.cuda.Event)["synchronize"],
        *(list(each) for each in hooks),
        _get_current_dispatch_mode_stack(),
        torch.overrides._get_current_function_mode_stack(),
        torch.is_autocast_enabled("cpu"),
        gc.isenabled(),
        sys.getrecursionlimit(),
    ]


def test_all_is_put_back(run: Run) -> None:
    before = state()
    clip = torch.nn.utils.clip_grad_norm_
    inside = "    from torch.nn.utils import clip_grad_norm_ as clip\n"
    names = run(PROGRAM + inside + "    watched = [clip_grad_norm_]\n")
    assert names["watched"] != [clip]
    assert names["clip"] is names["clip_grad_norm_"] is clip
    assert state() == before
    with pytest.raises(ValueError, match="so it is"), amplint.observe():
        raise ValueError("so it is")
    assert state() == before


NUMBERS = """\
import random
import torch
from torch import nn


def train():
    random.seed(0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(5):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            h = model(torch.randn(4, 8) + random.random())
            torch.normal((h + 300) * 1e4, 1.0)  # overflows, and draws
            loss = h.float().square().sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return [*model.parameters(), torch.get_rng_state()], random.getstate(), scaler.get_scale()


"""


def test_numbers_are_those_of_the_program(run: Run) -> None:
    names = run(
        NUMBERS + "import amplint\nplain = train()\n"
        "with amplint.observe() as seen:\n    watched = train()\n"
    )
    plain, watched = names["plain"], names["watched"]
    assert all(torch.equal(*pair) for pair in zip(plain[0], watched[0], strict=True))
    assert plain[1:] == watched[1:]
    assert [code for code, _ in rows(names)] == ["AMP807"]
    assert random.getstate() == watched[1]  # reporting draws nothing


def test_a_block_in_a_block_leaves_it_to_the_outer_one(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    block.tell_nested.cache_clear()
    inner = "        with amplint.observe() as inner:\n            step()\n"
    names = run(PROGRAM.replace("        step()\n", inner))
    assert (rows(names), rows(names, "inner")) == ([MIXED, CLIPPED], [])
    err = capfd.readouterr().err
    assert err.count("a block inside another watched block is not watched separately") == 1
    assert err.count("AMP404") == 1


def test_a_block_in_another_thread() -> None:
    def work() -> None:
        with amplint.observe() as other:
            torch.ones(3)
        found.append(other.findings)

    found: list[object] = []
    with amplint.observe():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == [()]
    work()
    assert found == [(), ()]


def test_a_block_can_be_repeated(run: Run) -> None:
    again = "first = seen.findings\nwith seen:\n    step()\n"
    names = run(PROGRAM + again)
    assert [each.code for each in names["first"]] == ["AMP203", "AMP404"]
    assert rows(names) == [MIXED, CLIPPED]
    assert "in 1 step)" in names["seen"].findings[0].message  # counted anew


def test_settings_comments_and_the_baseline_hold(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.amplint]\nignore = ["AMP203"]\n')
    assert rows(run()) == [CLIPPED]
    (tmp_path / "pyproject.toml").write_text('[tool.amplint]\nexclude = ["train.py"]\n')
    assert rows(run()) == []
    (tmp_path / "pyproject.toml").write_text("")
    allowed = "torch.zeros(1))  # amplint: ignore[AMP203] it is small"
    assert rows(run(PROGRAM.replace("torch.zeros(1))", allowed))) == [CLIPPED]
    entry = {"path": "train.py", "code": "AMP404", "scope": "step"}
    line = "clip_grad_norm_(model.parameters(), 1.0)"
    known = {"amplint-baseline": 1, "findings": [{**entry, "line": line}]}
    (tmp_path / ".git").mkdir()
    (tmp_path / ".amplint-baseline.json").write_text(json.dumps(known))
    assert rows(run()) == [MIXED]


def test_settings_that_cannot_be_read(
    run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.amplint]\nselct = []\n")
    assert rows(run()) == []
    assert "error: what was seen cannot be reported: " in capfd.readouterr().err


def test_a_bug_of_amplint_ends_no_program(
    run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> None:
        raise LookupError("a bug")

    monkeypatch.setattr(engine, "run", fail)
    assert rows(run(PROGRAM + "done = True\n")) == []
    said = "what was seen cannot be reported, by a bug in amplint: LookupError: a bug"
    assert said in capfd.readouterr().err


def test_a_file_that_was_shortened_since(run: Run) -> None:
    shortened = "    import pathlib\n    pathlib.Path('train.py').write_text('x = 1\\n')\n"
    assert rows(run(PROGRAM + shortened)) == []


CELL = STEP + BLOCK


@pytest.mark.parametrize(
    ("file", "label"),
    [
        ("<ipython-input-7-0a1b2c>", "In[7]"),
        ("/tmp/ipython-input-7-123.py", "In[7]"),
        ("/tmp/ipykernel_51/1234.py", "cell 1234"),
    ],
)
def test_cells_of_a_notebook(
    run: Run, file: str, label: str, capfd: pytest.CaptureFixture[str]
) -> None:
    names = run(HEAD)
    linecache.cache[file] = (len(CELL), None, CELL.splitlines(keepends=True), file)
    exec(compile(CELL, file, "exec"), names)
    del linecache.cache[file]
    row = row_of("torch.where", CELL)
    assert rows(names)[0] == ("AMP203", row)
    err = capfd.readouterr().err
    assert err.startswith(f"{label}:{row}:9 AMP203")
    assert "called here" in err


def test_ipython_itself_names_its_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = SimpleNamespace(
        format_code_name=lambda name: ("Cell", "In[3]") if name.endswith("/12.py") else None
    )
    shell = SimpleNamespace(compile=compiler)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert cells.label("/tmp/ipykernel_51/12.py") == "In[3]"
    assert cells.label("/tmp/ipykernel_51/13.py") == "cell 13"
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert cells.label("<ipython-input-3-ab>") == "In[3]"


def test_the_root_can_be_given(run: Run, tmp_path: Path) -> None:
    write({"other/pyproject.toml": b""}, tmp_path)
    elsewhere = "import pathlib\n" + PROGRAM.replace("observe()", "observe(root='other')")
    assert rows(run(elsewhere)) == []  # none of its lines ran
    with pytest.raises(NotADirectoryError, match=r"train\.py is not a directory"):
        amplint.observe(root="train.py")


def test_without_torch_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"^amplint\.observe\(\) needs torch: pip install torch"):
        amplint.observe()


def test_an_old_torch_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.3.1+cpu")
    with pytest.raises(ImportError, match=r"needs torch 2\.4 or newer, and this is 2\.3\.1"):
        amplint.observe()


def test_what_is_compiled_runs_as_it_is_and_is_compiled_afterwards() -> None:
    def backend(graph: Any, _: object) -> Any:
        def counted(*args: Any) -> Any:
            calls.append(1)
            return graph.forward(*args)

        return counted

    calls: list[int] = []
    before = torch.compile(torch.nn.Linear(4, 4), backend=backend)
    inside = torch.compile(torch.nn.Linear(4, 4), backend=backend)
    before(torch.ones(4))
    with amplint.observe():
        assert before(torch.ones(4)).shape == inside(torch.ones(4)).shape
    assert len(calls) == 1
    before(torch.ones(4))
    inside(torch.ones(4))
    assert len(calls) == 3


def test_waits_of_each_step(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU stands for a GPU, which this may run without."""
    monkeypatch.setattr("amplint_verify.backends.cuda.on_cuda", lambda _: True)
    as_gpu = property(lambda _: "cuda", lambda *_: None)
    monkeypatch.setattr(LiveWatcher, "backend", as_gpu, raising=False)
    lines = ("        x.sum().item()", "        if x.sum() > 0: pass", "        x.sum()")
    names = run(PROGRAM + "\n".join(lines) + "\n")
    row = PROGRAM.count("\n") + 1
    expected = [MIXED, CLIPPED, ("AMP101", row), ("AMP103", row + 1)]
    assert [each for each in rows(names) if each in expected] == expected
    assert {row for _, row in rows(names)} <= {each for _, each in expected}


def test_a_function_that_an_operator_calls() -> None:
    def branch(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    x = torch.ones(3)
    with amplint.observe():
        result = torch.cond(x.sum() > 0, branch, torch.neg, (x,))
    assert torch.equal(result, x + 1)


def test_what_is_watched_is_not_kept_alive() -> None:
    model = torch.nn.Linear(8, 1)
    with amplint.observe():
        x = torch.ones(4, 8, requires_grad=True)
        model(x).sum().backward()
        kept = weakref.ref(x)
        del x
        gc.collect()
        assert kept() is None


def test_nothing_is_imported_until_a_block_begins() -> None:
    code = (
        "import sys, amplint; amplint.observe; "
        "print(sorted({'torch', 'libcst', 'click', 'numpy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_tensors_without_values_or_memory_of_their_own() -> None:
    """What is looked at of others must not end the program."""
    nn = torch.nn
    embedding, layer = nn.Embedding(5, 3, sparse=True), nn.Linear(3, 3)
    with amplint.observe():
        nn.Linear(4, 4, device="meta").half()
        torch.arange(5000, dtype=torch.float16, device="meta")
        torch.arange(5000, device="meta").half()
        torch.eye(3).to_sparse().half()
        with torch.autocast("cpu", torch.bfloat16):
            layer(embedding(torch.tensor([1, 2]))).sum().backward()
            embedding.weight.grad.mul_(2)  # sparse: it has no memory of its own
            layer(embedding(torch.tensor([1, 2])))
        with torch.inference_mode():
            torch.zeros(3).to("cpu")
