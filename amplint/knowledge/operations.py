"""Results of torch's operations: kind, rank, dtype and device, by canonical name.

The dtype words are about real dtypes; complex tensors are beyond amplint. Three rules hold for all
of RESULTS and are not repeated there: a `dtype=` argument (or a dtype among the positional ones)
wins over the dtype word, `out=` is returned as it is, and autocast comes first: inside a region
look at `casts.AUTOCAST` before RESULTS.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from amplint.knowledge.casts import DTYPE_OF_CAST
from amplint.knowledge.names import names, pairs, rows, words_of


@dataclass(frozen=True)
class OperationResult:
    """The result of a call, an attribute or an operator.

    Args:
        kind: "tensor"; "same" (a view or alias of the tensor, where it can be); "self" (the very
            object: in-place); "tensors" (a tuple or list of them); "host:bool", "host:float",
            "host:int", "host:list", "host:number", "host:numpy", "host:object", "host:size",
            "host:str"; "device"; "dtype"; "none".
        rank: of the tensor, or of each: "same" (as the first tensor's); "scalar" (0-dim);
            "scalar-without-dim" (0-dim unless `dim` is given, then unknown); "reduction" (0-dim
            unless reduction="none"); "some" (one dimension or more); "sizes" (some, unless the
            sizes given are empty); "broadcast" (the most of all tensor operands); "product" (some,
            where an operand may be a matrix); "unknown".
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
        tuple_if: keywords that make it a tuple when true (`return_indices`); where the dtype is
            "same", each of them adds a tensor of int64.
        names: of the `count` tensors, where the tuple is a named one (torch.return_types).
    """

    kind: str = "tensor"
    rank: str = "unknown"
    dtype: str = "unknown"
    device: str = "operands"
    count: int | None = None
    dtypes: tuple[str, ...] = ()
    dim: int | None = None
    by_dim: OperationResult | None = None
    by_tensor: OperationResult | None = None
    alone: OperationResult | None = None
    tuple_if: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


OF_COMPLEX = words_of(
    """
    H adjoint conj conj_physical imag is_conj mH real resolve_conj view_as_complex view_as_real
    """
)
"""Methods, attributes and functions that somebody uses for complex numbers (torch.Tensor, "Complex
Numbers"): what they are asked of is complex, or is taken apart or put together as such."""

MAKES_COMPLEX = words_of("complex conj fft fft2 fftn istft polar rfft rfft2 rfftn view_as_complex")
"""Functions and methods that give complex tensors."""


def _results(table: str) -> Iterator[tuple[str, OperationResult]]:
    """The results of a table, by name. The words before the colon are the kind, the rank and the
    dtype; a field `name=value` may follow."""
    for head, words in rows(table):
        fields: dict[str, Any] = {}
        for place, word in enumerate(head.split()):
            field, is_named, value = word.rpartition("=")
            if field in ("count", "dim"):
                fields[field] = int(value)
            elif field in ("dtypes", "names", "tuple_if"):
                fields[field] = tuple(value.split(","))
            else:
                fields[field if is_named else ("kind", "rank", "dtype")[place]] = value
        yield from dict.fromkeys(names(words), OperationResult(**fields)).items()


RESULTS: dict[str, OperationResult] = dict(
    _results("""
# Pointwise on one tensor, integers stay integers.
tensor same same: abs absolute bernoulli bitwise_not ceil clone conj_physical fix floor frac
    hardshrink index_fill masked_fill nan_to_num neg negative positive put relu round sgn sign
    square trunc .__abs__ .__invert__ .__neg__ .__pos__ torch.alpha_dropout torch.binomial
    torch.celu torch.dropout torch.fake_quantize_per_channel_affine
    torch.fake_quantize_per_tensor_affine torch.feature_alpha_dropout torch.feature_dropout
    torch.fill torch.poisson torch.rrelu torch.selu torch.threshold F.alpha_dropout F.celu F.dropout
    F.dropout1d F.dropout2d F.dropout3d F.elu F.feature_alpha_dropout F.gelu F.hardshrink
    F.hardsigmoid F.hardswish F.hardtanh F.leaky_relu F.logsigmoid F.mish F.relu F.relu6 F.rrelu
    F.selu F.silu F.softplus F.softshrink F.threshold special.round
# Pointwise on one tensor, through floating point.
tensor same float-of: acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan
    atanh cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 i0 lgamma log log10 log1p log2
    logit mvlgamma .polygamma rad2deg reciprocal rsqrt sigmoid sin sinc sinh sqrt tan tanh F.sigmoid
    F.softsign F.tanh F.tanhshrink special.airy_ai special.bessel_j0 special.bessel_j1
    special.bessel_y0 special.bessel_y1 special.digamma special.entr special.erf special.erfc
    special.erfcx special.erfinv special.exp2 special.expit special.expm1 special.gammaln special.i0
    special.i0e special.i1 special.i1e special.log1p special.log_ndtr special.logit
    special.modified_bessel_i0 special.modified_bessel_i1 special.modified_bessel_k0
    special.modified_bessel_k1 special.multigammaln special.ndtr special.ndtri
    special.psi special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1 special.sinc
    special.spherical_bessel_j0
# Along a dimension, or over windows of the same size: rank and dtype stay.
tensor same same: log_softmax logcumsumexp prelu renorm softmax msort F.gumbel_softmax F.log_softmax
    F.normalize F.prelu F.softmax F.softmin special.log_softmax special.softmax
tensor same long-of: cumprod cumsum
tensor some same: torch.batch_norm torch.group_norm torch.instance_norm torch.layer_norm
    torch.rms_norm F.batch_norm F.group_norm F.instance_norm F.layer_norm F.rms_norm
tensor some float-of: F.local_response_norm torch.cumulative_trapezoid
tensors same float-of: torch.gradient
tensor same int64: argsort
tensors same same count=2 dtypes=same,int64 names=values,indices: cummax cummin sort topk
tensors same same count=2 dtypes=same,int32: frexp
# Pointwise on several operands.
tensor broadcast promote: add addcmul bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift
    bitwise_xor clamp clamp_max clamp_min clip floor_divide fmax fmin fmod gcd heaviside hypot lcm
    lerp logaddexp logaddexp2 maximum minimum mul multiply nextafter pow remainder sub subtract
    where .__add__ .__and__ .__floordiv__ .__lshift__ .__mod__ .__mul__ .__or__ .__pow__ .__radd__
    .__rand__ .__rfloordiv__ .__rlshift__ .__rmod__ .__rmul__ .__ror__ .__rpow__ .__rrshift__
    .__rshift__ .__rsub__ .__rxor__ .__sub__ .__xor__ torch.rsub
tensor broadcast promote-float: addcdiv arctan2 atan2 copysign div divide igamma igammac ldexp
    true_divide xlogy .__rtruediv__ .__truediv__ special.chebyshev_polynomial_t
    special.chebyshev_polynomial_u special.chebyshev_polynomial_v special.chebyshev_polynomial_w
    special.gammainc special.gammaincc special.hermite_polynomial_h special.hermite_polynomial_he
    special.laguerre_polynomial_l special.legendre_polynomial_p
    special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u
    special.shifted_chebyshev_polynomial_v special.shifted_chebyshev_polynomial_w special.xlog1py
    special.xlogy special.zeta
tensor broadcast float64: float_power
# Comparisons and tests.
tensor broadcast bool: eq ge greater greater_equal gt isclose le less less_equal logical_and
    logical_or logical_xor lt ne not_equal .__eq__ .__ge__ .__gt__ .__le__ .__lt__ .__ne__
tensor same bool: isfinite isinf isnan isneginf isposinf isreal logical_not signbit torch.isin
# Reductions.
tensor scalar-without-dim same dim=0: amax amin mean nanmean std var median nanmedian max min
tensor scalar-without-dim long-of dim=0: nansum prod sum
tensor scalar-without-dim bool dim=0: all any
tensor scalar-without-dim int64 dim=0: argmax argmin count_nonzero
tensor scalar-without-dim same dim=1: norm linalg.norm linalg.vector_norm
tensor scalar-without-dim uint64 dim=0: hash_tensor
tensors scalar-without-dim same count=2: aminmax
tensors scalar-without-dim same count=2 dim=0: torch.std_mean torch.var_mean
tensors unknown same count=2 dtypes=same,int64 names=values,indices: kthvalue mode
tensor scalar long-of: trace
tensor scalar promote: dist dot vdot
tensor unknown same: nanquantile quantile torch.norm_except_dim torch.nuclear_norm
    linalg.matrix_norm
tensor unknown float-of: logsumexp special.logsumexp special.polygamma torch.polygamma
    torch.trapezoid torch.trapz
# Where the values decide the shape: a device must wait for them (DATA_DEPENDENT).
tensor some int64: argwhere bincount multinomial nonzero_static F.one_hot
tensor some int64 tuple_if=as_tuple: nonzero
tensor some same: masked_select histc
tensor some same tuple_if=return_inverse,return_counts: unique unique_consecutive
tensors some same count=2: histogram
tensor same int64: torch.bucketize
tensor unknown int64: torch.searchsorted
# Products and distances. Where the word is "same", operands of different dtypes raise.
# The result of F.linear has one dimension or more, except for a weight of one dimension.
tensor some same: addbmm addmm addmv baddbmm bmm mm mv torch.bilinear torch.cdist torch.chain_matmul
    torch.conv1d torch.conv2d torch.conv3d torch.conv_tbc torch.conv_transpose1d
    torch.conv_transpose2d torch.conv_transpose3d torch.convolution torch.pdist F.bilinear F.conv1d
    F.conv2d F.conv3d F.conv_tbc F.conv_transpose1d F.conv_transpose2d F.conv_transpose3d
    F.grouped_mm F.linear F.pdist F.scaled_dot_product_attention linalg.multi_dot
tensor product same: matmul .__matmul__ .__rmatmul__ linalg.matmul
tensor unknown same: inner torch.einsum torch.tensordot linalg.vecdot
tensor broadcast same: cross linalg.cross
tensor some promote: addr ger outer torch.block_diag torch.cartesian_prod
tensor unknown promote: kron torch.cosine_similarity F.cosine_similarity
tensor unknown promote-float: F.pairwise_distance torch.pairwise_distance
tensor unknown float-of: corrcoef cov
tensors some same count=2: F.multi_head_attention_forward
# Linear algebra.
tensor some same: cholesky cholesky_inverse cholesky_solve inverse lu_solve matrix_exp matrix_power
    orgqr ormqr pinverse tril triu linalg.cholesky linalg.eigvalsh linalg.householder_product
    linalg.inv linalg.ldl_solve linalg.lu_solve linalg.matrix_exp linalg.matrix_power linalg.pinv
    linalg.solve linalg.solve_triangular linalg.svdvals linalg.tensorinv
tensor unknown same: det logdet linalg.cond linalg.det linalg.tensorsolve
tensor some long-of: linalg.vander torch.vander
tensor some unknown: linalg.eigvals
tensor unknown int64: linalg.matrix_rank
tensors some same count=2: geqrf triangular_solve torch.lobpcg
tensors some same count=2 names=Q,R: qr linalg.qr
tensors some same count=2 names=eigenvalues,eigenvectors: linalg.eigh
tensors some unknown count=2 names=eigenvalues,eigenvectors: linalg.eig
tensors some same count=3 names=U,S,V: svd
tensors some same count=3 names=P,L,U: linalg.lu
tensors some same count=3 names=U,S,Vh: linalg.svd
tensors some same count=3: torch.lu_unpack torch.pca_lowrank torch.svd_lowrank
tensors unknown same count=2 names=sign,logabsdet: slogdet linalg.slogdet
tensors unknown same count=2 dtypes=same,int32: lu linalg.cholesky_ex linalg.inv_ex
    linalg.ldl_factor linalg.lu_factor linalg.solve_ex
tensors unknown same count=3 dtypes=same,int32,int32: linalg.ldl_factor_ex linalg.lu_factor_ex
tensors unknown same count=4 dtypes=same,same,int64,same
    names=solution,residuals,rank,singular_values: linalg.lstsq
# Fourier transforms: mostly complex.
tensor same unknown: fft.fft fft.fft2 fft.fftn fft.hfft fft.hfft2 fft.hfftn fft.ifft fft.ifft2
    fft.ifftn fft.ihfft fft.ihfft2 fft.ihfftn fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2
    fft.rfftn
tensor same same: fft.fftshift fft.ifftshift
tensor some unknown: istft stft
tensor broadcast unknown: torch.complex torch.polar
same unknown unknown: torch.view_as_complex torch.view_as_real
# Losses. The functions under torch take the reduction as a number, and mostly default to none.
tensor reduction same: F.cross_entropy F.ctc_loss F.hinge_embedding_loss F.huber_loss
    F.linear_cross_entropy F.multi_margin_loss F.multilabel_margin_loss F.nll_loss
    F.soft_margin_loss
tensor reduction promote: F.binary_cross_entropy F.gaussian_nll_loss F.kl_div F.l1_loss F.mse_loss
    F.multilabel_soft_margin_loss F.smooth_l1_loss
tensor reduction promote-float: F.cosine_embedding_loss F.margin_ranking_loss F.poisson_nll_loss
    F.triplet_margin_loss F.triplet_margin_with_distance_loss
tensor reduction unknown: F.binary_cross_entropy_with_logits
tensor unknown unknown: torch.binary_cross_entropy_with_logits
tensor unknown same: torch.ctc_loss torch.hinge_embedding_loss
tensor unknown promote-float: torch.cosine_embedding_loss torch.kl_div torch.margin_ranking_loss
    torch.poisson_nll_loss torch.triplet_margin_loss
# Pooling, resampling, padding, lookup.
tensor some float-of: F.lp_pool1d F.lp_pool2d F.lp_pool3d
tensor some same: torch.adaptive_avg_pool1d torch.avg_pool1d torch.channel_shuffle
    torch.constant_pad_nd torch.grid_sampler torch.grid_sampler_2d torch.grid_sampler_3d
    torch.max_pool1d torch.max_pool2d torch.max_pool3d torch.native_channel_shuffle
    torch.pixel_shuffle torch.pixel_unshuffle torch.affine_grid_generator F.adaptive_avg_pool1d
    F.adaptive_avg_pool2d F.adaptive_avg_pool3d F.avg_pool1d F.avg_pool2d F.avg_pool3d
    F.channel_shuffle F.glu F.grid_sample F.interpolate F.max_unpool1d F.max_unpool2d F.max_unpool3d
    F.native_channel_shuffle F.pad F.pixel_shuffle F.pixel_unshuffle F.upsample F.upsample_bilinear
    F.upsample_nearest F.affine_grid F.fold F.unfold
tensor some same tuple_if=return_indices: F.adaptive_max_pool1d F.adaptive_max_pool2d
    F.adaptive_max_pool3d F.fractional_max_pool2d F.fractional_max_pool3d F.max_pool1d F.max_pool2d
    F.max_pool3d
tensors some same count=2 dtypes=same,int64: torch.adaptive_max_pool1d torch.max_pool1d_with_indices
    F.adaptive_max_pool1d_with_indices F.adaptive_max_pool2d_with_indices
    F.adaptive_max_pool3d_with_indices F.fractional_max_pool2d_with_indices
    F.fractional_max_pool3d_with_indices F.max_pool1d_with_indices F.max_pool2d_with_indices
    F.max_pool3d_with_indices
# The indices are integers, so promotion keeps the dtype of the weight.
tensor some promote: F.embedding F.embedding_bag torch.embedding
tensors some unknown count=4: torch.embedding_bag
# Recurrent cells and layers, as functions.
tensor same same: torch.gru_cell torch.rnn_relu_cell
tensor same float-of: torch.rnn_tanh_cell
tensors same same count=2: torch.lstm_cell
tensors some same count=2: torch.gru torch.rnn_relu torch.rnn_tanh
tensors some same count=3: torch.lstm
# Shapes: views and copies of the same numbers.
same same same: adjoint conj detach moveaxis movedim narrow permute resolve_conj resolve_neg
    swapaxes swapdims t transpose .H .T .as_subclass .coalesce .contiguous .data .mH .mT .pin_memory
    .real .to_dense torch.real nn.Buffer nn.Parameter
same some same: flatten ravel unsqueeze .unfold torch.atleast_1d torch.atleast_2d torch.atleast_3d
same sizes same: broadcast_to reshape .expand .view
tensor sizes same: .repeat
same unknown same: as_strided diagonal select squeeze unflatten .__getitem__ .expand_as .reshape_as
    .view_as linalg.diagonal
tensor unknown same: take tile
tensor unknown long-of: .sum_to_size
tensor some same: diag diag_embed diagflat repeat_interleave take_along_dim torch.combinations
tensor same same: as_strided_scatter diagonal_scatter diff flip fliplr flipud gather index_add
    index_copy index_put index_reduce index_select masked_scatter narrow_copy roll rot90 scatter
    scatter_add scatter_reduce select_scatter slice_inverse slice_scatter .__reversed__
tensor some promote: torch.cat torch.column_stack torch.concat torch.concatenate torch.dstack
    torch.hstack torch.row_stack torch.stack torch.vstack
tensors some same: chunk dsplit hsplit split split_with_sizes tensor_split unsafe_chunk unsafe_split
    unsafe_split_with_sizes vsplit torch.meshgrid
tensors unknown same: unbind .__iter__
tensors broadcast unknown: torch.broadcast_tensors
tensors unknown int64: torch.unravel_index
# Copies under the name of the view.
tensor same same: torch.alias_copy torch.detach_copy torch.permute_copy torch.slice_copy
    torch.t_copy torch.transpose_copy
tensor unknown same: torch.as_strided_copy torch.diagonal_copy torch.expand_copy torch.select_copy
    torch.squeeze_copy torch.unfold_copy torch.unsqueeze_copy torch.view_copy
tensors unknown same: torch.split_copy torch.split_with_sizes_copy torch.unbind_copy
tensor same arg device=arg: .to .type .type_as
tensor same same device=arg: .cuda .ipu .mtia .xpu
tensor same same device=cpu: .cpu
# What is no tensor. Those that read the device back to say so are in HOST_READS.
host:bool: allclose equal is_complex is_conj is_distributed is_floating_point is_inference is_neg
    is_nonzero is_same_size is_signed .__bool__ .__contains__ .is_coalesced .is_contiguous .is_cpu
    .is_cuda .is_ipu .is_leaf .is_maia .is_meta .is_mkldnn .is_mps .is_mtia .is_nested .is_pinned
    .is_quantized .is_set_to .is_shared .is_sparse .is_sparse_csr .is_vulkan .is_xla .is_xpu
    .requires_grad .retains_grad torch.are_deterministic_algorithms_enabled torch.can_cast
    torch.is_anomaly_enabled torch.is_autocast_cache_enabled torch.is_autocast_cpu_enabled
    torch.is_autocast_enabled torch.is_grad_enabled torch.is_inference_mode_enabled torch.is_storage
    torch.is_tensor torch.cuda.is_available torch.distributed.is_available
    torch.distributed.is_initialized
host:float: .__float__
host:int: get_device numel .__index__ .__int__ .__len__ .const_data_ptr .data_ptr .dense_dim .dim
    .element_size .itemsize .nbytes .ndim .ndimension .nelement .output_nr .sparse_dim
    .storage_offset torch.cuda.current_device torch.cuda.device_count
    torch.cuda.max_memory_allocated torch.cuda.max_memory_reserved torch.cuda.memory_allocated
    torch.cuda.memory_reserved torch.get_num_threads torch.initial_seed torch.seed
host:list: .tolist
host:number: .item
host:numpy: .__array__ .numpy
host:object: .grad_fn .layout .register_hook .register_post_accumulate_grad_hook .storage
    .untyped_storage torch.finfo torch.iinfo torch.manual_seed
host:size: .dim_order .shape .size .stride torch.broadcast_shapes
host:str: .__format__ .__repr__ .__str__ torch.get_float32_matmul_precision torch.typename
device: .device torch.get_default_device
dtype: .dtype torch.get_autocast_cpu_dtype torch.get_autocast_dtype torch.get_autocast_gpu_dtype
    torch.get_default_dtype torch.promote_types torch.result_type
none: .__setitem__ .backward .record_stream .retain_grad torch.clear_autocast_cache torch.save
    torch.set_default_device torch.set_default_dtype torch.set_float32_matmul_precision
    torch.set_num_threads torch.set_printoptions torch.set_rng_state
    torch.use_deterministic_algorithms torch.cuda.empty_cache torch.cuda.set_device
    torch.cuda.synchronize nn.utils.clip_grad_value_
tensor same same: .grad
tensor some uint8 device=cpu: torch.get_rng_state
tensor scalar promote: nn.utils.clip_grad_norm_ nn.utils.get_total_norm
tensor some promote: nn.utils.parameters_to_vector
tensor some same: nn.utils.rnn.pad_sequence
tensors unknown same: torch.autograd.grad
# In place: the very object comes back, and neither promotion nor autocast changes its dtype.
self same same: abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ asin_
    asinh_ atan_ atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_
    detach_ erf_ erfc_ exp2_ exp_ expm1_ fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ ldexp_ log10_
    log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu_ round_ rsqrt_
    sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_ .__iadd__ .__iand__
    .__ifloordiv__ .__ilshift__ .__imod__ .__imul__ .__ior__ .__ipow__ .__irshift__ .__isub__
    .__itruediv__ .__ixor__ .absolute_ .add_ .addbmm_ .addcdiv_ .addcmul_ .addmm_ .addr_ .apply_
    .arctan2_ .atan2_ .baddbmm_ .bernoulli_ .bitwise_and_ .bitwise_left_shift_ .bitwise_not_
    .bitwise_or_ .bitwise_right_shift_ .bitwise_xor_ .cauchy_ .copy_ .copysign_ .cumprod_ .cumsum_
    .digamma_ .div_ .divide_ .eq_ .erfinv_ .exponential_ .fill_ .fill_diagonal_ .float_power_
    .floor_divide_ .fmod_ .ge_ .geometric_ .greater_ .greater_equal_ .gt_ .heaviside_ .hypot_
    .igamma_ .igammac_ .index_add_ .index_copy_ .index_fill_ .index_reduce_ .le_ .lerp_ .less_
    .less_equal_ .lgamma_ .log_normal_ .logical_and_ .logical_not_ .logical_or_ .logical_xor_ .lt_
    .map2_ .map_ .masked_fill_ .masked_scatter_ .mul_ .multiply_ .mvlgamma_ .ne_ .nextafter_
    .normal_ .not_equal_ .polygamma_ .pow_ .put_ .random_ .remainder_ .renorm_ .requires_grad_
    .scatter_ .scatter_add_ .scatter_reduce_ .sgn_ .share_memory_ .sign_ .sub_ .subtract_ .swapaxes_
    .swapdims_ .t_ .transpose_ .tril_ .triu_ .true_divide_ .uniform_ torch.alpha_dropout_
    torch.celu_ torch.dropout_ torch.feature_alpha_dropout_ torch.feature_dropout_ torch.fill_
    torch.rrelu_ torch.selu_ torch.threshold_ F.celu_ F.elu_ F.hardtanh_ F.leaky_relu_ F.relu_
    F.rrelu_ F.selu_ F.threshold_ nn.init.constant_ nn.init.dirac_ nn.init.eye_
    nn.init.kaiming_normal_ nn.init.kaiming_uniform_ nn.init.normal_ nn.init.ones_
    nn.init.orthogonal_ nn.init.sparse_ nn.init.trunc_normal_ nn.init.uniform_
    nn.init.xavier_normal_ nn.init.xavier_uniform_ nn.init.zeros_
self unknown same: as_strided_ resize_as_ .resize_ .set_ .squeeze_ .unsqueeze_
""")
)
RESULTS |= {name: OperationResult("tensor", "same", dtype) for name, dtype in DTYPE_OF_CAST.items()}
for _name in names("max median min nanmedian"):
    RESULTS[_name] = replace(RESULTS[_name], by_dim=RESULTS["torch.mode"])
for _name in names("max min"):
    RESULTS[_name] = replace(RESULTS[_name], by_tensor=RESULTS["torch.maximum"])
for _name in names("where"):
    RESULTS[_name] = replace(RESULTS[_name], alone=OperationResult("tensors", "some", "int64"))

INDEX_ARGUMENTS: dict[str, int] = {
    name: int(position)
    for position, words in rows("""
0: F.embedding F.embedding_bag F.one_hot nn.Embedding nn.EmbeddingBag .take .take_along_dim .put
    .put_
1: .gather .index_add .index_add_ .index_copy .index_copy_ .index_fill .index_fill_ .index_reduce
    .index_reduce_ .index_select .scatter .scatter_ .scatter_add .scatter_add_ .scatter_reduce
    .scatter_reduce_ torch.put torch.take torch.take_along_dim
2: torch.gather torch.index_add torch.index_copy torch.index_fill torch.index_reduce
    torch.index_select torch.scatter torch.scatter_add torch.scatter_reduce
""")
    for name in names(words)
}
"""What takes indices, which must be integers -> the position of that argument. So does `x[index]`,
which takes masks of bools as well."""

DETACHED: frozenset[str] = frozenset(names("detach detach_ .data"))
"""What returns a tensor without the graph of its operand."""

OPERATORS: dict[str, str] = pairs(
    """
    Add=__add__ Sub=__sub__ Mult=__mul__ MatMult=__matmul__ Div=__truediv__ FloorDiv=__floordiv__
    Mod=__mod__ Pow=__pow__ LShift=__lshift__ RShift=__rshift__ BitAnd=__and__ BitOr=__or__
    BitXor=__xor__ USub=__neg__ UAdd=__pos__ Invert=__invert__ Not=__bool__ Eq=__eq__ NotEq=__ne__
    Lt=__lt__ LtE=__le__ Gt=__gt__ GtE=__ge__ In=__contains__ NotIn=__contains__
    """
)
"""The class of an `ast` operator -> the method that answers it (`in`: the right operand's)."""

REFLECTED: dict[str, str] = {
    op: f"__r{OPERATORS[op][2:]}"
    for op in "Add Sub Mult MatMult Div FloorDiv Mod Pow LShift RShift BitAnd BitOr BitXor".split()
}
"""The class of an `ast` operator -> the method that answers it, where only the right operand is a
tensor."""

SHAPE_METHODS: frozenset[str] = words_of(
    "expand flatten permute repeat reshape squeeze t transpose unsqueeze view"
)
"""Methods of a tensor that give its elements in another shape, and nothing else."""

SAME_VALUES: frozenset[str] = SHAPE_METHODS | words_of("clone contiguous detach double float")
"""Methods of a tensor that give its numbers, in another shape or a dtype that holds them."""

COUNTED_ALIKE: frozenset[str] = SAME_VALUES | words_of(
    "bfloat16 cuda half int long to type type_as"
)
"""Methods of a tensor of positions that give these positions, in another shape, dtype or place."""

OF_IT_ALONE: frozenset[str] = words_of(
    "mean sum cpu cuda to clone float double half bfloat16 squeeze unsqueeze view reshape flatten"
)
"""Methods of a tensor that give one that is made of it alone, and is in its graph: what is done to
a loss before it is backpropagated, or added up."""

MEASURES: frozenset[str] = words_of("dim element_size item nelement ndimension numel size")
"""Methods of a tensor that give numbers; what has one of them by another library gives one, too."""

MEASURED: frozenset[str] = words_of("ndim shape")
"""Attributes of a tensor that are numbers, or sequences of them."""

DESCRIBES: frozenset[str] = (MEASURES | MEASURED | {"device", "dtype"}) - {"item"}
"""Attributes and methods of a tensor that say what it is like, and read none of its elements."""
