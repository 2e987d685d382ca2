"""The interface of a file: all that inference reads of it, for functions of other files, past keys.

While the interfaces of the changed files are as they were, what has changed in these files reaches
the others through keys alone. Where a line of code stands is no part of an interface, and neither
is the body of a function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from amplint.inference.project import ProjectFacts
from amplint.ir import ops
from amplint.ir.codec import packed
from amplint.ir.file_index import File
from amplint.ir.model import FunctionFacts, Graph


def interface(project: ProjectFacts, file: File) -> str:
    """The digest of the interface of a file, whose graphs are built."""
    functions = file.facts.functions
    graphs: dict[str, Graph] = {}
    while new := functions.keys() - graphs.keys():  # lambdas come with the graph around them
        graphs.update((function, file.graph(function)) for function in new)
    parts = [
        [[*definition(functions[identity], graphs[identity])] for identity in sorted(graphs)],
        [
            [facts.id, facts.bases, sorted(facts.methods.items()), facts.decorated,
             sorted(project.marks_of_class(facts.id).items())]
            for facts in file.facts.classes.values()
        ],
    ]  # fmt: skip
    return hashlib.blake2b(msgspec.msgpack.encode(parts), digest_size=16).hexdigest()


def definition(facts: FunctionFacts, graph: Graph) -> Iterator[object]:
    """What others read of a function, a class or a module, or a lambda."""
    yield from (facts.id, facts.kind, facts.parent, facts.cls, facts.decorated, facts.is_async)
    for each in facts.params:
        yield [
            each.name, each.kind, each.annotated, each.has_default, each.constant_default,
            packed(each.default),
        ]  # fmt: skip
    yield bool(graph.yields)
    if facts.kind in ("class", "module"):
        # Which names it binds; and what they are, as far as that is read off the graph: bases of
        # classes are followed through imports before anything is evaluated.
        yield list(graph.bindings.items())
        for node in graph.nodes:
            yield [node.op, node.operands, None if node.op == ops.CONST else packed(node.data)]
