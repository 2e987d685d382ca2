"""Whether fixes keep what docs/safe-fixes.md promises of all of them, on pinned packages.

    python -m benchmarks.fix_invariants [PACKAGE ...] [--cache DIR] [--out FILE]

Each fix by itself, then all safe ones together, then all with the unsafe ones: none writes a name
that may be unbound at its place, and amplint finds no mistake of correctness or precision that it
did not find before. It exits with 1 where one does. At run time `amplint fix` withholds such a fix;
here each one is a fault of its rule. Without names it takes all real packages and writes
results/fix_invariants.json. The packages' code is read, and never run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from amplint.core import registry
from amplint.output.fixing import SAFE, UNSAFE, Rounds
from amplint.project import discover
from amplint.project.config import load
from amplint.run.cache import Cache
from amplint.run.request import Request
from benchmarks.packages import RESULTS, default_cache, fetch
from benchmarks.packages import load as packages


@dataclass(frozen=True)
class Kept:
    """What the fixes of one project have kept.

    Args:
        fixes: how many there are.
        together: how many of them are applied, safe ones and all.
        faults: sentences about those that break one of the two promises.
    """

    fixes: int
    together: tuple[int, int]
    faults: tuple[str, ...]


def kept_in(request: Request) -> Kept:
    """Try the fixes of a project, each by itself and all together."""
    every = Rounds(request, UNSAFE)
    named = [*{each.identity: each for each in every.named(every.first)}.values()]
    faults: list[str] = []
    for each in named:
        alone = every.run({other.identity for other in named if other is not each})
        said = [*alone.problems, *every.brought(alone)]
        faults += [f"{each.place} {each.finding.code} alone: {what}" for what in said]
    together = []
    for allow in SAFE, UNSAFE:
        rounds = Rounds(request, allow)
        settled = rounds.run()
        together.append(len(settled.fixed))
        said = [*settled.problems, *rounds.brought(settled)]
        faults += [f"{'safe' if allow == SAFE else 'all'} together: {what}" for what in said]
    return Kept(len(named), (together[0], together[1]), tuple(faults))


def request_for(tree: Path) -> Request:
    """A check of all files of a tree, with the cache that the rounds take up."""
    settings = load(tree, {}, None)
    project = discover.project((str(tree),), settings)
    return Request(project, settings, registry.AllRules(), cache=Cache(tree / ".amplint_cache"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", metavar="PACKAGE")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="holds the downloads")
    parser.add_argument("--out", type=Path, help="the JSON; default: results/ for all packages")
    options = parser.parse_args()
    found: dict[str, Kept] = {}
    for package in packages(options.names, None if options.names else "real"):
        with tempfile.TemporaryDirectory() as scratch:
            tree = Path(scratch) / package.name
            shutil.copytree(fetch(package, options.cache), tree)
            kept = found[f"{package.name} {package.version}"] = kept_in(request_for(tree))
        print(f"{package.name}: {kept.fixes} fixes, together {kept.together}", flush=True)
        for fault in kept.faults:
            print(f"  {fault}", flush=True)
    out = options.out or (None if options.names else RESULTS / "fix_invariants.json")
    if out is not None:
        result = {name: asdict(kept) for name, kept in found.items()}
        out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    sys.exit(any(kept.faults for kept in found.values()))


if __name__ == "__main__":
    main()
