"""Pages and help texts say things in plain English and in the field's terms."""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click
import pytest

from amplint.cli.main import cli
from tests.helpers import nodes_of, of_each, tree_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *(ROOT / "docs").rglob("*.md"),
    ]
)

# A word, and what to say in its place.
BANNED: Mapping[str, str] = {
    r"told|tells?": "says, shows, prints, reports; known; distinguished",
    r"whoever": "every caller, the reader, even if others ...",
    r"circles?": "strongly connected component; values that depend on each other",
    r"but for": "except, except for",
    r"so many": "a number of, as many as",
    r"others than": "other than, changed",
    r"blobs?": "bytes, a text",
    r"settles?|settled": "decides, becomes stable",
    r"shelf|shelves": "table",
    r"gives": "returns, passes, has, makes",
    r"heat": "hotness",
}
# The same in what amplint prints, and on the pages of rules.
BANNED_WHERE_SHOWN: Mapping[str, str] = {
    r"without a word": "silently",
    r"left alone|leaves? alone": "not reported, ignored, unchanged",
    r"kin": "similar functions",
    r"for the author": "the author has to decide; only the author knows",
    r"handed (?:on|over|to)|hands (?:on|over)": "passed on, passes",
    r"all the same|all but|save where": "still, anyway; almost, all except; except if",
    r"mends?|mended": "fixes",
    r"nothing is said": "the rule is silent",
    r"goes? with": "needs, can be combined with",
    r"speaks? (?:of|about)": "mentions, is about, reports",
    r"be it": "even if, whether",
    r"looked at": "checked",
    r"taken for": "passed as, assumed to be",
    r"anyhow": "anyway",
    r"of a class of their own": "subclasses",
    r"(?:is|are) no findings?": "not reported",
}
# Of these, none is needed in code either, names and messages included.
NEVER = ("whoever", "but for", "others than", "shelf|shelves")
# The name of an argument or of a field, of which a docstring says what it is.
NAMED = re.compile(r"^ *(\w+, )*(told|gives|heat)(, \w+)*: ", re.MULTILINE)


def pattern(words: Iterable[str]) -> re.Pattern[str]:
    """Any of the words; between two of one, a line may end, and a comment go on."""
    spaced = (each.replace(" ", r"\s+(?:# )?") for each in words)
    return re.compile(rf"\b({'|'.join(spaced)})\b", re.IGNORECASE)


WORDS = pattern(BANNED)
SHOWN = pattern({**BANNED, **BANNED_WHERE_SHOWN})
# What is no prose: code, in blocks and in lines, and where links lead.
CODE = re.compile(
    r"^```.*?^```|^ {4}.*?$|`[^`\n]*`|\]\([^)]*\)|https?://\S+", re.MULTILINE | re.DOTALL
)


def prose(text: str) -> str:
    return CODE.sub("", text)


@of_each(PAGES)
def test_pages_have_no_word_that_hides_what_is_meant(path: Path) -> None:
    found = WORDS.findall(prose(path.read_text(encoding="utf-8")))
    assert not found, {word: BANNED[instead(word)] for word in found}


@pytest.mark.parametrize("room", ["amplint", "amplint_verify", "rules"])
def test_code_has_none_of_those_that_are_never_needed(room: str) -> None:
    never = pattern(NEVER)
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / room).rglob("*.py")}
    assert texts
    found = {path.relative_to(ROOT): never.findall(text) for path, text in texts.items()}
    assert not {path: words for path, words in found.items() if words}


@pytest.mark.parametrize("room", ["amplint", "amplint_verify", "rules"])
def test_comments_and_docstrings_have_none(room: str) -> None:
    found = {
        path.relative_to(ROOT): WORDS.findall(NAMED.sub("", prose(text)))
        for path in (ROOT / room).rglob("*.py")
        for text in ["\n".join(comments_in(path))]
    }
    assert found
    assert not {path: words for path, words in found.items() if words}


def comments_in(path: Path) -> Iterator[str]:
    """The comments and the docstrings of a module."""
    for node in nodes_of(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    text = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.removeprefix("# ")


def instead(word: str) -> str:
    """The pattern that a word was found by."""
    plain = re.sub(r"\s+", " ", word)
    return next(each for each in BANNED if re.fullmatch(each, plain, re.IGNORECASE))


def helps(command: click.Command) -> Iterator[str]:
    """The help of a command, of its options, and of the commands in it."""
    yield command.help or ""
    yield from (getattr(each, "help", None) or "" for each in command.params)
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from helps(each)


def test_help_texts_have_none_either() -> None:
    texts = list(helps(cli))
    assert len(texts) > 50
    assert not [text for text in texts if SHOWN.search(text)]


def constants(tree: ast.Module) -> Iterator[str]:
    """The strings of a module that have a space, f-strings in parts; without docstrings."""
    alone = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in alone else None
        if isinstance(text, str) and " " in text:
            yield text


@pytest.mark.parametrize("room", ["amplint", "amplint_verify", "rules"])
def test_messages_and_rule_pages_have_none_either(room: str) -> None:
    """Messages, helps, titles of fixes, notices, errors; and the docstrings of rules."""
    found, count = {}, 0
    for path in sorted((ROOT / room).rglob("*.py")):
        tree = tree_of(path)
        texts = [*constants(tree)]
        if room == "rules":
            texts.append(prose(ast.get_docstring(tree) or ""))
        count += len(texts)
        if words := [word for text in texts for word in SHOWN.findall(text)]:
            found[path] = words
    assert count > 500
    assert not found


def test_which_strings_are_read() -> None:
    module = """
def tell(name):
    '''It tells.'''
    words = {"tells": f"it tells {name} of it"}
    return "a" "b"
"""
    assert [*constants(ast.parse(module))] == ["it tells ", " of it"]


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        (
            "It tells of those\nothers  than mine, but\nfor two.",
            ["tells", "others  than", "but\nfor"],
        ),
        (
            "`tell(problems)` and [this](circles.md) are no prose; heats are other words.",
            [],
        ),
    ],
)
def test_what_is_found(sentence: str, words: list[str]) -> None:
    assert WORDS.findall(prose(sentence)) == words
