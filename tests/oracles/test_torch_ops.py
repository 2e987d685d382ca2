"""The tables of amplint.knowledge against the installed torch.

Each name is called with small tensors of several shapes and dtypes on the CPU, and what comes back
is held against the table. Autocast is asked twice: the dispatcher for what it registers, and the
names themselves, on real CPU tensors and on fake CUDA ones (a CPU build of torch has the autocast
kernels of CUDA too, and FakeTensor runs them without a device).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import logging
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amplint.inference.transfer import ranks
from amplint.inference.transfer.ranks import RankedCall
from amplint.knowledge import casts, host_reads, libraries, modules, names, operations
from amplint.knowledge.factories import FACTORIES, LEGACY_CONSTRUCTORS, Factory
from amplint.knowledge.operations import (
    DETACHED,
    INDEX_ARGUMENTS,
    OPERATORS,
    REFLECTED,
    OperationResult,
)
from amplint.values.atoms import (
    BOTTOM,
    NONE,
    UNKNOWN,
    Arguments,
    DType,
    Host,
    Sequence,
    Tensor,
    Value,
    one,
)
from rules.precision._buffers import is_exact_in_half
from tests.oracles.torch_versions import CAST_SINCE, NEWER, NEWER_DIFFERS, OLDER_DIFFERS

torch = pytest.importorskip("torch")
fake_tensor = pytest.importorskip("torch._subclasses.fake_tensor")
F = torch.nn.functional

pytestmark = pytest.mark.filterwarnings("ignore")

OLD, NEW = torch.__version__ < "2.13", torch.__version__ >= "2.14"
UNEQUAL = {*NEWER, *OLDER_DIFFERS} if OLD else set()
UNEQUAL |= set(NEWER_DIFFERS) if NEW else set()
RESULTS = {name: result for name, result in operations.RESULTS.items() if name not in UNEQUAL}
MODULES = {name: facts for name, facts in modules.MODULES.items() if name not in UNEQUAL}

# --------------------------------------------------------------------------- how to call a name

# Names : arguments. x, y have the shape and the dtypes under test; v, w are of one dimension (4),
# z, u of three (2, 4, 4), of the dtypes of x and y; b is a mask and k an index (of zeros) of x's
# shape; i = [0, 1], j = [0, 1, 2, 3]. A name without a line is called with (x), or (x, y) where
# the table says that operands broadcast; f_ is called as f.
CALLS = """
allclose equal is_same_size dist inner kron matmul mm .__matmul__ .__rmatmul__ : x, y
torch.cdist torch.isin torch.result_type torch.broadcast_tensors torch.complex : x, y
slice_inverse torch.polar : x, y
linalg.matmul linalg.vecdot linalg.solve linalg.solve_ex linalg.lstsq : x, y
F.cosine_similarity F.pairwise_distance : x, y
F.linear : x, u[0]
torch.cosine_similarity torch.pairwise_distance torch.binary_cross_entropy_with_logits : x, y
F.binary_cross_entropy F.binary_cross_entropy_with_logits F.hinge_embedding_loss : x, y
F.huber_loss F.kl_div F.l1_loss F.mse_loss F.multilabel_soft_margin_loss : x, y
F.poisson_nll_loss F.smooth_l1_loss F.soft_margin_loss torch.hinge_embedding_loss : x, y
torch.kl_div .view_as .reshape_as .expand_as .type_as .copy_ .set_ resize_as_ .is_set_to : x, y
slice_scatter .__iadd__ .__iand__ .__ifloordiv__ .__ilshift__ .__imod__ .__imul__ : x, y
.__ior__ .__ipow__ .__irshift__ .__isub__ .__itruediv__ .__ixor__ : x, y
torch.poisson_nll_loss : x, y, True, False, 1e-8, 1
F.triplet_margin_loss F.triplet_margin_with_distance_loss torch.triplet_margin_loss : x, y, y
F.margin_ranking_loss torch.margin_ranking_loss : x, y, k + 1
F.cosine_embedding_loss torch.cosine_embedding_loss : x, y, j.clamp(max=1)
F.gaussian_nll_loss : x, y, y.abs()
addcdiv addcmul addmm : x, y, x
lerp : x, y, 0.5
torch.where : b, x, y
Tensor.where : x, b, y
masked_scatter : x, b, y
masked_select : x, b
masked_fill : x, b, 0
take F.multilabel_margin_loss : x, k
F.cross_entropy F.nll_loss F.multi_margin_loss : x, j
F.linear_cross_entropy : x, x, j
torch.polygamma special.polygamma : 1, x
.polygamma .polygamma_ : x, 1
mvlgamma special.multigammaln : x + 2, 1
clamp clamp_max clamp_min clip cummax cummin cumprod cumsum logcumsumexp logsumexp unsqueeze : x, 0
log_softmax softmax special.log_softmax special.logsumexp special.softmax F.softmax : x, 0
F.log_softmax F.softmin .fill_ torch.fill torch.fill_ nn.init.constant_ torch.unsqueeze_copy : x, 0
squeeze torch.squeeze_copy unbind torch.unbind_copy : x
chunk unsafe_chunk matrix_power linalg.matrix_power torch.split_copy split unsafe_split : x, 2
tensor_split dsplit hsplit vsplit topk .tile : x, 2
split_with_sizes unsafe_split_with_sizes torch.split_with_sizes_copy : x, [2, 2]
kthvalue : x, 1
select torch.select_copy : x, 0, 0
swapaxes swapdims transpose moveaxis movedim torch.transpose_copy : x, 0, -1
narrow narrow_copy : x, 0, 0, 1
index_select : x, 0, i
index_fill : x, 0, i, 1
gather : x, 0, k
scatter scatter_add : x, 0, k, y
scatter_reduce : x, 0, k, y, "sum"
index_add index_copy : x, 0, i, y[:2]
index_reduce : x, 0, i, y[:2], "amax"
index_put : x, (i,), y[:2]
put : x, k, y
take_along_dim : x, k, 0
select_scatter : x, y[0], 0, 0
diagonal_scatter : x, y.diagonal()
as_strided : x, (2,), (1,)
as_strided_scatter : x, y.flatten()[:2], (2,), (1,)
torch.as_strided_copy : x, (2,), (1,)
flip : x, [0]
roll : x, 1
permute torch.permute_copy : x, list(range(x.dim()))[::-1]
unflatten : x, 0, (2, 2)
.unfold torch.unfold_copy : x, 0, 1, 1
reshape .view torch.view_copy : x, (-1,)
.expand broadcast_to torch.expand_copy : x, (2, *x.shape)
.repeat torch.tile : x, (2,) * max(x.dim(), 1)
.sum_to_size : x, (1,) * x.dim()
repeat_interleave : x, 2
renorm : x, 2, 0, 1.0
quantile nanquantile : x, 0.5
torch.alpha_dropout torch.dropout torch.feature_alpha_dropout torch.feature_dropout : x, 0.5, True
torch.threshold F.threshold : x, 0.1, 0.2
prelu F.prelu : x, v[:1]
torch.binomial : x * 0 + 5, x
torch.fake_quantize_per_tensor_affine : x, 0.1, 0, 0, 255
torch.fake_quantize_per_channel_affine : x, torch.full((4,), 0.1), j.int() * 0, 0, 0, 255
torch.layer_norm torch.rms_norm F.layer_norm F.rms_norm : x, x.shape[-1:]
torch.group_norm F.group_norm : x, 2
torch.batch_norm torch.instance_norm : z, None, None, None, None, True, 0.1, 1e-5, False
F.batch_norm : x, None, None, training=True
F.instance_norm : z
F.local_response_norm : z, 2
addbmm : x, z, u
baddbmm : z, z, u
bmm : z, u
F.grouped_mm : z.repeat(1, 1, 2), u.repeat(1, 2, 2)
addmv : v, x, w
addr : x, v, w
mv : x, w
ger outer dot vdot : v, w
torch.bilinear : x, y, z, None
F.bilinear : x, y, z
torch.chain_matmul torch.block_diag : x, y
torch.cartesian_prod torch.meshgrid : v, w
torch.cat torch.column_stack torch.concat torch.concatenate torch.dstack : [x, y]
torch.hstack torch.row_stack torch.stack torch.vstack : [x, y]
linalg.multi_dot : [x, u[0]]
torch.einsum : "ij,jk->ik", x, y
torch.tensordot : x, y, 1
cross linalg.cross : v[:3], w[:3]
F.scaled_dot_product_attention : z, u, u
F.multi_head_attention_forward : z, z, z, 4, 2, x.repeat(3, 1), *[None] * 3, False, 0.0, x, None
torch.conv1d F.conv1d : z, u
torch.conv2d F.conv2d : z[None], u[None]
torch.conv3d F.conv3d torch.conv_transpose3d F.conv_transpose3d : z[None, None], u[None, None]
torch.conv_transpose1d F.conv_transpose1d : z, u.view(4, 2, 4)
torch.conv_transpose2d F.conv_transpose2d : z[None], u[:, None]
torch.conv_tbc F.conv_tbc : z, u, w
torch.convolution : z, u, None, [1], [0], [1], False, [0], 1
torch.gradient : x
bincount : k.flatten()
multinomial : x, 2
nonzero_static : x, size=2
histc : x, 4
histogram : x, 4
torch.bucketize torch.searchsorted : v, x
F.one_hot : k
torch.vander linalg.vander : v
corrcoef cov : x
cholesky_solve : x, y
lu_solve : x, x, j.int() + 1
linalg.lu_solve : x, j.int() + 1, y
linalg.ldl_solve : x, j.int() + 1, y
linalg.solve_triangular : x, y, upper=True
linalg.tensorsolve : x, v
linalg.tensorinv : x, ind=1
linalg.householder_product orgqr : x, v
ormqr : x, v, y
triangular_solve : x, y
torch.lu_unpack : x, j.int() + 1
torch.pca_lowrank torch.svd_lowrank : x, 2
torch.lobpcg : x, 1
stft : x.flatten(), 8, window=torch.ones(8, device=x.device), return_complex=True
istft : x[:3].to(torch.complex64), 4, window=torch.ones(4, device=x.device)
torch.view_as_complex : x.view(4, 2, 2)
torch.view_as_real : x.to(torch.complex64)
F.ctc_loss : x[:, None].log_softmax(-1), k[:1, :1] + 1, i[:1] + 4, i[:1] + 1
torch.ctc_loss : x[:, None].log_softmax(-1), k[:1, :1] + 1, i[:1] + 4, i[:1] + 1
F.adaptive_avg_pool1d torch.adaptive_avg_pool1d F.avg_pool1d torch.avg_pool1d : z, 2
F.adaptive_max_pool1d F.adaptive_max_pool1d_with_indices torch.adaptive_max_pool1d : z, 2
F.max_pool1d F.max_pool1d_with_indices torch.max_pool1d torch.max_pool1d_with_indices : z, 2
F.adaptive_avg_pool2d F.avg_pool2d F.adaptive_max_pool2d F.adaptive_max_pool2d_with_indices : z, 2
F.max_pool2d F.max_pool2d_with_indices torch.max_pool2d : z, 2
F.adaptive_avg_pool3d F.avg_pool3d : z[None], 2
F.adaptive_max_pool3d F.adaptive_max_pool3d_with_indices : z[None], 2
F.max_pool3d F.max_pool3d_with_indices torch.max_pool3d : z[None], 2
F.fractional_max_pool2d F.fractional_max_pool2d_with_indices : z, 2, 2
F.fractional_max_pool3d : z[:1, None].expand(1, 4, 4, 4), 2, 2
F.fractional_max_pool3d_with_indices : z[:1, None].expand(1, 4, 4, 4), 2, 2
F.lp_pool1d F.lp_pool2d : z, 2, 2
F.lp_pool3d : z[None], 2, 2
F.max_unpool1d : z[..., :2], i.expand(2, 4, 2), 2
F.max_unpool2d : z[..., :2, :2], k[None, :2, :2].expand(2, 2, 2), 2
F.max_unpool3d : z[None, :, :2, :2], k[None, None, :2, :2].expand(1, 2, 2, 2), 2
F.channel_shuffle F.native_channel_shuffle torch.channel_shuffle : z[None], 2
torch.native_channel_shuffle : z[None], 2
F.glu : x
F.grid_sample : z[None], u.reshape(1, 4, 4, 2)
torch.grid_sampler torch.grid_sampler_2d : z[None], u.reshape(1, 4, 4, 2), 0, 0, False
torch.grid_sampler_3d : z[None, None], torch.stack([u, u, u], -1)[None], 0, 0, False
F.interpolate F.upsample F.upsample_nearest : z, scale_factor=2
F.upsample_bilinear : z[None], scale_factor=2
F.pad torch.constant_pad_nd : x, (1, 1)
F.pixel_shuffle torch.pixel_shuffle : z.view(1, 4, 2, 4), 2
F.pixel_unshuffle torch.pixel_unshuffle : z[None], 2
F.affine_grid torch.affine_grid_generator : z[:, :2, :3], (2, 1, 4, 4), False
F.fold : z, (2, 2), 1
F.unfold : z[None], 2
F.embedding : j, x
torch.embedding : x, j
F.embedding_bag : j[None], x
torch.embedding_bag : x, j, i
torch.gru_cell : x, x, x.repeat(3, 1), x.repeat(3, 1)
torch.rnn_relu_cell torch.rnn_tanh_cell : x, x, x, x
torch.lstm_cell : x, (x, x), x.repeat(4, 1), x.repeat(4, 1)
torch.lstm : z, (z[:1], z[:1]), [x.repeat(4, 1)] * 2, False, 1, 0.0, False, False, False
torch.gru : z, z[:1], [x.repeat(3, 1)] * 2, False, 1, 0.0, False, False, False
torch.rnn_relu torch.rnn_tanh : z, z[:1], (x, x), False, 1, 0.0, False, False, False
torch.atleast_1d torch.atleast_2d torch.atleast_3d : x
torch.combinations : v
torch.cumulative_trapezoid torch.trapezoid torch.trapz torch.norm_except_dim : x
torch.unravel_index : k, (4,)
.as_subclass : x, torch.Tensor
.__getitem__ : x, ...
.__setitem__ : x, ..., 0
.__contains__ : x, 0
.__format__ : x[0, 0], ""
.item .__bool__ .__float__ .__int__ .__index__ is_nonzero : x.flatten()[0]
.backward : p.sum()
.retain_grad : p
.coalesce .is_coalesced : x.to_sparse()
.register_hook : p.clone(), print
.register_post_accumulate_grad_hook : p, print
.grad_fn : p.sum()
.grad : p
torch.is_anomaly_enabled torch.is_autocast_cache_enabled torch.is_autocast_cpu_enabled : *()
torch.is_grad_enabled torch.is_inference_mode_enabled torch.get_num_threads : *()
torch.get_autocast_cpu_dtype torch.get_autocast_gpu_dtype torch.get_default_dtype : *()
torch.get_autocast_dtype torch.is_autocast_enabled : 'cpu'
.to .type : x, x.dtype
torch.broadcast_shapes : (2, 1), (2,)
torch.can_cast torch.promote_types : torch.float32, torch.float64
torch.finfo : torch.float32
torch.iinfo : torch.int32
torch.typename torch.is_storage torch.is_tensor : x
.apply_ : x, abs
.map_ : x, y, max
.map2_ : x, y, y, lambda p, q, r: p
.geometric_ : x, 0.5
.resize_ : x, x.shape
.fill_diagonal_ : x, 1
nn.init.orthogonal_ nn.init.xavier_normal_ nn.init.xavier_uniform_ : x
nn.init.sparse_ : x, 0.5
nn.init.dirac_ : z
nn.utils.clip_grad_norm_ : [p], 1.0
nn.utils.clip_grad_value_ : [p], 1.0
nn.utils.get_total_norm nn.utils.parameters_to_vector : [v, w]
nn.utils.rnn.pad_sequence : [v, w]
torch.autograd.grad : (p * 2).sum(), p
"""

# Names that cannot be called here, with the reason.
UNCALLED = {
    ".cuda .ipu .mtia .pin_memory .record_stream .xpu torch.cuda.current_device "
    "torch.cuda.set_device torch.cuda.synchronize": "needs a device",
    ".share_memory_": "leaves something behind in the system",
    "torch.clear_autocast_cache torch.manual_seed torch.save torch.seed torch.set_default_device "
    "torch.set_default_dtype torch.set_float32_matmul_precision torch.set_num_threads "
    "torch.set_printoptions torch.set_rng_state torch.use_deterministic_algorithms": (
        "changes the state of the process"
    ),
}
# Where bool becomes int64 but other integers stay: not worth a word of its own.
EXCEPTIONS = {("bool", name) for name in ("clamp", "clamp_max", "clamp_min", "clip", "square")}
RANKS = (2, 3, 1, 0)
FLOAT = "float32"
SAME_DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "bool")
MIXED_DTYPES = (
    ("bfloat16", "float32"),
    ("float32", "bfloat16"),
    ("float32", "float64"),
    ("float16", "bfloat16"),
    ("int64", "float32"),
    ("float32", "int64"),
    ("bool", "int64"),
)


def spelled(words: str) -> set[str]:
    return set(names.names(words))


ARGUMENTS = {
    name: arguments
    for names, _, arguments in (line.partition(" : ") for line in CALLS.strip().splitlines())
    for name in spelled(names)
}
NOT_CALLED = {name for words in UNCALLED for name in spelled(words)}


def resolve(name: str) -> Any:
    """What a canonical name means in the installed torch."""
    head, *rest = name.split(".")
    return reduce(getattr, rest, torch.Tensor if head == "Tensor" else torch)


@cache
@fake_tensor.unset_fake_temporarily()  # it is kept, whichever test asks for it first
def template(rank: int, dtype: str, other: str) -> dict[str, Any]:
    """The tensors that the arguments in CALLS are written with."""

    def tensors(dtype: str) -> tuple[Any, Any, Any]:
        wanted = getattr(torch, dtype)
        square = torch.eye(4) * 2 + 0.5
        # In (0, 1) and positive definite; integers above zero; bools of both kinds.
        square = square / 4 if wanted.is_floating_point else square.round()
        square = torch.eye(4).to(wanted) if dtype == "bool" else square.to(wanted)
        cube = square.expand(2, 4, 4).clone()
        shaped = {0: square[0, 0], 1: square[0], 2: square, 3: cube, 4: cube[None]}[rank]
        return shaped.clone(), square[1].clone(), cube

    x, v, z = tensors(dtype)
    y, w, u = tensors(other)
    return {
        "x": x, "v": v, "z": z, "y": y, "w": w, "u": u,
        "b": torch.ones(x.shape, dtype=torch.bool),
        "k": torch.zeros(x.shape, dtype=torch.int64),
        "i": torch.arange(2),
        "j": torch.arange(4),
    }  # fmt: skip


def space(rank: int, dtype: str, other: str) -> dict[str, Any]:
    """All the names of CALLS, with fresh tensors: some calls write to their operands."""
    names = {name: tensor.clone() for name, tensor in template(rank, dtype, other).items()}
    parameter = torch.nn.Parameter(names["v"].float())
    parameter.grad = parameter.detach() * 0
    return {**names, "p": parameter, "torch": torch}


@cache
def compiled(name: str) -> Any:
    """The arguments of a name, to be evaluated in a space."""
    arguments = ARGUMENTS.get(name)
    if arguments is None and name.endswith("_") and not name.endswith("__"):
        function = f"torch.{name.rpartition('.')[2][:-1]}"
        arguments = ARGUMENTS.get(name[:-1]) or ARGUMENTS.get(function)
        base = operations.RESULTS.get(name[:-1])
    else:
        base = operations.RESULTS.get(name)
    if arguments is None:
        arguments = "x, y" if base is not None and base.rank == "broadcast" else "x"
    return compile(f"(lambda *a, **k: (a, k))({arguments})", name, "eval")


def call(name: str, names: dict[str, Any], **extra: Any) -> tuple[list[Any], Any]:
    """Call a name as CALLS says; its tensor operands and what it gives."""
    arguments, keywords = eval(compiled(name), names)
    keywords.update(extra)
    found = resolve(name)
    takes_none = not arguments or (not name.startswith("Tensor.") and not takes_arguments(found))
    if name.startswith("Tensor."):
        member = getattr(arguments[0], name.partition(".")[2])
        is_method = callable(inspect.getattr_static(torch.Tensor, name.partition(".")[2]))
        result = member(*arguments[1:], **keywords) if is_method else member
    elif takes_none:
        result = found()
    else:
        result = found(*arguments, **keywords)
    places = [names[key] for key in "bkij"]
    tensors = list(tensors_in([*arguments, *keywords.values()]))
    operands = [t for t in tensors if not any(t is place for place in places)]
    return operands or tensors, result


def takes_arguments(function: Any) -> bool:
    try:
        return bool(inspect.signature(function).parameters)
    except (ValueError, TypeError):
        return True


def tensors_in(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def attempts() -> Iterator[tuple[int, str, str]]:
    yield from ((rank, FLOAT, FLOAT) for rank in RANKS)
    yield from ((2, dtype, dtype) for dtype in SAME_DTYPES)
    yield from ((2, dtype, other) for dtype, other in MIXED_DTYPES)


# --------------------------------------------------------------------------- what a result is

HOST_KINDS: dict[str, tuple[type, ...]] = {
    "host:bool": (bool,),
    "host:float": (float,),
    "host:int": (int,),
    "host:list": (list, int, float),  # a number for a 0-dim tensor
    "host:number": (int, float, bool),
    "host:object": (object,),
    "host:size": (tuple,),
    "host:str": (str,),
    "device": (torch.device,),
    "dtype": (torch.dtype,),
    "none": (type(None),),
}


def default_float(dtype: Any) -> Any:
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.float32


def long(dtype: Any) -> Any:
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.int64


def expected_dtype(word: str, operands: list[Any]) -> Any:
    """The torch.dtype that a dtype word means for these operands; None where it claims nothing."""
    if word == "unknown":
        return None
    if word == "same":
        return operands[0].dtype
    if word == "arg":
        return operands[-1].dtype
    if word == "float-of":
        return default_float(operands[0].dtype)
    if word == "long-of":
        return long(operands[0].dtype)
    if word == "default":
        return torch.float32
    if word.startswith("promote"):
        promoted = reduce(torch.promote_types, (operand.dtype for operand in operands))
        return default_float(promoted) if word == "promote-float" else promoted
    return getattr(torch, word)


def wrong(expected: OperationResult, operands: list[Any], result: Any) -> str | None:
    """What the table gets wrong of this result."""
    if expected.kind == "host:numpy":
        return None if type(result).__module__ == "numpy" else f"is {type(result)}"
    if expected.kind in HOST_KINDS:
        types = HOST_KINDS[expected.kind]
        fits = isinstance(result, types) and not isinstance(result, torch.Tensor)
        return None if fits else f"is {type(result).__name__}"
    if expected.kind == "tensors":
        if not isinstance(result, (list, tuple, Iterator)):
            return f"is {type(result).__name__}"
        parts = list(result)
        if expected.count is not None and len(parts) != expected.count:
            return f"has {len(parts)} parts"
        if any(
            getattr(result, name, None) is not parts[i] for i, name in enumerate(expected.names)
        ):
            return f"has no parts {expected.names}"
        words = expected.dtypes or (expected.dtype,) * len(parts)
        found = [
            wrong_tensor(expected, word, operands, part)
            for word, part in zip(words, parts, strict=True)
            if isinstance(part, torch.Tensor)
        ]
        return next((problem for problem in found if problem), None)
    if not isinstance(result, torch.Tensor):
        return f"is {type(result).__name__}"
    if expected.kind == "self" and result is not operands[0]:
        return "is another object"
    if expected.kind == "same" and storage(result) != storage(operands[0]):
        return "is no view"
    return wrong_tensor(expected, expected.dtype, operands, result)


def storage(tensor: Any) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else 0


def wrong_tensor(
    expected: OperationResult, word: str, operands: list[Any], result: Any
) -> str | None:
    dtype = expected_dtype(word, operands)
    if dtype is not None and result.dtype != dtype:
        return f"{result.dtype} instead of {dtype}"
    rank = expected.rank
    ranks = [operand.dim() for operand in operands]
    fits = {
        "same": ranks[:1] == [result.dim()],
        "scalar": result.dim() == 0,
        "scalar-without-dim": result.dim() == 0,
        "reduction": result.dim() == 0,
        "some": result.dim() > 0,
        "sizes": result.dim() > 0,
        "broadcast": result.dim() == max(ranks, default=0),
        "product": result.dim() > 0 or max(ranks) < 2,
        "unknown": True,
    }[rank]
    return None if fits else f"{result.dim()}-dim from {ranks}"


def test_calls_are_of_names_in_the_table() -> None:
    names = set(operations.RESULTS)
    in_place = {name.removesuffix("_") for name in names}
    assert set(ARGUMENTS) - names - in_place == set()
    assert set(MODULE_ARGUMENTS) <= set(modules.MODULES)


def test_every_name_is_in_torch() -> None:
    names = {
        *RESULTS, *FACTORIES, *MODULES, *casts.AUTOCAST["cuda"], *casts.AUTOCAST["cpu"],
        *host_reads.WAITS, *host_reads.HOST_READS, *host_reads.DATA_DEPENDENT, *DETACHED,
        *casts.MOVES, *LEGACY_CONSTRUCTORS, *host_reads.SYNCHRONIZES, *host_reads.EMPTIES_CACHE,
    }  # fmt: skip
    missing = []
    for name in sorted(names - UNEQUAL):
        try:
            resolve(name)
        except AttributeError:
            missing.append(name)
    assert not missing


def test_results_are_as_torch_gives_them() -> None:
    problems = []
    for name, expected in RESULTS.items():
        if name in NOT_CALLED:
            continue
        tried, last = 0, None
        torch.manual_seed(0)
        for rank, dtype, other in attempts():
            try:
                operands, result = call(name, space(rank, dtype, other))
            except Exception as error:
                last = error
                continue
            tried += 1
            problem = wrong(expected, operands, result)
            if problem and (dtype, name.rpartition(".")[2]) not in EXCEPTIONS:
                problems.append(f"{name}: {problem} ({rank}-dim {dtype}, {other})")
                break
        if not tried:
            problems.append(f"{name}: cannot be called: {str(last).splitlines()[0][:100]}")
    assert not problems, "\n".join(problems)


# --------------------------------------------------------------------------- how many dimensions


def known(thing: Any) -> Value:
    """What amplint would know at best of an argument: all but the values of tensors."""
    if isinstance(thing, torch.Tensor):
        number = thing.dim()
        dtype = str(thing.dtype).removeprefix("torch.")
        return one(Tensor(dtype, rank=min(number, 1), dims=number or None))
    if isinstance(thing, torch.dtype):
        return one(DType(str(thing).removeprefix("torch.")))
    if isinstance(thing, (tuple, list)):
        return one(Sequence(tuple(map(known, thing)), BOTTOM))
    if thing is None:
        return one(NONE)
    if isinstance(thing, bool | int | float | str):
        return one(Host(type(thing).__name__, thing, True))
    return UNKNOWN


def written(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> RankedCall:
    values = tuple(map(known, arguments))
    named = {word: known(thing) for word, thing in keywords.items()}
    if name.startswith("Tensor."):
        return RankedCall(values[0], Arguments(values[1:], named))
    return ranks.of_function(Arguments(values, named))


RESIZED = {"Tensor.addbmm_"}  # a tensor without dimensions, against what the manual says


def all_dims(result: Any) -> set[int]:
    return {part.dim() for part in tensors_in([result])}


@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
def test_dims_are_as_torch_gives_them(rank: int) -> None:
    """Whatever is said must be so, of every operation and for operands of any rank."""
    problems, told = [], set()
    for name, expected in RESULTS.items():
        if name in NOT_CALLED or expected.kind not in ("tensor", "tensors", "same", "self"):
            continue
        torch.manual_seed(0)
        try:
            arguments, keywords = eval(compiled(name), space(rank, FLOAT, FLOAT))
            call_as_written = written(name, arguments, keywords)  # before it writes to them
            result = call(name, space(rank, FLOAT, FLOAT))[1]
        except Exception:
            continue
        believed = ranks.of_result(name, expected.rank, call_as_written)
        if believed is not None and name not in RESIZED:
            told.add(name)
            if all_dims(result) - {believed}:
                problems.append(f"{name}: {believed}, is {all_dims(result)}")
    assert not problems, "\n".join(problems)
    assert len(told) > 100


# --------------------------------------------------------------------------- with a dim, alone ..

REDUCING = {"dim": 0}
TUPLES = {"return_indices": True, "return_inverse": True, "return_counts": True}


def with_dim_at(name: str, position: int) -> tuple[list[Any], Any]:
    """The call with a dim among the positional arguments, where the table says it may stand."""
    names = space(2, FLOAT, FLOAT)
    arguments = [names["x"], *([2] * position), 0]
    if name.startswith("Tensor."):
        return arguments[:1], getattr(arguments[0], name.partition(".")[2])(*arguments[1:])
    return arguments[:1], resolve(name)(*arguments)


@pytest.mark.parametrize("name", [n for n, r in RESULTS.items() if r.rank == "scalar-without-dim"])
def test_a_dim_keeps_a_dimension(name: str) -> None:
    expected = RESULTS[name]
    by_dim = expected.by_dim or OperationResult(
        expected.kind, "some", expected.dtype, count=expected.count
    )
    calls = [call(name, space(2, FLOAT, FLOAT), dim=0)]
    if expected.dim is not None:
        calls.append(with_dim_at(name, expected.dim))
    for operands, result in calls:
        assert wrong(by_dim, operands, result) is None
        first = result if isinstance(result, torch.Tensor) else result[0]
        assert first.dim() == 1


@pytest.mark.parametrize("name", ["torch.max", "Tensor.max", "torch.min", "Tensor.min"])
def test_a_tensor_in_the_place_of_the_dim_is_an_operand(name: str) -> None:
    x, y = torch.ones(3, 1), torch.ones(2, dtype=torch.float64)
    expected = RESULTS[name].by_tensor
    assert expected is not None
    result = resolve(name)(x, y)
    assert wrong(expected, [x, y], result) is None


def test_a_bool_in_the_place_of_the_dim_is_none() -> None:
    assert torch.ones(3, 3).std(False).dim() == 0


def test_where_alone_gives_places() -> None:
    mask = torch.ones(2, 2, dtype=torch.bool)
    for name in ("torch.where", "Tensor.where"):
        assert RESULTS[name].alone is not None
    assert wrong(RESULTS["torch.where"].alone, [mask], torch.where(mask)) is None


@pytest.mark.parametrize("name", [n for n, r in RESULTS.items() if r.tuple_if])
def test_a_flag_makes_it_a_tuple(name: str) -> None:
    for flag in RESULTS[name].tuple_if:
        torch.manual_seed(0)
        _, result = call(name, space(2, FLOAT, FLOAT), **{flag: True})
        assert isinstance(result, tuple)


INDEX_CALLS = """
F.embedding F.embedding_bag : k, x
F.one_hot : k
index_add index_copy : x, 0, i, y[:2]
index_fill : x, 0, i, 1
index_reduce : x, 0, i, y[:2], "amax"
index_select : x, 0, i
gather : x, 0, k
put : x, k, y
scatter scatter_add : x, 0, k, y
scatter_reduce : x, 0, k, y, "sum"
take take_along_dim : x, k
"""


@pytest.mark.parametrize("name", INDEX_ARGUMENTS)
def test_indices_must_be_integers(name: str) -> None:
    """An index in half raises, and stands where the table says."""
    names = {**space(2, "float32", "float32"), "torch": torch}
    if name in modules.MODULES:
        with pytest.raises(RuntimeError, match="indices"):
            imported(name)(4, 2)(names["k"].half())
        return
    lines = [line.partition(" : ") for line in INDEX_CALLS.strip().splitlines()]
    bare = name.rpartition(".")[2].removesuffix("_")
    (written,) = (
        arguments for words, _, arguments in lines if bare in words.replace("F.", "").split()
    )
    arguments = list(eval(f"({written},)", names))
    position = INDEX_ARGUMENTS[name] + name.startswith("Tensor.")
    assert arguments[position].dtype == torch.int64
    resolve(name)(*arguments)
    arguments[position] = arguments[position].half()
    with pytest.raises((RuntimeError, IndexError), match=r"dtype|index|long|Long|scalar type"):
        resolve(name)(*arguments)


MIXED = r"dtype|scalar type|type \(|to be of type|same type|double|Double"


@pytest.mark.parametrize("low", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", sorted(casts.EQUAL_DTYPES - set(modules.MODULES)))
def test_products_raise_where_dtypes_differ(name: str, low: str) -> None:
    """float64 and another dtype in a region and outside, half and float32 outside."""
    raised = 0
    for rank in (1, 2, 3):
        for own, other in ((low, "float64"), ("float64", low), ("float32", "bfloat16")):
            try:
                with torch.no_grad():
                    call(name, space(rank, own, own))
                    call(name, space(rank, other, other))
            except RuntimeError:
                continue  # not for this shape
            for enabled in (False, True) if "float64" in (own, other) else (False,):
                with torch.no_grad(), region("cpu", enabled):
                    with pytest.raises(RuntimeError, match=MIXED):
                        call(name, space(rank, own, other))
                    raised += 1
    assert raised


@pytest.mark.parametrize("name", sorted(casts.EQUAL_DTYPES & set(modules.MODULES)))
def test_modules_raise_where_the_input_has_another_dtype(name: str) -> None:
    raised = 0
    for rank in (1, 2, 3):
        for other in ("float64", "bfloat16"):
            try:
                call_module(name, space(rank, "float32", "float32"))
            except (RuntimeError, ValueError):
                continue
            for enabled in (False, True) if other == "float64" else (False,):
                with region("cpu", enabled), pytest.raises((RuntimeError, ValueError), match=MIXED):
                    call_module(name, space(rank, other, other))
                raised += 1
    assert raised


WRITE_ARGUMENTS: dict[str, Any] = {
    "index_add": lambda i, y: (0, i, y),
    "index_copy": lambda i, y: (0, i, y),
    "index_put": lambda i, y: ((i,), y),
    "index_reduce": lambda i, y: (0, i, y, "amax"),
    "lerp": lambda _, y: (y, 0.5),
    "masked_scatter": lambda i, y: (i >= 0, y),
    "put": lambda i, y: (i, y),
    "scatter": lambda i, y: (0, i, y),
    "scatter_add": lambda i, y: (0, i, y),
    "scatter_reduce": lambda i, y: (0, i, y, "sum"),
}


@pytest.mark.parametrize("name", casts.SAME_DTYPE_WRITES)
@pytest.mark.parametrize("other", ["float16", "float64"])
def test_writes_raise_where_dtypes_differ(name: str, other: str) -> None:
    index = torch.tensor([0, 1])
    like, unlike = torch.ones(2), torch.ones(2, dtype=getattr(torch, other))
    given = WRITE_ARGUMENTS[name](index, unlike)
    assert given[casts.SAME_DTYPE_WRITES[name]] is unlike
    for method in (f"{name}_", name):
        getattr(torch.zeros(2), method)(*WRITE_ARGUMENTS[name](index, like))
        with pytest.raises(RuntimeError, match=r"dtype|scalar type"):
            getattr(torch.zeros(2), method)(*given)
    with pytest.raises(RuntimeError, match=r"dtype|scalar type"):
        getattr(torch, name)(torch.zeros(2), *given)


NOT_HALF = r"[Ll]ow precision|not implemented|dtype|scalar type|[Ff]loat|type of input"


@pytest.mark.parametrize("low", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", sorted(casts.NO_HALF - set(modules.MODULES) - UNEQUAL))
def test_what_half_lacks_raises(name: str, low: str) -> None:
    """Also where one operand of several is half."""
    raised = 0
    for rank in (1, 2, 3):
        try:
            call(name, space(rank, "float32", "float32"))
        except (RuntimeError, TypeError, IndexError):
            continue  # not for this shape
        for own, other in ((low, low), (low, "float32")):
            with pytest.raises(RuntimeError, match=NOT_HALF):
                call(name, space(rank, own, other))
            raised += 1
    assert raised


def test_what_the_cpu_casts_only_where_it_multiplies() -> None:
    assert {"torch.einsum"} == casts.CAST_WITHIN_ON_CPU
    rows = torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.einsum("ij,jk->ik", rows, rows).dtype == torch.bfloat16
        assert torch.einsum("i,j->ij", rows[0], rows[0]).dtype == torch.float32


@pytest.mark.parametrize("name", sorted(casts.NO_BFLOAT16))
def test_what_bfloat16_lacks_raises(name: str) -> None:
    call(name, space(2, "float32", "float32"))
    with pytest.raises(RuntimeError, match=NOT_HALF):
        call(name, space(2, "bfloat16", "bfloat16"))


def test_numpy_has_no_bfloat16() -> None:
    torch.ones(2, dtype=torch.float16).numpy()
    with pytest.raises(TypeError, match="BFloat16"):
        torch.ones(2, dtype=torch.bfloat16).numpy()


@pytest.mark.parametrize("own", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", sorted(casts.FACTORISES_PRODUCTS))
def test_what_a_region_makes_half_is_factorised(
    name: str, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = set()

    def note(product: Any) -> Any:
        given.add(product.dtype)
        return factorise(product)

    factorise = torch.linalg.qr
    monkeypatch.setattr(torch.linalg, "qr", note)
    with fake_tensor.FakeTensorMode(), region("cuda", True):
        resolve(name)(torch.empty(4, 4, dtype=getattr(torch, own), device="cuda"), 2)
    assert given == {torch.float64 if own == "float64" else torch.float16}


@pytest.mark.parametrize(
    "product",
    [
        lambda o, h: o.addmm_(h, h),
        lambda o, h: o[None].baddbmm_(h[None], h[None]),
        lambda o, h: o.addbmm_(h[None], h[None]),
        lambda o, h: o[0].addmv_(h, h[0]),
        lambda o, h: torch.mm(h, h, out=o),
        lambda o, h: torch.matmul(h, h, out=o),
        lambda o, h: torch.addmm(h, h, h, out=o),
        lambda o, h: torch.bmm(h[None], h[None], out=o[None]),
    ],
)
def test_products_in_place_or_with_out_are_not_cast(product: Any) -> None:
    square = torch.eye(4)
    with region("cpu", True):
        assert product(square.clone(), square).dtype == torch.float32
        for own, other in ((square, square.bfloat16()), (square.bfloat16(), square)):
            with pytest.raises(RuntimeError, match="dtype"):
                product(own.clone(), other)


def test_assignments_by_index_raise_where_dtypes_differ() -> None:
    """An integer tensor or a list of ints raises whatever is assigned, a mask if it has dimensions;
    slices, ints and 0-dim tensors cast."""
    half, ints = torch.ones(2).half(), torch.tensor([0, 1])
    mask = torch.tensor([True, True, False])
    raising = [(ints, half), (ints, half[0]), ([0, 1], half), (mask, half), (range(2), half)]
    for index, source in raising:
        with pytest.raises(RuntimeError, match="dtypes match"):
            torch.zeros(3)[index] = source
    silent = [(slice(2), half), (0, half[0]), (torch.tensor(0), half[0]), (mask, half[0])]
    for index, source in silent:
        torch.zeros(3)[index] = source
    torch.zeros(3, 3)[(0, 1)] = half[0]


def test_an_argument_of_dtype_wins() -> None:
    x = torch.ones(2, 2)
    for name in ("sum", "prod", "mean", "nansum", "nanmean", "softmax", "log_softmax", "cumsum"):
        extra = {"dim": 0} if name in ("softmax", "log_softmax", "cumsum") else {}
        assert getattr(x, name)(dtype=torch.float64, **extra).dtype == torch.float64


# --------------------------------------------------------------------------- nothing forgotten

# Public names that the tables leave out, by reason.
UNCOVERED = {
    "removed from torch, or raises": """
        .lstsq .reinforce .symeig .solve .eig .index .resize .resize_as .volatile
        torch.eig torch.lstsq torch.matrix_rank torch.solve torch.symeig
    """,
    "sparse layouts": """
        .ccol_indices .col_indices .crow_indices .indices .resize_as_sparse_ .row_indices .smm
        .sparse_mask .sparse_resize_ .sparse_resize_and_clear_ .sspaddmm .to_sparse .to_sparse_bsc
        .to_sparse_bsr .to_sparse_coo .to_sparse_csc .to_sparse_csr .values
        torch.ccol_indices_copy torch.col_indices_copy torch.crow_indices_copy torch.dsmm torch.hsmm
        torch.hspmm torch.indices_copy torch.resize_as_sparse_ torch.row_indices_copy torch.saddmm
        torch.smm torch.sparse_bsc_tensor torch.sparse_bsr_tensor torch.sparse_compressed_tensor
        torch.sparse_coo_tensor torch.sparse_csc_tensor torch.sparse_csr_tensor torch.spmm
        torch.sspaddmm torch.values_copy
    """,
    "quantised tensors": """
        .dequantize .int_repr .q_per_channel_axis .q_per_channel_scales .q_per_channel_zero_points
        .q_scale .q_zero_point .qscheme
        torch.choose_qparams_optimized torch.dequantize torch.empty_quantized
        torch.fbgemm_linear_fp16_weight torch.fbgemm_linear_fp16_weight_fp32_activation
        torch.fbgemm_linear_int8_weight torch.fbgemm_linear_int8_weight_fp32_activation
        torch.fbgemm_linear_quantize_weight torch.fbgemm_pack_gemm_matrix_fp16
        torch.fbgemm_pack_quantized_matrix torch.fused_moving_avg_obs_fake_quant torch.int_repr
        torch.q_per_channel_axis torch.q_per_channel_scales torch.q_per_channel_zero_points
        torch.q_scale torch.q_zero_point torch.quantize_per_channel torch.quantize_per_tensor
        torch.quantize_per_tensor_dynamic torch.quantized_batch_norm torch.quantized_gru
        torch.quantized_gru_cell torch.quantized_lstm torch.quantized_lstm_cell
        torch.quantized_max_pool1d torch.quantized_max_pool2d torch.quantized_max_pool3d
        torch.quantized_rnn_relu_cell torch.quantized_rnn_tanh_cell
    """,
    "complex or nested tensors alone": """
        imag .to_padded_tensor torch.view_as_complex_copy torch.view_as_real_copy
    """,
    "newer than 2.13": "linalg.matrix_sqrth linalg.polar",
    "one backend's, or internal": """
        .grad_dtype .module_load .name .storage_type .to_mkldnn
        torch.batch_norm_backward_elemt torch.batch_norm_backward_reduce torch.batch_norm_elemt
        torch.batch_norm_gather_stats torch.batch_norm_gather_stats_with_counts
        torch.batch_norm_stats torch.batch_norm_update_stats torch.cudnn_affine_grid_generator
        torch.cudnn_batch_norm torch.cudnn_convolution torch.cudnn_convolution_add_relu
        torch.cudnn_convolution_relu torch.cudnn_convolution_transpose torch.cudnn_grid_sampler
        torch.cudnn_is_acceptable torch.embedding_renorm_ torch.frobenius_norm
        torch.histogramdd torch.miopen_batch_norm torch.miopen_convolution
        torch.miopen_convolution_add_relu torch.miopen_convolution_relu
        torch.miopen_convolution_transpose torch.miopen_ctc_loss torch.miopen_depthwise_convolution
        torch.miopen_rnn torch.mkldnn_adaptive_avg_pool2d torch.mkldnn_convolution
        torch.mkldnn_linear_backward_weights torch.mkldnn_max_pool2d torch.mkldnn_max_pool3d
        torch.mkldnn_rnn_layer torch.native_batch_norm torch.native_dropout
        torch.native_group_norm torch.native_layer_norm torch.native_norm torch.segment_reduce
        torch.sym_constrain_range torch.sym_constrain_range_for_size torch.sym_float
        torch.sym_fresh_size torch.sym_int torch.sym_ite torch.sym_max torch.sym_min torch.sym_not
        torch.sym_sqrt torch.sym_sum F.assert_int_or_pair F.boolean_dispatch
        F.handle_torch_function F.has_torch_function F.has_torch_function_unary
        F.has_torch_function_variadic F.scaled_grouped_mm F.scaled_mm
    """,
    "no operation on tensors: state, files, compilation, typing": """
        torch.autocast_decrement_nesting torch.autocast_increment_nesting torch.classproperty
        torch.compile torch.compiled_with_cxx11_abi torch.cond torch.fork torch.from_file
        torch.get_autocast_ipu_dtype torch.get_autocast_xla_dtype torch.get_deterministic_debug_mode
        torch.get_device_module torch.get_file_path torch.get_num_interop_threads
        torch.import_ir_module torch.import_ir_module_from_buffer torch.init_num_threads
        torch.is_anomaly_check_nan_enabled torch.is_autocast_ipu_enabled
        torch.is_autocast_xla_enabled torch.is_deterministic_algorithms_warn_only_enabled
        torch.is_vulkan_available torch.is_warn_always_enabled torch.load
        torch.merge_type_from_type_comment torch.parse_ir torch.parse_schema
        torch.parse_type_comment torch.prepare_multiprocessing_environment
        torch.profiler_allow_cudagraph_cupti_lazy_reinit_cuda12 torch.set_anomaly_enabled
        torch.set_autocast_cache_enabled torch.set_autocast_cpu_dtype
        torch.set_autocast_cpu_enabled torch.set_autocast_dtype torch.set_autocast_enabled
        torch.set_autocast_gpu_dtype torch.set_autocast_ipu_dtype torch.set_autocast_ipu_enabled
        torch.set_autocast_xla_dtype torch.set_autocast_xla_enabled torch.set_default_tensor_type
        torch.set_deterministic_debug_mode torch.set_flush_denormal torch.set_num_interop_threads
        torch.set_warn_always torch.thread_safe_generator torch.to_dlpack torch.unify_type_list
        torch.vmap torch.wait torch.while_loop F.Optional
    """,
}


def public(prefix: str) -> set[str]:
    """The functions of a module of torch, or the methods and attributes of Tensor."""
    module = resolve(prefix)
    if prefix == "Tensor":
        return {f"Tensor.{name}" for name in dir(torch.Tensor) if not name.startswith("_")}
    return {
        f"{prefix}.{name}"
        for name in dir(module)
        if not name.startswith("_")
        and callable(getattr(module, name))
        and not isinstance(getattr(module, name), type)
    }


@pytest.mark.skipif(OLD, reason="UNCOVERED is of torch 2.13")
def test_no_public_name_is_forgotten() -> None:
    prefixes = ("Tensor", "torch", "torch.nn.functional", "torch.linalg", "torch.special")
    left_out = {name for words in UNCOVERED.values() for name in spelled(words)}
    covered = {*operations.RESULTS, *FACTORIES, *LEGACY_CONSTRUCTORS}
    names = set().union(*(public(prefix) for prefix in (*prefixes, "torch.fft")))
    assert names - covered - left_out == set()
    assert left_out & covered == set()


@pytest.mark.skipif(OLD, reason="torch has more modules since")
def test_no_module_is_forgotten() -> None:
    no_module = {"Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter"}
    bases = {"Container", "RNNBase", "RNNCellBase", "LinearCrossEntropyOptions"}
    classes = {name for name in dir(torch.nn) if isinstance(getattr(torch.nn, name), type)}
    modules = {f"torch.nn.{name}" for name in classes - no_module - bases}
    assert modules - set(libraries.MODULE_WRAPPERS) == set(MODULES)


@pytest.mark.parametrize("name", sorted(modules.SIZES))
def test_the_first_parameters_of_a_layer_are_whole_numbers(name: str) -> None:
    layer, sizes = getattr(torch.nn, name), modules.SIZES[name]
    if name in ("GRU", "LSTM", "RNN"):  # which hand on all that they are given
        layer, sizes = torch.nn.RNNBase, ("mode", *sizes)
    first = list(inspect.signature(layer).parameters.values())[: len(sizes)]
    assert tuple(each.name for each in first) == sizes
    told = {each.annotation for each in first if each.name in modules.SIZES[name]}
    assert told <= {int, "int", inspect.Parameter.empty}


def test_operators_are_methods_of_tensor() -> None:
    for table in (OPERATORS, REFLECTED):
        for operator, method in table.items():
            assert hasattr(ast, operator)
            assert f"Tensor.{method}" in RESULTS


# --------------------------------------------------------------------------- factories

VALUES: dict[str, Any] = {
    "N": 5, "alpha": 0.5, "base": 2.0, "beta": 0.5, "buffer": bytearray(16), "col": 2, "d": 1.0,
    "data": [1.0, 2.0], "device": "cpu", "dtype": None, "end": 4, "fill_value": 2.5, "high": 3,
    "input": torch.ones(2, 2), "low": 0, "m": 3, "mean": 0.0, "n": 4, "obj": [1.0, 2.0],
    "offset": 0, "periodic": True, "physical_layout": (0, 1), "row": 2, "s": 1.5, "size": (2, 3),
    "start": 0, "std": 1.0, "step": 1, "steps": 4, "stride": (3, 1), "window_length": 5,
}  # fmt: skip


def built(name: str, facts: Factory, by_name: bool = False, **extra: Any) -> Any:
    """What the factory gives for values of all its parameters."""
    if name == "torch.from_numpy":
        return torch.from_numpy(torch.ones(2).numpy())
    if name == "torch.from_dlpack":
        return torch.from_dlpack(torch.ones(2), **({} if OLD else extra))
    if name == "torch.frombuffer":
        extra.setdefault("dtype", torch.float32)
    given = {parameter: VALUES[parameter] for parameter in facts.parameters}
    receiver = VALUES["input"].to(torch.float64)
    function = getattr(receiver, name[7:]) if name.startswith("Tensor.") else resolve(name)
    if name == "torch.as_tensor" and not by_name:
        given = {"data": given["data"]}
    return function(**given, **extra) if by_name else function(*given.values(), **extra)


NO_KEYWORDS = {"torch.from_numpy", "torch.from_dlpack", "Tensor.new"}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories_are_as_torch_has_them(name: str) -> None:
    facts = FACTORIES[name]
    result = built(name, facts)
    dtypes = {
        "default": torch.float32, "data": torch.float32, "fill": torch.float32,
        "numbers": torch.int64, "unknown": result.dtype,
        "like": torch.float64 if name.startswith("Tensor.") else torch.float32,
    }  # fmt: skip
    assert result.dtype == (dtypes.get(facts.dtype) or getattr(torch, facts.dtype))
    if facts.rank != "unknown":
        assert result.dim() == {"scalar": 0}.get(facts.rank, max(result.dim(), 1))
    if name not in NO_KEYWORDS:
        assert built(name, facts, by_name=True).shape == result.shape
    for keyword, value, takes in (
        ("dtype", torch.int32 if facts.dtype == "int64" else torch.float64, facts.takes_dtype),
        ("device", "cpu", facts.takes_device),
    ):
        if name in ("torch.as_tensor", "torch.normal"):
            continue  # which take them by position, or only with sizes
        try:
            made = built(name, facts, **{keyword: value})
        except (TypeError, RuntimeError):
            assert not takes
        else:
            assert takes or name in NO_KEYWORDS
            assert keyword != "dtype" or not takes or made.dtype == value


@pytest.mark.parametrize("name", [n for n, f in FACTORIES.items() if f.values != "none"])
def test_random_factories_are_random(name: str) -> None:
    facts = FACTORIES[name]
    wide = {"torch.randint_like": {"low": 0, "high": 10**6}, "torch.randint": {"high": 10**6}}
    made = []
    for seed in range(3):
        torch.manual_seed(seed)
        if name in wide:
            given = {p: VALUES[p] for p in facts.parameters} | wide[name]
            made.append(resolve(name)(*given.values()))
        else:
            made.append(built(name, facts))
    same = all(torch.equal(made[0], other) for other in made[1:])
    assert same == (facts.values != "random")


def test_sizes_may_be_given_one_by_one() -> None:
    for name, facts in FACTORIES.items():
        if facts.sizes:
            function = getattr(torch.ones(1), name[7:]) if name[:6] == "Tensor" else resolve(name)
            assert function(2, 3).shape == (2, 3)


@pytest.mark.parametrize("name", LEGACY_CONSTRUCTORS)
def test_legacy_constructors(name: str) -> None:
    dtype, device = LEGACY_CONSTRUCTORS[name]
    if device == "cpu":
        expected = torch.float32 if dtype == "default" else getattr(torch, dtype)
        assert resolve(name)(2, 3).dtype == expected
        assert resolve(name)([1, 0]).shape == (2,)


# --------------------------------------------------------------------------- autocast

LOW = {"cpu": "bfloat16", "cuda": "float16"}
DISPATCH_KEYS = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}
MACROS = {
    "LOWER_PRECISION_FP": "half",
    "FP32": "fp32",
    "FP32_SET_OPT_DTYPE": "fp32-unless-dtype",
    "DIFFERENT_REDISPATCH_SIGNATURE": "fp32-unless-dtype",
    "PROMOTE": "promote",
}


OF_TABLES = {
    "lower": "half",
    "fp32-set-dtype": "fp32-unless-dtype",
    "fp32-append-dtype": "fp32-unless-dtype",
}


def stored_tables() -> list[Path]:
    return sorted(Path(casts.__file__).parents[2].glob("amplint_verify/backends/autocast-*.json"))


def registered(device: str) -> set[str]:
    """The aten operations that autocast of a device type takes, without their overloads."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return {
        operation.removeprefix("aten::").partition(".")[0]
        for operation in torch._C._dispatch_get_all_op_names()
        if operation.startswith("aten::") and has_kernel(operation, DISPATCH_KEYS[device])
    }


def python_names(operation: str) -> set[str]:
    """The names in RESULTS that call an aten operation of this name."""
    for prefix in ("linalg", "fft", "special"):
        if operation.startswith(f"{prefix}_"):
            return {f"torch.{prefix}.{operation[len(prefix) + 1 :]}"} & set(RESULTS)
    found = spelled(f"{operation} F.{operation}") & set(RESULTS)
    aliases = {"grid_sampler": "F.grid_sample", "cross_entropy_loss": "F.cross_entropy"}
    return found | spelled(aliases.get(operation, ""))


@pytest.mark.parametrize("device", LOW)
def test_every_registered_operation_has_a_policy(device: str) -> None:
    names = {name for operation in registered(device) for name in python_names(operation)}
    assert names - set(casts.AUTOCAST[device]) == set()


def in_tables(name: str, policy: str) -> str:
    """What the tables have for a name of that policy in one version."""
    return "unknown" if name in CAST_SINCE else policy


def test_policies_of_cuda_are_those_of_the_header() -> None:
    header = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
    if not header.exists():
        pytest.skip("this build of torch ships no headers")
    text = header.read_text().replace("\\\n", " ")
    seen = 0
    for macro, policy in MACROS.items():
        found = re.search(rf"#define AT_FORALL_{macro}\(_\)(.*?)\n", text)
        if found is None:
            continue
        for operation in re.findall(r"_\(\s*(?:ADD_NS\()?(\w+)", found[1]):
            for name in python_names(operation):
                seen += 1
                assert casts.AUTOCAST["cuda"][name] == in_tables(name, policy), (name, macro)
    assert seen > 150


@pytest.mark.parametrize("path", stored_tables(), ids=lambda path: path.stem)
def test_policies_are_those_of_every_version(path: Path) -> None:
    """Of the installed torch and of all others since 2.4, for any of which a program may be."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    seen = 0
    for overload, policy in stored["cuda"].items():
        for name in python_names(overload.partition(".")[0]):
            seen += 1
            assert casts.AUTOCAST["cuda"][name] == in_tables(name, OF_TABLES.get(policy, policy)), (
                name
            )
    assert seen > 150
    names = {name for each in stored["cuda"] for name in python_names(each.partition(".")[0])}
    version = tuple(map(int, path.stem.partition("-")[2].split(".")))
    for name, since in CAST_SINCE.items():
        if name in RESULTS:
            assert (name in names) == (version >= tuple(map(int, since.split(".")))), name
    for overload in stored["cpu"]:
        assert python_names(overload.partition(".")[0]) <= casts.AUTOCAST["cpu"].keys(), overload


@contextmanager
def region(device: str, enabled: bool) -> Iterator[None]:
    """An autocast region, also of a device that is not there."""
    before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    torch.set_autocast_enabled(device, enabled)
    torch.set_autocast_dtype(device, getattr(torch, LOW[device]))
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device, before[0])
        torch.set_autocast_dtype(device, before[1])
        torch.set_autocast_cache_enabled(cached)


def cast(policy: str | None, device: str, operands: list[Any]) -> list[Any]:
    """The operands as autocast hands them on."""
    dtypes = [t.dtype for t in operands if t.dtype.is_floating_point]
    wanted = {
        "half": getattr(torch, LOW[device]),
        "fp32": torch.float32,
        "fp32-unless-dtype": torch.float32,
        "promote": torch.float32 if torch.float32 in dtypes else getattr(torch, LOW[device]),
    }.get(policy or "")
    if wanted is None:
        return operands
    return [t.to(wanted) if t.dtype.is_floating_point else t for t in operands]


def autocast_problem(name: str, device: str, names: dict[str, Any]) -> str | None:
    """What the tables get wrong of this call in a region; raises what the call raises."""
    policy, expected = casts.AUTOCAST[device].get(name), RESULTS[name]
    try:
        with torch.no_grad(), region(device, True):
            operands, result = call(name, names)
    except RuntimeError as error:
        if policy == "banned" and "unsafe to autocast" in str(error):
            return None
        raise
    if policy in ("unknown", "banned"):
        return None if policy == "unknown" else "is not banned"
    parts = list(tensors_in([result]))
    words = expected.dtypes or (expected.dtype,) * len(parts)
    if not parts or not operands:
        return None
    handed = cast(policy, device, operands)
    dtype = expected_dtype(words[0], handed)
    if dtype is None or parts[0].dtype == dtype:
        return None
    return f"{name}: {parts[0].dtype} instead of {dtype} from {[t.dtype for t in operands]}"


def mixes(device: str) -> list[tuple[str, str]]:
    low = LOW[device]
    return [(FLOAT, FLOAT), (low, low), (low, FLOAT), (FLOAT, low)]


TENSORS = ("tensor", "same", "self", "tensors")
# These look for something else than operands at their places, or run code of their own.
NOT_IN_A_REGION = NOT_CALLED | spelled(
    ".backward .grad .type_as torch.autograd.grad nn.init.orthogonal_"
)


def test_autocast_of_the_cpu() -> None:
    problems, ran = [], set()
    for name, expected in RESULTS.items():
        if expected.kind not in TENSORS or name in NOT_IN_A_REGION:
            continue
        torch.manual_seed(0)
        for dtype, other in mixes("cpu"):
            try:
                problem = autocast_problem(name, "cpu", space(2, dtype, other))
            except Exception:
                continue
            ran.add(name)
            if problem:
                problems.append(problem)
    assert not problems, "\n".join(problems)
    assert set(casts.AUTOCAST["cpu"]) & set(RESULTS) <= ran


class Views(torch.overrides.TorchFunctionMode):
    """Indexing of fake CUDA tensors, which a CPU build cannot do, by select, narrow, unsqueeze."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is not torch.Tensor.__getitem__:
            return function(*args, **(kwargs or {}))
        tensor, index = args[0], args[1] if isinstance(args[1], tuple) else (args[1],)
        dim = 0
        for place, part in enumerate(index):
            if part is None:
                tensor, dim = tensor.unsqueeze(dim), dim + 1
            elif isinstance(part, int):
                tensor = tensor.select(dim, part)
            elif isinstance(part, slice):
                start, stop, _ = part.indices(tensor.shape[dim])
                tensor, dim = tensor.narrow(dim, start, stop - start), dim + 1
            else:
                dim = tensor.dim() - sum(later is not None for later in index[place + 1 :])
        return tensor


def fake_cuda(rank: int, dtype: str, other: str) -> dict[str, Any]:
    """The space with CUDA tensors that have no values. To be called in a FakeTensorMode."""
    return {
        name: torch.empty(thing.shape, dtype=thing.dtype, device="cuda")
        if isinstance(thing, torch.Tensor)
        else thing
        for name, thing in space(rank, dtype, other).items()
    }


# What FakeTensor cannot run on CUDA without CUDA, and so only the source can tell.
NOT_FAKED = """
    corrcoef cov torch.gru torch.gru_cell torch.lstm torch.lstm_cell
    F.multi_head_attention_forward torch.grid_sampler F.grid_sample F.gaussian_nll_loss
    torch.affine_grid_generator F.affine_grid linalg.lstsq torch.lobpcg
"""


@pytest.fixture
def quiet_fakes() -> Iterator[None]:
    """FakeTensor logs every call that a meta kernel refuses."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


@pytest.mark.usefixtures("quiet_fakes")
def test_autocast_of_cuda() -> None:
    problems, ran = [], set()
    with fake_tensor.FakeTensorMode(allow_non_fake_inputs=True), Views():
        spaces = {mix: fake_cuda(2, *mix) for mix in mixes("cuda")}
        for name, expected in RESULTS.items():
            if expected.kind not in TENSORS or name in NOT_IN_A_REGION:
                continue
            blind = name not in casts.AUTOCAST["cuda"] and expected.dtype == "same"
            for mix in mixes("cuda"):
                if blind and mix[0] != mix[1]:
                    continue  # mostly an error that fake tensors do not see
                names = fake_cuda(2, *mix) if expected.kind == "self" else dict(spaces[mix])
                try:
                    problem = autocast_problem(name, "cuda", names)
                except Exception:
                    continue
                ran.add(name)
                if problem:
                    problems.append(problem)
    assert not problems, "\n".join(problems)
    if torch.version.cuda is None:  # a CUDA build asks for its driver now and then
        assert set(casts.AUTOCAST["cuda"]) & set(RESULTS) <= ran | spelled(NOT_FAKED)


# --------------------------------------------------------------------------- modules

# Classes : arguments of the constructor | arguments of the instance. Without a line: () and (x).
MODULE_CALLS = """
AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveMaxPool1d AdaptiveMaxPool2d AvgPool1d AvgPool2d : 2 | z
MaxPool1d MaxPool2d : 2 | z
AdaptiveAvgPool3d AdaptiveMaxPool3d AvgPool3d MaxPool3d : 2 | z[None]
ChannelShuffle PixelUnshuffle Unfold : 2 | z[None]
AdaptiveLogSoftmaxWithLoss : 4, 4, [2] | x, j
BatchNorm1d LayerNorm RMSNorm : 4 | x
BatchNorm2d InstanceNorm2d : 2 | z[None]
BatchNorm3d InstanceNorm3d : 1 | z[None, None]
Bilinear : 4, 4, 2 | x, y
BCELoss BCEWithLogitsLoss HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss MSELoss : | x, y
MultiLabelSoftMarginLoss PoissonNLLLoss SmoothL1Loss SoftMarginLoss : | x, y
CosineSimilarity PairwiseDistance : | x, y
CircularPad1d ReflectionPad1d ReplicationPad1d ZeroPad1d : 1 | z
CircularPad2d ReflectionPad2d ReplicationPad2d ZeroPad2d : 1 | z[None]
CircularPad3d ReflectionPad3d ReplicationPad3d ZeroPad3d : 1 | z[None, None]
ConstantPad1d : 1, 0.0 | z
ConstantPad2d : 1, 0.0 | z[None]
ConstantPad3d : 1, 0.0 | z[None, None]
Conv1d ConvTranspose1d : 4, 2, 1 | z
Conv2d ConvTranspose2d : 2, 2, 1 | z[None]
Conv3d ConvTranspose3d : 1, 1, 1 | z[None, None]
LazyConv1d LazyConvTranspose1d : 2, 1 | z
LazyConv2d LazyConvTranspose2d : 2, 1 | z[None]
LazyConv3d LazyConvTranspose3d : 1, 1 | z[None, None]
LazyBatchNorm1d : | x
LazyBatchNorm2d : | z[None]
LazyBatchNorm3d : | z[None, None]
LazyInstanceNorm1d : | z
LazyInstanceNorm2d : | z[None]
LazyInstanceNorm3d : | z[None, None]
LazyLinear : 4 | x
Linear : 4, 4 | x
CosineEmbeddingLoss : | x, y, j.clamp(max=1)
CrossEntropyLoss MultiMarginLoss NLLLoss NLLLoss2d : | x, j
LinearCrossEntropyLoss : 4, 4 | x, j
CTCLoss : | x[:, None].log_softmax(-1), k[:1, :1] + 1, i[:1] + 4, i[:1] + 1
GaussianNLLLoss : | x, y, y.abs()
MarginRankingLoss : | x, y, k + 1
MultiLabelMarginLoss : | x, k
TripletMarginLoss TripletMarginWithDistanceLoss : | x, y, y
CrossMapLRN2d : 2 | z[None]
Embedding EmbeddingBag : 4, 4 | j[None]
Fold : (2, 2), 1 | z
FractionalMaxPool2d : 2, 2 | z
FractionalMaxPool3d : 2, 2 | z[:1, None].expand(1, 4, 4, 4)
GRU LSTM RNN : 4, 4 | z
GRUCell LSTMCell RNNCell : 4, 4 | x
GroupNorm : 2, 4 | x
InstanceNorm1d LocalResponseNorm : 2 | z
LPPool1d LPPool2d : 2, 2 | z
LPPool3d : 2, 2 | z[None]
LogSoftmax Softmax Softmin : 1 | x
MaxUnpool1d : 2 | z[..., :2], i.expand(2, 4, 2)
MaxUnpool2d : 2 | z[..., :2, :2], k[None, :2, :2].expand(2, 2, 2)
MaxUnpool3d : 2 | z[None, :, :2, :2], k[None, None, :2, :2].expand(1, 2, 2, 2)
MultiheadAttention : 4, 2 | z, z, z
PixelShuffle : 2 | z.view(1, 4, 2, 4)
Softmax2d : | z
Threshold : 0.1, 0.2 | x
Transformer : 4, 2, 1, 1, 4 | z, z
TransformerDecoderLayer : 4, 2, 4 | z, z
TransformerEncoderLayer : 4, 2, 4 | z
TransformerDecoder : torch.nn.TransformerDecoderLayer(4, 2, 4), 1 | z, z
TransformerEncoder : torch.nn.TransformerEncoderLayer(4, 2, 4), 1 | z
Unflatten : 1, (2, 2) | x
Upsample UpsamplingBilinear2d UpsamplingNearest2d : scale_factor=2 | z[None]
"""
MODULE_ARGUMENTS = {
    f"torch.nn.{name}": tuple(part.strip() for part in calls.split("|"))
    for names, _, calls in (line.partition(" :") for line in MODULE_CALLS.strip().splitlines())
    for name in names.split()
}
CALLABLE = [n for n, facts in MODULES.items() if facts.kind != "container"]


def call_module(name: str, names: dict[str, Any], **extra: Any) -> tuple[list[Any], Any]:
    """Build a module and call it; the tensors it was given and what it gives."""
    build, use = MODULE_ARGUMENTS.get(name, ("", "x"))
    if name == "torch.nn.SyncBatchNorm":
        pytest.skip("needs a process group, or a device")
    torch.manual_seed(0)
    given = ", ".join(part for part in (build, "**extra") if part)
    module = eval(f"{name}({given})", {**names, "extra": extra})
    arguments = eval(f"({use},)", names)
    places = [names[key] for key in "bkij"]
    tensors = list(tensors_in(arguments))
    return [t for t in tensors if not any(t is p for p in places)] or tensors, module(*arguments)


def wrong_module(
    name: str, policy: str | None, device: str, operands: list[Any], result: Any
) -> str | None:
    facts = MODULES[name]
    parts = list(tensors_in([result]))
    if isinstance(result, torch.Tensor) != (facts.returns == "tensor"):
        return f"gives a {type(result).__name__}"
    if policy == "unknown":
        return None
    word = FLOAT if facts.dtype == "param" else facts.dtype
    handed = cast(policy, device, operands)
    return wrong_tensor(OperationResult("tensor", facts.rank, word), word, handed, parts[0])


@pytest.mark.parametrize("name", CALLABLE)
def test_modules_give_what_the_table_says(name: str) -> None:
    operands, result = call_module(name, space(2, FLOAT, FLOAT))
    assert wrong_module(name, None, "cpu", operands, result) is None
    if MODULES[name].kind == "criterion":
        _, result = call_module(name, space(2, FLOAT, FLOAT), reduction="none")
        assert result.dim() > 0


@pytest.mark.parametrize("name", CALLABLE)
def test_modules_under_autocast_of_the_cpu(name: str) -> None:
    policy = casts.AUTOCAST["cpu"].get(name)
    for dtype, other in mixes("cpu"):
        if policy == "unknown":
            continue
        try:
            with torch.no_grad(), region("cpu", True):
                operands, result = call_module(name, space(2, dtype, other))
        except RuntimeError as error:
            if "primitive descriptor" in str(error):
                continue  # this processor has no kernel of oneDNN for the cast operands
            assert (dtype, other) != (FLOAT, FLOAT)  # parameters are float32, and nothing casts
            continue
        assert wrong_module(name, policy, "cpu", operands, result) is None, (dtype, other)


# Of modules that cannot be built or called on CUDA without CUDA: the function that they call.
CALLED_BY = {
    "Conv1d LazyConv1d": "conv1d", "Conv2d LazyConv2d": "conv2d", "Conv3d LazyConv3d": "conv3d",
    "ConvTranspose1d LazyConvTranspose1d": "conv_transpose1d",
    "ConvTranspose2d LazyConvTranspose2d": "conv_transpose2d",
    "ConvTranspose3d LazyConvTranspose3d": "conv_transpose3d",
    "Linear LazyLinear": "linear", "Bilinear": "bilinear", "GaussianNLLLoss": "gaussian_nll_loss",
    "LinearCrossEntropyLoss": "linear_cross_entropy",
    "MultiheadAttention": "multi_head_attention_forward", "CTCLoss": "ctc_loss",
}  # fmt: skip
NOT_FAKED_MODULES = spelled(
    " ".join(f"nn.{name}" for names in CALLED_BY for name in names.split())
    + " nn.GRU nn.LSTM nn.RNN nn.GRUCell nn.LSTMCell nn.RNNCell nn.SyncBatchNorm"
    + " nn.BatchNorm1d nn.BatchNorm2d nn.BatchNorm3d nn.LazyBatchNorm1d nn.LazyBatchNorm2d"
    + " nn.LazyBatchNorm3d nn.LazyInstanceNorm1d nn.LazyInstanceNorm2d nn.LazyInstanceNorm3d"
    + " nn.CrossMapLRN2d nn.Unfold"
)


@pytest.mark.usefixtures("quiet_fakes")
def test_modules_under_autocast_of_cuda() -> None:
    problems, failed = [], set()
    with fake_tensor.FakeTensorMode(allow_non_fake_inputs=True), Views():
        spaces = {mix: fake_cuda(2, *mix) for mix in mixes("cuda")}
        for name in CALLABLE:
            policy = casts.AUTOCAST["cuda"].get(name)
            if policy == "unknown" or name in NOT_FAKED_MODULES:
                continue
            takes_device = "device" in inspect.signature(resolve(name)).parameters
            extra = {"device": "cuda"} if takes_device else {}
            for mix in mixes("cuda"):
                try:
                    with torch.no_grad(), region("cuda", True):
                        operands, result = call_module(name, dict(spaces[mix]), **extra)
                except RuntimeError as error:
                    no_driver = "CUDA error" in str(error)  # a CUDA build on another machine
                    banned = policy == "banned" and "unsafe to autocast" in str(error)
                    if not no_driver and not banned:
                        failed.add(f"{name}: {error}")
                    continue
                problem = wrong_module(name, policy, "cuda", operands, result)
                if problem or policy == "banned":
                    problems.append(f"{name}: {problem} {mix}")
    assert not failed
    assert not problems, "\n".join(problems)


def test_modules_have_the_policy_of_their_function() -> None:
    for several, function in CALLED_BY.items():
        for name in several.split():
            for device in LOW:
                policies = casts.AUTOCAST[device]
                expected = policies.get(f"torch.nn.functional.{function}")
                assert policies.get(f"torch.nn.{name}") == expected, (name, device)


# --------------------------------------------------------------------------- reading the device


def waits(error: Exception) -> bool:
    """Whether a fake tensor was asked for its values, or for a shape that depends on them."""
    data = fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException
    return isinstance(error, data)


@pytest.mark.usefixtures("quiet_fakes")
def test_what_waits_for_the_device_is_listed() -> None:
    found = set()
    with fake_tensor.FakeTensorMode(allow_non_fake_inputs=True), Views():
        for mix in ((FLOAT, FLOAT), ("int64", "int64")):
            names = fake_cuda(2, *mix)
            for name, expected in RESULTS.items():
                if name in NOT_CALLED or expected.kind == "self":
                    continue
                try:
                    call(name, dict(names))
                except Exception as error:
                    if waits(error):
                        found.add(name)
    listed = {*host_reads.HOST_READS, *host_reads.DATA_DEPENDENT, *host_reads.WAITS}
    assert found - listed == set()
    assert len(found) > 25


def test_documented_synchronisation_is_listed() -> None:
    for name in set(RESULTS) - host_reads.WAITS - set(host_reads.DATA_DEPENDENT):
        words = " ".join((resolve(name).__doc__ or "").split())
        assert not re.search(r"(device|inputs), this function synchronizes that device", words), (
            name
        )
        assert "this function causes host-device synchronization" not in words, name


@pytest.mark.parametrize("name", [n for n in host_reads.HOST_READS if n.startswith("Tensor.")])
def test_host_reads_need_values(name: str) -> None:
    method = name.partition(".")[2]
    if method in ("__repr__", "__str__"):
        pytest.skip("says `...` for a tensor without values")
    tensor = torch.ones((), dtype=torch.int64, device="meta")
    extra = {"__format__": ("d",), "allclose": (tensor,), "equal": (tensor,), "__contains__": (1,)}
    with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
        getattr(tensor, method)(*extra.get(method, ()))


@pytest.mark.parametrize("name", sorted(host_reads.HOST_ATTRIBUTES))
def test_host_attributes_need_no_values(name: str) -> None:
    found = getattr(torch.ones(2, 2, device="meta"), name)
    if callable(found) and name != "grad_fn":
        found()


@pytest.mark.usefixtures("quiet_fakes")
def test_data_dependent_shapes_wait_unless_told() -> None:
    ways = {
        "argwhere": ("x.argwhere()", None),
        "bincount": ("i.bincount()", None),
        "combinations": ("torch.where(b)" if NEW else "torch.combinations(v)", None),
        "masked_select": ("x.masked_select(b)", None),
        "nonzero": ("torch.where(b)", None),  # which calls it
        "one_hot": ("F.one_hot(j)", "F.one_hot(j, 4)"),
        "repeat_interleave": (
            "x.repeat_interleave(j, dim=0)",
            "x.repeat_interleave(j, dim=0, output_size=6)",
        ),
        "unique": ("x.unique()", None),
        "unique_consecutive": ("x.unique_consecutive()", None),
        "where": ("torch.where(b)", "torch.where(b, x, y)"),
    }
    assert {name.rpartition(".")[2] for name in host_reads.DATA_DEPENDENT} == set(ways)
    with fake_tensor.FakeTensorMode(allow_non_fake_inputs=True):
        names = {**fake_cuda(2, FLOAT, FLOAT), "F": F}
        for blind, told in ways.values():
            with pytest.raises(Exception, match=r"aten\.") as caught:
                eval(blind, names)
            assert waits(caught.value)
            if told is not None:
                eval(told, names)


# What stands before the numbers of NUMBER_PARAMETERS, where that is not x alone.
LEADING = {
    **dict.fromkeys(spelled("add sub .add_ .sub_"), "x, x"),
    **dict.fromkeys(spelled("addcdiv addcmul addmm .addcdiv_ .addcmul_ .addmm_"), "x, x, x"),
    **dict.fromkeys(spelled("baddbmm .baddbmm_"), "z, z, z"),
    **dict.fromkeys(spelled("repeat_interleave"), "x, 2, 0"),
    **dict.fromkeys(spelled("masked_fill .masked_fill_"), "x, x > 0"),
    **dict.fromkeys(spelled("index_fill .index_fill_"), "x, 0, j"),
    "torch.nn.functional.interpolate": "z",
    "torch.nn.functional.one_hot": "j",
    "torch.nn.utils.clip_grad_norm_": "[p]",
}
NUMBERS = {
    "alpha": 2.0, "beta": 2.0, "chunks": 2, "diagonal": 0, "dim": 0, "dimension": 0, "dims": (2, 1),
    "index": 0, "k": 1, "length": 1, "max_norm": 1.0, "num_classes": 4, "num_samples": 1,
    "output_size": 8, "p": 0.5, "pad": (1, 1), "repeats": (2, 1), "shape": (4, 4), "shifts": 1,
    "size": (4, 4), "sizes": (2, 2), "split_size": 2, "split_size_or_sections": 2,
    "split_sizes": (2, 2), "start": 0, "step": 1, "value": 2.0,
}  # fmt: skip
OF_ONE_SIZE = {"Tensor.unfold", "torch.nn.functional.interpolate"}
NOT_SIZED = {"torch.frombuffer"} | {f"torch.{n}_like" for n in ("empty", "ones", "rand", "randn")}
NOT_SIZED.add("torch.zeros_like")


def as_tensors(number: Any) -> Any:
    return tuple(map(torch.tensor, number)) if isinstance(number, tuple) else torch.tensor(number)


def is_read(function: Any, *given: Any, **keywords: Any) -> bool:
    """Whether the call asks a tensor for its value, on the outside or in its kernels."""
    with torch.autograd.profiler.profile() as seen:
        function(*given, **keywords)
    return any(event.name == "aten::_local_scalar_dense" for event in seen.function_events)


@pytest.mark.parametrize("name", host_reads.NUMBER_PARAMETERS)
def test_a_tensor_for_a_number_is_read(name: str) -> None:
    """Each number of a name in turn; the others stay numbers."""
    words = [word for word in host_reads.NUMBER_PARAMETERS[name] if word != "_"]
    numbers = {word: NUMBERS[word.strip("*=")] for word in words}
    if name in OF_ONE_SIZE:
        numbers["size"] = 2
    for word in words:
        given = {**numbers, word: as_tensors(numbers[word])}
        leading = eval(f"[{LEADING.get(name, 'x')}]", space(2, "float32", "float32"))
        positional = [given[each] for each in words if not each.endswith("=")]
        keywords = {each[:-1]: given[each] for each in words if each.endswith("=")}
        assert is_read(resolve(name), *leading, *positional, **keywords), word
        assert host_reads.takes_number(name, -1, word.strip("*="))
        position = host_reads.NUMBER_PARAMETERS[name].index(word)
        assert host_reads.takes_number(name, position, None) != word.endswith("=")


@pytest.mark.parametrize("name", FACTORIES)
def test_a_tensor_for_a_number_of_a_factory_is_read(name: str) -> None:
    facts = FACTORIES[name]
    numbers = [
        (position, parameter)
        for position, parameter in enumerate(facts.parameters)
        if host_reads.takes_number(name, position, None)
    ]
    assert bool(numbers) == (facts.rank not in ("unknown", "data") and name not in NOT_SIZED)
    for position, parameter in numbers:
        given = [VALUES[each] for each in facts.parameters]
        given[position] = as_tensors(given[position])
        own = [VALUES["input"]] if name.startswith("Tensor.") else []
        assert is_read(resolve(name), *own, *given), parameter
        assert host_reads.takes_number(name, -1, parameter)


def test_the_host_knows_what_takes_no_values() -> None:
    tensor = torch.ones(2, 2, device="meta")
    assert len(tensor) == 2 and len(list(tensor)) == 2
    assert sum(tensor).shape == (2,)


# --------------------------------------------------------------------------- libraries


def imported(name: str) -> Any:
    """What `from ... import ...` of the name gives."""
    module, _, last = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), last)
    except ModuleNotFoundError:
        return resolve(name)


def parameters(name: str) -> dict[str, Any]:
    given = inspect.signature(imported(name)).parameters
    return {key: value.default for key, value in given.items()}


@pytest.mark.parametrize("name", sorted(libraries.EXPORTING))
def test_nothing_is_exported_while_it_runs(name: str) -> None:
    assert not imported(name)()


@pytest.mark.parametrize("name", libraries.AUTOCASTS)
def test_autocast_signatures(name: str) -> None:
    api = libraries.AUTOCASTS[name]
    defaults = parameters(name)
    assert tuple(defaults) == api.parameters
    assert defaults["enabled"] is True
    if api.device is None:
        assert defaults["dtype"] is None and defaults["device_type"] is inspect.Parameter.empty
    else:
        assert defaults["dtype"] == getattr(torch, api.dtype or "")


@pytest.mark.parametrize("name", libraries.SCALERS)
def test_scaler_signatures(name: str) -> None:
    api = libraries.SCALERS[name]
    defaults = parameters(name)
    assert tuple(defaults) == api.parameters
    assert defaults.get("device", api.device) == api.device


@pytest.mark.parametrize("name", libraries.STAR_IMPORTS)
def test_what_a_star_binds(name: str) -> None:
    module = importlib.import_module(name)
    public = getattr(module, "__all__", [each for each in vars(module) if each[0] != "_"])
    assert set(public) <= libraries.STAR_IMPORTS[name]


@pytest.mark.parametrize(("old", "new"), libraries.LEGACY_CUSTOM.items())
def test_legacy_decorators_are_the_new_ones_for_cuda(old: str, new: str) -> None:
    assert imported(old) is imported(old.replace("autocast_mode.", ""))
    assert "device_type" in inspect.signature(imported(new)).parameters


@pytest.mark.parametrize(("old", "new"), libraries.LEGACY_STATE.items())
def test_legacy_functions_about_the_state_of_autocast(old: str, new: tuple[str, str]) -> None:
    """What the old one sets, the new one gets, and the other way round."""
    name, device = new
    state = "dtype" if name.endswith("dtype") else "enabled"
    reads = f"torch.get_autocast_{state}" if state == "dtype" else f"torch.is_autocast_{state}"
    if "set_" not in old:
        assert imported(old)() == imported(name)(device)
        return
    before = imported(reads)(device)
    try:
        for value in (torch.float16, torch.bfloat16) if state == "dtype" else (True, False):
            imported(old)(value)
            assert imported(reads)(device) == value
    finally:
        imported(name)(device, before)


@pytest.mark.parametrize("device", libraries.DEFAULT_DTYPES)
def test_default_dtypes_of_regions(device: str) -> None:
    """A process of its own is asked: a program that another test runs may have set a default."""
    code = f"import torch; print(torch.get_autocast_dtype({device!r}))"
    asked = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    if "RuntimeError" in asked.stderr:
        pytest.skip(f"this torch knows no {device}")
    assert asked.stdout.strip() == f"torch.{libraries.DEFAULT_DTYPES[device]}"


def of_torch(names: Any) -> list[str]:
    return [name for name in names if name.startswith("torch.")]


def test_library_names_of_torch_are_there() -> None:
    groups = (
        libraries.NO_GRAD, libraries.LOADERS, libraries.OPTIMIZERS, libraries.SCHEDULERS,
        libraries.MODULE_WRAPPERS, libraries.AUTOCASTS, libraries.SCALERS,
    )  # fmt: skip
    for name in (name for group in groups for name in of_torch(group)):
        if name in UNEQUAL:
            continue
        assert callable(imported(name)), name


def subclasses(module: Any, base: type) -> set[str]:
    found = {name: thing for name, thing in vars(module).items() if isinstance(thing, type)}
    return {
        f"{module.__name__}.{name}"
        for name, thing in found.items()
        if issubclass(thing, base) and thing is not base and not name.startswith("_")
    }


def test_no_optimizer_or_scheduler_of_torch_is_forgotten() -> None:
    schedulers = torch.optim.lr_scheduler
    assert subclasses(torch.optim, torch.optim.Optimizer) <= libraries.OPTIMIZERS
    assert subclasses(schedulers, schedulers.LRScheduler) <= libraries.SCHEDULERS


def test_kinds() -> None:
    assert libraries.KINDS.get("torch.optim.AdamW") == "optimizer"
    assert libraries.KINDS.get("torch.utils.data.DataLoader") == "loader"
    assert libraries.KINDS.get("torch.zeros") is None


def with_tensor(name: str, place: int | str) -> str:
    """A call of the name with a 0-dim tensor in that place, where a number may stand."""
    home, _, base = name.rpartition(".")
    first = {"lerp": ["x"], "where": ["b"]}.get(base.rstrip("_"), [])
    if home == "torch":
        first = ["b", "x", "x"] if base == "where" else ["x", *first]
    called = f"{'x' if home == 'Tensor' else 'torch'}.{base}"
    if isinstance(place, str):
        first = ["b", "other=x"] if place == "input" else first
        return f"{called}({', '.join([*first[:2], f'{place}=t'])})"
    arguments = [*first[:place], *["1.0"] * (place - len(first)), "t", *first[place + 1 :]]
    if base in ("pow", "float_power") and home == "torch" and place == 0:
        arguments.append("x")
    return f"{called}({', '.join(arguments)})"


@pytest.mark.usefixtures("quiet_fakes")
def test_what_takes_a_tensor_for_a_number_does_not_read_it() -> None:
    with fake_tensor.FakeTensorMode(allow_non_fake_inputs=True):
        for name, places in host_reads.TAKES_TENSOR.items():
            for place in places:
                names = fake_cuda(2, FLOAT, FLOAT)
                eval(with_tensor(name, place), {**names, "t": names["x"].sum()})
        for text in ("x.add(x, alpha=t)", "x.clamp(t, 1.0)", "x.new_full((2,), t)"):
            with pytest.raises(Exception, match=r"aten\.") as caught:
                eval(text, {**names, "t": names["x"].sum()})
            assert waits(caught.value)


@pytest.mark.parametrize("name", casts.EPSILONS)
def test_optimizers_divide_by_an_epsilon_that_float16_does_not_have(name: str) -> None:
    optimizer = getattr(torch.optim, name.rpartition(".")[2])
    position, default = casts.EPSILONS[name]
    parameter = list(inspect.signature(optimizer).parameters.values())[position]
    assert (parameter.name, parameter.default) == ("eps", default)
    for dtype, finite in ((torch.float16, False), (torch.float32, True)):
        weight = torch.nn.Parameter(torch.ones(2, dtype=dtype))
        made = optimizer([weight])
        for _ in range(10):
            weight.grad = torch.tensor([0.0, 1e-5], dtype=dtype)
            made.step()
        assert bool(weight.isfinite().all()) is finite


def test_the_half_of_the_least_number() -> None:
    number = torch.tensor(casts.HALF_OF_LEAST)
    assert number.half() == 0 < torch.nextafter(number, torch.tensor(1.0)).half()


def test_replicas_of_data_parallel_know_whether_autocast_is_on_but_not_its_dtype() -> None:
    """Each is called in a new thread, where the dtype is the default again."""
    module = importlib.import_module("torch.nn.parallel.parallel_apply")
    source = inspect.getsource(module)
    assert "enabled=autocast_enabled)" in source and "autocast_dtype" not in source
    with ThreadPoolExecutor(1) as pool:
        before = torch.get_autocast_dtype("cuda")
        torch.set_autocast_dtype("cuda", torch.bfloat16)
        try:
            seen = pool.submit(torch.get_autocast_dtype, "cuda").result()
        finally:
            torch.set_autocast_dtype("cuda", before)
    assert seen is torch.float16
    assert libraries.MODULE_WRAPPERS.keys() >= libraries.DATA_PARALLEL


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("prefetch_factor", 2),
        ("persistent_workers", True),
        ("timeout", 1),
        ("multiprocessing_context", "spawn"),
    ],
)
def test_a_loader_without_workers_refuses_what_is_for_them(name: str, value: object) -> None:
    """The timeout with the first batch, the others at once."""
    parameters = list(inspect.signature(torch.utils.data.DataLoader).parameters.values())
    position = libraries.WORKER_ARGUMENTS[name]
    found = next(p for p in parameters if p.name == name)
    assert (found.kind is found.KEYWORD_ONLY) == (position is None)
    assert position is None or parameters[position] is found
    with pytest.raises((ValueError, AssertionError)):
        next(iter(torch.utils.data.DataLoader([1], **{name: value})))


@given(st.floats(width=32))
@example(65504.0)
@example(65280.0)
@example(1e-6)
@example(2.0**-14)
def test_a_number_that_half_holds_is_the_same_in_float16_and_bfloat16(number: float) -> None:
    """Never more than torch holds; what float16 has below its normal numbers is left out."""
    wide = torch.tensor(number, dtype=torch.float64)
    same = all(wide.to(half).double() == wide for half in (torch.float16, torch.bfloat16))
    if is_exact_in_half(number):
        assert same or math.isnan(number)
    else:
        assert not same or abs(number) < 2**-14


@pytest.mark.parametrize("name", libraries.THREADS)
def test_what_runs_a_function_elsewhere_takes_it_and_its_arguments_there(name: str) -> None:
    keyword, position, packed = libraries.THREADS[name]
    module, _, attribute = name.rpartition(".")
    runner = getattr(importlib.import_module(module), attribute)
    parameters = [*inspect.signature(runner).parameters]
    assert parameters[position] == keyword
    assert packed is None or parameters[packed] == "args"


@pytest.mark.skipif(sys.platform == "win32", reason="nothing is forked there")
def test_a_process_is_told_its_rank_and_a_forked_one_stays_in_the_region(tmp_path: Path) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.multiprocessing.start_processes(
            write_rank_and_region, args=(tmp_path,), nprocs=2, start_method="fork"
        )
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "0": "True",
        "1": "True",
    }


def write_rank_and_region(rank: int, directory: Path) -> None:
    (directory / str(rank)).write_text(str(torch.is_autocast_enabled("cpu")))


def test_gradients_are_reduced_in_the_dtype_of_the_parameters_where_nothing_else_is_said() -> None:
    """What AMP605 says, and the places of the arguments that it reads."""
    fsdp = importlib.import_module("torch.distributed.fsdp")
    for policy in (fsdp.MixedPrecision, fsdp.MixedPrecisionPolicy):
        parameters = inspect.signature(policy).parameters
        assert list(parameters)[:2] == ["param_dtype", "reduce_dtype"]
        assert parameters["reduce_dtype"].default is None
        assert "``None`` but ``param_dtype`` is not ``None``, then" in (policy.__doc__ or "")
