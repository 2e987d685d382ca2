"""The models that hold for a project: those that come with amplint, and its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from amplint.frameworks.model_reading import model_of
from amplint.frameworks.schema import (
    ClassRow,
    Maker,
    MethodRow,
    Model,
    Precision,
    Role,
    Setting,
    Wrapper,
)
from amplint.util.lazy import lazy_pattern

ANY = "*"
SUFFIX = ".toml"
OTHERS = "others.toml"


Named = TypeVar("Named")


class Names(Generic[Named]):
    """Rows by the dotted names that they have, of which some hold `*`."""

    def __init__(self, rows: Iterable[tuple[str, Named]]) -> None:
        self._exact: dict[str, list[Named]] = {}
        self._patterns: list[tuple[str, Named]] = []
        # Each call of a library asks for its name: without this, recbole takes a tenth longer.
        self._rows: dict[str, tuple[Named, ...]] = {}
        for name, row in rows:
            if ANY in name:
                self._patterns.append((name, row))
            else:
                self._exact.setdefault(name, []).append(row)

    def of(self, name: str) -> tuple[Named, ...]:
        """The rows that a name means, exact ones first."""
        if name not in self._rows:
            fitting = (row for pattern, row in self._patterns if fits(pattern, name))
            self._rows[name] = (*self._exact.get(name, ()), *fitting)
        return self._rows[name]


def fits(pattern: str, name: str) -> bool:
    """Whether a name is what a pattern means: each of its `*`, one or more, is any characters.

    A regular expression would take quadratic time for a long name.
    """
    start, *middle, end = pattern.split(ANY)
    if not name.startswith(start):
        return False
    at = len(start)
    for part in middle:
        at = name.find(part, at) + len(part)
        if at < len(part):
            return False
    return name.endswith(end) and len(name) - len(end) >= at


UNKNOWN_TYPE = "?"
UNSURE = object()  # an argument that is no constant
QUOTE = "[\"']"
BOOLEANS = frozenset({"true", "false"})
# Names of methods of many classes, which say nothing of what they return: a `train_step` at home
# returns a number to print, and a `loss` may be one.
NO_SIGN = frozenset({"__call__", "forward", "loss", "losses", "step", "train_step"})


class ChosenPrecision(NamedTuple):
    """A precision that a framework is asked for.

    Args:
        dtype: of the region that it opens; None where it opens none.
        sure: whether it is known which one that is.
    """

    framework: str
    dtype: str | None
    sure: bool = True


class Sign(NamedTuple):
    """A text by which a project shows that it trains under autocast.

    Args:
        part: a part of it, which is looked for first.
        pattern: the text, whichever quotes it has.
        packages: the names of the framework, of which the project holds one; none where the text
            says enough.
    """

    part: str
    pattern: re.Pattern[str]
    packages: tuple[str, ...] = ()


class Models:
    """The models of all frameworks.

    Args:
        models: the first ones before the later ones, where several speak of one thing.

    Attributes:
        giving_losses: the names of methods of which a framework backpropagates the result.
        reading: the names of methods that bring the tensors that they are given to the host.
        scaling: the names of methods that run the backward pass of a loss that they scale, divide
            gradients by the scale, clip or gather them.
        gathering: those that gather them.
        asking: the names of methods that ask a framework for a precision.
        taking: the names of methods that are given a module, which a framework runs.
        telling: both.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        self.models = tuple(models)
        self._classes = Names((n, c) for model in models for c in model.classes for n in c.names)
        self._makers = {n: m for model in reversed(models) for m in model.makers for n in m.names}
        self._precision = Names(
            (n, p) for model in models for p in model.precision for n in p.calls
        )
        self._wrappers = Names((n, w) for model in models for w in model.wrappers for n in w.calls)
        self._dictionaries = Names(
            (n, s) for model in models for s in model.settings for n in s.calls
        )
        self._stars = {m: star for model in models for star in model.stars for m in star.modules}
        # By the ids of rows, which live as long as this: the name of the framework.
        self._owner: dict[int, str] = {}
        self._of_kind: dict[str, tuple[ClassRow, ...]] = {}
        for model in models:
            methods = (method for cls in model.classes for method in cls.methods)
            rows: tuple[object, ...] = (
                *model.precision, *model.wrappers, *methods, *model.settings,
            )  # fmt: skip
            self._owner |= {id(row): model.name for row in rows}
            for cls in model.classes:
                if cls.kind is not None:
                    self._of_kind[cls.kind] = (*self._of_kind.get(cls.kind, ()), cls)
        methods_of_all = [m for model in models for cls in model.classes for m in cls.methods]

        def named(is_meant: Callable[[MethodRow], bool]) -> frozenset[str]:
            return frozenset(name for m in methods_of_all if is_meant(m) for name in m.names)

        self.reading = named(lambda method: method.reads)
        self.scaling = named(lambda method: method.scaling is not None)
        self.gathering = named(lambda method: method.scaling == "gathers")
        self.giving_losses = named(lambda method: method.result == "loss") - NO_SIGN
        self.asking = named(lambda method: method.asks is not None)
        self.taking = frozenset(
            row.method for m in models for row in m.wrappers if row.method is not None
        )
        self.telling = self.asking | self.taking
        self._methods: dict[tuple[int, ...], Mapping[str, MethodRow]] = {}  # by ids of classes

    @cached_property
    def settings(self) -> list[tuple[str, Setting]]:
        """The rows of values in configuration files, each with the name of its framework."""
        return [(model.name, row) for model in self.models for row in model.settings]

    def is_named(self, framework: str, texts: Iterable[str]) -> bool:
        """Whether one of some texts names a framework."""
        packages = [p for model in self.models if model.name == framework for p in model.packages]
        return any(package in text for text in texts for package in packages)

    def reads_json(self, texts: Collection[str]) -> bool:
        """Whether one of some texts names a framework that is configured by JSON files."""
        frameworks = {framework for framework, row in self.settings if row.format == "json"}
        return any(self.is_named(framework, texts) for framework in frameworks)

    @cached_property
    def signs(self) -> list[Sign]:
        """The texts by which a project shows that it trains under autocast by a framework."""
        return [Sign(*sign_of(text), m.packages) for m in self.models for text in m.signs]

    @cached_property
    def shows_float16(self) -> list[tuple[str, re.Pattern[str]]]:
        """The texts by which a project shows that it trains in float16 by a framework: the values
        of settings that mean this dtype, in quotes."""
        rows = [row for model in self.models for row in model.precision]
        values = {v for row in rows for v, dtype in row.values.items() if dtype == "float16"}
        words = sorted(value for value in values if not value.isdigit() and value not in BOOLEANS)
        return [sign_of(f'"{word}"') for word in words]

    @cached_property
    def own_parameters(self) -> frozenset[str]:
        """The words of libraries that keep float32 parameters of their own."""
        rows = (row for model in self.models for row in model.precision)
        return frozenset(row.own_parameters for row in rows if row.own_parameters is not None)

    def starred(self, module: str, name: str) -> str | None:
        """The dotted name of what `from module import *` binds to a name, if a row knows it."""
        star = self._stars.get(module)
        if star is None:
            return None
        dotted = f"{module}.{name}"
        rows = (*self._classes.of(dotted), *self._precision.of(dotted), *self._wrappers.of(dotted))
        return dotted if rows or dotted in self._makers else star.names.get(name)

    def classes(self, names: Iterable[str]) -> tuple[ClassRow, ...]:
        """The rows of classes that something derives from, each once.

        Args:
            names: the dotted names of its bases. A class of the project itself is known by its name
                alone, as `.Name`: only a row of `*.Name` means it, too.
        """
        rows = [row for name in names for row in self._classes.of(name)]
        return tuple({id(row): row for row in rows}.values())

    def method(self, classes: tuple[ClassRow, ...], name: str) -> MethodRow | None:
        """The row of a method of what derives from some classes."""
        key = tuple(map(id, classes))
        if key not in self._methods:
            self._methods[key] = {
                each: row for cls in reversed(classes) for row in cls.methods for each in row.names
            }
        return self._methods[key].get(name)

    def maker(self, name: str) -> Maker | None:
        """The row of a call of this dotted name that builds an object."""
        return self._makers.get(name)

    def method_of_object(self, kind: str, type_: str, name: str) -> MethodRow | None:
        """The row of a method of an object of a framework.

        Args:
            kind, type_: of the object; "?" where its class is not in sight, so that any one of the
                kind may be meant.
        """
        return self.method(self._classes_of_object(kind, type_), name)

    def attribute_of_object(self, kind: str, type_: str, name: str) -> Role | None:
        """The role of an attribute of an object of a framework; the arguments as above."""
        classes = self._classes_of_object(kind, type_)
        return next((row.attributes[name] for row in classes if name in row.attributes), None)

    def _classes_of_object(self, kind: str, type_: str) -> tuple[ClassRow, ...]:
        return self.classes([type_]) if type_ != UNKNOWN_TYPE else self._of_kind.get(kind, ())

    def precision(
        self, name: str, constant_of: Callable[[str, int | None], object]
    ) -> ChosenPrecision | None:
        """The precision that a call of this dotted name asks for; None where it says none.

        Args:
            constant_of: the constant that the call has for an argument, by name and position; None
                where it has none, and UNSURE for what is no constant.
        """
        choice = None
        for row in self._precision.of(name):
            constant = constant_of(row.argument, row.position)
            instead = constant_of(row.unless, None) if row.unless is not None else None
            if UNSURE in (constant, instead):
                choice = ChosenPrecision(self.framework_of(row), None, sure=False)
            elif instead is None and written(constant) in row.values:
                return ChosenPrecision(self.framework_of(row), row.values[written(constant)])
            elif constant is not None and (choice is None or choice.sure):
                choice = ChosenPrecision(self.framework_of(row), None)
        return choice

    def takes_precision(self, name: str) -> bool:
        """Whether a call of this dotted name can ask for a precision."""
        return bool(self._precision.of(name))

    def dictionaries(self, name: str) -> tuple[Setting, ...]:
        """The rows of settings that a call of this dotted name takes as a dictionary."""
        return self._dictionaries.of(name)

    def keeps_outputs(self, name: str) -> bool:
        """Whether a module that a call of this dotted name wraps returns what it computes in the
        region as it is."""
        return all(row.keeps_outputs for row in self._precision.of(name))

    def wrappers(self, name: str) -> tuple[Wrapper, ...]:
        """The rows of the modules that a call of this dotted name is given to run."""
        return self._wrappers.of(name)

    def framework_of(self, row: MethodRow | Precision | Setting | Wrapper) -> str:
        """The name of the framework of a row."""
        return self._owner[id(row)]


def sign_of(text: str) -> tuple[str, re.Pattern[str]]:
    """A pattern for a text, whichever quotes it has, and the longest word in it.

    A text with a space is one with any number of spaces there, or none. One without is so as an
    argument of a call alone, which is the group of the match then: `fp16=True` is one in
    `f(x, fp16 = True)`, but the statement `fp16 = True` is none.
    """
    as_it_is = re.sub(QUOTE, lambda _: QUOTE, re.escape(text))
    spaced = re.sub(r"(?:\\ )*([=:]+)(?:\\ )*", r"\\s*\1\\s*", as_it_is)
    before = r"\b" if text[0].isalnum() else ""
    after = r"\b" if text[-1].isalnum() else ""
    pattern = f"{before}{spaced}{after}"
    if " " not in text and spaced != as_it_is:
        pattern = rf"{before}{as_it_is}{after}|[(,]\s*({pattern})"
    return max(re.split(r"[\"'\s=:]+", text), key=len), lazy_pattern(pattern)


def written(value: object) -> str:
    """A constant as a model has it for a key: Ex) true, 16, 16-mixed"""
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def bundled_texts() -> tuple[str, ...]:
    """The texts of the models that come with amplint."""
    paths = sorted(Path(__file__).parent.glob(f"*{SUFFIX}"))
    paths.sort(key=lambda path: path.name == OTHERS)  # which speaks where no framework does
    return tuple(path.read_text("utf-8") for path in paths)


@cache
def bundled() -> tuple[Model, ...]:
    """The models that come with amplint."""
    return tuple(map(model_of, bundled_texts()))


@lru_cache(maxsize=8)  # a server meets the projects of one workspace
def models_with(texts: tuple[str, ...]) -> Models:
    """The models of a project, before those that come with amplint. Raises ModelError.

    Args:
        texts: of the project's own files of models.
    """
    return Models([*map(model_of, texts), *bundled()])
