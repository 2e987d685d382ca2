"""The rules that amplint's engine speaks for: files that Python cannot read, comments that suppress
nothing, and overflows that only a run shows."""

from __future__ import annotations

from amplint.findings.finding import Group
from amplint.findings.selectors import UNREADABLE
from amplint.findings.witness import Unrun
from amplint.rule.rule import Rule

UNPARSABLE = Rule(
    code=UNREADABLE,
    name="unparsable-file",
    doc="""The file is not Python that can be read, so nothing in it was checked.

No mistakes in it are found, and its effects on other files are not known. It has a syntax error,
NUL bytes, or bytes that are invalid in the file's encoding. The file is read by the `ast` module of
the Python that runs amplint, which the message names: it may be too old for the syntax.

    def train(model:
        ...

    def train(model):
        ...

This finding is always on, because a file that was not checked must not look clean. Only AMP000
itself in `ignore` or `per-file-ignores` switches it off.

Fix safety: there is no fix.

Known limits: a file outside the paths on the command line that does not parse is silently skipped;
its calls are not known.
""",
    group=Group.CORRECTNESS,
    since="0.1.0",
    help="fix the syntax, or run amplint with the Python version that this file targets",
    witness=Unrun("a file that does not parse cannot run", "the ast module of Python"),
)

UNUSED = Rule(
    code="AMP001",
    name="unused-suppression",
    doc="""A suppression comment suppresses nothing.

`# amplint: ignore[AMP101]` on a line where AMP101 is not found hides the next mistake that is
made there.

    loss = criterion(model(x), y)  # amplint: ignore[AMP101] it was `.item()` once

    loss = criterion(model(x), y)

Also reported: a code that does not exist, and a comment that begins with `# amplint:` and is not
understood. In `# noqa: AMP101, E501` only the codes of amplint are checked, and a bare `# noqa`
is never reported, since other tools read it too.

Fix safety: safe. It removes exactly the unused code, or the whole comment if nothing else is in it.

Known limits: silent if not everything was checked: if the code is switched off, if the file or
another file of the project could not be read, and for text on standard input without a file name.
""",
    group=Group.SUPPRESSION,
    since="0.1.0",
    help="remove the comment, or correct the code in it",
    witness=Unrun("a comment does nothing at run time", "amplint's own output"),
    safe_if=("the code suppresses nothing, and only a comment is removed",),
)

OVERFLOW = Rule(
    code="AMP807",
    name="half-overflow",
    doc="""In a run that `amplint observe` watched, half overflowed where float32 does not.

float16 ends at 65504. Larger values become infinite, the loss becomes NaN, and the step is skipped;
without a scaler to skip it, the weights become NaN.

    with torch.autocast("cuda", dtype=torch.float16):
        energy = (h @ h.T).square().sum()          # the products are half, and so are their squares

    with torch.autocast("cuda", dtype=torch.float16):
        energy = (h @ h.T).float().square().sum()

Whether it happens depends on the values, so the code alone does not show it: `amplint observe`
reports it for a run in which it has happened, and `amplint check` never does. Operands that are not
finite themselves do not count; neither does the backward pass of a scaled loss, whose overflow the
scaler handles.

Fix safety: there is no fix; the author has to decide where float32 begins.

Known limits: operations that change their operands are not checked. A back end that computes with
the CPU's kernels (`policy`) rounds as these do.
""",
    group=Group.CORRECTNESS,
    since="0.1.0",
    help="compute it in float32: `.float()` on the operands, or an island with autocast disabled",
    witness=Unrun("it is reported for a run that has shown it", "amplint observe"),
)

ENGINE_RULES = (UNPARSABLE, UNUSED, OVERFLOW)
