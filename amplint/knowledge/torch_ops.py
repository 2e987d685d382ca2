"""What torch's names return, read back and cast to: data, and lookups of a line or two.

Derived from torch 2.13.0 (CPU wheel) and held against the installed torch by
`tests/oracles/test_torch_ops.py`; amplint itself never imports torch.

Keys are canonical dotted names: `torch.zeros`, `torch.nn.functional.linear`, `torch.nn.Linear`
(what calling an instance does), `Tensor.sum` (methods), `Tensor.shape` (attributes) and
`Tensor.__matmul__` (operators).
In the families below a bare word stands for a function and the method of the same name, and a
prefix names one thing only:

    abs         torch.abs and Tensor.abs
    .item       Tensor.item
    torch.cat   torch.cat
    F.relu      torch.nn.functional.relu
    linalg.inv  torch.linalg.inv; likewise fft. nn. and special.

The dtype words are about real dtypes; complex tensors are beyond amplint. Three rules hold for all
of RESULTS and are not repeated there: a `dtype=` argument (or a dtype among the positional ones)
wins over the dtype word, `out=` is returned as it is, and autocast comes first: inside a region
look at AUTOCAST before RESULTS.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_PREFIXES = {
    "F": "torch.nn.functional",
    "fft": "torch.fft",
    "linalg": "torch.linalg",
    "nn": "torch.nn",
    "special": "torch.special",
}


def names(words: str) -> Iterator[str]:
    """The canonical names that a family's words stand for."""
    for word in words.split():
        prefix, dot, name = word.partition(".")
        if not dot:
            yield f"torch.{word}"
            yield f"Tensor.{word}"
        elif not prefix:
            yield f"Tensor.{name}"
        else:
            yield f"{_PREFIXES.get(prefix, prefix)}.{name}"


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# --------------------------------------------------------------------------- results


@dataclass(frozen=True)
class Result:
    """What a call, an attribute or an operator gives.

    Args:
        kind: "tensor"; "same" (a view or alias of the tensor, where it can be); "self" (the very
            object: in-place); "tensors" (a tuple or list of them); "host:bool", "host:float",
            "host:int", "host:list", "host:number", "host:numpy", "host:object", "host:size",
            "host:str"; "device"; "dtype"; "none".
        rank: of the tensor, or of each: "same" (as the first tensor's); "scalar" (0-dim);
            "scalar-without-dim" (0-dim unless `dim` is given, then unknown); "reduction" (0-dim
            unless reduction="none"); "some" (one dimension or more); "sizes" (some, unless the
            sizes given are empty); "broadcast" (the most of all tensor operands); "unknown".
        dtype: "same" (as the first tensor's); "promote" (native promotion of all operands,
            numbers included); "promote-float" (the same, integers to the default dtype);
            "float-of" (integers to the default dtype, else same); "long-of" (integers and bool to
            int64, else same); "default" (torch.get_default_dtype()); "arg" (the dtype, or the
            tensor, among the arguments; else same); "unknown"; or a dtype by name ("int64").
        device: "operands"; "cpu"; "arg" (the arguments name it, else that of the operands).
        count: how many tensors, where kind is "tensors" and the number is fixed.
        dtypes: the dtype word of each of the `count` tensors, where they differ.
        dim: where `dim` may stand among the positional arguments after the tensor (`x.sum(0)`: 0);
            None if it is a keyword only. A bool there is no dim (`x.std(False)`).
        by_dim: the result when a dim is given, where that changes more than the rank.
        by_tensor: the result when a tensor stands in the place of the dim (`x.max(y)`).
        alone: the result when one tensor is all that is given (`torch.where(mask)`).
        tuple_if: keywords that make it a tuple when true (`return_indices`).
        names: of the `count` tensors, where the tuple is a named one (torch.return_types).
    """

    kind: str = "tensor"
    rank: str = "unknown"
    dtype: str = "unknown"
    device: str = "operands"
    count: int | None = None
    dtypes: tuple[str, ...] = ()
    dim: int | None = None
    by_dim: Result | None = None
    by_tensor: Result | None = None
    alone: Result | None = None
    tuple_if: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


RESULTS: dict[str, Result] = {}


def _family(result: Result, words: str) -> None:
    RESULTS.update(dict.fromkeys(names(words), result))


# Pointwise on one tensor, integers stay integers.
_family(
    Result("tensor", "same", "same"),
    """
    abs absolute bernoulli bitwise_not ceil clone conj_physical fix floor frac hardshrink index_fill
    masked_fill nan_to_num neg negative positive put relu round sgn sign square trunc
    .__abs__ .__invert__ .__neg__ .__pos__
    torch.alpha_dropout torch.binomial torch.celu torch.dropout
    torch.fake_quantize_per_channel_affine torch.fake_quantize_per_tensor_affine
    torch.feature_alpha_dropout torch.feature_dropout torch.fill torch.poisson torch.rrelu
    torch.selu torch.threshold
    F.alpha_dropout F.celu F.dropout F.dropout1d F.dropout2d F.dropout3d F.elu
    F.feature_alpha_dropout F.gelu F.hardshrink F.hardsigmoid F.hardswish F.hardtanh F.leaky_relu
    F.logsigmoid F.mish F.relu F.relu6 F.rrelu F.selu F.silu F.softplus F.softshrink F.threshold
    special.round
    """,
)
# Pointwise on one tensor, through floating point.
_family(
    Result("tensor", "same", "float-of"),
    """
    acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh cos cosh
    deg2rad digamma erf erfc erfinv exp exp2 expm1 i0 lgamma log log10 log1p log2 logit mvlgamma
    polygamma rad2deg reciprocal rsqrt sigmoid sin sinc sinh sqrt tan tanh
    F.sigmoid F.softsign F.tanh F.tanhshrink
    special.airy_ai special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1
    special.digamma special.entr special.erf special.erfc special.erfcx special.erfinv special.exp2
    special.expit special.expm1 special.gammaln special.i0 special.i0e special.i1 special.i1e
    special.log1p special.log_ndtr special.logit special.modified_bessel_i0
    special.modified_bessel_i1 special.modified_bessel_k0 special.modified_bessel_k1
    special.multigammaln special.ndtr special.ndtri special.polygamma special.psi
    special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1 special.sinc
    special.spherical_bessel_j0
    """,
)
# Along a dimension, or over windows of the same size: rank and dtype stay.
_family(
    Result("tensor", "same", "same"),
    """
    log_softmax logcumsumexp prelu renorm softmax
    F.gumbel_softmax F.log_softmax F.normalize F.prelu F.softmax F.softmin
    special.log_softmax special.softmax
    """,
)
_family(Result("tensor", "same", "long-of"), "cumprod cumsum")
_family(
    Result("tensor", "some", "same"),
    """
    torch.batch_norm torch.group_norm torch.instance_norm torch.layer_norm torch.rms_norm
    F.batch_norm F.group_norm F.instance_norm F.layer_norm F.rms_norm
    """,
)
_family(Result("tensor", "some", "float-of"), "F.local_response_norm torch.cumulative_trapezoid")
_family(Result("tensors", "same", "float-of"), "torch.gradient")
_family(Result("tensor", "same", "int64"), "argsort")
_VALUES_AND_INDICES = ("values", "indices")
_family(
    Result(
        "tensors",
        "same",
        "same",
        count=2,
        dtypes=("same", "int64"),
        names=_VALUES_AND_INDICES,
    ),
    "cummax cummin sort topk",
)
_family(Result("tensors", "same", "same", count=2, dtypes=("same", "int32")), "frexp")
_family(Result("tensor", "same", "same"), "msort")

# Pointwise on several operands.
_family(
    Result("tensor", "broadcast", "promote"),
    """
    add addcmul bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor clamp
    clamp_max clamp_min clip floor_divide fmax fmin fmod gcd heaviside hypot lcm lerp logaddexp
    logaddexp2 maximum minimum mul multiply nextafter pow remainder sub subtract
    .__add__ .__and__ .__floordiv__ .__lshift__ .__mod__ .__mul__ .__or__ .__pow__ .__radd__
    .__rand__ .__rfloordiv__ .__rlshift__ .__rmod__ .__rmul__ .__ror__ .__rpow__ .__rrshift__
    .__rshift__ .__rsub__ .__rxor__ .__sub__ .__xor__
    torch.rsub
    """,
)
_family(
    Result("tensor", "broadcast", "promote-float"),
    """
    addcdiv arctan2 atan2 copysign div divide igamma igammac ldexp true_divide xlogy
    .__rtruediv__ .__truediv__
    special.chebyshev_polynomial_t special.chebyshev_polynomial_u special.chebyshev_polynomial_v
    special.chebyshev_polynomial_w special.gammainc special.gammaincc special.hermite_polynomial_h
    special.hermite_polynomial_he special.laguerre_polynomial_l special.legendre_polynomial_p
    special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u
    special.shifted_chebyshev_polynomial_v special.shifted_chebyshev_polynomial_w special.xlog1py
    special.xlogy special.zeta
    """,
)
_family(Result("tensor", "broadcast", "float64"), "float_power")
_family(
    Result("tensor", "broadcast", "promote", alone=Result("tensors", "some", "int64")),
    "where",
)

# Comparisons and tests.
_family(
    Result("tensor", "broadcast", "bool"),
    """
    eq ge greater greater_equal gt isclose le less less_equal logical_and logical_or logical_xor lt
    ne not_equal
    .__eq__ .__ge__ .__gt__ .__le__ .__lt__ .__ne__
    """,
)
_family(
    Result("tensor", "same", "bool"),
    "isfinite isinf isnan isneginf isposinf isreal logical_not signbit torch.isin",
)

# Reductions.
_family(Result("tensor", "scalar-without-dim", "same", dim=0), "amax amin mean nanmean std var")
_family(Result("tensor", "scalar-without-dim", "long-of", dim=0), "nansum prod sum")
_family(Result("tensor", "scalar-without-dim", "bool", dim=0), "all any")
_family(Result("tensor", "scalar-without-dim", "int64", dim=0), "argmax argmin count_nonzero")
_family(
    Result("tensor", "scalar-without-dim", "same", dim=1), "norm linalg.norm linalg.vector_norm"
)
_family(Result("tensor", "scalar-without-dim", "uint64", dim=0), "hash_tensor")
_VALUES_AND_PLACES = Result(
    "tensors",
    "unknown",
    "same",
    count=2,
    dtypes=("same", "int64"),
    names=_VALUES_AND_INDICES,
)
_EXTREMUM = Result("tensor", "scalar-without-dim", "same", dim=0, by_dim=_VALUES_AND_PLACES)
_family(_EXTREMUM, "median nanmedian")
_family(
    Result(
        "tensor",
        "scalar-without-dim",
        "same",
        dim=0,
        by_dim=_VALUES_AND_PLACES,
        by_tensor=Result("tensor", "broadcast", "promote"),
    ),
    "max min",
)
_family(Result("tensors", "scalar-without-dim", "same", count=2), "aminmax")
_family(
    Result("tensors", "scalar-without-dim", "same", count=2, dim=0),
    "torch.std_mean torch.var_mean",
)
_family(_VALUES_AND_PLACES, "kthvalue mode")
_family(Result("tensor", "scalar", "long-of"), "trace")
_family(Result("tensor", "scalar", "promote"), "dist dot vdot")
_family(
    Result("tensor", "unknown", "same"),
    "nanquantile quantile torch.norm_except_dim torch.nuclear_norm linalg.matrix_norm",
)
_family(
    Result("tensor", "unknown", "float-of"),
    "logsumexp special.logsumexp torch.trapezoid torch.trapz",
)

# Where the values decide the shape: a device must wait for them (DATA_DEPENDENT).
_family(Result("tensor", "some", "int64"), "argwhere")
_family(Result("tensor", "some", "int64", tuple_if=("as_tuple",)), "nonzero")
_family(Result("tensor", "some", "same"), "masked_select")
_family(
    Result("tensor", "some", "same", tuple_if=("return_inverse", "return_counts")),
    "unique unique_consecutive",
)
_family(Result("tensor", "some", "int64"), "bincount")
_family(Result("tensor", "some", "int64"), "F.one_hot")
_family(Result("tensor", "some", "int64"), "multinomial nonzero_static")
_family(Result("tensor", "some", "same"), "histc")
_family(Result("tensors", "some", "same", count=2), "histogram")
_family(Result("tensor", "same", "int64"), "torch.bucketize")
_family(Result("tensor", "unknown", "int64"), "torch.searchsorted")

# Products and distances. Where the word is "same", operands of different dtypes raise.
# F.linear gives one dimension or more, but for a weight of one dimension.
_family(
    Result("tensor", "some", "same"),
    """
    addbmm addmm addmv baddbmm bmm mm mv
    torch.bilinear torch.cdist torch.chain_matmul torch.conv1d torch.conv2d torch.conv3d
    torch.conv_tbc torch.conv_transpose1d torch.conv_transpose2d torch.conv_transpose3d
    torch.convolution torch.pdist
    F.bilinear F.conv1d F.conv2d F.conv3d F.conv_tbc F.conv_transpose1d F.conv_transpose2d
    F.conv_transpose3d F.linear F.pdist F.scaled_dot_product_attention
    linalg.multi_dot
    """,
)
_family(
    Result("tensor", "unknown", "same"),
    """
    inner matmul
    .__matmul__ .__rmatmul__
    torch.einsum torch.tensordot
    linalg.matmul linalg.vecdot
    """,
)
_family(Result("tensor", "broadcast", "same"), "cross linalg.cross")
_family(Result("tensor", "some", "promote"), "addr ger outer torch.block_diag torch.cartesian_prod")
_family(
    Result("tensor", "unknown", "promote"),
    "kron torch.cosine_similarity F.cosine_similarity",
)
_family(Result("tensor", "unknown", "promote-float"), "F.pairwise_distance torch.pairwise_distance")
_family(Result("tensor", "unknown", "float-of"), "corrcoef cov")
_family(Result("tensors", "some", "same", count=2), "F.multi_head_attention_forward")

# Linear algebra.
_family(
    Result("tensor", "some", "same"),
    """
    cholesky cholesky_inverse cholesky_solve inverse lu_solve matrix_exp matrix_power orgqr ormqr
    pinverse tril triu
    linalg.cholesky linalg.eigvalsh linalg.householder_product linalg.inv linalg.ldl_solve
    linalg.lu_solve linalg.matrix_exp linalg.matrix_power linalg.pinv linalg.solve
    linalg.solve_triangular linalg.svdvals linalg.tensorinv
    """,
)
_family(
    Result("tensor", "unknown", "same"),
    "det logdet linalg.cond linalg.det linalg.tensorsolve",
)
_family(Result("tensor", "some", "long-of"), "linalg.vander torch.vander")
_family(Result("tensor", "some", "unknown"), "linalg.eigvals")
_family(Result("tensor", "unknown", "int64"), "linalg.matrix_rank")
_EIGEN = ("eigenvalues", "eigenvectors")
_family(Result("tensors", "some", "same", count=2), "geqrf triangular_solve")
_family(Result("tensors", "some", "same", count=2, names=("Q", "R")), "qr linalg.qr")
_family(Result("tensors", "some", "same", count=2, names=_EIGEN), "linalg.eigh")
_family(Result("tensors", "some", "unknown", count=2, names=_EIGEN), "linalg.eig")
_family(Result("tensors", "some", "same", count=3, names=("U", "S", "V")), "svd")
_family(Result("tensors", "some", "same", count=3, names=("P", "L", "U")), "linalg.lu")
_family(Result("tensors", "some", "same", count=3, names=("U", "S", "Vh")), "linalg.svd")
_family(
    Result("tensors", "some", "same", count=3),
    "torch.lu_unpack torch.pca_lowrank torch.svd_lowrank",
)
_family(
    Result("tensors", "unknown", "same", count=2, names=("sign", "logabsdet")),
    "slogdet linalg.slogdet",
)
_family(Result("tensors", "unknown", "same", count=2, dtypes=("same", "int32")), "lu")
_family(
    Result("tensors", "unknown", "same", count=2, dtypes=("same", "int32")),
    "linalg.cholesky_ex linalg.inv_ex linalg.ldl_factor linalg.lu_factor linalg.solve_ex",
)
_family(
    Result("tensors", "unknown", "same", count=3, dtypes=("same", "int32", "int32")),
    "linalg.ldl_factor_ex linalg.lu_factor_ex",
)
_family(
    Result(
        "tensors",
        "unknown",
        "same",
        count=4,
        dtypes=("same", "same", "int64", "same"),
        names=("solution", "residuals", "rank", "singular_values"),
    ),
    "linalg.lstsq",
)
_family(Result("tensors", "some", "same", count=2), "torch.lobpcg")

# Fourier transforms: mostly complex.
_family(
    Result("tensor", "same", "unknown"),
    """
    fft.fft fft.fft2 fft.fftn fft.hfft fft.hfft2 fft.hfftn fft.ifft fft.ifft2 fft.ifftn fft.ihfft
    fft.ihfft2 fft.ihfftn fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn
    """,
)
_family(Result("tensor", "same", "same"), "fft.fftshift fft.ifftshift")
_family(Result("tensor", "some", "unknown"), "istft stft")
_family(Result("tensor", "broadcast", "unknown"), "torch.complex torch.polar")
_family(Result("same", "unknown", "unknown"), "torch.view_as_complex torch.view_as_real")

# Losses. The functions under torch take the reduction as a number, and mostly default to none.
_family(
    Result("tensor", "reduction", "same"),
    """
    F.cross_entropy F.ctc_loss F.hinge_embedding_loss F.huber_loss F.linear_cross_entropy
    F.multi_margin_loss F.multilabel_margin_loss F.nll_loss F.soft_margin_loss
    """,
)
_family(
    Result("tensor", "reduction", "promote"),
    """
    F.binary_cross_entropy F.gaussian_nll_loss F.kl_div F.l1_loss F.mse_loss
    F.multilabel_soft_margin_loss F.smooth_l1_loss
    """,
)
_family(
    Result("tensor", "reduction", "promote-float"),
    """
    F.cosine_embedding_loss F.margin_ranking_loss F.poisson_nll_loss F.triplet_margin_loss
    F.triplet_margin_with_distance_loss
    """,
)
_family(Result("tensor", "reduction", "unknown"), "F.binary_cross_entropy_with_logits")
_family(Result("tensor", "unknown", "unknown"), "torch.binary_cross_entropy_with_logits")
_family(Result("tensor", "unknown", "same"), "torch.ctc_loss torch.hinge_embedding_loss")
_family(
    Result("tensor", "unknown", "promote-float"),
    """
    torch.cosine_embedding_loss torch.kl_div torch.margin_ranking_loss torch.poisson_nll_loss
    torch.triplet_margin_loss
    """,
)

# Pooling, resampling, padding, lookup.
_family(Result("tensor", "some", "float-of"), "F.lp_pool1d F.lp_pool2d F.lp_pool3d")
_family(
    Result("tensor", "some", "same"),
    """
    torch.adaptive_avg_pool1d torch.avg_pool1d torch.channel_shuffle torch.constant_pad_nd
    torch.grid_sampler torch.grid_sampler_2d torch.grid_sampler_3d torch.max_pool1d torch.max_pool2d
    torch.max_pool3d torch.native_channel_shuffle torch.pixel_shuffle torch.pixel_unshuffle
    F.adaptive_avg_pool1d F.adaptive_avg_pool2d F.adaptive_avg_pool3d F.avg_pool1d F.avg_pool2d
    F.avg_pool3d F.channel_shuffle F.glu F.grid_sample F.interpolate F.max_unpool1d F.max_unpool2d
    F.max_unpool3d F.native_channel_shuffle F.pad F.pixel_shuffle F.pixel_unshuffle F.upsample
    F.upsample_bilinear F.upsample_nearest
    """,
)
_family(
    Result("tensor", "some", "same", tuple_if=("return_indices",)),
    """
    F.adaptive_max_pool1d F.adaptive_max_pool2d F.adaptive_max_pool3d F.fractional_max_pool2d
    F.fractional_max_pool3d F.max_pool1d F.max_pool2d F.max_pool3d
    """,
)
_family(
    Result("tensors", "some", "same", count=2, dtypes=("same", "int64")),
    """
    torch.adaptive_max_pool1d torch.max_pool1d_with_indices
    F.adaptive_max_pool1d_with_indices F.adaptive_max_pool2d_with_indices
    F.adaptive_max_pool3d_with_indices F.fractional_max_pool2d_with_indices
    F.fractional_max_pool3d_with_indices F.max_pool1d_with_indices F.max_pool2d_with_indices
    F.max_pool3d_with_indices
    """,
)
_family(
    Result("tensor", "some", "same"), "F.affine_grid F.fold F.unfold torch.affine_grid_generator"
)
# The indices are integers, so promotion gives the dtype of the weight.
_family(Result("tensor", "some", "promote"), "F.embedding F.embedding_bag torch.embedding")
_family(Result("tensors", "some", "unknown", count=4), "torch.embedding_bag")

# Recurrent cells and layers, as functions.
_family(Result("tensor", "same", "same"), "torch.gru_cell torch.rnn_relu_cell")
_family(Result("tensor", "same", "float-of"), "torch.rnn_tanh_cell")
_family(Result("tensors", "same", "same", count=2), "torch.lstm_cell")
_family(Result("tensors", "some", "same", count=2), "torch.gru torch.rnn_relu torch.rnn_tanh")
_family(Result("tensors", "some", "same", count=3), "torch.lstm")

# Shapes: views and copies of the same numbers.
_family(
    Result("same", "same", "same"),
    """
    adjoint conj detach moveaxis movedim narrow permute resolve_conj resolve_neg swapaxes swapdims t
    transpose
    .H .T .as_subclass .coalesce .contiguous .data .mH .mT .pin_memory .real .to_dense
    torch.real
    nn.Buffer nn.Parameter
    """,
)
_family(
    Result("same", "some", "same"),
    "flatten ravel unsqueeze .unfold torch.atleast_1d torch.atleast_2d torch.atleast_3d",
)
_family(Result("same", "sizes", "same"), "broadcast_to reshape .expand .view")
_family(Result("tensor", "sizes", "same"), "tile .repeat")
_family(
    Result("same", "unknown", "same"),
    """
    as_strided diagonal select squeeze unflatten
    .__getitem__ .expand_as .reshape_as .view_as
    linalg.diagonal
    """,
)
_family(Result("tensor", "unknown", "same"), "take")
_family(Result("tensor", "unknown", "long-of"), ".sum_to_size")
_family(
    Result("tensor", "some", "same"),
    """
    diag diag_embed diagflat repeat_interleave take_along_dim
    torch.combinations
    """,
)
_family(
    Result("tensor", "same", "same"),
    """
    as_strided_scatter diagonal_scatter diff flip fliplr flipud gather index_add index_copy
    index_put index_reduce index_select masked_scatter narrow_copy roll rot90 scatter scatter_add
    scatter_reduce select_scatter slice_inverse slice_scatter
    .__reversed__
    """,
)
_family(
    Result("tensor", "some", "promote"),
    """
    torch.cat torch.column_stack torch.concat torch.concatenate torch.dstack torch.hstack
    torch.row_stack torch.stack torch.vstack
    """,
)
_family(
    Result("tensors", "some", "same"),
    """
    chunk dsplit hsplit split split_with_sizes tensor_split unsafe_chunk unsafe_split
    unsafe_split_with_sizes vsplit
    torch.meshgrid
    """,
)
_family(Result("tensors", "unknown", "same"), "unbind .__iter__")
_family(Result("tensors", "broadcast", "unknown"), "torch.broadcast_tensors")
_family(Result("tensors", "unknown", "int64"), "torch.unravel_index")

# Copies under the name of the view.
_family(
    Result("tensor", "same", "same"),
    """
    torch.alias_copy torch.detach_copy torch.permute_copy torch.slice_copy torch.t_copy
    torch.transpose_copy
    """,
)
_family(
    Result("tensor", "unknown", "same"),
    """
    torch.as_strided_copy torch.diagonal_copy torch.expand_copy torch.select_copy torch.squeeze_copy
    torch.unfold_copy torch.unsqueeze_copy torch.view_copy
    """,
)
_family(
    Result("tensors", "unknown", "same"),
    "torch.split_copy torch.split_with_sizes_copy torch.unbind_copy",
)

# Casts and moves.
CASTS: dict[str, str] = {
    "Tensor.bfloat16": "bfloat16",
    "Tensor.bool": "bool",
    "Tensor.byte": "uint8",
    "Tensor.cdouble": "complex128",
    "Tensor.cfloat": "complex64",
    "Tensor.chalf": "complex32",
    "Tensor.char": "int8",
    "Tensor.double": "float64",
    "Tensor.float": "float32",
    "Tensor.half": "float16",
    "Tensor.int": "int32",
    "Tensor.long": "int64",
    "Tensor.short": "int16",
}
RESULTS.update({name: Result("tensor", "same", dtype) for name, dtype in CASTS.items()})
MOVES: frozenset[str] = frozenset(names(".cpu .cuda .ipu .mtia .to .type .xpu"))
"""The methods that may change the device; what `to` and `type` do is in their arguments."""
_family(Result("tensor", "same", "arg", device="arg"), ".to .type .type_as")
_family(Result("tensor", "same", "same", device="arg"), ".cuda .ipu .mtia .xpu")
_family(Result("tensor", "same", "same", device="cpu"), ".cpu")

# What is no tensor. Those that read the device back to say so are in HOST_READS.
_family(
    Result("host:bool"),
    """
    allclose equal is_complex is_conj is_distributed is_floating_point is_inference is_neg
    is_nonzero is_same_size is_signed
    .__bool__ .__contains__ .is_coalesced .is_contiguous .is_cpu .is_cuda .is_ipu .is_leaf
    .is_maia .is_meta .is_mkldnn .is_mps .is_mtia .is_nested .is_pinned .is_quantized .is_set_to
    .is_shared .is_sparse .is_sparse_csr .is_vulkan .is_xla .is_xpu .requires_grad .retains_grad
    torch.are_deterministic_algorithms_enabled torch.can_cast torch.is_anomaly_enabled
    torch.is_autocast_cache_enabled torch.is_autocast_cpu_enabled torch.is_autocast_enabled
    torch.is_grad_enabled torch.is_inference_mode_enabled torch.is_storage torch.is_tensor
    torch.cuda.is_available torch.distributed.is_available torch.distributed.is_initialized
    """,
)
_family(Result("host:float"), ".__float__")
_family(
    Result("host:int"),
    """
    get_device numel
    .__index__ .__int__ .__len__ .const_data_ptr .data_ptr .dense_dim .dim .element_size .itemsize
    .nbytes .ndim .ndimension .nelement .output_nr .sparse_dim .storage_offset
    torch.cuda.device_count torch.cuda.max_memory_allocated torch.cuda.max_memory_reserved
    torch.cuda.memory_allocated torch.cuda.memory_reserved torch.get_num_threads torch.initial_seed
    torch.seed
    """,
)
_family(Result("host:list"), ".tolist")
_family(Result("host:number"), ".item")
_family(Result("host:numpy"), ".__array__ .numpy")
_family(
    Result("host:object"),
    """
    .grad_fn .layout .register_hook .register_post_accumulate_grad_hook .storage .untyped_storage
    torch.finfo torch.iinfo torch.manual_seed
    """,
)
_family(Result("host:size"), ".dim_order .shape .size .stride torch.broadcast_shapes")
_family(
    Result("host:str"),
    ".__format__ .__repr__ .__str__ torch.get_float32_matmul_precision torch.typename",
)
_family(Result("device"), ".device torch.get_default_device")
_family(
    Result("dtype"),
    """
    .dtype
    torch.get_autocast_cpu_dtype torch.get_autocast_dtype torch.get_autocast_gpu_dtype
    torch.get_default_dtype torch.promote_types torch.result_type
    """,
)
_family(
    Result("none"),
    """
    .__setitem__ .backward .record_stream .retain_grad
    torch.clear_autocast_cache torch.cuda.empty_cache torch.cuda.set_device torch.cuda.synchronize
    torch.save torch.set_default_device torch.set_default_dtype torch.set_float32_matmul_precision
    torch.set_num_threads torch.set_printoptions torch.set_rng_state
    torch.use_deterministic_algorithms
    nn.utils.clip_grad_value_
    """,
)
_family(Result("tensor", "same", "same"), ".grad")
_family(Result("tensor", "some", "uint8", device="cpu"), "torch.get_rng_state")
_family(Result("tensor", "scalar", "promote"), "nn.utils.clip_grad_norm_ nn.utils.get_total_norm")
_family(Result("tensor", "some", "promote"), "nn.utils.parameters_to_vector")
_family(Result("tensor", "some", "same"), "nn.utils.rnn.pad_sequence")
_family(Result("tensors", "unknown", "same"), "torch.autograd.grad")

# In place: the very object comes back, and neither promotion nor autocast changes its dtype.
_family(
    Result("self", "same", "same"),
    """
    abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ asin_ asinh_ atan_
    atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_ detach_ erf_
    erfc_ exp2_ exp_ expm1_ fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ ldexp_ log10_ log1p_ log2_
    log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu_ round_ rsqrt_ sigmoid_ sin_
    sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_
    .__iadd__ .__iand__ .__ifloordiv__ .__ilshift__ .__imod__ .__imul__ .__ior__ .__ipow__
    .__irshift__ .__isub__ .__itruediv__ .__ixor__ .absolute_ .add_ .addbmm_ .addcdiv_ .addcmul_
    .addmm_ .addr_ .apply_ .arctan2_ .atan2_ .baddbmm_ .bernoulli_ .bitwise_and_
    .bitwise_left_shift_ .bitwise_not_ .bitwise_or_ .bitwise_right_shift_ .bitwise_xor_ .cauchy_
    .copy_ .copysign_ .cumprod_ .cumsum_ .digamma_ .div_ .divide_ .eq_ .erfinv_ .exponential_ .fill_
    .fill_diagonal_ .float_power_ .floor_divide_ .fmod_ .ge_ .geometric_ .greater_ .greater_equal_
    .gt_ .heaviside_ .hypot_ .igamma_ .igammac_ .index_add_ .index_copy_ .index_fill_ .index_reduce_
    .le_ .lerp_ .less_ .less_equal_ .lgamma_ .log_normal_ .logical_and_ .logical_not_ .logical_or_
    .logical_xor_ .lt_ .map2_ .map_ .masked_fill_ .masked_scatter_ .mul_ .multiply_ .mvlgamma_ .ne_
    .nextafter_ .normal_ .not_equal_ .polygamma_ .pow_ .put_ .random_ .remainder_ .renorm_
    .requires_grad_ .scatter_ .scatter_add_ .scatter_reduce_ .sgn_ .share_memory_ .sign_ .sub_
    .subtract_ .swapaxes_ .swapdims_ .t_ .transpose_ .tril_ .triu_ .true_divide_ .uniform_
    torch.alpha_dropout_ torch.celu_ torch.dropout_ torch.feature_alpha_dropout_
    torch.feature_dropout_ torch.fill_ torch.rrelu_ torch.selu_ torch.threshold_
    F.celu_ F.elu_ F.hardtanh_ F.leaky_relu_ F.relu_ F.rrelu_ F.selu_ F.threshold_
    nn.init.constant_ nn.init.dirac_ nn.init.eye_ nn.init.kaiming_normal_ nn.init.kaiming_uniform_
    nn.init.normal_ nn.init.ones_ nn.init.orthogonal_ nn.init.sparse_ nn.init.trunc_normal_
    nn.init.uniform_ nn.init.xavier_normal_ nn.init.xavier_uniform_ nn.init.zeros_
    """,
)
_family(
    Result("self", "unknown", "same"),
    "as_strided_ resize_as_ .resize_ .set_ .squeeze_ .unsqueeze_",
)

EQUAL_DTYPES: frozenset[str] = frozenset(
    names(
        """
        addbmm addmm addmv baddbmm bmm dot inner matmul mm mv vdot
        .__matmul__ .__rmatmul__
        torch.chain_matmul torch.conv1d torch.conv2d torch.conv3d torch.conv_transpose1d
        torch.conv_transpose2d torch.conv_transpose3d torch.einsum torch.tensordot
        F.bilinear F.conv1d F.conv2d F.conv3d F.conv_transpose1d F.conv_transpose2d
        F.conv_transpose3d F.linear F.scaled_dot_product_attention
        linalg.matmul linalg.multi_dot
        nn.Conv1d nn.Conv2d nn.Conv3d nn.ConvTranspose1d nn.ConvTranspose2d nn.ConvTranspose3d
        nn.GRU nn.GRUCell nn.LSTM nn.LSTMCell nn.Linear nn.MultiheadAttention nn.RNN nn.RNNCell
        """
    )
)
"""What raises where its floating operands, parameters included, differ in dtype: half and float32
outside of a region, float64 and another in a region too, since autocast leaves float64 alone."""

SAME_DTYPE_WRITES: dict[str, int] = {
    "index_add": 2,
    "index_copy": 2,
    "index_put": 1,
    "index_reduce": 2,
    "lerp": 0,
    "masked_scatter": 1,
    "put": 1,
    "scatter": 2,
    "scatter_add": 2,
    "scatter_reduce": 2,
}
"""Methods, also in place, that raise where source and destination differ in dtype -> the position
of the source. `x[index] = source` does where the index is a tensor or a list."""

NO_HALF: frozenset[str] = frozenset(
    names(
        """
        cholesky cholesky_inverse cholesky_solve det geqrf inverse logdet lu lu_solve nanquantile
        orgqr ormqr pinverse qr quantile slogdet svd triangular_solve
        torch.ctc_loss
        F.ctc_loss
        linalg.cholesky linalg.cholesky_ex linalg.cond linalg.det linalg.eig linalg.eigh
        linalg.eigvals linalg.eigvalsh linalg.householder_product linalg.inv linalg.inv_ex
        linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve linalg.lstsq linalg.lu
        linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve linalg.matrix_rank linalg.pinv
        linalg.qr linalg.slogdet linalg.solve linalg.solve_ex linalg.solve_triangular linalg.svd
        linalg.svdvals linalg.tensorinv linalg.tensorsolve linalg.vander
        nn.CTCLoss
        special.airy_ai special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1
        special.erfcx special.log_ndtr special.modified_bessel_i0 special.modified_bessel_i1
        special.modified_bessel_k0 special.modified_bessel_k1 special.ndtri
        special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1
        special.spherical_bessel_j0
        """
    )
)
"""What raises where an operand is float16 or bfloat16, on CUDA and on the CPU, unless autocast
casts it (CPU: run; CUDA: neither dtype is among those that torch.testing's `op_db` lists)."""

NO_BFLOAT16: frozenset[str] = frozenset(
    names(
        """
        torch.complex torch.polar torch.view_as_complex
        fft.fft fft.fft2 fft.fftn fft.hfft fft.hfft2 fft.hfftn fft.ifft fft.ifft2 fft.ifftn
        fft.ihfft fft.ihfft2 fft.ihfftn fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn
        """
    )
)
"""The same for bfloat16 alone: CUDA transforms float16 of some sizes, and torch 2.14 takes more."""

INDEX_ARGUMENTS: dict[str, int] = {
    **dict.fromkeys(names("F.embedding F.embedding_bag F.one_hot nn.Embedding nn.EmbeddingBag"), 0),
    **dict.fromkeys(names(".take .take_along_dim .put .put_"), 0),
    **dict.fromkeys(
        names(
            """
            .gather .index_add .index_add_ .index_copy .index_copy_ .index_fill .index_fill_
            .index_reduce .index_reduce_ .index_select .scatter .scatter_ .scatter_add .scatter_add_
            .scatter_reduce .scatter_reduce_ torch.put torch.take torch.take_along_dim
            """
        ),
        1,
    ),
    **dict.fromkeys(
        names(
            """
            torch.gather torch.index_add torch.index_copy torch.index_fill torch.index_reduce
            torch.index_select torch.scatter torch.scatter_add torch.scatter_reduce
            """
        ),
        2,
    ),
}
"""What takes indices, which must be integers -> the position of that argument. So does `x[index]`,
which takes masks of bools as well."""

DETACHED: frozenset[str] = frozenset(names("detach detach_ .data"))
"""What gives a tensor without the graph of its operand."""

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
"""The class of an `ast` operator -> the method that answers it (`in`: the right operand's)."""

_BINARY = "Add Sub Mult MatMult Div FloorDiv Mod Pow LShift RShift BitAnd BitOr BitXor".split()
REFLECTED: dict[str, str] = {op: f"__r{OPERATORS[op][2:]}" for op in _BINARY}
"""The same, where only the right operand is a tensor."""

AUGMENTED: dict[str, str] = {op: f"__i{OPERATORS[op][2:]}" for op in _BINARY if op != "MatMult"}
"""`x += y`, in place. `x @= y` is not: it builds a new tensor, as `x @ y` does."""

# --------------------------------------------------------------------------- factories


@dataclass(frozen=True)
class Factory:
    """A call that builds a tensor from what is none.

    Args:
        dtype: without `dtype=`: "default"; "like" (of the tensor argument); "fill" (of the fill
            value: bool, int64 or default); "numbers" (int64 if all are ints, else default);
            "data" (that of the tensor or array given; Python numbers as "numbers", bools bool);
            "unknown"; or by name.
        parameters: the names of the positional arguments.
        rank: "sizes" (0-dim for empty sizes, else some); "some"; "like"; "data"; "scalar"; or
            "unknown".
        sizes: whether the sizes may be given one by one (`torch.zeros(2, 3)`).
        takes_dtype: whether there is a `dtype=`.
        takes_device: whether there is a `device=`.
        values: "exact" (the same on every device); "rounded" (the last bit may differ); "random"
            (each device has its own stream); "none" (not initialised).
        device: without `device=`: "default" (the CPU, but for torch.set_default_device), "like"
            (of the tensor argument), or "cpu" always.
    """

    dtype: str
    parameters: tuple[str, ...]
    rank: str = "sizes"
    sizes: bool = False
    takes_dtype: bool = True
    takes_device: bool = True
    values: str = "exact"
    device: str = "default"

    @property
    def deterministic(self) -> bool:
        """Whether building it on a device gives what building it elsewhere and moving it gives."""
        return self.values in ("exact", "none")


def _sizes(values: str = "exact", dtype: str = "default") -> Factory:
    return Factory(dtype, ("size",), sizes=True, values=values)


def _line(*parameters: str) -> Factory:
    return Factory("default", parameters, "some", values="rounded")


def _like(values: str, *parameters: str) -> Factory:
    return Factory("like", ("input", *parameters), "like", values=values, device="like")


def _new(values: str, *parameters: str, sizes: bool = False) -> Factory:
    return Factory("like", parameters, "sizes", sizes, values=values, device="like")


FACTORIES: dict[str, Factory] = {
    # Of sizes.
    "torch.empty": _sizes("none"),
    "torch.empty_permuted": Factory("default", ("size", "physical_layout"), values="none"),
    "torch.empty_strided": Factory("default", ("size", "stride"), values="none"),
    "torch.eye": Factory("default", ("n", "m"), "some"),
    "torch.full": Factory("fill", ("size", "fill_value")),
    "torch.ones": _sizes(),
    "torch.rand": _sizes("random"),
    "torch.randint": Factory("int64", ("low", "high", "size"), values="random"),
    "torch.randn": _sizes("random"),
    "torch.tril_indices": Factory("int64", ("row", "col", "offset"), "some"),
    "torch.triu_indices": Factory("int64", ("row", "col", "offset"), "some"),
    "torch.zeros": _sizes(),
    # Of a range. The integers of an arange are exact, its floats are rounded.
    "torch.arange": Factory("numbers", ("start", "end", "step"), "some", values="rounded"),
    "torch.linspace": _line("start", "end", "steps"),
    "torch.logspace": _line("start", "end", "steps", "base"),
    "torch.randperm": Factory("int64", ("n",), "some", values="random"),
    "torch.range": _line("start", "end", "step"),
    # Of data.
    "torch.as_tensor": Factory("data", ("data", "dtype", "device"), "data"),
    "torch.asarray": Factory("data", ("obj",), "data"),
    "torch.from_dlpack": Factory("data", ("ext_tensor",), "data", takes_dtype=False),
    "torch.from_numpy": Factory(
        "data", ("ndarray",), "data", takes_dtype=False, takes_device=False, device="cpu"
    ),
    "torch.frombuffer": Factory("unknown", ("buffer",), "some", takes_device=False, device="cpu"),
    "torch.normal": Factory("unknown", ("mean", "std", "size"), "unknown", values="random"),
    "torch.scalar_tensor": Factory("default", ("s",), "scalar"),
    "torch.tensor": Factory("data", ("data",), "data"),
    # Of another tensor's dtype and device: of its shape too, or of sizes.
    "torch.empty_like": _like("none"),
    "torch.full_like": _like("exact", "fill_value"),
    "torch.ones_like": _like("exact"),
    "torch.rand_like": _like("random"),
    "torch.randint_like": _like("random", "low", "high"),
    "torch.randn_like": _like("random"),
    "torch.zeros_like": _like("exact"),
    "Tensor.new": Factory(
        "like", ("size",), "unknown", True, takes_dtype=False, values="none", device="like"
    ),
    "Tensor.new_empty": _new("none", "size", sizes=True),
    "Tensor.new_empty_strided": _new("none", "size", "stride"),
    "Tensor.new_full": _new("exact", "size", "fill_value"),
    "Tensor.new_ones": _new("exact", "size", sizes=True),
    "Tensor.new_tensor": Factory("like", ("data",), "data", device="like"),
    "Tensor.new_zeros": _new("exact", "size", sizes=True),
    # Windows and frequencies.
    "torch.bartlett_window": _line("window_length", "periodic"),
    "torch.blackman_window": _line("window_length", "periodic"),
    "torch.fft.fftfreq": _line("n", "d"),
    "torch.fft.rfftfreq": _line("n", "d"),
    "torch.hamming_window": _line("window_length", "periodic", "alpha", "beta"),
    "torch.hann_window": _line("window_length", "periodic"),
    "torch.kaiser_window": _line("window_length", "periodic", "beta"),
}

_LEGACY = {
    "BFloat16": "bfloat16",
    "Bool": "bool",
    "Byte": "uint8",
    "Char": "int8",
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "Int": "int32",
    "Long": "int64",
    "Short": "int16",
}
LEGACY_CONSTRUCTORS: dict[str, tuple[str, str]] = {
    "torch.Tensor": ("default", "cpu"),
    **{f"torch.{name}Tensor": (dtype, "cpu") for name, dtype in _LEGACY.items()},
    **{f"torch.cuda.{name}Tensor": (dtype, "cuda") for name, dtype in _LEGACY.items()},
}
"""Constructors of old -> dtype and device. Ints are sizes (not initialised), a sequence is data."""

# --------------------------------------------------------------------------- autocast

# What an enabled region does to the eligible operands of a name (floating, not float64, on the
# region's device type); the result then follows RESULTS or MODULES, as for operands of that dtype.
#     half               cast to the dtype of the region
#     fp32               cast to float32
#     fp32-unless-dtype  the result is float32, unless dtype= is given: then that
#     promote            cast to the widest among them; without autocast most of these raise
#     banned             raises
#     unknown            torch casts somewhere inside, and it depends
# In-place methods and out= are never cast. Parameters of modules are operands.
#
# The tables give the public names: those that torch registers (AT_FORALL_* in
# ATen/autocast_mode.h and the KERNEL_CPU list of autocast_mode.cpp, torch 2.13.0), and those that
# come to one of them inside. `F.interpolate` is fp32 on CUDA but for mode="area".
# Read in the source, not run: the recurrent names on CUDA (cudnn has its own cast, in
# AutocastRNN.cpp), cov, corrcoef and the attention forward; "unknown" on CUDA for what its kernels
# call inside.
_CUDA = {
    "half": """
        addbmm addmm addmv addr baddbmm bmm corrcoef cov matmul matrix_power mm mv prelu
        .__matmul__ .__rmatmul__
        torch.chain_matmul torch.conv1d torch.conv2d torch.conv3d torch.conv_tbc
        torch.conv_transpose1d torch.conv_transpose2d torch.conv_transpose3d torch.convolution
        torch.einsum torch.gru torch.gru_cell torch.lstm torch.lstm_cell torch.pca_lowrank
        torch.rnn_relu torch.rnn_relu_cell torch.rnn_tanh torch.rnn_tanh_cell torch.svd_lowrank
        linalg.matmul linalg.matrix_power linalg.multi_dot linalg.vecdot
        F.conv1d F.conv2d F.conv3d F.conv_tbc F.conv_transpose1d F.conv_transpose2d
        F.conv_transpose3d F.linear F.multi_head_attention_forward F.prelu
        F.scaled_dot_product_attention
        nn.Conv1d nn.Conv2d nn.Conv3d nn.ConvTranspose1d nn.ConvTranspose2d nn.ConvTranspose3d
        nn.GRU nn.GRUCell nn.LSTM nn.LSTMCell nn.LazyConv1d nn.LazyConv2d nn.LazyConv3d
        nn.LazyConvTranspose1d nn.LazyConvTranspose2d nn.LazyConvTranspose3d nn.LazyLinear nn.Linear
        nn.MultiheadAttention nn.PReLU nn.RNN nn.RNNCell
    """,
    "fp32": """
    acos arccos arcsin asin cosh dist erfinv exp expm1 log log10 log1p log2 logsumexp pow reciprocal
    renorm rsqrt sinh square tan
    .__pow__ .__rpow__ .__rtruediv__ .sum_to_size
    torch.binary_cross_entropy_with_logits torch.cdist torch.cosine_embedding_loss
    torch.cosine_similarity torch.cumulative_trapezoid torch.group_norm torch.hinge_embedding_loss
    torch.kl_div torch.layer_norm torch.margin_ranking_loss torch.norm_except_dim torch.nuclear_norm
    torch.pairwise_distance torch.pdist torch.poisson_nll_loss torch.rms_norm torch.trapezoid
    torch.trapz torch.triplet_margin_loss
    F.binary_cross_entropy_with_logits F.cosine_embedding_loss F.cosine_similarity F.cross_entropy
    F.gaussian_nll_loss F.group_norm F.gumbel_softmax F.hinge_embedding_loss F.huber_loss
    F.interpolate F.kl_div F.l1_loss F.layer_norm F.linear_cross_entropy F.local_response_norm
    F.lp_pool1d F.lp_pool2d F.lp_pool3d F.margin_ranking_loss F.mse_loss F.multi_margin_loss
    F.multilabel_margin_loss F.multilabel_soft_margin_loss F.nll_loss F.normalize
    F.pairwise_distance F.pdist F.poisson_nll_loss F.rms_norm F.smooth_l1_loss F.soft_margin_loss
    F.softplus F.triplet_margin_loss F.triplet_margin_with_distance_loss F.upsample
    F.upsample_bilinear F.upsample_nearest
    nn.BCEWithLogitsLoss nn.CosineEmbeddingLoss nn.CosineSimilarity nn.CrossEntropyLoss
    nn.GaussianNLLLoss nn.GroupNorm nn.HingeEmbeddingLoss nn.HuberLoss nn.KLDivLoss nn.L1Loss
    nn.LPPool1d nn.LPPool2d nn.LPPool3d nn.LayerNorm nn.LinearCrossEntropyLoss nn.LocalResponseNorm
    nn.MSELoss nn.MarginRankingLoss nn.MultiLabelMarginLoss nn.MultiLabelSoftMarginLoss
    nn.MultiMarginLoss nn.NLLLoss nn.NLLLoss2d nn.PairwiseDistance nn.PoissonNLLLoss nn.RMSNorm
    nn.SmoothL1Loss nn.SoftMarginLoss nn.Softplus nn.TripletMarginLoss
    nn.TripletMarginWithDistanceLoss nn.Upsample nn.UpsamplingBilinear2d nn.UpsamplingNearest2d
    nn.utils.get_total_norm
    special.erfinv special.expm1 special.log1p special.logsumexp
    """,
    "fp32-unless-dtype": """
    cumprod cumsum log_softmax norm prod softmax sum
    F.log_softmax F.softmax F.softmin
    linalg.matrix_norm linalg.norm linalg.vector_norm
    nn.LogSoftmax nn.Softmax nn.Softmax2d nn.Softmin
    special.log_softmax special.softmax
    """,
    "promote": """
    addcdiv addcmul arctan2 atan2 cross dot index_put inner scatter_add vdot
    torch.bilinear torch.grid_sampler torch.tensordot
    F.bilinear F.grid_sample
    nn.Bilinear
    """,
    "banned": "F.binary_cross_entropy nn.BCELoss",
    "unknown": """
    trace
    torch.affine_grid_generator torch.lobpcg
    F.affine_grid
    linalg.lstsq
    nn.AdaptiveLogSoftmaxWithLoss nn.Transformer nn.TransformerDecoder nn.TransformerDecoderLayer
    nn.TransformerEncoder nn.TransformerEncoderLayer
    """,
}
_CPU = {
    "half": """
    addbmm addmm baddbmm bmm corrcoef cov inner matmul matrix_power mm prelu
    .__matmul__ .__rmatmul__
    torch.affine_grid_generator torch.chain_matmul torch.conv1d torch.conv2d torch.conv3d
    torch.conv_tbc torch.conv_transpose1d torch.conv_transpose2d torch.conv_transpose3d torch.einsum
    torch.lstm torch.pca_lowrank torch.rnn_relu torch.rnn_relu_cell torch.rnn_tanh
    torch.rnn_tanh_cell torch.svd_lowrank torch.tensordot
    F.affine_grid F.conv1d F.conv2d F.conv3d F.conv_tbc F.conv_transpose1d F.conv_transpose2d
    F.conv_transpose3d F.linear F.multi_head_attention_forward F.prelu
    F.scaled_dot_product_attention
    linalg.matmul linalg.matrix_power linalg.multi_dot linalg.pinv linalg.vecdot
    nn.Conv1d nn.Conv2d nn.Conv3d nn.ConvTranspose1d nn.ConvTranspose2d nn.ConvTranspose3d nn.LSTM
    nn.LazyConv1d nn.LazyConv2d nn.LazyConv3d nn.LazyConvTranspose1d nn.LazyConvTranspose2d
    nn.LazyConvTranspose3d nn.LazyLinear nn.Linear nn.MultiheadAttention nn.PReLU nn.RNN nn.RNNCell
    """,
    "fp32": """
    cholesky cholesky_inverse cholesky_solve geqrf inverse lu lu_solve nanquantile orgqr ormqr
    pinverse prod qr quantile stft svd trace triangular_solve
    torch.binary_cross_entropy_with_logits torch.cdist torch.cosine_embedding_loss torch.ctc_loss
    torch.fake_quantize_per_tensor_affine torch.grid_sampler torch.grid_sampler_2d
    torch.grid_sampler_3d torch.hinge_embedding_loss torch.kl_div torch.lobpcg
    torch.margin_ranking_loss torch.max_pool3d torch.poisson_nll_loss torch.polar
    torch.triplet_margin_loss torch.view_as_complex
    F.adaptive_avg_pool3d F.adaptive_max_pool3d F.adaptive_max_pool3d_with_indices F.avg_pool3d
    F.binary_cross_entropy F.binary_cross_entropy_with_logits F.cosine_embedding_loss
    F.cross_entropy F.ctc_loss F.fractional_max_pool2d F.fractional_max_pool2d_with_indices
    F.fractional_max_pool3d F.fractional_max_pool3d_with_indices F.grid_sample
    F.hinge_embedding_loss F.huber_loss F.kl_div F.l1_loss F.linear_cross_entropy F.lp_pool3d
    F.margin_ranking_loss F.max_pool3d F.max_unpool1d F.max_unpool2d F.max_unpool3d F.mse_loss
    F.multi_margin_loss F.multilabel_margin_loss F.nll_loss F.poisson_nll_loss F.smooth_l1_loss
    F.soft_margin_loss F.triplet_margin_loss
    fft.fft fft.fft2 fft.fftn fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ihfft fft.irfft fft.irfft2
    fft.irfftn fft.rfft fft.rfft2 fft.rfftn
    linalg.cholesky linalg.cholesky_ex linalg.cond linalg.eig linalg.eigh linalg.eigvals
    linalg.eigvalsh linalg.householder_product linalg.inv linalg.inv_ex linalg.lstsq
    linalg.matrix_rank linalg.qr linalg.solve linalg.svd linalg.svdvals linalg.tensorinv
    linalg.tensorsolve
    nn.AdaptiveAvgPool3d nn.AdaptiveMaxPool3d nn.AvgPool3d nn.BCELoss nn.BCEWithLogitsLoss
    nn.CTCLoss nn.CosineEmbeddingLoss nn.CrossEntropyLoss nn.FractionalMaxPool2d
    nn.FractionalMaxPool3d nn.HingeEmbeddingLoss nn.HuberLoss nn.KLDivLoss nn.L1Loss nn.LPPool3d
    nn.LinearCrossEntropyLoss nn.MSELoss nn.MarginRankingLoss nn.MaxPool3d nn.MaxUnpool1d
    nn.MaxUnpool2d nn.MaxUnpool3d nn.MultiLabelMarginLoss nn.MultiMarginLoss nn.NLLLoss nn.NLLLoss2d
    nn.PoissonNLLLoss nn.ReflectionPad1d nn.ReflectionPad2d nn.ReplicationPad1d nn.ReplicationPad2d
    nn.ReplicationPad3d nn.SmoothL1Loss nn.SoftMarginLoss nn.TripletMarginLoss
    """,
    "promote": "index_copy torch.cat torch.concat torch.concatenate torch.stack",
    "unknown": "nn.AdaptiveLogSoftmaxWithLoss",
}
AUTOCAST: dict[str, dict[str, str]] = {
    device: {name: policy for policy, words in table.items() for name in names(words)}
    for device, table in (("cuda", _CUDA), ("cpu", _CPU))
}

# --------------------------------------------------------------------------- modules


@dataclass(frozen=True)
class ModuleFacts:
    """What calling an instance of a torch.nn class gives.

    Args:
        kind: "module"; "criterion"; "container" (what it gives is up to what it holds).
        dtype: "same" (as the input's, with which the parameters must agree outside autocast);
            "param" (of the parameters, whatever the input); "promote" (of the inputs); "unknown".
        rank: "same"; "some"; "reduction" (0-dim unless the instance has reduction="none");
            "unknown".
        returns: "tensor"; "tensors" (a tuple, perhaps nested: LSTM, MultiheadAttention); "any".
    """

    kind: str = "module"
    dtype: str = "same"
    rank: str = "same"
    returns: str = "tensor"


MODULES: dict[str, ModuleFacts] = {}


def _modules(facts: ModuleFacts, words: str) -> None:
    MODULES.update({f"torch.nn.{word}": facts for word in words.split()})


_modules(
    ModuleFacts(),
    """
    AlphaDropout CELU Dropout Dropout1d Dropout2d Dropout3d ELU FeatureAlphaDropout GELU Hardshrink
    Hardsigmoid Hardswish Hardtanh Identity LeakyReLU LogSigmoid LogSoftmax Mish PReLU RReLU ReLU
    ReLU6 SELU SiLU Sigmoid Softmax Softmin Softplus Softshrink Softsign Tanh Tanhshrink Threshold
    """,
)
_modules(
    ModuleFacts(rank="some"),
    """
    AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d
    AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d BatchNorm1d BatchNorm2d BatchNorm3d Bilinear
    ChannelShuffle CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d
    ConstantPad3d Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d CrossMapLRN2d
    Flatten Fold FractionalMaxPool2d FractionalMaxPool3d GLU GRUCell GroupNorm InstanceNorm1d
    InstanceNorm2d InstanceNorm3d LPPool1d LPPool2d LPPool3d LayerNorm LazyBatchNorm1d
    LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d
    LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d
    LazyLinear Linear LocalResponseNorm MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d
    MaxUnpool3d PixelShuffle PixelUnshuffle RMSNorm RNNCell ReflectionPad1d ReflectionPad2d
    ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d Softmax2d SyncBatchNorm
    Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder
    TransformerEncoderLayer Unflatten Unfold Upsample UpsamplingBilinear2d UpsamplingNearest2d
    ZeroPad1d ZeroPad2d ZeroPad3d
    """,
)
_modules(ModuleFacts(dtype="promote", rank="unknown"), "CosineSimilarity PairwiseDistance")
_modules(ModuleFacts(dtype="param", rank="some"), "Embedding EmbeddingBag")
_modules(ModuleFacts(rank="some", returns="tensors"), "GRU LSTM LSTMCell MultiheadAttention RNN")
_modules(
    ModuleFacts(dtype="unknown", rank="unknown", returns="tensors"), "AdaptiveLogSoftmaxWithLoss"
)
_modules(
    ModuleFacts("criterion", rank="reduction"),
    """
    CTCLoss CrossEntropyLoss HingeEmbeddingLoss HuberLoss LinearCrossEntropyLoss
    MultiLabelMarginLoss MultiMarginLoss NLLLoss NLLLoss2d SoftMarginLoss
    """,
)
_modules(
    ModuleFacts("criterion", "promote", "reduction"),
    """
    BCELoss CosineEmbeddingLoss GaussianNLLLoss KLDivLoss L1Loss MSELoss MarginRankingLoss
    MultiLabelSoftMarginLoss PoissonNLLLoss SmoothL1Loss TripletMarginLoss
    TripletMarginWithDistanceLoss
    """,
)
_modules(ModuleFacts("criterion", "unknown", "reduction"), "BCEWithLogitsLoss")
_modules(
    ModuleFacts("container", "unknown", "unknown", "any"),
    "Module ModuleDict ModuleList ParameterDict ParameterList Sequential",
)

# --------------------------------------------------------------------------- host reads

_VALUE = "reads the value on the host and waits for the device"
_ANSWER = "reads the answer on the host and waits for the device"
HOST_READS: dict[str, str] = {
    "Tensor.__array__": "copies the tensor to the host and waits for the device",
    "Tensor.__bool__": _VALUE,
    "Tensor.__contains__": _ANSWER,
    "Tensor.__float__": _VALUE,
    "Tensor.__format__": _VALUE,
    "Tensor.__index__": _VALUE,
    "Tensor.__int__": _VALUE,
    "Tensor.__repr__": _VALUE,
    "Tensor.__str__": _VALUE,
    "Tensor.allclose": _ANSWER,
    "Tensor.cpu": "copies the tensor to the host and waits for the device",
    "Tensor.equal": _ANSWER,
    "Tensor.is_nonzero": _VALUE,
    "Tensor.item": "copies one number to the host and waits for the device",
    "Tensor.numpy": "reads the tensor on the host",
    "Tensor.tolist": "copies every element to the host and waits for the device",
    "torch.allclose": _ANSWER,
    "torch.equal": _ANSWER,
    "torch.is_nonzero": _VALUE,
}
"""What reads the device back -> the words that say so, to follow the name in a message.

`to` does where its arguments name the CPU, without non_blocking=. Iterating, `len()`, `sum()` and
`list()` of a tensor read nothing."""

WAITS: frozenset[str] = frozenset(
    names(
        """
        corrcoef cov inverse istft pinverse
        torch.cuda.synchronize torch.lobpcg
        F.gaussian_nll_loss
        linalg.cholesky linalg.cond linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.inv
        linalg.ldl_factor linalg.lstsq linalg.lu_factor linalg.matrix_rank linalg.pinv linalg.solve
        linalg.svdvals
        nn.GaussianNLLLoss
        """
    )
)
"""Operations that wait for the device inside, to check their operands or their success, and give a
tensor all the same (their documentation, and FakeTensor); of linalg, those without `_ex`."""

_DEVICES = ("accelerator", "cuda", "mps", "mtia", "xpu")
SYNCHRONIZES: frozenset[str] = frozenset(f"torch.{device}.synchronize" for device in _DEVICES)
"""What waits until the device has done all that it was given."""

EMPTIES_CACHE: frozenset[str] = frozenset(
    {f"torch.{device}.empty_cache" for device in _DEVICES} | {"torch.cuda.memory.empty_cache"}
)
"""What gives the memory that the allocator keeps back to the device's driver."""

BUILTIN_READS: frozenset[str] = _set(
    "bin bool bytes complex divmod float format hex int oct print range repr round str"
)
"""Builtins that read the value of a tensor among their arguments."""

ELEMENT_READS: frozenset[str] = _set("all any max min sorted")
"""Builtins that read a tensor argument, element by element; `max(a, b)` compares two and reads."""

NUMPY_READS: frozenset[str] = _set("numpy.array numpy.asarray numpy.ascontiguousarray")

NOT_NUMBERS: frozenset[str] = _set(
    "_ buffer data device dtype ext_tensor input ndarray obj periodic"
)
"""Parameters of FACTORIES and NUMBERS that are no numbers."""


def _numbers(lines: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What each line says of the functions that its first word stands for.

    The parameters that follow are those of the method; the function has the tensor before them.
    """
    for line in lines.split("\n"):
        word, *parameters = line.split() or [""]
        for name in names(word):
            function = "." not in word and name.startswith("torch.")
            yield name, ("_", *parameters) if function else tuple(parameters)


NUMBERS: dict[str, tuple[str, ...]] = dict(
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
        F.dropout _ p
        F.interpolate _ size
        F.one_hot _ num_classes
        F.pad _ pad
        nn.utils.clip_grad_norm_ _ max_norm
        """
    )
)
"""The parameters that take Python numbers alone, or tuples of them: a tensor given for one is read.

`*size` takes the rest of the positional arguments, `alpha=` is a keyword only, and `_` is not
spoken of. The sizes and ranges of FACTORIES are numbers, too."""


def takes_number(name: str, position: int, keyword: str | None) -> bool:
    """Whether an argument, by keyword or else by position, is a number or a tuple of numbers."""
    parameters = NUMBERS.get(name, ())
    built = FACTORIES.get(name)
    if built is not None and built.rank != "unknown":  # `x.new(y)` takes data, torch.normal tensors
        parameters = ("*size",) if built.sizes else built.parameters
    if keyword is not None:
        words = {parameter.strip("*=") for parameter in parameters} - NOT_NUMBERS
        return keyword in words
    for index, parameter in enumerate(parameters):
        if parameter.startswith("*"):
            return index <= position
        if index == position:
            return parameter not in NOT_NUMBERS and not parameter.endswith("=")
    return False


DATA_DEPENDENT: dict[str, str] = {
    **dict.fromkeys(
        names(
            "argwhere masked_select nonzero unique unique_consecutive bincount torch.combinations"
        ),
        "",
    ),
    **dict.fromkeys(names("where"), "other"),
    **dict.fromkeys(names("repeat_interleave"), "output_size"),
    "torch.nn.functional.one_hot": "num_classes",
}
"""What must read values to know the shape of its result -> the argument that spares it that.

`repeat_interleave` reads only where `repeats` is a tensor. Indexing with a mask reads as well."""

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
and `index_fill` fill in on CUDA. `clamp` reads one bound if the other is a number."""

HOST_ATTRIBUTES: frozenset[str] = _set(
    """
    data_ptr dense_dim device dim dim_order dtype element_size get_device grad_fn is_complex is_conj
    is_contiguous is_cpu is_cuda is_floating_point is_inference is_leaf is_meta is_mps is_nested
    is_pinned is_quantized is_signed is_sparse is_xpu itemsize layout nbytes ndim ndimension
    nelement numel output_nr requires_grad retains_grad shape size storage_offset stride
    """
)
"""Attributes and methods of a tensor that the host knows without asking the device."""

# --------------------------------------------------------------------------- float16

HALF_OF_LEAST = 2.0**-25  # what is not larger is 0 in float16

EPSILONS: dict[str, tuple[int, float]] = {
    "torch.optim.Adagrad": (5, 1e-10),
    "torch.optim.Adam": (3, 1e-8),
    "torch.optim.AdamW": (3, 1e-8),
    "torch.optim.Adamax": (3, 1e-8),
    "torch.optim.NAdam": (3, 1e-8),
    "torch.optim.RAdam": (3, 1e-8),
    "torch.optim.RMSprop": (3, 1e-8),
}
"""Optimizers that divide by what gradients have been, plus `eps`, in the dtype of the parameters,
and so by 0 where that is float16 and a gradient is small -> the position of `eps`, its default."""

# --------------------------------------------------------------------------- versions

NEWER: frozenset[str] = frozenset(
    names(
        """
        hash_tensor .const_data_ptr .mtia F.linear_cross_entropy
        nn.Buffer nn.LinearCrossEntropyLoss nn.utils.get_total_norm torch.optim.Adafactor
        torch.distributed.fsdp.fully_shard torch.optim.Muon
        """
    )
)
"""Names of these tables, and of `libraries`, that torch 2.4.1 lacks (run)."""

OLDER_DIFFERS: dict[str, str] = {
    "Tensor.ldexp": "float32 in a CUDA region, as pow",
    "torch.ldexp": "float32 in a CUDA region, as pow",
    "torch.nn.RMSNorm": "promotes with its float32 weight in a CPU region",
}
"""What torch 2.4.1 does otherwise than these tables say (run)."""

NEWER_DIFFERS: dict[str, str] = {
    "Tensor.cholesky": "raises: removed",
    "Tensor.qr": "raises: removed",
    "torch.cholesky": "raises: removed",
    "torch.combinations": "waits no more",
    "torch.qr": "raises: removed",
}
"""What torch 2.14.1 does otherwise than these tables say (run)."""

# --------------------------------------------------------------------------- lookups


def policy(name: str, device: str | None) -> str | None:
    """The autocast policy of a name in a region of that device type; None where it is not cast.

    XPU and MTIA share the lists of CUDA (read); those of MPS and others are near to them.
    """
    return AUTOCAST["cpu" if device == "cpu" else "cuda"].get(name)
