"""A model out of the text of a TOML file, which may be anybody's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from amplint.frameworks.schema import Model, Precision, Telling, Wrapper
from amplint.util.toml import loads

MOST_CHARACTERS = 200_000  # of a file: the largest one of amplint's own has a twentieth of that
MOST_IN_NAME = 200
# Each pattern, sign, setting and package is tried at every class or file of a project.
MOST_PATTERNS = 200
MOST_SIGNS = 50
MOST_SETTINGS = 50
MOST_PACKAGES = 50
MOST_STARS = 2
NAME = re.compile(r"[\w*]+(\.[\w*]+)*")
TITLE = re.compile(r"[\w .+-]{1,200}")
DTYPE = re.compile(r"bfloat16|float(16|32|64|8\w*)")
QUOTES = "\"'"
# msgspec says which value was not expected, which may be a secret that stands in another file.
VALUE = re.compile(r" '.*'$", re.DOTALL)
UNKNOWN_FIELD = re.compile(r"(?<=unknown field )`(.*)`$", re.DOTALL)
# Ex) `$.class[0].method[2].called`
STEP = re.compile(r"\.(\w+)\[(\d+)\]")


class ModelError(ValueError):
    """A mistake in a model; the text names the row, and quotes nothing else of the file."""


def model_of(text: str) -> Model:
    """The model in a TOML file. Raises ModelError."""
    if len(text) > MOST_CHARACTERS:
        raise ModelError(f"it has more than {MOST_CHARACTERS:,} characters")
    try:
        document = loads(text)
    except RecursionError:
        raise ModelError("it is nested too deeply") from None
    except ValueError as error:
        raise ModelError(f"it is not valid TOML: {error}") from error
    try:
        model = msgspec.convert(document, Model)
    except msgspec.ValidationError as error:
        raise ModelError(validation_message(str(error), document)) from None
    except RecursionError:
        raise ModelError("it is nested too deeply") from None
    check(model)
    return model


def validation_message(error: str, document: object) -> str:
    """An error of msgspec, whose place is given as the rows are counted by people, with a name."""
    what, _, where = error.rpartition(" - at `$") if " - at `$" in error else (error, "", "")
    what = UNKNOWN_FIELD.sub(lambda field: in_message(field[1]), VALUE.sub("", what))
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
    return f" ({in_message(first)})" if isinstance(first, str) and is_name(first) else ""


def in_message(name: str) -> str:
    """A name in a message, if it is one that can be shown."""
    return f"`{name}`" if is_name(name) else "with an invalid name"


def check(model: Model) -> None:
    """Raise ModelError for what is of the right type, and still makes no sense."""
    if TITLE.fullmatch(model.name) is None:
        raise ModelError("its `name` is invalid: use letters, digits, `-`, `.` and spaces")
    named = [*names_of(model)]
    for row, name in named:
        if not is_name(name):
            most = f"up to {MOST_IN_NAME} letters"
            raise ModelError(f"a {row} has a name that is not a dotted name of {most}")
        if name.count("*") > MOST_STARS:
            raise ModelError(f"{row} `{name}`: a name may have {MOST_STARS} `*`")
    if sum("*" in name for _, name in named) > MOST_PATTERNS:
        raise ModelError(f"more than {MOST_PATTERNS} names have a `*`")
    if len(model.signs) > MOST_SIGNS:
        raise ModelError(f"it has more than {MOST_SIGNS} signs")
    for sign in model.signs:
        if not sign.strip(QUOTES) or len(sign) > MOST_IN_NAME:
            raise ModelError(f"a sign is not a text of up to {MOST_IN_NAME} letters")
    if len(model.settings) > MOST_SETTINGS:
        raise ModelError(f"it has more than {MOST_SETTINGS} settings")
    if len(model.packages) > MOST_PACKAGES:
        raise ModelError(f"it has more than {MOST_PACKAGES} packages")
    dtypes = [m.asks for cls in model.classes for m in cls.methods if m.asks is not None]
    if not all(map(DTYPE.fullmatch, dtypes)):
        raise ModelError("a method asks for an invalid dtype; write for example `float16`")
    check_dtypes("precision", model.precision)
    check_dtypes("setting", model.settings)


def check_dtypes(kind: str, rows: Sequence[Telling]) -> None:
    for number, row in enumerate(rows, 1):
        dtypes = (*row.values.values(), *row.casts.values())
        if not all(map(DTYPE.fullmatch, dtypes)):
            raise ModelError(f"{kind} {number}: a dtype is invalid; write for example `float16`")


def names_of(model: Model) -> Iterator[tuple[str, str]]:
    """All names in a model, each with the kind of its row."""
    yield from (("package", name) for name in model.packages)
    for cls in model.classes:
        yield from (("class", name) for name in cls.names)
        yield from (("class", name) for name in cls.attributes)
        for method in cls.methods:
            yield from (("method", name) for name in (*method.names, *method.parameters))
    yield from (("maker", name) for row in model.makers for name in row.names)
    for setting in model.settings:
        yield from (("setting", name) for name in (setting.key, *setting.also))
        yield from (("setting", name) for name in (*setting.calls, *setting.arguments))
    for star in model.stars:
        yield from (("star", name) for name in (*star.modules, *star.names, *star.names.values()))
    taking: tuple[Precision | Wrapper, ...] = (*model.precision, *model.wrappers)
    for row in taking:
        kind = "precision" if isinstance(row, Precision) else "wrapper"
        yield from ((kind, name) for name in (*row.calls, row.argument))
    for wrapper in model.wrappers:
        further = (wrapper.method, wrapper.told_by)
        yield from (("wrapper", name) for name in further if name is not None)


def is_name(name: str) -> bool:
    return len(name) <= MOST_IN_NAME and NAME.fullmatch(name) is not None
