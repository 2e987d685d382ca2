"""`binary_cross_entropy` or `BCELoss` raises in a CUDA autocast region.

CUDA autocast refuses this operation for inputs of every dtype, because its gradients may be out of
the range of float16. CPU autocast computes it in float32, so tests on the CPU pass.

    with torch.autocast("cuda"):
        loss = F.binary_cross_entropy(torch.sigmoid(logits), target)      # RuntimeError

    with torch.autocast("cuda"):
        loss = F.binary_cross_entropy_with_logits(logits, target)

If you need the probabilities, disable autocast for the loss:

    with torch.autocast("cuda", enabled=False):
        loss = F.binary_cross_entropy(probabilities.float(), target)

Fix safety: unsafe: merges a sigmoid at the call with the loss. This is more precise: the loss of
probabilities is clamped to 100 for each element, that of logits is not. Not offered if the sigmoid
is elsewhere, as in a layer of the model.

Known limits: a region of unknown device type is assumed to be a CPU region, unless the inputs of
the loss are known to be on an accelerator. The rule is silent if the name that chooses this loss
stands where the region is disabled as well (`nullcontext() if self.loss == "bce" else
torch.autocast("cuda")`, and the loss under `if self.loss == "bce":`). A loss that is one of several
(`LOSSES[name]()`, `nn.BCELoss() if binary else nn.L1Loss()`) is not reported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    IN_REGION,
    Change,
    Classes,
    Edit,
    Finding,
    Fix,
    FunctionTexts,
    Group,
    Instance,
    Object,
    Presumes,
    Raises,
    Rule,
    Safety,
    Symbol,
    View,
    calls,
    calls_of,
    canonical,
    evidence_of,
    known,
    tensors_in,
)
from amplint import libcst as cst
from amplint.knowledge.casts import AUTOCAST, policy

from .._shared.dtypes import device_type
from ._switches import switches

if TYPE_CHECKING:
    from amplint import Region, Source

BANNED = frozenset(name for name, how in AUTOCAST["cuda"].items() if how == "banned")
REFUSING = frozenset({"cuda", "xpu"})  # types of devices (registrations in autocast_mode.cpp)
LOSS = "torch.nn.functional.binary_cross_entropy"
FORWARDING = frozenset({"forward", "__call__"})
SIGMOIDS = frozenset({"torch.sigmoid", "torch.nn.functional.sigmoid", "torch.special.expit"})

QUOTED = re.compile(r"[\"'](\w+)[\"']")


rule = Rule(
    "AMP304",
    __doc__,
    group=Group.CORRECTNESS,
    help="use `binary_cross_entropy_with_logits` (`BCEWithLogitsLoss`) on the logits",
    witness=Raises("are unsafe to autocast", policy=True),
    changes=frozenset({Change.ROUNDING}),
    presumes=Presumes.AUDITED,
)


@rule.on(
    (calls(LOSS, *BANNED, *(f".{name}" for name in FORWARDING)) | calls_of(Instance)) & IN_REGION
)
def check(call: View) -> Iterator[Finding]:
    name, region = loss_of(call), call.enabled_region
    if name is None or region is None:
        return
    device = device_type(region, tensors_in([each.value for _, _, each in call.arguments]))
    if device not in REFUSING or policy(name, device) != "banned":
        return
    if is_dropped_for_loss(call, region):
        return
    message = f"`{call.brief}` raises in a CUDA autocast region; on the CPU it runs"
    yield call.finding(message, [region.evidence], take_logits(call))


def loss_of(call: View) -> str | None:
    """The function, or the class of the criterion, that is called."""
    called = known(call.called.value)
    if len(called) > 1:
        return None
    if any(isinstance(atom, Symbol) and canonical(atom.name) == LOSS for atom in called):
        return LOSS
    types = {atom.type for atom in called if isinstance(atom, Object) and atom.kind == "criterion"}
    names = sorted(types & BANNED) or sorted(inherited(call) & BANNED)
    return names[0] if names else None


def inherited(call: View) -> frozenset[str]:
    """The library class whose `forward` runs, of an object of the project or by `super()`."""
    receiver = call.receiver
    forwards = receiver is not None and call.method in FORWARDING
    of = receiver.value if receiver is not None and forwards else call.called.value
    bases = call.fact(Classes).inherited(of, "forward")
    return bases if len(bases) == 1 else frozenset()


def is_dropped_for_loss(call: View, region: Region) -> bool:
    """Whether the name that chooses this loss also stands where a region is disabled."""
    opened = evidence_of(region.evidence)
    around = call.fact(FunctionTexts).around(opened.place) if opened is not None else ""
    switching = QUOTED.findall(switches(around))
    return not {*switching}.isdisjoint(QUOTED.findall("\n".join(choosing(call))))


def choosing(call: View) -> Iterator[str]:
    """The tests that hold where a loss is computed, or where the field that it is was set."""
    node, src = call.cst, call.source
    yield from (src.text(test) for test in conditions(node, src))
    cls = src.class_around(node)
    if cls is not None and isinstance(node.func, cst.Attribute):
        field = re.escape(src.text(node.func))
        set_where = re.compile(rf"\bif\s+([^\n]+):\s*{field}\s*=")
        yield from set_where.findall(ast.unparse(cls))


def conditions(node: cst.CSTNode, src: Source) -> Iterator[cst.BaseExpression]:
    """The tests that hold where a node runs, within its function."""
    inner = node
    for ancestor in src.ancestors(node):
        if isinstance(ancestor, cst.FunctionDef | cst.Lambda):
            return
        if isinstance(ancestor, cst.If | cst.IfExp) and inner is ancestor.body:
            yield ancestor.test
        inner = ancestor


def take_logits(call: View) -> Fix | None:
    """Ex) binary_cross_entropy(sigmoid(z), y) -> binary_cross_entropy_with_logits(z, y)"""
    probabilities = call.arg("input", 0)
    logits = operand_of_sigmoid(probabilities) if probabilities is not None else None
    if call.callee != LOSS or probabilities is None or logits is None:
        return None
    edits, called = call.source.edits, call.cst.func
    function = f"{LOSS}_with_logits"
    rename: tuple[Edit, ...]
    if isinstance(called, cst.Attribute):
        rename = (edits.replace(called.attr, function.rpartition(".")[2]),)
    else:
        spelled = call.source.imports.spell(function)
        rename = (edits.replace(called, spelled.text), *spelled.edits)
    replaced = edits.replace(probabilities.cst, logits.text, parentheses=True)
    return Fix("Compute the loss of the logits", (*rename, replaced), Safety.UNSAFE)


def operand_of_sigmoid(at: View) -> View | None:
    """`z` of `torch.sigmoid(z)` and of `z.sigmoid()`"""
    arguments = [argument for _, _, argument in at.arguments] if at.op == "call" else []
    if at.callee in SIGMOIDS:
        return arguments[0] if len(arguments) == 1 and not at.has_star else None
    if at.op != "call" or at.method != "sigmoid" or arguments:
        return None
    return at.receiver if at.tensor is not None or at.operands[0].name is None else None
