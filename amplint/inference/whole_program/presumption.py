"""The autocast region that is presumed around functions which no training is seen to call.

A library's modules and losses are called by its users, and an engine's training step by the engine:
the region around them is out of sight. Where the project itself shows that it trains under
autocast, such a function is presumed to run in one. What is found on this presumption says so, and
names the sign.

A call that is seen in a training ends the presumption: see `inference/training.py`. Where the
settings assume a mode, as authors of libraries do, nothing ends it, it is presumed of all that a
user may call, and what these callers hand in is half or float32 (see `activations.py`).

A function that hands a model to `apex.amp.initialize` is presumed to run in such a region itself,
called or not: apex replaces the functions of torch by ones that cast, as autocast does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from re import Pattern

from amplint.frameworks.models import Sign
from amplint.ir import ops
from amplint.ir.file_set import Files
from amplint.ir.model import FunctionFacts, Graph, Node, path_of
from amplint.knowledge.libraries import DEFAULT_DTYPES
from amplint.knowledge.vocabulary import (
    CALLED_FROM_OUTSIDE,
    COMPUTES_LOSS,
    EVALUATION_PATH,
    GIVEN_ACTIVATIONS,
    METRIC_METHODS,
    NO_LOSS,
    OPENS_FLOAT16,
    SHOWING_PATH,
    SPEAKS_OF_BFLOAT16,
    SPEAKS_OF_FLOAT16,
    TEST_PATH,
    TRAINING_STEPS,
    TRAINS,
    TRAINS_IN_FLOAT16,
    TRAINS_UNDER_AUTOCAST,
)
from amplint.project.modes import Assumption
from amplint.util.positions import Place
from amplint.util.text import code_says
from amplint.values.atoms import Evidence, Region, Shows

# Calls of `apex.amp.initialize`, as they are written; and the words in them.
INITIALIZING = frozenset({"amp.initialize", "apex.amp.initialize"})
PATCHING = frozenset({"amp", "initialize"})
PATCHED = Region("cuda", "float16", True, inherited=True, presumed=True)


class Presumption:
    """The region that is presumed, and why.

    Args:
        files: of the project; what other parts of it show does not count.
        presumes: see `Files`.
    """

    def __init__(self, files: Files, presumes: Assumption | bool) -> None:
        self._files = files
        self._by_signs = presumes is True
        self.assumption = presumes if isinstance(presumes, Assumption) else None

    @cached_property
    def region(self) -> Region | None:
        """The region; None where nothing is presumed."""
        if self.assumption is not None:
            is_any = self.assumption.mode.is_region
        else:
            is_any = self._by_signs and self.sign is not None
        return Region("cuda", self._dtype, True, inherited=True, presumed=True) if is_any else None

    @cached_property
    def dtype_of_modules(self) -> str | None:
        """The dtype that callers have cast modules to, where the settings assume it."""
        is_cast = self.assumption is not None and not self.assumption.mode.is_region
        return self._dtype if is_cast else None

    @cached_property
    def dtype_of_inputs(self) -> str | None:
        """The dtype of the floating-point numbers that callers out of sight hand in, where the
        settings assume one."""
        if self.assumption is None:
            return None
        return self._dtype if self.assumption.has_half_inputs else "float32"

    @property
    def is_any(self) -> bool:
        """Whether a region is presumed around any function."""
        return self.region is not None or bool(self.patching)

    @property
    def is_audited(self) -> bool:
        """Whether the settings ask for it."""
        return self.assumption is not None

    @cached_property
    def _dtype(self) -> str:
        """The half dtype: that of the mode. If this leaves it to the project, it is that of
        `torch.autocast("cuda")`, unless the project speaks of bfloat16 alone."""
        if self.assumption is not None and self.assumption.mode.dtype:
            return self.assumption.mode.dtype
        texts = [self._files.own[path].text for path in self._paths]
        is_bfloat16 = any(code_says(text, word) for text in texts for word in SPEAKS_OF_BFLOAT16)
        if self.assumption is not None:
            is_float16 = any(code_says(text, "", SPEAKS_OF_FLOAT16) for text in texts)
            return "bfloat16" if is_bfloat16 and not is_float16 else DEFAULT_DTYPES["cuda"]
        if show(texts, [*TRAINS_IN_FLOAT16.items(), *self._files.models.shows_float16]):
            return "float16"
        if is_bfloat16:
            return "half"
        if show(texts, OPENS_FLOAT16.items()):
            return "float16"
        return "half"

    @property
    def key(self) -> tuple[str, ...]:
        """All that decides what is presumed, besides the functions themselves."""
        dtype = self.region.dtype if self.region is not None else None
        whose = (self.assumption, self._by_signs, dtype, self.dtype_of_inputs)
        return *map(str, whose), *sorted(self.patching)

    @cached_property
    def sign(self) -> Evidence | None:
        """The plainest sign in its files, if there is one."""
        return next(self._signs(), None)

    def evidence(self, function: FunctionFacts) -> Evidence:
        """Why a region is presumed around a function."""
        if function.id in self.patching:
            return self.patching[function.id]
        if self.sign is not None and not self.is_audited:
            return self.sign
        text = "the settings assume a region here"
        return Evidence(Place(function.path, *function.location), text, Shows.SETTINGS)

    @cached_property
    def patching(self) -> Mapping[str, Evidence]:
        """The functions that have apex replace the functions of torch, and where."""
        evidence: dict[str, Evidence] = {}
        for path in self._paths:
            file = self._files.own[path]
            if "apex" not in file.facts.words:
                continue
            # A graph adds the lambdas in it to the functions of the file.
            for identity, facts in list(file.facts.functions.items()):
                if facts.kind == "lambda" or not facts.words >= PATCHING:
                    continue
                graph = file.graph(identity)
                for call in graph.nodes:
                    if patches(graph, call):
                        place = Place(path, *call.location)
                        evidence[identity] = Evidence(place, "this suggests it", Shows.SIGN)
        return evidence

    def covers(self, function: FunctionFacts) -> bool:
        """Whether somebody out of sight may call a function, by its name."""
        path = function.path
        if function.kind != "function" or TEST_PATH.search(path) or EVALUATION_PATH.search(path):
            return False
        return self.is_called_by_name(function) or self.is_offered(function)

    def is_called_by_name(self, function: FunctionFacts) -> bool:
        """Whether the name of a function says that it is called for every batch of training."""
        if function.cls is None:
            return is_loss(function)
        return function.name in CALLED_FROM_OUTSIDE or (
            self.is_audited and function.name in GIVEN_ACTIVATIONS | METRIC_METHODS
        )

    def is_offered(self, function: FunctionFacts) -> bool:
        """Whether users may call a function, by its name, where the settings ask about these. What
        runs a backward pass is a program's and not a library's."""
        if not self.is_audited or SHOWING_PATH.search(function.path):
            return False
        if function.cls is not None and function.name in GIVEN_ACTIVATIONS:
            return True
        names = function.qualname.removesuffix(".__call__").split(".")
        is_public = not any(name.startswith("_") for name in names)
        is_within = function.cls is None and not is_of_module(function)
        is_step = function.name in TRAINING_STEPS
        return is_public and not (is_within or is_step or function.words & TRAINS)

    def _speaks_of(self, packages: tuple[str, ...]) -> bool:
        """Whether the project names one of some packages; of none, whether there is nothing to."""
        texts = (file.text for file in self._files.own.values())
        return not packages or any(code_says(text, each) for text in texts for each in packages)

    @property
    def _paths(self) -> Iterator[str]:
        return (path for path in sorted(self._files.own) if not TEST_PATH.search(path))

    def _signs(self) -> Iterator[Evidence]:
        general = [Sign(part, pattern) for part, pattern in TRAINS_UNDER_AUTOCAST.items()]
        for part, pattern, packages in [*general, *self._files.models.signs]:
            for path in self._paths:
                file = self._files.own[path]
                if code_says(file.text, part, pattern) and self._speaks_of(packages):
                    text = "\n".join(file.code)
                    for match in pattern.finditer(text):
                        place = place_of(path, text, *match.span(match.lastindex or 0))
                        yield Evidence(place, "this suggests it", Shows.SIGN)


def is_loss(function: FunctionFacts) -> bool:
    """Whether a function of a module computes a loss, by its name."""
    name = function.name
    return is_of_module(function) and bool(COMPUTES_LOSS.search(name)) and not NO_LOSS.match(name)


def is_of_module(function: FunctionFacts) -> bool:
    """Whether a function is defined in a module, and in no function or class."""
    return function.parent is not None and function.parent.endswith("::")


def show(texts: Iterable[str], signs: Collection[tuple[str, Pattern[str]]]) -> bool:
    """Whether one of some signs stands in the code of one of some texts.

    Args:
        signs: each a part of the text, and the pattern that it begins or is in.
    """
    return any(code_says(text, part, pattern) for text in texts for part, pattern in signs)


def place_of(path: str, text: str, start: int, end: int) -> Place:
    """The place of a part of a text of which each line ends with one character."""
    row, column, end_row, end_column = (
        count
        for before in (text[:start], text[:end])
        for count in (before.count("\n") + 1, len(before.rpartition("\n")[2].encode()))
    )
    return Place(path, row, column, end_row, end_column)


def patches(graph: Graph, call: Node) -> bool:
    """Whether apex replaces the functions of torch here: at the level O1, its default.

    https://nvidia.github.io/apex/amp.html#opt-levels
    """
    if call.op != ops.CALL or path_of(graph, call.operands[0]) not in INITIALIZING:
        return False
    level = call.argument(3, "opt_level")
    return level < 0 or graph.nodes[level].data == "O1"
