"""Write down what a program asks of torch, with the lines that ask.

A `TorchDispatchMode` sees every operation below autograd and autocast: what autocast casts shows as
an `aten._to_copy` of its own. A `TorchFunctionMode` sees what passes no dispatcher: methods that
hand a tensor's values to the host, and `torch.cuda.synchronize`.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, ClassVar, NamedTuple
from unittest import mock

import torch
import torch.utils.data
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from amplint_verify.recording.observation import Flag, Occurrences, OperationRow, Wait
from amplint_verify.recording.sightings import UserExpression
from amplint_verify.torch_names import aten, present

MAX_ROWS = 200_000
# The directories of amplint itself. (Both lie beside each other, in a checkout and when installed.)
OWN = tuple(
    str(Path(__file__).parents[2] / name) + os.sep for name in ("amplint", "amplint_verify")
)
TORCH = str(Path(torch.__file__).parent) + os.sep
# What a DataLoader reads (the seed of its workers, its permutation) never was on a device.
OF_THE_HOST = str(Path(torch.utils.data.__file__).parent) + os.sep
# Thin wrappers: what they ask for, their caller asks for. Without them, `f"{loss:.3f}"` would be
# the library's read (`Tensor.__format__` is Python), and `F.mse_loss(a, b)` its operation.
WRAPPERS = frozenset(
    TORCH + name.replace("/", os.sep)
    for name in (
        "_compile.py",  # torch wraps `__torch_dispatch__` in these two
        "_dynamo/eval_frame.py",
        "_tensor.py",
        "_tensor_str.py",
        "_jit_internal.py",
        "_ops.py",
        "functional.py",
        "overrides.py",
        "nn/functional.py",
        "nn/modules/module.py",
        "utils/_pytree.py",
        "utils/_contextlib.py",
        "utils/_device.py",
    )
)


SCALAR_READS = frozenset({aten._local_scalar_dense, aten.item, aten.is_nonzero})
SHAPE_READS = frozenset({aten.equal, aten.allclose})
INDEXED = frozenset({aten.index, aten.index_put, aten.index_put_})
# Those that read a number which they are given as a tensor: where they take it. `normal` looks
# whether a deviation is negative. These, and what follows, wait inside of a kernel: found by torch
# 2.11's sync debug mode on a GPU (benchmarks/results).
NUMBERS: Mapping[Any, tuple[int, ...]] = {
    aten.masked_fill: (2,),
    aten.masked_fill_: (2,),
    aten.index_fill: (3,),
    aten.index_fill_: (3,),
    aten.linspace: (0, 1),
    aten.logspace: (0, 1),
    aten.normal: (1,),
}
# Those that look whether they came to an end, or for the range of their operands.
CHECKS = frozenset(
    {
        aten.cholesky,
        aten.histc,
        aten.linalg_eig,
        aten.linalg_matrix_exp,
        aten.linalg_pinv,
        aten._linalg_check_errors,
        aten._linalg_eigh,
        aten._linalg_svd,
    }
)
WAITING = SCALAR_READS | SHAPE_READS | INDEXED | NUMBERS.keys() | CHECKS
COPIES = frozenset({aten._to_copy, aten.copy_, aten.copy, aten._copy_from})
MASKS = (torch.bool, torch.uint8)

# Operations whose fake kernels take floating operands of unequal dtypes, and whose real ones raise:
# positions of the operands that must agree. Found by running both (`tests/verify/test_record.py`;
# `benchmarks/op_database.py` looks for more).
EQUAL_DTYPES: Mapping[Any, tuple[int, ...]] = {
    aten.mm: (0, 1),
    aten.mv: (0, 1),
    aten.addmm: (0, 1, 2),
    aten.addmm_: (0, 1, 2),
    aten.index_add: (0, 3),
    aten.index_add_: (0, 3),
    aten.index_copy: (0, 3),
    aten.index_copy_: (0, 3),
    aten.index_put: (0, 2),
    aten.index_put_: (0, 2),
    aten.index_reduce: (0, 3),
    aten.index_reduce_: (0, 3),
    aten.put: (0, 2),
    aten.put_: (0, 2),
    aten.allclose: (0, 1),
    aten.heaviside: (0, 1),
    aten.linalg_cross: (0, 1),
    aten.complex: (0, 1),
    aten.polar: (0, 1),
    aten.nll_loss_forward: (0, 2),
    aten.binary_cross_entropy: (0, 1),
    aten.grid_sampler_2d: (0, 1),
    aten.grid_sampler_3d: (0, 1),
    aten._embedding_bag: (0, 6),
    aten._embedding_bag_forward_only: (0, 6),
}
# Likewise, of a number that the dtype of the first operand cannot hold: position of the number.
HOLDS: Mapping[Any, int] = {aten.masked_fill: 2, aten.masked_fill_: 2}

Perform = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


def plainly(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Perform an operation as torch does."""
    return func(*args, **kwargs)


def on_cuda(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cuda"


def anywhere(_: torch.Tensor) -> bool:
    """On a machine without a GPU every tensor stands for one on the device."""
    return True


def nowhere(_: torch.Tensor) -> bool:
    return False


# ------------------------------------------------------------------------------- one operation


def wait_of(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], on_device: Callable[..., bool]
) -> Wait | None:
    """How an operation makes the host wait for what is on the device; None if it does not."""
    if not may_wait(func):
        return None
    packet, shape_is_read = func.overloadpacket, torch.Tag.dynamic_output_shape in func.tags
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if not any(on_device(tensor) for tensor in tensors):
        return None
    if packet in SCALAR_READS:
        return Wait.SCALAR_READ
    if packet in SHAPE_READS:
        return Wait.SHAPE_READ
    if packet in INDEXED:
        masked = any(index is not None and index.dtype in MASKS for index in args[1])
        return Wait.BOOL_INDEX if masked and not fills(packet, args) else None
    if packet in NUMBERS:
        numbers = [args[at] for at in NUMBERS[packet] if at < len(args)]
        reads = any(isinstance(each, torch.Tensor) and on_device(each) for each in numbers)
        return Wait.SCALAR_READ if reads else None
    if packet in CHECKS:
        return Wait.SCALAR_READ
    return Wait.SHAPE_READ if shape_is_read and kwargs.get("output_size") is None else None


@cache
def may_wait(func: Any) -> bool:
    """Whether an operation may read what is on the device. Of a copy, where from and where to is
    known when it is done."""
    packet = func.overloadpacket
    is_named = packet in WAITING or torch.Tag.dynamic_output_shape in func.tags
    return packet not in COPIES and is_named


def fills(packet: Any, args: tuple[Any, ...]) -> bool:
    """Whether an operation writes a number of the host where a mask is true: that is a masked_fill.

    As canDispatchToMaskedFill of ATen/native/TensorAdvancedIndexingUtils.h (torch 2.13) has it.
    """
    if packet is aten.index or (len(args) > 3 and args[3]):
        return False
    indices = [index for index in args[1] if index is not None]
    value = args[2]
    return len(indices) == 1 and value.numel() == 1 and value.device.type == "cpu"


def copy_of(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> tuple[Wait, int] | None:
    """The kind of a copy between host and device, and its bytes.

    The bytes are those of the result: a change of dtype is made on the side it comes from.
    """
    packet = func.overloadpacket
    if packet not in COPIES:
        return None
    source, target = (args[1], args[0]) if packet is aten.copy_ else (args[0], result)
    types = (source.device.type, target.device.type)
    if "cpu" not in types or types[0] == types[1] or "meta" in types:
        return None
    asynchronous = kwargs.get("non_blocking") or (len(args) > 2 and args[2] is True)
    if target.device.type == "cpu":
        wait = Wait.TO_HOST_ASYNC if asynchronous else Wait.TO_HOST
    else:
        wait = Wait.TO_DEVICE_ASYNC if asynchronous else Wait.TO_DEVICE
    return wait, target.numel() * target.element_size()


def clash_of(func: Any, args: tuple[Any, ...]) -> tuple[str, ...]:
    """The dtypes that real kernels do not take together; () if they would."""
    packet = func.overloadpacket
    if packet in HOLDS and len(args) > HOLDS[packet]:
        return _overflow(args[0].dtype, args[HOLDS[packet]])
    positions = EQUAL_DTYPES.get(packet, ())
    operands = [args[at] for at in positions if at < len(args)]
    dtypes = {
        operand.dtype
        for operand in operands
        if isinstance(operand, torch.Tensor) and operand.dtype.is_floating_point
    }
    return tuple(sorted(map(_short, dtypes))) if len(dtypes) > 1 else ()


def _overflow(dtype: torch.dtype, value: Any) -> tuple[str, ...]:
    if not isinstance(value, (int, float)) or not dtype.is_floating_point:
        return ()
    finite = value - value == 0
    return (_short(dtype), str(value)) if finite and abs(value) > torch.finfo(dtype).max else ()


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def described(values: Any) -> tuple[str, ...]:
    """Dtype and device of the tensors in a nest of lists, tuples and dicts."""
    return tuple(
        f"{_short(leaf.dtype)}@{leaf.device}"
        for leaf in tree_leaves(values)
        if isinstance(leaf, torch.Tensor)
    )


# ------------------------------------------------------------------------------- where it was asked


class SourceLine(NamedTuple):
    """The caller of an operation.

    Args:
        path, row, direct: as in `observation.OperationRow`.
        of_host: whether it is asked for inside `torch.utils.data`.
    """

    path: str
    row: int
    direct: bool
    of_host: bool


class LineFinder:
    """Finds the line below the root that asks for an operation."""

    def __init__(self, root: Path) -> None:
        self.root = os.path.realpath(root) + os.sep
        self._paths: dict[str, str | None] = {}

    def path(self, code: CodeType) -> str | None:
        """The file of the code relative to the root; None if it does not lie below."""
        return self.path_of(code.co_filename)

    def path_of(self, name: str) -> str | None:
        """Likewise, of a file as code and tracebacks name it."""
        if name not in self._paths:
            self._paths[name] = self.below(name)
        return self._paths[name]

    def below(self, name: str) -> str | None:
        """Likewise, found out anew."""
        real = os.path.realpath(name)
        ours = real.startswith(self.root) and "site-packages" not in real and name[0] != "<"
        return real[len(self.root) :].replace(os.sep, "/") if ours else None

    def here(self) -> SourceLine:
        """The line below the root that asks; without path where none does."""
        direct, of_host = True, False
        for frame in frames():
            path = self.path(frame.f_code)
            if path is not None:
                return SourceLine(path, frame.f_lineno, direct, of_host)
            name = frame.f_code.co_filename
            if name not in WRAPPERS and not name.startswith(OWN):
                direct = False
            of_host = of_host or name.startswith(OF_THE_HOST)
        return SourceLine("", 0, False, of_host)

    def sites(self) -> Iterator[UserExpression]:
        """The expressions below the root that are being evaluated, the innermost first."""
        for frame in frames():
            path = self.path(frame.f_code)
            if path is not None:
                yield site_of(frame, path)


def frames() -> Iterator[FrameType]:
    """The frames of the callers, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def site_of(frame: FrameType, path: str) -> UserExpression:
    """The expression that a frame evaluates; its row alone before Python 3.11."""
    positions: Any = getattr(frame.f_code, "co_positions", None)
    position = next(islice(positions(), frame.f_lasti // 2, None), None) if positions else None
    if position is None or None in position:
        return UserExpression(path, frame.f_lineno, frame.f_lineno)
    row, end_row, column, end_column = position
    return UserExpression(path, row, end_row, column, end_column)


# ------------------------------------------------------------------------------- the recorder


class Recorder(TorchDispatchMode):
    """Sees every operation of the code that runs under it.

    Args:
        root: of the program; lines below it are the user's.
        on_device: whether a tensor counts as one of the device.
        perform: what performs an operation.
        strict: whether operations that real kernels refuse are flagged; kernels that are real
            refuse them themselves.
    """

    def __init__(
        self,
        root: Path,
        on_device: Callable[[torch.Tensor], bool] = anywhere,
        perform: Perform = plainly,
        strict: bool = False,
    ) -> None:
        super().__init__()
        self.places = LineFinder(root)
        self.on_device = on_device
        self.perform = perform
        self.strict = strict
        self.clear()

    def clear(self) -> None:
        """Forget all that was recorded."""
        self.rows: list[OperationRow] = []
        self.dropped = 0
        self.waits: Counter[tuple[Wait, bool]] = Counter()
        self.bytes: Counter[Wait] = Counter()
        self.flags: dict[Flag, None] = {}  # in order, each once

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.overloadpacket is aten.to:  # in inference mode alone: it may be a copy, or nothing
            with self:
                return func.decompose(*args, **kwargs)
        place = self.places.here()
        path, row, direct, _ = place
        clash = clash_of(func, args) if self.strict else ()
        if clash:
            self.flags[Flag(path, row, str(func), clash)] = None
        device = nowhere if self.on_device is anywhere and place.of_host else self.on_device
        wait = wait_of(func, args, kwargs, device)
        inputs = described((args, kwargs))
        result = self.perform(func, args, kwargs)
        copied = copy_of(func, args, kwargs, result)
        if copied:
            wait = copied[0]
            self.bytes[wait] += copied[1]
        self.write(OperationRow(path, row, str(func), inputs, described(result), wait, direct))
        return result

    def waited(
        self, wait: Wait, op: str, tensor: torch.Tensor | None = None, size: int = 0
    ) -> None:
        """Write down a wait that no dispatcher sees, and how many bytes it copied."""
        path, row, direct, of_host = self.places.here()
        if of_host and self.on_device is anywhere:
            return
        self.bytes[wait] += size
        inputs = () if tensor is None else described(tensor)
        self.write(OperationRow(path, row, op, inputs, (), wait, direct))

    def write(self, row: OperationRow) -> None:
        """Keep what was seen of one operation."""
        if row.wait is not None:
            self.waits[row.wait, row.direct] += 1
        if len(self.rows) < MAX_ROWS:
            self.rows.append(row)
        else:
            self.dropped += 1

    def fields(self) -> dict[str, Any]:
        """The fields of an `Observation` that a recorder knows."""
        kinds = [wait for wait in Wait if self.waits[wait, True] or self.waits[wait, False]]
        return {
            "rows": tuple(self.rows),
            "dropped": self.dropped,
            "waits": {
                kind.value: Occurrences(self.waits[kind, True], self.waits[kind, False])
                for kind in kinds
            },
            "to_device": self.bytes[Wait.TO_DEVICE] + self.bytes[Wait.TO_DEVICE_ASYNC],
            "to_host": self.bytes[Wait.TO_HOST] + self.bytes[Wait.TO_HOST_ASYNC],
            "flags": tuple(self.flags),
        }


class HostMethods(TorchFunctionMode):
    """Counts methods that hand a CPU tensor's values over, which no dispatcher sees.

    For programs whose tensors are on the CPU and stand for tensors on a device.
    """

    READS: ClassVar[Mapping[Any, Wait]] = {
        torch.Tensor.tolist: Wait.SCALAR_READ,
        torch.Tensor.numpy: Wait.TO_HOST,
        torch.Tensor.cpu: Wait.TO_HOST,
    }

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self.READS:
            self.recorder.waited(self.READS[func], func.__name__, args[0])
        return func(*args, **(kwargs or {}))


@contextmanager
def waiting_functions(recorder: Recorder, call: bool) -> Iterator[None]:
    """Count calls of what waits for the device without a tensor; `call` it if there is a device."""

    def counted(wait: Wait, op: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **kwargs: Any) -> Any:
            recorder.waited(wait, op)
            return function(*args, **kwargs) if call else None

        return counting

    functions = {"synchronize": Wait.SYNCHRONIZE, "empty_cache": Wait.EMPTY_CACHE}
    replaced: dict[str, Any] = {
        name: counted(functions[name], f"torch.cuda.{name}", function)
        for name, function in present(torch.cuda, functions).items()
    }
    with mock.patch.multiple(torch.cuda, **replaced):
        yield
