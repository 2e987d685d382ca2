"""The frame of facts: what each requires, when it is built, and what comes of one that fails."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

from amplint import analyses
from amplint.facts.callers import Callers
from amplint.facts.fact import Fact, Facts, Required
from amplint.inference import Inference
from amplint.ir.file_set import Files
from amplint.rule.registry import own_rules


def all_facts(base: type[Fact] = Fact) -> Iterator[type[Fact]]:
    """The facts that the modules of `amplint.analyses` define, and those of single rules."""
    own_rules()
    for module in pkgutil.iter_modules(analyses.__path__):
        importlib.import_module(f"amplint.analyses.{module.name}")
    for each in base.__subclasses__():
        if each.__module__.startswith("amplint.") and not inspect.isabstract(each):
            yield each
        yield from all_facts(each)


def test_a_fact_is_built_once() -> None:
    facts = Facts(Inference(Files({})))
    for kind in all_facts():
        assert facts[kind] is facts[kind]


def test_a_fact_that_fails_fails_for_all_that_ask_and_is_built_once() -> None:
    built: list[str] = []

    class Broken(Fact):
        def __init__(self, inference: Inference) -> None:
            super().__init__(inference)
            built.append("Broken")
            raise KeyError("a")

    class Above(Fact):
        broken = Required(Broken)

    facts = Facts(Inference(Files({})))
    for kind in (Broken, Above, Above, Broken):
        with pytest.raises(KeyError):
            facts[kind]
    assert built == ["Broken"]


def test_facts_are_built_anew_without_a_function_that_was_given_up() -> None:
    inference = Inference(Files({}))
    facts = Facts(inference)
    before = facts[Callers]
    inference.give_up("a.py::f", "a fault")
    assert facts[Callers] is not before
    assert facts[Callers] is facts[Callers]
