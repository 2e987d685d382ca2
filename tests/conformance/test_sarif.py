"""SARIF reports against the schema that OASIS published, and what services read from them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from amplint import Cost, Edit, Finding, Fix, Group, Related, Safety
from amplint.output.formats import Report, render, sarif
from amplint.output.formats.sarif import descriptor
from amplint.output.rule_page import address
from amplint.rule import registry
from amplint.rule.of_engine import UNPARSABLE, UNUSED
from amplint.run.fingerprint import fingerprints
from amplint.run.request import Outcome
from amplint.util.positions import Position, Span
from amplint.util.text import Text

SCHEMA = json.loads(
    (Path(__file__).parent / "schemas" / "sarif-schema-2.1.0.json").read_text(encoding="utf-8")
)
RULES = (
    UNPARSABLE,
    UNUSED,
    replace(UNPARSABLE, code="AMP101", name="host-read", doc="Reads.\n\nSee https://x.org/a."),
)
SOURCE = "é = 数(x.item())\ny = 1\n"
SPAN = Span(Position(1, 7), Position(1, 15))
FINDING = Finding(
    code="AMP101",
    name="host-read",
    group=Group.PERFORMANCE,
    path="src/my train.py",
    span=SPAN,
    message="`x.item()` waits for the device",
    scope="Trainer.run",
    fix=Fix("Drop it", (Edit(6, 14, "x"), Edit(16, 17, "z")), Safety.UNSAFE),
    related=(Related("src/other.py", SPAN, "hot: called for every batch"),),
)


def log(*findings: Finding, directory: str = "/p", **values: Any) -> dict[str, Any]:
    outcome = Outcome(
        root=Path("/p"),
        findings=findings,
        problems=values.get("problems", ()),
        notices=values.get("notices", ()),
        files=("src/my train.py",),
        texts={"src/my train.py": Text(SOURCE)},
    )
    document: dict[str, Any] = json.loads(render("sarif", Report(outcome, RULES, Path(directory))))
    jsonschema.Draft4Validator(
        SCHEMA, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER
    ).validate(document)
    return document


def run_of(document: dict[str, Any]) -> dict[str, Any]:
    (run,) = document["runs"]
    assert isinstance(run, dict)
    return run


def test_the_schema_is_that_of_the_standard_and_refuses_what_is_wrong() -> None:
    assert SCHEMA["id"].endswith("/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json")
    document = log(FINDING)
    document["runs"][0]["results"][0]["level"] = "warn"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft4Validator(SCHEMA).validate(document)


def test_an_empty_report_is_valid_and_lists_the_rules() -> None:
    run = run_of(log())
    assert run["results"] == []
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["AMP000", "AMP001", "AMP101"]
    assert run["columnKind"] == "unicodeCodePoints"
    assert run["invocations"][0]["executionSuccessful"]


def test_a_rule_has_its_page_its_help_link_and_its_level() -> None:
    rule = run_of(log())["tool"]["driver"]["rules"][2]
    assert rule["name"] == "host-read"
    assert rule["shortDescription"] == {"text": "Reads."}
    assert rule["helpUri"] == "https://x.org/a"
    assert rule["defaultConfiguration"] == {"enabled": True, "level": "error"}


def test_a_result_points_at_characters_by_relative_uris() -> None:
    (result,) = run_of(log(FINDING))["results"]
    assert (result["ruleId"], result["ruleIndex"], result["level"]) == ("AMP101", 2, "warning")
    place = {
        "artifactLocation": {"uri": "src/my%20train.py"},
        "region": {"startLine": 1, "startColumn": 7, "endLine": 1, "endColumn": 15},
    }
    assert result["locations"] == [
        {
            "physicalLocation": place,
            "logicalLocations": [{"fullyQualifiedName": "Trainer.run"}],
        }
    ]
    (related,) = result["relatedLocations"]
    assert related["physicalLocation"]["artifactLocation"]["uri"] == "src/other.py"
    assert related["message"]["text"] == "hot: called for every batch"


def test_a_fix_replaces_regions() -> None:
    (result,) = run_of(log(FINDING))["results"]
    (fix,) = result["fixes"]
    assert fix["description"]["text"] == "Drop it (unsafe)"
    (change,) = fix["artifactChanges"]
    assert [one["deletedRegion"]["startColumn"] for one in change["replacements"]] == [7, 1]
    assert [one["insertedContent"]["text"] for one in change["replacements"]] == ["x", "z"]


def test_a_suggestion_without_edits_is_no_fix_to_a_machine() -> None:
    shown = replace(FINDING, fix=Fix("Rewrite it", (), Safety.SUGGEST))
    (result,) = run_of(log(shown))["results"]
    assert "fixes" not in result


def test_uris_start_where_the_reader_stands_or_at_the_root() -> None:
    def uri(directory: str) -> str:
        (result,) = run_of(log(FINDING, directory=directory))["results"]
        found: str = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        return found

    assert uri("/p/src") == "my%20train.py"
    assert uri("/p/doc") == "src/my%20train.py"
    assert uri("/") == "p/src/my%20train.py"


def test_fingerprints_are_there() -> None:
    (result,) = run_of(log(FINDING))["results"]
    (expected,) = fingerprints([FINDING], {"src/my train.py": Text(SOURCE)})
    assert result["partialFingerprints"] == {"amplint/v1": expected}


def test_a_published_page_is_the_help_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amplint.findings.declaration.PAGES", "https://x.org/rules/")
    rules = run_of(log())["tool"]["driver"]["rules"]
    assert [rule["helpUri"] for rule in rules] == [
        f"https://x.org/rules/{rule.code}.md" for rule in RULES
    ]


def test_no_address_is_relative() -> None:
    """The standard wants `helpUri` to be absolute, and the uploader of GitHub warns of others."""
    found = {address(rule) for rule in registry.all_rules()}
    assert "" in found and all(each.startswith("https://") for each in found if each)


def test_the_help_of_a_rule_begins_with_what_to_do() -> None:
    rule = run_of(log())["tool"]["driver"]["rules"][2]
    assert rule["help"] == {
        "text": "To do: fix the syntax, or run amplint with the Python version that this file "
        "targets.\n\nReads.\n\nSee https://x.org/a.",
        "markdown": "**To do:** fix the syntax, or run amplint with the Python version that this "
        "file targets.\n\nReads.\n\nSee https://x.org/a.",
    }


def test_code_in_a_message_is_no_link_and_no_escape() -> None:
    odd = replace(
        FINDING,
        message="`x[see](https://x.org)`\x1b\n",
        related=(Related("src/other.py", SPAN, "`y[0](1)`"),),
    )
    (result,) = run_of(log(odd))["results"]
    assert result["message"]["text"] == "`x[see] (https://x.org)`\ufffd\ufffd"
    assert result["relatedLocations"][0]["message"]["text"] == "`y[0] (1)`"


def test_rules_keep_the_limits_of_github() -> None:
    """https://docs.github.com/code-security, "SARIF support for code scanning" """
    rules = registry.all_rules()
    assert len(rules) <= 25_000
    for rule in map(descriptor, rules):
        assert len(rule["name"]) <= 255
        assert 0 < len(rule["shortDescription"]["text"]) <= 1024
        assert 0 < len(rule["fullDescription"]["text"]) <= 1024
        assert rule["help"]["text"]
        assert len(rule["properties"]["tags"]) <= 10


def test_no_more_results_than_github_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sarif.MOST_RESULTS == 25_000
    monkeypatch.setattr(sarif, "MOST_RESULTS", 2)
    costs = (Cost.ONCE, Cost.RUN, Cost.EVALUATION, Cost.STEP)
    found = [replace(FINDING, message=cost.value, cost=cost) for cost in costs]
    run = run_of(log(*found))
    assert [result["message"]["text"] for result in run["results"]] == ["run", "step"]
    (told,) = run["invocations"][0]["toolExecutionNotifications"]
    assert told["message"]["text"] == "2 more findings are left out: GitHub takes 2"
    assert len(run_of(log(*found[:2]))["results"]) == 2


def test_what_amplint_could_not_do_is_told() -> None:
    (invocation,) = run_of(log(problems=("a.py: no",), notices=("one",)))["invocations"]
    assert not invocation["executionSuccessful"]
    assert [
        (one["level"], one["message"]["text"]) for one in invocation["toolExecutionNotifications"]
    ] == [("error", "a.py: no"), ("note", "one")]
