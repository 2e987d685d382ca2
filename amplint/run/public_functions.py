"""The findings under a mode by the functions that users call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from amplint.findings.finding import Finding, Group
from amplint.util.wording import counted

Offered = Mapping[str, int]
"""The functions that users are assumed to call under a mode, by id: the row that each begins in."""


def by_function(findings: Iterable[Finding], offered: Offered) -> dict[str, list[Finding]]:
    """The findings that assume something, by the function that users call: the one that they stand
    in, or the one in which the way to them begins."""
    functions: dict[str, list[Finding]] = {}
    for finding in findings:
        function = next(callers(finding, offered), None) if finding.presumed else None
        if function is not None:
            functions.setdefault(function, []).append(finding)
    return dict(sorted(functions.items()))


def callers(finding: Finding, offered: Offered) -> Iterator[str]:
    """The functions that may be the one that users call, the likeliest first."""
    here = f"{finding.path}::{finding.scope}"
    yield from (here for _ in range(here in offered))
    places = [(each.path, each.span.start.row) for each in reversed(finding.related)]
    for path, at in (*places, (finding.path, finding.span.start.row)):
        before = [
            (row, name)
            for name, row in offered.items()
            if name.partition("::")[0] == path and row <= at
        ]
        yield from (name for _, name in sorted(before)[-1:])


def summary(findings: Iterable[Finding], offered: Offered) -> Iterator[str]:
    """One line on the functions that fail; none where no mode is assumed.

    Ex) 212 public functions assumed to be called so: 14 would fail, and 3 more would lose precision
    """
    if not offered:
        return
    functions = by_function(findings, offered)
    failing = sum(any(map(is_failure, each)) for each in functions.values())
    imprecise = len(functions) - failing
    line = (
        f"{counted(len(offered), 'public function')} assumed to be called so: {failing} would fail"
    )
    yield f"{line}, and {imprecise} more would lose precision" if imprecise else line


def table(findings: Iterable[Finding], offered: Offered) -> Iterator[str]:
    """A line for each function with findings.

    Ex) pkg/net.py::Net.forward: fails (AMP204, AMP801)
    """
    for function, there in by_function(findings, offered).items():
        codes = ", ".join(sorted({each.code for each in there}))
        verdict = "fails" if any(map(is_failure, there)) else "loses precision"
        yield f"{function}: {verdict} ({codes})"


def is_failure(finding: Finding) -> bool:
    """Whether a finding says that the code raises, or computes something else."""
    return finding.group is Group.CORRECTNESS
