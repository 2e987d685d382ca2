"""The autocast region that is presumed around functions which no training is seen to call.

A library's modules and losses are called by its users, and an engine's training step by the engine:
the region around them is out of sight. Where the project itself shows that it trains under
autocast, such a function is presumed to run in one. What is found on this presumption says so, and
names the sign.

A call that is seen in a training ends the presumption: see `inference/training.py`. Where the
settings ask for it, as authors of libraries do, nothing ends it, and what is handed to such a
function by callers out of sight is half, if it is an activation (see `activations.py`).

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
    NO_LOSS,
    OPENS_FLOAT16,
    SPEAKS_OF_BFLOAT16,
    TEST_PATH,
    TRAINS_IN_FLOAT16,
    TRAINS_UNDER_AUTOCAST,
)
from amplint.util.positions import Place
from amplint.values.atoms import Evidence, Region, Shows

# Calls of `apex.amp.initialize`, as they are written; and the words in them.
INITIALIZING = frozenset({"amp.initialize", "apex.amp.initialize"})
PATCHING = frozenset({"amp", "initialize"})
PATCHED = Region("cuda", "float16", True, inherited=True, presumed=True)


class Presumption:
    """The region that is presumed, and why.

    Args:
        files: of the project; what other parts of it show does not count.
        wished: whether the settings want a region presumed; None to go by the signs.
    """

    def __init__(self, files: Files, wished: bool | None) -> None:
        self._files = files
        self._wished = wished

    @cached_property
    def region(self) -> Region | None:
        """The region; None where nothing is presumed."""
        if self._wished is False or (self._wished is None and self.sign is None):
            return None
        return Region("cuda", self._dtype, True, inherited=True, presumed=True)

    @property
    def is_any(self) -> bool:
        """Whether a region is presumed around any function."""
        return self.region is not None or bool(self.patching)

    @property
    def is_audited(self) -> bool:
        """Whether the settings ask for it."""
        return self._wished is True

    @property
    def _dtype(self) -> str:
        """The dtype of the region. Who wishes for one gets that of `torch.autocast("cuda")`, unless
        the project speaks of bfloat16."""
        texts = [self._files.own[path].text for path in self._paths]
        if show(texts, [*TRAINS_IN_FLOAT16.items(), *self._files.models.shows_float16]):
            return "float16"
        if any(word in text for text in texts for word in SPEAKS_OF_BFLOAT16):
            return "half"
        if show(texts, OPENS_FLOAT16.items()):
            return "float16"
        return DEFAULT_DTYPES["cuda"] if self._wished else "half"

    @property
    def key(self) -> tuple[str, ...]:
        """All that decides what is presumed, besides the functions themselves."""
        dtype = self.region.dtype if self.region is not None else None
        return str(self._wished), str(dtype), *sorted(self.patching)

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
        text = "`assume-autocast` assumes a region here"
        return Evidence(Place(function.path, *function.location), text, Shows.SETTINGS)

    @cached_property
    def patching(self) -> Mapping[str, Evidence]:
        """The functions that have apex replace the functions of torch, and where."""
        evidence: dict[str, Evidence] = {}
        for path in self._paths:
            file = self._files.own[path]
            if "apex" not in file.text:
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
        if function.cls is not None:
            return function.name in CALLED_FROM_OUTSIDE or self.gives_half(function)
        return is_loss(function)

    def gives_half(self, function: FunctionFacts) -> bool:
        """Whether what somebody out of sight hands to a function is half, by its name."""
        is_given = function.cls is not None and function.name in GIVEN_ACTIVATIONS
        return self.is_audited and (is_given or is_loss(function))

    def _speaks_of(self, packages: tuple[str, ...]) -> bool:
        """Whether the project names one of some packages; of none, whether there is nothing to."""
        texts = (file.text for file in self._files.own.values())
        return not packages or any(package in text for text in texts for package in packages)

    @property
    def _paths(self) -> Iterator[str]:
        return (path for path in sorted(self._files.own) if not TEST_PATH.search(path))

    def _signs(self) -> Iterator[Evidence]:
        general = [Sign(part, pattern) for part, pattern in TRAINS_UNDER_AUTOCAST.items()]
        for part, pattern, packages in [*general, *self._files.models.signs]:
            for path in self._paths:
                file = self._files.own[path]
                if part in file.text and pattern.search(file.text) and self._speaks_of(packages):
                    text = "\n".join(file.uncommented)
                    for match in pattern.finditer(text):
                        place = place_of(path, text, *match.span(match.lastindex or 0))
                        yield Evidence(place, "this suggests it", Shows.SIGN)


def is_loss(function: FunctionFacts) -> bool:
    """Whether a function of a module computes a loss, by its name."""
    is_of_module = function.parent is not None and function.parent.endswith("::")
    name = function.name
    return is_of_module and bool(COMPUTES_LOSS.search(name)) and not NO_LOSS.match(name)


def show(texts: Iterable[str], signs: Collection[tuple[str, Pattern[str]]]) -> bool:
    """Whether one of some signs stands in one of some texts.

    Args:
        signs: each a part of the text, and the pattern that it begins or is in.
    """
    return any(part in text and pattern.search(text) for text in texts for part, pattern in signs)


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
