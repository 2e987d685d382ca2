"""Link: from the facts of all files to settled answers about each."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

from amplint.analyses.backward_reach import Backpropagations
from amplint.analyses.backward_support import Support, Supports
from amplint.analyses.cast_cache import CastCache, Stale
from amplint.analyses.grad_mode import GradMode
from amplint.analyses.hotness import HeatMap
from amplint.analyses.loader_workers import Workers
from amplint.analyses.loop_invariance import LoopInvariance
from amplint.analyses.provenance import Origins
from amplint.analyses.tensor_certainty import TensorCertainty
from amplint.analyses.thread_escape import ThreadWork
from amplint.analyses.traits import is_half
from amplint.core.progress import SILENT, Progress
from amplint.core.values import (
    UNKNOWN,
    Class,
    Heat,
    Instance,
    Place,
    Region,
    Symbol,
    Trait,
    Value,
    Why,
)
from amplint.core.violations import Violation
from amplint.gradscaler.checker import Misuse, Misuses
from amplint.inference import Inference
from amplint.inference.transfer import canonical
from amplint.ir.ast_cache import Standing
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.ir.model import FunctionFacts
from amplint.ir.ssa import where

CALLS_DEEP = 3  # how far the texts of what a call runs are followed


class Program:
    """A project, linked.

    Args:
        files: the files; its own are linked.
        words: the identifiers without which nothing matters: those of the rules, and those that
            make a loop hot. (What findings were asked for is no matter: of a file the same is
            said whichever files are named beside it.)
        progress: to be told how many functions have been evaluated.
    """

    def __init__(self, files: Files, words: frozenset[str], progress: Progress = SILENT) -> None:
        self._files = files
        self._inference = inference = Inference(files)
        progress.at("linking functions", lambda: (len(inference.states), len(inference.functions)))
        own = [file.facts for file in files.own.values() if file.facts.words & words]
        # Modules first: what a class derives from and how a function is decorated changes all that
        # is known in them, and would have them evaluated again.
        self._inference.settle(facts.module for facts in own)
        self._inference.settle(
            function.id
            for facts in own
            for function in facts.functions.values()
            if function.kind != "class" and function.words & words
        )
        # Lambdas are known once the graph of what is around them has been built.
        self._inference.settle(
            function.id
            for facts in own
            for function in list(facts.functions.values())
            if function.kind == "lambda" and function.words & words
        )
        # Class bodies hold defaults and nested calls; they are judged like any other code.
        self._inference.settle(
            cls.id
            for facts in own
            for cls in facts.classes.values()
            if facts.functions[cls.id].words & words
        )
        self._analyses = Analyses(self._inference)

    @property
    def failures(self) -> list[str]:
        """The faults of amplint that cost a function its answers, a sentence each."""
        faults = sorted(self._inference.failures.items())
        return [f"{function.removesuffix('::')}: {fault}" for function, fault in faults]

    @property
    def size(self) -> tuple[int, int]:
        """How many functions there are, and how many of them were evaluated."""
        return len(self._inference.functions), len(self._inference.states)

    def answers(self, path: str) -> FileAnswers:
        """The answers about one file."""
        return FileAnswers(self._files.own[path], self._analyses)


class Analyses:
    """The analyses of a linked project, for all its files. What one finds out is kept."""

    def __init__(self, inference: Inference) -> None:
        self.inference = inference
        self._functions: dict[str, list[FunctionFacts]] = {}  # by file, in their order
        self.heat = inference.surviving("the search for hot code", lambda: HeatMap(inference))
        self.misuses = Misuses(inference)
        self.backprop = Backpropagations(self.heat)
        self.workers = Workers(inference)
        self.origins = Origins(self.heat)
        self.cast_cache = CastCache(self.heat)
        self.invariance = LoopInvariance(inference)
        self.certainty = TensorCertainty(inference)
        self.grad_mode = GradMode(self.heat)
        self.supports = Supports(inference)
        self.thread_work = ThreadWork(inference)

    @cached_property
    def functions_in_regions(self) -> Collection[str]:
        """The functions around which some known chain of callers opens a region."""
        return self.inference.functions_in_regions()

    def last_before(self, place: Place) -> FunctionFacts:
        """The last function of a file that begins no later than on the row of a place."""
        if place.path not in self._functions:
            facts = self.inference.files[place.path].facts
            inner = [each for each in facts.functions.values() if each.kind != "module"]
            ordered = sorted(inner, key=lambda each: each.location)
            self._functions[place.path] = [facts.functions[facts.module], *ordered]
        known = self._functions[place.path]
        after = bisect_right(known, place.row, lo=1, key=lambda each: each.location[0])
        return known[after - 1]

    @cached_property
    def misuse_rows(self) -> Mapping[str, Mapping[Violation, Collection[int]]]:
        """By path and violation: the rows of the calls that are misuses."""
        rows: dict[str, dict[Violation, set[int]]] = {}
        sites = self.inference.surviving("the analysis of scalers", lambda: [*self.misuses.sites()])
        for violation, function, number in sites:
            path = self.inference.functions[function].path
            row = self.inference.states[function].graph.nodes[number].location[0]
            rows.setdefault(path, {}).setdefault(violation, set()).add(row)
        return rows


class FileAnswers:
    """`amplint.analyses.answers.Answers` for one file, about the nodes of `module`."""

    def __init__(self, file: File, analyses: Analyses) -> None:
        self._file = file
        parsed = file.placed()
        self.module = parsed.module
        self._node_of = parsed.node_of
        self._analyses = analyses
        self._inference = analyses.inference
        self._readers: dict[tuple[str, int], list[ast.expr]] | None = None
        self._joins: dict[str, frozenset[int]] = {}

    def _place(self, node: ast.AST) -> Standing | None:
        place = self._node_of.get(node)
        return place if place is not None and place.function in self._inference.states else None

    def value(self, node: ast.expr) -> Value:
        """What the expression evaluates to."""
        place = self._place(node)
        if place is None:
            return UNKNOWN
        return self._inference.states[place.function].values[place.node] or UNKNOWN

    def surely_tensor(self, node: ast.expr) -> bool:
        """Whether the tensor that the expression is known to be is one by more than a guess."""
        place = self._place(node)
        return place is not None and self._analyses.certainty.is_tensor(*place[:2])

    def is_constant(self, node: ast.expr) -> bool:
        """Whether the expression is of the host, and has the same value in every iteration."""
        place = self._place(node)
        return place is not None and self._analyses.invariance.is_constant(*place[:2])

    def built_of_constants(self, node: ast.expr) -> Place | None:
        """Where the list of constants becomes a tensor from which alone the value is computed."""
        place = self._place(node)
        if place is None:
            return None
        return self._analyses.invariance.built_of_constants(*place[:2])

    def name(self, node: ast.expr) -> str | None:
        """The dotted name of the library object that the expression certainly is."""
        value = self.value(node)
        if len(value) != 1:
            return None
        (atom,) = value
        return canonical(atom.name) if isinstance(atom, Symbol) else None

    def traits(self) -> Sequence[tuple[int, int, frozenset[Trait]]]:
        """Of each function: its rows, first and last, and the traits of the places in it."""
        return self._inference.surviving("the analysis of what runs where", self._traits)

    def _traits(self) -> Sequence[tuple[int, int, frozenset[Trait]]]:
        return [
            (facts.location[0], facts.location[2], frozenset(self._traits_of(identity)))
            for identity, facts in self._file.facts.functions.items()
            if identity in self._inference.states
        ]

    def _traits_of(self, function: str) -> Iterator[Trait]:
        state = self._inference.states[function]
        if self._analyses.heat.is_hot(function):
            yield Trait.HOT
        if any(region is not None for region in state.regions.values()):
            yield Trait.REGION
        if any(map(is_half, set(state.values))):
            yield Trait.HALF
        if self._analyses.workers.runs(function):
            yield Trait.WORKER

    def misuse_rows(self) -> Mapping[Violation, Collection[int]]:
        """By violation, the rows of the calls that `misuses` has something about."""
        return self._analyses.misuse_rows.get(self._file.path, {})

    def heat(self, node: ast.AST) -> Heat | None:
        """Why the node runs for every batch."""
        place = self._place(node)
        return self._analyses.heat.heat(place.function, place.block) if place is not None else None

    def region(self, node: ast.AST) -> Region | None:
        """The innermost autocast region around the node."""
        place = self._place(node)
        if place is None:
            return None
        return self._inference.states[place.function].regions.get(place.block)

    def is_outside(self, node: ast.AST) -> bool:
        """Whether the node stands in no region, whichever of the known callers calls."""
        place = self._place(node)
        if place is None:
            return False
        region = self._inference.states[place.function].regions.get(place.block)
        if region is not None:
            return region.enabled is False and not region.inherited
        return place.function not in self._analyses.functions_in_regions

    def backward(self, call: ast.Call) -> tuple[Why, ...] | None:
        """The chain of places from the call to the `backward()` that it runs."""
        place = self._place(call)
        known = self._analyses.heat.backward_calls
        return known.chain(place.function, place.node) if place is not None else None

    def backpropagated(self, node: ast.expr, itself: bool = False) -> Why | None:
        """Where what the expression holds, or is computed of, goes through a backward pass."""
        place = self._place(node)
        if place is None:
            return None
        known = self._analyses.backprop
        return known.given(*place[:2]) if itself else known.why(*place[:2])

    def support(self, call: ast.Call) -> Support:
        """What the forward work behind a backward pass in a region is known to be."""
        place = self._place(call)
        if place is None:
            return Support(None, None, None, False)
        return self._analyses.supports.of(place.function, place.node)

    def thread_work(self, call: ast.Call) -> Why | None:
        """Where what the call hands to another thread multiplies."""
        place = self._place(call)
        return self._analyses.thread_work.products(*place[:2]) if place is not None else None

    def stale(self, context: ast.expr) -> Stale | None:
        """The weights that change within the autocast region which a `with` or a decorator opens,
        and are used in it again."""
        place = self._place(context)
        if place is None:
            return None
        return self._analyses.cast_cache.of_context(place.function, place.node, where(context))

    def misuses(self, call: ast.Call) -> Sequence[Misuse]:
        """What is wrong with a call on the paths of a training step with a scaler."""
        place = self._place(call)
        return self._analyses.misuses.at(place.function, place.node) if place is not None else ()

    def bases(self, node: ast.expr) -> frozenset[str]:
        """The library classes that the class of the project, or its instance, derives from."""
        return frozenset(
            name
            for atom in self.value(node)
            if isinstance(atom, Class | Instance)
            for name in self._inference.library_bases(
                atom.id if isinstance(atom, Class) else atom.cls
            )
        )

    def replicated(self, node: ast.expr) -> Why | None:
        """Where the module that the expression is may have been wrapped by `nn.DataParallel`."""
        place = self._place(node)
        return self._analyses.origins.replicated(*place[:2]) if place is not None else None

    def run_by_workers(self, node: ast.AST) -> tuple[Why, ...] | None:
        """If the node runs in the worker processes of a loader: the chain that leads to it."""
        place = self._place(node)
        return self._analyses.workers.chain(place.function) if place is not None else None

    def may_be_without_grad(self, node: ast.AST) -> bool:
        """Whether gradients may be off where the node runs, by what is around it or a caller."""
        place = self._place(node)
        return place is None or GradMode(self._analyses.heat).may_be_off(
            place.function, place.block
        )

    def moved_to_device(self, loader: ast.Call) -> Why | None:
        """Where a batch of a loader that does not pin them is moved to the device."""
        return self._analyses.origins.moved(Place(self._file.path, *where(loader)))

    def class_bases(self, cls: ast.ClassDef) -> frozenset[str]:
        """The library classes that a class derives from."""
        identity = self._class(cls)
        return frozenset(self._inference.library_bases(identity) if identity is not None else ())

    def class_mentions(self, cls: ast.ClassDef, word: str) -> bool:
        """Whether a class, one that it derives from, or one that derives from it, holds a word."""
        identity, infer = self._class(cls), self._inference
        if identity is None:
            return False
        family = (*infer.mro(identity), *infer.subclasses(identity))
        return any(word in infer.functions[each].words for each in family)

    def is_stored_from_outside(self, attribute: str) -> bool:
        """Whether some file assigns an attribute of that name to something other than `self`."""
        return self._inference.is_stored_from_outside(attribute)

    def _class(self, cls: ast.ClassDef) -> str | None:
        location = where(cls)
        classes = self._file.facts.classes.values()
        return next((facts.id for facts in classes if facts.location == location), None)

    def is_module(self, node: ast.expr) -> bool:
        """Whether the expression is a torch module of the project, or what is mixed into one."""
        infer = self._inference
        classes = {atom.cls for atom in self.value(node) if isinstance(atom, Instance)}
        return bool(classes) and all(
            infer.is_module(cls) or any(map(infer.is_module, infer.subclasses(cls)))
            for cls in classes
        )

    def mentions(self, *words: str) -> bool:
        """Whether some file of the project holds all these identifiers."""
        return any(self._inference.files.holding(*words))

    def is_called(self, *names: str) -> bool:
        """Whether code of the project that is no test calls a function of one of these names."""
        return self._inference.is_called(frozenset(names))

    def matches(self, pattern: str) -> bool:
        """Whether the regular expression matches a line of some file of the project."""
        return self._inference.matches(pattern)

    def text_around(self, place: Place) -> str:
        """The text of the innermost function around a place, in whatever file."""
        return self._text(self._function_at(place))

    def bases_at(self, place: Place) -> frozenset[str]:
        """The library classes that the class of the method around a place derives from."""
        cls = self._function_at(place).cls
        return frozenset(self._inference.library_bases(cls) if cls is not None else ())

    def _function_at(self, place: Place) -> FunctionFacts:
        """The innermost function around a place, in whatever file."""
        functions = self._inference.files[place.path].facts.functions
        facts = self._analyses.last_before(place)
        while facts.parent is not None and facts.location[2] < place.row:
            facts = functions[facts.parent]
        return facts

    def called_texts(self, call: ast.Call) -> Sequence[str]:
        """The texts of the functions of the project that the call runs, a few calls deep, with the
        names of their decorators."""
        place = self._place(call)
        if place is None:
            return ()
        edges, functions = self._inference.edges, self._inference.functions
        reached: list[str] = sorted(edges.get((place.function, place.node), ()))
        new = reached
        for _ in range(CALLS_DEEP):
            deeper = {
                callee
                for caller in new
                if (state := self._inference.states.get(caller)) is not None
                for number in range(len(state.graph.nodes))
                for callee in edges.get((caller, number), ())
            }
            new = sorted(deeper - set(reached))
            reached = [*reached, *new]
        return [
            "\n".join([*functions[function].decorated, self._text(functions[function])])
            for function in reached
        ]

    def _text(self, facts: FunctionFacts) -> str:
        lines = self._inference.files[facts.path].lines
        if facts.kind == "module":
            return "\n".join(lines)
        return "\n".join(lines[facts.location[0] - 1 : facts.location[2]])

    def uses(self, node: ast.expr) -> Sequence[ast.expr]:
        """The expressions that read the value of `node`, by data flow within its function."""
        place = self._place(node)
        if place is None:
            return ()
        if self._readers is None:
            self._readers = {}
            for reader, where in self._node_of.items():
                if isinstance(reader, ast.Name) and isinstance(reader.ctx, ast.Load):
                    self._readers.setdefault(where[:2], []).append(reader)
        return [reader for reader in self._readers.get(place[:2], ()) if reader is not node]

    def parameter(self, node: ast.expr) -> str | None:
        """The parameter whose value the expression certainly is."""
        place = self._place(node)
        if place is None:
            return None
        nodes = self._inference.states[place.function].graph.nodes
        at = nodes[place.node]
        while at.op == "narrow":
            at = nodes[at.operands[0]]
        return str(at.data) if at.op == "param" else None

    def joined(self, node: ast.expr) -> bool:
        """Whether the value may be one of several at some place that reads it."""
        place = self._place(node)
        if place is None:
            return True
        nodes = self._inference.states[place.function].graph.nodes
        return any(place.node in nodes[join].operands for join in self._read_joins(place.function))

    def _read_joins(self, function: str) -> frozenset[int]:
        """The nodes that join or narrow values, and that something reads.

        A loop joins what its body binds whether or not anybody reads the name in the next round.
        """
        if function not in self._joins:
            graph = self._inference.states[function].graph
            joins = {n for n, node in enumerate(graph.nodes) if node.op in JOINS}
            found = {block.node for block in graph.blocks}
            found.update(n for node in graph.nodes if node.op not in JOINS for n in node.operands)
            found.update(at.node for at in self._node_of.values() if at.function == function)
            stack = list(found & joins)
            read = set(stack)
            while stack:
                more = joins & set(graph.nodes[stack.pop()].operands) - read
                read |= more
                stack.extend(more)
            self._joins[function] = frozenset(read)
        return self._joins[function]


JOINS = frozenset({"phi", "narrow"})
