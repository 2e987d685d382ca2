"""Whether a run that uses what was kept of earlier ones says what a run says that keeps nothing.

    python -m benchmarks.kept_is_new [PACKAGE...] [--cache DIR] [--edits N] [--seed N] [--moves]
                                     [--out FILE]

Each package is copied and edited N times, one edit upon the other (`benchmarks.edits`). After each
edit it is checked with a cache and without, with all rules, and the two reports are compared as
JSON, byte for byte. Prints how many runs took up the values of an earlier one, and how long both
took. With --moves, the edits only move code: comments, docstrings and empty lines. Writes
results/kept_is_new.json when all packages were run. Exits with 1 when any reports differ.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from unittest import mock

from amplint.output.formats import Report
from amplint.output.formats import json as json_format
from amplint.run import engine, linking, session
from amplint.run.cache import NAME, Cache
from amplint.run.request import Request
from benchmarks.edits import Project, edit
from benchmarks.packages import RESULTS, Package, arguments, fetch, load, request_for, sources

PACKAGES = ("imagen-pytorch", "mamba-ssm", "pytorch-optimizer", "recbole", "rl-games", "yolox")


@dataclass(frozen=True)
class Result:
    """The result for one package.

    Args:
        package: its name and version.
        edits: how many were made.
        resumed: after how many of them values of an earlier run were taken up.
        different: those after which the reports differ.
        ratio: of the time with the cache to that without, of runs that took up values: the median.
    """

    package: str
    edits: int
    resumed: int
    different: tuple[str, ...]
    ratio: float


def report(request: Request) -> str:
    """The report as JSON."""
    outcome = engine.run(request)
    return json_format.render(Report(outcome, request.rules, request.selection.root))


def measured(
    tree: Path, texts: Project, edits: int, seed: int, package: Package, moves: bool = False
) -> Result:
    """Edit the copy of a package, and compare after each edit."""
    chance = random.Random(f"{seed} {package.name}")
    texts = dict(texts)
    cache = Cache(tree / NAME)
    resumed: list[bool] = []
    original = linking.resumed

    def noted(*arguments: object) -> object:
        edit = original(*arguments)  # type: ignore[arg-type]  # they are those of `resumed`
        resumed.append(edit is not None)
        return edit

    different: list[str] = []
    ratios: list[float] = []
    taken_up = 0
    small = mock.patch.object(session, "LEAST_KEPT", 0)
    with mock.patch.object(linking, "resumed", noted), small:
        report(replace(request_for(tree, paths_of(tree, texts)), cache=cache))
        for number in range(edits):
            said, change = edit(texts, chance, moves)
            for path, text in change.items():
                file = tree / path
                if text is None:
                    file.unlink()
                    del texts[path]
                else:
                    file.write_bytes(text.encode())
                    texts[path] = text
            request = request_for(tree, paths_of(tree, texts))
            resumed.clear()
            begun = time.process_time()
            with_cache = report(replace(request, cache=cache))
            between = time.process_time()
            without = report(request)
            end = time.process_time()
            if any(resumed):
                taken_up += 1
                ratios.append((between - begun) / (end - between))
            if with_cache != without:
                different.append(f"{number}: {said}")
                print(f"  differs after {number}: {said}", flush=True)
    ratio = round(statistics.median(ratios), 2) if ratios else 0.0
    name = f"{package.name} {package.version}"
    return Result(name, edits, taken_up, tuple(different), ratio)


def paths_of(tree: Path, texts: Project) -> list[Path]:
    return [tree / path for path in sorted(texts)]


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--edits", type=int, default=50, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--moves", action="store_true", help="edits that only move code")
    parser.add_argument("--out", type=Path, default=RESULTS / "kept_is_new.json")
    options = parser.parse_args()
    results: list[Result] = []
    for package in load(options.packages or PACKAGES):
        kept = fetch(package, options.cache)
        with tempfile.TemporaryDirectory() as directory:
            tree = Path(directory).resolve() / package.name
            texts: dict[str, str] = {}
            for source in sources(package, kept):
                path = source.relative_to(kept)
                (tree / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, tree / path)
                texts[path.as_posix()] = source.read_bytes().decode()
            result = measured(tree, texts, options.edits, options.seed, package, options.moves)
        print(
            f"{result.package}: {result.edits} edits, {result.resumed} resumed in "
            f"{result.ratio} of the time, {len(result.different)} differ",
            flush=True,
        )
        results.append(result)
    if not options.packages and not options.moves:
        packages = [asdict(result) for result in results]
        state = {"edits": options.edits, "seed": options.seed, "packages": packages}
        options.out.write_text(json.dumps(state, indent=1) + "\n")
    return 1 if any(result.different for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
