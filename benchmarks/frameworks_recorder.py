"""What a framework does with a program of its users, recorded while it runs. Needs torch.

    python -m benchmarks.frameworks_recorder PROGRAM.py MODEL     # prints JSON

`benchmarks.frameworks_run` starts it, in a process of its own: it wraps methods of the framework.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any
from unittest import mock

import msgspec
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from amplint.frameworks.models import ANY, Models, bundled
from amplint.frameworks.schema import ClassRow, MethodRow, Model
from benchmarks.frameworks_run import OUTPUTS, FileResult, Given, Maker, Run, Watched

NONE = "none"
MOST_ELEMENTS = 8  # of a tuple, of which each is told
PRECISION_OF_NOTHING = ("", "", "")
IN_TORCH = str(Path(torch.__file__).parent)


# ------------------------------------------------------------------------- what a value is


def kind_of(value: Any) -> str:
    """What a value is: one of the words that roles mean, and the dtypes of tensors."""
    if isinstance(value, torch.Tensor):
        is_loss = value.dim() == 0 and value.requires_grad
        return f"{'loss' if is_loss else 'tensor'} {name_of(value.dtype)}"
    for word, is_one in KINDS.items():
        if is_one(value):
            return word
    if tensors := [*tensors_in(value)]:
        dtypes = sorted({name_of(each.dtype) for each in tensors})
        loss = " with a loss" if kind_of(first_of(value)).startswith("loss") else ""
        return f"tensors {' '.join(dtypes)}{loss}"
    if isinstance(value, (list, tuple)) and 0 < len(value) <= MOST_ELEMENTS:
        return ", ".join(map(kind_of, value))
    return "other"


def is_module(value: Any) -> bool:
    return isinstance(value, torch.nn.Module)


def has(*names: str) -> Callable[[Any], bool]:
    return lambda value: all(hasattr(value, name) for name in names)


# The first one that fits. Frameworks wrap optimizers, schedulers and loaders in classes of theirs.
KINDS: dict[str, Callable[[Any], bool]] = {
    NONE: lambda value: value is None,
    "number": lambda value: isinstance(value, (bool, int, float)),
    "device": lambda value: isinstance(value, torch.device),
    "other": lambda value: isinstance(value, (str, bytes, type)),
    "accelerator": has("backward", "autocast", "device"),
    "module": is_module,
    "optimizer": has("step", "zero_grad", "param_groups"),
    "scaler": has("scale", "unscale_", "update"),
    "scheduler": lambda v: has("step", "get_last_lr")(v) or has("step", "step_update")(v),
    "loader": has("__iter__", "__len__", "dataset"),
}


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def tensors_in(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """The tensors in a nest of lists, dicts and objects that know how to become a dict."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth < 4:
        if isinstance(value, Mapping):
            value = [*value.values()]
        elif not isinstance(value, (list, tuple)):
            as_dict = getattr(value, "to_dict", None)
            value = [*as_dict().values()] if inspect.ismethod(as_dict) else ()
        for each in value:
            yield from tensors_in(each, depth + 1)


def first_of(value: Any) -> Any:
    """The loss of a dict or of a tuple, where there is one."""
    if isinstance(value, Mapping):
        return value.get("loss")
    return value[0] if isinstance(value, (list, tuple)) and value else None


def region() -> str:
    """The dtype of the autocast region that is open, of whichever device."""
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            return name_of(torch.get_autocast_dtype(device))
    return NONE


class Reads(TorchDispatchMode):
    """Notes whether a value of a tensor was read, or written out as text."""

    any = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.any |= func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))

    @contextmanager
    def noting(self) -> Iterator[None]:
        text_of = torch.Tensor.__repr__  # which no mode sees

        def noted(*args: Any, **kwargs: Any) -> str:
            self.any = True
            return text_of(*args, **kwargs)

        with self, mock.patch.object(torch.Tensor, "__repr__", noted):
            yield


# ------------------------------------------------------------------------- the recorder


@dataclass
class Notes:
    """What was seen of a method, all its calls together."""

    calls: int = 0
    regions: set[str] = field(default_factory=set)
    gradients: set[bool] = field(default_factory=set)
    given: dict[tuple[str, int | None], set[str]] = field(default_factory=dict)
    gave: set[str] = field(default_factory=set)
    opened: set[str] = field(default_factory=set)
    reads: bool = False

    def seen(self, name: str) -> FileResult:
        given = tuple(Given(n, at, ordered(kinds)) for (n, at), kinds in self.given.items())
        return FileResult(
            name,
            self.calls,
            ordered(self.regions),
            tuple(sorted(self.gradients)),
            given,
            ordered(self.gave),
            ordered(self.opened),
            self.reads,
        )


def ordered(words: set[str]) -> tuple[str, ...]:
    return tuple(sorted(words))


class Recorder:
    """Records what rows of a model say something of.

    A row says that the framework calls a method: those calls are recorded that a class of the
    program gets of others. Of the other rows, those of the program itself.

    Args:
        models: the model alone.
        program: the module that is run.
    """

    def __init__(self, models: Models, program: ModuleType) -> None:
        self.models = models
        self.file = program.__file__
        self.notes: dict[str, Notes] = {}
        self.attributes: dict[type, dict[str, set[str]]] = {}
        self.made: dict[str, set[str]] = {}
        self.scaled = 0
        self.wrapped: set[int] = set()  # modules that were given back, by id
        self.own = [
            value
            for value in vars(program).values()
            if isinstance(value, type) and value.__module__ == program.__name__
        ]
        for cls in self.own:
            self.watch(cls)
        for model in models.models:
            for name in (name for row in model.classes for name in row.names if ANY not in name):
                if isinstance(found := imported(name), type):
                    self.watch(found)
        for name, value in [*vars(program).items()]:
            maker = dotted_name(value)
            if value not in self.own and models.maker(maker) is not None:
                setattr(program, name, giving(value, self.made.setdefault(maker, set())))

    # -------------------------------------------------------------- what is watched

    def watch(self, cls: type) -> None:
        """Wrap the methods of a class of which a row says something, where they are defined."""
        names = {name for row in self.rows(cls) for m in row.methods for name in m.names}
        for name in sorted(names):
            self.wrap(cls, name, self.noting)
        if issubclass(cls, torch.nn.Module) and cls in self.own and "forward" not in names:
            self.wrap(cls, "forward", self.noting_forward)

    def wrap(self, cls: type, name: str, noting: Callable[..., Any]) -> None:
        owner = next((each for each in cls.__mro__ if name in vars(each)), None)
        member = vars(owner)[name] if owner is not None else None
        function = function_of(member)
        if function is None or function.__module__.startswith("torch."):
            return
        if not hasattr(function, "of_recorder"):
            recorded = noting(name, function)
            recorded.of_recorder = True
            setattr(owner, name, property(recorded) if isinstance(member, property) else recorded)

    # -------------------------------------------------------------- the rows of a class

    @functools.cache  # noqa: B019, a recorder lives as long as the process
    def bases(self, cls: type) -> tuple[str, ...]:
        """The dotted names of the library's classes that a class is, or derives from."""
        names = (dotted_name(each) for each in cls.__mro__ if each not in self.own)
        return tuple(name for name in names if self.models.classes([name]))

    def rows(self, cls: type) -> tuple[ClassRow, ...]:
        return self.models.classes(self.bases(cls))

    def row(self, cls: type, name: str) -> MethodRow | None:
        return self.models.method(self.rows(cls), name)

    # -------------------------------------------------------------- what is recorded

    def noting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            cls = type(args[0]) if args else object
            row = self.row(cls, name)
            is_own_call = sys._getframe(1).f_code.co_filename == self.file
            if (
                row is None
                or function_of(inspect.getattr_static(cls, name, None)) is not recorded
                or (row.called is None) != is_own_call
                or (row.called is not None and cls not in self.own)
            ):
                return function(*args, **kwargs)
            notes = self.begin(f"{cls.__name__}.{name}")
            for parameter, at, value in arguments(function, args, kwargs):
                notes.given.setdefault((parameter, at), set()).add(kind_of(value))
            reads = Reads()
            with reads.noting() if row.reads else nullcontext():
                result = function(*args, **kwargs)
            notes.reads |= reads.any
            notes.gave.add("context" if has("__enter__")(result) else kind_of(result))
            self.note_attributes(args[0])
            if row.wraps:
                parts = result if isinstance(result, (list, tuple)) else [result]
                self.wrapped |= {id(each) for each in parts}
            return self.opening(notes, result) if row.gives == "region" else result

        return recorded

    def noting_forward(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def recorded(module: Any, *args: Any, **kwargs: Any) -> Any:
            notes = self.begin(f"{type(module).__name__}.{name}")
            result = function(module, *args, **kwargs)
            notes.gave.add(kind_of(result))
            return result

        return recorded

    def begin(self, name: str) -> Notes:
        notes = self.notes.setdefault(name, Notes())
        notes.calls += 1
        notes.regions.add(region())
        notes.gradients.add(torch.is_grad_enabled())
        return notes

    def note_attributes(self, instance: Any) -> None:
        known = self.attributes.setdefault(type(instance), {})
        for name in {name for row in self.rows(type(instance)) for name in row.attributes}:
            kind = NONE
            with suppress(Exception):  # a property may say that there is nothing yet
                kind = kind_of(getattr(instance, name))
            known.setdefault(name, set()).add(kind)

    def classes(self) -> dict[str, Watched]:
        """The classes of the instances that were seen."""
        return {
            cls.__name__: Watched(
                self.bases(cls), {name: ordered(kinds) for name, kinds in sorted(held.items())}
            )
            for cls, held in sorted(self.attributes.items(), key=lambda each: each[0].__name__)
        }

    @contextmanager
    def opening(self, notes: Notes, context: Any) -> Iterator[Any]:
        with context as value:
            notes.opened.add(region())
            yield value

    def note_outputs(self, module: Any, _: Any, outputs: Any) -> None:
        """Record what the program itself gets of its modules, and of those that wrap them."""
        if type(module) not in self.own and id(module) not in self.wrapped:
            return
        if outside_of_torch(sys._getframe(1)).f_code.co_filename == self.file:
            notes = self.begin(OUTPUTS)
            notes.gave.add(kind_of(outputs))

    @contextmanager
    def recording(self) -> Iterator[None]:
        scale = torch.amp.GradScaler.scale

        def counted(scaler: Any, outputs: Any) -> Any:
            self.scaled += scaler.is_enabled()
            return scale(scaler, outputs)

        hook = torch.nn.modules.module.register_module_forward_hook(self.note_outputs)
        try:
            with mock.patch.object(torch.amp.GradScaler, "scale", counted):
                yield
        finally:
            hook.remove()


def function_of(member: Any) -> Callable[..., Any] | None:
    """The function of a method, or of a property."""
    member = member.fget if isinstance(member, property) else member
    return member if inspect.isfunction(member) else None


def arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[str, int | None, Any]]:
    """The arguments of a call, except for self: the name, the position if it has one, the value."""
    signature = inspect.signature(function)
    names = [*signature.parameters]
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        kind, at = signature.parameters[name].kind, names.index(name) - 1
        if kind is inspect.Parameter.VAR_POSITIONAL:
            rest = value[1:] if at < 0 else value  # self, where a decorator has hidden it
            yield from ((f"*{i}", i, each) for i, each in enumerate(rest, max(at, 0)))
        elif kind is inspect.Parameter.VAR_KEYWORD:
            yield from ((each, None, value[each]) for each in value)
        elif at >= 0:
            yield name, None if kind is inspect.Parameter.KEYWORD_ONLY else at, value


def giving(maker: Callable[..., Any], made: set[str]) -> Callable[..., Any]:
    """A function or a class that notes what it makes."""
    if isinstance(maker, type):
        begin = maker.__init__

        def initialized(self: Any, *args: Any, **kwargs: Any) -> None:
            begin(self, *args, **kwargs)
            made.add(kind_of(self))

        maker.__init__ = functools.wraps(begin)(initialized)  # type: ignore[misc]  # on purpose
        return maker

    @functools.wraps(maker)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        result = maker(*args, **kwargs)
        made.add(kind_of(result))
        return result

    return recorded


def dotted_name(value: Any) -> str:
    """The name of a class or a function, where it is defined."""
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"


def imported(name: str) -> Any:
    """What a dotted name means, of a module that is imported already."""
    module, _, attribute = name.rpartition(".")
    return vars(sys.modules[module]).get(attribute) if module in sys.modules else None


def outside_of_torch(frame: FrameType | None) -> FrameType:
    """The first frame that is none of torch's own."""
    while frame is not None and frame.f_code.co_filename.startswith(IN_TORCH):
        frame = frame.f_back
    assert frame is not None
    return frame


# ------------------------------------------------------------------------- a run


def loaded(file: Path) -> ModuleType:
    """A program as a module."""
    spec = importlib.util.spec_from_file_location(f"program_of_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def name_operators_of_torchvision() -> torch.library.Library:
    """Name two operators that torchvision expects, for what imports it and uses none of them.

    A build of torchvision for CUDA, which is what PyPI has, cannot load its own beside a build of
    torch for the CPU.
    """
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        with suppress(RuntimeError):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


@contextmanager
def as_on_cuda(directory: Path) -> Iterator[None]:
    """Have torch say that there is a GPU, with CUDA's policy of autocast, on the CPU."""
    from amplint_verify.backends import policy  # noqa: PLC0415, it needs not load for the others
    from amplint_verify.recording import record  # noqa: PLC0415

    with policy.as_on_cuda(record.Recorder(directory)):
        yield


def run(file: Path, model: Model) -> Run:
    """Run a program, and record what the rows of a model say something of."""
    torch.manual_seed(0)
    operators = name_operators_of_torchvision()
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(io.StringIO()))
        program = loaded(file)
        if getattr(program, "ON_CUDA", False):
            stack.enter_context(as_on_cuda(file.parent))
        recorder = Recorder(Models([model]), program)
        stack.enter_context(recorder.recording())
        program.main()
    del operators
    return Run(
        model.name,
        {},
        program.COUNTS,
        getattr(program, "PRECISION", PRECISION_OF_NOTHING),
        recorder.scaled,
        getattr(program, "LEFT_OUT", {}),
        recorder.classes(),
        tuple(notes.seen(name) for name, notes in sorted(recorder.notes.items())),
        tuple(Maker(name, ordered(made)) for name, made in sorted(recorder.made.items())),
    )


def main(file: str, name: str) -> None:
    model = next(each for each in bundled() if each.name == name)
    sys.stdout.buffer.write(msgspec.json.encode(run(Path(file).resolve(), model)))


if __name__ == "__main__":
    main(*sys.argv[1:])
