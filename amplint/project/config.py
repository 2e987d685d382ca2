"""Files of settings and the command line -> `Settings`. Which file holds for which code is for
`settings_hierarchy`."""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Protocol

import pathspec

from amplint.findings.declaration import Declaration
from amplint.findings.finding import Finding, Group, RuleName
from amplint.findings.selectors import (
    UNREADABLE,
    AnyClaim,
    beginnings,
    did_you_mean,
    for_torch,
    is_slip,
)
from amplint.project.modes import MODES, Assumption, Mode
from amplint.project.patterns import is_pattern, spec
from amplint.project.places import OWN_FILES, PYPROJECT
from amplint.project.torch_floor import ANY, Floor
from amplint.util import files
from amplint.util.errors import Failure
from amplint.util.paths import lies_in, seen_from, slashes, without_drive
from amplint.util.toml import loads

TOOL = "amplint"  # the name of its table
COMMAND_LINE = "the command line"
AND_COMMAND_LINE = f" and {COMMAND_LINE}"  # where that adds to what a file has
INLINE = "--config"  # where a setting is written on the command line as in a file
AUTO = "auto"
PREVIEW = "`preview = true`, or --preview"  # what switches rules in preview on
DEFAULT_SELECT = tuple(group.value for group in Group if group.default)
MOST_MODELS = 20
TORCH_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")


class ConfigError(Failure):
    """A setting that cannot be followed; the text names it, its place, and the nearest one."""


class Configuration(Protocol):
    """Knows the settings of every file of a run."""

    def at(self, directory: str) -> Settings:
        """The settings of the files in a directory, which is given in full, with forward slashes.
        Raises ConfigError."""
        ...


@dataclass(frozen=True)
class Settings:
    """The settings of a file. They are a `Configuration` too: one that is the same everywhere.

    Args:
        root: the directory that the patterns are relative to.
        select: selectors of the findings to report; a selector is a code ("AMP101"), the beginning
            of one ("AMP1"), a rule's name, a group or "ALL".
        ignore: selectors of the findings not to report.
        extend_select: selectors added to `select`.
        preview: whether rules that are in preview judge as the others do, and not at all.
        exclude: patterns, written as in .gitignore, of files not to look at.
        extend_exclude: patterns added to `exclude`.
        roots: patterns, a name or a `*` for each level, of directories that are analysed as
            projects of their own; None for those that have a pyproject.toml or a .git.
        per_file_ignores: pairs of a pattern and the selectors not to report in files it matches.
        target_torch: the lowest torch version that the project supports.
        torch_floor: without `target_torch`, the lowest version that its files allow.
        assume_autocast: whether modules and losses that nobody is seen to call run under autocast;
            True: all that callers out of sight may call does; "auto" to go by what the project
            shows.
        under: the mode, of `MODES`, that all callers out of sight are assumed to ask for; None for
            none but that of `assume_autocast`.
        models: files that say what frameworks do with the code that they call, each with its text.
        baseline: the file of the known findings, if the settings name one.
        observations: whether what runs of the program have shown is used (`observations.FILE`).
        hints: whether a report at a terminal ends with what can be done next.
        config: the file that the settings were read from; None if there is none.
        bases: the directory that the patterns of a key are relative to, where it is not `root`:
            they come from a file that another one extends.
        origins: where each key stands.
    """

    root: Path
    select: tuple[str, ...] = DEFAULT_SELECT
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    preview: bool = False
    exclude: tuple[str, ...] = ()
    extend_exclude: tuple[str, ...] = ()
    roots: tuple[str, ...] | None = None
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    target_torch: str | None = None
    torch_floor: Floor | None = None
    assume_autocast: bool | str = AUTO
    under: str | None = None
    models: tuple[tuple[Path, str], ...] = ()
    baseline: Path | None = None
    observations: bool = True
    hints: bool = True
    config: Path | None = field(default=None, compare=False, repr=False)
    bases: tuple[tuple[str, Path], ...] = ()
    origins: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)

    def identity(self, root: Path) -> list[object]:
        """A key of these settings, the same wherever the root of the project lies."""
        return [
            seen_from(root, self.root),
            sorted(self.select),
            sorted(self.ignore),
            sorted(self.extend_select),
            self.preview,
            self.per_file_ignores,
            [(key, seen_from(root, base)) for key, base in self.bases],
            self.target_torch,
            self.assume_autocast,
            self.under,
            self.texts_of_models,
            self.torch_floor
            and [self.torch_floor.version, self.torch_floor.pinned, self.torch_floor.file.name],
        ]

    def at(self, _: str) -> Settings:
        """These settings, which are those of every directory."""
        return self

    @property
    def mode(self) -> Mode | None:
        """The mode that callers out of sight are assumed to ask for, if there is one."""
        if self.under is not None:
            return MODES[self.under]
        return Mode("", is_region=True) if self.assume_autocast is True else None

    def presumes(self, is_second: bool) -> Assumption | bool:
        """The presumption about callers out of sight: see `Files`.

        Args:
            is_second: whether it is the second of the two analyses under a mode.
        """
        mode = self.mode
        if mode is None or not (mode.is_region or is_second):
            return self.assume_autocast is not False
        return Assumption(mode, has_half_inputs=not (mode.is_region and is_second))

    @property
    def texts_of_models(self) -> tuple[str, ...]:
        return tuple(text for _, text in self.models)

    @property
    def lowest_torch(self) -> tuple[str, str] | None:
        """The lowest torch that has to do, and what says so."""
        if self.target_torch is not None:
            return self.target_torch, "`target-torch`"
        floor = self.torch_floor
        return None if floor is None else (floor.version, floor.file.name)

    def rules(self, rules: Iterable[AnyClaim]) -> tuple[AnyClaim, ...]:
        """Those of the rules that hold for the torch that has to do, and are not in preview unless
        these settings ask for such rules."""
        eligible = (rule for rule in rules if self.preview or not rule.preview)
        floor = self.torch_floor
        if self.target_torch is not None:
            return for_torch(eligible, self.target_torch, self.target_torch)
        if floor is None or floor.version == ANY:
            return for_torch(eligible, None, None)
        return for_torch(eligible, floor.version, floor.pinned or None)

    def selects(self, names: Sequence[RuleName], group: Group) -> bool:
        """Whether findings of this kind are reported.

        `ignore` beats `select`, except that what is selected by its own code or name is ignored
        only by its own code or name. The first of several names is the own one; by the others, a
        finding was named before its rule was cut out of another one.
        """
        selectors = (*self.select, *self.extend_select)
        own = names[:1]
        # A file that was not looked at must not pass for a clean one.
        if own[0].code == UNREADABLE or strength(selectors, own, group) == EXACT:
            return strength(self.ignore, own, group) < EXACT
        return strength(selectors, names, group) > strength(self.ignore, names, group)

    def selects_finding(self, finding: Finding) -> bool:
        return self.selects(finding.names, finding.group)

    def may_report(self, rule: Declaration) -> bool:
        """Whether some finding of the rule can be reported."""
        own = RuleName(rule.code, rule.name)
        ways = [[own, former] for former in rule.cut_from] or [[own]]
        return any(self.selects(names, group) for names in ways for group in rule.groups)

    def ignores(self, rule: Declaration) -> bool:
        """Whether `ignore` names the rule, or all of its findings."""
        return all(strength(self.ignore, [RuleName(rule.code, rule.name)], g) for g in rule.groups)

    def ignores_in_file(self, finding: Finding, file: Path) -> bool:
        """Whether `per-file-ignores` drops this finding in the (absolute) file."""
        path = self.relative(file, "per-file-ignores")
        return any(
            matches(path) and strength(selectors, finding.names, finding.group)
            for matches, selectors in self._per_file
        )

    def excludes(self, path: str, is_directory: bool) -> bool:
        """Whether `exclude`, or what is added to it, leaves out this (absolute) path."""
        for key, excluded in self._excluded:
            verdict = excluded.check_file(self.relative(path, key) + "/" * is_directory).include
            if verdict is not None:
                return verdict
        return False

    def root_of(self, directory: str) -> str | None:
        """The directory that `roots` has a file of this (absolute) directory analysed with: the
        nearest upward that is one of them, else the one that they are relative to. None where no
        `roots` are given, or they are those of files elsewhere."""
        base = slashes(str(self.base_of("roots")))
        if self.roots is None or not lies_in(directory, base):
            return None
        above = directory[len(base) :].strip("/").split("/")
        for depth in range(len(above), 0, -1):
            if any(fits(above[:depth], pattern.split("/")) for pattern in self.roots):
                return "/".join((base.rstrip("/"), *above[:depth]))
        return base

    def base_of(self, key: str) -> Path:
        """The directory that the patterns of a key are relative to."""
        return dict(self.bases).get(key, self.root)

    def relative(self, file: Path | str, key: str) -> str:
        """The path that the patterns of a key are matched against, with forward slashes."""
        return re.sub(r"^(\.\./)+", "", without_drive(seen_from(self.base_of(key), file)))

    @cached_property
    def _excluded(self) -> tuple[tuple[str, pathspec.GitIgnoreSpec], ...]:
        """The patterns by key, the last word first."""
        patterns = {"extend-exclude": self.extend_exclude, "exclude": self.exclude}
        return tuple((key, spec(each)) for key, each in patterns.items() if each)

    @cached_property
    def _per_file(self) -> tuple[tuple[PathMatch, tuple[str, ...]], ...]:
        return tuple((PathMatch(pattern), codes) for pattern, codes in self.per_file_ignores)


@dataclass(frozen=True)
class PathMatch:
    """A pattern of `per-file-ignores`; a `!` in front means every file that does not match."""

    pattern: str

    def __call__(self, path: str) -> bool:
        return self._spec.match_file(path) is not self.pattern.startswith("!")

    @cached_property
    def _spec(self) -> pathspec.GitIgnoreSpec:
        return spec([self.pattern.removeprefix("!")])


def fits(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether each name matches the pattern at its level."""
    return len(names) == len(patterns) and all(map(fnmatchcase, names, patterns))


EXACT = 2


def strength(selectors: Iterable[str], names: Sequence[RuleName], group: Group) -> int:
    """How strongly selectors speak of a rule: EXACT by code or name, 1 by a wider one, else 0."""
    level = 0
    for selector in selectors:
        if any(selector in name for name in names):
            return EXACT
        if selector in ("ALL", group.value) or any(
            selector in beginnings(name.code) for name in names
        ):
            level = 1
    return level


def check_selectors(settings: Settings, rules: Sequence[Declaration]) -> None:
    """Raise `ConfigError` at the first selector that speaks of no rule, or selects one that is in
    preview where these are off: nothing would be reported, and the run would pass."""
    words = selectors_of(rules)
    off = {} if settings.preview else {w: r for r in rules if r.preview for w in (r.code, r.name)}
    origins = dict(settings.origins)
    for key in ("select", "ignore", "extend-select"):
        selectors: tuple[str, ...] = getattr(settings, key.replace("-", "_"))
        where = f"{origins.get(key, 'the settings')}: `{key}`"
        check_words(selectors, where, words)
        for item in selectors:
            if item in off and key != "ignore":
                raise ConfigError(f"{where}: `{item}` is in preview: it needs {PREVIEW}")
    origin = f"{origins.get('per-file-ignores', 'the settings')}: `per-file-ignores`"
    for pattern, codes in settings.per_file_ignores:
        check_words(codes, f"{origin}, {pattern!r}", words)


def check_words(selectors: Iterable[str], where: str, words: frozenset[str]) -> None:
    for item in selectors:
        if item not in words:
            raise ConfigError(f"{where}: there is no rule `{item}`{did_you_mean(item, words)}")


@dataclass(frozen=True)
class WrittenSettings:
    """The settings in a file, over those of the files that it extends.

    Args:
        values: the settings by the names of the fields of `Settings`, checked.
        origins: by key, the file where it stands.
    """

    values: Mapping[str, object]
    origins: Mapping[str, Path]


NOTHING = WrittenSettings({}, {})


def written_in(file: Path) -> WrittenSettings:
    """Read the settings of a file. Raises ConfigError."""
    values: dict[str, object] = {}
    origins: dict[str, Path] = {}
    for each, table in chain(file):
        for field_name, value in parse(table, str(each), each.parent).items():
            values.setdefault(field_name, value)
        for key in table:
            origins.setdefault(key, each)
    return WrittenSettings(values, origins)


def chain(file: Path) -> Iterator[tuple[Path, dict[str, object]]]:
    """A file and those that it extends, the nearest first, each with its settings but `extend`.
    Raises ConfigError for one that cannot be read, and for a cycle."""
    paths: list[str] = []
    named_by = ""
    while True:
        paths.append(os.path.realpath(file))
        table = table_of(file)
        if table is None:
            raise ConfigError(f"{named_by}{file}: there is no [tool.amplint] in it")
        extended = table.pop("extend", None)
        yield file, table
        if extended is None:
            return
        where = f"{file}: `extend`"
        named_by = f"{where}: "
        # As it would be written by hand: `..` is taken back, links are kept.
        file = Path(os.path.abspath(file.parent / file_name(extended, where)))  # noqa: PTH100
        if os.path.realpath(file) in paths:
            raise ConfigError(f"{where}: {file} extends itself")
        if not os.path.exists(file):  # noqa: PTH110  (never raises)
            raise ConfigError(f"{where}: {file}: there is no such file")


def table_of(file: Path) -> dict[str, object] | None:
    """The settings in a file: its table [tool.amplint], or all of it if it is amplint's own. None
    where there is no such table. Raises ConfigError."""
    document = document_of(file)
    tool = document.get("tool", {})
    if file.name in OWN_FILES:
        return document
    if not isinstance(tool, dict) or "amplint" not in tool:
        return None if file.name == PYPROJECT or "tool" in document else document
    table = tool["amplint"]
    if not isinstance(table, dict):
        raise ConfigError(f"{file}: [tool.amplint] is not a table")
    return table


def misspelled_table(file: Path) -> str | None:
    """The table of a pyproject.toml whose name is that of amplint's with one slip, if it has one.
    Raises ConfigError."""
    tool = document_of(file).get("tool", {})
    names = tool if isinstance(tool, dict) else ()
    return next((name for name in names if name != TOOL and is_slip(name, TOOL)), None)


def document_of(file: Path) -> dict[str, object]:
    """A TOML file. Raises ConfigError."""
    try:
        document = loads(files.read_text(file))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8: {error.reason}") from error
    except ValueError as error:  # of TOML, or of a number of thousands of digits
        raise ConfigError(f"{file}: is not valid TOML: {error}") from error
    except RecursionError:
        raise ConfigError(f"{file}: is nested too deeply") from None
    return document


def parse(table: Mapping[str, object], origin: str, directory: Path) -> dict[str, object]:
    """Check every key and value of a table and give them the types that `Settings` wants.

    Args:
        table: keys and values as they were written.
        origin: where they stand, for errors.
        directory: the one that paths of files are relative to.
    """
    settings: dict[str, object] = {}
    for key, value in table.items():
        where = f"{origin}: `{key}`"
        if key in ("select", "ignore", "extend-select"):
            settings[key.replace("-", "_")] = strings(value, where)
        elif key == "preview":
            settings["preview"] = true_or_false(value, where)
        elif key in ("exclude", "extend-exclude"):
            settings[key.replace("-", "_")] = patterns(value, where)
        elif key == "roots":
            settings["roots"] = directories(value, where)
        elif key == "per-file-ignores":
            settings["per_file_ignores"] = per_file_ignores(value, where)
        elif key == "target-torch":
            settings["target_torch"] = torch_version(value, where)
        elif key == "assume-autocast":
            settings["assume_autocast"] = true_false_or_auto(value, where)
        elif key == "under":
            settings["under"] = mode_name(value, where)
        elif key == "models":
            settings["models"] = models(value, where, directory.absolute())
        elif key == "baseline":
            settings["baseline"] = directory.absolute() / file_name(value, where)
        elif key == "observations":
            settings["observations"] = true_or_false(value, where)
        elif key == "hints":
            settings["hints"] = true_or_false(value, where)
        elif key == "extend":
            raise ConfigError(f"{where} is for settings in a file; here, write --config FILE")
        else:
            raise ConfigError(f"{origin}: unknown key `{key}`{did_you_mean(key, WORDS)}")
    return settings


KEYS = (
    "select", "ignore", "extend-select", "preview", "exclude", "extend-exclude", "roots",
    "per-file-ignores", "target-torch", "assume-autocast", "under", "models", "baseline",
    "observations", "hints",
)  # fmt: skip
WORDS = (*KEYS, "extend")
# The options that add to the value of a key, which other options replace.
ADDED = {
    "extend-select": "extend-select",
    "extend-ignore": "ignore",
    "extend-exclude": "extend-exclude",
}
PATTERNS = (
    "exclude",
    "extend-exclude",
    "roots",
    "per-file-ignores",
)  # the keys whose patterns have a base


shortened = reprlib.repr  # a value may be as long as the file


def strings(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{where} must be a list of strings, not {shortened(value)}")
    return tuple(value)


def patterns(value: object, where: str) -> tuple[str, ...]:
    for item in (items := strings(value, where)):
        if not is_pattern(item):
            raise ConfigError(f"{where}: {item!r} is not a pattern as in .gitignore")
    return items


def directories(value: object, where: str) -> tuple[str, ...]:
    """Patterns of directories, without the slash at the end that they may have."""
    items = tuple(item.rstrip("/") for item in strings(value, where))
    for item in items:
        levels = set(item.split("/"))
        if not levels.isdisjoint(("", ".", "..", "**")) or "\\" in item or not is_pattern(item):
            raise ConfigError(f'{where}: {item!r} is not a directory like "packages/*"')
    return items


def per_file_ignores(value: object, where: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise ConfigError(
            f"{where} must be a table of patterns with lists of codes, not {shortened(value)}"
        )
    return tuple(
        (patterns([pattern], where)[0], strings(codes, f"{where}, {pattern!r}"))
        for pattern, codes in value.items()
    )


def torch_version(value: object, where: str) -> str:
    # A number would do for 2.4 and silently take 2.10 for 2.1. A command line has no numbers.
    if not isinstance(value, str) or not TORCH_VERSION.fullmatch(value):
        form = "such as 2.4" if where.startswith(COMMAND_LINE) else 'in quotes, such as "2.4"'
        raise ConfigError(f"{where} must be a version {form}, not {shortened(value)}")
    return value


def true_or_false(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{where} must be true or false, not {shortened(value)}")
    return value


def true_false_or_auto(value: object, where: str) -> bool | str:
    if isinstance(value, bool) or value == AUTO:
        return value
    if value not in ("true", "false") or not where.startswith(COMMAND_LINE):
        raise ConfigError(f'{where} must be true, false or "auto", not {shortened(value)}')
    return value == "true"


def mode_name(value: object, where: str) -> str:
    if not isinstance(value, str) or value not in MODES:
        modes = ", ".join(MODES)
        raise ConfigError(f"{where} must be one of {modes}, not {shortened(value)}")
    return value


def file_name(value: object, where: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ConfigError(f"{where} must be the name of a file, not {shortened(value)}")
    return value


def models(value: object, where: str, directory: Path) -> tuple[tuple[Path, str], ...]:
    """Files of models, each with its text; they lie below the directory of the settings."""
    # Few projects have one, and the schema of models costs the start of a run 60 ms.
    from amplint.frameworks.model_reading import ModelError, model_of  # noqa: PLC0415

    texts = []
    named = strings(value, where)
    if len(named) > MOST_MODELS:
        raise ConfigError(f"{where} names more than {MOST_MODELS} files")
    for name in named:
        path = directory / file_name(name, where)
        if files.leads_out(path, directory):
            raise ConfigError(f"{where}: {path} does not lie below {directory}")
        try:
            text = files.read_text(path)
            model_of(text)
        except OSError as error:
            reason = error.strerror or error
            raise ConfigError(f"{where}: {path}: cannot be read: {reason}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"{where}: {path}: is not UTF-8: {error.reason}") from error
        except ModelError as error:
            raise ConfigError(f"{where}: {path}: {error}") from error
        texts.append((path, text))
    return tuple(texts)


def selectors_of(rules: Iterable[Declaration]) -> frozenset[str]:
    """Every word that may stand in `select` and its kin."""
    words = {"ALL", *(group.value for group in Group)}
    for rule in rules:
        words |= {rule.code, rule.name, *beginnings(rule.code)}
    return frozenset(words)


def schema_of_settings() -> str:
    """The JSON Schema of what `parse` accepts, in the form that SchemaStore wants."""
    return Path(__file__).with_name("settings.schema.json").read_text(encoding="utf-8")
