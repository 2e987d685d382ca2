"""Whether fixes keep what docs/safe-fixes.md promises of all of them, on pinned packages.

    python -m benchmarks.fix_invariants [PACKAGE ...] [--most N] [--seed N] [--out FILE]

Fixes each by itself, then all safe ones together, then all with the unsafe ones, with all rules:
none writes a name that may be unbound at its place, and amplint finds no mistake of correctness or
precision that it did not find before. It exits with 1 where one does. At run time `amplint fix`
withholds such a fix; here each one is a fault of its rule.

The values of a package are kept in memory, and each fix is an edit of it; still a fix takes what an
edit of the package takes. So at most `--most` of a package are tried by themselves, drawn by the
seed, of each rule one before any other has two; `tried` and `fixes` of the result are different
where some were left out. Together, all fixes are tried.

Without names it takes the packages of `PACKAGES`. What was found of each is written at once to
results/fix_invariants.json, where what it says of other packages stays. The packages' code is read,
and never run.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from amplint.fix.applying import SAFE, UNSAFE
from amplint.fix.rounds import FixableFinding, Rounds, Settled
from amplint.run.request import Request
from benchmarks.packages import RESULTS, arguments, fetch, load, request_for, sources

# Those in which an edit takes seconds.
PACKAGES = (
    "asteroid", "denoising-diffusion-pytorch", "f5-tts", "fastai", "gfpgan", "imagen-pytorch",
    "open-clip-torch", "pytorch-tabnet", "realesrgan", "rl-games", "trainer",
    "video-diffusion-pytorch", "x-transformers", "yolox",
)  # fmt: skip


@dataclass(frozen=True)
class Tried:
    """What some fixes do.

    Args:
        fixed: how many findings they end.
        withheld: sentences about those that are not made, an unbound name among the reasons.
        mistakes: sentences about the mistakes that are new after the others.
    """

    fixed: int
    withheld: tuple[str, ...]
    mistakes: tuple[str, ...]

    @property
    def keeps_all(self) -> bool:
        return not (self.withheld or self.mistakes)


@dataclass(frozen=True)
class Invariants:
    """The invariants of the fixes of one project.

    Args:
        fixes: how many findings have a fix, by code.
        tried: how many of them were tried by themselves, by code.
        alone: what those did that break an invariant, by place and code.
        safe, every: what all safe fixes do together, and all fixes.
    """

    fixes: dict[str, int]
    tried: dict[str, int]
    alone: dict[str, Tried]
    safe: Tried
    every: Tried

    @property
    def hold(self) -> bool:
        return not self.alone and self.safe.keeps_all and self.every.keeps_all


def invariants_of(request: Request, most: int, seed: int) -> Invariants:
    """Try the fixes of a project, each by itself and all together.

    Args:
        most: how many are tried by themselves.
        seed: to draw these.
    """
    rounds = Rounds(request, UNSAFE)
    named = rounds.named(rounds.first)
    chosen = drawn(named, most, seed)
    alone = {_about(each): tried(rounds, rounds.alone(each)) for each in chosen}
    safe = Rounds(request, SAFE)
    return Invariants(
        fixes=_by_code(named),
        tried=_by_code(chosen),
        alone={about: each for about, each in alone.items() if not each.keeps_all},
        safe=tried(safe, safe.run()),
        every=tried(rounds, rounds.run()),
    )


def tried(rounds: Rounds, settled: Settled) -> Tried:
    return Tried(len(settled.fixed), tuple(settled.problems), tuple(rounds.brought(settled)))


def drawn(named: Sequence[FixableFinding], most: int, seed: int) -> list[FixableFinding]:
    """So many of the fixes at most, of each rule one before any other has two."""
    mixed = [*named]
    random.Random(seed).shuffle(mixed)
    seen: Counter[str] = Counter()
    turns: list[tuple[int, int]] = []
    for number, each in enumerate(mixed):
        turns.append((seen[each.finding.code], number))
        seen[each.finding.code] += 1
    return [mixed[number] for _, number in sorted(turns)[:most]]


def _by_code(named: Iterable[FixableFinding]) -> dict[str, int]:
    return dict(sorted(Counter(each.finding.code for each in named).items()))


def _about(each: FixableFinding) -> str:
    return f"{each.place} {each.finding.code}"


def report(name: str, found: Invariants) -> str:
    """Ex) yolox 0.3.0: 7 of 9 fixes alone, 3 safe ones together, all 9 together"""
    lines = [
        f"{name}: {sum(found.tried.values())} of {sum(found.fixes.values())} fixes alone, "
        f"{found.safe.fixed} safe ones together, all {found.every.fixed} together"
    ]
    each = {**found.alone, "safe ones together": found.safe, "all together": found.every}
    lines += [
        f"  {about}: {said}" for about, one in each.items() for said in one.withheld + one.mistakes
    ]
    return "\n".join(lines)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--most", type=int, default=12, help="so many fixes of a package alone")
    parser.add_argument("--seed", type=int, default=0, help="to draw these")
    parser.add_argument("--out", type=Path, default=RESULTS / "fix_invariants.json")
    options = parser.parse_args()
    holds = True
    for package in load(options.packages or PACKAGES):
        tree = fetch(package, options.cache)
        request = request_for(tree, [*sources(package, tree)])
        found = invariants_of(request, options.most, options.seed)
        holds &= found.hold
        name = f"{package.name} {package.version}"
        print(report(name, found), flush=True)
        keep(name, {"most": options.most, "seed": options.seed, **asdict(found)}, options.out)
    sys.exit(not holds)


def keep(name: str, result: Mapping[str, object], out: Path) -> None:
    """Write a result into a file, beside those of the other packages."""
    known = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    every = dict(sorted({**known, name: result}.items()))
    out.write_text(json.dumps(every, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
