"""The library names amplint knows that are not operations on tensors: contexts, objects, wrappers.

Derived from torch 2.13.0 (signatures read from the installed package, held against it by
`tests/oracles/test_torch_ops.py`) and, for other libraries, from their documentation.
"""

from __future__ import annotations

from dataclasses import dataclass

from amplint.knowledge.names import pairs, rows, words_of

# --------------------------------------------------------------------------- autocast


@dataclass(frozen=True)
class AutocastApi:
    """One way to open an autocast region.

    Args:
        parameters: the positional names, in order.
        device: the device type where the call does not name it.
        dtype: the dtype when `dtype=` is not given: None means that of the enclosing region of
            the same device type, or else the default of the device type.
        legacy: the name to use instead, where torch deprecates this one.
    """

    parameters: tuple[str, ...]
    device: str | None = None
    dtype: str | None = None
    legacy: str | None = None


_NEW = AutocastApi(("device_type", "dtype", "enabled", "cache_enabled"))
_OLD = ("enabled", "dtype", "cache_enabled")
_CUDA = AutocastApi(_OLD, "cuda", "float16", "torch.amp.autocast")
_CPU = AutocastApi(_OLD, "cpu", "bfloat16", "torch.amp.autocast")
AUTOCASTS: dict[str, AutocastApi] = {
    "torch.autocast": _NEW,
    "torch.amp.autocast": _NEW,
    "torch.amp.autocast_mode.autocast": _NEW,
    "torch.cuda.amp.autocast": _CUDA,
    "torch.cuda.amp.autocast_mode.autocast": _CUDA,
    "torch.cpu.amp.autocast": _CPU,
    "torch.cpu.amp.autocast_mode.autocast": _CPU,
}

DEFAULT_DTYPES: dict[str, str] = pairs(
    """
    cpu=bfloat16 cuda=float16 hpu=bfloat16 mps=float16 mtia=float16 xla=bfloat16 xpu=float16
    """
)
"""Device type -> the dtype of a region that names none (`torch.get_autocast_dtype`)."""

NO_GRAD: frozenset[str] = words_of(
    """
    torch.autograd.grad_mode.inference_mode torch.autograd.grad_mode.no_grad
    torch.autograd.inference_mode torch.autograd.no_grad torch.inference_mode torch.no_grad
    """
)


SWITCH = "torch.set_autocast_enabled"
"""Switches autocast on or off from where it is called, for one device type; without a type, for
CUDA (torch/csrc/autograd/init.cpp)."""

CONTEXT_STACKS = frozenset({"contextlib.AsyncExitStack", "contextlib.ExitStack"})
"""Contexts through which others are entered, by `enter_context`."""

# Decorators that leave what they decorate as it is, as far as values go.
TRANSPARENT_DECORATORS = words_of(
    """
    staticmethod classmethod property wraps no_grad inference_mode autocast custom_fwd
    custom_bwd abstractmethod contextmanager asynccontextmanager cached_property lru_cache
    cache overload setter override final jit script export ignore unused rank_zero_only record
    dynamo disable enable_grad set_grad_enabled
    """
)

KERNEL_DECORATORS = words_of(
    """
    numba.cuda.jit numba.guvectorize numba.jit numba.njit numba.vectorize
    taichi.func taichi.kernel triton.autotune triton.heuristics triton.jit warp.func warp.kernel
    """
)
"""Decorators that compile a function for another machine than Python's: its operators are those of
the kernel's own scalars, and nothing in it waits for a device (numba.readthedocs.io,
docs.taichi-lang.org, triton-lang.org, nvidia.github.io/warp)."""


@dataclass(frozen=True)
class ScalerApi:
    """One way to build a GradScaler: positional names, and the device it defaults to."""

    parameters: tuple[str, ...]
    device: str | None = "cuda"
    legacy: str | None = None


_KNOBS = ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")
_SHARDED_KNOBS = tuple(
    "device init_scale backoff_factor growth_factor growth_interval enabled process_group".split()
)
_CUDA_SCALER = ScalerApi(_KNOBS, "cuda", "torch.amp.GradScaler")
_CPU_SCALER = ScalerApi(_KNOBS, "cpu", "torch.amp.GradScaler")
SCALERS: dict[str, ScalerApi] = {
    "torch.GradScaler": ScalerApi(("device", *_KNOBS)),
    "torch.amp.GradScaler": ScalerApi(("device", *_KNOBS)),
    "torch.amp.grad_scaler.GradScaler": ScalerApi(("device", *_KNOBS)),
    "torch.cpu.amp.GradScaler": _CPU_SCALER,
    "torch.cpu.amp.grad_scaler.GradScaler": _CPU_SCALER,
    "torch.cuda.amp.GradScaler": _CUDA_SCALER,
    "torch.cuda.amp.grad_scaler.GradScaler": _CUDA_SCALER,
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler": ScalerApi(_SHARDED_KNOBS),
}

FOREIGN_SCALERS: frozenset[str] = frozenset({"torch.npu.amp.GradScaler"})
"""Those of back ends that are not in torch, and have its names (torch_npu, Ascend/pytorch)."""

LEGACY_CUSTOM: dict[str, str] = {
    f"torch.cuda.amp.{home}{name}": f"torch.amp.{name}"
    for home in ("", "autocast_mode.")
    for name in ("custom_fwd", "custom_bwd")
}
"""Decorators of autograd functions that mean CUDA -> those that take the device type."""


LEGACY_STATE: dict[str, tuple[str, str]] = {
    f"torch.{verb}_autocast_{name}_{state}": (
        f"torch.{verb}_autocast_{state}",
        "cuda" if name == "gpu" else name,
    )
    for name in ("gpu", "cpu", "ipu", "xla")
    for verb, state in (("get", "dtype"), ("set", "dtype"), ("is", "enabled"), ("set", "enabled"))
    if (name, state) != ("gpu", "enabled")  # that is `torch.is_autocast_enabled()`
}
"""What asks for or sets the autocast state of one device type -> what takes it, and the type."""

STAR_IMPORTS: dict[str, frozenset[str]] = {
    "torch.cuda.amp": frozenset(
        """
        GradScaler amp_definitely_not_available autocast autocast_mode common custom_bwd custom_fwd
        grad_scaler
        """.split()
    ),
    "torch.cpu.amp": frozenset({"GradScaler", "autocast", "autocast_mode", "grad_scaler"}),
}
"""What `from MODULE import *` binds, of the torch that binds most."""

# --------------------------------------------------------------------------- objects

LOADERS: frozenset[str] = words_of(
    "torch.utils.data.DataLoader torch.utils.data.dataloader.DataLoader"
)
"""What builds an iterable of batches, on the host."""

WORKER_ARGUMENTS: dict[str, int | None] = {
    "prefetch_factor": None,
    "persistent_workers": None,
    "timeout": 9,
    "multiprocessing_context": 11,
}
"""What a DataLoader of torch refuses unless it has workers -> its position, if it has one."""

_OPTIM = """
    ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax LBFGS Muon NAdam RAdam RMSprop Rprop SGD
    SparseAdam
"""
OPTIMIZERS: frozenset[str] = frozenset(
    {f"torch.optim.{name}" for name in _OPTIM.split()}
    | {"torch.distributed.optim.ZeroRedundancyOptimizer"}
)

_SCHEDULERS = """
    ChainedScheduler ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR ExponentialLR
    LambdaLR LinearLR MultiStepLR MultiplicativeLR OneCycleLR PolynomialLR ReduceLROnPlateau
    SequentialLR StepLR
"""
SCHEDULERS: frozenset[str] = frozenset(
    {f"torch.optim.lr_scheduler.{name}" for name in _SCHEDULERS.split()}
    | {"torch.optim.swa_utils.SWALR"}
)

INITIALIZERS: dict[str, tuple[str, ...]] = {"apex.amp.initialize": ("models", "optimizers")}
"""A function that takes such arguments first -> what it returns: those that it is given."""

# --------------------------------------------------------------------------- wrappers

PASS_THROUGH: dict[str, str] = {
    name: how
    for how, words in rows("""
chain: itertools.chain
elements: alive_progress.alive_it builtins.iter builtins.list builtins.reversed builtins.tuple
    fastprogress.fastprogress.progress_bar fastprogress.progress_bar itertools.cycle
    itertools.islice rich.progress.track tqdm.asyncio.tqdm tqdm.auto.tqdm tqdm.autonotebook.tqdm
    tqdm.notebook.tqdm tqdm.notebook.tqdm_notebook tqdm.rich.tqdm tqdm.std.tqdm tqdm.tqdm
    tqdm.tqdm_notebook
enumerate: builtins.enumerate tqdm.contrib.tenumerate
second: builtins.filter
zip: builtins.zip tqdm.contrib.tzip
""")
    for name in words.split()
}
"""A call -> how iterating it relates to iterating its argument: "elements" (the same as those of
the first argument), "second" (those of the second one), "enumerate" (pairs of an int and that),
"zip" (a tuple of one from each), "chain" (those of each argument in turn)."""

MODULE_WRAPPERS: dict[str, str] = {
    name: how
    for how, words in rows("""
parallel: apex.parallel.DistributedDataParallel torch.distributed.fsdp.FullyShardedDataParallel
    torch.nn.DataParallel torch.nn.parallel.DataParallel torch.nn.parallel.DistributedDataParallel
    torch.nn.parallel.data_parallel.DataParallel
    torch.nn.parallel.distributed.DistributedDataParallel torch.optim.swa_utils.AveragedModel
same: apex.parallel.convert_syncbn_model torch.compile torch.distributed.fsdp.fully_shard
    torch.jit.script torch.jit.trace torch.nn.SyncBatchNorm.convert_sync_batchnorm
    torch.nn.utils.parametrizations.spectral_norm torch.nn.utils.parametrizations.weight_norm
    torch.nn.utils.parametrize.register_parametrization torch.nn.utils.spectral_norm
    torch.nn.utils.weight_norm
""")
    for name in words.split()
}
"""A call that takes a module first and returns it: itself, or inside a wrapper (`.module`)."""

DISTRIBUTED: frozenset[str] = frozenset(
    f"torch.nn.parallel.{home}DistributedDataParallel" for home in ("", "distributed.")
)
"""Those of them that reduce gradients unless their forward pass runs under `no_sync()`: the
docstring of `no_sync` in torch/nn/parallel/distributed.py of torch 2.13."""

DATA_PARALLEL: frozenset[str] = frozenset(
    f"torch.nn.{home}DataParallel" for home in ("", "parallel.", "parallel.data_parallel.")
)
"""Those that copy the module to each device and call the copies in threads of one process."""

_FSDP = ("torch.distributed.fsdp", "torch.distributed.fsdp.fully_sharded_data_parallel")
FULLY_SHARDED: frozenset[str] = frozenset(f"{home}.FullyShardedDataParallel" for home in _FSDP)
"""Those of them that keep a part of each parameter in each process (FSDP1), and whose `no_sync()`
decides in the backward pass."""

SHARDED_PRECISIONS: frozenset[str] = frozenset(
    f"{home}.MixedPrecision" for home in (*_FSDP, "torch.distributed.fsdp.api")
)
"""What they are told the dtype of parameters by, as `param_dtype`."""

SHARDED_SCALERS: frozenset[str] = frozenset(
    {"torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler"}
)
"""The scalers that agree with those of other processes whether gradients are finite."""

LEARNING: frozenset[str] = words_of(
    """
    Parameter ParameterDict ParameterList register_parameter UninitializedParameter
    Linear Bilinear LazyLinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d
    Embedding EmbeddingBag LSTM LSTMCell GRU GRUCell RNN RNNCell MultiheadAttention PReLU
    BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm GroupNorm InstanceNorm1d InstanceNorm2d
    InstanceNorm3d LayerNorm RMSNorm Transformer TransformerDecoder TransformerDecoderLayer
    TransformerEncoder TransformerEncoderLayer
    """
)
"""What a module that has parameters mentions: the classes of torch.nn that have some."""


HOOKS: dict[str, tuple[str, ...]] = {
    "register_backward_hook": ("module", "batch", "batch"),
    "register_forward_hook": ("module", "batch", "outputs"),
    "register_forward_pre_hook": ("module", "batch"),
    "register_full_backward_hook": ("module", "batch", "batch"),
    "register_full_backward_pre_hook": ("module", "batch"),
    "register_hook": ("tensor",),
    "register_post_accumulate_grad_hook": ("tensor",),
}
"""A method of a module or a tensor that registers a function to run in each of its forward or
backward passes -> what that is given, in the words of `frameworks.schema.Role` (torch 2.13, the
docstrings of `torch.nn.Module` and `torch.Tensor`)."""

HOOKS_OF_TENSORS: frozenset[str] = frozenset({"register_hook"})
"""Those of them that other things have too, and take no function there."""


# True while a module is traced or scripted for an export, and never while it trains. Not
# torch.compiler.is_compiling: what is compiled is trained.
EXPORTING: frozenset[str] = words_of(
    """
    torch.onnx.is_in_onnx_export torch._C._get_tracing_state torch.jit.is_tracing
    torch.jit.is_scripting torch.compiler.is_exporting
    """
)

# Numbers drawn from an interval, and whole ones from a range, by the last part of the name: of the
# modules, and of generators (random.Random, numpy.random.Generator and RandomState). Sources:
# docs.python.org/3/library/random.html, numpy.org/doc/stable/reference/random,
# docs.pytorch.org/docs/stable/torch.html#random-sampling
DRAWN_FROM: frozenset[str] = frozenset({"random", "numpy.random", "torch"})
UNIT_DRAWS: frozenset[str] = frozenset({"random", "rand", "random_sample"})
RANGE_DRAWS: frozenset[str] = frozenset({"uniform", "randint", "randrange", "integers"})

_CLIPPERS = ("torch.nn.utils", "torch.nn.utils.clip_grad")
NORM_CLIPPING: frozenset[str] = frozenset(
    f"{home}.{name}" for home in _CLIPPERS for name in ("clip_grad_norm_", "clip_grad_norm")
)
"""Functions that limit the norm of gradients in place, as they compute it of these."""

GRADIENT_NORMS: frozenset[str] = NORM_CLIPPING | {f"{home}.get_total_norm" for home in _CLIPPERS}
"""Functions that return the norm of gradients."""

CLIPPING: frozenset[str] = NORM_CLIPPING | {f"{home}.clip_grad_value_" for home in _CLIPPERS}
"""Functions that limit gradients in place (`torch/nn/utils/clip_grad.py`)."""

THREADS: dict[str, tuple[str, int, int | None]] = {
    "asyncio.to_thread": ("func", 0, None),
    "threading.Thread": ("target", 1, 3),
    "threading.Timer": ("function", 1, 2),
    "multiprocessing.Process": ("target", 1, 3),
    "torch.multiprocessing.Process": ("target", 1, 3),
    "torch.multiprocessing.spawn": ("fn", 0, 1),
    "torch.multiprocessing.spawn.spawn": ("fn", 0, 1),
    "torch.multiprocessing.start_processes": ("fn", 0, 1),
}
"""What runs a function in another thread or process -> the name and the position of that argument,
and the position of the arguments for it; None where they follow."""

PASS_RANK: frozenset[str] = words_of(
    """
    torch.multiprocessing.spawn torch.multiprocessing.spawn.spawn
    torch.multiprocessing.start_processes
    """
)
"""Those that pass the number of the process before the arguments (the docs of torch 2.13)."""

PROCESSES: frozenset[str] = PASS_RANK | {"multiprocessing.Process", "torch.multiprocessing.Process"}
"""Those that run it in another process. A forked one stays in the region around the call, and a
spawned one does not (run with torch 2.13)."""

EXECUTORS: frozenset[str] = words_of(
    """
    concurrent.futures.ThreadPoolExecutor concurrent.futures.thread.ThreadPoolExecutor
    multiprocessing.dummy.Pool multiprocessing.pool.ThreadPool
    """
)
EXECUTES: frozenset[str] = words_of(
    "apply_async imap imap_unordered map map_async starmap starmap_async submit"
)
"""Methods of an executor that run their first argument in one of its threads."""

VARIABLES: frozenset[str] = words_of("torch.autograd.Variable torch.autograd.variable.Variable")
"""A call that returns the tensor that it is given, and nothing else takes (since torch 0.4)."""

PARSERS: frozenset[str] = frozenset({"argparse.ArgumentParser"})
"""What reads the command line."""

PARSES: dict[str, bool] = {
    "parse_args": False,
    "parse_intermixed_args": False,
    "parse_known_args": True,
    "parse_known_intermixed_args": True,
}
"""A method of such a parser that returns the options -> whether in a pair with what is left."""

OPTION_TYPES: dict[str, str] = {
    f"builtins.{name}": name for name in ("bool", "float", "int", "str")
}
"""The `type` of an option of the command line -> the kind of its value."""

OPTION_ACTIONS: dict[str, str] = {
    "argparse.BooleanOptionalAction": "bool",
    "count": "int",
    "store_false": "bool",
    "store_true": "bool",
}
"""Its `action`, of those that settle it (https://docs.python.org/3/library/argparse.html#action)."""

TYPE_VARIABLES: frozenset[str] = frozenset({"typing.TypeVar", "typing_extensions.TypeVar"})
"""A call that names a type, one that is not known but by its `bound`."""

OPERATOR_MAKERS: frozenset[str] = frozenset({"custom_op", "triton_op"})
"""The last names of decorators of `torch.library` that make operators, for all devices."""

COPIES: frozenset[str] = frozenset({"copy.copy", "copy.deepcopy"})
"""A call that returns another of the same kind as its argument."""


KINDS: dict[str, str] = {
    **dict.fromkeys(EXECUTORS, "executor"),
    **dict.fromkeys((*SCALERS, *FOREIGN_SCALERS), "scaler"),
    **dict.fromkeys(SCHEDULERS, "scheduler"),
    **dict.fromkeys(OPTIMIZERS, "optimizer"),
    **dict.fromkeys(LOADERS, "loader"),
}
"""The kind of object that a call of each name builds, in the words of `values.Object`."""


# --------------------------------------------------------------------------- numpy

NUMPY_FLOAT64: dict[str, int | None] = {
    "numpy.blackman": None,
    "numpy.empty": 1,
    "numpy.eye": 3,
    "numpy.hamming": None,
    "numpy.hanning": None,
    "numpy.identity": 1,
    "numpy.linspace": 5,
    "numpy.ones": 1,
    "numpy.zeros": 1,
}
"""What builds arrays of float64 by default -> the position of `dtype`, if it has one."""

NUMPY_SIZED: dict[str, int] = {
    "numpy.random.normal": 2,
    "numpy.random.rand": 0,
    "numpy.random.randn": 0,
    "numpy.random.random": 0,
    "numpy.random.standard_normal": 0,
    "numpy.random.uniform": 2,
}
"""What draws arrays of float64 where a size is given, else a Python float -> where it stands."""

NUMPY_DATA: dict[str, int] = {"numpy.array": 1, "numpy.asarray": 1}
"""What makes an array of Python numbers, floats to float64 -> the position of `dtype`."""

NUMPY_KEEPS: frozenset[str] = words_of(
    "clip copy flatten ravel repeat reshape round squeeze transpose"
)
"""Methods of an array that give an array of the same dtype."""

# --------------------------------------------------------------------------- attention

ATTENTIONS: dict[str, tuple[str, ...]] = {
    "flash_attn.flash_attn_func": ("q", "k", "v"),
    "flash_attn.flash_attn_interface.flash_attn_func": ("q", "k", "v"),
    "flash_attn.flash_attn_varlen_func": ("q", "k", "v"),
    "flash_attn.flash_attn_interface.flash_attn_varlen_func": ("q", "k", "v"),
    "flash_attn.flash_attn_kvpacked_func": ("q", "kv"),
    "flash_attn.flash_attn_varlen_kvpacked_func": ("q", "kv"),
    "sageattention.sageattn": ("q", "k", "v"),
    "xformers.ops.memory_efficient_attention": ("query", "key", "value"),
}
"""Attentions of other libraries -> the arguments that have to be of one dtype, the first ones;
autocast casts none of them.

Source: csrc/flash_attn/flash_api.cpp ("query and key must have the same dtype"), sageattention/
core.py ("All tensors must have the same dtype"), xformers/ops/fmha/common.py ("Query/Key/Value
should either all have the same dtype")."""
