"""The interface of a file: all that inference reads of it, for functions of other files, past keys.

While the interfaces of the changed files are as they were, what has changed in these files reaches
the others through keys alone. Where they are not, it reaches those functions besides that mention
a name of what has changed, or hold a value that means it. Where a line of code stands is no part of
an interface, and neither is the body of a function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from amplint.inference.inference import Inference
from amplint.ir import ops
from amplint.ir.codec import packed
from amplint.ir.file_index import File
from amplint.ir.model import ClassFacts, FunctionFacts, Graph
from amplint.ir.module_names import module_parts
from amplint.util.walks import reachable

# Who looks for methods by a name that is computed mentions none of them.
FINDS_ANY_METHOD = "getattr"


class PublicPart(msgspec.Struct, array_like=True):
    """The part of a function or of a class that others read.

    Args:
        name: its last identifier.
        digest: of all that they read of it.
        classes: the names of the classes that get or lose something with it: the class of a method;
            of a class, itself and its bases.
        bases: of a class, what the text says of its bases.
        defaults: of a function, the constants that its parameters have where none is given, which
            those read who call it.
    """

    name: str
    digest: str
    classes: list[str]
    bases: list[str]
    defaults: list[str]


class Interface(msgspec.Struct, array_like=True):
    """The interface of a file.

    Args:
        definitions: of functions, lambdas and classes, by id.
        bindings: by name that the module binds, what it is bound to, as far as its graph says so.
        stars: the modules of which it imports everything.
        marks: by class, what uses in it say of its fields.
        numbers: by class, what uses in it show to be numbers: by the last name, the paths.
        giving_losses: by method, the methods of `self` of which it backpropagates the result.
    """

    definitions: dict[str, PublicPart]
    bindings: dict[str, list[str]]
    stars: list[str]
    marks: dict[str, dict[str, str]]
    numbers: dict[str, dict[str, list[str]]]
    giving_losses: dict[str, list[str]]


def interface(inference: Inference, file: File) -> Interface:
    """The interface of a file, whose graphs are built."""
    functions = file.facts.functions
    graphs: dict[str, Graph] = {}
    while new := functions.keys() - graphs.keys():  # lambdas come with the graph around them
        graphs.update((function, file.graph(function)) for function in new)
    definitions: dict[str, PublicPart] = {}
    for identity in sorted(graphs):
        facts, graph = functions[identity], graphs[identity]
        if facts.kind == "class":
            cls = file.facts.classes[identity]
            bases = list(bases_of(cls, graphs[cls.parent]))
            read = [bases, cls.decorated, list(graph.bindings), *signature(facts)]
            names = [cls.name, *cls.bases]
            definitions[identity] = PublicPart(cls.name, digest(read), names, bases, [])
        else:
            read = [*signature(facts), bool(graph.yields), inference.uses.backpropagates(identity)]
            names = [functions[facts.cls].name] if facts.cls is not None else []
            constants = [repr(packed(each.default)) for each in facts.params]
            definitions[identity] = PublicPart(facts.name, digest(read), names, [], constants)
    module = graphs[file.facts.module]
    return Interface(
        definitions,
        {
            name: [expression_text(module, number) for number in numbers]
            for name, numbers in module.bindings.items()
            if name != "*"
        },
        [repr(module.nodes[number].data) for number in module.bindings.get("*", ())],
        {cls: dict(inference.uses.marks_of_class(cls)) for cls in file.facts.classes},
        {cls: by_last_name(inference.uses.numbers_of_class(cls)) for cls in file.facts.classes},
        {f: names for f in functions if (names := inference.uses.methods_giving_losses(f))},
    )


def by_last_name(paths: Iterable[str]) -> dict[str, list[str]]:
    """Ex) config.width under "width": who reads that mentions both names"""
    by_name: dict[str, list[str]] = {}
    for path in sorted(paths):
        by_name.setdefault(path.rpartition(".")[2], []).append(path)
    return by_name


def signature(facts: FunctionFacts) -> Iterator[object]:
    """How a function is to be called, and what it is."""
    yield from (facts.kind, facts.parent, facts.cls, facts.decorated, facts.is_async)
    for each in facts.params:
        yield each.name, each.kind, each.annotated, each.has_default, each.constant_default


def bases_of(cls: ClassFacts, graph: Graph) -> Iterator[str]:
    """The bases of a class and its decorators, as the text says them."""
    for number in graph.bindings.get(cls.name, ()):
        node = graph.nodes[number]
        if (node.op, node.data) == (ops.CLASS, cls.id):
            yield from (expression_text(graph, operand) for operand in node.operands)


def expression_text(graph: Graph, number: int) -> str:
    """A node as its graph says it without evaluating it: as much as `Bindings` reads."""
    text = ""
    node = graph.nodes[number]
    while node.op in (ops.ATTR, ops.SUBSCRIPT) and 0 <= node.operands[0] < number:
        text += f" {node.op} {node.data}"
        number = node.operands[0]
        node = graph.nodes[number]
    named = node.op in (ops.CLASS, ops.DEF, ops.IMPORT, ops.NAME)
    return f"{node.op} {node.data if named else ''}{text}"


def digest(read: object) -> str:
    # As Python writes it: ids begin with a path, which may be no text in UTF-8.
    return hashlib.blake2b(repr(read).encode(), digest_size=8).hexdigest()


# ----------------------------------------------------------------------------------- differences


@dataclass(frozen=True)
class InterfaceDifference:
    """The difference in the interfaces of files.

    Args:
        removals: the ids of definitions that are no more.
        referents: the same, the paths of files that are no more, and the ids of definitions of
            which something else is read: who holds a value that means one reads it.
        defaults: the ids of functions of which only the constants have changed that their
            parameters have where none is given.
        names: those under which something is found that was not, or that was something else.
        bound: those of these that modules bind.
        classes: the names of classes that have other methods, or other classes derived from them.
        is_large: whether it changes what classes derive from, all names of a module, or a package,
            or which methods return losses.
    """

    removals: frozenset[str]
    referents: frozenset[str]
    defaults: frozenset[str]
    names: frozenset[str]
    bound: frozenset[str]
    classes: frozenset[str]
    is_large: bool


NOTHING = Interface({}, {}, [], {}, {}, {})


def difference(
    before: Mapping[str, Interface], now: Mapping[str, Interface]
) -> InterfaceDifference:
    """The difference of interfaces, by path, before and now. Files may be new, or gone."""
    moved = before.keys() ^ now.keys()
    names = {module_parts(path)[-1] for path in moved if module_parts(path)}
    removals: set[str] = set()
    referents = set(before.keys() - now.keys())
    bound: set[str] = set()
    defaults: set[str] = set()
    classes: set[str] = set()
    is_large = any(path.endswith("__init__.py") for path in moved)
    for path in before.keys() | now.keys():
        old, new = before.get(path, NOTHING), now.get(path, NOTHING)
        removals |= old.definitions.keys() - new.definitions.keys()
        for identity in different(old.definitions, new.definitions):
            both = (each.definitions.get(identity) for each in (old, new))
            definitions = [each for each in both if each is not None]
            first, last = definitions[0], definitions[-1]
            if first != last and msgspec.structs.replace(first, defaults=last.defaults) == last:
                defaults.add(identity)
                continue
            names.update(each.name for each in definitions)
            referents.add(identity)
            if len(definitions) == 1:
                classes.update(definitions[0].classes)
                names.update([FINDS_ANY_METHOD] if definitions[0].classes else [])
            else:
                is_large |= definitions[0].bases != definitions[1].bases
        bound |= different(old.bindings, new.bindings)
        is_large |= old.stars != new.stars or old.giving_losses != new.giving_losses
        for cls in old.marks.keys() & new.marks.keys():
            names |= different(old.marks[cls], new.marks[cls])
            names |= different(old.numbers[cls], new.numbers[cls])
    return InterfaceDifference(
        frozenset(removals), frozenset(referents), frozenset(defaults),
        frozenset(names | bound), frozenset(bound), frozenset(classes), is_large,
    )  # fmt: skip


def different(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    """The keys of what is not the same."""
    missing = object()
    keys = before.keys() | after.keys()
    return {key for key in keys if before.get(key, missing) != after.get(key, missing)}


def related(names: Collection[str], classes: Iterable[ClassFacts]) -> frozenset[str]:
    """The ids of classes of these names, and of those that derive from them, or they from these, as
    far as names say."""
    if not names:
        return frozenset()
    facts = list(classes)
    above: dict[str, set[str]] = {}
    below: dict[str, set[str]] = {}
    for cls in facts:
        for base in cls.bases:
            above.setdefault(cls.name, set()).add(base)
            below.setdefault(base, set()).add(cls.name)
    relatives = closure(names, above) | closure(names, below)
    return frozenset(cls.id for cls in facts if cls.name in relatives)


def closure(names: Iterable[str], following: Mapping[str, Iterable[str]]) -> set[str]:
    return set(reachable(names, lambda name: following.get(name, ())))
