"""The JSON Schema of the settings says what the parser does, about every key."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from amplint.project.config import WORDS, ConfigError, Settings, written_in
from amplint.util.toml import loads
from tests.command import Amplint
from tests.helpers import ROOT

SCHEMA = json.loads(
    (ROOT / "amplint" / "project" / "settings.schema.json").read_text(encoding="utf-8")
)
VALIDATOR = Draft7Validator(SCHEMA)

STRINGS = ("text", "2.4", "2.4.1", "2", "auto", "true", "float16")
VALUES: tuple[object, ...] = (
    *(True, False, 0, 1, 2.4, "", *STRINGS),
    *([], ["text"], ["text", "2.4"], [1], [""], [["text"]], ["text"] * 20, ["text"] * 21),
    *({}, {"text": []}, {"text": ["AMP1"]}, {"text": "AMP1"}, {"text": [1]}, {"text": {}}),
)


def toml(value: object) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)} = {toml(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with files of every name that a value may have: settings, and models."""
    model = (ROOT / "amplint" / "frameworks" / "ignite.toml").read_text(encoding="utf-8")
    for name in STRINGS:
        (tmp_path / name).write_text(model, encoding="utf-8")
    return tmp_path


def accepted(directory: Path, key: str, value: object) -> bool:
    """Whether the parser takes the value."""
    if key == "extend":
        for name in STRINGS:
            (directory / name).write_text("preview = true\n", encoding="utf-8")
    file = directory / "amplint.toml"
    file.write_text(f"{key} = {toml(value)}\n", encoding="utf-8")
    try:
        written_in(file)
    except ConfigError:
        return False
    return True


def test_the_schema_is_one() -> None:
    Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert SCHEMA["additionalProperties"] is False


def test_it_has_the_keys_of_the_parser() -> None:
    assert list(SCHEMA["properties"]) == list(WORDS)
    for key, one in SCHEMA["properties"].items():
        assert one["type"], key
        assert one["description"].endswith("."), key
        assert "$ref" not in one, "draft-07 ignores what stands beside it"


@pytest.mark.parametrize("key", WORDS)
def test_it_accepts_what_the_parser_accepts(directory: Path, key: str) -> None:
    verdicts = {
        toml(value): (VALIDATOR.is_valid({key: value}), accepted(directory, key, value))
        for value in VALUES
    }
    assert not {text: both for text, both in verdicts.items() if len(set(both)) > 1}
    assert set(verdicts.values()) == {(True, True), (False, False)}


def test_an_unknown_key_is_none_for_both(directory: Path) -> None:
    assert not VALIDATOR.is_valid({"selct": []})
    assert not accepted(directory, "selct", [])


def test_its_defaults_are_those_of_the_settings() -> None:
    defaults = {field.name.replace("_", "-"): field.default for field in fields(Settings)}
    for key, one in SCHEMA["properties"].items():
        default = defaults.get(key)
        plain = list(default) if isinstance(default, tuple) else default
        if "default" in one:
            assert plain == (list(one["default"]) if key == "per-file-ignores" else one["default"])
        else:
            assert plain is None, key


def test_its_examples_and_those_of_the_pages_are_valid() -> None:
    for key, one in SCHEMA["properties"].items():
        for example in one.get("examples", []):
            VALIDATOR.validate({key: example})
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    example = page.partition("```toml\n[tool.amplint]")[2].partition("```")[0]
    VALIDATOR.validate(loads(f"[tool.amplint]{example}")["tool"]["amplint"])
    VALIDATOR.validate(loads((ROOT / "pyproject.toml").read_text())["tool"]["amplint"])


def test_a_command_prints_it(capfd: pytest.CaptureFixture[str]) -> None:
    amplint = Amplint(capfd)
    ran = amplint("explain", "--settings-schema")
    assert (ran.status, json.loads(ran.out)) == (0, SCHEMA)
    assert amplint("explain", "--settings-schema", "--format", "json").status == 2
