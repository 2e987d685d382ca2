"""Conditions on nodes of the value graph, without which a rule cannot speak.

A condition is a union of ways. A way says which operations it is about, what the function must be
known to hold, and tests that the node has to pass; a rule writes it as
`calls("torch.cuda.empty_cache") & HOT`. It is necessary, not sufficient: a node that a check finds
something about meets its condition, but a node that meets it need not lead to a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from amplint.facts.trait import Trait
from amplint.ir.ops import NAMES

if TYPE_CHECKING:  # a run from the cache imports this, and no values
    from amplint.values.atoms import Atom
    from amplint.view.evaluated_node import EvaluatedNode

Test = Callable[["EvaluatedNode"], bool]
SHOWN = 3  # names in a sentence


@dataclass(frozen=True)
class Way:
    """One way in which a node can be a candidate.

    Args:
        ops: the operations (`amplint.ir.model.Node`, `amplint.view.evaluated_node`) that it is
            about; None for any.
        names: of calls: the names of which the callee has one; None for any.
        kinds: of calls: the kinds of which the callee may be one; None for any.
        traits: what the function has to hold.
        symbols: the library names of which something in the function has to be one; None for any.
        tests: what the node has to pass, the cheapest first.
    """

    ops: frozenset[str] | None = None
    names: frozenset[str] | None = None
    kinds: frozenset[type[Atom]] | None = None
    traits: frozenset[Trait] = frozenset()
    symbols: frozenset[str] | None = None
    tests: tuple[Test, ...] = ()

    @property
    def of_callees(self) -> Collection[str] | Collection[type[Atom]] | None:
        """The names or the kinds of callees that it is about; None for any."""
        return self.names if self.names is not None else self.kinds

    def holds(self, here: EvaluatedNode) -> bool:
        """Whether a node passes the tests."""
        for test in self.tests:  # noqa: SIM110 - this is asked of every node of a project
            if not test(here):
                return False
        return True

    def lacking(
        self,
        op: str,
        here: EvaluatedNode,
        traits: frozenset[Trait],
        symbols: frozenset[str],
    ) -> list[str] | None:
        """The conditions that a node does not meet, in words; None where it is not of the operation
        and the name that this way is about.

        Args:
            op: its operation.
            traits, symbols: of its function.
        """
        if self.ops is not None and op not in self.ops:
            return None
        if self.names is not None and self.names.isdisjoint(here.names):
            return None
        if self.kinds is not None and self.kinds.isdisjoint(map(type, here.callees)):
            return None
        lacking = [trait.value for trait in Trait if trait in self.traits - traits]
        if self.symbols is not None and self.symbols.isdisjoint(symbols):
            lacking.append(f"nothing in this function is {one_of(self.symbols)}")
        return [*lacking, *(failure(test) for test in self.tests if not test(here))]

    def __and__(self, other: Way) -> Way:
        if self.of_callees is not None and other.of_callees is not None:
            raise ValueError("a call has one list of names, or of kinds")
        if self.symbols is not None and other.symbols is not None:
            raise ValueError("a function has one list of symbols")
        both = self.ops is not None and other.ops is not None
        # Where a node stands is asked first: that costs less than to ask what it is.
        first, second = (other, self) if other.ops is None else (self, other)
        return Way(
            (self.ops or frozenset()) & (other.ops or frozenset())
            if both
            else self.ops or other.ops,
            self.names if self.names is not None else other.names,
            self.kinds if self.kinds is not None else other.kinds,
            self.traits | other.traits,
            self.symbols if self.symbols is not None else other.symbols,
            (*first.tests, *second.tests),
        )


def failure(test: Test) -> str:
    """The words for a node that fails a test: those that the test was given, else its name and
    where it is written; a lambda has no other."""
    if "words" in test.__dict__:
        return str(test.__dict__["words"])
    code = test.__code__
    name = test.__name__.strip("_<>").replace("_", " ")
    return f"{name} fails ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})"


def one_of(names: Collection[str]) -> str:
    """Ex) `a` or `b`; of more than three, how many others there are."""
    texts = [f"`{name}`" for name in sorted(names)]
    rest = len(texts) - SHOWN
    return " or ".join(texts) if rest <= 0 else f"{', '.join(texts[:SHOWN])} or one of {rest} more"


def failing(words: str) -> Callable[[Test], Test]:
    """Give a test words for what is said of a node that fails it. (An object around it would be one
    more call for each node of a project.)"""

    def mark(test: Test) -> Test:
        test.__dict__["words"] = words
        return test

    return mark


@dataclass(frozen=True)
class Candidates:
    """The candidates of a rule: the nodes for which one of the ways holds."""

    ways: tuple[Way, ...] = field(default=())

    def __and__(self, other: Candidates | Test) -> Candidates:
        if not isinstance(other, Candidates):
            return Candidates(tuple(replace(w, tests=(*w.tests, other)) for w in self.ways))
        return Candidates(tuple(one & two for one in self.ways for two in other.ways))

    def __or__(self, other: Candidates) -> Candidates:
        return Candidates((*self.ways, *other.ways))


def nodes(*ops: str) -> Candidates:
    """The nodes of these operations. Raises ValueError for what is none."""
    unknown = {*ops} - NAMES
    if unknown:
        raise ValueError(f"no operation is called {min(unknown)!r} (docs/own-rules.md lists them)")
    return Candidates((Way(ops=frozenset(ops)),))


def calls(*names: str) -> Candidates:
    """The calls of what has one of these names: "torch.zeros", "builtins.print", "Tensor.item",
    "torch.nn.Linear" (an instance of it), and ".item" (whatever is written so).

    Raises ValueError for a name without a dot, which nothing has.
    """
    for name in names:
        if "." not in name:
            raise ValueError(
                f'nothing is called {name!r}: a builtin is "builtins.{name}", a method ".{name}"'
            )
    return Candidates((Way(ops=frozenset({"call"}), names=frozenset(names)),))


def calls_of(*kinds: type[Atom]) -> Candidates:
    """The calls of what may be of one of these kinds: `Function`, `Class` and `Instance` are what
    the project defines itself, and most calls are of something else."""
    return Candidates((Way(ops=frozenset({"call"}), kinds=frozenset(kinds)),))


def calls_with(*keywords: str) -> Candidates:
    """The calls that are given an argument by one of these keywords."""
    names = frozenset(keywords)

    @failing(f"this is not given {one_of([f'{name}=' for name in names])}")
    def holds(here: EvaluatedNode) -> bool:
        return not names.isdisjoint(here.node.data.keywords)

    return Candidates((Way(ops=frozenset({"call"}), tests=(holds,)),))


def where(test: Test, *traits: Trait) -> Candidates:
    """The nodes that pass a test, in functions with these traits."""
    return Candidates((Way(traits=frozenset(traits), tests=(test,)),))


def in_functions(*traits: Trait) -> Candidates:
    """All nodes of the functions with these traits."""
    return Candidates((Way(traits=frozenset(traits)),))


def in_functions_with(symbols: frozenset[str]) -> Candidates:
    """All nodes of the functions in which something is one of these library names."""
    return Candidates((Way(symbols=symbols),))
