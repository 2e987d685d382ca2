"""The bodies of functions: all that inference reads of a function but its place.

A function with the body that it had has, in a file that was edited elsewhere, the values that it
had, unless something that it reads of others is another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping

import msgspec

from amplint.inference.inference import Inference
from amplint.inference.whole_program.text_questions import makes_idle_scaler, speaks_of_devices
from amplint.ir.file_index import File
from amplint.ir.flow import SCOPES
from amplint.ir.model import FunctionFacts, Graph


class Body(msgspec.Struct, array_like=True, frozen=True):
    """The body of a function.

    Args:
        digest: of all of it, and of what is read of the text of its file.
        names: those that it binds, if scopes stand in it, which may read them.
    """

    digest: bytes
    names: tuple[str, ...]


Bodies = Mapping[str, Body]  # by the id of the function


def bodies(inference: Inference, file: File) -> dict[str, Body]:
    """The bodies of all functions of a file, whose graphs are built."""
    # See `ValuesByUse.is_scaled` and `Evaluation.is_never_moved`.
    around = makes_idle_scaler(file.text), speaks_of_devices(file)
    by_function: dict[str, Body] = {}
    for function, facts in file.facts.functions.items():
        graph = file.graph(function)
        words = sorted(map(repr, facts.words))
        observation = inference.unseen.observation(facts)
        read: list[object] = [around, repr(signature(facts)), words, shape(graph), observation]
        nests = any(node.op in SCOPES for node in graph.nodes)
        by_function[function] = Body(digest(read), tuple(sorted(graph.bindings)) if nests else ())
    return by_function


def others(before: Bodies, now: Bodies) -> set[str]:
    """The functions that have changed, in more than their place."""
    return {
        function
        for function, body in now.items()
        if function not in before or before[function].digest != body.digest
    }


def rebound(before: Bodies, now: Bodies, file: File) -> Iterator[str]:
    """The scopes of a file that may mean another one's name now: a function around them binds a
    name that it did not bind before, or no longer does. Of a module the interface says so."""
    names = {
        function: {*before[function].names} ^ {*now[function].names}
        for function in before.keys() & now.keys() - {file.facts.module}
    }
    if not any(names.values()):
        return
    functions = file.facts.functions
    for each in functions.values():
        around = each.parent
        while around is not None:
            if not names.get(around, NO_NAMES).isdisjoint(each.words):
                yield each.id
                break
            around = functions[around].parent


def signature(facts: FunctionFacts) -> Collection[object]:
    """All that is known of a function but its place, and its words; constants by their text, for
    1 == True."""
    return (
        facts.name, facts.kind, facts.parent, facts.cls, repr(facts.params), facts.decorated,
        facts.is_async,
    )  # fmt: skip


def shape(graph: Graph) -> Collection[object]:
    """All of a graph but the places of its nodes and blocks; constants by their text."""
    return (
        [node[:2] for node in graph.nodes],
        [repr(node.data) for node in graph.nodes],
        [node.block for node in graph.nodes],
        [(block.kind, block.parent, block.node) for block in graph.blocks],
        [*graph.bindings.items()], [*graph.globals.items()],
        graph.returns, graph.yields, graph.annotation,
    )  # fmt: skip


NO_NAMES: frozenset[str] = frozenset()
ENCODER = msgspec.msgpack.Encoder()


def digest(read: object) -> bytes:
    return hashlib.blake2b(ENCODER.encode(read), digest_size=8).digest()
