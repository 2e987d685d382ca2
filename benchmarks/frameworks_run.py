"""Run a program of each framework, and hold its model against what was called.

    python -m benchmarks.frameworks_run                  # all whose framework is installed
    python -m benchmarks.frameworks_run lightning --update

`tests/frameworks/running/NAME.py` is a small program as users write it. It knows nothing of this:
its classes, and those of the framework, are watched from outside while it runs on the CPU
(`benchmarks.frameworks_recorder`). What rows of the model say is then compared: how often a method
is called, in which region, with gradients or without, with what, and what becomes of the result.

`--update` writes what was seen to `results/frameworks_run.json`, against which the suite holds the
models, for not all of the frameworks can be installed for it. They are not among the dependencies:

    pip install accelerate==1.15.0 fastai==2.8.12 lightning==2.6.6 pytorch-ignite==0.5.5 \\
        sentence-transformers==6.2.0 skorch==1.4.0 stable-baselines3==2.9.2 timm==1.0.31 \\
        torch-geometric==2.8.1 torchmetrics==1.9.0 transformers==5.24.0 datasets

A program says in `COUNTS` how many batches, steps and epochs it asks for. No number stands for two
frequencies, so that a method that is called for each batch is not taken for one that is called for
each step. `PRECISION` is the call, the argument and the value by which it asks for a precision.
`LEFT_OUT` says of which methods it shows nothing, and why; with the name of a class, of which it
cannot show the region.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import msgspec

from amplint.frameworks.models import ANY, Models, bundled, fits, written
from amplint.frameworks.schema import ClassRow, MethodRow, Model, Precision, Role
from benchmarks.frameworks import releases_of
from benchmarks.packages import RESULTS

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tests" / "frameworks" / "running"
STORED = RESULTS / "frameworks_run.json"
NONE = "none"
OUTPUTS = "outputs of modules"
# The package and the model of programs that are not named after them.
OF = {
    "fabric": ("lightning", "lightning"),
    "sentence_transformers": ("sentence_transformers", "transformers"),
}
IS_FLOAT = "float"
TENSORS = ("tensor", "tensors", "loss")
# What a value of a role may be, as the recorder calls it.
ROLES: dict[Role, tuple[str, ...]] = {
    "accelerator": ("accelerator",),
    "batch": TENSORS,
    "device": ("device",),
    "host batch": TENSORS,
    "module": ("module",),
    "number": ("number",),
    "optimizer": ("optimizer",),
    "outputs": TENSORS,
    "scaler": ("scaler",),
    "scheduler": ("scheduler",),
    "tensor": ("tensor", "loss"),
}
BUILT = {"accelerator", "loader", "module", "optimizer", "scheduler"}


class Given(msgspec.Struct, frozen=True):
    """What a parameter was given, all calls together.

    Args:
        position: of it, without `self`; None if it was given by name alone.
        kinds: what it was.
    """

    name: str
    position: int | None
    kinds: tuple[str, ...]


class FileResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was seen of a method.

    Args:
        name: of the class and of the method.
        regions: the dtypes of the autocast regions that were open, or "none".
        gradients: whether they were recorded.
        gave: what it returned.
        opened: as regions, inside of a context that it returned.
        reads: whether it read a value of a tensor.
    """

    name: str
    calls: int
    regions: tuple[str, ...]
    gradients: tuple[bool, ...]
    given: tuple[Given, ...] = ()
    gave: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    reads: bool = False

    @property
    def method(self) -> str:
        return self.name.rpartition(".")[2]


class Watched(msgspec.Struct, frozen=True, omit_defaults=True):
    """A class of which instances were seen.

    Args:
        bases: the dotted names by which a model knows it.
        attributes: what those of which the model speaks held.
    """

    bases: tuple[str, ...]
    attributes: dict[str, tuple[str, ...]] = {}


class Maker(msgspec.Struct, frozen=True):
    """A function or a class that was called, and what that made."""

    name: str
    made: tuple[str, ...]


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run of a program.

    Args:
        model: its name.
        versions: of what is installed.
        counts: how often each frequency came about.
        precision: the call that asked for one, its argument and its value.
        scaled: how often a loss was scaled.
        left_out: the methods of which the program shows nothing -> why.
        classes: by name.
    """

    model: str
    versions: dict[str, str]
    counts: dict[str, tuple[int, ...]]
    precision: tuple[str, str, str | bool]
    scaled: int
    left_out: dict[str, str]
    classes: dict[str, Watched]
    seen: tuple[FileResult, ...]
    makers: tuple[Maker, ...]


# ------------------------------------------------------------------------- model against run


def complaints(model: Model, run: Run) -> list[str]:
    """Whatever a model says that a run refutes."""
    return [*Held(model, run, Models([model])).complaints()]


class Held(NamedTuple):
    """A model that is held against a run."""

    model: Model
    run: Run
    models: Models

    def complaints(self) -> Iterator[str]:
        yield from self.of_versions()
        yield from self.of_counts()
        precision = self.precision()
        for seen in self.run.seen:
            if seen.method in ("forward", OUTPUTS) and self.row(seen) is None:
                yield from self.of_module(seen, precision)
            else:
                yield from self.of_method(seen, precision)
        for name, watched in self.run.classes.items():
            yield from self.of_attributes(name, watched)
        for maker in self.run.makers:
            yield from self.of_maker(maker)
        yield from self.of_what_was_not_seen()
        if precision is not None:
            value = written(self.run.precision[2])
            if (value in precision.scaled) != (self.run.scaled > 0):
                yield f"{self.run.precision}: losses were scaled {self.run.scaled} times"

    def of_versions(self) -> Iterator[str]:
        pinned = [release.partition("==") for release in releases_of(self.model)]
        known = {name: version for name, _, version in reversed(pinned)}  # the first one counts
        for name, version in self.run.versions.items():
            if name in known and known[name] != version:
                yield f"the model is of {name} {known[name]}, and the run of {version}"

    def of_counts(self) -> Iterator[str]:
        """A number that stands for two frequencies tells neither from the other, except for what is
        called once: a test has one epoch."""
        counts = {name: {*numbers} for name, numbers in self.run.counts.items()}
        rare = counts.pop("epoch", set()) | counts.pop("once", set())
        numbers = [number for each in (rare, *counts.values()) for number in each]
        for number in sorted({n for n in numbers if numbers.count(n) > 1}):
            yield f"the program has {number} of two kinds"

    def row(self, seen: FileResult) -> MethodRow | None:
        return self.models.method(self.rows(seen), seen.method)

    def rows(self, seen: FileResult) -> tuple[ClassRow, ...]:
        watched = self.run.classes.get(seen.name.rpartition(".")[0])
        return self.models.classes(watched.bases if watched is not None else ())

    def is_called(self, seen: FileResult) -> bool:
        row = self.row(seen)
        return row is not None and row.called is not None

    def is_own(self, seen: FileResult) -> bool:
        """Whether a method is one of a class of the program, which the framework calls."""
        cls = seen.name.rpartition(".")[0]
        watched = self.run.classes.get(cls)
        return watched is not None and all(not base.endswith(f".{cls}") for base in watched.bases)

    def precision(self) -> Precision | None:
        """The row of the precision that the program asks for. Raises LookupError without one."""
        call, argument, value = self.run.precision
        if not call:
            return None
        for row in self.model.precision:
            named = any(fits(name, call) if ANY in name else name == call for name in row.calls)
            if named and row.argument == argument and written(value) in row.values:
                return row
        raise LookupError(f"{self.model.name} has no row of {call}({argument}={value!r})")

    def dtype(self, precision: Precision) -> str:
        return precision.values[written(self.run.precision[2])]

    def of_method(self, seen: FileResult, precision: Precision | None) -> Iterator[str]:
        row = self.row(seen)
        if row is None:
            yield f"{seen.name}: no row says anything of it"
            return
        if row.called is not None:
            yield from self.of_calls(seen, row, precision)
        elif row.gives is None and self.is_own(seen):
            yield f"{seen.name}: {seen.calls} calls, and the row says nothing of them"
        yield from self.of_values(seen, row)
        opens = None if precision is None else (self.dtype(precision),)
        if row.gives == "region" and seen.opened != opens:
            yield f"{seen.name}: the context opens the regions {told(seen.opened)}"
        if row.reads and not seen.reads:
            yield f"{seen.name}: it read nothing"

    def of_calls(
        self, seen: FileResult, row: MethodRow, precision: Precision | None
    ) -> Iterator[str]:
        assert row.called is not None
        counts = self.run.counts.get(row.called, ())
        if seen.calls not in counts:
            yield f"{seen.name}: {seen.calls} calls, of `{row.called}` there are {told(counts)}"
        if precision is not None and seen.name not in self.run.left_out:
            wanted = self.dtype(precision) if row.region else NONE
            if seen.regions != (wanted,):
                yield f"{seen.name}: it ran in the regions {told(seen.regions)}, not {wanted}"
        # A metric of one's own may be called both ways.
        everywhere = {
            on for each in self.run.seen if each.method == seen.method for on in each.gradients
        }
        if row.gradients not in everywhere or (not row.gradients and True in seen.gradients):
            yield f"{seen.name}: gradients were {told(seen.gradients)}, not {row.gradients}"

    def of_values(self, seen: FileResult, row: MethodRow) -> Iterator[str]:
        for given in seen.given:
            at = sys.maxsize if given.position is None else given.position
            role = row.role(given.name, at)
            if role is not None and not is_of(role, given.kinds):
                yield f"{seen.name}: `{given.name}` was {told(given.kinds)}, no {role}"
        gave = told(seen.gave)
        if row.result == "loss" and not is_of("loss", seen.gave):
            yield f"{seen.name}: it gave {gave}, no loss"
        if row.result == "batch" and not is_of("batch", seen.gave):
            yield f"{seen.name}: it gave {gave}, no batch"
        if row.gives == "nothing" and seen.gave != (NONE,):
            yield f"{seen.name}: it gave {gave}, and should give nothing"
        if row.gives == "given" and not gives_back(seen):
            yield f"{seen.name}: it gave {gave}, and was given something else"
        if row.gives == "region" and seen.gave != ("context",):
            yield f"{seen.name}: it gave {gave}, no context"
        if row.gives in {*ROLES, "loss"} and not is_of(row.gives, seen.gave):
            yield f"{seen.name}: it gave {gave}, no {row.gives}"

    def of_attributes(self, name: str, watched: Watched) -> Iterator[str]:
        """Attributes may hold nothing at first."""
        for cls in self.models.classes(watched.bases):
            for attribute, role in cls.attributes.items():
                kinds = watched.attributes.get(attribute, ())
                if any(kind != NONE for kind in kinds) and not is_of(role, kinds):
                    yield f"{name}: `self.{attribute}` was {told(kinds)}, no {role}"

    def of_module(self, seen: FileResult, precision: Precision | None) -> Iterator[str]:
        """A module runs in the region, and keeps what it gives there, or does not."""
        if precision is None or seen.name in self.run.left_out:
            return
        dtype = self.dtype(precision)
        if seen.name != OUTPUTS:
            if seen.regions != (dtype,):
                yield f"{seen.name}: it ran in the regions {told(seen.regions)}, not {dtype}"
            return
        wanted = dtype if precision.keeps_outputs else "float32"
        if {word for kind in seen.gave for word in kind.split() if IS_FLOAT in word} != {wanted}:
            yield f"{OUTPUTS} are {told(seen.gave)}, not {wanted}"

    def of_maker(self, maker: Maker) -> Iterator[str]:
        row = self.models.maker(maker.name)
        if row is None:
            yield f"{maker.name}: no row says that it makes anything"
        elif row.builds in BUILT and not all(kind == row.builds for kind in maker.made):
            yield f"{maker.name}: it made {told(maker.made)}, no {row.builds}"

    def of_what_was_not_seen(self) -> Iterator[str]:
        """Whatever is called of a class that the program derives from, it must show."""
        seen = {each.method: each for each in self.run.seen if self.is_called(each)}
        rows = [row for each in seen.values() for cls in self.rows(each) for row in cls.methods]
        called = {name for row in rows if row.called is not None for name in row.names}
        for name in sorted(called - {*seen, *self.run.left_out}):
            yield f"{name}: the program does not show it, and does not say why"
        for name in sorted({*seen} & {*self.run.left_out}):
            yield f"{name}: the program shows it, and says that it does not"


def shown(model: Model, run: Run) -> tuple[int, int]:
    """How many rows of what a framework calls a run shows, and how many there are."""
    rows = {id(row) for cls in model.classes for row in cls.methods if row.called is not None}
    held = Held(model, run, Models([model]))
    return len(rows & {id(held.row(seen)) for seen in run.seen}), len(rows)


def is_of(role: Role, kinds: tuple[str, ...]) -> bool:
    """Whether values are of a role, or None, but not all of them.

    A loss has no graph in evaluation, and may stand in a dict or in a tuple.
    """
    if role == "loss":
        return any("loss" in kind for kind in kinds) and is_of("batch", kinds)
    words = [kind.split()[0].rstrip(",") for kind in kinds if kind != NONE]
    return role not in ROLES or (all(word in ROLES[role] for word in words) and bool(words))


def gives_back(seen: FileResult) -> bool:
    """Whether something gives back what it is given: tensors, of whichever dtypes, or objects."""
    values = tuple(kind for given in seen.given for kind in given.kinds)
    tensors = is_of("batch", values) and is_of("batch", seen.gave)
    return tensors or seen.gave == (", ".join(values),)


def told(words: tuple[object, ...]) -> str:
    return " and ".join(str(word) for word in words) or "nothing"


# ------------------------------------------------------------------------- the command


def programs() -> list[str]:
    return sorted(file.stem for file in PROGRAMS.glob("*.py"))


def packages_of(program: str) -> tuple[str, str]:
    """The package that a program is of, and the model."""
    return OF.get(program, (program, program))


def model_of(program: str) -> Model:
    _, name = packages_of(program)
    return next(model for model in bundled() if model.name == name)


def is_installed(program: str) -> bool:
    package, _ = packages_of(program)
    return find_spec("torch") is not None and find_spec(package) is not None


def run(program: str) -> Run:
    """Run a program in a process of its own; ends this one where that fails."""
    model = model_of(program)
    command = [sys.executable, "-m", "benchmarks.frameworks_recorder"]
    command += [str(PROGRAMS / f"{program}.py"), model.name]
    quiet = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore"}
    environment = {**os.environ, **quiet}
    done = subprocess.run(command, check=False, cwd=ROOT, env=environment, capture_output=True)
    if done.returncode:
        sys.exit(f"{program} failed:\n{done.stderr.decode()}")
    found = msgspec.json.decode(done.stdout, type=Run)
    return msgspec.structs.replace(found, versions=versions(program))


def versions(program: str) -> dict[str, str]:
    """The installed versions of what a program is of, by the names of the model's releases, and of
    torch."""
    package, _ = packages_of(program)
    first, *others = (release.partition("==")[0] for release in releases_of(model_of(program)))
    names = [first, *(name for name in others if name.replace("-", "_") == package), "torch"]
    return {name: metadata.version(name) for name in dict.fromkeys(names)}


def stored() -> dict[str, Run]:
    """What was seen of each program, as it was written."""
    if not STORED.exists():
        return {}
    return msgspec.json.decode(STORED.read_bytes(), type=dict[str, Run])


def laid_out(value: object, depth: int = 3) -> str:
    """JSON with a line for each value at a depth: one for each method that was seen."""
    if depth and isinstance(value, dict) and value:
        rows = [f"{json.dumps(key)}: {laid_out(value[key], depth - 1)}" for key in sorted(value)]
        return "{\n" + ",\n".join(rows) + "\n}"
    if depth and isinstance(value, tuple) and value:
        return "[\n" + ",\n".join(laid_out(each, depth - 1) for each in value) + "\n]"
    return json.dumps(value)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="default: all")
    parser.add_argument("--update", action="store_true", help="write what was seen")
    given = parser.parse_args()
    if unknown := {*given.programs} - {*programs()}:
        sys.exit(f"there is no program of {', '.join(sorted(unknown))}")
    failed = False
    for name in given.programs or programs():
        if not is_installed(name):
            print(f"{name}: not installed")
            continue
        seen = run(name)
        found = complaints(model_of(name), seen)
        if given.update:
            runs = msgspec.to_builtins({**stored(), name: seen})
            STORED.write_text(f"{laid_out(runs)}\n", encoding="utf-8")
        elif stored().get(name) != seen:
            found.append("something else was seen before: --update writes it")
        installed = ", ".join(f"{name} {version}" for name, version in seen.versions.items())
        rows, all_rows = shown(model_of(name), seen)
        print(f"{name}: {len(found)} faults; {rows} of {all_rows} rows shown, of {installed}")
        for each in found:
            print(f"  {each}")
        failed |= bool(found)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
