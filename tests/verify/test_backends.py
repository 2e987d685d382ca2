"""The table of back ends, and what a machine has of them."""

import sys

import pytest

from amplint_verify.backends import choice
from amplint_verify.backends.choice import BACKENDS, Aspect, AspectShown
from tests.helpers import ROOT

torch = pytest.importorskip("torch")


def test_only_a_gpu_shows_everything() -> None:
    complete = [b.name for b in BACKENDS.values() if set(b.shows.values()) == {AspectShown.YES}]
    assert complete == ["cuda"]
    assert all(set(backend.shows) == set(Aspect) for backend in BACKENDS.values())


def test_what_is_shown_partly_is_explained() -> None:
    for backend in BACKENDS.values():
        partly = {aspect for aspect, shows in backend.shows.items() if shows is AspectShown.PARTLY}
        assert partly <= set(backend.notes)


def test_simulation_and_policy_stand_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert [backend.name for backend in choice.backends_of("auto")] == ["sim", "policy"]
    assert choice.missing("cuda") == "torch sees no CUDA GPU"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [backend.name for backend in choice.backends_of("auto")] == ["cuda"]
    assert [backend.name for backend in choice.backends_of("cpu")] == ["cpu"]


def test_without_torch_there_is_no_back_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert choice.available() == ()
    assert "pip install torch numpy" in (choice.missing("cpu") or "")


def test_what_is_simulated_is_not_called_real() -> None:
    assert "real" not in choice.table()
    assert "a simulated GPU, dtypes and devices only" in choice.table()


def test_the_table_stands_in_the_documentation() -> None:
    page = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
    begin, end = (
        "<!-- the table of amplint_verify/backends/choice.py -->\n",
        "<!-- end of the table -->",
    )
    assert page.partition(begin)[2].partition(end)[0] == choice.table()
