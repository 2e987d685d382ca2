"""Measurements of a program, in the process that runs it: exact counts, and durations in pairs.

Durations are those of the program's own operations: nothing is recorded while a clock runs. Both
versions are loaded into one process, which saves the comparison from all that differs from process
to process; each has its modules to itself.
"""

# What runs in the child imports torch, and whatever the user's code needs, when it runs.
# ruff: noqa: PLC0415

from __future__ import annotations

import gc
import json
import os
import random
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from amplint.util.paths import lies_in
from amplint_verify.recording.observation import from_json
from amplint_verify.runs import drivers
from amplint_verify.runs.drivers import Enough, UserProgram
from amplint_verify.runs.mirrors import Mirror, guard

WARM_UPS = 5
PRECISIONS: Mapping[str, Any] = {
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}


# ------------------------------------------------------------------------------- settings


@dataclass
class RegionCount:
    """How many regions of autocast were on: on a machine without a GPU, none that are for one."""

    on: int = 0


@contextmanager
def forced(precision: str) -> Iterator[RegionCount]:
    """Have every region that is on cast to this, whatever it says; "fp32": have none on; any other
    name: leave them as they are."""
    enter = torch.autocast.__init__
    regions, dtype = RegionCount(), PRECISIONS.get(precision)

    def begin(
        self: Any,
        device_type: str,
        dtype_: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
        **options: Any,
    ) -> None:
        own_dtype = options.get("dtype", dtype_)
        enter(
            self,
            device_type,
            dtype=dtype if dtype is not None and enabled else own_dtype,
            enabled=enabled and precision != "fp32",
            cache_enabled=cache_enabled,
        )
        regions.on += bool(getattr(self, "_enabled", enabled))

    with mock.patch.object(torch.autocast, "__init__", begin):
        yield regions


class StepCount:
    """Counts the steps of a program: calls of a GradScaler's `step`, and of optimizers outside one.

    A scaler may leave out the optimizer's step, when it met an overflow; the work was done.

    Args:
        most: how many to make, before `Enough` is raised; None for any number.
    """

    def __init__(self, most: int | None) -> None:
        self.most = most
        self.count = 0
        self.scaling = False

    @contextmanager
    def counted(self) -> Iterator[None]:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        scaled = torch.amp.GradScaler.step

        def step(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            self.scaling = True
            try:
                result = scaled(scaler, *args, **kwargs)
            finally:
                self.scaling = False
            self.one()
            return result

        def stepped(*_: object) -> None:
            if not self.scaling:
                self.one()

        handle: Any = register_optimizer_step_post_hook(stepped)
        with mock.patch.object(torch.amp.GradScaler, "step", step):
            try:
                yield
            finally:
                handle.remove()

    def one(self) -> None:
        self.count += 1
        if self.count == self.most:
            raise Enough


class Live(TorchDispatchMode):
    """Counts the bytes that tensors hold, each storage once, and remembers the most.

    What a kernel needs for itself is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.storages: set[int] = set()
        self.bytes = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
                self.hold(leaf.untyped_storage())
        return result

    def hold(self, storage: Any) -> None:
        key = storage._cdata
        if key not in self.storages:
            size = storage.nbytes()
            self.storages.add(key)
            self.bytes += size
            self.peak = max(self.peak, self.bytes)
            weakref.finalize(storage, self.release, key, size).atexit = False

    def release(self, key: int, size: int) -> None:
        self.storages.discard(key)
        self.bytes -= size


# ------------------------------------------------------------------------------- counts


def count(program: Mapping[str, Any], of: str, device: str, precision: str) -> str:
    """Run a program once, for what the recorder counts, and a few numbers more as JSON.

    Args:
        program: a `UserProgram` as JSON.
        of: the tree that the working directory mirrors.
        device: the back end's.
        precision: as in `bench.Point`.
    """
    steps, live = StepCount(from_json(UserProgram, program).steps), Live()
    with forced(precision) as regions, steps.counted(), live:
        drivers.run({**program, "steps": None}, of, device)
    return json.dumps({"steps": steps.count, "peak": live.peak, "regions": regions.on})


def takes(program: Mapping[str, Any], of: str, name: str) -> str:
    """Whether the entry of a program has a parameter of that name, as JSON."""
    import inspect

    user_program = from_json(UserProgram, program)
    guard(Mirror(Path.cwd(), Path(of)))
    with Version(Path.cwd(), user_program).entered():
        parameters = inspect.signature(drivers.resolve(user_program.name)).parameters
    return json.dumps(name in parameters)


# ------------------------------------------------------------------------------- durations


class Version:
    """A program in a tree, whose modules nobody else sees.

    Args:
        tree: where it is.
        program: what it is.
    """

    def __init__(self, tree: Path, program: UserProgram) -> None:
        self.tree = tree
        self.program = program
        self.modules: dict[str, ModuleType] = {}

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Python finds the modules of this tree."""
        before, module_names = list(sys.path), set(sys.modules)
        roots = [*drivers.import_roots(self.tree, self.program), self.tree]
        loose = [self.tree / each for each in self.program.roots]
        os.chdir(self.tree)
        sys.path[:] = [*map(str, roots), *before, *map(str, loose)]
        sys.modules.update(self.modules)
        try:
            yield
        finally:
            sys.path[:] = before
            self.modules = {
                name: module
                for name, module in sys.modules.items()
                if name not in module_names
                and any(lies_in(place, str(self.tree)) for place in places(module))
            }
            for name in self.modules:
                del sys.modules[name]


def places(module: ModuleType) -> Iterator[str]:
    """The files and directories that a module was made from."""
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        yield os.path.realpath(file)
    for directory in getattr(module, "__path__", ()):
        yield os.path.realpath(directory)


def durations(
    program: Mapping[str, Any],
    trees: Sequence[str],
    of: str,
    device: str,
    precision: str,
    pairs: int,
    seconds: float,
) -> str:
    """Measure two versions of a program, and the first against itself, in turns: JSON.

    Pairs are interleaved, and the order within and among them is random, so that nothing that
    changes with time falls on one version.

    Args:
        program: a `UserProgram` as JSON.
        trees: two directories: before and after.
        of: the tree that both mirror.
        device: the back end's.
        precision: as in `bench.Point`.
        pairs: how many are wanted.
        seconds: after how long no more are begun.
    """
    user_program = from_json(UserProgram, program)
    before, after = (Path(os.path.realpath(tree)) for tree in trees)
    sys.path[:] = [path for path in sys.path if not lies_in(os.path.realpath(path), str(before))]
    guard(Mirror(before.parent, Path(of)))
    first, again, second = (Version(tree, user_program) for tree in (before, before, after))
    series: dict[str, list[tuple[float, float]]] = {"measured": [], "control": []}
    chance = random.Random(0)
    deadline = time.monotonic() + seconds
    with forced(precision) as regions:
        for version in (first, again, second):
            for _ in range(WARM_UPS):
                duration(version, device)
        gc.freeze()  # what is there by now is not looked through again before each run
        while len(series["control"]) < pairs and time.monotonic() < deadline:
            for name, other in shuffled([("measured", second), ("control", again)], chance):
                times = {each: duration(each, device) for each in shuffled([first, other], chance)}
                series[name].append((times[first], times[other]))
        memory = [peak(version, device) for version in (first, second)]
    return json.dumps({**series, "peak": None if None in memory else memory, "regions": regions.on})


def shuffled(values: Sequence[Any], chance: random.Random) -> list[Any]:
    return chance.sample(values, len(values))


def duration(version: Version, device: str) -> float:
    """Seconds of wall time that a program takes, all the work of the device included."""
    fence = torch.cuda.synchronize if torch.cuda.is_available() else partial(int)
    with ExitStack() as stack:
        work = ready(version, device, stack)
        fence()
        start = time.perf_counter()
        work()
        fence()
        return time.perf_counter() - start


def ready(version: Version, device: str, stack: ExitStack) -> Callable[[], object]:
    """A version that waits to be run: seeded, nothing left over from the last."""
    drivers.seed(0)
    stack.enter_context(version.entered())
    stack.enter_context(StepCount(version.program.steps).counted())
    gc.collect()
    return partial(drivers.until_enough, partial(drivers.start, version.program, device))


def peak(version: Version, device: str) -> int | None:
    """The most bytes of the GPU that a program holds beyond those at its start; None without."""
    if not torch.cuda.is_available():
        return None
    with ExitStack() as stack:
        work = ready(version, device, stack)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        start = torch.cuda.memory_allocated()
        work()
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated() - start)
