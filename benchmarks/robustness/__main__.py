"""What amplint stands: any input, any interruption, any load.

    python -m benchmarks.robustness [PART...] [--cache DIR] [--out FILE]

Each part is one module of this package with a function `measure`. Without names all parts run.
Writes results/robustness.json, part after part; what it says of the others stays. Exits with 1
where a part found a failure.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.packages import RESULTS, default_cache

RESULT = RESULTS / "robustness.json"
# The name of a module of this package, and what it tries.
PARTS: dict[str, str] = {
    "applied": "`fix --apply` on copies of real packages, and once more",
    "concurrency": "50 processes over one cache, for several selections of rules",
    "determinism": "one report for any number of processes, order of paths, cache, line ends",
    "files": "trees of Python of all kinds, checked, fixed, and read by LibCST",
    "generated": "mutants of the fixtures, and programs renamed and formatted",
    "grammar": "programs drawn from Python's grammar and from LibCST's nodes",
    "hostile": "repositories that are made to stop amplint: depth, size, patterns, forged files",
    "kills": "500 kills while files are fixed and while the cache is written",
    "load": "20,000 files and three million lines in one project",
    "server": "10,000 edits in one language server",
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.robustness",
        description=__doc__,
        epilog="\n".join(f"{name}: {what}" for name, what in PARTS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="downloaded packages")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    outcomes = json.loads(options.out.read_text()) if options.out.exists() else {}
    failed = False
    for name in options.parts or PARTS:
        module = importlib.import_module(f"benchmarks.robustness.{name}")
        outcome = module.measure(options.cache)
        failed |= bool(outcome["failures"])
        outcomes[name] = outcome
        options.out.write_text(json.dumps(outcomes, indent=2) + "\n")
        print(f"{name}: {json.dumps(outcome, indent=2)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
