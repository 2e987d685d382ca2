"""The words that a user meets: `amplint explain WORD`, and the page with the same sentences."""

import pytest

from amplint.cli.main import main
from amplint.knowledge.glossary import GLOSSARY
from amplint.rule import registry
from tests.helpers import ROOT


@pytest.mark.parametrize("word", GLOSSARY)
def test_explain_prints_what_the_page_says(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", word.upper()]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed == f"{word}: {GLOSSARY[word]}"
    page = " ".join((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split())
    assert f"**{word}**: {GLOSSARY[word]}" in page


def test_no_rule_has_the_name_of_a_word() -> None:
    assert not GLOSSARY.keys() & {rule.name for rule in registry.all_rules()}
