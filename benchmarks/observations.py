"""What `check` finds in released packages with what one run of them has shown, beside without.

    python -m benchmarks.observations [NAME...] [--cache DIR]

Each program in observed/ makes two steps of a training with one package, under CUDA's autocast. It
is observed in a copy of the package (which runs code of it), and what was seen is saved there. Then
the package is checked with that and without. Writes results/observations.json when all were run;
review/observations.md says what a reader thinks of each new finding. What a package imports has to
be installed: the first lines of each program say what.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.packages import HERE, RESULTS, Package, amplint, check, default_cache, fetch, load

PROGRAMS = HERE / "observed"
FILE = Path(".amplint", "observations.json")
SECONDS = 200  # of wall time that a run may take


def copied(package: Package, tree: Path, into: Path, program: Path) -> None:
    """Copy the code of a package, and beside it the program that uses it."""
    for root in package.roots:
        shutil.copytree(tree / root, into / root)
    shutil.copy(program, into / program.name)
    (into / "pyproject.toml").write_text("[tool.amplint]\n", encoding="utf-8")


def observe(program: str, tree: Path) -> dict[str, Any]:
    """Observe a program in a tree, and say what came of it."""
    words = ["observe", ".", "--save", "--timeout", str(SECONDS), "--format", "json", "--script"]
    run = amplint([*words, program], tree)
    said = [line.removeprefix("amplint: ") for line in run.stderr.splitlines()]
    seen = json.loads(run.stdout) if run.stdout else []
    steps = next((line for line in said if line.startswith("saw ")), "saw nothing")
    errors = [line for line in said if line.startswith("error") or "ended early" in line]
    file = tree / FILE
    functions = json.loads(file.read_text())["functions"] if file.is_file() else {}
    return {
        "saw": steps.removeprefix("saw "),
        "functions": len(functions),
        "errors": errors,
        "observed": sorted(map(told, seen)),
    }


def told(finding: dict[str, Any]) -> str:
    """A finding in one line."""
    place = f"{finding['filename']}:{finding['location']['row']}"
    return f"{place} {finding['code']} {finding['message']}"


def places(findings: Sequence[dict[str, Any]]) -> set[str]:
    return {told(each).partition(" AMP")[0] + each["code"] for each in findings}


def result(package: Package, tree: Path, program: Path) -> dict[str, Any]:
    """All that is found in one package."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory)
        copied(package, tree, copy, program)
        without, _ = check(package, copy, options=["--no-cache"])
        observed = observe(program.name, copy)
        found, _ = check(package, copy, options=["--no-cache"])
    known = places(without)
    new = [each for each in found if not places([each]) <= known]
    lost = places(without) - places(found)
    return {
        **observed,
        "without": len(without),
        "with": len(found),
        "new": sorted(map(told, new)),
        "lost": sorted(lost),
    }


def programs(names: Sequence[str]) -> Iterator[tuple[Package, Path]]:
    """The programs with their packages, those of some names or all."""
    for program in sorted(PROGRAMS.glob("*_run.py")):
        name = program.stem.removesuffix("_run").replace("_", "-")
        if not names or name in names:
            (package,) = load([name])
            yield package, program


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="holds the downloads")
    options = parser.parse_args()
    results = {}
    for package, program in programs(options.names):
        found = results[package.name] = result(package, fetch(package, options.cache), program)
        print(f"{package.name}: saw {found['saw']}, {found['functions']} functions; "
              f"{found['without']} findings without, {found['with']} with")  # fmt: skip
        for line in [*found["errors"], *found["new"], *(f"lost: {x}" for x in found["lost"])]:
            print(f"  {line}")
        sys.stdout.flush()
    if not options.names:
        target = RESULTS / "observations.json"
        target.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
