"""Suppression comments: what they hold for, and which of them are unused."""

from collections.abc import Sequence

import pytest

from amplint import Finding, Group, Rule, Unrun
from amplint.findings.rows import Rows
from amplint.findings.suppressions import Suppressions
from amplint.rule.of_engine import ENGINE_RULES
from amplint.run import unused_suppressions
from amplint.util.positions import Position, Span
from amplint.util.text import Text


def rule(code: str, name: str) -> Rule:
    return Rule(code, "doc", Group.PERFORMANCE, "0.1", Unrun("", ""), name=name)


RULES = (*ENGINE_RULES, rule("AMP101", "host-read"), rule("AMP103", "tensor-truth"))


def finding(row: int, code: str = "AMP101", end_row: int | None = None, column: int = 1) -> Finding:
    name = {"AMP101": "host-read", "AMP103": "tensor-truth"}[code]
    span = Span(Position(row, column), Position(end_row or row, column + 1))
    return Finding(code, name, Group.PERFORMANCE, "a.py", span, "it is so")


def hidden(text: str, row: int, code: str = "AMP101", end_row: int | None = None) -> bool:
    return Suppressions(Text(text)).suppresses(finding(row, code, end_row))


def unused(
    text: str,
    findings: Sequence[Finding] = (),
    ran: Sequence[Rule] = RULES,
    all_ran: bool = True,
) -> list[Finding]:
    suppressions = Suppressions(Text(text))
    return [*unused_suppressions.unused(suppressions, "a.py", findings, RULES, ran, all_ran)]


def fixed(text: str, findings: Sequence[Finding] = ()) -> str:
    """The text without what is unused in it."""
    fixes = [one.fix for one in unused(text, findings) if one.fix is not None]
    for edit in sorted((edit for fix in fixes for edit in fix.edits), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


# ------------------------------------------------------------------------------ one line


@pytest.mark.parametrize(
    "comment",
    [
        "# amplint: ignore[AMP101]",
        "#amplint:ignore[AMP101]",
        "# amplint: ignore[AMP101] once per epoch, see #12",
        "# amplint: ignore[AMP103, AMP101]",
        "# amplint: ignore[amp101]",
        "# amplint: ignore[host-read]",
        "# amplint: ignore",
        "# amplint: ignore the log needs it",
        "# noqa: AMP101",
        "#noqa:AMP101",
        "# NOQA: E501, AMP101",
        "# noqa: E501 AMP101",
        "# noqa",
        "# noqa because",
        "# type: ignore[attr]  # amplint: ignore[AMP101] reason  # noqa: E501",
        "# amplint: ignore[AMP103]  # noqa: AMP101",
    ],
)
def test_a_comment_holds_for_its_line(comment: str) -> None:
    text = f"a = 1\nb = x.item()  {comment}\nc = 3\n"
    assert hidden(text, 2)
    assert not hidden(text, 1)
    assert not hidden(text, 3)


@pytest.mark.parametrize(
    "comment",
    [
        "# amplint: ignore[AMP103]",
        "# amplint: ignore AMP101",
        "# amplint: ignore[]",
        "# amplint: ignore[AMP101",
        "# amplint: ignored[AMP101]",
        "# noqa: E501",
        "# noqa: AMP1",
        "# noqa: because of AMP101",
        "# noqaAMP101",
        "# flake8: noqa",
        "# ruff: noqa: AMP101",
        '+ "# amplint: ignore[AMP101]"',
    ],
)
def test_what_is_no_suppression_of_it_hides_nothing(comment: str) -> None:
    assert not hidden(f"b = x.item()  {comment}\n", 1)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends_of_every_kind(newline: str) -> None:
    text = newline.join(["a = 1\f", "b = x.item()  # amplint: ignore[AMP101]", "c = 3", ""])
    assert [row for row in (1, 2, 3) if hidden(text, row)] == [2]


# ------------------------------------------------------------------------------ statements

STATEMENT = """\
with autocast(
    "cuda",
    enabled=bool(flag.item()),{inner}
):{last}
    y = x.item()
"""


def test_the_last_line_of_a_statement_holds_for_all_of_it_but_not_for_its_body() -> None:
    text = STATEMENT.format(inner="", last="  # amplint: ignore[AMP101]")
    assert [row for row in range(1, 6) if hidden(text, row)] == [1, 2, 3, 4]


def test_the_first_line_too() -> None:
    text = STATEMENT.format(inner="", last="").replace("(\n", "(  # amplint: ignore[AMP101]\n", 1)
    assert [row for row in range(1, 6) if hidden(text, row)] == [1, 2, 3, 4]


def test_an_inner_line_holds_for_itself() -> None:
    text = STATEMENT.format(inner="  # amplint: ignore[AMP101]", last="")
    assert [row for row in range(1, 6) if hidden(text, row)] == [3]


def test_the_last_line_of_the_finding_counts() -> None:
    text = "y = f(\n    g(\n        x\n    ).item(),  # amplint: ignore[AMP101]\n    z,\n)\n"
    assert hidden(text, 2, end_row=4)
    assert not hidden(text, 5)


def test_a_comment_on_its_own_line_holds_for_what_follows() -> None:
    text = "a = 1\n# amplint: ignore[AMP101] why\n\n# more\nb = f(\n    x.item()\n)\nc = 3\n"
    assert [row for row in range(1, 9) if hidden(text, row)] == [5, 6, 7]


def test_noqa_on_its_own_line_holds_for_nothing_else() -> None:
    assert not hidden("# noqa: AMP101\nb = x.item()\n", 2)


def test_ignore_file() -> None:
    text = '"""Doc."""\na = 1\n# amplint: ignore-file[AMP101] a benchmark\n'
    assert hidden(text, 2)
    assert not hidden(text, 2, "AMP103")
    assert hidden("a = 1  # amplint: ignore-file\n", 9, "AMP103")


def test_a_text_that_ends_too_early_is_read_as_far_as_it_goes() -> None:
    assert hidden("b = x.item()  # amplint: ignore[AMP101]\nc = (\n", 1)
    assert hidden("b = x.item()  # amplint: ignore[AMP101]\n  if:\n '''\n", 1)


@pytest.mark.parametrize(
    ("text", "row", "place"),
    [
        ("a = 1\nb = 2\n", 2, 2),
        ("a = f(\n    b\n)\n", 2, 2),  # inside of brackets a comment may stand anywhere
        ('a = """\n  b\n"""\nc = 1\n', 1, 3),
        ('a = """\n  b\n"""\nc = 1\n', 2, 3),
        ('f"""\n{x}\n"""\n', 2, 3),
        ("a = 1 + \\\n    2 + \\\n    3\n", 1, 3),
        ("a = 1 + \\\n    2 + \\\n    3\n", 2, 3),
        ("if a:\n    b = 1\n\n    c = 2\n", 2, 2),
    ],
)
def test_where_a_comment_can_be_written(text: str, row: int, place: int) -> None:
    assert Rows(Text(text)).noqa_row(row) == place


# ------------------------------------------------------------------------------ unused ones


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = 1  # amplint: ignore[AMP101]\n", "a = 1\n"),
        ("a = 1  # amplint: ignore[AMP101] a reason, see #7\n", "a = 1\n"),
        ("a = 1\t# amplint: ignore", "a = 1"),
        ("a = 1\r\n  # amplint: ignore[AMP101]\r\nb = 2\r\n", "a = 1\r\nb = 2\r\n"),
        ("# amplint: ignore-file[AMP101]\na = 1\n", "a = 1\n"),
        ("a = 1  # amplint: ignore[AMP101]  # type: ignore\n", "a = 1  # type: ignore\n"),
        ("a = 1  # why  # amplint: ignore[AMP101]\n", "a = 1  # why\n"),
        ("a = 1  # noqa: AMP101\n", "a = 1\n"),
        ("a = 1  # noqa: AMP101, E501\n", "a = 1  # noqa: E501\n"),
        ("a = 1  # noqa: E501,AMP101,AMP103\n", "a = 1  # noqa: E501\n"),
        ("a = 1  # noqa: E501 AMP101 W291\n", "a = 1  # noqa: E501 W291\n"),
        ("a = 1  # noqa: AMP101 the rest stays\n", "a = 1  # the rest stays\n"),
    ],
)
def test_the_fix_takes_out_the_unused_and_nothing_else(before: str, after: str) -> None:
    assert fixed(before) == after
    assert unused(after) == []


def test_only_the_unused_code_of_several_goes() -> None:
    found = [finding(1, "AMP103")]
    assert fixed("a = 1  # amplint: ignore[AMP101, AMP103] r\n", found) == (
        "a = 1  # amplint: ignore[AMP103] r\n"
    )
    assert fixed("a = 1  # amplint: ignore[AMP103, host-read]\n", found) == (
        "a = 1  # amplint: ignore[AMP103]\n"
    )


def test_one_finding_names_the_unused_codes_and_stands_at_the_comment() -> None:
    (one,) = unused("é = 1  # amplint: ignore[AMP101, AMP103]\n")
    assert one.code == "AMP001"
    assert one.message == "`AMP101`, `AMP103` suppress nothing here"
    assert one.span == Span(Position(1, 8), Position(1, 41))


def test_what_hides_something_is_used() -> None:
    text = "a = 1  # amplint: ignore[AMP101]\nb = 2  # noqa: AMP103\nc = 3  # amplint: ignore\n"
    assert unused(text, [finding(1), finding(2, "AMP103"), finding(3)]) == []


def test_nothing_is_said_of_rules_that_did_not_run() -> None:
    text = "a = 1  # amplint: ignore[AMP101]\nb = 2  # amplint: ignore\n"
    assert unused(text, ran=RULES[:2], all_ran=False) == []


def test_what_a_comment_does_not_name_on_its_line_is_said() -> None:
    (one,) = unused("a = 1  # amplint: ignore[AMP103]\n", [finding(1)])
    assert one.message == "`AMP103` suppresses nothing here: this line has AMP101"
    (one,) = unused("a = 1  # amplint: ignore[AMP101, AMP103]\n", [finding(1)])
    assert one.message == "`AMP103` suppresses nothing here", "the other one is suppressed"
    (one,) = unused("# amplint: ignore-file[AMP103]\na = 1\n", [finding(2)])
    assert one.message == "`AMP103` suppresses nothing here", "it is about no line"


@pytest.mark.parametrize("comment", ["# noqa", "# noqa: E501", "# noqa: E501, W291 text"])
def test_comments_to_other_tools_are_left_alone(comment: str) -> None:
    assert unused(f"a = 1  {comment}\n") == []


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("# amplint: ignore[AMP110]", "there is no rule `AMP110`; did you mean `AMP101`?"),
        ("# amplint: ignore[host-raed]", "there is no rule `host-raed`; did you mean `host-read`?"),
        ("# noqa: AMP999", "there is no rule `AMP999`"),
        ("# amplint: ignor[AMP101]", "is not understood; did you mean `ignore`?"),
        ("# amplint: ignore AMP101", "has no codes: write them as `ignore[AMP101]`"),
        ("# amplint: ignore[]", "has no codes: write them as `ignore[AMP101]`"),
        ("# amplint: ignore[AMP101", "has no codes: write them as `ignore[AMP101]`"),
    ],
)
def test_what_is_not_understood_is_told_and_not_mended(comment: str, message: str) -> None:
    (one,) = unused(f"a = 1  {comment}\n", [finding(1)])
    assert message in one.message
    assert one.fix is None


def test_an_unused_suppression_can_itself_be_suppressed() -> None:
    assert unused("a = 1  # amplint: ignore[AMP101, AMP001]\n") == []
    assert unused("# amplint: ignore-file[AMP001]\na = 1  # amplint: ignore[AMP101]\n") == []
    assert len(unused("a = 1  # amplint: ignore\n")) == 1, "but not by being unused"
