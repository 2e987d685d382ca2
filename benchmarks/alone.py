"""What a file of a package is found to hold alone, and what in its project.

    python -m benchmarks.alone [PACKAGE...] [--cache DIR]

Each file is checked with nothing else in sight, and then with its whole package. Prints the
findings that are reported alone and go silent in the project ("-"), and those that only the project
shows ("+"), of the rules that ask what a value is (`OF_VALUES`). Some of each are right:

- A loop in another file makes a function hot, and what its callers give makes a tensor of a
  parameter: what only the project shows.
- What is presumed of a function that nobody is seen to call ends at the first call that is seen:
  a tensor on the accelerator, which callers turn out to leave on the CPU.

What goes silent because some caller gives what nobody knows does not: a finding rests on one real
chain, and an unknown value shows nothing about it. Hence the list, to be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from amplint.claim.finding import Finding
from amplint.run import engine
from amplint.run.request import Request
from benchmarks.packages import arguments, fetch, load, request_for, sources

# The beginnings of the codes of rules that ask what a value is: a tensor, its device, its dtype.
OF_VALUES = ("AMP101", "AMP103", "AMP104", "AMP105", "AMP107", "AMP110", "AMP2", "AMP8")


@dataclass(frozen=True)
class Compared:
    """What the two checks of the same files say.

    Args:
        silent: is reported of a file alone, and not in its project.
        shown: is reported in the project only.
        same: how many are reported either way.
    """

    silent: tuple[Finding, ...]
    shown: tuple[Finding, ...]
    same: int


def compare(request: Request) -> Compared:
    """Check the files of a request each alone, and all together."""
    single = {path: path for path in request.project.files}
    alone = of_values(replace(request, project=replace(request.project, parts=single)))
    together = of_values(request)
    return Compared(
        silent=tuple(alone[place] for place in sorted(alone.keys() - together.keys())),
        shown=tuple(together[place] for place in sorted(together.keys() - alone.keys())),
        same=len(alone.keys() & together.keys()),
    )


def of_values(request: Request) -> dict[tuple[str, int, int, str], Finding]:
    """The findings of rules about values, by their places and families: of one read, which rule of
    its family tells it may depend on how much is known."""
    return {
        (found.path, found.span.start.row, found.span.start.column, found.code[:4]): found
        for found in engine.run(request).findings
        if found.code.startswith(OF_VALUES)
    }


def told(sign: str, findings: Iterable[Finding]) -> None:
    for found in findings:
        message = found.message.split("\n", maxsplit=1)[0]
        print(f"  {sign} {found.path}:{found.span.start.row} {found.code} {message}", flush=True)


def counts(findings: Iterable[Finding]) -> str:
    by_code = Counter(found.code for found in findings)
    return ", ".join(f"{code} {number}" for code, number in sorted(by_code.items())) or "none"


def main() -> None:
    options = arguments(__doc__).parse_args()
    for package in load(options.packages):
        tree = fetch(package, options.cache)
        found = compare(request_for(tree, list(sources(package, tree))))
        print(f"{package.name} {package.version}: {found.same} either way", flush=True)
        print(f"  alone only: {counts(found.silent)}", flush=True)
        told("-", found.silent)
        print(f"  in the project only: {counts(found.shown)}", flush=True)
        told("+", found.shown)


if __name__ == "__main__":
    main()
