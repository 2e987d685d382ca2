"""The claim of a rule about training code, with all that is declared of it but its checks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from amplint.findings.finding import Cost, Group, RuleName
from amplint.findings.violations import Violation
from amplint.findings.witness import NOT_RUN, Witness


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
    (see `amplint.inference.whole_program.presumption`).

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
class Declaration:
    """The claim of a rule. (With its checks it is an `amplint.rule.rule.Rule`.)

    Args:
        code: `AMPnnn`, or of a rule that another package brings, other letters with three digits;
            never reused, never given another meaning.
        doc: the module's docstring: summary line, what happens at run time, then the headings
            `Fix safety:` and `Known limits:`.
        group: strength of the claim; decides the default.
        other_groups: the groups of findings whose evidence is stronger or weaker than usual.
        since: the version of its package that introduced the rule, if that was not the first.
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
    since: str = "0.1"
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
