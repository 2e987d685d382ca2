"""Hold the models of frameworks against the releases that they were read from.

    python -m benchmarks.frameworks                # all models
    python -m benchmarks.frameworks lightning --update

Wheels are fetched by pip without what they depend on, archives by their address. Both are read as
text and never installed, built or imported. `--update` writes for each model an extract,
`tests/frameworks/extracts/NAME.json`: what the releases have of all that the model speaks of, with
their SHA-256. The suite holds the models against the extracts, and downloads nothing for it.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from amplint.frameworks.models import ANY, bundled, fits
from amplint.frameworks.schema import ClassRow, MethodRow, Model, Precision, Row, Wrapper
from benchmarks.packages import default_cache

ROOT = Path(__file__).resolve().parent.parent
EXTRACTS = ROOT / "tests" / "frameworks" / "extracts"
LAZY = "_import_structure"  # of transformers and its kin: module -> the names that it exports
TOP_LEVEL_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
# Ex) `trainer.py, Trainer.training_step: why`
SOURCE = re.compile(r"([\w./-]+\.py)(?:, ([\w.]+))?")
MOST_STEPS = 30  # from one import to the next, until a name is found


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """A method or an attribute in a class.

    Args:
        line: where it is defined.
        parameters: of a method, `self` included, as they are written except for annotations.
    """

    line: int
    parameters: str | None = None


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A class or a function of a release.

    Args:
        file, line: where it is defined.
        bases: of a class, all that it derives from in the order in which Python looks there, as
            keys of definitions; and the others as they are written.
        members: of a class, those that the model speaks of.
        parameters: of a function.
        fields: of a dataclass, those that it adds, as parameters.
        literals: for each parameter whose annotation lists its values, these.
    """

    file: str
    line: int
    bases: tuple[str, ...] = ()
    members: dict[str, Member] = {}
    parameters: str | None = None
    fields: str | None = None
    literals: dict[str, tuple[str, ...]] = {}


class Release(msgspec.Struct, frozen=True):
    """A release, as pip names it, and the file that was read."""

    name: str
    file: str
    sha256: str


class Extract(msgspec.Struct, frozen=True):
    """All that releases have of what a model speaks of.

    Args:
        model: its name.
        version: its version.
        releases: those that were read.
        names: for each dotted name or pattern, the definitions that it means.
        definitions: by module and name.
        called_by_name: for methods and attributes that no class of theirs defines, where the
            framework has their names.
        constants: the values of precisions that the sources have as constants.
        sources: the files that rows name -> the words in them that rows name.
    """

    model: str
    version: str
    releases: tuple[Release, ...]
    names: dict[str, tuple[str, ...]]
    definitions: dict[str, Definition]
    called_by_name: dict[str, str]
    constants: tuple[str, ...]
    sources: dict[str, tuple[str, ...]]


# ------------------------------------------------------------------------- model against extract


def complaints(model: Model, extract: Extract) -> list[str]:
    """Whatever a model says that an extract does not have."""
    if model.version != extract.version:
        return [f"the model is of {model.version}, and the extract of {extract.version}"]
    if (names := releases_of(model)) != tuple(release.name for release in extract.releases):
        return [f"the model was read from {', '.join(names)}, and the extract from others"]
    return [*dict.fromkeys(Held(model, extract).complaints())]


def releases_of(model: Model) -> tuple[str, ...]:
    """The releases that a model was read from, as pip names them."""
    return model.releases or (f"{model.name}=={model.version}",)


class Held(NamedTuple):
    """A model that is held against an extract."""

    model: Model
    extract: Extract

    def complaints(self) -> Iterator[str]:
        yield from self.of_version()
        for name in names_of(self.model):
            if not self.extract.names.get(name):
                yield f"`{name}` is no class or function"
        for cls in self.model.classes:
            for attribute in cls.attributes:
                if not [*self.members(cls.names, attribute)]:
                    yield from self.of_attribute(cls, attribute)
            for method in cls.methods:
                for name in method.names:
                    yield from self.of_method(cls, method, name)
        for row in self.model.precision:
            yield from self.of_precision(row)
        for wrapper in self.model.wrappers:
            takes = [*self.taking(wrapper)]
            yield from self.of_argument(wrapper, takes)
            if wrapper.told_by is not None and not any(each.has(wrapper.told_by) for each in takes):
                yield f"{wrapper.calls[0]}: there is no argument `{wrapper.told_by}`"
        for source in sources_of(self.model):
            yield from self.of_source(source)

    def of_version(self) -> Iterator[str]:
        """A version is that of the first release; a model of several libraries has none."""
        first = releases_of(self.model)[0]
        version = self.model.version
        if version and " @ " not in first and first.partition("==")[2] != version:
            yield f"its version is {version}, and its first release {first}"

    def definitions(self, names: Iterable[str]) -> Iterator[tuple[str, Definition]]:
        """What some names mean, each once."""
        keys = (key for name in names for key in self.extract.names.get(name, ()))
        return ((key, self.extract.definitions[key]) for key in dict.fromkeys(keys))

    def members(self, names: Iterable[str], member: str) -> Iterator[Member]:
        """A member as each of the classes has it, itself or from a base."""
        for key, _ in self.definitions(names):
            if (found := self.member(key, member)) is not None:
                yield found

    def member(self, key: str, member: str) -> Member | None:
        known = self.extract.definitions
        for each in (key, *known[key].bases):
            if each in known and member in known[each].members:
                return known[each].members[member]
        return None

    def of_attribute(self, cls: ClassRow, name: str) -> Iterator[str]:
        """An attribute that no method of the class sets: `setattr` may, or another class that the
        class asks for what it has not, as fastai's callbacks ask their learner."""
        if name not in self.extract.called_by_name:
            yield f"{cls.names[0]} has no attribute `{name}`"
        elif not cls.source:
            yield f"{cls.names[0]}.{name}: it is read by name, and no source says where"

    def of_method(self, cls: ClassRow, method: MethodRow, name: str) -> Iterator[str]:
        where = f"{cls.names[0]}.{name}"
        found = [*self.members(cls.names, name)]
        if not found:
            if name not in self.extract.called_by_name:
                yield f"{where}: there is no such method, and nothing calls it by name"
            elif not (method.source or cls.source):
                yield f"{where}: it is called by name, and no source says where"
            return
        written = [each.parameters for each in found if each.parameters is not None]
        wanted = [*method.parameters]
        if written and not any(begins(parameters, wanted) for parameters in written):
            yield f"{where}: its parameters are ({written[0]}), not ({', '.join(wanted)})"

    def taking(self, row: Precision | Wrapper) -> Iterator[Taken]:
        """What the calls take that have the argument of a row."""
        for key, _ in self.definitions(row.calls):
            method = row.method if isinstance(row, Wrapper) else None
            taken = self.taken(key) if method is None else self.taken_by(key, method)
            if taken is not None and taken.has(row.argument):
                yield taken

    def of_argument(self, row: Precision | Wrapper, takes: Sequence[Taken]) -> Iterator[str]:
        where = f"{row.calls[0]}({row.argument}=)"
        if not takes:
            yield f"{where}: there is no such argument"
        for each in takes:
            position = each.position(row.argument)
            if row.position is not None and position != row.position:
                yield f"{where}: its position is {position}, not {row.position}"

    def of_precision(self, row: Precision) -> Iterator[str]:
        where = f"{row.calls[0]}({row.argument}=)"
        takes = [*self.taking(row)]
        yield from self.of_argument(row, takes)
        if row.unless is not None and not any(each.has(row.unless) for each in takes):
            yield f"{where}: there is no argument `{row.unless}`"
        literals = {v for each in takes for v in each.literals.get(row.argument, ())}
        known = literals or {*self.extract.constants, "true", "false"}
        listed = "of its annotation" if literals else "in the sources"
        for value in (*row.values, *row.casts):
            if value not in known:
                yield f"{where}: `{value}` is no value {listed}"
        for value in set(row.scaled) - {*row.values, *row.casts}:
            yield f"{where}: `{value}` is scaled, and neither a region nor a cast"

    def taken(self, key: str) -> Taken | None:
        """The parameters that a call of a class or of a function takes."""
        known = self.extract.definitions
        definition = known[key]
        if definition.parameters is not None:
            return Taken(parameters_of(definition.parameters), definition.literals)
        own = [known[each] for each in (key, *definition.bases) if each in known]
        literals = {name: each for cls in reversed(own) for name, each in cls.literals.items()}
        for cls in own:
            init = cls.members.get("__init__")
            if init is not None and init.parameters is not None:
                return Taken(without_self(init.parameters), literals)
            if cls.fields is not None:
                fields = {
                    arg.arg: arg
                    for each in reversed(own[own.index(cls) :])
                    for arg in parameters_of(each.fields or "").args
                }
                return Taken(
                    ast.arguments([], [*fields.values()], None, [], [], None, []), literals
                )
        return None

    def taken_by(self, key: str, method: str) -> Taken | None:
        """The parameters that a method of a class takes."""
        found = self.member(key, method)
        written = found.parameters if found is not None else None
        return Taken(without_self(written), {}) if written is not None else None

    def of_source(self, source: str) -> Iterator[str]:
        if named := SOURCE.match(source):
            words = self.extract.sources.get(named[1])
            if words is None:
                yield f"source `{source}`: there is no file {named[1]}"
            elif named[2] and named[2].rpartition(".")[2] not in words:
                yield f"source `{source}`: nothing of that name is in the file"


class Taken(NamedTuple):
    """The parameters of a call, without `self`."""

    parameters: ast.arguments
    literals: Mapping[str, tuple[str, ...]]

    @property
    def _positional(self) -> list[str]:
        return [each.arg for each in (*self.parameters.posonlyargs, *self.parameters.args)]

    def has(self, name: str) -> bool:
        return name in (*self._positional, *(each.arg for each in self.parameters.kwonlyargs))

    def position(self, name: str) -> int | None:
        """Where an argument stands; None if it is given by name alone."""
        return self._positional.index(name) if name in self._positional else None


def begins(parameters: str, wanted: Sequence[str]) -> bool:
    """Whether a signature begins with these names after `self`, as far as it names any."""
    written = without_self(parameters)
    names = [each.arg for each in (*written.posonlyargs, *written.args)]
    if written.vararg is not None or len(names) < len(wanted):
        names += [each.arg for each in written.kwonlyargs]
    named = names[: len(wanted)]
    is_open = written.vararg is not None or written.kwarg is not None
    return [*wanted[: len(named)]] == named and (len(named) == len(wanted) or is_open)


def without_self(parameters: str) -> ast.arguments:
    found = parameters_of(parameters)
    first = found.posonlyargs or found.args
    if first and first[0].arg in ("self", "cls", "mcs"):
        del first[0]
    return found


def parameters_of(text: str) -> ast.arguments:
    """Parameters, as they are written."""
    (definition,) = ast.parse(f"def f({text}): ...").body
    assert isinstance(definition, ast.FunctionDef)
    return definition.args


def names_of(model: Model) -> list[str]:
    """All dotted names in a model, each once."""
    rows = [
        *(row.names for row in model.classes),
        *(row.names for row in model.makers),
        *(row.calls for row in (*model.precision, *model.wrappers)),
    ]
    return [*dict.fromkeys(name for names in rows for name in names)]


def sources_of(model: Model) -> list[str]:
    methods = [method for cls in model.classes for method in cls.methods]
    rows: list[Row] = [
        *model.classes, *methods, *model.makers, *model.precision, *model.wrappers, *model.settings,
    ]  # fmt: skip
    named = [row.source for row in rows if row.source]
    for star in model.stars:
        named += (f"{module.replace('.', '/')}.py" for module in star.modules)
        named += (f"{star.source}, {name}" for name in star.names)
    return [*dict.fromkeys(named)]


# ------------------------------------------------------------------------- releases as text


class Place(NamedTuple):
    """A module of a release."""

    archive: Archive
    module: str


class Found(NamedTuple):
    """A class or a function, and the module that defines it."""

    place: Place
    node: ast.ClassDef | ast.FunctionDef

    @property
    def key(self) -> str:
        return f"{self.place.module}.{self.node.name}{self.place.archive.mark}"


class Archive:
    """The Python files of a wheel or of a source archive.

    Args:
        release: as pip names it.
        path: of the file.
        mark: what tells its definitions from those of another release of the same distribution.
    """

    def __init__(self, release: str, path: Path, mark: str = "") -> None:
        self.mark = mark
        self.release = Release(release, path.name, hashlib.sha256(path.read_bytes()).hexdigest())
        self.texts = {name: text for name, text in texts_in(path) if name.endswith(".py")}
        self.modules = {module_of(name): name for name in self.texts}

    @cache  # noqa: B019  (archives live as long as the run)
    def tree(self, module: str) -> ast.Module:
        return ast.parse(self.texts[self.modules[module]])

    @cache  # noqa: B019
    def bindings(self, module: str) -> dict[str, ast.stmt]:
        """What binds each name at the top of a module, the first that does."""
        return {name: node for node, name in reversed([*bound(self.tree(module).body)])}

    @cache  # noqa: B019
    def stars(self, module: str) -> list[ast.ImportFrom]:
        """The statements that import all names of another module."""
        every = bound(self.tree(module).body)
        return [node for node, name in every if name == "*" and isinstance(node, ast.ImportFrom)]

    @cache  # noqa: B019
    def lazy(self, module: str) -> dict[str, str]:
        """The names that a module exports when they are first used -> their submodules."""
        return lazy_exports(self.tree(module)) if LAZY in self.texts[self.modules[module]] else {}

    def is_package(self, module: str) -> bool:
        return self.modules[module].endswith("__init__.py")


def texts_in(path: Path) -> Iterator[tuple[str, str]]:
    """The files of an archive by their names; without the one directory of a source archive."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                if name.endswith(".py"):
                    yield name, wheel.read(name).decode("utf-8", "replace")
        return
    with tarfile.open(path) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.name.endswith(".py") else None
            if stream is not None:
                inside = member.name.partition("/")[2].removeprefix("src/")
                yield inside, stream.read().decode("utf-8", "replace")


def module_of(name: str) -> str:
    path = PurePosixPath(name).with_suffix("")
    return ".".join(path.parts[:-1] if path.name == "__init__" else path.parts)


def bound(body: Iterable[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """The statements that bind names, those in conditions too, with the names."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node, node.name
        elif isinstance(node, ast.ImportFrom):
            yield from ((node, alias.asname or alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node, alias.asname or alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((node, each.id) for each in targets if isinstance(each, ast.Name))
        elif isinstance(node, ast.If | ast.Try | ast.With):
            handlers = [handler.body for handler in getattr(node, "handlers", [])]
            parts = (node.body, getattr(node, "orelse", []), *handlers)
            yield from (each for part in parts for each in bound(part))


class Library:
    """Several releases together. A name is looked for in each, and from there in the others."""

    def __init__(self, archives: Sequence[Archive]) -> None:
        self.archives = archives

    def meant(self, name: str) -> list[Found]:
        """The classes and functions that a dotted name or a pattern means, each once."""
        if ANY in name:
            found = [*self.matching(name)]
        else:
            found = [each for archive in self.archives for each in self.resolved(archive, name)]
        return [*{each.key: each for each in found}.values()]

    def matching(self, pattern: str) -> Iterator[Found]:
        """The classes at the top of modules whose dotted names match."""
        for archive in self.archives:
            for module, file in archive.modules.items():
                for name in TOP_LEVEL_CLASS.findall(archive.texts[file]):
                    if fits(pattern, f"{module}.{name}"):
                        yield from self.resolved(archive, f"{module}.{name}")

    def resolved(self, archive: Archive, name: str) -> Iterator[Found]:
        found = self.resolve(archive, name)
        if found is not None:
            yield found

    def resolve(self, archive: Archive, name: str, steps: int = 0) -> Found | None:
        """The class or function of a dotted name, looked for in this release first."""
        if steps > MOST_STEPS:
            return None
        for each in (archive, *(other for other in self.archives if other is not archive)):
            parts = name.split(".")
            for cut in range(len(parts) - 1, 0, -1):
                module = ".".join(parts[:cut])
                if module in each.modules:
                    found = self.in_module(Place(each, module), parts[cut:], steps)
                    if found is not None:
                        return found
                    break
        return None

    def in_module(self, place: Place, rest: Sequence[str], steps: int = 0) -> Found | None:
        """What a name means at the top of a module; `rest` are its parts."""
        if len(rest) > 1:
            dotted = self.target(place, rest[0])
            if dotted is None:
                return None
            return self.resolve(place.archive, ".".join((dotted, *rest[1:])), steps + 1)
        archive, module = place
        node = archive.bindings(module).get(rest[0])
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            return Found(place, node)
        if (dotted := self.target(place, rest[0])) is not None:
            return self.resolve(archive, dotted, steps + 1)
        for each in archive.stars(module):
            dotted = f"{self.origin(place, each)}.{rest[0]}"
            if (found := self.resolve(archive, dotted, steps + 1)) is not None:
                return found
        if (lazy := archive.lazy(module).get(rest[0])) is not None:
            return self.resolve(archive, f"{module}.{lazy}.{rest[0]}", steps + 1)
        return None

    def target(self, place: Place, name: str) -> str | None:
        """The dotted name that a name of a module stands for."""
        node = place.archive.bindings(place.module).get(name)
        if isinstance(node, ast.ImportFrom):
            original = next(a.name for a in node.names if (a.asname or a.name) == name)
            return f"{self.origin(place, node)}.{original}"
        if isinstance(node, ast.Import):
            return next((a.name for a in node.names if a.asname == name), name)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            dotted = dotted_name(node.value)
            return self.absolute(place, dotted) if dotted and dotted != name else None
        return None

    def absolute(self, place: Place, dotted: str) -> str:
        """A dotted name in a module as seen from anywhere."""
        first, dot, rest = dotted.partition(".")
        target = self.target(place, first)
        return f"{target or f'{place.module}.{first}'}{dot}{rest}"

    @staticmethod
    def origin(place: Place, node: ast.ImportFrom) -> str:
        """The module that a statement imports from."""
        if not node.level:
            return node.module or ""
        parts = place.module.split(".")
        up = node.level - place.archive.is_package(place.module)
        base = parts[: len(parts) - up] if up else parts
        return ".".join((*base, node.module) if node.module else base)

    def bases(self, found: Found) -> tuple[dict[str, Found], list[str]]:
        """All that a class derives from, nearest first: what is in the releases, and the rest."""
        inside: dict[str, Found] = {}
        outside: list[str] = []
        for base in found.node.bases if isinstance(found.node, ast.ClassDef) else ():
            written = dotted_name(base.value if isinstance(base, ast.Subscript) else base)
            if written is None:
                continue
            near = self.in_module(found.place, written.split("."))
            if near is None:
                outside.append(self.absolute(found.place, written))
            elif near.key != found.key and near.key not in inside:
                above, unknown = self.bases(near)
                inside |= {near.key: near, **above}
                outside += unknown
        return inside, outside


def dotted_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted_name(node.value)
        return before and f"{before}.{node.attr}"
    return None


def lazy_exports(tree: ast.Module) -> dict[str, str]:
    """The names in what a module has for `_import_structure` -> their submodules."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Name) and target.id == LAZY and isinstance(value, ast.Dict):
            for key, names in zip(value.keys, value.values, strict=True):
                if isinstance(key, ast.Constant):
                    found |= dict.fromkeys(strings_in(names), str(key.value))
        elif isinstance(target, ast.Subscript) and dotted_name(target.value) == LAZY:
            submodule = next(strings_in(target.slice), "")
            found |= dict.fromkeys(strings_in(value), submodule)
    return found


def strings_in(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


# ------------------------------------------------------------------------- extracts


class Reader:
    """Reads of some releases all that a model speaks of."""

    def __init__(self, model: Model, archives: Sequence[Archive]) -> None:
        self.model = model
        self.library = Library(archives)

    def extract(self) -> Extract:
        names = {name: self.library.meant(name) for name in names_of(self.model)}
        definitions = {each.key: each for found in names.values() for each in found}
        chains = {key: self.library.bases(each) for key, each in definitions.items()}
        for inside, _ in chains.values():
            definitions |= inside
        return Extract(
            self.model.name,
            self.model.version,
            tuple(archive.release for archive in self.library.archives),
            {name: tuple(each.key for each in found) for name, found in names.items()},
            {key: self.definition(definitions[key]) for key in sorted(definitions)},
            {name: place for name in sorted(self.members) if (place := self.caller(name))},
            tuple(sorted(self.constants())),
            dict(self.named_sources()),
        )

    @cached_property
    def members(self) -> set[str]:
        """The members of classes that the model speaks of."""
        classes = self.model.classes
        methods = {name for cls in classes for row in cls.methods for name in row.names}
        taking = {row.method for row in self.model.wrappers if row.method is not None}
        return methods | taking | {name for cls in classes for name in cls.attributes}

    @cached_property
    def arguments(self) -> set[str]:
        taking = (*self.model.precision, *self.model.wrappers)
        unless = (row.unless for row in self.model.precision if row.unless is not None)
        return {*(row.argument for row in taking), *unless}

    def definition(self, found: Found) -> Definition:
        place, node = found
        file = place.archive.modules[place.module]
        if isinstance(node, ast.FunctionDef):
            literals = self.literals(place, node.args)
            return Definition(file, node.lineno, (), {}, written(node.args), None, literals)
        inside, outside = self.library.bases(found)
        wanted = {*self.members, "__init__"}
        members = {name: each for name, each in members_of(node) if name in wanted}
        fields = dataclass_fields(node)
        init = next((f for f in functions(node) if f.name == "__init__"), None)
        literals = self.literals(place, fields if init is None else init.args)
        shown = (
            fields if fields is not None and self.arguments & {a.arg for a in fields.args} else None
        )
        if not self.arguments & {*arguments_of(init)}:
            members.pop("__init__", None)
        return Definition(
            file, node.lineno, (*inside, *outside), dict(sorted(members.items())), None,
            written(shown) if shown is not None else None, literals,
        )  # fmt: skip

    def literals(
        self, place: Place, parameters: ast.arguments | None
    ) -> dict[str, tuple[str, ...]]:
        """The values that annotations of the arguments of precisions list."""
        found = {}
        for each in (*parameters.args, *parameters.kwonlyargs) if parameters else ():
            if each.arg in self.arguments and each.annotation is not None:
                found[each.arg] = tuple(dict.fromkeys(self.values(place, each.annotation)))
        return {name: values for name, values in found.items() if values}

    def values(self, place: Place, annotation: ast.expr, steps: int = 0) -> Iterator[str]:
        """The values that an annotation lists, through aliases."""
        if steps > MOST_STEPS:
            return
        if isinstance(annotation, ast.Subscript):
            name = (dotted_name(annotation.value) or "").rpartition(".")[2]
            parts = annotation.slice
            each = parts.elts if isinstance(parts, ast.Tuple) else [parts]
            if name == "Literal":
                yield from (text_of(e.value) for e in each if isinstance(e, ast.Constant))
            elif name in ("Union", "Optional"):
                for part in each:
                    yield from self.values(place, part, steps + 1)
        elif isinstance(annotation, ast.BinOp):
            yield from self.values(place, annotation.left, steps + 1)
            yield from self.values(place, annotation.right, steps + 1)
        elif isinstance(annotation, ast.Name):
            there, node = self.alias(place, annotation.id)
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                yield from self.values(there, node.value, steps + 1)

    def alias(self, place: Place, name: str) -> tuple[Place, ast.stmt | None]:
        """The statement that gives a name its value, in whichever module."""
        for _ in range(MOST_STEPS):
            node = place.archive.bindings(place.module).get(name)
            if not isinstance(node, ast.ImportFrom):
                return place, node
            name = next(a.name for a in node.names if (a.asname or a.name) == name)
            module = self.library.origin(place, node)
            holders = (a for a in (place.archive, *self.library.archives) if module in a.modules)
            archive = next(holders, None)
            if archive is None:
                break
            place = Place(archive, module)
        return place, None

    def caller(self, name: str) -> str | None:
        """The first place that has a name after a dot or in a string, which may have several."""
        named = re.compile(rf"""(?:["'](?:\w+ )*|\.){name}\b""")
        for archive in self.library.archives:
            for file, text in archive.texts.items():
                if (match := named.search(text)) and not is_test(file):
                    return f"{file}:{text.count(chr(10), 0, match.start()) + 1}"
        return None

    def constants(self) -> Iterator[str]:
        """The values of precisions that the sources have as constants."""
        wanted = {v for row in self.model.precision for v in (*row.values, *row.casts)}
        texts = [text for archive in self.library.archives for text in archive.texts.values()]
        for value in wanted:
            quoted = re.compile(rf"""(["']){re.escape(value)}\1""")
            is_number = value.isdigit() and re.compile(rf"\b{value}\b")
            if any(quoted.search(t) or (is_number and is_number.search(t)) for t in texts):
                yield value

    def named_sources(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        texts: dict[str, str] = {}  # of a file that several releases have, all of them
        for archive in self.library.archives:
            for file, text in archive.texts.items():
                texts[file] = f"{texts.get(file, '')}\n{text}"
        wanted: dict[str, set[str]] = {}
        for source in sources_of(self.model):
            if named := SOURCE.match(source):
                words = wanted.setdefault(named[1], set())
                words |= {named[2].rpartition(".")[2]} if named[2] else set()
        for file, words in sorted(wanted.items()):
            if file in texts:
                known = (w for w in words if re.search(rf"\b{w}\b", texts[file]))
                yield file, tuple(sorted(known))


def is_test(file: str) -> bool:
    return any(part in ("test", "tests", "testing") for part in file.split("/"))


def functions(cls: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    return (node for node, _ in bound(cls.body) if isinstance(node, ast.FunctionDef))


def arguments_of(function: ast.FunctionDef | None) -> Iterator[str]:
    if function is not None:
        yield from (each.arg for each in (*function.args.args, *function.args.kwonlyargs))


def members_of(cls: ast.ClassDef) -> Iterator[tuple[str, Member]]:
    """The members of a class, those that its methods assign too; the last word is the first."""
    for function in functions(cls):
        for node in ast.walk(function):
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
                continue
            if dotted_name(node.value) == "self":
                yield node.attr, Member(node.lineno)
    for node, name in bound(cls.body):
        if isinstance(node, ast.FunctionDef) and not is_property(node):
            yield name, Member(node.lineno, written(node.args))
        else:
            yield name, Member(node.lineno)


def is_property(node: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(each) for each in node.decorator_list)


def dataclass_fields(cls: ast.ClassDef) -> ast.arguments | None:
    """The fields of a dataclass as parameters; those of its bases come before them."""
    if not any("dataclass" in ast.unparse(each) for each in cls.decorator_list):
        return None
    fields = [
        ast.arg(node.target.id, node.annotation)
        for node in cls.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    return ast.arguments([], fields, None, [], [], None, [])


def written(parameters: ast.arguments) -> str:
    """Parameters as they are written, except for annotations."""
    text = ast.unparse(parameters)
    plain = parameters_of(text)
    every = [*plain.posonlyargs, *plain.args, *plain.kwonlyargs, plain.vararg, plain.kwarg]
    for each in every:
        if each is not None:
            each.annotation = None
    return ast.unparse(plain)


def text_of(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# ------------------------------------------------------------------------- the command


def fetched(release: str, cache: Path) -> Path:
    """The file of a release; downloads it the first time."""
    cache.mkdir(parents=True, exist_ok=True)
    name, at, address = release.partition(" @ ")
    if at:
        path = cache / f"{name}-{address.rpartition('/')[2].removeprefix(f'{name}-')}"
        if not path.exists():
            with urllib.request.urlopen(address) as answer:
                path.write_bytes(answer.read())
        return path
    name, _, version = release.partition("==")
    wheels = f"{re.sub('[-_.]+', '_', name)}-{version}-*.whl"
    if not (found := [*cache.glob(wheels)]):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--only-binary=:all:", "--dest", str(cache)]
        subprocess.run([*command, release], check=True)
        found = [*cache.glob(wheels)]
    return found[0]


def archives_of(model: Model, cache: Path) -> Iterator[Archive]:
    seen: set[str] = set()
    for release in releases_of(model):
        name, _, version = release.partition("==")
        yield Archive(release, fetched(release, cache), f" ({version})" if name in seen else "")
        seen.add(name)


def extract_file(name: str) -> Path:
    return EXTRACTS / f"{name}.json"


def stored(name: str) -> Extract:
    """The extract of a model, as it was written."""
    return msgspec.json.decode(extract_file(name).read_bytes(), type=Extract)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help="default: all")
    parser.add_argument("--update", action="store_true", help="write the extracts")
    parser.add_argument("--cache", type=Path, default=default_cache() / "frameworks")
    given = parser.parse_args()
    known = {model.name: model for model in bundled()}
    if unknown := set(given.models) - known.keys():
        sys.exit(f"there is no model of {', '.join(sorted(unknown))}")
    failed = 0
    for name in given.models or known:
        model = known[name]
        extract = Reader(model, [*archives_of(model, given.cache)]).extract()
        found = complaints(model, extract)
        if given.update:
            EXTRACTS.mkdir(parents=True, exist_ok=True)
            text = json.dumps(msgspec.to_builtins(extract), indent=1, ensure_ascii=False)
            extract_file(name).write_text(f"{text}\n", encoding="utf-8")
        elif not extract_file(name).exists() or stored(name) != extract:
            found.append("the extract is of something else: --update writes it")
        releases = ", ".join(release.name for release in extract.releases)
        print(f"{name}: {len(found)} faults; read from {releases}")
        for each in found:
            print(f"  {each}")
        failed += bool(found)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
