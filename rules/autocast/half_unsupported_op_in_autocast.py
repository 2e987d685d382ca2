"""An operation without half kernels gets half input in a region, and raises.

There are no float16 or bfloat16 kernels for most of linear algebra (`inv`, `solve`, `cholesky`,
`svd`, `eigh`, `qr`, `det`), for `quantile`, the CTC loss and some special functions. CUDA autocast
casts the input of none of them, and a matrix product in a region is half. CPU autocast does cast
for most of them, so tests on the CPU pass.

    with torch.autocast("cuda"):
        h = self.proj(x)                              # half
        precision = torch.linalg.inv(h.t() @ h)       # RuntimeError: low precision dtypes

    with torch.autocast("cuda"):
        h = self.proj(x)
        precision = torch.linalg.inv((h.t() @ h).float())

Fourier transforms, complex numbers and NumPy have float16, but not bfloat16. With
`assume-autocast = true` they are reported for any half, because the users of a library choose the
dtype; under `autocast-float16`, because CUDA transforms sizes alone that are powers of two.

`torch.pca_lowrank` and `torch.svd_lowrank` factorise products that they compute themselves: a CUDA
region makes these half for every input except float64. A cast does not help; a nested region with
`enabled=False` does.

The CTC loss sums the logarithms of probabilities: a cast of what a half `log_softmax` has rounded
brings no digit back. There the input of `log_softmax` has to be cast.

Fix safety: casts the half operands to float32; there is none for the CTC loss. Safe if this
function itself casts them to half, since the line could only raise; unsafe if a region makes them
half, because a float64 input would stay float64.

Known limits: operands that are half on only some paths are not reported, except for bfloat16 under
`assume-autocast = true`. Calls whose error is caught, and functions that conjugate or name a
complex dtype, are not reported either: autocast does not cast complex tensors. Nor are products of
unknown dtype in a region that is presumed, since they may be float64. A region of unknown device
type is assumed to be a CUDA region if the operands are on an accelerator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from amplint import (
    HALF,
    WITH_HALF,
    WITHIN_REGION,
    Change,
    Finding,
    Fix,
    Group,
    Presumes,
    Raises,
    Rule,
    Shows,
    Tensor,
    View,
    calls,
    evidence_of,
)
from amplint.knowledge.casts import FACTORISES_PRODUCTS, NO_BFLOAT16, NO_HALF, policy

from .._shared.dtypes import (
    SAME_DTYPE,
    chain_root,
    device_type,
    dtype_of_cast,
    library_casts_model_outputs,
    operation,
    tensor_on_a_path,
)
from .._shared.guards import is_caught, is_wished
from ._regions import made_by_autocast

BFLOAT16 = frozenset({"bfloat16"})
MADE_HALF = HALF | {"float32", None}  # by a product in a region
ISLAND = 'run it within `torch.autocast("cuda", enabled=False)`, on `x.float()`'
CAST = "the operand is cast to half in this function: the line can only raise"
CTC = frozenset({"torch.ctc_loss", "torch.nn.functional.ctc_loss", "torch.nn.CTCLoss"})
CAST_EARLY = "cast before the `log_softmax`, which has lost digits: `F.log_softmax(x.float(), -1)`"
ASKS = re.compile(r"\bdtype\b|is_autocast")
OF_COMPLEX = re.compile(r"\bconj(_physical)?\(|(?<!view_as_)complex(_\w|\d|\()|\bis_complex\b")


rule = Rule(
    "AMP313",
    __doc__,
    group=Group.CORRECTNESS,
    help="cast the operand with `.float()` before this operation",
    witness=Raises("low precision dtypes not supported"),
    safe_if=(CAST,),
    changes=frozenset({Change.DTYPE}),
    presumes=Presumes.AUDITED,
)


@rule.on(calls(*NO_HALF, *NO_BFLOAT16))
def check(call: View) -> Iterator[Finding]:
    op = operation(call)
    if op is None:
        return
    lacking = HALF if op.name in NO_HALF else BFLOAT16
    wrong = [each for each in op.operands if (t := each.tensor) and t.dtype in lacking]
    tensors = [tensor for each in wrong if (tensor := each.tensor)]
    if not wrong or is_cast(op.name, call, tensors) or is_left_alone(call, tensors):
        return
    if all(may_be_float64(each) for each in wrong):
        return
    function = op.name.rpartition(".")[2]
    cause = f"`{wrong[0].brief}` is {tensors[0].dtype}"
    message = f"{cause}, which `{function}` refuses: RuntimeError"
    if op.name in CTC:
        places = (tensor.dtype_evidence for tensor in tensors)
        yield wrong[0].finding(message, places, help=CAST_EARLY)
    else:
        yield report(wrong, tensors, message)


@rule.on(calls(*NO_BFLOAT16) & WITHIN_REGION)
def check_of_any_half(call: View) -> Iterator[Finding]:
    """Ex) torch.fft.rfft(x) in a library, whose users choose which half the region has"""
    region, op = call.enabled_region, operation(call)
    mode = call.source.mode
    if op is None or region is None or mode is None:
        return
    is_open = not mode.dtype
    if not is_open and not (region.dtype == "float16" and ".fft." in op.name):
        return
    by_operand = {each: tensor for each in op.operands if (tensor := tensor_on_a_path(each))}
    wrong = {each: tensor for each, tensor in by_operand.items() if may_become_bfloat16(tensor)}
    tensors = list(wrong.values())
    if not wrong or is_cast(op.name, call, tensors) or is_left_alone(call, tensors):
        return
    operands, function = list(wrong), op.name.rpartition(".")[2]
    cause = f"autocast may make `{operands[0].brief}` bfloat16, which `{function}` refuses"
    if not is_open:
        cause = f"`{function}` takes float16 on a GPU only if all sizes are powers of two"
    yield report(operands, tensors, f"{cause}: RuntimeError")


@rule.on(calls(".numpy") & WITH_HALF)
def check_numpy(call: View) -> Iterator[Finding]:
    """Ex) probs.cpu().numpy(): NumPy has no bfloat16, which torch does not cast for it"""
    array = call.receiver
    tensor = array.tensor if array is not None else None
    if array is not None and tensor is not None and tensor.dtype in BFLOAT16:
        cause = f"`{array.brief}` is {tensor.dtype}, which `numpy` refuses"
        yield report([array], [tensor], f"{cause}: TypeError")


def may_be_float64(at: View) -> bool:
    """Whether it is a product in a region that is presumed, of factors of unknown dtype: autocast
    leaves float64 alone, which linear algebra is often done in."""
    region, factors = at.enabled_region, [each.tensor for each in at.origin.operands]
    is_unknown = all(factor is None or factor.dtype is None for factor in factors)
    return region is not None and region.presumed and at.origin.op == "binop" and is_unknown


def report(operands: list[View], tensors: list[Tensor], message: str) -> Finding:
    """The finding about the operands of an operation that are half."""
    append = operands[0].source.edits.append_call
    fix = Fix.safe_if(
        "Cast it to float32",
        tuple(append(each.cst, "float()") for each in operands),
        {CAST: all(map(is_cast_here, operands))},
    )
    places = (tensor.dtype_evidence for tensor in tensors)
    return operands[0].finding(message, places, fix)


def may_become_bfloat16(tensor: Tensor) -> bool:
    """Whether it is half, if on one path alone, and no cast names another dtype than bfloat16."""
    half, evidence = tensor.half_on_a_path, evidence_of(tensor.dtype_evidence)
    is_named = evidence is not None and evidence.kind is Shows.DTYPE
    return half is not None and tensor.dtype != "bfloat16" and not is_named


@rule.on(calls(*FACTORISES_PRODUCTS) & WITHIN_REGION)
def check_products(call: View) -> Iterator[Finding]:
    """Ex) torch.pca_lowrank(points)"""
    region, op = call.enabled_region, operation(call)
    if region is None or op is None or device_type(region, op.tensors) != "cuda":
        return
    factored = op.operands[0].tensor if op.operands else None
    if factored is not None and factored.dtype not in MADE_HALF:
        return
    if is_caught(call) or is_wished(call, ASKS):
        return
    function = op.name.rpartition(".")[2]
    message = f"`{function}` factorises a product, which is half here: RuntimeError"
    yield call.finding(message, [region.evidence], help=ISLAND)


def is_left_alone(call: View, tensors: list[Tensor]) -> bool:
    """Whether nothing says that half was not meant, or that it raises."""
    if call.enabled_region is None and not leaves_region(call, tensors):
        return True
    if is_caught(call) or is_wished(call, ASKS):
        return True
    around = call.source.function(call.cst)
    return around is not None and OF_COMPLEX.search(call.source.text(around)) is not None


def leaves_region(call: View, tensors: list[Tensor]) -> bool:
    """Whether what a region has made half is so outside of it, or a cast that the settings assume
    of the whole module."""
    because = [evidence_of(tensor.dtype_evidence) for tensor in tensors]
    if any(each is not None and each.kind is Shows.ACTIVATION for each in because):
        return True
    return any(map(made_by_autocast, tensors)) and not library_casts_model_outputs(call)


def is_cast(name: str, call: View, tensors: list[Tensor]) -> bool:
    """Whether the region around the call casts the operands, on a device that it may be for."""
    region = call.enabled_region
    if region is None:
        return False
    device = device_type(region, tensors)
    devices = ("cuda", "cpu") if device is None else (device,)
    return any(policy(name, device) not in (None, "unknown") for device in devices)


def is_cast_here(operand: View) -> bool:
    """Ex) x.half(), or h after h = x.to(torch.float16)"""
    return dtype_of_cast(chain_root(operand.origin, SAME_DTYPE)) in HALF
