"""Run the calls that tests make of a project as callers run them that train in half.

The outermost call of each module, and of each public function and method, runs under the mode; the
test around it does not, as a caller's own code does not. A first run, without the mode, writes down
what a call returns, so that the same call of the second run can return the same dtypes.
"""

from __future__ import annotations

import inspect
import pickle
import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import torch
from torch.nn.utils import stateless
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from amplint.knowledge.vocabulary import TRAINS
from amplint.project.modes import Mode
from amplint_verify.backends import policy
from amplint_verify.observing.live import LivePlaces, LiveWatcher, rebind
from amplint_verify.recording.half_range import HALF
from amplint_verify.runs.drivers import unseen

# Tests that call one of these run as they are: it compares with finite differences, or makes a
# program of the functions that it is given.
GRADCHECK = "gradcheck"
AS_THEY_ARE: tuple[tuple[Any, str, str], ...] = (
    (torch.autograd, "gradcheck", GRADCHECK),
    (torch.autograd, "gradgradcheck", GRADCHECK),
    (torch.jit, "script", "jit"),
    (torch.jit, "trace", "jit"),
    (torch, "compile", "compile"),
    (torch.export, "export", "export"),
    (torch.onnx, "export", "export"),
)
FOLDERS_OF_TESTS = frozenset({"test", "testing", "tests"})


class CallRecord(NamedTuple):
    """The record of one outermost call.

    Args:
        name: of the function.
        dtypes: of the leaves of what it returned; None of what is no tensor.
        is_finite: whether all of these are finite.
    """

    name: str
    dtypes: tuple[torch.dtype | None, ...]
    is_finite: bool


class ProjectCalls:
    """The outermost calls of one test at a time.

    Args:
        root: of the project.
        mode: of the second runs.
        parameters: of the tests, which may be functions of the project.
        watcher: of the tests, which looks at the digits of the second runs.

    Attributes:
        records: of the calls until now.
        reason: why the test is to run as it is; "" if nothing says so.
        remarks: on what calls have returned.
    """

    def __init__(
        self,
        root: Path,
        mode: Mode,
        parameters: Sequence[dict[str, Any]],
        watcher: LiveWatcher,
    ) -> None:
        self._watcher = watcher
        self._places = LivePlaces(root)
        self._mode = mode
        self._dtype: torch.dtype = getattr(torch, mode.dtype)
        self._inside = threading.local()
        self._is_project: dict[type, bool] = {}
        self._replaced = ExitStack()
        self._is_installed = False
        self._wrappers: dict[FunctionType, Any] = {}
        self._parameters = parameters
        self.begin(None)

    def begin(self, expected: Sequence[CallRecord] | None) -> None:
        """A test begins, under the mode if the records of its first run are at hand."""
        self._expected = expected
        self.records: list[CallRecord] = []
        self.remarks: dict[str, None] = {}
        self.reason = ""

    # --------------------------------------------------------------------------- one call

    def outermost(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result of a call, which runs under the mode if it is an outermost one."""
        if getattr(self._inside, "call", False):
            return function(*args, **kwargs)
        self._inside.call = True
        try:
            leaves = tree_leaves((args, kwargs))
            if any(isinstance(each, torch.Tensor) and is_double(each) for each in leaves):
                self.reason = self.reason or "float64"
            if self._expected is None or self.reason or is_optimizer(args):
                result = function(*args, **kwargs)
                with unseen():
                    self.records.append(record_of(name, result))
                return result
            with self._watcher.comparing(), self._under(args) as cast:
                result = function(*cast(args), **cast(kwargs))
            with unseen():
                return self._returned(name, result)
        finally:
            self._inside.call = False

    @contextmanager
    def _under(self, args: Any) -> Iterator[Callable[[Any], Any]]:
        """The mode, and what to do with the arguments."""
        if self._mode.is_region:
            with policy.region(self._dtype):
                yield lambda nest: nest
            return
        module = args[0] if args and isinstance(args[0], torch.nn.Module) else None
        with cast_module(module, self._dtype):
            yield lambda nest: tree_map(lambda leaf: narrow(leaf, self._dtype), nest)

    def _returned(self, name: str, result: Any) -> Any:
        """The result for the test, with the dtypes that it has without the mode."""
        assert self._expected is not None
        record = record_of(name, result)
        at = len(self.records)
        self.records.append(record)
        same = self._expected[at] if at < len(self._expected) else None
        if same is None or same.name != name or len(same.dtypes) != len(record.dtypes):
            same = record._replace(dtypes=tuple(torch.float32 for _ in record.dtypes))
        elif same.is_finite and not record.is_finite:
            self.remarks[f"`{name}` returns NaN or infinity"] = None
        leaves, spec = tree_flatten(result)
        wide = [*map(widened, leaves, same.dtypes)]
        changed = any(new is not old for new, old in zip(wide, leaves, strict=True))
        return tree_unflatten(wide, spec) if changed else result

    # --------------------------------------------------------------------------- replacing

    def install(self) -> None:
        """Have the calls of the project pass through here."""
        if self._is_installed:
            return
        self._is_installed = True
        old, new = [], []
        for owner, name, function in self._public():
            plain = unbound(function)
            wrapper = self._wrappers.setdefault(plain, self._passing(plain))
            if isinstance(owner, type):
                setattr(owner, name, wrapper if plain is function else type(function)(wrapper))
                self._replaced.callback(setattr, owner, name, function)
            else:
                old.append(function)
                new.append(wrapper)
        self._rebind(old, new)
        self._replaced.callback(self._rebind, new, old)
        call = torch.nn.Module.__call__
        torch.nn.Module.__call__ = self._passing_module(call)  # type: ignore[method-assign]
        self._replaced.callback(setattr, torch.nn.Module, "__call__", call)

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """Have tests that call one of `AS_THEY_ARE` run as they are."""
        old = [getattr(owner, name) for owner, name, _ in AS_THEY_ARE]
        new = [self._leaving(each, row[2]) for each, row in zip(old, AS_THEY_ARE, strict=True)]
        rebind(old, new)
        try:
            yield
        finally:
            self.uninstall()
            rebind(new, old)

    def uninstall(self) -> None:
        self._replaced.close()
        self._is_installed = False

    def _rebind(self, old: Sequence[Any], new: Sequence[Any]) -> None:
        rebind(old, new)
        by_id = {id(one): other for one, other in zip(old, new, strict=True)}
        for parameters in self._parameters:
            parameters.update({n: by_id[id(v)] for n, v in parameters.items() if id(v) in by_id})

    def _public(self) -> Iterator[tuple[Any, str, Any]]:
        """The public functions of the project, and the public methods of its public classes."""
        for module in list(sys.modules.values()):
            if not isinstance(module, ModuleType) or not self._is_source(vars(module)):
                continue
            for name, value in list(vars(module).items()):
                if name.startswith("_") or getattr(value, "__module__", "") != module.__name__:
                    continue
                if is_plain(value):
                    yield module, name, value
                elif isinstance(value, type):
                    yield from methods_of(value)

    def _is_source(self, names: dict[str, Any]) -> bool:
        """Whether a module with these names is of the project, and holds no tests."""
        file = names.get("__file__")
        return isinstance(file, str) and self.source_of(file) is not None

    def source_of(self, file: str) -> str | None:
        """The path of a file of the project that holds no tests; None of others."""
        path = self._places.path_of(file)
        return None if path is None or is_test(path) else path

    def _passing(self, function: FunctionType) -> Any:
        name = f"{function.__module__}.{function.__qualname__}"

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            return self.outermost(name, function, args, kwargs)

        return call

    def _passing_module(self, function: Callable[..., Any]) -> Any:
        @wraps(function)
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            kind = type(module)
            if kind not in self._is_project:
                names = vars(sys.modules.get(kind.__module__, sys))
                self._is_project[kind] = self._is_source(names)
            if not self._is_project[kind]:
                return function(module, *args, **kwargs)
            name = f"{kind.__module__}.{kind.__qualname__}"
            return self.outermost(name, function, (module, *args), kwargs)

        return call

    def _leaving(self, function: Any, reason: str) -> Any:
        """A function after whose call a test runs as it is."""

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.reason = self.reason or reason
            if reason == GRADCHECK:
                return function(*args, **kwargs)
            self.uninstall()  # it reads the functions; the test may hold what stood for them
            originals = {id(wrapper): each for each, wrapper in self._wrappers.items()}
            return function(*(originals.get(id(each), each) for each in args), **kwargs)

        return call


def is_double(tensor: torch.Tensor) -> bool:
    return tensor.dtype in (torch.float64, torch.complex128)


def is_optimizer(args: Sequence[Any]) -> bool:
    """Whether a call is of a method of an optimizer, which callers step outside of a region."""
    return bool(args) and isinstance(args[0], torch.optim.Optimizer)


def is_plain(value: object) -> bool:
    """Whether a function trains nothing, and its body has run when its call returns."""
    late = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    if not isinstance(value, FunctionType) or any(is_late(value) for is_late in late):
        return False
    return TRAINS.isdisjoint(value.__code__.co_names)  # what trains opens its own regions


def methods_of(kind: type) -> Iterator[tuple[type, str, Any]]:
    """The public methods that a class defines, static and class methods among them. A module's
    `forward` runs in its call, and those of a custom Function run in `apply` and in backward."""
    inherits = vars(torch.nn.Module) if issubclass(kind, torch.nn.Module) else {}
    for name, value in list(vars(kind).items()):
        is_public = not name.startswith("_") and name not in {*inherits, "forward"}
        if is_public and is_plain(unbound(value)) and not issubclass(kind, torch.autograd.Function):
            yield kind, name, value


def unbound(value: Any) -> Any:
    """The function in a static method or a class method; all else as it is."""
    return value.__func__ if isinstance(value, staticmethod | classmethod) else value


def is_test(path: str) -> bool:
    """Whether a file holds tests, or what they share."""
    *folders, name = path.split("/")
    stem = name.removesuffix(".py")
    named = stem == "conftest" or stem.startswith("test_") or stem.endswith("_test")
    return named or not FOLDERS_OF_TESTS.isdisjoint(folders)


def record_of(name: str, result: Any) -> CallRecord:
    leaves = tree_leaves(result)
    dtypes = tuple(each.dtype if isinstance(each, torch.Tensor) else None for each in leaves)
    return CallRecord(name, dtypes, all(map(is_finite, leaves)))


def is_finite(leaf: Any) -> bool:
    if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point() or leaf.is_meta:
        return True
    return leaf.layout is not torch.strided or bool(leaf.detach().isfinite().all())


def widened(leaf: Any, dtype: torch.dtype | None) -> Any:
    """Half in a dtype; all else as it is."""
    if not isinstance(leaf, torch.Tensor) or leaf.dtype not in HALF or dtype is None:
        return leaf
    return leaf.to(dtype)


def narrow(leaf: Any, dtype: torch.dtype) -> Any:
    is_single = isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float32
    return leaf.to(dtype) if is_single else leaf


@contextmanager
def cast_module(module: torch.nn.Module | None, dtype: torch.dtype) -> Iterator[None]:
    """A module with its tensors cast. Gradients go to the tensors themselves, and so does what is
    written to a cast buffer."""
    if module is None:
        yield
        return
    buffers = dict(module.named_buffers())
    tensors = {**dict(module.named_parameters()), **buffers}
    casts = {name: narrow(each, dtype) for name, each in tensors.items()}
    casts = {name: each for name, each in casts.items() if each is not tensors[name]}
    before = dict(casts)
    with stateless._reparametrize_module(module, casts, tie_weights=True):
        yield
    for name in casts.keys() & buffers.keys():
        if casts[name] is not before[name] or casts[name]._version:
            with torch.no_grad():
                buffers[name].copy_(casts[name])


# ------------------------------------------------------------------------------- random numbers


def generators() -> bytes:
    """The states of the generators of random numbers."""
    numpy = sys.modules.get("numpy")
    states = torch.get_rng_state(), random.getstate(), numpy and numpy.random.get_state()
    return pickle.dumps(states)


def restore(states: bytes) -> None:
    of_torch, of_python, of_numpy = pickle.loads(states)
    torch.set_rng_state(of_torch)
    random.setstate(of_python)
    if of_numpy is not None:
        sys.modules["numpy"].random.set_state(of_numpy)
