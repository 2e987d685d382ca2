"""The result of judging one file."""

from __future__ import annotations

from dataclasses import dataclass

from amplint.findings.finding import Finding


@dataclass(frozen=True)
class FileResult:
    """The result of judging one file.

    Args:
        findings: of the rules.
        problems: sentences about what amplint, or a rule, could not do.
        notices: what is to be shown besides.
        blames_amplint: whether one of the problems, if there are any, is not of a rule that another
            package brings.
    """

    findings: tuple[Finding, ...] = ()
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    blames_amplint: bool = True

    def joined(self, other: FileResult) -> FileResult:
        """The result of both: of the reading of a file, say, and of judging it."""
        blames = [result.blames_amplint for result in (self, other) if result.problems]
        return FileResult(
            self.findings + other.findings,
            self.problems + other.problems,
            self.notices + other.notices,
            any(blames) if blames else True,
        )
