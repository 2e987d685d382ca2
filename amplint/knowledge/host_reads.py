"""Operations that read the device on the host, or wait for it, and attributes that do not."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.knowledge.factories import FACTORIES
from amplint.knowledge.names import names, rows, words_of

HOST_READS: dict[str, str] = {
    name: effect
    for effect, words in rows("""
copies every element to the host and waits for the device: .tolist
copies one number to the host and waits for the device: .item
copies the tensor to the host and waits for the device: .__array__ .cpu
reads the answer on the host and waits for the device: .__contains__ allclose equal
reads the tensor on the host: .numpy
reads the value on the host and waits for the device: .__bool__ .__float__ .__format__ .__index__
    .__int__ .__repr__ .__str__ is_nonzero
""")
    for name in names(words)
}
"""What reads the device back -> the words that say so, to follow the name in a message.

`to` does where its arguments name the CPU, without non_blocking=. Iterating, `len()`, `sum()` and
`list()` of a tensor read nothing."""

READING_METHODS: frozenset[str] = words_of("cpu item numpy tolist")
"""Methods of a tensor that do."""

READING_BUILTINS: frozenset[str] = frozenset({"builtins.complex", "builtins.float", "builtins.int"})
"""Functions that do, and give a number."""

READING_FUNCTIONS: frozenset[str] = READING_BUILTINS | {
    "numpy.array",
    "numpy.asarray",
    "numpy.ascontiguousarray",
}
"""Those, and the ones that give an array."""

COMPARING: frozenset[str] = words_of("torch.allclose torch.equal torch.is_nonzero")
"""Functions, and methods of a tensor, that give a bool of Python, whether or not it is tested."""

WAITS: frozenset[str] = frozenset(
    names(
        """
        cholesky corrcoef cov histc inverse istft matrix_exp pinverse svd
        torch.ctc_loss torch.cuda.synchronize torch.isin torch.lobpcg torch.normal torch.pca_lowrank
        torch.svd_lowrank
        F.ctc_loss F.gaussian_nll_loss
        linalg.cholesky linalg.cond linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.inv
        linalg.ldl_factor linalg.lstsq linalg.lu_factor linalg.matrix_exp linalg.matrix_rank
        linalg.pinv linalg.solve linalg.svd linalg.svdvals linalg.tensorinv linalg.tensorsolve
        nn.CTCLoss nn.GaussianNLLLoss
        """
    )
)
"""Operations that wait for the device inside, to check their operands or their success, and give a
tensor all the same (their documentation, FakeTensor, and torch 2.11's sync debug mode on a GPU), if
not for all operands: normal does for a tensor of deviations. Of linalg, those without `_ex`."""

_DEVICES = ("accelerator", "cuda", "mps", "mtia", "xpu")
SYNCHRONIZES: frozenset[str] = frozenset(f"torch.{device}.synchronize" for device in _DEVICES)
"""What waits until the device has done all that it was given."""

EMPTIES_CACHE: frozenset[str] = frozenset(
    {f"torch.{device}.empty_cache" for device in _DEVICES} | {"torch.cuda.memory.empty_cache"}
)
"""What gives the memory that the allocator keeps back to the device's driver."""

BUILTIN_READS: frozenset[str] = words_of(
    "bin bool bytes complex divmod float format hex int oct print range repr round str"
)
"""Builtins that read the value of a tensor among their arguments."""

ELEMENT_READS: frozenset[str] = words_of("all any max min sorted")
"""Builtins that read a tensor argument, element by element; `max(a, b)` compares two and reads."""

NUMPY_READS: frozenset[str] = words_of("numpy.array numpy.asarray numpy.ascontiguousarray")

LOGGED: dict[str, tuple[int, str]] = {
    ".add_histogram": (1, "values"),
    ".add_scalar": (1, "scalar_value"),
    ".add_scalars": (1, "tag_scalar_dict"),
    "mlflow.log_metric": (1, "value"),
    "mlflow.log_metrics": (0, "metrics"),
    "wandb.log": (0, "data"),
}
"""What writes numbers to a log -> the position and the name of the tensor, or the dict of tensors,
that it brings to the host.

Read in torch 2.13.0 (torch/utils/tensorboard/_convert_np.py, `make_np`), wandb 0.31.0
(wandb/util.py, `json_friendly`) and mlflow 3.17.2
(mlflow/tracking/metric_value_conversion_utils.py).
"""

NOT_NUMBERS: frozenset[str] = words_of(
    "_ buffer data device dtype ext_tensor input ndarray obj periodic"
)
"""Parameters of FACTORIES and NUMBER_PARAMETERS that are no numbers."""


def _numbers(lines: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The parameters of the functions that the first word of each line stands for.

    The parameters that follow are those of the method; the function has the tensor before them.
    """
    for line in lines.split("\n"):
        word, *parameters = line.split() or [""]
        for name in names(word):
            function = "." not in word and name.startswith("torch.")
            yield name, ("_", *parameters) if function else tuple(parameters)


NUMBER_PARAMETERS: dict[str, tuple[str, ...]] = dict(
    _numbers(
        """
        .expand *size
        .repeat *repeats
        .resize_ *size
        .split split_size
        .unfold dimension size step
        .view *size
        torch.split _ split_size_or_sections
        broadcast_to size
        chunk chunks
        kthvalue k
        multinomial num_samples
        narrow dim start length
        repeat_interleave output_size=
        reshape *shape
        roll shifts
        select dim index
        split_with_sizes split_sizes
        tile *dims
        topk k
        tril diagonal
        triu diagonal
        unflatten dim sizes
        .add_ alpha=
        .addcdiv_ value=
        .addcmul_ value=
        .addmm_ beta= alpha=
        .baddbmm_ beta= alpha=
        .sub_ alpha=
        add alpha=
        addcdiv value=
        addcmul value=
        addmm beta= alpha=
        baddbmm beta= alpha=
        sub alpha=
        masked_fill _ value
        index_fill _ _ value
        .masked_fill_ _ value
        .index_fill_ _ _ value
        F.dropout _ p
        F.interpolate _ size
        F.one_hot _ num_classes
        F.pad _ pad
        nn.utils.clip_grad_norm_ _ max_norm
        """
    )
)
"""The parameters that take Python numbers, or tuples of them: a tensor given for one is read.

Most take nothing else; masked_fill and index_fill read it in their kernel (run on a GPU, torch
2.11).
`*size` takes the rest of the positional arguments, `alpha=` is a keyword only, and `_` is not
spoken of. The sizes and ranges of FACTORIES are numbers, too."""

OF_LIBRARIES: dict[str, tuple[str, ...]] = dict(
    _numbers(
        """
        torch_geometric.nn.global_add_pool _ _ size
        torch_geometric.nn.global_max_pool _ _ size
        torch_geometric.nn.global_mean_pool _ _ size
        torch_geometric.utils.scatter _ _ _ dim_size
        torch_scatter.scatter _ _ _ _ dim_size
        torch_scatter.scatter_add _ _ _ _ dim_size
        torch_scatter.scatter_max _ _ _ _ dim_size
        torch_scatter.scatter_mean _ _ _ _ dim_size
        torch_scatter.scatter_min _ _ _ _ dim_size
        torch_scatter.scatter_sum _ _ _ _ dim_size
        torch_scatter.segment_coo _ _ _ dim_size
        """
    )
)
"""The parameters of functions of other libraries that take Python numbers: sizes of results (read
in torch_scatter 2.1.2, scatter.py and segment_coo.py, and torch_geometric 2.7, utils/_scatter.py
and nn/pool/glob.py)."""


SIZES = frozenset(
    """
    dim_size dims length m n num_classes num_samples output_size repeats shape size sizes split_size
    split_size_or_sections split_sizes steps window_length
    """.split()
)
"""Those of these parameters that say how large the result is."""
RANGES = frozenset({"torch.arange", "torch.range"})  # all numbers that they take do


def takes_size(name: str, position: int, keyword: str | None) -> bool:
    """Whether an argument, by keyword or else by position, says how large the result is."""
    parameter = number_parameter(name, position, keyword)
    return parameter in SIZES or (parameter is not None and name in RANGES)


def takes_number(name: str, position: int, keyword: str | None) -> bool:
    """Whether an argument, by keyword or else by position, is a number or a tuple of numbers."""
    return number_parameter(name, position, keyword) is not None


def number_parameter(name: str, position: int, keyword: str | None) -> str | None:
    """The parameter that an argument, by keyword or else by position, is given for, if it takes
    numbers."""
    parameters = NUMBER_PARAMETERS.get(name) or OF_LIBRARIES.get(name, ())
    built = FACTORIES.get(name)
    if built is not None and built.rank != "unknown":  # `x.new(y)` takes data, torch.normal tensors
        parameters = ("*size",) if built.sizes else built.parameters
    if keyword is not None:
        words = {parameter.strip("*=") for parameter in parameters} - NOT_NUMBERS
        return keyword if keyword in words else None
    for index, parameter in enumerate(parameters):
        if parameter.startswith("*") and index <= position:
            return parameter[1:]
        if index == position:
            is_number = parameter not in NOT_NUMBERS and not parameter.endswith("=")
            return parameter if is_number else None
    return None


TAKE_NUMBERS: frozenset[str] = frozenset({*NUMBER_PARAMETERS, *OF_LIBRARIES, *FACTORIES})
"""What has an argument of which `takes_number` may hold."""

COUNTED: dict[str, str] = {
    **dict.fromkeys(names("repeat_interleave"), "output_size"),
    "torch.nn.functional.one_hot": "num_classes",
}
"""What counts on the device to know the shape of its result -> the parameter for that number.

`repeat_interleave` counts only where `repeats` is a tensor. On an H200, with torch 2.11, the calls
wait twice and once, and not at all with the number (benchmarks/results/waits-*.json)."""

DATA_DEPENDENT: dict[str, str] = {
    **dict.fromkeys(
        names(
            "argwhere masked_select nonzero unique unique_consecutive bincount torch.combinations"
        ),
        "",
    ),
    **dict.fromkeys(names("where"), "other"),
    **COUNTED,
}
"""What must read values to know the shape of its result -> the argument that spares it that.
Indexing with a mask reads as well."""

_SECOND = tuple(
    """
    add copysign div divide eq floor_divide fmod ge greater greater_equal gt le less
    less_equal lt mul multiply ne not_equal remainder sub subtract true_divide xlogy
    """.split()
)
TAKES_TENSOR: dict[str, frozenset[int | str]] = {
    **{f"Tensor.{n}{i}": frozenset({0, "other"}) for n in _SECOND for i in ("", "_")},
    **{f"torch.{n}": frozenset({1, "other"}) for n in _SECOND},
    **dict.fromkeys(names(".float_power .pow .pow_"), frozenset({0, "exponent"})),
    **dict.fromkeys(names("torch.float_power torch.pow"), frozenset({0, 1, "exponent"})),
    **dict.fromkeys(names(".clamp .clamp_ .clip .clip_"), frozenset({0, "min", "max"})),
    **dict.fromkeys(names("torch.clamp torch.clip"), frozenset({1, "min", "max"})),
    **dict.fromkeys(names(".clamp_max .clamp_max_"), frozenset({0, "max"})),
    **dict.fromkeys(names(".clamp_min .clamp_min_"), frozenset({0, "min"})),
    "Tensor.fill_": frozenset({0, "value"}),
    "Tensor.lerp": frozenset({1, "weight"}),
    "Tensor.lerp_": frozenset({1, "weight"}),
    "Tensor.where": frozenset({1, "other"}),
    "torch.lerp": frozenset({2, "weight"}),
    "torch.where": frozenset({1, 2, "input", "other"}),
}
"""Operations on tensors that take a number -> the positions and names of those of their arguments
that may be a 0-dim tensor of the same device as well, without reading it.

`alpha=`, `value=` and what factories fill in are read from a tensor, and so is what `masked_fill`
and `index_fill` fill in. `clamp` reads one bound if the other is a number."""

HOST_ATTRIBUTES: frozenset[str] = words_of(
    """
    data_ptr dense_dim device dim dim_order dtype element_size get_device grad_fn is_complex is_conj
    is_contiguous is_cpu is_cuda is_floating_point is_inference is_leaf is_meta is_mps is_nested
    is_pinned is_quantized is_signed is_sparse is_xpu itemsize layout nbytes ndim ndimension
    nelement numel output_nr requires_grad retains_grad shape size storage_offset stride
    """
)
"""Attributes and methods of a tensor that the host knows without asking the device."""
