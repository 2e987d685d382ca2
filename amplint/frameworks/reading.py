"""A model out of the text of a TOML file, which may be anybody's."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from amplint.core.toml import tomllib
from amplint.frameworks.schema import Model

MOST_CHARACTERS = 200_000  # of a file: the largest one of amplint's own has a twentieth of that
MOST_IN_NAME = 200
# A pattern with more of them could take long to fit (each is tried at every place of a name).
MOST_STARS = 2
NAME = re.compile(r"[\w*]+(\.[\w*]+)*")
# Ex) `$.class[0].method[2].called`
STEP = re.compile(r"\.(\w+)\[(\d+)\]")


class ModelError(ValueError):
    """A mistake in a model; the text names the row, and quotes nothing else of the file."""


def model_of(text: str) -> Model:
    """The model in a TOML file. Raises ModelError."""
    if len(text) > MOST_CHARACTERS:
        raise ModelError(f"it has more than {MOST_CHARACTERS:,} characters")
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise ModelError("it is nested too deeply") from None
    except ValueError as error:
        raise ModelError(f"it is not valid TOML: {error}") from error
    try:
        model = msgspec.convert(document, Model)
    except msgspec.ValidationError as error:
        raise ModelError(told(str(error), document)) from None
    except RecursionError:
        raise ModelError("it is nested too deeply") from None
    for row, name in names_of(model):
        check(name, row)
    return model


def told(error: str, document: object) -> str:
    """An error of msgspec, whose place is given as the rows are counted by people, with a name."""
    what, _, where = error.partition(" - at `$")
    steps = STEP.findall(where)
    if not steps:
        return what
    row: object = document
    rows = []
    for key, number in steps:
        row = row.get(key, []) if isinstance(row, dict) else []
        row = row[int(number)] if isinstance(row, list) and int(number) < len(row) else {}
        rows.append(f"{key} {int(number) + 1}{called(row)}")
    field = STEP.sub("", where).strip(".`")
    return f"{', '.join(rows)}{f', `{field}`' if field else ''}: {what}"


def called(row: object) -> str:
    """The first name of a row, if it is one."""
    names = row.get("names") if isinstance(row, dict) else None
    first = names[0] if isinstance(names, list) and names else None
    return f" (`{first}`)" if isinstance(first, str) and is_name(first) else ""


def names_of(model: Model) -> Iterator[tuple[str, str]]:
    """All names in a model, each with the kind of its row."""
    for cls in model.classes:
        yield from (("class", name) for name in cls.names)
        yield from (("method", name) for row in cls.methods for name in row.names)
    yield from (("maker", name) for row in model.makers for name in row.names)
    yield from (("precision", name) for row in model.precision for name in row.calls)


def is_name(name: str) -> bool:
    return len(name) <= MOST_IN_NAME and NAME.fullmatch(name) is not None


def check(name: str, row: str) -> None:
    """Raise ModelError for what is no dotted name."""
    if not is_name(name):
        raise ModelError(
            f"a {row} has a name that is no dotted one of up to {MOST_IN_NAME} letters"
        )
    if name.count("*") > MOST_STARS:
        raise ModelError(f"{row} `{name}`: a name may have {MOST_STARS} `*`")
