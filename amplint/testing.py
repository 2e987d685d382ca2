"""The proof that the rules of amplint go through, for rules of one's own.

Each rule has a folder with its name, `fixtures/my_pattern/`. In it, `bad.py` is code that is wrong:
each line that the rule must report ends with `# expect: ACM101`, and a mistake that it is known not
to see with `# miss: ACM101`. `good.py` holds near misses, about which it must be silent. Both may
import other modules of the folder; neither sees the other. `report.txt` is what amplint says about
bad.py, to be read by people. With pytest:

    PROOFS = testing.proofs("acme_rules", Path(__file__).parent / "fixtures")

    @pytest.mark.parametrize("proof", PROOFS, ids=str)
    def test_rules(proof: testing.Proof, pytestconfig: pytest.Config) -> None:
        proof(update=pytestconfig.getoption("--update"))
"""

from __future__ import annotations

import ast
import difflib
import itertools
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from amplint.findings.finding import Edit, Finding, Safety, edited
from amplint.fix import applying, single_round
from amplint.fix.new_mistakes import Edited, new_mistakes
from amplint.fix.project_fixes import fix_project, write_project
from amplint.ir.file_index import File
from amplint.project.config import DEFAULT_SELECT, Settings
from amplint.project.discover import Selection
from amplint.rule import registry
from amplint.rule.fixtures import Files, modules, write
from amplint.rule.of_engine import ENGINE_RULES
from amplint.rule.rule import Rule
from amplint.run.engine import run
from amplint.run.request import Outcome, Request

__all__ = ["Proof", "proofs"]

MARKER = re.compile(r"# (expect|miss): ([A-Z]{2,5}\d{3}(?:, [A-Z]{2,5}\d{3})*)")
APPLIED = (Safety.SAFE, Safety.UNSAFE)
MESSAGE_LENGTH = 100
REPORT = "report.txt"

Place = tuple[int, str]  # a row and a code


@dataclass(frozen=True)
class Proof:
    """One of the claims about a fixture; as text, the name of its folder and of the claim."""

    fixture: Fixture
    claim: Callable[[Fixture, bool], None]

    def __call__(self, update: bool = False) -> None:
        """Raise AssertionError unless the claim holds.

        Args:
            update: whether to write report.txt anew rather than to compare with it.
        """
        self.claim(self.fixture, update)

    def __str__(self) -> str:
        return f"{self.fixture.folder.name}-{self.claim.__name__}"


def proofs(package: str, fixtures: Path) -> list[Proof]:
    """All claims about the fixtures of a package of rules, which need not be installed.

    A folder is checked with its own rule and those of the package that are on by default. Rules of
    other packages, amplint's included, do not look at it: they change with each version.

    Args:
        package: the module, or the package of modules, that its entry point names.
        fixtures: the directory with a folder for each rule.

    Raises:
        RegistryError: a rule cannot be imported, or is not valid.
    """
    modules = registry.modules_of(package, package)
    rules = registry.ordered(registry.load(module, package) for module in modules)
    names = {*(folder_of(rule) for rule in rules), *folders_in(fixtures)}
    return proofs_of(fixture_at(fixtures / name, rules) for name in sorted(names))


def proofs_of(fixtures: Iterable[Fixture]) -> list[Proof]:
    """All claims about some fixtures; of one that lacks its rule or a program, only that."""
    return [
        Proof(fixture, claim)
        for fixture in fixtures
        for claim in (CLAIMS if fixture.is_whole else CLAIMS[:1])
    ]


def folders_in(fixtures: Path) -> list[str]:
    """The names of the folders of a directory."""
    return [path.name for path in fixtures.glob("[!_.]*") if path.is_dir()]


def fixture_at(folder: Path, rules: Sequence[Rule]) -> Fixture:
    """The fixture in a folder, for the rule of its name, be it there or not."""
    rule = next((rule for rule in rules if folder_of(rule) == folder.name), None)
    target = (rule.torch or "0.0") if rule is not None and rule.until is not None else None
    return Fixture(folder, rule, (*ENGINE_RULES, *rules), target)


def folder_of(rule: Rule) -> str:
    """The name of a rule's folder."""
    return rule.name.replace("-", "_")


# ------------------------------------------------------------------------------- programs


@dataclass(frozen=True)
class Fixture:
    """A folder that shows one rule at work.

    Args:
        folder: with bad.py, good.py, the modules that these import, and report.txt.
        rule: the rule of that name; None where there is none.
        rules: those that it is checked with: `rule`, and of the others those on by default.
        target_torch: the lowest version of torch that its programs support.
    """

    folder: Path
    rule: Rule | None
    rules: Sequence[Rule]
    target_torch: str | None = None
    _indexed: dict[tuple[str, str], File] = field(default_factory=dict, compare=False, repr=False)

    @property
    def selected(self) -> tuple[str, ...]:
        """The findings that it is checked for."""
        return (*DEFAULT_SELECT, *([self.rule.code] if self.rule is not None else []))

    @property
    def is_whole(self) -> bool:
        """Whether it has a rule and both programs."""
        programs = (self.folder / "bad.py", self.folder / "good.py")
        return self.rule is not None and all(file.is_file() for file in programs)

    def modules(self) -> dict[str, bytes]:
        """All modules of the folder: bad.py, good.py, and what they import."""
        return modules(self.folder)

    def program(self, name: str) -> dict[str, bytes]:
        """The project of bad.py or of good.py: all modules of the folder but the other one."""
        return program(self.folder, name)

    @cached_property
    def outcome(self) -> Outcome:
        """The findings in the bad program."""
        return self.lint(self.program("bad"))

    def lint(self, files: Files, overlays: Mapping[str, str] | None = None) -> Outcome:
        """Check a project. Raises AssertionError for what amplint, or a rule, could not do."""
        with tempfile.TemporaryDirectory() as directory:
            return checked(self.request(files, Path(directory), overlays))

    def fix(self, files: Files, unsafe: bool) -> dict[str, bytes]:
        """A project with all fixes applied that may be, until none is left."""
        with tempfile.TemporaryDirectory() as directory:
            return fixed(self.request(files, Path(directory)), unsafe)

    def pruned(self, path: str, new: str) -> str:
        """The new text of a file without the imports that it no longer needs, as `amplint fix`
        writes it."""
        with tempfile.TemporaryDirectory() as directory:
            request = self.request(self.program("bad"), Path(directory))
            files = single_round.RoundFiles(request, self.outcome.all_texts)
            return single_round.without_orphans(path, self.outcome.texts[path], new, files)

    def request(
        self, files: Files, directory: Path, overlays: Mapping[str, str] | None = None
    ) -> Request:
        write(files, directory)
        paths = tuple(sorted(files))
        return Request(
            selection=Selection(directory, paths, frozenset(paths)),
            settings=Settings(
                directory, select=self.selected, preview=True, target_torch=self.target_torch
            ),
            rules=self.rules,
            overlays=overlays or {},
            indexed=self._indexed,
        )


def program(folder: Path, name: str) -> dict[str, bytes]:
    """The modules of a folder for bad.py or for good.py: all but the other one."""
    left_out = {"bad": "good.py", "good": "bad.py"}[name]
    return {path: data for path, data in modules(folder).items() if path != left_out}


def checked(request: Request) -> Outcome:
    """The outcome of a run. Raises AssertionError for what amplint, or a rule, could not do."""
    outcome = run(request)
    demand(not outcome.problems, *outcome.problems)
    return outcome


def fixed(request: Request, unsafe: bool) -> dict[str, bytes]:
    """Apply all fixes to the files of a project until none is left, and read these back."""
    done = fix_project(request, unsafe)
    demand(not done.withheld, *done.withheld)
    written, problems = write_project(request, done, unsafe)
    demand(not (*written.outcome.problems, *problems), *written.outcome.problems, *problems)
    root = request.selection.root
    return {path: (root / path).read_bytes() for path in request.selection.files}


def markers(text: str, kind: str) -> list[Place]:
    """The rows and codes of the `# expect:` or `# miss:` comments, one for each code."""
    marks = []
    for row, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        for match in MARKER.finditer(line):
            if match[1] == kind:
                marks += [(row, code) for code in match[2].split(", ")]
    return marks


def places(findings: Iterable[Finding], path: str) -> list[Place]:
    """Where findings in one file begin, sorted."""
    return sorted((f.span.start.row, f.code) for f in findings if f.path == path)


def demand(holds: object, *lines: str) -> None:
    """Raise AssertionError unless something holds."""
    __tracebackhide__ = True  # pytest shows who demands it
    if not holds:
        raise AssertionError("\n".join(lines))


# ------------------------------------------------------------------------------- claims


def folder_is_complete(fixture: Fixture, _: bool) -> None:
    """The folder has a rule, bad.py shows it at work, and good.py is there."""
    folder, rule, files = fixture.folder, fixture.rule, fixture.modules()
    if rule is None:
        raise AssertionError(f"{folder.name}: no rule has this name")
    for name in ("bad.py", "good.py"):
        demand(name in files, f"{rule.code} has no {folder / name}")
    codes = {code for _, code in markers(files["bad.py"].decode(), "expect")}
    demand(rule.code in codes, f"no line of bad.py ends with `# expect: {rule.code}`")


def findings_equal_markers(fixture: Fixture, _: bool) -> None:
    """Both ways: nothing that is marked stays unfound, nothing is found that is not marked."""
    unfound, unmarked = [], []
    for path, data in fixture.program("bad").items():
        expected = Counter(markers(data.decode(), "expect"))
        actual = Counter(places(fixture.outcome.findings, path))
        lines = data.decode().splitlines()
        unfound += [
            f"{path}:{row} {code}: {lines[row - 1]}"
            for row, code in sorted((expected - actual).elements())
        ]
        unmarked += [
            f"{path}:{row} {code}: {lines[row - 1]}"
            for row, code in sorted((actual - expected).elements())
        ]
    report = ["", "marked, but not found:", *unfound, "found, but not marked:", *unmarked]
    demand(not unfound and not unmarked, *report)


def known_misses_are_still_missed(fixture: Fixture, _: bool) -> None:
    """`# miss: CODE` fails once it is found: make it an expectation then."""
    for path, data in fixture.program("bad").items():
        hits = set(places(fixture.outcome.findings, path)) & set(markers(data.decode(), "miss"))
        demand(not hits, f"{path}: no longer missed: {sorted(hits)}")


def good_is_silent(fixture: Fixture, _: bool) -> None:
    """Nothing is found in good.py, and no marker there says otherwise."""
    files = fixture.program("good")
    findings = places(fixture.lint(files).findings, "good.py")
    demand(not findings, f"found in good.py: {findings}")
    demand(not MARKER.search(files["good.py"].decode()), "good.py expects findings")


def good_is_not_changed(fixture: Fixture, _: bool) -> None:
    """No fix touches good.py."""
    files = fixture.program("good")
    demand(fixture.fix(files, True)["good.py"] == files["good.py"], "good.py is changed by a fix")


def findings_are_well_formed(fixture: Fixture, _: bool) -> None:
    """Spans lie in their files, and the words follow the conventions."""
    for finding in fixture.outcome.findings:
        complaint = complaint_about(finding, fixture.outcome, fixture.rules)
        demand(complaint is None, f"{at(finding)}: {complaint}")


def each_fix_removes_its_finding(fixture: Fixture, _: bool) -> None:
    """Each fix removes its finding, makes no new one, and uses no name that may be unbound there.

    Findings that the fixed one superseded may take its place. The fixes of different functions are
    tried together: each run takes a part of a second, and a fixture has up to sixty of them.
    """
    for group in tried_together(fixture.outcome):
        demand_fixed(fixture, group)


def tried_together(outcome: Outcome) -> list[list[Finding]]:
    """The findings with fixes that may be applied, in groups of one for each function or class at
    the top of a file, whose edits are not in each other's way."""
    groups: list[list[Finding]] = []
    for finding in outcome.findings:
        if finding.fix is None or finding.fix.safety not in APPLIED:
            continue
        group = next((each for each in groups if is_apart(finding, each)), None)
        if group is None:
            group = []
            groups.append(group)
        group.append(finding)
    return groups


def is_apart(finding: Finding, others: Iterable[Finding]) -> bool:
    """Whether a finding stands in another definition than others do, and so do its edits."""
    return all(
        definition(finding) != definition(other)
        and (
            finding.path != other.path
            or all(
                one.end < two.start or two.end < one.start for one, two in edits_of(finding, other)
            )
        )
        for other in others
    )


def definition(finding: Finding) -> tuple[str, str]:
    return finding.path, finding.scope.partition(".")[0]


def edits_of(one: Finding, other: Finding) -> Iterable[tuple[Edit, Edit]]:
    assert one.fix is not None and other.fix is not None
    return itertools.product(one.fix.edits, other.fix.edits)


def demand_fixed(fixture: Fixture, group: Sequence[Finding]) -> None:
    """Raise AssertionError unless the fixes of some findings do what they are for."""
    outcome = fixture.outcome
    supersedes = {rule.code: set(rule.supersedes) for rule in fixture.rules}
    before = {finding.path: outcome.texts[finding.path] for finding in group}
    after: dict[str, str] = {}
    for path, text in before.items():
        edits = [e for each in group if each.path == path and each.fix for e in each.fix.edits]
        after[path] = fixture.pruned(path, edited(text.text, edits))
        label = ", ".join(at(each) for each in group if each.path == path)
        demand(after[path] != text.text, f"{label}: the fix changes nothing")
        ast.parse(after[path])
        objection = applying.objection(text, after[path])
        demand(objection is None, f"{label}: {objection}")
    findings = fixture.lint(fixture.program("bad"), after).findings
    counted = Counter(map(identity, outcome.findings))
    remaining = Counter(map(identity, findings))
    for finding in group:
        is_gone = remaining[identity(finding)] < counted[identity(finding)]
        demand(is_gone, f"{at(finding)}: it is still there after the fix")
    excused = {
        (*definition(finding), code) for finding in group for code in supersedes[finding.code]
    }
    new = [
        (path, code, scope)
        for path, code, scope in remaining - counted
        if (path, scope.partition(".")[0], code) not in excused
    ]
    where = ", ".join(map(at, group))
    demand(not new, f"{where}: the fix makes new findings: {new}")
    brought = new_mistakes(outcome.findings, findings, group, Edited(before, after), fixture.rules)
    demand(not brought, f"{where}: the fix brings mistakes:", *map(at, brought))


def fixes_are_stable(fixture: Fixture, unsafe: bool) -> None:
    safeties = APPLIED if unsafe else APPLIED[:1]
    if not any(f.fix and f.fix.safety is safeties[-1] for f in fixture.outcome.findings):
        return
    once = fixture.fix(fixture.program("bad"), unsafe)
    for path, data in once.items():
        compile(data, path, "exec")
    remaining = [f for f in fixture.lint(once).findings if f.fix and f.fix.safety in safeties]
    demand(not remaining, "fixes are left:", *map(at, remaining))


def safe_fixes_are_stable(fixture: Fixture, _: bool) -> None:
    """The fixed program parses, and has nothing left to fix: a second run leaves it alone."""
    fixes_are_stable(fixture, unsafe=False)


def all_fixes_are_stable(fixture: Fixture, _: bool) -> None:
    """The program with all fixes, the unsafe ones included, parses, and has nothing left to fix."""
    fixes_are_stable(fixture, unsafe=True)


def report_is_up_to_date(fixture: Fixture, update: bool) -> None:
    """report.txt is what amplint says, to be read by people; `update` writes it."""
    path = fixture.folder / REPORT
    text = rendered(fixture.outcome)
    if update:
        path.write_text(text, encoding="utf-8")
    demand(path.is_file(), f"{path} is not there: run pytest with --update, and read it")
    before = path.read_text(encoding="utf-8")
    changed = difflib.unified_diff(before.splitlines(), text.splitlines(), "before", "now")
    demand(before == text, f"{path} is out of date; --update writes it", *changed)


CLAIMS = (
    folder_is_complete, findings_equal_markers, known_misses_are_still_missed, good_is_silent,
    good_is_not_changed, findings_are_well_formed, each_fix_removes_its_finding,
    safe_fixes_are_stable, all_fixes_are_stable, report_is_up_to_date,
)  # fmt: skip


# ------------------------------------------------------------------------------- conventions


def identity(finding: Finding) -> tuple[str, str, str]:
    """A finding without its place, which moves when lines come and go."""
    return finding.path, finding.code, finding.scope


def at(finding: Finding) -> str:
    return f"{finding.path}:{finding.span.start.row} {finding.code}"


def complaint_about(finding: Finding, outcome: Outcome, rules: Sequence[Rule]) -> str | None:
    """The first flaw in how a finding is made, if there is one."""
    names = {rule.code: rule.name for rule in rules}
    text = outcome.texts[finding.path]
    if finding.name != names[finding.code]:
        return f"its rule is called {names[finding.code]}, not {finding.name}"
    if not finding.span.start <= finding.span.end or finding.span.end.row > text.rows:
        return f"{finding.span} is no place in the file"
    if complaint := message_complaint(finding.message):
        return f"the message {finding.message!r} {complaint}"
    claim = finding.message.partition(": ")[2] if finding.presumed else finding.message
    if len(claim) > MESSAGE_LENGTH:
        return f"the message {finding.message!r} has more than {MESSAGE_LENGTH} characters"
    for related in finding.related:
        if related.path not in outcome.texts:
            return f"the related place is in {related.path}, which is no file of the project"
        if related.span.end.row > outcome.texts[related.path].rows:
            return f"the related {related.span} is no place in {related.path}"
        if complaint := message_complaint(related.message):
            return f"the message {related.message!r} {complaint}"
    fix = finding.fix
    if fix is None:
        return None
    if complaint := title_complaint(fix.title):
        return f"the title {fix.title!r} {complaint}"
    for condition in fix.proven:
        if complaint := message_complaint(condition):
            return f"the condition {condition!r} {complaint}"
    edits = sorted(fix.edits)
    if not edits and fix.safety is not Safety.SUGGEST:
        return "the fix has no edits"
    if not all(0 <= edit.start <= edit.end <= len(text.text) for edit in edits):
        return "an edit is not in the file"
    if not all(one.end <= other.start for one, other in itertools.pairwise(edits)):
        return "edits overlap"
    return None


def message_complaint(message: str) -> str | None:
    """Messages continue a sentence: no capital at the start (but in a name), no stop at the end."""
    if not message or message != message.strip() or "\n" in message:
        return "is not a line of text"
    if not re.match(r"[a-z`'\"0-9]|[A-Z]+\b|[A-Z]\w*[A-Z]\w*", message):
        return "begins with a capital"
    return "ends with a stop" if re.search(r"[.!]$", message) else None


def title_complaint(title: str) -> str | None:
    """Titles are verb phrases: `Create the tensor on its device`."""
    if not re.match(r"[A-Z][a-z]+ \S", title):
        return "does not begin with a capital verb"
    if re.match(r"(The|A|An|This|It|You|Use of|\w+ing)\b", title):
        return "does not begin with a verb in the imperative"
    return "ends with a stop" if title.endswith((".", "!")) else None


# ------------------------------------------------------------------------------- the report


def rendered(outcome: Outcome) -> str:
    """The findings with their lines, related places and fixes."""
    blocks = []
    for finding in outcome.findings:
        start = finding.span.start
        lines = [
            f"{finding.path}:{start.row}:{start.column}: {finding.code} {finding.name}"
            f" ({finding.group.value})",
            f"  {finding.message}",
            f"  | {outcome.texts[finding.path].line(start.row).strip()}",
        ]
        for related in finding.related:
            place = related.span.start
            lines.append(f"  see {related.path}:{place.row}:{place.column}: {related.message}")
        if finding.fix is not None:
            lines.append(f"  fix ({finding.fix.safety.value}): {finding.fix.title}")
            if finding.fix.proven:
                lines.append(f"  safe because {'; '.join(finding.fix.proven)}")
            before = outcome.texts[finding.path].text
            after = edited(before, finding.fix.edits)
            lines += [f"    {line}" for line in changed_lines(before, after)]
        blocks.append("\n".join(line.rstrip() for line in lines))
    return "\n\n".join(blocks) + "\n"


def changed_lines(before: str, after: str, context: int = 0) -> list[str]:
    """The changed lines, and a number of lines around them."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=context, lineterm="")
    return [line for line in list(lines)[2:] if not line.startswith("@@")]
