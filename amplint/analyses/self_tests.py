"""Which loops belong to the self-test, or the demo, of a library module.

if __name__ == "__main__":
    layer = Layer()
    for _ in range(10):
        layer(torch.randn(4, 16)).sum().backward()    # shows that it works, and trains nothing

A script that trains begins in the same way. What distinguishes them: a self-test stands in a module
that others import, takes no arguments from a command line, and is given numbers drawn at random
rather than the batches of a loader.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePath

from amplint.analyses.backward_calls import BackwardCalls
from amplint.facts.callers import Callers
from amplint.facts.fact import Fact, Required
from amplint.inference import Inference
from amplint.inference.incremental.continuation import FixpointEdit
from amplint.ir import ops
from amplint.ir.model import LOOPS, Graph, Node, Param
from amplint.knowledge.vocabulary import READS_ARGUMENTS, SPEAKS_OF_LOADERS
from amplint.values.atoms import Atom, Symbol

NAME, MAIN = "__name__", "__main__"
DRAWS = frozenset({"torch.rand", "torch.randint", "torch.randn"})


# The code of a self-test: by function, the blocks that it runs, all of them or some of a module.
Parts = Mapping[str, Collection[int]]


class SelfTests(Fact):
    """The self-tests of a project.

    `loops`: the blocks in them that are loops, each with its function.
    """

    _callers = Required(Callers)
    _backward_calls = Required(BackwardCalls)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self.loops = [*self._find()]

    def follow(self, inference: Inference, edit: FixpointEdit) -> bool:
        self.inference = inference
        if edit.moves is None:
            self.loops = [*self._find()]
        return True

    def _find(self) -> Iterator[tuple[str, int]]:
        for path, file in self.inference.files.own.items():
            if not file.facts.words.issuperset((NAME, MAIN)):
                continue
            parts = self._run_by_main(path)
            loops = [*self._loops_in(parts)]
            if loops and self._is_self_test(parts) and self._is_imported(parts, path):
                yield from loops

    def _loops_in(self, parts: Parts) -> Iterator[tuple[str, int]]:
        for function, blocks in parts.items():
            graph = self.inference.states[function].graph
            yield from ((function, b) for b in blocks if graph.blocks[b].kind in LOOPS)

    # -- what `__main__` runs

    def _run_by_main(self, path: str) -> Parts:
        """The blocks under `if __name__ == "__main__"`, and the functions of the file that nothing
        else reaches and that are no offer to others: they ask for no arguments, or are private."""
        states, module = self.inference.states, f"{path}::"
        main = blocks_of_main(states[module].graph) if module in states else ()
        parts: dict[str, Collection[int]] = {module: main} if main else {}
        waiting = [*parts]
        while waiting:
            for callee in self._called_in(parts, waiting.pop()):
                if callee in states and callee not in parts and self._is_run_by(parts, callee):
                    parts[callee] = range(len(states[callee].graph.blocks))
                    waiting.append(callee)
        return parts

    def _called_in(self, parts: Parts, function: str) -> Iterator[str]:
        for number, node in enumerate(self.inference.states[function].graph.nodes):
            if node.block in parts[function]:
                yield from sorted(self.inference.calls.edges.get((function, number), ()))

    def _is_run_by(self, parts: Parts, function: str) -> bool:
        """Whether nothing but these parts runs a function, as far as is seen and to be expected."""
        facts = self.inference.functions[function]
        if facts.parent is None or facts.parent not in parts or facts.cls is not None:
            return False
        is_nested = self.inference.functions[facts.parent].kind != "module"
        if not is_nested and not facts.name.startswith("_") and any(map(is_required, facts.params)):
            return False
        return all(
            caller == function or self._block_of(caller, number) in parts.get(caller, ())
            for caller, number in self._callers.sites.get(function, ())
        )

    def _block_of(self, function: str, number: int) -> int:
        state = self.inference.states.get(function)
        return state.graph.nodes[number].block if state is not None else -1

    # -- what distinguishes a self-test from a script

    def _is_self_test(self, parts: Parts) -> bool:
        words = {word for part in parts for word in self.inference.functions[part].words}
        if any(map(READS_ARGUMENTS.fullmatch, words)):
            return False
        if self._backward_calls.trains.isdisjoint(parts):
            return True
        atoms = frozenset(self._atoms_in(parts))
        return (
            any(isinstance(atom, Symbol) and atom.name in DRAWS for atom in atoms)
            and not any(map(SPEAKS_OF_LOADERS.search, words))
            and not self.inference.hierarchy.gives_batches(atoms)
        )

    def _atoms_in(self, parts: Parts) -> Iterator[Atom]:
        for function, blocks in parts.items():
            state = self.inference.states[function]
            for value, node in zip(state.values, state.graph.nodes, strict=True):
                if node.block in blocks:
                    yield from value

    def _is_imported(self, parts: Parts, path: str) -> bool:
        """Whether other files, tests left out, import the module, and none the functions here."""
        names = {self.inference.functions[part].name for part in parts}
        imported = set(self._imports(path))
        return bool(imported) and imported.isdisjoint(names)

    def _imports(self, path: str) -> Iterator[str | None]:
        """The names that other files, tests left out, import from a module; None for itself."""
        inference, files = self.inference, self.inference.files
        place = PurePath(path)
        stem = place.parent.name if place.stem == "__init__" else place.stem
        for importer in files.holding(stem):
            if importer == path or inference.store.is_from_test(f"{path}::", f"{importer}::"):
                continue
            file = files[importer]
            for node in (n for each in [*file.facts.functions] for n in file.graph(each).nodes):
                if node.op == ops.IMPORT and self._means(importer, node, path):
                    yield node.data[1]

    def _means(self, importer: str, node: Node, path: str) -> bool:
        return path in self.inference.names.imported_files(importer, node.data)


def blocks_of_main(graph: Graph) -> frozenset[int]:
    """The blocks of a module that run where it is the program: `if __name__ == "__main__":`."""
    blocks: set[int] = set()
    for number, block in enumerate(graph.blocks):
        if block.parent in blocks or (block.kind == "if" and asks_for_main(graph, block.node)):
            blocks.add(number)
    return frozenset(blocks)


def asks_for_main(graph: Graph, number: int) -> bool:
    test = graph.nodes[number]
    if test.op != ops.COMPARE or test.data != ("Eq",):
        return False
    sides = [graph.nodes[operand] for operand in test.operands]
    return {side.data for side in sides if side.op in (ops.NAME, ops.CONST)} == {NAME, MAIN}


def is_required(param: Param) -> bool:
    return param.kind in ("positional", "keyword") and not param.has_default
