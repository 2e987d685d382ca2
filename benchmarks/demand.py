"""How much of what link evaluates does anything rest on that is asked of it?

    python -m benchmarks.demand [PACKAGE...] [--cache DIR]

Link evaluates whole functions. An engine that evaluates single nodes, each when it is asked for,
would evaluate those that the rules and the analyses behind link ask about, and all that these are
computed from: operands, what callers pass, what is returned, what is stored in a field. This counts
them. Every read of a value after the fixpoint is noted, with the function that reads; then what was
read is followed back through the value graphs and through the keys that were read and written.

A reader that looks at all values, or at all calls, asks for more than it needs: it could look at
names first. So the count is made again with such readers left out: those that ask for more than a
share of all nodes. It is an estimate: that a call does not mean a function is found without
evaluating anything here, and a call rests on all of its arguments. Writes results/demand.json.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from amplint.analyses import program
from amplint.analyses.fact import Facts
from amplint.core.values import Value
from amplint.inference import Inference, SiteId
from amplint.run import analysis, engine
from amplint.run.request import Request
from benchmarks.packages import RESULTS, arguments, fetch, load, sources
from benchmarks.whole_file import default_packages, request_for

SHARES = (0.5, 0.1, 0.02)  # of all nodes: readers that ask for more are left out
Readers = defaultdict[str, set[SiteId]]  # by function: the nodes that it reads


@dataclass(frozen=True)
class Slice:
    """What the questions of some readers rest on.

    Args:
        share: of all nodes, that each of these readers asks for at most.
        asked: nodes that they ask for.
        needed: these, and the nodes that they are computed from.
        functions: that hold these nodes.
    """

    share: float
    asked: int
    needed: int
    functions: int


@dataclass(frozen=True)
class Measured:
    """One package: all nodes and functions that link evaluates, and what is needed of them."""

    version: str
    nodes: int
    functions: int
    slices: tuple[Slice, ...]


class Watched(list[Value]):
    """The values of a function, which note who reads them."""

    def __init__(self, values: Sequence[Value], function: str, readers: Readers) -> None:
        super().__init__(values)
        self.function = function
        self.readers = readers

    def __getitem__(self, index: Any) -> Any:
        numbers = range(len(self))[index]
        for number in numbers if isinstance(numbers, range) else (numbers,):
            self.readers[reader()].add((self.function, number))
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[Value]:
        for number in range(len(self)):
            self.readers[reader()].add((self.function, number))
        return super().__iter__()


def reader() -> str:
    """The function that reads a value."""
    code = sys._getframe(2).f_code
    return f"{code.co_filename}:{code.co_firstlineno}"


def watch(request: Request) -> tuple[Inference, Readers]:
    """Analyse in one process, and note all reads of values after the fixpoint."""
    readers: Readers = defaultdict(set)
    linked: list[Inference] = []

    class WatchedFacts(Facts):
        def __init__(self, inference: Inference) -> None:
            linked.append(inference)
            for function, state in inference.states.items():
                state.values = Watched(state.values, function, readers)
            super().__init__(inference)

    def spread(work: Any, items: Sequence[Any], *_: object) -> list[Any]:
        return [work(item) for item in items]

    with patch.object(program, "Facts", WatchedFacts), patch.object(analysis, "spread", spread):
        engine.run(request)
    return linked[0], readers


def needed(inference: Inference, asked: set[SiteId]) -> set[SiteId]:
    """The nodes that are asked for, and all that they are computed from."""
    reads: dict[SiteId, list[Any]] = defaultdict(list)
    for readers in (inference._readers, inference._part_readers):
        for key, sites in readers.items():
            for site in sites:
                reads[site].append(key)
    found, stack, keys = set(asked), list(asked), set()
    while stack:
        function, number = stack.pop()
        state = inference.states.get(function)
        if state is None:
            continue
        graph = state.graph
        more: list[SiteId] = []
        if 0 <= number < len(graph.nodes):
            more += [(function, n) for n in graph.nodes[number].operands if n >= 0]
        elif number < 0:  # what a function returns and yields
            more += [(function, n) for n in (*graph.returns, *graph.yields)]
        for key in reads[function, number]:
            if key not in keys:
                keys.add(key)
                more += inference._parts.get(key, ())
        new = set(more) - found
        found |= new
        stack += new
    return {site for site in found if site[1] >= 0}


def measure(version: str, root: Path, files: Sequence[Path]) -> Measured:
    inference, readers = watch(request_for(root, files))
    nodes = sum(len(state.graph.nodes) for state in inference.states.values())
    slices: list[Slice] = []
    for share in SHARES:
        asked: set[SiteId] = set().union(
            *(sites for sites in readers.values() if len(sites) <= share * nodes)
        )
        rests_on = needed(inference, asked)
        functions = {function for function, _ in rests_on}
        slices.append(Slice(share, len(asked), len(rests_on), len(functions)))
    return Measured(version, nodes, len(inference.states), tuple(slices))


def main() -> None:
    options = arguments(__doc__).parse_args()
    results: list[Measured] = []
    for package in load(options.packages) if options.packages else default_packages():
        tree = fetch(package, options.cache)
        version = f"{package.name} {package.version}"
        result = measure(version, tree, list(sources(package, tree)))
        results.append(result)
        print(f"{version}: {result.nodes:,} nodes in {result.functions:,} functions")
        for each in result.slices:
            print(
                f"  readers of at most {each.share:.0%} of them ask for {each.asked:,} nodes, "
                f"which rest on {each.needed:,} ({each.needed / result.nodes:.0%}) "
                f"in {each.functions:,} functions"
            )
    if not options.packages:
        found = json.dumps([asdict(result) for result in results], indent=1)
        (RESULTS / "demand.json").write_text(found + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
