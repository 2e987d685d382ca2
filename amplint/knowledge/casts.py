"""Dtypes: methods that cast, operations that demand equal dtypes or refuse half, autocast's lists.

Keys are canonical names, as in `names`; RESULTS of `operations` says what comes of an operation.
"""

from __future__ import annotations

from amplint.knowledge.names import names, pairs, words_of

DTYPE_OF_CAST: dict[str, str] = pairs(
    """
    Tensor.bfloat16=bfloat16 Tensor.bool=bool Tensor.byte=uint8 Tensor.cdouble=complex128
    Tensor.cfloat=complex64 Tensor.chalf=complex32 Tensor.char=int8 Tensor.double=float64
    Tensor.float=float32 Tensor.half=float16 Tensor.int=int32 Tensor.long=int64 Tensor.short=int16
    """
)
"""A method that casts -> the dtype that it casts to."""

MOVES: frozenset[str] = frozenset(names(".cpu .cuda .ipu .mtia .to .type .xpu"))
"""The methods that may change the device; what `to` and `type` do is in their arguments."""

EQUAL_DTYPES: frozenset[str] = frozenset(
    names(
        """
        addbmm addmm addmv baddbmm bmm dot inner matmul mm mv vdot
        .__matmul__ .__rmatmul__
        torch.chain_matmul torch.conv1d torch.conv2d torch.conv3d torch.conv_transpose1d
        torch.conv_transpose2d torch.conv_transpose3d torch.einsum torch.tensordot
        F.bilinear F.conv1d F.conv2d F.conv3d F.conv_transpose1d F.conv_transpose2d
        F.conv_transpose3d F.grouped_mm F.linear F.scaled_dot_product_attention
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
        torch.cdist torch.ctc_loss torch.pdist
        F.ctc_loss F.pdist
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
"""Functions that raise where an operand is bfloat16, unless autocast casts it, and not always where
it is float16: CUDA transforms float16 of some sizes, and torch 2.14 takes more."""

LAYERS: frozenset[str] = words_of(
    "gru gru_cell linear lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell"
)
"""Functions that layers call with their parameters. Outside of a region, the dtypes of what they
are given have to agree (run: torch 2.13)."""

FACTORISES_PRODUCTS: frozenset[str] = frozenset(names("torch.pca_lowrank torch.svd_lowrank"))
"""What multiplies its operand by a random matrix and hands the product to `linalg.qr`: in a region
of CUDA that is half, whatever the operand was but float64, and raises (torch/_lowrank.py)."""

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
# come to one of them inside. `F.interpolate` is fp32 on CUDA except for mode="area".
# Read in the source, not run: the recurrent names on CUDA (cudnn has its own cast, in
# AutocastRNN.cpp), cov, corrcoef and the attention forward; "unknown" on CUDA for what its kernels
# call inside, and for what only newer versions cast (see tests/oracles/torch_versions.py).
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
    torch.pairwise_distance torch.pdist torch.poisson_nll_loss torch.trapezoid torch.trapz
    torch.triplet_margin_loss
    F.binary_cross_entropy_with_logits F.cosine_embedding_loss F.cosine_similarity F.cross_entropy
    F.gaussian_nll_loss F.group_norm F.gumbel_softmax F.hinge_embedding_loss F.huber_loss
    F.interpolate F.kl_div F.l1_loss F.layer_norm F.linear_cross_entropy F.local_response_norm
    F.lp_pool1d F.lp_pool2d F.lp_pool3d F.margin_ranking_loss F.mse_loss F.multi_margin_loss
    F.multilabel_margin_loss F.multilabel_soft_margin_loss F.nll_loss F.normalize
    F.pairwise_distance F.pdist F.poisson_nll_loss F.smooth_l1_loss F.soft_margin_loss F.softplus
    F.triplet_margin_loss F.triplet_margin_with_distance_loss F.upsample
    F.upsample_bilinear F.upsample_nearest
    nn.BCEWithLogitsLoss nn.CosineEmbeddingLoss nn.CosineSimilarity nn.CrossEntropyLoss
    nn.GaussianNLLLoss nn.GroupNorm nn.HingeEmbeddingLoss nn.HuberLoss nn.KLDivLoss nn.L1Loss
    nn.LPPool1d nn.LPPool2d nn.LPPool3d nn.LayerNorm nn.LinearCrossEntropyLoss nn.LocalResponseNorm
    nn.MSELoss nn.MarginRankingLoss nn.MultiLabelMarginLoss nn.MultiLabelSoftMarginLoss
    nn.MultiMarginLoss nn.NLLLoss nn.NLLLoss2d nn.PairwiseDistance nn.PoissonNLLLoss nn.SmoothL1Loss
    nn.SoftMarginLoss nn.Softplus nn.TripletMarginLoss
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
    torch.affine_grid_generator torch.lobpcg torch.rms_norm
    F.affine_grid F.rms_norm
    linalg.lstsq
    nn.AdaptiveLogSoftmaxWithLoss nn.RMSNorm nn.Transformer nn.TransformerDecoder
    nn.TransformerDecoderLayer nn.TransformerEncoder nn.TransformerEncoderLayer
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

CAST_WITHIN_ON_CPU: frozenset[str] = frozenset({"torch.einsum"})
"""What the CPU's autocast does not cast itself, but only where it comes to a product inside:
`einsum("ij,jk->ik", a, b)` is half there, `einsum("i,j->ij", a, b)` is not (run, torch 2.13.0)."""

# --------------------------------------------------------------------------- lookups


def policy(name: str, device: str | None) -> str | None:
    """The autocast policy of a name in a region of that device type; None where it is not cast.

    XPU and MTIA share the lists of CUDA (read); those of MPS and others are near to them.
    """
    return AUTOCAST["cpu" if device == "cpu" else "cuda"].get(name)


# --------------------------------------------------------------------------- bfloat16

ADAMS: frozenset[str] = frozenset({"torch.optim.Adam", "torch.optim.AdamW"})
"""Optimizers whose steps are about as large as the learning rate, whatever the gradient is, and
which keep and change the parameters in their own dtype (`torch/optim/adam.py` of torch 2.13)."""

# --------------------------------------------------------------------------- float16

HALF_OF_LEAST = 2.0**-25  # what is not larger is 0 in float16

EPSILONS: dict[str, tuple[int, float]] = {
    "torch.optim.Adagrad": (5, 1e-10),
    **{
        f"torch.optim.{name}": (3, 1e-8) for name in "Adam AdamW Adamax NAdam RAdam RMSprop".split()
    },
}
"""Optimizers that divide by what gradients have been, plus `eps`, in the dtype of the parameters,
and so by 0 where that is float16 and a gradient is small -> the position of `eps`, its default."""
