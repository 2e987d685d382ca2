"""Functions that call themselves: each recurses over something whose depth is bounded.

A function that follows the operands of a value graph, or call edges, by calling itself visits 2^n
nodes of a chain of n sums, or does not end at a cycle. `amplint.util.walks` follows them instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from amplint.util.walks import reachable
from tests.helpers import of_each

ROOT = Path(__file__).resolve().parents[2]
SYNTAX = "the nesting of one file's syntax, which Python's own parser bounds"
VALUES = "the parts of a value, which are nested a few times (`lattice.shallow`)"
ONE_PATH = "one expression after the other, each of which leads to one other at most"
STEPS = "so many steps at most, each of which leads to an expression of its own"
CALLS = "so many calls as `interpreter.LIMITS` allows, and so much work in all"
SCOPES = "the scopes around a function"
FOLDERS = "the nesting of folders"
REMEMBERED = "the parts of a test, to a small depth; each answer is remembered"
SHORT_TEST = "the parts of a test, which have none that are looked at"
SHORT = "at most five operators deep in a comparison"
IMPORTS = "imports, each of which leads to one other: as many as MAX_IMPORTS"
ONCE = "modules behind stars, each visited once"
LATER = "evidence that somebody looks for in an answer, and that holds none that is looked for"
HALVES = "halves of halves"
BLOCKS = "the blocks around a block, each answer remembered"
# By module: the functions that call each other, with spaces between, and over what they recurse.
ALLOWED: Mapping[str, Mapping[str, str]] = {
    "rules/autocast/_backward_support.py": {"is_plain": VALUES},
    "amplint/facts/call_guards.py": {"CallGuards._outcome CallGuards._plain_outcome": SHORT_TEST},
    "amplint/analyses/cold_guards.py": {
        "ColdGuards._cold_call ColdGuards._cold_side ColdGuards._find_side "
        "ColdGuards._gives_cold": REMEMBERED,
        "ColdGuards._has_modulo": SHORT,
        "ColdGuards._is_clock": SHORT,
        "ColdGuards._tells_evaluation": SHORT_TEST,
    },
    "amplint/analyses/loop_invariance.py": {"is_known": VALUES},
    "amplint/inference/whole_program/observation_values.py": {
        "filled items_filled one_filled": VALUES,
        "shape_value": "containers, to a depth of DEEPEST",
    },
    "amplint/facts/recorded_questions.py": {
        "Notes._looked_for Notes._note Notes.once": LATER,
        "parts_of plain_of": VALUES,
    },
    "amplint/analyses/tensor_certainty.py": {"tensors_held": VALUES},
    "amplint/analyses/function_traits.py": {"_is_half is_half": VALUES},
    "amplint/facts/unknown_in_calls.py": {"may_hold": VALUES},
    "amplint/values/lattice.py": {"is_deeper": VALUES, "truncated": VALUES},
    "amplint/rule/registry.py": {"rule_modules": FOLDERS},
    "rules/autocast/region_of_another_device.py": {"may_be_float16": SYNTAX},
    "amplint/values/atoms.py": {"_order": VALUES, "evidence_text": VALUES},
    "amplint/fix/unused_imports.py": {"_scopes": SYNTAX},
    "amplint/source/navigation.py": {"_dotted": SYNTAX},
    "amplint/source/pairing.py": {"_ast_kinds": SYNTAX, "_is_formatted": SYNTAX},
    "amplint/gradscaler/checkpoints.py": {
        "Unsaved._contains": VALUES,
    },
    "amplint/gradscaler/interpreter.py": {
        "Interpreter.call Interpreter.event Interpreter.node Interpreter.run "
        "Interpreter.run_callees Interpreter.run_constructor Interpreter.run_function": CALLS,
    },
    "amplint/inference/whole_program/bindings.py": {
        "Bindings._class_imported Bindings.class_at": IMPORTS,
        "Bindings._find_behind_stars Bindings._find_binding": ONCE,
    },
    "amplint/inference/function/calls.py": {
        "Calls.call Calls.call_special Calls.called_with_each": VALUES,
    },
    "amplint/inference/function/evaluation.py": {"holds_instance": VALUES},
    "amplint/inference/evidence_marks.py": {"_marked has_places marked marked_atom": VALUES},
    "amplint/inference/function/regions.py": {
        "FunctionRegions.of FunctionRegions.where_tested": BLOCKS
    },
    "amplint/inference/memo.py": {"Memo._interned_atom Memo.interned": VALUES},
    "amplint/inference/transfer/ranks.py": {"more plus": VALUES, "nesting": VALUES},
    "amplint/inference/incremental/value_codec.py": {
        "Decoder._part": VALUES,
        "Encoder._part Encoder.atom Encoder.value": VALUES,
    },
    "amplint/inference/transfer/containers.py": {"modules_of": VALUES},
    "amplint/inference/transfer/factories.py": {"is_python_numbers": VALUES, "of_numbers": VALUES},
    "amplint/inference/transfer/promotion.py": {
        "as_float32": VALUES,
        "promote": VALUES,
        "tensors_in": VALUES,
        "without_half": VALUES,
    },
    "amplint/ir/codec.py": {"packed": VALUES, "unpacked": VALUES},
    "amplint/ir/file_index.py": {
        "File._add_class File._scan": SYNTAX,
        "File._build": SCOPES,
    },
    "amplint/ir/ssa.py": {
        "Builder.assign": SYNTAX,
        "Builder.comprehension_target": SYNTAX,
        "Builder.expr Builder.on_other": SYNTAX,
        "Builder.narrow": SYNTAX,
        "rebound": SYNTAX,
    },
    "amplint/output/values_in_words.py": {
        "atom_in_words mapping_in_words sequence_in_words value_in_words": VALUES
    },
    "amplint/fix/single_round.py": {"_is_taken": SYNTAX},
    "amplint/fix/rounds.py": {"Rounds._harmless": HALVES},
    "amplint/run/partition.py": {"_parts": FOLDERS},
    "rules/_shared/constants.py": {
        "number_of": SYNTAX,
    },
    "rules/_shared/factories.py": {"built _built_under _padded": STEPS, "_is_host_atom": VALUES},
    "rules/_shared/growth.py": {"beginnings": SYNTAX, "_names_in": SYNTAX},
    "rules/_shared/guards.py": {"_operands_of": SYNTAX, "_parts": SYNTAX},
    "rules/_shared/host_copies.py": {
        "_built_from": STEPS,
        "_is_literal": ONE_PATH,
        "_repeats_number is_number": SYNTAX,
    },
    "rules/_shared/waits.py": {"_evaluated": SYNTAX},
    "rules/autocast/_suspensions.py": {"suspensions": SYNTAX},
    "rules/_shared/_versioned_calls.py": {"_Calls._in": SYNTAX},
    "rules/autocast/backward_in_autocast.py": {"multiplies_matrices": SYNTAX},
    "rules/host_sync/host_value_fed_back.py": {"beyond fed_back": ONE_PATH},
    "rules/parallel/host_read_in_self_log.py": {"converted": SYNTAX},
    "rules/placement/host_data_to_device_in_hot_path.py": {"is_shape": SYNTAX},
    "rules/placement/tensor_attribute_not_buffer.py": {"kept_tensor": STEPS},
    "rules/precision/half_accumulator.py": {"growths": SYNTAX},
    "rules/precision/mixed_dtype_write.py": {"is_advanced": SYNTAX},
}


def groups(text: str) -> set[frozenset[str]]:
    """The groups of functions of a module that call each other, or themselves.

    A function is `f`, or `C.f` in a class; a call is one of `f(...)`, `self.f(...)`, or any mention
    of those (`map(self.f, xs)`).
    """
    calls = dict(called(ast.parse(text)))
    below = {name: set(reachable(calls[name], lambda each: calls.get(each, ()))) for name in calls}
    return {
        frozenset(other for other in below[name] if name in below.get(other, ()))
        for name in calls
        if name in below[name]
    }


def called(module: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """The functions of a module, with those that each mentions."""
    names = {name for name, _ in definitions(module, "")}
    for name, function in definitions(module, ""):
        cls = name.rpartition(".")[0]
        mentioned = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Name):
                mentioned |= {node.id, f"{name}.{node.id}"}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                mentioned.add(f"{cls}.{node.attr}" if node.value.id in ("self", "cls") else "")
        yield name, mentioned & names


def definitions(
    node: ast.AST, prefix: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{child.name}", child
            yield from definitions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from definitions(child, f"{prefix}{child.name}.")
        else:
            yield from definitions(child, prefix)


def modules() -> list[str]:
    rooms = ("amplint", "amplint_verify/observing", "rules")
    found = (path for room in rooms for path in (ROOT / room).rglob("*.py"))
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


@of_each(modules())
def test_recursion_has_a_reason(path: str) -> None:
    found = groups((ROOT / path).read_text(encoding="utf-8"))
    allowed = {frozenset(names.split()) for names in ALLOWED.get(path, {})}
    assert not found - allowed, "walk with `amplint.util.walks`, or say what bounds the recursion"
    assert not allowed - found, "these recurse no more: take them off the list"


def test_each_allowed_module_exists() -> None:
    assert set(ALLOWED) <= set(modules())
