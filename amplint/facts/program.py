"""Link: from the facts of all files to a project whose facts can be asked for."""

from __future__ import annotations

import ast
from collections.abc import Callable

from amplint.facts.data_flow import DataFlow
from amplint.facts.fact import Answer_co, Facts, Known, NodeFact
from amplint.facts.inference_results import Values
from amplint.facts.limits import VALUES, Limited
from amplint.inference import Inference
from amplint.inference.components import complete
from amplint.inference.fixpoint import solve
from amplint.ir.ast_cache import NodePlace
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.ir.model import FunctionFacts
from amplint.project.modes import Assumption, Mode
from amplint.util.progress import SILENT, Progress
from amplint.values.atoms import UNKNOWN, Value

Link = Callable[[Files, Progress], Inference]


class Program:
    """A project, linked.

    Args:
        files: the files; its own are linked.
        progress: informed how many functions have been evaluated.
        link: returns the values of all functions.
        facts: returns the facts that rest on these.
    """

    def __init__(
        self,
        files: Files,
        progress: Progress = SILENT,
        link: Link | None = None,
        facts: Callable[[Inference], Facts] = Facts,
    ) -> None:
        self._files = files
        self._inference = (link or linked)(files, progress)
        self.facts = facts(self._inference)

    @property
    def failures(self) -> list[str]:
        """The faults of amplint that cost a function its answers, a sentence each."""
        faults = sorted(self._inference.failures.items())
        return [f"{function.removesuffix('::')}: {fault}" for function, fault in faults]

    @property
    def limited(self) -> Limited:
        """The functions that reached a limit of inference."""
        return {VALUES: tuple(self._inference.unsettled)}

    def about(self, path: str) -> FileView:
        """The facts about one file."""
        return FileView(self._files.own[path], self.facts)


def linked(files: Files, progress: Progress = SILENT) -> Inference:
    """The values of all functions, computed from nothing."""
    inference = Inference(files)
    progress.at("linking functions", lambda: (len(inference.states), len(inference.functions)))
    own = [file.facts for file in files.own.values()]
    # Modules first: what a class derives from and how a function is decorated changes all that
    # is known in them, and would have them evaluated again.
    solve(inference, [facts.module for facts in own])
    functions = [each for facts in own for each in facts.functions.values()]
    solve(inference, [each.id for each in functions if each.kind != "class"])
    # Lambdas are known once the graph of what is around them has been built.
    functions = [each for facts in own for each in facts.functions.values()]
    solve(inference, [each.id for each in functions if each.kind == "lambda"])
    # Class bodies hold defaults and nested calls; they are judged like any other code.
    solve(inference, [cls.id for facts in own for cls in facts.classes.values()])
    complete(inference)
    return inference


class FileView:
    """The facts of a project, asked for about the nodes of one file's `ast`.

    `module`: the tree whose nodes are known; another one of the same text has other nodes.
    """

    def __init__(self, file: File, facts: Facts) -> None:
        self._file = file
        self._facts = facts
        placed = file.placed()
        self.path = file.path
        self.module = placed.module
        self.flow = DataFlow(facts.inference, placed)

    def fact(self, kind: type[Known]) -> Known:
        """A fact of the project."""
        return self._facts[kind]

    def at(self, node: ast.AST | NodePlace) -> NodePlace | None:
        """Where a node stands in the value graph of an evaluated function."""
        return node if isinstance(node, NodePlace) else self.flow.at(node)

    def ask(self, kind: type[NodeFact[Answer_co]], node: ast.AST | NodePlace) -> Answer_co | None:
        """The answer of a fact about a node; None where nothing is known of it."""
        at = self.at(node)
        return self._facts[kind].of(at) if at is not None else None

    @property
    def mode(self) -> Mode | None:
        """The mode that the settings assume of callers out of sight, if they do."""
        presumes = self._facts.inference.files.presumes
        return presumes.mode if isinstance(presumes, Assumption) else None

    def function(self, identity: str) -> FunctionFacts:
        """The record of one of the file's functions; of the module where there is none."""
        facts = self._file.facts
        return facts.functions.get(identity) or facts.functions[facts.module]

    def value(self, node: ast.AST) -> Value:
        """The value of an expression."""
        return self.ask(Values, node) or UNKNOWN
