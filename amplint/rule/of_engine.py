"""The rules that amplint's engine speaks for: files that Python cannot read, comments that suppress
nothing, and overflows that only a run shows."""

from __future__ import annotations

from amplint.claim.finding import Group
from amplint.claim.selectors import UNREADABLE
from amplint.claim.witness import Unrun
from amplint.rule.rule import Rule

UNPARSABLE = Rule(
    code=UNREADABLE,
    name="unparsable-file",
    doc="""The file is not Python that can be read, so nothing in it was checked.

No mistake in it is found, and what it does to other files is not known. It has a syntax error, NUL
bytes, or bytes that are not of the file's encoding. The file is read by the `ast` module of the
Python that runs amplint. Most newer syntax is read all the same. Where that cannot be done, and
nothing else is wrong with the file, the message names the first Python that reads it.

    def train(model:
        ...

    def train(model):
        ...

This finding is always on: a file that was not looked at must not pass for a clean one. Only
naming AMP000 itself in `ignore` or `per-file-ignores` switches it off.

Fix safety: there is no fix.

Known limits: a file outside the paths on the command line that does not parse is passed over
without a word; what is called from there is not known.
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
understood. In `# noqa: AMP101, E501` only the codes of amplint are looked at, and a bare `# noqa`
is never reported, since other tools read it too.

Fix safety: safe. Exactly the unused code goes, or the comment if nothing is left of it.

Known limits: silent where not everything was looked at: when the code is switched off, when the
file or another file of the project could not be read, and for text on standard input without a
file name.
""",
    group=Group.SUPPRESSION,
    since="0.1.0",
    help="remove the comment, or correct the code in it",
    witness=Unrun("a comment does nothing at run time", "amplint's own output"),
    safe_if=("the code is suppressed by nothing, and nothing but a comment goes",),
)
OVERFLOW = Rule(
    code="AMP807",
    name="half-overflow",
    doc="""In a run that `amplint observe` watched, half overflowed where float32 does not.

float16 ends at 65504. What is larger becomes infinity, the loss NaN, and the step is skipped, or
the weights are lost where no scaler skips it.

    with torch.autocast("cuda", dtype=torch.float16):
        energy = (h @ h.T).square().sum()          # the products are half, and so are their squares

    with torch.autocast("cuda", dtype=torch.float16):
        energy = (h @ h.T).float().square().sum()

Whether it happens depends on the values. So no text shows it: `amplint observe` reports it of a run
in which it has happened, and `amplint check` never does. Operands that are not finite themselves
say nothing, nor does the backward pass of a scaled loss: its overflow is what the scaler waits for.

Fix safety: there is no fix; where float32 has to begin is for the author.

Known limits: operations that change their operands are not looked at. A back end that computes with
the CPU's kernels rounds as these do (`policy`).
""",
    group=Group.CORRECTNESS,
    since="0.1.0",
    help="compute it in float32: `.float()` on the operands, or an island with autocast disabled",
    witness=Unrun("it is reported of a run that has shown it", "amplint observe"),
)
ENGINE_RULES = (UNPARSABLE, UNUSED, OVERFLOW)
