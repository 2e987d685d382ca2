"""A tensor is read or tested on the host in code that is captured as a graph.

`torch.compile`, `torch.export` and CUDA graphs record the operations on tensors, and see no values.
Reading a value breaks the graph: the code after it goes into another graph, and the host waits in
between, in each call. With `fullgraph=True`, in an export and in a CUDA graph, it raises instead.

    @torch.compile
    def step(x):
        scale = x.abs().max().item()                # breaks the graph
        if torch.isnan(x).any():                    # breaks it again
            x = torch.zeros_like(x)
        return x / scale

    @torch.compile
    def step(x):
        scale = x.abs().max()
        x = torch.where(torch.isnan(x).any(), 0.0, x)
        return x / scale

The behaviour of each form was determined with torch 2.13, with its default settings:
`torch.compile` captures `.cpu()`, `.numpy()` and `assert t`, and with `fullgraph=True` also
`.item()`, `float()`, masks and `nonzero`, while `if t`, `range(t)` and `print(t)` raise. A CUDA
graph refuses everything that waits for the device. A tensor on the CPU breaks a graph of
`torch.compile` too.

The function may be compiled in another file, and the read may be in a function that it calls; the
finding shows the calls as related places. Code that runs rarely, that `torch.compiler.disable`
excludes, or that is under a test such as `torch.compiler.is_compiling()` is not reported.

A read that raises is a correctness finding; a graph break only costs time.

Fix safety: none is offered. The decision has to move to the device, or the value has to be read
after the captured function has returned.

Known limits: only code that is visibly compiled or captured is checked, and only calls of a single
function. `.item()` and the other numbers are not reported if the project mentions
`capture_scalar_outputs`, and masks are not if it mentions `capture_dynamic_output_shape_ops`.
Values computed from a captured number (`if x.item() > 0` with `fullgraph=True`) are not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from amplint import (
    ACCELERATOR,
    FLOATS,
    IN_CAPTURE,
    Captured,
    Captures,
    Finding,
    Group,
    NotGuessed,
    Rule,
    RuleName,
    Sequence,
    Tensor,
    TensorCertainty,
    TensorTree,
    Unrun,
    View,
    calls,
    nodes,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.captures import (
    COUNTING,
    EFFECTS,
    MATHS,
    OPTIONS,
    ORDERING,
    PRINTING,
    READS,
    TEXTS,
    CaptureEffect,
    Encloses,
    Form,
)
from amplint.knowledge.host_reads import (
    COMPARING,
    COUNTED,
    DATA_DEPENDENT,
    TAKE_NUMBERS,
    takes_size,
)

from .._shared.conditions import may_be_size, others_asked
from .._shared.counts import deciding
from .._shared.formatting import in_percent
from .._shared.reads import last_operand, operand_of_read

MASKS = frozenset({"bool", "uint8"})
OF_COMPILE = frozenset({Encloses.COMPILE, Encloses.PERHAPS_WHOLE})


class EffectOnCapture(NamedTuple):
    """A capture of a place, and the effect of a form on it."""

    captured: Captured
    effect: CaptureEffect


rule = Rule(
    "AMP114",
    __doc__,
    group=Group.PERFORMANCE,
    other_groups=(Group.CORRECTNESS,),
    since="0.1",
    help="decide on the device (`torch.where`), keep the tensor, or read it outside of the graph",
    witness=Unrun(
        "the back ends watch each operation, which prevents a capture",
        "https://docs.pytorch.org/docs/stable/torch.compiler_faq.html",
    ),
    supersedes=("AMP101", "AMP102", "AMP103", "AMP104", "AMP105", "AMP106", "AMP107", "AMP113"),
    cut_from=(
        RuleName("AMP101", "host-read-in-hot-path"),
        RuleName("AMP102", "host-read-in-eval-loop"),
        RuleName("AMP103", "tensor-truth-in-hot-path"),
        RuleName("AMP104", "tensor-formatted-in-hot-path"),
        RuleName("AMP105", "tensor-as-python-number"),
        RuleName("AMP106", "data-dependent-shape-in-hot-path"),
        RuleName("AMP107", "python-builtin-over-tensor"),
    ),
)


@rule.on(calls(*(name if "." in name else f".{name}" for name in READS)) & IN_CAPTURE)
def check_read(call: View) -> Iterator[Finding]:
    """Ex) x.item(), float(x), x.tolist()"""
    form = READS.get(call.callee or "") or READS.get(call.method)
    operand = operand_of_read(call)
    if form is not None and operand is not None:
        met = met_by(operand, form, is_receiver=operand == call.receiver)
        yield from said(call, met, f"`{call.brief}`", "AMP101")


@rule.on(nodes("test") & IN_CAPTURE)
def check_truth(at: View) -> Iterator[Finding]:
    """Ex) if x:, while x:, x of `x and y`, not x"""
    test = last_operand(at)
    met = of_truth(test)
    if met is None or any(of_truth(each) is not None for each in others_asked(test)[0]):
        return  # what has to be changed is the condition as a whole
    if any(isinstance(node, cst.Assert) for node in test.source.ancestors(test.cst)):
        met = met_by(test, Form.ASSERTED)
    yield from said(test, met, f"testing `{test.brief}`", "AMP103")


@rule.on(calls(*COMPARING, *(f".{name[6:]}" for name in COMPARING)) & IN_CAPTURE)
def check_comparison(call: View) -> Iterator[Finding]:
    """Ex) torch.equal(x, y), x.allclose(y)"""
    is_method = call.callee not in COMPARING
    operand = call.receiver if is_method else next(positional(call), None)
    if operand is not None:
        met = met_by(operand, Form.COMPARED, is_receiver=not is_method)
        yield from said(call, met, f"`{call.brief}`", "AMP103")


@rule.on((nodes("fstring", "binop") | calls(*PRINTING, *TEXTS)) & IN_CAPTURE)
def check_text(at: View) -> Iterator[Finding]:
    """Ex) print(x), f"{x}", "%s" % x"""
    form = Form.PRINTED if at.callee in PRINTING else Form.TEXT
    operands = positional(at) if at.op == "call" else formatted(at)
    for operand in operands:
        met = met_by(operand, form)
        if met is not None:
            yield from said(at, met, f"formatting `{operand.brief}`", "AMP104")
            return


@rule.on((nodes("subscript") | calls(*COUNTING, *MATHS, *TAKE_NUMBERS)) & IN_CAPTURE)
def check_number(at: View) -> Iterator[Finding]:
    """Ex) range(n), math.sqrt(x), torch.zeros(n), blocks[n]"""
    for number, form in numbers(at):
        met = met_by(number, form)
        if met is not None:
            yield from said(number, met, f"using `{number.brief}` as a number", "AMP105")
            return


@rule.on((nodes("subscript") | calls(*DATA_DEPENDENT)) & IN_CAPTURE)
def check_shape(at: View) -> Iterator[Finding]:
    """Ex) x[x > 0], mask.nonzero(), F.one_hot(y)"""
    decides = deciding(at) if at.op == "call" else mask_of(at)
    word = COUNTED.get(at.callee or "", "")
    form = Form.CLASSES if word == "num_classes" else Form.SHAPE
    if decides is not None:
        help = f"pass the number as `{word}=`" if word else ""
        met = met_by(decides, form, is_receiver=not word)  # counts may be one integer
        yield from said(at, met, f"the shape of `{at.brief}`", "AMP106", help)


@rule.on(calls(*ORDERING) & IN_CAPTURE)
def check_elements(call: View) -> Iterator[Finding]:
    """Ex) any(x), sorted(x)"""
    operand = next(positional(call), None)
    if operand is not None:
        met = met_by(operand, Form.ELEMENTS)
        yield from said(call, met, f"`{call.brief}`", "AMP107")


def said(
    at: View, met: EffectOnCapture | None, subject: str, former: str, help: str = ""
) -> Iterator[Finding]:
    """The finding that something does to a graph what it is met by."""
    if met is not None:
        raises = met.effect is CaptureEffect.RAISES
        message = f"{subject} {met.effect.value} under `{met.captured.encloses.value}`"
        group = Group.CORRECTNESS if raises else Group.PERFORMANCE
        yield at.finding(message, met.captured.chain, help=help, group=group, former=former)


def met_by(at: View, form: Form, is_receiver: bool = False) -> EffectOnCapture | None:
    """The capture that does not take in how the value of a tensor comes to the host here: first
    one in which that raises.

    Args:
        is_receiver: it is used as only a tensor can be, which says that it is one.
    """
    tensor = at.tensor
    captures = at.ask(Captures) if tensor is not None else None
    if tensor is None or captures is None:
        return None
    certainty = NotGuessed if tensor.device.kind == ACCELERATOR else TensorCertainty
    if not is_receiver and not at.ask(certainty):
        return None
    found = [EffectOnCapture(each, effect_on(at, tensor, form, each.encloses)) for each in captures]
    refused = [met for met in found if met.effect is not CaptureEffect.CAPTURED]
    return min(refused, key=lambda met: met.effect is not CaptureEffect.RAISES, default=None)


def effect_on(at: View, tensor: Tensor, form: Form, encloses: Encloses) -> CaptureEffect:
    """The effect of a form. A tensor on the host can be read while a CUDA graph is made."""
    if encloses is Encloses.CUDA_GRAPH and tensor.device.kind not in (None, ACCELERATOR):
        return CaptureEffect.CAPTURED
    options = (option for option, forms in OPTIONS.items() if form in forms)
    if encloses in OF_COMPILE and any(map(at.mentions, options)):
        return CaptureEffect.CAPTURED
    return EFFECTS[encloses][form]


def of_truth(test: View) -> EffectOnCapture | None:
    """The same for an expression whose truth is asked for; None where it may be a size."""
    met = met_by(test, Form.TRUTH)
    tensor = test.tensor
    return None if met is None or tensor is None or may_be_size(test, tensor) else met


def positional(call: View) -> Iterator[View]:
    return (each for _, keyword, each in call.arguments if keyword is None and each.op != "starred")


def formatted(at: View) -> Iterable[View]:
    return in_percent(at) if at.op == "binop" else at.operands


def numbers(at: View) -> Iterator[tuple[View, Form]]:
    """The tensors without dimensions that stand for a number, with the form of each."""
    if at.op == "subscript":
        container, index = at.operands[:2]
        held, tensor = only(container.value), index.tensor
        if tensor is not None and tensor.rank == 0 and is_integer(tensor):
            if isinstance(held, Tensor):
                yield index, Form.ROW
            elif isinstance(held, Sequence):
                yield index, Form.INDEX
        return
    name = at.callee or ""
    for position, keyword, given in at.arguments:
        for each in given.operands if given.op in ("tuple", "list") else (given,):
            tensor = each.tensor
            if tensor is None or tensor.rank == 1:
                continue
            if name in MATHS:
                yield each, Form.MATH
            elif is_integer(tensor) and name in COUNTING:
                yield each, Form.COUNT
            elif is_integer(tensor) and takes_size(name, position, keyword):
                yield each, Form.SIZE


def is_integer(tensor: Tensor) -> bool:
    return tensor.dtype not in FLOATS and tensor.dtype not in MASKS


def mask_of(at: View) -> View | None:
    """The mask in the index of a tensor: x[x > 0], x[mask, 0]"""
    container, index = at.operands[:2]
    parts = index.operands if index.op == "tuple" else (index,)
    if not isinstance(only(container.value), Tensor | TensorTree):
        return None
    return next((p for p in parts if p.tensor is not None and p.tensor.dtype in MASKS), None)
