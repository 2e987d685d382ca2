"""The program to run: a function, a script or a test suite, in a copy of the user's tree.

`run` is the target that the process of a run calls. Beside what the program returns it returns
landmarks, by which also a script or a test can be compared that returns nothing: what modules gave
that were called from outside of any module, the losses that `backward` was called on, and the
parameters and gradients that optimizers left behind.
"""

# What runs in the child imports torch, and whatever the user's code needs, when it runs.
# ruff: noqa: PLC0415

from __future__ import annotations

import importlib
import inspect
import os
import random
import runpy
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr
from dataclasses import dataclass, field
from enum import Enum
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from amplint_verify.recording.observation import from_json
from amplint_verify.runs.mirrors import Mirror, guard
from amplint_verify.runs.module_inputs import call_of

if TYPE_CHECKING:
    import torch

    from amplint_verify.recording.snapshot import Returned

SMALL = 1 << 20  # bytes of a landmark that is kept; of a larger one, a hash and a sample
BUDGET = 32 << 20  # bytes of all that are kept
MOST = 2000  # landmarks


class StartKind(Enum):
    """How a program is started."""

    ENTRY = "entry"
    SCRIPT = "script"
    PYTEST = "pytest"
    MODULE = "module"


@dataclass(frozen=True)
class UserProgram:
    """The program that the user names.

    Args:
        kind: how it is started.
        name: "package.module:function", the path of a script below the root, "" for pytest; of a
            module, with the arguments that build it.
        inputs: "package.module:function", whose result the entry is called with: a tuple of
            arguments, a dict of keyword arguments, or one argument.
        given: further keyword arguments of the entry.
        arguments: of the script or of pytest; the inputs of a module.
        roots: directories, relative to the root, from which modules are imported that are nowhere
            else: last, since a file in them may have the name of a library.
        steps: after how many steps of optimizers the program is ended, which counts as its end;
            None for never.
        dtype: what autocast casts to where the program does not say; "" for torch's default.
        under: the mode that a module is called under, or that the tests run again under, a name in
            `MODES`; "" for none.
    """

    kind: StartKind
    name: str = ""
    inputs: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    steps: int | None = None
    dtype: str = ""
    under: str = ""

    def __str__(self) -> str:
        """The program as a command, to show the user before it runs."""
        arguments = shlex.join(self.arguments)
        if self.kind is StartKind.ENTRY:
            return f"{self.name}({'*' + self.inputs + '()' if self.inputs else ''})"
        if self.kind is StartKind.SCRIPT:
            return f"python {self.name} {arguments}".rstrip()
        if self.kind is StartKind.MODULE:
            on = f" on {', '.join(self.arguments)}" if self.arguments else ""
            return f"{self.name}{on}{f' under {self.under}' if self.under else ''}"
        return f"pytest {arguments}".rstrip()


class UnstartedError(Exception):
    """The named program cannot be started: the command line has to change."""


class Enough(BaseException):
    """The program has made as many steps as were asked for."""


def run(program: Mapping[str, Any], of: str, device: str) -> Returned:
    """Run the program in the working directory, which is a mirror.

    Args:
        program: a `UserProgram` as JSON.
        of: the tree that the working directory mirrors, which is guarded.
        device: the back end's, for an entry that takes a `device`.

    Raises UnstartedError if there is no such program, and what the program raises.
    """
    from amplint_verify.recording.snapshot import Returned

    user_program = in_mirror(program, of)
    with ExitStack() as stack:
        stack.enter_context(autocast_dtype(user_program.dtype))
        landmarks = stack.enter_context(landmarks_of(user_program.steps))
        if user_program.kind is StartKind.PYTEST:
            suite = Suite(landmarks)
            return Returned(suite.run(user_program), suite.state)
        result = until_enough(lambda: start(user_program, device))
    return Returned(result, landmarks.all())


def in_mirror(program: Mapping[str, Any], of: str) -> UserProgram:
    """The program, which can import what it needs from then on; arguments as those of `run`."""
    user_program = from_json(UserProgram, program)
    guard(Mirror(Path.cwd(), Path(of)))
    for directory in reversed(import_roots(Path.cwd(), user_program)):
        sys.path.insert(0, str(directory))
    sys.meta_path.append(LastFinder([str(Path.cwd() / each) for each in user_program.roots]))
    return user_program


class LastFinder:
    """Finds modules in directories if nothing else finds them. At the end of `sys.path`, a module
    in one would hide a directory `exceptions/` without `__init__.py`, which Python finds last."""

    def __init__(self, directories: list[str]) -> None:
        self.directories = directories

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, self.directories, target) if path is None else None


def import_roots(root: Path, program: UserProgram) -> list[Path]:
    """The directory that Python would put at the front of sys.path, besides the root."""
    roots = [root / "src"] if (root / "src").is_dir() else []
    if program.kind is StartKind.SCRIPT:
        roots.insert(0, (root / program.name).parent)
    return roots


def start(program: UserProgram, device: str) -> object:
    if program.kind is StartKind.SCRIPT:
        path = str(Path.cwd() / program.name)
        with mock.patch.object(sys, "argv", [path, *program.arguments]):
            runpy.run_path(path, run_name="__main__")
        return None
    if program.kind is StartKind.MODULE:
        from amplint_verify.runs import lone_module

        return lone_module.train(lambda: built(program), program.arguments, program.under, device)
    function = resolve(program.name)
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if program.inputs:
        inputs = resolve(program.inputs)()
        if isinstance(inputs, dict):
            kwargs = inputs
        else:
            args = inputs if isinstance(inputs, tuple) else (inputs,)
    kwargs = {**kwargs, **program.given}
    kwargs |= device_for(function, args, kwargs, device)
    check_call(program, function, args, kwargs)
    return function(*args, **kwargs)


def built(program: UserProgram) -> torch.nn.Module:
    """The module that a program names. Raises UnstartedError, and whatever its class raises."""
    import torch

    name, args, kwargs = call_of(program.name)
    factory = resolve(name)
    check_call(program, factory, tuple(args), kwargs)
    module = factory(*args, **kwargs)
    if not isinstance(module, torch.nn.Module):
        kind = type(module).__name__
        raise UnstartedError(f"{program.name!r} is no module of torch: it returns {kind}")
    return module


def resolve(name: str) -> Callable[..., Any]:
    """The function that "package.module:function" names.

    Raises UnstartedError, and whatever the module raises.
    """
    module, _, attribute = name.partition(":")
    try:
        target: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if f"{module}.".startswith(f"{error.name}."):  # and not one that it imports
            raise UnstartedError(f"there is no module {error.name!r} for {name!r}") from error
        raise
    try:
        for part in attribute.split("."):
            target = getattr(target, part)
    except AttributeError as error:
        raise UnstartedError(f"there is no {name!r}: {error}") from error
    if not callable(target):
        raise UnstartedError(f"{name!r} cannot be called: it is {type(target).__name__}")
    function: Callable[..., Any] = target
    return function


def check_call(
    program: UserProgram,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    """Raises UnstartedError for arguments that the function does not take."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have none
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        lacks_inputs = program.kind is StartKind.ENTRY and not program.inputs
        hint = "; --inputs can say what to call it with" if lacks_inputs else ""
        raise UnstartedError(f"{program} cannot be called: {error}{hint}") from error


def device_for(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], device: str
) -> dict[str, str]:
    """The argument `device`, of a function that cannot do without."""
    try:
        parameters = inspect.signature(function).parameters
        bound = inspect.signature(function).bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return {}
    takes = parameters.get("device")
    needed = takes is not None and takes.default is inspect.Parameter.empty
    return {"device": device} if needed and "device" not in bound else {}


def until_enough(work: Callable[[], object]) -> object:
    """The result, None if it was stopped, or exited saying that all is well."""
    try:
        return work()
    except Enough:
        return None
    except SystemExit as error:
        if error.code in (None, 0):
            return None
        raise RuntimeError(f"the program exited with {error.code!r}") from error


@contextmanager
def autocast_dtype(name: str) -> Iterator[None]:
    """The dtype of regions that name none."""
    import torch

    devices = ("cpu", "cuda") if name else ()
    before = [torch.get_autocast_dtype(device) for device in devices]
    for device in devices:
        torch.set_autocast_dtype(device, getattr(torch, name))
    try:
        yield
    finally:
        for device, dtype in zip(devices, before, strict=True):
            torch.set_autocast_dtype(device, dtype)


# ------------------------------------------------------------------------------------- landmarks


@dataclass
class Landmarks:
    """The values that a program passed on its way.

    Args:
        steps: how many steps of optimizers it may make.
        passed: outputs of modules, losses, by name; in order.
        counts: how many of each kind have passed.
        optimizers: those that made a step, in the order of their first.
        modules: those with parameters that were called from outside of any module.
        step_count: how many steps there were.
        byte_count: bytes of the tensors in `passed`.
        depth: how many calls of modules are under way.
    """

    steps: int | None
    passed: dict[str, object] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    optimizers: list[Any] = field(default_factory=list)
    modules: list[torch.nn.Module] = field(default_factory=list)
    step_count: int = 0
    byte_count: int = 0
    depth: int = 0

    def all(self) -> dict[str, object]:
        """The values passed so far, and the state of the optimizers; both begin anew."""
        from amplint_verify.recording.snapshot import NamedValues

        values = NamedValues({**self.passed, **dict(self.state())})
        self.passed, self.counts, self.optimizers, self.modules = {}, Counter(), [], []
        self.byte_count = self.step_count = 0
        return values

    def state(self) -> Iterator[tuple[str, object]]:
        """Parameters and gradients of the optimizers, and what they keep for each parameter."""
        names = self.names()
        for number, optimizer in enumerate(self.optimizers, 1):
            own = "optimizer" if len(self.optimizers) == 1 else f"optimizer {number}"
            for at, group in enumerate(optimizer.param_groups):
                for index, each in enumerate(group["params"]):
                    name = names.get(id(each), f"{own}.param_groups[{at}]['params'][{index}]")
                    yield name, self.keep(each)
                    yield f"{name}.grad", self.keep(each.grad)
                    for key, value in optimizer.state.get(each, {}).items():
                        yield f"{own}.state[{key!r}] of {name}", self.keep(value)

    def names(self) -> dict[int, str]:
        """The names of parameters by identity, such as "Net.fc.weight"."""
        by_id: dict[int, str] = {}
        classes: Counter[str] = Counter()
        for module in self.modules:
            kind = type(module).__name__
            classes[kind] += 1
            own = kind if classes[kind] == 1 else f"{kind} {classes[kind]}"
            for name, parameter in module.named_parameters():
                by_id.setdefault(id(parameter), f"{own}.{name}")
        return by_id

    def keep(self, value: object) -> object:
        """A value as it is now: tensors are copied, large ones hashed and sampled."""
        import torch

        if isinstance(value, torch.Tensor):
            with unseen():
                return self.keep_tensor(value)
        if isinstance(value, Mapping):
            return {str(key): self.keep(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.keep(item) for item in value]
        if isinstance(value, (bool, int, float, str, type(None))):
            return value
        return type(value).__name__

    def keep_tensor(self, tensor: torch.Tensor) -> object:
        from amplint_verify.recording import snapshot

        size = tensor.numel() * tensor.element_size()
        if size <= SMALL and self.byte_count + size <= BUDGET:
            self.byte_count += size
            return tensor.detach().clone()
        return snapshot.tensor(tensor.detach(), most=0)

    def note(self, name: str, value: object) -> None:
        """Keep a value under a name in which `{}` stands for how many of its kind there were."""
        if len(self.passed) < MOST:
            self.counts[name] += 1
            self.passed[name.format(self.counts[name])] = self.keep(value)

    def called(self, module: torch.nn.Module, output: object) -> None:
        """Note what a module returned that was called from outside of any module."""
        self.note(f"output {{}} of {type(module).__name__}", output)
        is_listed = any(module is each for each in self.modules)
        if not is_listed and next(module.parameters(), None) is not None:
            self.modules.append(module)


@contextmanager
def unseen() -> Iterator[None]:
    """Work of the harness and not of the program: no mode sees it."""
    import torch
    from torch.utils import _python_dispatch

    with torch._C.DisableTorchFunction(), _python_dispatch._disable_current_modes():
        yield


@contextmanager
def landmarks_of(steps: int | None) -> Iterator[Landmarks]:
    """Note landmarks as long as this is open; raise `Enough` after `steps` steps."""
    import torch
    from torch.nn.modules import module
    from torch.optim.optimizer import register_optimizer_step_post_hook

    landmarks = Landmarks(steps)

    def enter(_: torch.nn.Module, __: object) -> None:
        landmarks.depth += 1

    def leave(called: torch.nn.Module, _: object, output: object) -> None:
        landmarks.depth -= 1
        if landmarks.depth == 0:
            landmarks.called(called, output)

    def stepped(optimizer: Any, _: object, __: object) -> None:
        if not any(optimizer is each for each in landmarks.optimizers):
            landmarks.optimizers.append(optimizer)
        landmarks.step_count += 1
        if landmarks.step_count == landmarks.steps:
            raise Enough

    backward = torch.autograd.backward

    def noted_backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        landmarks.note("loss {} of backward()", tensors)
        backward(tensors, *args, **kwargs)

    handles = [
        module.register_module_forward_pre_hook(enter),
        module.register_module_forward_hook(leave, always_call=True),
        register_optimizer_step_post_hook(stepped),
    ]
    with mock.patch.object(torch.autograd, "backward", noted_backward):
        try:
            yield landmarks
        finally:
            for handle in handles:
                handle.remove()


# ------------------------------------------------------------------------------------- pytest


class Suite:
    """A plugin of pytest that seeds every test, and writes down how it ended and what it passed.

    Args:
        landmarks: noted by the code that opened them.
        others: further plugins.
    """

    def __init__(self, landmarks: Landmarks, *others: object) -> None:
        from amplint_verify.recording.snapshot import NamedValues

        self.others = others
        self.landmarks = landmarks
        self.outcomes: dict[str, str] = {}
        self.uncollected: list[str] = []
        self.state: dict[str, object] = NamedValues()

    def run(self, program: UserProgram) -> dict[str, object]:
        """Run pytest: the outcome of each test.

        Without its cache, which would be written; without the plugins that shuffle tests or hand
        them to other processes.

        Raises UnstartedError if its arguments name no tests, RuntimeError if it could not run them.
        """
        try:
            import pytest
        except ModuleNotFoundError as error:
            raise UnstartedError("--pytest needs pytest, which is not installed here") from error

        root = os.fspath(Path.cwd())
        quiet = ["-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:faulthandler"]
        one = ["-n0"] if importlib.util.find_spec("xdist") else []
        arguments = [*quiet, *one, f"--rootdir={root}", *program.arguments]
        with tempfile.TemporaryFile("w+") as errors, redirect_stderr(errors):
            status = pytest.main(arguments, plugins=[self, *self.others])
            errors.seek(0)
            message = " ".join(errors.read().split()).removeprefix("ERROR: ")
        if status == pytest.ExitCode.USAGE_ERROR:
            raise UnstartedError(f"pytest rejects {shlex.join(program.arguments)}: {message}")
        if status == pytest.ExitCode.NO_TESTS_COLLECTED:
            raise UnstartedError(f"{program} finds no tests")
        if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            reason = "; ".join(self.uncollected) or f"pytest ended with {pytest.ExitCode(status)!r}"
            raise RuntimeError(reason)
        return {"tests": self.outcomes}

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            last = str(report.longrepr).strip().rpartition("\n")[2].removeprefix("E").strip()
            self.uncollected.append(f"{report.nodeid} cannot be collected: {last}")

    def pytest_runtest_logstart(self, nodeid: str, location: object) -> None:  # noqa: ARG002
        self.outcomes[nodeid] = "passed"
        self.landmarks.all()
        seed(0)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.outcome != "passed":
            crash = getattr(report.longrepr, "reprcrash", None)
            message = crash.message.partition("\n")[0] if crash else ""
            self.outcomes[report.nodeid] = f"{report.outcome} in {report.when} {message}".rstrip()

    def pytest_runtest_logfinish(self, nodeid: str, location: object) -> None:  # noqa: ARG002
        self.state[nodeid] = self.landmarks.all()


def seed(number: int) -> None:
    """Seed all generators that there are."""
    import torch

    random.seed(number)
    torch.manual_seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number)
