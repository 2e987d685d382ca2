"""Processes that are killed (SIGKILL) while they fix files and while they write the cache.

A kill comes anywhere in a run of `fix --apply`, while it prepares the new files, while it moves one
into its place, or while entries of the cache are written. (Some come a little late; the figures
count those that did not.) After each, every file must be the old one or the new one; the next run
(`check`, `fix --apply` or `clean`, in turn) must leave no temporary file; and what `check` then
finds with the cache must be what it finds without.

The process that is killed is a fork of one that has imported amplint, so that kills meet amplint at
its work and not Python at its imports.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amplint.cli.main import main
from amplint.rule import registry
from amplint.run import cache as caching
from amplint.util.replacing import is_left

SEED = 29
KILLS = 500
FIX = ("fix", "--apply", "--quiet")
CHECK = ("check", "--format", "json", "--quiet")
NEXT = (CHECK, FIX, ("clean",))
# Where the kills come, and in the calls of which function that is.
ANYWHERE = "anywhere in a fix"
FILES = "while files are written"
MOVES = "while a file is moved into its place"
CACHE = "while the cache is written"
PLACES = {
    ANYWHERE: None,
    FILES: ("amplint.fix.project_fixes", "write_texts"),
    MOVES: ("amplint.util.replacing", "Replacement.move"),
    CACHE: ("amplint.run.cache", "Cache.write"),
}
MIXED = "some files written and some not"
LEFT = "a temporary file left, for the next run"
BEGUN, ENDED = b"(", b")"
COUNT = 12  # files of the project
# Together they are long enough for the cache to keep indexes and values.
PROSE = "    It was written for the autocast of torch 1.6, and is to have that of torch 2.\n" * 60
MODULE = f'''\
import torch


def step_NUMBER(model, x):
    """Make a step.

{PROSE}    """
    scaler = torch.cuda.amp.GradScaler()
    with torch.cuda.amp.autocast():
        return scaler.scale(model(x).sum())
'''


@dataclass(frozen=True)
class Trial:
    """A kill: where it comes, how long it waits there, and what is run next.

    Args:
        place: one of PLACES.
        call: in which call of that place's function, as a share of all.
        wait: after which share of the time that this usually takes.
        warm: whether the cache knows most of the files before.
        then: the arguments of the next run.
    """

    place: str
    call: float
    wait: float
    warm: bool
    then: tuple[str, ...]


@dataclass
class Project:
    """A project that is made anew for each trial, as it is before and after its fixes."""

    directory: Path
    old: dict[str, bytes] = field(default_factory=dict)
    new: dict[str, bytes] = field(default_factory=dict)
    warm: Path = field(init=False)
    found: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.warm = self.directory.with_name(f"{self.directory.name}-cache")
        modules = [MODULE.replace("NUMBER", f"{number}") for number in range(COUNT)]
        self.old = {f"m{number}.py": text.encode() for number, text in enumerate(modules)}
        self.make(False)
        (self.directory / "m0.py").write_bytes(b"x = 1\n")
        run(self.directory, CHECK)
        (self.directory / caching.NAME).rename(self.warm)
        self.make(False)
        run(self.directory, FIX)
        self.new = self.texts()
        assert all(self.new[path] != self.old[path] for path in self.old)

    def make(self, warm: bool) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        (self.directory / "pyproject.toml").touch()
        for path, text in self.old.items():
            (self.directory / path).write_bytes(text)
        if warm:
            shutil.copytree(self.warm, self.directory / caching.NAME)

    def texts(self) -> dict[str, bytes]:
        return {path: (self.directory / path).read_bytes() for path in self.old}

    def without_cache(self) -> bytes:
        """The findings of these texts, which are found once."""
        key = hashlib.sha256(repr(self.texts()).encode()).hexdigest()
        if key not in self.found:
            self.found[key] = run(self.directory, (*CHECK, "--no-cache"))
        return self.found[key]

    def left(self) -> list[str]:
        return sorted(
            path.relative_to(self.directory).as_posix()
            for path in self.directory.rglob("*")
            if is_left(path.name)
            or (path.parent == self.directory and path.name not in {*self.old, *OTHERS})
        )


OTHERS = ("pyproject.toml", caching.NAME)


# ------------------------------------------------------------------------------ processes


def run(directory: Path, arguments: Sequence[str]) -> bytes:
    """The standard output of a run, in a process of its own."""
    with tempfile.TemporaryFile() as output:
        process = start(directory, arguments, output.fileno())
        os.waitpid(process, 0)
        output.seek(0)
        return output.read()


def start(
    directory: Path, arguments: Sequence[str], output: int, before: Callable[[], None] | None = None
) -> int:
    """The id of a process that runs amplint."""
    process = os.fork()
    if process:
        return process
    try:
        os.chdir(directory)
        os.dup2(output, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        if before is not None:
            before()
        os._exit(main(list(arguments)))
    finally:
        os._exit(3)


@dataclass
class Watched:
    """A process that tells when the calls of a place's function begin, and when they end. It waits
    at the beginning of each until it may go on."""

    process: int
    telling: int
    allowing: int
    calls: bytes = b""

    def next(self) -> bytes:
        """The next that it tells; nothing at its end."""
        said = os.read(self.telling, 1)
        self.calls += said
        return said

    def go_on(self) -> None:
        with suppress(BrokenPipeError):
            os.write(self.allowing, BEGUN)

    @property
    def begun(self) -> int:
        return self.calls.count(BEGUN)

    @property
    def is_inside(self) -> bool:
        return self.begun > self.calls.count(ENDED)


@contextmanager
def watched(project: Project, place: str) -> Iterator[Watched]:
    """A process of a place, at its beginning."""
    telling, tells = os.pipe()
    is_allowed, allowing = os.pipe()

    def before() -> None:
        os.close(telling)
        os.close(allowing)
        wrap(PLACES[place], tells, is_allowed)

    nothing = os.open(os.devnull, os.O_WRONLY)
    process = start(project.directory, CHECK if place == CACHE else FIX, nothing, before)
    for each in (nothing, tells, is_allowed):
        os.close(each)
    try:
        yield Watched(process, telling, allowing)
    finally:
        os.close(telling)
        os.close(allowing)


def wrap(place: tuple[str, str] | None, tells: int, is_allowed: int) -> None:
    """Have a function tell of its calls; without one, this is the only call."""

    def begin() -> None:
        os.write(tells, BEGUN)
        os.read(is_allowed, 1)

    if place is None:
        begin()
        return
    owner: Any = importlib.import_module(place[0])
    *parents, name = place[1].split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    original = getattr(owner, name)

    def telling(*arguments: Any, **named: Any) -> Any:
        begin()
        try:
            return original(*arguments, **named)
        finally:
            os.write(tells, ENDED)

    setattr(owner, name, telling)


def usual_times(project: Project, place: str, warm: bool) -> list[float]:
    """The time that each call takes."""
    project.make(warm)
    times: list[float] = []
    with watched(project, place) as process:
        begun = time.perf_counter()
        while said := process.next():
            if said == BEGUN:
                begun = time.perf_counter()
                process.go_on()
            else:
                times.append(time.perf_counter() - begun)
        os.waitpid(process.process, 0)
    return times or [time.perf_counter() - begun]


def kill(project: Project, trial: Trial, usual: Sequence[float]) -> tuple[bool, bool]:
    """Whether the process was killed before its end, and whether inside of a call."""
    call = int(trial.call * len(usual))
    with watched(project, trial.place) as process:
        while process.next():
            if process.calls.endswith(BEGUN) and process.begun > call:
                break
            if process.calls.endswith(BEGUN):
                process.go_on()
        until = time.perf_counter() + trial.wait * usual[call]
        process.go_on()
        while (left := until - time.perf_counter()) > 0:
            time.sleep(left if left > 0.005 else 0)
        os.kill(process.process, signal.SIGKILL)
        _, status = os.waitpid(process.process, 0)
        while process.next():
            pass
        return os.WIFSIGNALED(status), process.is_inside


# ------------------------------------------------------------------------------ trials


def tried(project: Project, trial: Trial, usual: Sequence[float], counts: Counter[str]) -> str:
    """The mistake after a kill and the next run; "" if all is well."""
    project.make(trial.warm)
    killed, inside = kill(project, trial, usual)
    counts["kills"] += killed
    counts[trial.place] += killed and inside
    texts = project.texts()
    new = sum(text == project.new[path] for path, text in texts.items())
    counts[MIXED] += 0 < new < len(texts)
    counts[LEFT] += bool(project.left())
    for path, text in texts.items():
        if text not in (project.old[path], project.new[path]):
            return f"{path} is neither the old nor the new one"
    run(project.directory, trial.then)
    if left := project.left():
        return f"{left} left after {trial.then[0]}"
    if trial.then == FIX and project.texts() != project.new:
        return "the next fix did not do the rest"
    if trial.then != FIX and project.texts() != texts:
        return f"{trial.then[0]} changed a file"
    if run(project.directory, CHECK) != project.without_cache():
        return "the findings with the cache are others"
    return ""


def trials(chance: random.Random) -> Iterator[Trial]:
    for number in itertools.count():
        yield Trial(
            place=list(PLACES)[number % len(PLACES)],
            call=chance.random(),
            wait=chance.random(),
            warm=chance.random() < 0.5,
            then=NEXT[number // len(PLACES) % len(NEXT)],
        )


def measured(kills: int) -> dict[str, object]:
    """The figures of so many kills."""
    registry.all_rules()
    for module in ("amplint.run.session", "amplint.fix.project_fixes"):
        importlib.import_module(module)
    begun = time.perf_counter()
    counts: Counter[str] = Counter(dict.fromkeys(("kills", *PLACES, MIXED, LEFT), 0))
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="amplint-") as directory:
        project = Project(Path(directory, "project"))
        states = itertools.product(PLACES, (False, True))
        usual = {(place, warm): usual_times(project, place, warm) for place, warm in states}
        for trial in trials(random.Random(SEED)):
            wrong = tried(project, trial, usual[trial.place, trial.warm], counts)
            if wrong:
                failures.append(f"{trial}: {wrong}")
            if counts["kills"] >= kills:
                break
    seconds = round(time.perf_counter() - begun)
    return {**counts, "wrong": len(failures), "seconds": seconds, "failures": failures}


def measure(cache: Path) -> dict[str, object]:  # noqa: ARG001  (needs no packages)
    return measured(KILLS)
