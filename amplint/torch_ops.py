"""What torch's names return, read back and cast to: data, and lookups of a line or two.

Derived from torch 2.13.0 (CPU wheel) and held against the installed torch by
`tests/test_torch_ops.py`; amplint itself never imports torch.

Keys are canonical dotted names: `torch.zeros`, `torch.nn.functional.linear`, `torch.nn.Linear`
(what calling an instance does), `Tensor.sum` (methods), `Tensor.shape` (attributes) and
`Tensor.__matmul__` (operators). In the families below a bare word stands for a function and the
method of the same name, and a prefix names one thing only:

    abs         torch.abs and Tensor.abs
    .item       Tensor.item
    torch.cat   torch.cat
    F.relu      torch.nn.functional.relu
    linalg.inv  torch.linalg.inv; likewise special. and fft.

The dtype words are about real dtypes; complex tensors are beyond amplint. Two rules hold for all
of RESULTS and are not repeated there: a `dtype=` argument wins over the dtype word, and `out=` is
returned as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# --------------------------------------------------------------------------- results


@dataclass(frozen=True)
class Result:
    """What a call, an attribute or an operator gives.

    Args:
        kind: one of
            "tensor"; "same" (a view or alias of the tensor, not a new one; still a tensor);
            "self" (the very object: in-place); "tensors" (a tuple or list of tensors);
            "host:int|float|number|bool|str|size|numpy|list|object"; "device"; "dtype"; "none".
        rank: of the tensor, or of each tensor: "same"; "scalar" (always 0-dim);
            "scalar-without-dim" (0-dim unless `dim` is given, else unknown);
            "reduction" (0-dim unless reduction="none"); "some" (surely one dimension or more);
            "sizes" (some, unless the sizes given are empty); "broadcast" (0-dim if all tensor
            operands are, some if any is); "unknown".
        dtype: "same" (of the first tensor); "promote" (native type promotion of all operands);
            "promote-float" (the same, integers to the default dtype); "float-of" (integers to the
            default dtype, else same); "long-of" (integers and bool to int64, else same);
            "default" (torch.get_default_dtype()); "arg" (the dtype argument, wherever it stands);
            "unknown"; or the dtype by name: "bool", "int64" ...
        device: "operands", or "cpu"; "arg" where the call names it.
        count: how many tensors, where kind is "tensors" and the number is fixed.
        dtypes: of each of the `count` tensors, where they differ.
        dim: the position of the `dim` argument counted after the tensor (`x.sum(0)`: 0), where
            giving it changes the rank or the kind. A bool there is not a dim (`x.std(False)`).
        by_dim: the result when `dim` is given, where that changes more than the rank.
        tuple_if: keywords that make it a tuple when true (`return_indices`).
    """

    kind: str = "tensor"
    rank: str = "unknown"
    dtype: str = "unknown"
    device: str = "operands"
    count: int | None = None
    dtypes: tuple[str, ...] = ()
    dim: int | None = None
    by_dim: Result | None = None
    tuple_if: tuple[str, ...] = ()


RESULTS: dict[str, Result] = {}

_PREFIXES = {
    "F": "torch.nn.functional",
    "linalg": "torch.linalg",
    "special": "torch.special",
    "fft": "torch.fft",
}


def _names(words: str) -> Iterator[str]:
    """The canonical names a family's words stand for."""
    for word in words.split():
        prefix, dot, name = word.rpartition(".")
        if not dot:
            yield f"torch.{word}"
            yield f"Tensor.{word}"
        elif not prefix:
            yield f"Tensor.{name}"
        else:
            yield f"{_PREFIXES.get(prefix, prefix)}.{name}"


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _family(result: Result, words: str) -> None:
    RESULTS.update(dict.fromkeys(_names(words), result))


# Pointwise, one tensor: rank and dtype stay.
UNARY = """
    abs absolute angle ceil clamp clip clamp_max clamp_min clone conj_physical
    fix floor frac hardshrink logical_not nan_to_num neg negative positive
    relu round sgn sign square trunc bitwise_not
    F.alpha_dropout F.celu F.dropout F.dropout1d F.dropout2d F.dropout3d F.elu
    F.feature_alpha_dropout F.gelu F.gumbel_softmax F.hardshrink F.hardsigmoid F.hardswish
    F.hardtanh F.leaky_relu F.log_softmax F.logsigmoid F.mish F.normalize F.prelu
    F.relu F.relu6 F.rrelu F.selu F.silu F.softmax F.softmin F.softplus F.softshrink F.softsign
    F.tanhshrink F.threshold
    torch.alpha_dropout torch.celu torch.dropout torch.feature_alpha_dropout torch.feature_dropout
    torch.rrelu torch.selu torch.threshold prelu log_softmax softmax
    F.batch_norm F.group_norm F.instance_norm F.layer_norm F.local_response_norm F.rms_norm
    torch.batch_norm torch.group_norm torch.instance_norm torch.layer_norm torch.rms_norm
    masked_fill masked_scatter index_add index_copy index_fill index_put index_reduce
    scatter scatter_add scatter_reduce select_scatter slice_scatter diagonal_scatter
    as_strided_scatter renorm matrix_exp matrix_power tril triu flip fliplr flipud roll rot90
    inverse pinverse cholesky cholesky_inverse msort bernoulli
"""

_family(Result("tensor", "same", "same"), UNARY)

# Pointwise, one tensor, through floating point: integers become the default dtype.
UNARY_FLOAT = """
    acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh cos cosh deg2rad
    digamma erf erfc erfinv exp exp2 expm1 i0 lgamma log log10 log1p log2 logit mvlgamma polygamma
    rad2deg reciprocal rsqrt sigmoid sin sinc sinh sqrt tan tanh
    F.sigmoid F.tanh
    special.airy_ai special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1
    special.digamma special.entr special.erf special.erfc special.erfcx special.erfinv special.exp2
    special.expit special.expm1 special.gammaln special.i0 special.i0e special.i1 special.i1e
    special.log1p special.log_ndtr special.logit special.multigammaln special.ndtr special.ndtri
    special.polygamma special.psi special.sinc
"""
_family(Result("tensor", "same", "float-of"), UNARY_FLOAT)

# Pointwise over several tensors.
BINARY = """
    add addcmul bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
    floor_divide fmax fmin fmod gcd heaviside hypot lcm maximum minimum mul multiply nextafter pow
    remainder sub subtract where lerp logaddexp logaddexp2
    torch.rsub
"""
_family(Result("tensor", "broadcast", "promote"), BINARY)
BINARY_FLOAT = """
    addcdiv arctan2 atan2 copysign div divide float_power igamma igammac ldexp true_divide xlogy
    special.gammainc special.gammaincc special.xlog1py special.xlogy special.zeta
"""
_family(Result("tensor", "broadcast", "promote-float"), BINARY_FLOAT)
_family(Result("tensor", "broadcast", "float64"), "float_power")

COMPARISONS = """
    eq ge greater greater_equal gt isclose le less less_equal logical_and logical_or logical_xor lt
    ne not_equal
"""
_family(Result("tensor", "broadcast", "bool"), COMPARISONS)
PREDICATES = "isfinite isinf isnan isneginf isposinf isreal logical_not signbit torch.isin"
_family(Result("tensor", "same", "bool"), PREDICATES)

# Reductions: 0-dim without a dim.
_family(
    Result("tensor", "scalar-without-dim", "same", dim=0),
    "amax amin mean nanmean",
)
_family(Result("tensor", "scalar-without-dim", "long-of", dim=0), "nansum prod sum")
_family(Result("tensor", "scalar-without-dim", "bool", dim=0), "all any")
_family(Result("tensor", "scalar-without-dim", "int64", dim=0), "argmax argmin count_nonzero")
_family(Result("tensor", "scalar-without-dim", "same", dim=0), "std var")
_family(
    Result("tensor", "scalar-without-dim", "same", dim=1), "norm linalg.norm linalg.vector_norm"
)
_family(Result("tensor", "unknown", "same"), "logsumexp special.logsumexp linalg.matrix_norm")
_family(Result("tensor", "unknown", "same"), "quantile nanquantile")
_family(
    Result(
        "tensor", "scalar-without-dim", "same", dim=0,
        by_dim=Result("tensors", "unknown", "same", count=2, dtypes=("same", "int64")),
    ),
    "max median min nanmedian",
)  # fmt: skip
_family(Result("tensors", "scalar-without-dim", "same", count=2, dim=0), "aminmax")
_family(
    Result("tensors", "scalar-without-dim", "same", count=2, dim=0),
    "torch.std_mean torch.var_mean",
)
_family(
    Result("tensors", "unknown", "same", count=2, dtypes=("same", "int64")),
    "kthvalue mode",
)
_family(
    Result("tensors", "same", "same", count=2, dtypes=("same", "int64")),
    "cummax cummin sort topk",
)
_family(Result("tensor", "same", "int64"), "argsort")
_family(Result("tensor", "same", "long-of"), "cumprod cumsum")
_family(Result("tensor", "same", "same"), "logcumsumexp")
_family(Result("tensor", "scalar", "same"), "trace torch.nuclear_norm")
_family(Result("tensor", "scalar", "promote"), "dist dot vdot")
_family(Result("tensor", "unknown", "same"), "det logdet linalg.det")
_family(Result("tensor", "some", "int64"), "bincount nonzero argwhere")
_family(Result("tensor", "some", "same"), "masked_select histc")
_family(
    Result("tensor", "some", "same", tuple_if=("return_inverse", "return_counts")),
    "unique unique_consecutive",
)

# Products and distances. F.linear gives one dimension or more but for a weight of one dimension.
PRODUCTS = """
    addbmm addmm addmv addr baddbmm bmm ger mm mv outer
    torch.cartesian_prod torch.cdist torch.chain_matmul torch.block_diag linalg.multi_dot
    torch.conv1d torch.conv2d torch.conv3d torch.conv_transpose1d torch.conv_transpose2d
    torch.conv_transpose3d torch.conv_tbc
    F.conv1d F.conv2d F.conv3d F.conv_tbc F.conv_transpose1d F.conv_transpose2d F.conv_transpose3d
    F.linear F.bilinear torch.bilinear F.pdist torch.pdist F.scaled_dot_product_attention
"""
_family(Result("tensor", "some", "promote"), PRODUCTS)
_family(
    Result("tensor", "unknown", "promote"),
    """
    matmul inner kron torch.einsum torch.tensordot linalg.matmul linalg.vecdot
    F.cosine_similarity torch.cosine_similarity F.pairwise_distance torch.pairwise_distance
    """,
)
_family(Result("tensor", "broadcast", "promote"), "cross linalg.cross")

# Losses.
LOSSES = """
    F.binary_cross_entropy F.binary_cross_entropy_with_logits F.cosine_embedding_loss
    F.cross_entropy F.ctc_loss F.gaussian_nll_loss F.hinge_embedding_loss F.huber_loss F.kl_div
    F.l1_loss F.margin_ranking_loss F.mse_loss F.multi_margin_loss F.multilabel_margin_loss
    F.multilabel_soft_margin_loss F.nll_loss F.poisson_nll_loss F.smooth_l1_loss
    F.soft_margin_loss F.triplet_margin_loss F.triplet_margin_with_distance_loss
"""
_family(Result("tensor", "reduction", "same"), LOSSES)

# Pooling, resampling, padding.
POOLING = """
    F.adaptive_avg_pool1d F.adaptive_avg_pool2d F.adaptive_avg_pool3d F.avg_pool1d F.avg_pool2d
    F.avg_pool3d F.lp_pool1d F.lp_pool2d F.lp_pool3d F.max_unpool1d F.max_unpool2d F.max_unpool3d
    F.interpolate F.upsample F.upsample_bilinear F.upsample_nearest F.pad F.pixel_shuffle
    F.pixel_unshuffle F.channel_shuffle F.fold F.unfold F.glu F.grid_sample F.affine_grid
    torch.avg_pool1d torch.adaptive_avg_pool1d torch.pixel_shuffle torch.pixel_unshuffle
    torch.channel_shuffle torch.constant_pad_nd
"""
_family(Result("tensor", "some", "same"), POOLING)
_family(
    Result("tensor", "some", "same", tuple_if=("return_indices",)),
    """
    F.adaptive_max_pool1d F.adaptive_max_pool2d F.adaptive_max_pool3d F.max_pool1d F.max_pool2d
    F.max_pool3d F.fractional_max_pool2d F.fractional_max_pool3d
    torch.max_pool1d torch.max_pool2d torch.max_pool3d
    """,
)
_family(Result("tensor", "some", "unknown"), "F.embedding F.embedding_bag torch.embedding")
_family(Result("tensor", "some", "int64"), "F.one_hot")

# Shapes: views and copies of the same numbers.
_family(
    Result("same", "same", "same"),
    """
    adjoint .contiguous detach .data .H .T .mH .mT moveaxis movedim permute swapaxes swapdims t
    transpose .requires_grad_ .retain_grad .as_subclass conj resolve_conj resolve_neg .pin_memory
    .share_memory_ .view_as .coalesce
    """,
)
_family(
    Result("same", "some", "same"),
    "flatten ravel unsqueeze torch.atleast_1d torch.atleast_2d torch.atleast_3d .unfold",
)
_family(
    Result("same", "sizes", "same"), "reshape .view .expand broadcast_to .reshape_as .expand_as"
)
_family(Result("tensor", "sizes", "same"), ".repeat tile")
_family(
    Result("same", "unknown", "same"),
    "squeeze select narrow diagonal as_strided unflatten .__getitem__ .sum_to_size",
)
_family(Result("tensor", "unknown", "same"), "diag take")
_family(
    Result("tensor", "some", "same"),
    "diag_embed diagflat torch.vander .narrow_copy diff take_along_dim repeat_interleave",
)
_family(Result("tensor", "same", "same"), "gather index_select")
_family(
    Result("tensor", "some", "promote"),
    """
    torch.cat torch.concat torch.concatenate torch.stack torch.hstack torch.vstack torch.dstack
    torch.column_stack torch.row_stack
    """,
)
_family(
    Result("tensors", "some", "same"),
    """
    chunk split split_with_sizes tensor_split unsafe_chunk unsafe_split unsafe_split_with_sizes
    dsplit hsplit vsplit
    """,
)
_family(Result("tensors", "unknown", "same"), "unbind torch.broadcast_tensors torch.meshgrid")

# Casts and moves.
CASTS: dict[str, str] = {
    "bfloat16": "bfloat16",
    "bool": "bool",
    "byte": "uint8",
    "char": "int8",
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
}
for _name, _dtype in CASTS.items():
    RESULTS[f"Tensor.{_name}"] = Result("tensor", "same", _dtype)
MOVES: frozenset[str] = frozenset(_names(".to .type .cpu .cuda .ipu .mtia .xpu"))
"""The methods that may change the device (and dtype); what they do is in their arguments."""
_family(Result("tensor", "same", "arg", device="arg"), ".to .type")
_family(Result("tensor", "same", "same", device="arg"), ".cuda .xpu .mtia .ipu")
_family(Result("tensor", "same", "same", device="cpu"), ".cpu")
_family(Result("tensor", "same", "arg"), ".type_as")

# What never is a tensor.
_family(Result("host:number"), ".item")
_family(Result("host:list"), ".tolist")
_family(Result("host:numpy"), ".numpy .__array__")
_family(Result("host:size"), ".shape .size .stride")
_family(
    Result("host:int"),
    """
    numel .dim .element_size .get_device .itemsize .nbytes .ndim .ndimension .nelement
    .storage_offset .data_ptr .output_nr .__len__ .dense_dim .sparse_dim .__index__ .__int__
    """,
)
_family(Result("host:float"), ".__float__")
_family(
    Result("host:bool"),
    """
    allclose equal is_complex is_conj is_floating_point is_inference is_nonzero is_signed
    is_same_size torch.is_tensor .is_contiguous .is_pinned .is_shared .is_coalesced .is_cuda .is_cpu
    .is_leaf .is_meta .is_mps .is_xpu .is_xla .is_sparse .is_quantized .is_nested .requires_grad
    .retains_grad .__bool__ .__contains__
    """,
)
_family(Result("device"), ".device")
_family(Result("dtype"), ".dtype torch.result_type torch.promote_types torch.get_default_dtype")
_family(Result("host:object"), ".layout .grad_fn .register_hook .storage .untyped_storage")
_family(Result("host:str"), ".__format__ .__repr__")
_family(Result("none"), ".backward .record_stream .name")
_family(Result("tensor", "same", "same"), ".grad")
_family(Result("same", "same", "same"), ".real .imag")

# In place: the very object comes back.
IN_PLACE = """
    abs_ absolute_ acos_ acosh_ add_ addbmm_ addcdiv_ addcmul_ addmm_ addmv_ addr_ apply_ arccos_
    arccosh_ arcsin_ arcsinh_ arctan2_ arctan_ arctanh_ as_strided_ asin_ asinh_ atan2_ atan_ atanh_
    baddbmm_ bernoulli_ bitwise_and_ bitwise_left_shift_ bitwise_not_ bitwise_or_
    bitwise_right_shift_ bitwise_xor_ cauchy_ ceil_ clamp_ clamp_max_ clamp_min_ clip_
    conj_physical_ copy_ copysign_ cos_ cosh_ cumprod_ cumsum_ deg2rad_ detach_ digamma_ div_
    divide_ eq_ erf_ erfc_ erfinv_ exp2_ exp_ expm1_ exponential_ fill_ fill_diagonal_ fix_
    float_power_ floor_ floor_divide_ fmod_ frac_ gcd_ ge_ geometric_ greater_ greater_equal_ gt_
    heaviside_ hypot_ i0_ igamma_ igammac_ index_add_ index_copy_ index_fill_ index_put_
    index_reduce_ lcm_ ldexp_ le_ lerp_ less_ less_equal_ lgamma_ log10_ log1p_ log2_ log_
    log_normal_ logical_and_ logical_not_ logical_or_ logical_xor_ logit_ lt_ map2_ map_
    masked_fill_ masked_scatter_ mul_ multiply_ mvlgamma_ nan_to_num_ ne_ neg_ negative_ nextafter_
    normal_ not_equal_ polygamma_ pow_ put_ rad2deg_ random_ reciprocal_ relu_ remainder_ renorm_
    requires_grad_ resize_ resize_as_ round_ rsqrt_ scatter_ scatter_add_ scatter_reduce_ set_ sgn_
    share_memory_ sigmoid_ sign_ sin_ sinc_ sinh_ sqrt_ square_ squeeze_ sub_ subtract_ swapaxes_
    swapdims_ t_ tan_ tanh_ transpose_ tril_ triu_ true_divide_ trunc_ uniform_ unsqueeze_ xlogy_
    zero_
    __iadd__ __iand__ __ifloordiv__ __ilshift__ __imod__ __imul__ __ior__ __ipow__ __irshift__
    __isub__ __itruediv__ __ixor__
"""
_family(Result("self", "same", "same"), " ".join(f".{name}" for name in IN_PLACE.split()))

# --------------------------------------------------------------------------- operators

OPERATORS: dict[str, str] = {
    "Add": "__add__",
    "Sub": "__sub__",
    "Mult": "__mul__",
    "MatMult": "__matmul__",
    "Div": "__truediv__",
    "FloorDiv": "__floordiv__",
    "Mod": "__mod__",
    "Pow": "__pow__",
    "LShift": "__lshift__",
    "RShift": "__rshift__",
    "BitAnd": "__and__",
    "BitOr": "__or__",
    "BitXor": "__xor__",
    "USub": "__neg__",
    "UAdd": "__pos__",
    "Invert": "__invert__",
    "Not": "__bool__",
    "Eq": "__eq__",
    "NotEq": "__ne__",
    "Lt": "__lt__",
    "LtE": "__le__",
    "Gt": "__gt__",
    "GtE": "__ge__",
    "In": "__contains__",
    "NotIn": "__contains__",
}
"""The class of an `ast` operator -> the method that Python calls on the left operand."""

_BINARY_OPERATORS = (
    "Add", "Sub", "Mult", "MatMult", "Div", "FloorDiv", "Mod", "Pow", "LShift", "RShift", "BitAnd",
    "BitOr", "BitXor",
)  # fmt: skip
REFLECTED: dict[str, str] = {op: f"__r{OPERATORS[op][2:]}" for op in _BINARY_OPERATORS}
AUGMENTED: dict[str, str] = {op: f"__i{OPERATORS[op][2:]}" for op in _BINARY_OPERATORS}
"""`x += y`. There is no `__imatmul__`: `x @= y` builds a new tensor as `x @ y` does."""

for _op in _BINARY_OPERATORS:
    for _dunder in (OPERATORS[_op], REFLECTED[_op]):
        _kind = "promote-float" if _op == "Div" else "promote"
        RESULTS[f"Tensor.{_dunder}"] = Result("tensor", "broadcast", _kind)
for _dunder in ("__matmul__", "__rmatmul__"):
    RESULTS[f"Tensor.{_dunder}"] = Result("tensor", "unknown", "promote")
for _dunder in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    RESULTS[f"Tensor.{_dunder}"] = Result("tensor", "broadcast", "bool")
for _dunder in ("__neg__", "__pos__", "__invert__", "__abs__"):
    RESULTS[f"Tensor.{_dunder}"] = Result("tensor", "same", "same")

# --------------------------------------------------------------------------- factories


@dataclass(frozen=True)
class Factory:
    """A call that builds a tensor from something else.

    Args:
        dtype: without `dtype=`: "default"; "like" (of the tensor argument); "fill" (of the fill
            value: bool, int64 or default); "numbers" (int64 if all are ints, else default);
            "data" (of the data: a tensor's or array's own, of Python numbers as "numbers");
            "unknown"; or by name.
        parameters: the positional names, in order.
        rank: "sizes" (0-dim for empty sizes, else some), "some", "like", "data", "scalar".
        sizes: whether the sizes may be given as separate arguments.
        takes_dtype, takes_device: whether there is such a keyword.
        values: "exact" (the same on every device); "rounded" (the last bit may differ);
            "random" (the stream of the device); "none" (uninitialised).
        device: without `device=`: "cpu", or "like" (of the tensor argument).
    """

    dtype: str
    parameters: tuple[str, ...]
    rank: str = "sizes"
    sizes: bool = False
    takes_dtype: bool = True
    takes_device: bool = True
    values: str = "exact"
    device: str = "cpu"

    @property
    def deterministic(self) -> bool:
        """Whether building it on the device gives what building it elsewhere and moving gives."""
        return self.values in ("exact", "none")


def _like(values: str, *parameters: str) -> Factory:
    return Factory("like", ("input", *parameters), "like", values=values, device="like")


def _new(values: str, *parameters: str, sizes: bool = False) -> Factory:
    return Factory("like", parameters, "sizes", sizes, values=values, device="like")


def _window(*parameters: str) -> Factory:
    return Factory("default", parameters, "some", values="rounded")


FACTORIES: dict[str, Factory] = {
    "torch.arange": Factory("numbers", ("start", "end", "step"), "some"),
    "torch.as_tensor": Factory("data", ("data", "dtype", "device"), "data"),
    "torch.asarray": Factory("data", ("obj",), "data"),
    "torch.empty": Factory("default", ("size",), sizes=True, values="none"),
    "torch.eye": Factory("default", ("n", "m"), "some"),
    "torch.from_numpy": Factory(
        "data", ("ndarray",), "data", takes_dtype=False, takes_device=False
    ),
    "torch.frombuffer": Factory("arg", ("buffer",), "some", takes_device=False),
    "torch.full": Factory("fill", ("size", "fill_value")),
    "torch.linspace": Factory("default", ("start", "end", "steps"), "some", values="rounded"),
    "torch.logspace": Factory(
        "default", ("start", "end", "steps", "base"), "some", values="rounded"
    ),
    "torch.normal": Factory("unknown", ("mean", "std", "size"), "unknown", values="random"),
    "torch.ones": Factory("default", ("size",), sizes=True),
    "torch.rand": Factory("default", ("size",), sizes=True, values="random"),
    "torch.randint": Factory("int64", ("low", "high", "size"), values="random"),
    "torch.randn": Factory("default", ("size",), sizes=True, values="random"),
    "torch.randperm": Factory("int64", ("n",), "some", values="random"),
    "torch.range": Factory("default", ("start", "end", "step"), "some", values="rounded"),
    "torch.scalar_tensor": Factory("default", ("s",), "scalar"),
    "torch.tensor": Factory("data", ("data",), "data"),
    "torch.tril_indices": Factory("int64", ("row", "col", "offset"), "some"),
    "torch.triu_indices": Factory("int64", ("row", "col", "offset"), "some"),
    "torch.zeros": Factory("default", ("size",), sizes=True),
    # Of another tensor's shape, dtype and device.
    "torch.empty_like": _like("none"),
    "torch.full_like": _like("exact", "fill_value"),
    "torch.ones_like": _like("exact"),
    "torch.rand_like": _like("random"),
    "torch.randint_like": _like("random", "low", "high"),
    "torch.randn_like": _like("random"),
    "torch.zeros_like": _like("exact"),
    "Tensor.new_empty": _new("none", "size", sizes=True),
    "Tensor.new_full": _new("exact", "size", "fill_value"),
    "Tensor.new_ones": _new("exact", "size", sizes=True),
    "Tensor.new_tensor": Factory("like", ("data",), "data", device="like"),
    "Tensor.new_zeros": _new("exact", "size", sizes=True),
    # Windows.
    "torch.bartlett_window": _window("window_length", "periodic"),
    "torch.blackman_window": _window("window_length", "periodic"),
    "torch.hamming_window": _window("window_length", "periodic", "alpha", "beta"),
    "torch.hann_window": _window("window_length", "periodic"),
    "torch.kaiser_window": _window("window_length", "periodic", "beta"),
}

# --------------------------------------------------------------------------- autocast

# Policies: "half" (inputs to the region's dtype), "fp32" (inputs to float32), "banned" (raises),
# "fp32-unless-dtype" (float32 unless dtype= is given), "promote" (inputs to the widest of them).
_CUDA = {
    "half": """
        addbmm addmm addmv addr baddbmm bmm matmul mm mv prelu
        .__matmul__ .__rmatmul__
        torch.chain_matmul torch.conv1d torch.conv2d torch.conv3d torch.conv_tbc
        torch.conv_transpose1d torch.conv_transpose2d torch.conv_transpose3d torch.einsum
        linalg.matmul linalg.multi_dot linalg.vecdot
        F.conv1d F.conv2d F.conv3d F.conv_tbc F.conv_transpose1d F.conv_transpose2d
        F.conv_transpose3d F.linear F.prelu F.scaled_dot_product_attention
        torch.nn.Linear torch.nn.Conv1d torch.nn.Conv2d torch.nn.Conv3d torch.nn.ConvTranspose1d
        torch.nn.ConvTranspose2d torch.nn.ConvTranspose3d torch.nn.PReLU torch.nn.MultiheadAttention
        torch.nn.LSTM torch.nn.GRU torch.nn.RNN torch.nn.LSTMCell torch.nn.GRUCell torch.nn.RNNCell
        torch.nn.LazyLinear
    """,
    "fp32": """
        acos arccos arcsin asin cosh dist erfinv exp expm1 log log10 log1p log2 logsumexp
        pow reciprocal renorm rsqrt sinh square tan
        .__pow__ .__rpow__ .__rtruediv__
        torch.cdist torch.pdist torch.cosine_similarity torch.group_norm torch.layer_norm
        torch.rms_norm torch.pairwise_distance torch.nuclear_norm
        special.erfinv special.expm1 special.log1p special.logsumexp
        F.cosine_similarity F.gumbel_softmax F.group_norm F.interpolate F.layer_norm
        F.local_response_norm F.normalize F.pairwise_distance F.pdist F.rms_norm F.softplus
        F.upsample F.upsample_bilinear F.upsample_nearest
        F.binary_cross_entropy_with_logits F.cosine_embedding_loss F.cross_entropy
        F.hinge_embedding_loss F.huber_loss F.kl_div F.l1_loss F.margin_ranking_loss F.mse_loss
        F.multi_margin_loss F.multilabel_margin_loss F.nll_loss F.poisson_nll_loss F.smooth_l1_loss
        F.soft_margin_loss F.triplet_margin_loss
        torch.nn.LayerNorm torch.nn.GroupNorm torch.nn.RMSNorm torch.nn.Softplus
        torch.nn.CosineSimilarity torch.nn.PairwiseDistance torch.nn.LocalResponseNorm
        torch.nn.Upsample torch.nn.UpsamplingBilinear2d torch.nn.UpsamplingNearest2d
        torch.nn.BCEWithLogitsLoss torch.nn.CosineEmbeddingLoss torch.nn.CrossEntropyLoss
        torch.nn.HingeEmbeddingLoss torch.nn.HuberLoss torch.nn.KLDivLoss torch.nn.L1Loss
        torch.nn.MarginRankingLoss torch.nn.MSELoss torch.nn.MultiMarginLoss
        torch.nn.MultiLabelMarginLoss torch.nn.NLLLoss torch.nn.PoissonNLLLoss
        torch.nn.SmoothL1Loss torch.nn.SoftMarginLoss torch.nn.TripletMarginLoss
    """,
    "fp32-unless-dtype": """
        cumprod cumsum log_softmax norm prod softmax sum
        linalg.matrix_norm linalg.norm linalg.vector_norm special.log_softmax special.softmax
        F.log_softmax F.softmax F.softmin
        torch.nn.Softmax torch.nn.Softmin torch.nn.LogSoftmax torch.nn.Softmax2d
    """,
    "promote": """
        addcdiv addcmul arctan2 atan2 cross dot index_put inner scatter_add vdot
        torch.tensordot torch.bilinear torch.grid_sampler linalg.cross F.bilinear F.grid_sample
        torch.nn.Bilinear
    """,
    "banned": "F.binary_cross_entropy torch.nn.BCELoss",
}
_CPU = {
    "half": """
        addbmm addmm baddbmm bmm matmul mm prelu .__matmul__ .__rmatmul__
        torch.conv1d torch.conv2d torch.conv3d torch.conv_tbc torch.conv_transpose1d
        torch.conv_transpose2d torch.conv_transpose3d torch.einsum linalg.matmul linalg.vecdot
        F.conv1d F.conv2d F.conv3d F.conv_tbc F.conv_transpose1d F.conv_transpose2d
        F.conv_transpose3d F.linear F.prelu F.scaled_dot_product_attention
        torch.nn.Linear torch.nn.Conv1d torch.nn.Conv2d torch.nn.Conv3d torch.nn.ConvTranspose1d
        torch.nn.ConvTranspose2d torch.nn.ConvTranspose3d torch.nn.PReLU torch.nn.MultiheadAttention
        torch.nn.LSTM torch.nn.LazyLinear
    """,
    "fp32": """
        cholesky cholesky_inverse cholesky_solve geqrf inverse nanquantile pinverse prod qr quantile
        stft svd trace triangular_solve torch.cdist torch.polar torch.view_as_complex
        linalg.cholesky linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.inv
        linalg.lstsq linalg.matrix_rank linalg.qr linalg.solve linalg.svd linalg.svdvals
        F.adaptive_avg_pool3d F.adaptive_max_pool3d F.avg_pool3d F.max_pool3d F.max_unpool2d
        F.max_unpool3d F.fractional_max_pool2d F.fractional_max_pool3d F.grid_sample
        F.binary_cross_entropy F.binary_cross_entropy_with_logits F.cosine_embedding_loss
        F.cross_entropy F.ctc_loss F.hinge_embedding_loss F.huber_loss F.kl_div F.l1_loss
        F.margin_ranking_loss F.mse_loss F.multi_margin_loss F.multilabel_margin_loss F.nll_loss
        F.poisson_nll_loss F.smooth_l1_loss F.soft_margin_loss F.triplet_margin_loss
        torch.nn.AvgPool3d torch.nn.MaxPool3d torch.nn.BCELoss torch.nn.BCEWithLogitsLoss
        torch.nn.CosineEmbeddingLoss torch.nn.CrossEntropyLoss torch.nn.CTCLoss
        torch.nn.HingeEmbeddingLoss torch.nn.HuberLoss torch.nn.KLDivLoss torch.nn.L1Loss
        torch.nn.MarginRankingLoss torch.nn.MSELoss torch.nn.MultiMarginLoss
        torch.nn.MultiLabelMarginLoss torch.nn.NLLLoss torch.nn.PoissonNLLLoss
        torch.nn.SmoothL1Loss torch.nn.SoftMarginLoss torch.nn.TripletMarginLoss
    """,
    "promote": "index_copy torch.cat torch.concat torch.concatenate torch.stack",
}
AUTOCAST: dict[str, dict[str, str]] = {
    device: {name: policy for policy, words in table.items() for name in _names(words)}
    for device, table in (("cuda", _CUDA), ("cpu", _CPU))
}

# --------------------------------------------------------------------------- modules


@dataclass(frozen=True)
class ModuleFacts:
    """What calling an instance of a torch.nn class gives outside autocast.

    Args:
        kind: "module"; "criterion" (0-dim unless reduction="none"); "container".
        dtype: "same" (of the input, and where there are parameters those must agree);
            "param" (of the parameters, whatever the input); "unknown".
        rank: "same", "some", "reduction", "unknown".
        returns: "tensor", or "tensors" (LSTM, MultiheadAttention ...), or "any".
    """

    kind: str = "module"
    dtype: str = "same"
    rank: str = "same"
    returns: str = "tensor"


def _modules(facts: ModuleFacts, words: str) -> None:
    MODULES.update({f"torch.nn.{word}": facts for word in words.split()})


MODULES: dict[str, ModuleFacts] = {}
_modules(
    ModuleFacts(),
    """
    AlphaDropout BatchNorm1d BatchNorm2d BatchNorm3d CELU Dropout Dropout1d Dropout2d Dropout3d ELU
    FeatureAlphaDropout GELU GroupNorm Hardshrink Hardsigmoid Hardswish Hardtanh InstanceNorm1d
    InstanceNorm2d InstanceNorm3d LayerNorm LeakyReLU LocalResponseNorm LogSigmoid LogSoftmax Mish
    PReLU RMSNorm RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmax2d Softmin Softplus Softshrink
    Softsign SyncBatchNorm Tanh Tanhshrink Threshold Identity
    LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyInstanceNorm1d LazyInstanceNorm2d
    LazyInstanceNorm3d
    """,
)
_modules(
    ModuleFacts(rank="some"),
    """
    AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d
    AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d Bilinear ChannelShuffle CircularPad1d
    CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d Conv1d Conv2d Conv3d
    ConvTranspose1d ConvTranspose2d ConvTranspose3d Flatten Fold FractionalMaxPool2d
    FractionalMaxPool3d GLU GRUCell LPPool1d LPPool2d LPPool3d LazyConv1d LazyConv2d LazyConv3d
    LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyLinear Linear MaxPool1d
    MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d PixelShuffle PixelUnshuffle RNNCell
    ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d
    ReplicationPad3d Unflatten Unfold Upsample UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d
    ZeroPad2d ZeroPad3d Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder
    TransformerEncoderLayer
    """,
)
_modules(ModuleFacts(rank="unknown"), "CosineSimilarity PairwiseDistance")
_modules(ModuleFacts(dtype="param", rank="some"), "Embedding EmbeddingBag")
_modules(ModuleFacts(rank="some", returns="tensors"), "GRU LSTM LSTMCell MultiheadAttention RNN")
_modules(
    ModuleFacts("criterion", rank="reduction"),
    """
    BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss GaussianNLLLoss
    HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss MSELoss MarginRankingLoss MultiLabelMarginLoss
    MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss NLLLoss2d PoissonNLLLoss SmoothL1Loss
    SoftMarginLoss TripletMarginLoss TripletMarginWithDistanceLoss
    """,
)
_modules(
    ModuleFacts("container", "unknown", "unknown", "any"),
    "DataParallel Module ModuleDict ModuleList ParameterDict ParameterList Sequential",
)

# --------------------------------------------------------------------------- host reads

HOST_READS: dict[str, str] = {
    "Tensor.item": "copies one number to the host and waits for the device",
    "Tensor.tolist": "copies every element to the host and waits for the device",
    "Tensor.cpu": "copies the tensor to the host and waits for the device",
    "Tensor.numpy": "reads the tensor on the host",
    "Tensor.__bool__": "reads the value on the host and waits for the device",
    "Tensor.__contains__": "reads the value on the host and waits for the device",
    "Tensor.__float__": "reads the value on the host and waits for the device",
    "Tensor.__int__": "reads the value on the host and waits for the device",
    "Tensor.__index__": "reads the value on the host and waits for the device",
    "Tensor.__array__": "reads the tensor on the host",
    "Tensor.__format__": "reads the value on the host and waits for the device",
    "Tensor.__repr__": "reads the value on the host and waits for the device",
    "Tensor.equal": "reads the answer on the host and waits for the device",
    "Tensor.allclose": "reads the answer on the host and waits for the device",
    "Tensor.is_nonzero": "reads the value on the host and waits for the device",
    "torch.equal": "reads the answer on the host and waits for the device",
    "torch.allclose": "reads the answer on the host and waits for the device",
    "torch.is_nonzero": "reads the value on the host and waits for the device",
}
"""What reads the device back -> the words that say so, to follow the name in a message."""

BUILTIN_READS: frozenset[str] = _set(
    "bool complex float int str repr format print round bytes hex oct bin divmod range"
)
"""Builtins that read the value of a tensor argument."""

ELEMENT_READS: frozenset[str] = frozenset({"all", "any", "max", "min", "sorted"})
"""Builtins that read a tensor argument element by element."""

NUMPY_READS: frozenset[str] = frozenset({"numpy.array", "numpy.asarray", "numpy.ascontiguousarray"})

HOST_ATTRIBUTES: frozenset[str] = _set(
    """
    device dtype element_size get_device is_complex is_contiguous is_cpu is_cuda is_floating_point
    is_leaf is_meta is_mps is_pinned is_sparse is_xpu itemsize layout nbytes ndim ndimension
    nelement numel requires_grad shape size stride storage_offset dim grad_fn data_ptr
    """
)
"""Attributes and methods of a tensor that the host knows without asking the device."""

# --------------------------------------------------------------------------- lookups


def policy(name: str, device: str | None) -> str | None:
    """The autocast policy of a name in a region on that device; other accelerators as cuda."""
    return AUTOCAST["cpu" if device == "cpu" else "cuda"].get(name)
