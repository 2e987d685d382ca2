"""The page of a rule: its parts, and where they come from."""

import re
from dataclasses import replace

from amplint.output import rule_page
from amplint.rule.of_engine import UNPARSABLE
from amplint.rule.registry import all_rules, find
from amplint.rule.rule import Rule
from tests.helpers import of_each

NEEDED = set(rule_page.LABELS) - {"A fix as a diff"}


def labels(page: str) -> list[str]:
    return re.findall(rf"^({'|'.join(rule_page.LABELS)}):", page, re.MULTILINE)


@of_each(all_rules())
def test_a_page_has_all_parts_in_their_order(rule: Rule) -> None:
    found = labels(rule_page.body(rule))
    assert set(found) >= NEEDED
    order = [rule_page.LABELS.index(label) for label in found if label not in ("Bad", "Good")]
    assert order == sorted(order)
    assert found.count("Bad") == found.count("Good")


def test_examples_that_follow_each_other_are_bad_and_good() -> None:
    one, two, three, four = (f"    {name}()" for name in ("a", "b", "c", "d"))

    def page(*blocks: str) -> str:
        return " ".join(each.strip() for each in rule_page.with_labels("\n\n".join(blocks)))

    assert page("why", one, two, "more") == "why Bad: a() Good: b() more"
    assert page(one, two, three, four) == "Bad: a() Good: b() Bad: c() Good: d()"
    assert page(one, two, three) == "Bad: a() Good: b() c()", "a third one is good, too"
    assert page(one, "more") == "a() more", "one by itself is either"


def test_a_fix_is_shown_where_the_fixture_has_one() -> None:
    shown = rule_page.body(find("AMP702"))
    assert re.search(r"\nA fix as a diff: .* \(safe\)\n\n    (.*\n)*?    -.*\n    \+", shown)
    assert "A fix as a diff" not in rule_page.body(find("AMP103"))
    assert "A fix as a diff" not in rule_page.body(replace(find("AMP702"), name="somebody-elses"))


def test_a_comment_is_named_where_one_suppresses() -> None:
    assert "`# amplint: ignore[AMP702] the reason` on the line" in rule_page.body(find("AMP702"))
    assert "A comment cannot." in rule_page.body(UNPARSABLE)
    assert '`extend-select = ["AMP102"]` switches it on' in rule_page.body(find("AMP102"))
