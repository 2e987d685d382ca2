"""Rules: a claim about training code, its proof obligation, and its checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from amplint.core.candidate import Candidates
from amplint.core.finding import Cost, Finding, Group, RuleName
from amplint.core.violations import Violation

if TYPE_CHECKING:
    from amplint.view.view import View

Judge = Callable[["View"], Iterator[Finding]]


@dataclass(frozen=True)
class Check:
    """A check: the nodes of the value graph that it is about, and what it says of each."""

    condition: Candidates
    judge: Judge


@dataclass(frozen=True)
class Witness:
    """A claim about running the bad and the fixed program of a rule's fixture."""


@dataclass(frozen=True)
class Raises(Witness):
    """The bad program raises an error whose text holds `text`; the fixed one runs.

    Args:
        text: in upper or lower case.
        on_gpu: what CUDA's kernels say in its place, where they have other words.
        devices: whether the error is about devices, and not about dtypes.
        policy: whether it is CUDA autocast that raises it, and no kernel.
        backward: whether it is the backward pass that raises it: back ends without values only
            model that pass.
    """

    text: str
    on_gpu: str = ""
    devices: bool = False
    policy: bool = False
    backward: bool = False


@dataclass(frozen=True)
class Dtype(Witness):
    """The bad program returns a tensor of dtype `bad`, the fixed one of dtype `good`."""

    bad: str
    good: str


@dataclass(frozen=True)
class Differs(Witness):
    """The results of the bad and the fixed program differ by more than `rtol`, relatively."""

    rtol: float


@dataclass(frozen=True)
class Same(Witness):
    """The results are bitwise equal: the fix saves work and changes nothing else."""


@dataclass(frozen=True)
class Syncs(Witness):
    """Reads of the device by the host: at least `before` in the bad program, `after` when fixed."""

    before: int
    after: int


@dataclass(frozen=True)
class Warns(Witness):
    """The bad program warns with a text that holds `text`; the fixed one does not."""

    text: str


@dataclass(frozen=True)
class Unrun(Witness):
    """Nothing here can run the claim; `reason` says why, `source` where the claim comes from."""

    reason: str
    source: str


NOT_RUN = Unrun("no witness is given", "")


class Change(Enum):
    """A side effect that the unsafe fixes of a rule may have.

    A safe fix changes nothing. `amplint verify` takes what is not declared for a mistake.
    """

    DTYPE = "dtype"
    ROUNDING = "rounding"
    STREAM = "random stream"
    # Gradients, weights and losses are other ones: the mistake spoils the training itself.
    TRAINING = "training"


class Presumes(Enum):
    """Where a rule speaks of an autocast region that nobody is seen to open, and that is presumed
    (see `amplint.inference.presumption`).

    NEVER: nowhere; the region has to be seen.
    AUDITED: where the settings presume it (`assume-autocast = true`).
    ALWAYS: there, and where the project shows that it trains under autocast.
    """

    NEVER = "never"
    AUDITED = "audited"
    ALWAYS = "always"


# The documentation is published nowhere yet, so that the pages are named from the root of the
# repository. Once it is, its address goes here, and all reports lead there.
PAGES = "docs/rules/"


def page_address(code: str) -> str:
    """The address of a rule's page; `amplint explain` prints the same page."""
    return f"{PAGES}{code}.md"


@dataclass(frozen=True)
class Rule:
    """The claim of a rule.

    Args:
        code: `AMPnnn`, or of a rule that another package brings, other letters with three digits;
            never reused, never given another meaning.
        doc: the module's docstring: summary line, what happens at run time, then the headings
            `Fix safety:` and `Known limits:`.
        group: strength of the claim; decides the default.
        other_groups: the groups of findings whose evidence is stronger or weaker than usual.
        since: the version of its package that introduced the rule.
        help: what to do about a finding, shown where it has no fix: a phrase in the imperative,
            such as "read it once after the loop".
        witness: what running the rule's fixture must show; only amplint's own rules are run.
        supersedes: codes that stay silent where this rule speaks about the same node.
        safe_if: the conditions that its safe fixes rest on; each fix names those that it needs.
        changes: what its unsafe fixes may change.
        cost: how often its mistake is paid for, where that is not as often as its place runs.
        violation: what it reports, if that is a violation of the protocol of a GradScaler.
        torch: the lowest torch version for which the rule holds, e.g. "2.4"; None for any.
        fixes_torch: the lowest torch version that its fixes are for, where that is above `torch`.
        until: the first torch version for which it holds no more; then it speaks only where the
            project says that it supports an older one, by `target-torch` or by its requirements.
            None for any.
        presumes: whether it speaks where an autocast region is presumed; None for a rule that is
            not about autocast.
        preview: whether it is new, and runs only where the settings ask for such rules
            (`preview = true`), until its findings on real code have been read.
        cut_from: the rules that reported its mistakes before there was this one. What selects,
            ignores, suppresses or knows a finding of them holds for the findings of this rule that
            name them (`Finding.former`).
        page: the address of its page, for a rule that another package brings; "" for none.
        name: the pattern, as in "allow NAME"; filled in from the module's name.
        package: the package that brings it, with its version; "" for amplint. Filled in.
    """

    code: str
    doc: str
    group: Group
    since: str
    witness: Witness = NOT_RUN
    supersedes: tuple[str, ...] = ()
    safe_if: tuple[str, ...] = ()
    changes: frozenset[Change] = frozenset()
    violation: Violation | None = None
    torch: str | None = None
    fixes_torch: str | None = None
    until: str | None = None
    other_groups: tuple[Group, ...] = ()
    help: str = ""
    cost: Cost | None = None
    presumes: Presumes | None = None
    preview: bool = False
    cut_from: tuple[RuleName, ...] = ()
    page: str = ""
    name: str = ""
    package: str = ""
    checks: list[Check] = field(default_factory=list, compare=False, repr=False)

    def on(self, condition: Candidates) -> Callable[[Judge], Judge]:
        """Register a check of the nodes that meet a condition: `check(at: View)`.

        The check is a generator of findings. It holds no state between nodes, prints nothing and
        changes nothing. It is run on the value graph first, and again with the code of the file
        where it came to a finding, or asked how something is written (`amplint.view.view`).
        """

        def register(judge: Judge) -> Judge:
            self.checks.append(Check(condition, judge))
            return judge

        return register

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups that findings of the rule may be in."""
        return self.group, *self.other_groups

    @property
    def default(self) -> bool:
        """Whether it is on where no setting says so."""
        return self.group.default and not self.preview

    @property
    def url(self) -> str:
        """The address of its page; "" if it has none."""
        return self.page if self.package else page_address(self.code)

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring, on one line."""
        return " ".join(self.doc.strip().split("\n\n")[0].split())

    def section(self, heading: str) -> str:
        """The paragraph that begins with `heading:` in the docstring, without the heading."""
        match = re.search(
            rf"^{re.escape(heading)}:\s*(.*?)(?=\n\n[A-Z][\w ]*:|\Z)", self.doc, re.M | re.S
        )
        return match.group(1).strip() if match else ""
