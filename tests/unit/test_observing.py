"""What `check`, `fix` and the editor do with observations, and what they never do."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from amplint.findings.finding import Edit, Finding, Fix, Safety
from amplint.inference.whole_program.observation_values import filled
from amplint.project import observations
from amplint.project.config import Settings
from amplint.run import engine
from amplint.run.cache import NAME, Cache
from amplint.run.linking import LiveLinker
from amplint.run.observation_findings import FoundObservations, marked
from amplint.run.request import Outcome
from amplint.values.atoms import ACCELERATOR, UNKNOWN, Device, Host, Tensor, TensorTree, one
from amplint.values.lattice import join
from tests.command import Amplint
from tests.helpers import request, write
from tests.observations import RUN, observed, save

HALF, FULL = "float16 cuda 1", "float32 cuda 1"
WHERE = """\
import torch


def pick(mask, a, b):
    return torch.where(mask, a, b)
"""
GIVEN = {"parameters": {"a": [HALF], "b": [FULL], "mask": ["bool cuda 1"]}, "regions": ["float16"]}
READS = """\
import torch


class Meter:
    def update(self, value):
        x = torch.zeros(3).cuda()
        return value.sum().item()  # amplint: ignore[AMP101]
"""
Check = Callable[..., list[Finding]]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """The findings in `a.py` with what was observed of it."""

    def checked(text: str, functions: dict[str, object], **settings: object) -> list[Finding]:
        write({"a.py": text.encode()}, tmp_path)
        save(tmp_path, observed("a.py", text, functions))
        return [*outcome(tmp_path, **settings).findings]

    return checked


def outcome(root: Path, **settings: object) -> Outcome:
    asked = request({"a.py": b""}, root)
    assert isinstance(asked.settings, Settings)
    return engine.run(replace(asked, settings=replace(asked.settings, **settings), indexed={}))


def codes(findings: list[Finding]) -> list[str]:
    return [each.code for each in findings]


def test_a_dtype_that_a_run_has_shown_is_known(check: Check) -> None:
    assert check(WHERE, {}) == []
    (finding,) = check(WHERE, {"pick": GIVEN})
    assert finding.code == "AMP203"
    assert finding.message.startswith(f"as `{RUN}` has shown: `a` is float16 and `b` is float32")


def test_a_fix_that_rests_on_a_run_is_not_safe(check: Check) -> None:
    (finding,) = check(WHERE, {"pick": GIVEN})
    newer = Fix.safe_if("Newer", (Edit(0, 1, "x"),), {"always": True})
    fix = replace(newer, title="Older", newer=newer)
    seen = FoundObservations(observed("a.py", WHERE, {"pick": GIVEN}))
    told = marked(replace(finding, fix=fix), seen).fix
    assert told is not None
    assert told.newer is not None
    assert (told.safety, told.newer.safety) == (Safety.UNSAFE, Safety.UNSAFE)


def test_a_function_whose_text_has_changed_has_lost_its_own(check: Check, tmp_path: Path) -> None:
    check(WHERE, {"pick": GIVEN})
    write({"a.py": CHANGED.encode()}, tmp_path)
    assert outcome(tmp_path).findings == ()


def test_a_function_that_has_moved_keeps_its_own(check: Check, tmp_path: Path) -> None:
    check(WHERE, {"pick": GIVEN})
    write({"a.py": MOVED.encode()}, tmp_path)
    assert codes([*outcome(tmp_path).findings]) == ["AMP203"]


def test_the_settings_may_leave_them_out(check: Check, tmp_path: Path) -> None:
    check(WHERE, {"pick": GIVEN})
    assert outcome(tmp_path, observations=False).findings == ()


def test_they_remove_no_finding(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ex) a read of a parameter of `forward`, which a run has shown to lie on the CPU"""
    text = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x: torch.Tensor, sizes: dict[str, torch.Tensor]):
        return x * len(sizes["rows"].tolist())
"""
    without = check(text, {})
    assert codes(without) == ["AMP101"]
    given = {"parameters": {"sizes": [{"rows": "int64 cpu 1"}]}}
    assert check(text, {"Net.forward": given}) == without
    monkeypatch.setattr(engine, "joined", lambda _, other, __: other)
    assert check(text, {"Net.forward": given}) == []


def test_a_comment_that_allows_what_a_run_has_shown_is_used(check: Check) -> None:
    assert "AMP001" in codes(check(READS, {}))
    seen = {"parameters": {"value": [FULL]}, "every_step": True}
    with_observations = codes(check(READS, {"Meter.update": seen}))
    assert "AMP001" not in with_observations
    assert "AMP101" not in with_observations


def test_what_is_known_is_not_overruled() -> None:
    device = Device(ACCELERATOR)
    known = one(Tensor("float32", device, 1))
    seen = one(Tensor("float16", device, 1))
    assert filled(known, seen) == known
    assert filled(one(Host("int")), seen) == one(Host("int"))
    assert filled(frozenset(), seen) == frozenset()


def test_what_is_unknown_is_filled_in() -> None:
    device = Device(ACCELERATOR)
    seen = one(Tensor("float16", device, 1))
    assert filled(UNKNOWN, seen) == seen
    assert filled(one(Tensor(None, device, None)), seen) == one(Tensor("float16", device, None))
    assert filled(one(Tensor("float32")), seen) == one(Tensor("float32", device))
    assert filled(one(TensorTree(device)), seen) == seen
    assert filled(join([UNKNOWN, one(Host("none"))]), seen) == seen | one(Host("none"))


def test_a_dict_gets_the_items_that_were_seen(check: Check) -> None:
    """Ex) parameters of an augmentation of kornia, which a run has shown to be on the CPU"""
    text = """\
from typing import Dict

import torch


def jiggled(x: torch.Tensor, params: Dict[str, torch.Tensor]):
    return x * len(params["order"].tolist())
"""
    for device, found in (("cpu", []), ("cuda", ["AMP101"])):
        given = {"x": [FULL], "params": [{"order": f"int64 {device} 1"}]}
        seen = {"parameters": given, "every_step": True, "rows": [1]}
        assert codes(check(text, {"jiggled": seen})) == found, device


def test_of_two_dtypes_at_one_place_none_is_claimed(check: Check) -> None:
    given = {**GIVEN, "parameters": {**GIVEN["parameters"], "a": [FULL, HALF]}}
    assert check(WHERE, {"pick": given}) == []


COMMENTED = WHERE.replace("    return", "    # as it is\n    return")
CHANGED = WHERE.replace("where(mask", "where(~mask")
MOVED = WHERE.replace("\n\n\n", "\n\n\nX = 1\n\n\n")
MORE = WHERE.replace("def pick", "def nothing():\n    pass\n\n\ndef pick")
EDITS = (WHERE, COMMENTED, WHERE, CHANGED, COMMENTED, CHANGED, WHERE, MOVED, MORE, COMMENTED, MOVED)


@pytest.mark.parametrize("memory", [True, False], ids=["in memory", "on disk"])
def test_edits_are_taken_up_as_a_new_run_finds_them(
    tmp_path: Path, memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amplint.run.session.LEAST_KEPT", 0)
    monkeypatch.setattr("amplint.inference.incremental.resumption.MOST_CHANGED", 1.0)
    rest = "".join(f"def f{n}(x):\n    return x + {n}\n\n\n" for n in range(9)).encode()
    files = {"a.py": WHERE.encode(), "b.py": rest}
    write(files, tmp_path)
    save(tmp_path, observed("a.py", WHERE, {"pick": GIVEN}))
    asked = request(files, tmp_path)
    linker = LiveLinker() if memory else None
    cache = None if memory else Cache(tmp_path / NAME)
    asked = replace(asked, linker=linker, cache=cache, indexed={})
    for text in EDITS:
        write({"a.py": text.encode()}, tmp_path)
        told = engine.run(asked).findings
        anew = engine.run(replace(asked, linker=None, cache=None, indexed={})).findings
        assert told == anew, text


FORWARD = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, mask, a, b):
        x = torch.zeros(3).to(mask.device)
        return torch.where(mask, a, b) + x
"""


def test_a_finding_that_goes_with_its_observation_is_not_fixed(
    tmp_path: Path, amplint: Amplint
) -> None:
    write({"a.py": FORWARD.encode()}, tmp_path)
    save(tmp_path, observed("a.py", FORWARD, {"Net.forward": GIVEN}))
    assert codes([*outcome(tmp_path).findings]) == ["AMP501", "AMP203"]
    assert amplint("fix", "--apply", str(tmp_path)).err.startswith("fixed 1 finding in 1 file")


@pytest.mark.parametrize("format_", ["concise", "json-lines"])
def test_it_is_reported_in_lines_too(tmp_path: Path, amplint: Amplint, format_: str) -> None:
    write({"a.py": WHERE.encode()}, tmp_path)
    save(tmp_path, observed("a.py", WHERE, {"pick": GIVEN}))
    ran = amplint("check", "--format", format_, str(tmp_path))
    assert ran.status == 1
    assert "AMP203" in ran.out


def test_show_settings_says_what_is_used(
    check: Check, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check(WHERE, {"pick": GIVEN})
    write({"pyproject.toml": b"[tool.amplint]\n"}, tmp_path)
    monkeypatch.chdir(tmp_path)
    amplint = Amplint(capfd)
    told = "observations = true  # default: .amplint/observations.json, of 1 function\n"
    assert told in amplint("check", "--show-settings").out
    (tmp_path / observations.FILE).write_text("{")
    assert "is not used: " in amplint("check", "--show-settings").out
    assert ".amplint/observations.json is not used: " in amplint("check").err


def test_the_file_reads_as_it_is_written(tmp_path: Path) -> None:
    functions = observed("a.py", WHERE, {"pick": GIVEN})
    save(tmp_path, functions)
    assert observations.read(str(tmp_path)) == functions
    content = json.loads((tmp_path / observations.FILE).read_text())
    assert list(content) == sorted(content)


REGIONS = """\
import torch
from elsewhere import without_autocast, with_autocast


@without_autocast
def inner(a, b):
    return torch.nn.functional.binary_cross_entropy(a, b)


def outer(a, b):
    with torch.autocast("cuda", torch.float16):
        return inner(a, b)
"""


def test_the_region_that_a_run_has_shown_is_the_one(check: Check) -> None:
    """A decorator that nobody can read may end a region, or open one."""
    given = {"parameters": {"a": [FULL], "b": [FULL]}}
    shown = [check(REGIONS, {"inner": {**given, "regions": each}}) for each in ([""], ["float16"])]
    assert [codes(found) for found in shown] == [["AMP304"], ["AMP304"]]
    alone = REGIONS.partition("\n\ndef outer")[0] + "\n"
    assert codes(check(alone, {})) == []
    assert codes(check(alone, {"inner": {**given, "regions": [""]}})) == []
    (finding,) = check(alone, {"inner": {**given, "regions": ["", "float16"]}})
    assert finding.code == "AMP304"
    assert [each.message for each in finding.related] == [f"seen when `{RUN}` ran"]


def test_nothing_is_found_where_no_run_has_been(check: Check, tmp_path: Path) -> None:
    text = """\
import torch


def pick(mask, a, b, other=False):
    if other:
        return torch.where(mask, b, a)
    return torch.where(mask, a, b)
"""
    rows = [each.span.start.row for each in check(text, {"pick": {**GIVEN, "rows": [3]}})]
    assert rows == [7]
    text = text.replace("return torch", "return  torch", 1)
    write({"a.py": text.encode()}, tmp_path)
    assert outcome(tmp_path).findings == ()
    assert len(check(text, {"pick": {**GIVEN, "rows": [2, 3]}})) == 2


def test_what_a_run_calls_in_every_step_is_hot(check: Check) -> None:
    text = "def note(value):\n    return value.sum().item()\n"
    given = {"parameters": {"value": [FULL]}}
    assert codes(check(text, {"note": given})) == []
    (finding,) = check(text, {"note": {**given, "every_step": True}})
    assert finding.code == "AMP101"
