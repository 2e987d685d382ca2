"""Whether amplint sees a mistake that is made on purpose in a real training file.

    python -m benchmarks.mutants [PACKAGE...] [--mutation NAME]... [--cache DIR]
        [--out FILE | --alone]

Each file of mutants.json is checked as it is, with its whole package around it. Then it is broken
in every way of mutations.py that applies, one at a time, and checked again: a mutant is caught
where a finding of its family comes that was not there before. Prints the share of each family and
what was missed, and writes results/mutants.json, package after package; what it says of others, and
of mutations that were not asked for, stays.

`--alone` takes all files of the packages, each with nothing else in sight, which takes a second
for a mutant instead of a minute, and writes nothing: for mistakes that few files can hold.
"""

from __future__ import annotations

import ast
import json
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache as cached
from pathlib import Path
from typing import NamedTuple

from amplint.run import engine
from amplint.run.cache import NAME, Cache
from benchmarks.mutations import CODES, MUTATIONS, Kind, Program
from benchmarks.packages import HERE, RESULTS, Package, arguments, fetch, load, request_for, sources

Places = Counter[tuple[str, str, str]]  # by path, code and message: how many findings


@dataclass(frozen=True)
class Outcome:
    """What came of one mutant."""

    package: str
    path: str
    row: int
    family: str
    mutation: str
    caught: bool


class Mutant(NamedTuple):
    """A mistake in a file.

    Args:
        row: where it is.
        base: the text of the file that it was made in.
        text: the text with the mistake.
    """

    path: str
    kind: Kind
    row: int
    base: str
    text: str


def findings(tree: Path, package: Package, cache: Cache) -> Places:
    """The findings of every rule in a package, those in preview included."""
    request = request_for(tree, list(sources(package, tree)))
    outcome = engine.run(replace(request, cache=cache))
    return Counter((each.path, each.code, each.message) for each in outcome.findings)


def main() -> None:
    parser = arguments(__doc__)
    names = [kind.name for kind in MUTATIONS]
    parser.add_argument("--mutation", action="append", choices=names, help="only this one")
    parser.add_argument("--out", type=Path, default=RESULTS / "mutants.json")
    parser.add_argument("--alone", action="store_true", help="all files, each by itself")
    options = parser.parse_args()
    wanted = frozenset(options.mutation or names)
    if options.alone:
        packages = load(options.packages)
        show([each for package in packages for each in alone(package, options.cache, wanted)])
        return
    files: dict[str, list[str]] = json.loads((HERE / "mutants.json").read_text(encoding="utf-8"))
    known: dict[str, list[Outcome]] = defaultdict(list)
    if options.out.exists():
        for row in json.loads(options.out.read_text(encoding="utf-8"))["outcomes"]:
            known[row["package"]].append(Outcome(**row))
    chosen = options.packages or sorted(files)
    for package in load(chosen):
        kept = [each for each in known[package.name] if each.mutation not in wanted]
        new = of_package(package, files[package.name], options.cache, wanted)
        known[package.name] = [*kept, *new]
        rows = [asdict(each) for name in sorted(known) for each in known[name]]
        text = json.dumps({"outcomes": rows}, indent=1)
        options.out.write_text(f"{text}\n", encoding="utf-8")
    show([each for name in chosen for each in known[name]])


def of_package(
    package: Package, paths: list[str], cache: Path, wanted: frozenset[str]
) -> Iterator[Outcome]:
    """The outcomes of the mutants of a package's files, by the names of their mutations."""
    original = fetch(package, cache)
    texts = {path: (original / path).read_text(encoding="utf-8") for path in paths}
    mutants = [*mutants_of(texts, wanted)]
    if not mutants:
        return
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory) / "tree"
        shutil.copytree(original, tree)
        yield from outcomes(package, tree, texts, mutants)
    print(f"{package.name}: {len(mutants)} mutants", file=sys.stderr, flush=True)


def alone(package: Package, cache: Path, wanted: frozenset[str]) -> Iterator[Outcome]:
    """The outcomes of the mutants of all files of a package, each with nothing else in sight."""
    original = fetch(package, cache)
    for file in sources(package, original):
        path = file.relative_to(original).as_posix()
        texts = {path: file.read_text(encoding="utf-8", errors="replace")}
        try:
            mutants = [*mutants_of(texts, wanted)]
        except (SyntaxError, ValueError, RecursionError):
            continue  # of another Python
        if mutants:
            with tempfile.TemporaryDirectory() as directory:
                (Path(directory) / path).parent.mkdir(parents=True)
                yield from outcomes(package, Path(directory), texts, mutants)


def mutants_of(texts: Mapping[str, str], wanted: frozenset[str]) -> Iterator[Mutant]:
    for path, text in texts.items():
        for kind in MUTATIONS:
            base = kind.behind(text) if kind.name in wanted else None
            for row, mutant in kind.mutate(Program(base)) if base is not None else ():
                yield Mutant(path, kind, row, base or "", mutant)


def outcomes(
    package: Package, tree: Path, texts: Mapping[str, str], mutants: Iterable[Mutant]
) -> Iterator[Outcome]:
    """The outcomes of mutants of files that stand in a tree, with these texts."""
    kept = Cache(tree / NAME)

    def found_in(path: str, text: str) -> Places:
        """The findings of the package with another text of a file."""
        ast.parse(text)
        (tree / path).write_text(text, encoding="utf-8")
        found = findings(tree, package, kept)
        (tree / path).write_text(texts[path], encoding="utf-8")
        return found

    without = cached(found_in)
    for path, kind, row, base, mutant in mutants:
        new = found_in(path, mutant) - without(path, base)
        caught = any(code.startswith(CODES[kind.family]) for _, code, _ in new)
        yield Outcome(package.name, path, row, kind.family, kind.name, caught)


def show(outcomes: list[Outcome]) -> None:
    by_family: dict[str, Counter[bool]] = defaultdict(Counter)
    by_mutation: dict[tuple[str, str], Counter[bool]] = defaultdict(Counter)
    for each in outcomes:
        by_family[each.family][each.caught] += 1
        by_mutation[each.family, each.mutation][each.caught] += 1
    for (family, name), counts in by_mutation.items():
        print(f"{family:<12}{name:<28}{counts[True]:>4} of {counts.total():>4}")
    for family, counts in by_family.items():
        share = counts[True] / counts.total()
        print(f"{family:<40}{counts[True]:>4} of {counts.total():>4}  {share:.0%}")
    caught = sum(each.caught for each in outcomes)
    print(f"{'all':<40}{caught:>4} of {len(outcomes):>4}  {caught / max(len(outcomes), 1):.0%}")
    for each in outcomes:
        if not each.caught:
            print(f"missed: {each.package} {each.path}:{each.row} {each.family}, {each.mutation}")


if __name__ == "__main__":
    main()
