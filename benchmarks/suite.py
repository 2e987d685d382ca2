"""How long the tests take: seconds of CPU by directory, and the slowest tests.

    python -m benchmarks.suite [--whole] [--update] [PYTEST ARGUMENTS]

Runs `pytest -n 2` with what follows, and takes the CPU of each test and of the processes that it
starts. A load of pure Python and one of torch are timed in the same session: on a busy machine all
take longer, and the limits of LIMITS are multiples of the first. `--update` writes
results/suite.json: with `--whole` also the time of each test, by which tests/choice.py chooses.
Exits with 1 where a test fails or, with `--strict`, as the scheduled run has it, where a limit is
passed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "suite.json"
SLOWEST = 20
LEAST = 0.2  # seconds
# In units of the calibration load of pure Python (half a second on an idle core): one test of the
# short run, and all tests of a directory in it, twice what they took.
ONE_TEST = 10.0
LIMITS = {
    "tests/conformance": 120.0,
    "tests/fixtures": 440.0,
    "tests/frameworks": 20.0,
    "tests/fuzz": 180.0,
    "tests/hostile": 80.0,
    "tests/observe": 160.0,
    "tests/oracles": 230.0,
    "tests/unit": 560.0,
    "tests/verify": 180.0,
}
PURE = """
total = 0
table = {}
for number in range(4_000_000):
    table[number % 1009] = total
    total += number * number % 7
"""
TORCH = """
import torch
x = torch.rand(300, 300)
for _ in range(400):
    x = (x @ x).softmax(-1)
"""


def calibration() -> dict[str, float]:
    """The seconds that fixed loads take here and now: the fastest of three."""
    found = {}
    for name, code in (("python", PURE), ("torch", TORCH)):
        took = []
        for _ in range(3):
            begun = time.perf_counter()
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
            took.append(time.perf_counter() - begun)
            if done.returncode:
                took = [0.0]
                break
        found[name] = round(min(took), 3)
    return found


def directory(test: str) -> str:
    return "/".join(test.partition("::")[0].split("/")[:2])


def families(tests: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """By test without its parameters: the seconds on average, of CPU or of the clock, whichever are
    more, and how many there are. What takes no fifth of a second in all is left out."""
    found: dict[str, list[float]] = {}
    for test, took in sorted(tests.items()):
        found.setdefault(test.partition("[")[0], []).append(max(took))
    return {
        name: {"seconds": round(sum(took) / len(took), 3), "tests": len(took)}
        for name, took in found.items()
        if sum(took) >= LEAST
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--strict", action="store_true")
    given, rest = parser.parse_known_args()
    loads = calibration()
    with tempfile.TemporaryDirectory() as scratch:
        times = Path(scratch) / "times.json"
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", f"--times={times}"]
        begun = time.perf_counter()
        done = subprocess.run([*command, *["--whole"] * given.whole, *rest], cwd=ROOT, check=False)
        wall = time.perf_counter() - begun
        timed: dict[str, list[float]] = json.loads(times.read_text())
    tests = {test: took for test, (took, _) in timed.items()}
    by_directory = Counter[str]()
    for test, took in tests.items():
        by_directory[directory(test)] += took
    slowest = sorted(tests.items(), key=lambda item: -item[1])[:SLOWEST]
    print(f"{len(tests)} tests, {sum(tests.values()):.0f} s of CPU, {wall:.0f} s; loads {loads}")
    for name, took in by_directory.most_common():
        print(f"{took:8.1f}  {name}")
    for name, took in slowest:
        print(f"{took:8.2f}  {name}")
    unit = loads["python"]
    passed = [f"{n}: {t:.0f} s" for n, t in by_directory.items() if t > LIMITS.get(n, 0) * unit]
    passed += [f"{name}: {took:.1f} s" for name, took in slowest if took > ONE_TEST * unit]
    if not given.whole:
        print(*(f"over its limit: {each}" for each in passed), sep="\n")
    if given.update:
        known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        kind = "whole" if given.whole else "short"
        known[kind] = {
            "tests": len(tests),
            "cpu": round(sum(tests.values())),
            "wall": round(wall),
            "calibration": loads,
            "directories": {n: round(t, 1) for n, t in sorted(by_directory.items())},
            "slowest": {n: round(t, 2) for n, t in slowest},
        }
        if given.whole:
            known["families"] = families(timed)
        RESULTS.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if done.returncode or (given.strict and passed and not given.whole) else 0)


if __name__ == "__main__":
    main()
