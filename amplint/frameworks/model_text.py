"""The text of a model, for `amplint explain --model NAME`; and the schema of models."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from amplint.frameworks.model_reading import ModelError, model_of
from amplint.frameworks.models import SUFFIX, bundled, bundled_texts
from amplint.frameworks.schema import Model
from amplint.util import files


def schema() -> str:
    """The JSON Schema of models."""
    return json.dumps(msgspec.json.schema(Model), indent=2)


def text_of(name: str) -> str:
    """The text of the model of a name, or of a file. Raises ModelError."""
    if name.endswith(SUFFIX):
        return read(Path(name))
    for model, text in zip(bundled(), bundled_texts(), strict=True):
        if name in (model.name, *model.packages):
            return text
    names = ", ".join(model.name for model in bundled())
    raise ModelError(f"there is no model `{name}`: there are {names}, and your own files")


def read(file: Path) -> str:
    """The text of a file that holds a model. Raises ModelError."""
    try:
        text = files.read_text(file)
        model_of(text)
    except OSError as error:
        raise ModelError(f"{file}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{file}: is not UTF-8: {error.reason}") from error
    except ModelError as error:
        raise ModelError(f"{file}: {error}") from error
    return text
