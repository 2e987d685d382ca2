"""A project as its functions ask about it: who mentions a word, what uses say, who calls whom."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amplint.inference import use_evidence
from amplint.inference.hierarchy import ClassHierarchy
from amplint.inference.observed import ObservedFunctions, region_of, values
from amplint.inference.presumption import PATCHED, Presumption
from amplint.inference.state import Key
from amplint.ir import ops
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.ir.model import FunctionFacts, Graph, Node
from amplint.knowledge import libraries
from amplint.knowledge.vocabulary import IDLE_SCALER, OF_DEVICES, TEST_PATH
from amplint.project.observations import ObservedFunction
from amplint.util.walks import reachable
from amplint.values.atoms import Evidence, Region, Value, evidence_of

# Words that are looked for in each function. After an edit no more are asked for, mostly, and an
# index of all words, which pays for more, takes longer than all else that a new function needs.
FEW = 8


class ProjectFacts(ClassHierarchy):
    """The facts about all functions together, during their evaluation and afterwards."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self._mentions: dict[str, list[str]] | None = None
        self._mentions_asked = 0
        self._calls: dict[frozenset[str], bool] = {}
        self._matches: dict[str, bool] = {}
        self._stored: dict[str, bool] = {}
        self._marks: dict[str, use_evidence.Marks] = {}
        self._given_for_losses: dict[str, frozenset[int]] = {}
        self._backpropagates: dict[str, tuple[str, ...]] = {}
        self._class_marks: dict[str, dict[str, str]] = {}
        self._class_numbers: dict[str, frozenset[str]] = {}
        self._idle_scalers: dict[str, bool] = {}
        self.presumption = Presumption(files, files.assumes_autocast)
        self._observed = ObservedFunctions(files.observed)
        self._observed_values: dict[str, dict[int, Value]] = {}

    def presumed_region(self, function: str, is_ended: bool = False) -> Region | None:
        if function in self.presumption.patching:
            return PATCHED
        facts = self.functions[function]
        region = self.presumption.region
        if is_ended or region is None or not self._is_run_from_outside(facts):
            return None
        if not set(facts.decorated) <= libraries.TRANSPARENT_DECORATORS:
            return None  # a decorator of the project may end the region
        if self.dtype_of_framework(facts, self.joined) == "":
            return None  # the framework that runs it has to open none
        return region

    def region_in(self, function: str, joined: Region | None, is_ended: bool) -> Region | None:
        facts = self.functions[function]
        seen = self.observation(facts)
        if seen is not None and seen.regions:
            return region_of(seen, facts)
        return joined or self.presumed_region(function, is_ended)

    def observation(self, function: FunctionFacts) -> ObservedFunction | None:
        """The observations of a function, if its text is the one that ran."""
        return self._observed.of(function, self.files)

    def observed_region(self, function: str) -> Evidence | None:
        """The run that has shown the region that a function is called in."""
        facts = self.functions[function]
        seen = self.observation(facts)
        region = region_of(seen, facts) if seen is not None else None
        return evidence_of(region.evidence) if region is not None else None

    def observed_values(self, function: FunctionFacts, graph: Graph) -> dict[int, Value]:
        """The values that runs have shown, by node of the function."""
        if function.id not in self._observed_values:
            seen = self.observation(function)
            found = values(seen, function, graph) if seen is not None else {}
            self._observed_values[function.id] = found
        return self._observed_values[function.id]

    def _is_run_from_outside(self, function: FunctionFacts) -> bool:
        """Whether a function is of those that somebody out of sight runs in a training."""
        if function.cls is None:
            return self.presumption.covers(function)
        if not self.presumption.covers(function) and not self.is_run_in_region(function):
            return False
        # Other classes have methods of these names for other ends.
        is_meant = self.is_module(function.cls) or function.name not in ("forward", "message")
        return is_meant and not self.is_autograd_function(function.cls)

    def half_given(self, function: str) -> str | None:
        """The dtype of the activations that callers out of sight hand to a function, where the
        settings take these for half."""
        region = self.presumed_region(function)
        is_given = region is not None and self.presumption.gives_half(self.functions[function])
        return region.dtype if region is not None and is_given else None

    def makes_idle_scaler(self, path: str) -> bool:
        """Whether a file has a GradScaler for the CPU, or one that is switched off."""
        if path not in self._idle_scalers:
            self._idle_scalers[path] = makes_idle_scaler(self.files[path].text)
        return self._idle_scalers[path]

    def mentioning(self, word: str) -> list[str]:
        """The functions in whose text the identifier stands."""
        functions = (each for each in self.own_functions() if each.kind != "class")
        if self._mentions is None and self._mentions_asked < FEW:
            self._mentions_asked += 1
            return [each.id for each in functions if word in each.words]
        if self._mentions is None:
            self._mentions = {}
            for function in functions:
                for mentioned in function.words:
                    self._mentions.setdefault(mentioned, []).append(function.id)
        return self._mentions.get(word, [])

    def is_called(self, names: frozenset[str]) -> bool:
        """Whether code that is no test calls a function of one of these names."""
        if names not in self._calls:
            paths = {path for name in names for path in self.files.holding(name)}
            self._calls[names] = any(
                called_name(node) in names
                for path in sorted(paths)
                if not TEST_PATH.search(path)
                for node in ast.walk(self.files[path].parsed.module)
                if isinstance(node, ast.Call)
            )
        return self._calls[names]

    def matches(self, pattern: str, *words: str) -> bool:
        """Whether the regular expression matches a line of some file; see `text.has_line`."""
        if pattern not in self._matches:
            self._matches[pattern] = any(self.files.matching(pattern, words))
        return self._matches[pattern]

    def is_stored_from_outside(self, attribute: str) -> bool:
        """Whether some file assigns an attribute of that name to something other than `self`."""
        if attribute not in self._stored:
            self._stored[attribute] = any(
                attribute in self.files.own[path].stored_from_outside
                for path in self.files.own_holding(attribute)
            ) or self.files.another_stores(attribute)
        return self._stored[attribute]

    def names_called(self, function: str) -> list[str]:
        """The names that possible callers of a function mention: its own, or its class's."""
        facts = self.functions[function]
        if facts.kind != "function":
            return []
        if facts.cls is not None and facts.name in ("__init__", "__call__", "forward", "__enter__"):
            return [self.classes[c].name for c in (facts.cls, *self.subclasses(facts.cls))]
        return [facts.name]

    def marks_of(self, function: str) -> use_evidence.Marks:
        """The evidence that uses in a function give about its nodes."""
        if function not in self._marks:
            facts = self.functions[function]
            graph = self.files[facts.path].graph(function)
            returns_loss = facts.name in self.files.models.giving_losses
            self._marks[function] = use_evidence.read(graph, facts.name, returns_loss)
        return self._marks[function]

    def backpropagates(self, function: str) -> tuple[str, ...]:
        """The parameters of a function of which it runs the backward pass, by what it says."""
        if function not in self._backpropagates:
            facts = self.functions[function]
            found: list[str] = []
            if "backward" in facts.words:
                marks = self.marks_of(function)
                nodes = marks.graph.nodes
                losses = [n for n in marks.backward if marks.nodes[n] in ("loss", "term")]
                found = [nodes[n].data for n in losses if nodes[n].op == ops.PARAM]
            self._backpropagates[function] = tuple(sorted(found))
        return self._backpropagates[function]

    def given_for_losses(self, function: str) -> frozenset[int]:
        """The nodes of a function that it hands to another one which runs the backward pass of what
        it is given, and the terms of such sums."""
        if function not in self._given_for_losses:
            marks = self.marks_of(function)
            calls = (node for node in marks.graph.nodes if node.op == ops.CALL)
            given = [n for call in calls for n in self._taken_for_losses(function, marks, call)]
            self._given_for_losses[function] = frozenset(reachable(given, marks.addends))
        return self._given_for_losses[function]

    def _taken_for_losses(
        self, function: str, marks: use_evidence.Marks, call: Node
    ) -> Iterator[int]:
        """The arguments that what is called, by its name, backpropagates."""
        cls = self.functions[function].cls
        callee = marks.graph.nodes[call.operands[0]]
        ids: list[str] = []
        if callee.op == ops.NAME:
            ids = self.functions_called(callee.data)
        elif cls is not None and marks.path(call.operands[0]) == f"self.{callee.data}":
            ids = self.methods(cls, callee.data)
        if not ids or call.data.stars:
            return
        for at, number in enumerate(call.positional):
            if all(self._positional(f, at) in self.backpropagates(f) for f in ids):
                yield number
        for keyword, number in call.named:
            if all(keyword in self.backpropagates(f) for f in ids):
                yield number

    def _positional(self, function: str, at: int) -> str | None:
        """The parameter of a function, or of a method that is bound, that is given by place."""
        names = self.functions[function].places
        return names[at] if at < len(names) else None

    def forget_bases(self) -> None:
        super().forget_bases()
        self._given_for_losses.clear()

    def marks_of_class(self, cls: str) -> dict[str, str]:
        """The evidence that the methods of a class give about `self.<field>`, by field."""
        if cls not in self._class_marks:
            found: dict[str, str] = {}
            for ids in self.classes[cls].methods.values():
                for method in ids:
                    if self.functions[method].words & use_evidence.WORDS:
                        for path, kind in self.marks_of(method).paths.items():
                            if path.startswith("self."):
                                found[path[5:]] = kind
            self._class_marks[cls] = found
        return self._class_marks[cls]

    def numbers_of_class(self, cls: str) -> frozenset[str]:
        """The fields that methods of a class use as only numbers can be, by their paths."""
        if cls not in self._class_numbers:
            methods = [method for ids in self.classes[cls].methods.values() for method in ids]
            paths = (path for method in methods for path in self.marks_of(method).number_paths)
            self._class_numbers[cls] = frozenset(
                path[5:] for path in paths if path.startswith("self.")
            )
        return self._class_numbers[cls]

    def decorators(self, function: str) -> Value:
        """The decorators of a function."""
        return self.joined(Key("decorators", function))


def makes_idle_scaler(text: str) -> bool:
    """Whether a file has a GradScaler for the CPU, or one that is switched off."""
    return "GradScaler(" in text and IDLE_SCALER.search(text) is not None


def speaks_of_devices(file: File) -> bool:
    """Whether anything in a file may be moved to a device."""
    return not file.facts.words.isdisjoint(OF_DEVICES)


def called_name(call: ast.Call) -> str:
    """The last identifier of what is called: `f` of `f(x)` and of `module.f(x)`."""
    callee = call.func
    if isinstance(callee, ast.Attribute):
        return callee.attr
    return callee.id if isinstance(callee, ast.Name) else ""
