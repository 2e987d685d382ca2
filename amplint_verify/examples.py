"""Programs of amplint's own that are measured: three training programs, and the rules' examples.

The programs take a `batch_size`, and are measured in every precision. The examples of rules are
small and fixed in all, and are measured as they are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import amplint
from amplint.findings.witness import Same, Syncs
from amplint.rule import fixtures as rule_fixtures
from amplint.rule.fixtures import Files, fixtures, folder, modules
from amplint.rule.rule import Rule
from amplint_verify import witnesses
from amplint_verify.compare.bench import AS_WRITTEN, Subject
from amplint_verify.runs.drivers import StartKind, UserProgram

PROGRAMS = ("cifar", "gan", "lm")
SAVES = (Same, Syncs)  # witnesses of fixes that change nothing but what a program costs


def programs() -> Path:
    """The folder of the programs: a part of the package where it is installed, beside it in a
    checkout. Raises FileNotFoundError where there is none."""
    package = Path(amplint.__file__).parent
    for directory in (package / "programs", package.parent / "benchmarks" / "verify_programs"):
        if directory.is_dir():
            return directory
    raise FileNotFoundError("the programs to measure are not installed")


def of_programs(directory: Path) -> Iterator[Subject]:
    """The programs, before and after all their fixes, the unsafe ones too.

    Args:
        directory: where they are fixed.
    """
    for name in PROGRAMS:
        source = programs() / name
        files = {"train.py": (source / "train.py").read_bytes()}
        after = witnesses.fixed(files, directory / name)
        program = UserProgram(StartKind.ENTRY, "train:main")
        yield Subject(name, program, source, partial(write, files, after))


def of_rules(rules: Sequence[Rule], directory: Path) -> Iterator[Subject]:
    """`run` of the examples of rules whose fixes are there to save something, and touch it.

    Args:
        rules: whose.
        directory: where they are fixed.
    """
    for rule in rules:
        if isinstance(rule.witness, SAVES):
            before = modules(folder(rule.name))
            after = witnesses.fixed(before, directory / rule.code)
            program = UserProgram(StartKind.ENTRY, "bad:run")
            copy = partial(write, before, after)
            if witnesses.source_of_run(before["bad.py"]) != witnesses.source_of_run(
                after["bad.py"]
            ):
                yield Subject(rule.code, program, fixtures(), copy, (AS_WRITTEN,))


def write(before: Files, after: Files, fixed: bool, place: Path) -> None:
    rule_fixtures.write(after if fixed else before, place)
