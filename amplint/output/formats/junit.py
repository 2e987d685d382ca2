"""JUnit XML, for services that show the results of tests: each finding is a test that failed.

What amplint could not do is a test with an error, so that a report without findings does not pass
for a clean one.
"""

from __future__ import annotations

import re
from itertools import groupby
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from amplint.findings.finding import Finding
from amplint.output.formats import Report, advice
from amplint.util.escaping import without_controls

# Characters that XML 1.0 does not allow, not even by a reference.
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    outcome = report.outcome
    suites = Element("testsuites", name="amplint")
    by_path = sorted(outcome.findings, key=path_of)
    for path, findings in groupby(by_path, path_of):
        suite = SubElement(suites, "testsuite", name=text(report.path(path)))
        for finding in findings:
            add(finding, suite, report)
    if outcome.problems or not outcome.findings:
        suite = SubElement(suites, "testsuite", name="amplint")
        for problem in outcome.problems:
            case = SubElement(suite, "testcase", classname="amplint", name="problem")
            SubElement(case, "error", message=text(problem))
        if not outcome.problems:
            SubElement(suite, "testcase", classname="amplint", name="no findings")
    for counted in (*suites, suites):
        for attribute, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
            counted.set(attribute, str(sum(1 for _ in counted.iter(tag))))
    ElementTree.indent(suites)
    # References for all that is not ASCII: the report is right whatever standard output encodes.
    written: bytes = ElementTree.tostring(suites, encoding="us-ascii", xml_declaration=True)
    return written.decode("ascii")


def path_of(finding: Finding) -> str:
    return finding.path


def add(finding: Finding, suite: Element, report: Report) -> None:
    row, column = report.text(finding.path).in_file(finding.span.start)
    path = report.path(finding.path)
    case = SubElement(
        suite,
        "testcase",
        classname=text(path.removesuffix(".py").replace("/", ".")),
        name=f"{finding.code} {finding.name} {row}:{column}",
        file=text(path),
        line=str(row),
    )
    failure = SubElement(case, "failure", type=finding.code, message=text(finding.message))
    place = report.place(finding.path, finding.span.start)
    lines = (f"{place}: {finding.message}", *report.chain(finding), advice(finding))
    failure.text = "\n".join(text(line) for line in lines if line)


def text(written: str) -> str:
    """The text in one line of XML."""
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", without_controls(written))
