"""A model as people read it: `amplint explain --model NAME`; and the schema of models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec

from amplint.frameworks.models import SUFFIX, bundled
from amplint.frameworks.reading import ModelError, model_of
from amplint.frameworks.schema import ClassRow, MethodRow, Model, Telling
from amplint.util import files

OFTEN = {
    "element": "for each element of a data set",
    "micro-batch": "for each batch of training",
    "step": "for each step of the optimizer",
    "evaluation-batch": "for each batch of evaluation",
    "epoch": "for each epoch",
    "once": "once",
}
BECOMES = {
    "loss": "its backward pass is run",
    "read": "it is read back to the host",
    "batch": "it is assumed to be a batch on the device",
}
SCALING = {
    "scales": "it is the backward pass of the scaled loss",
    "unscales": "the gradients are divided by the scale",
    "gathers": "it accumulates gradients of several batches before a step",
}


def schema() -> str:
    """The JSON Schema of models."""
    return json.dumps(msgspec.json.schema(Model), indent=2)


def page_of(name: str) -> str:
    """The page of the model of a name, or of a file. Raises ModelError."""
    if name.endswith(SUFFIX):
        return "\n".join(lines(read(Path(name))))
    found = [model for model in bundled() if name in (model.name, *model.packages)]
    if not found:
        known = ", ".join(model.name for model in bundled())
        raise ModelError(f"there is no model `{name}`: there are {known}, and your own files")
    return "\n".join(lines(found[0]))


def read(file: Path) -> Model:
    """The model in a file. Raises ModelError."""
    try:
        return model_of(files.read_text(file))
    except OSError as error:
        raise ModelError(f"{file}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{file}: is not UTF-8: {error.reason}") from error
    except ModelError as error:
        raise ModelError(f"{file}: {error}") from error


def lines(model: Model) -> Iterator[str]:
    yield f"{model.name} {model.version}".rstrip()
    if model.packages:
        yield f"imported as {', '.join(model.packages)}"
    for cls in model.classes:
        yield ""
        yield from of_class(cls)
    for maker in model.makers:
        yield ""
        on_device = ", on the device" if maker.on_device else ""
        yield f"{', '.join(maker.names)}: builds {maker.builds}{on_device}"
    for row in model.precision:
        yield ""
        yield f"{row.argument}= of {', '.join(row.calls)}"
        yield from meanings(row)
        if row.unless is not None:
            yield f"  no region with `{row.unless}`"
        if row.own_parameters is not None:
            yield f"  its own parameters if a function mentions `{row.own_parameters}`"
    for setting in model.settings:
        yield ""
        yield f"{setting.key} in configuration files ({setting.format})"
        if setting.calls:
            yield f"  or in {', '.join(setting.arguments)} of {', '.join(setting.calls)}"
        yield from (f"  with {key} = {value}" for key, value in setting.also.items())
        yield from meanings(setting)
    for star in model.stars:
        yield ""
        yield f"* of {', '.join(star.modules)}"
        yield from (f"  {name}: {meant}" for name, meant in star.names.items())
    for wrapper in model.wrappers:
        yield ""
        calls = ", ".join(wrapper.calls)
        method = f".{wrapper.method}" if wrapper.method else ""
        made = " that it makes" if wrapper.made else ""
        told = f" of {wrapper.told_by}=" if wrapper.told_by else ""
        run = f"the module{made} runs in the precision{told}"
        yield f"{wrapper.argument}= of {calls}{method}: {run}"


def meanings(row: Telling) -> Iterator[str]:
    """The meaning of each value by which a framework is given a precision."""
    does = {value: f"a region of {dtype}" for value, dtype in row.values.items()}
    does |= {value: f"casts to {dtype}" for value, dtype in row.casts.items()}
    for value, what in does.items():
        yield f"  {value}: {what}{', and the loss is scaled' if value in row.scaled else ''}"


def of_class(cls: ClassRow) -> Iterator[str]:
    yield f"{', '.join(cls.names)}{f' ({cls.kind})' if cls.kind else ''}"
    yield from (f"  .{name}: {role}" for name, role in cls.attributes.items())
    for method in cls.methods:
        yield f"  {', '.join(method.names)}"
        yield from (f"    {fact}" for fact in facts(method))
    if cls.source:
        yield f"  source: {cls.source}"


def facts(method: MethodRow) -> Iterator[str]:
    if method.called is not None:
        yield f"called {OFTEN[method.called]}{', in the region' if method.region else ''}"
    if not method.gradients:
        yield "without gradients"
    if method.unless is not None:
        yield f"not with `{method.unless}`"
    if method.parameters:
        yield ", ".join(f"{name}: {role}" for name, role in method.parameters.items())
    if method.result is not None:
        yield f"its result: {BECOMES[method.result]}"
    if method.gives is not None:
        yield f"returns {method.gives}"
    if method.wraps:
        yield "modules that it returns run their `forward` in the region"
    if method.reads:
        yield "copies its tensor arguments to the host"
    if method.asks is not None:
        scaled = ", and the loss is scaled" if method.scaled else ""
        yield f"asks for a region of {method.asks}{scaled}"
    if method.scaling is not None:
        yield f"if the loss is scaled, {SCALING[method.scaling]}"
    if method.source:
        yield f"source: {method.source}"
