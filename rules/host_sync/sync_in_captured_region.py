"""A tensor is read or tested on the host in code that is captured as a graph.

`torch.compile` records the operations on tensors, and sees no values. Reading a value breaks the
graph: the code after it goes into another graph, and the host waits in between, in each call. With
`fullgraph=True`, `.tolist()` and a test raise instead.

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
`.item()`, `float()`, masks and `nonzero`. A tensor on the CPU breaks a graph too.

The function may be compiled in another file, and the read may be in a function that it calls; the
finding shows the calls as related places. Code that runs rarely, that `torch.compiler.disable`
excludes, or that is under a test such as `torch.compiler.is_compiling()` is not reported.

A test that raises is a correctness finding; a graph break only costs time. Under
`torch.export.export` a test raises; in a CUDA graph (`torch.cuda.graph`,
`torch.cuda.make_graphed_callables`) whatever waits raises.

Fix safety: none is offered. The decision has to move to the device, or the value has to be read
after the compiled function has returned.

Known limits: only code that is visibly captured is checked, and only calls of a single function.
`model.compile()`, `print(t)` and `range(t)` are not followed. `.item()` and the other numbers are
not reported if the project mentions `capture_scalar_outputs`, and masks are not if it mentions
`capture_dynamic_output_shape_ops`.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    ACCELERATOR,
    Finding,
    Group,
    NotGuessed,
    Rule,
    RuleName,
    TensorCertainty,
    Unrun,
    View,
    calls,
    nodes,
)
from amplint import libcst as cst
from amplint.knowledge.captures import COMPILER, CUDA_GRAPH, EXPORTER, GRAPHER, SCALARS, SHAPES
from amplint.knowledge.host_reads import COUNTED, DATA_DEPENDENT

from .._shared.reads import operand_of_read
from ._captures import Captures, in_capture
from ._conditions import last_operand, may_be_size, others_asked
from ._counts import deciding, mask_of

rule = Rule(
    "AMP114",
    __doc__,
    group=Group.PERFORMANCE,
    other_groups=(Group.CORRECTNESS,),
    help="decide on the device (`torch.where`), keep the tensor, or read it outside of the graph",
    witness=Unrun(
        "the back ends watch each operation, which prevents a capture",
        "https://docs.pytorch.org/docs/stable/torch.compiler_faq.html",
    ),
    supersedes=("AMP101", "AMP102", "AMP103", "AMP106", "AMP113"),
    cut_from=(
        RuleName("AMP101", "host-read-in-hot-path"),
        RuleName("AMP102", "host-read-in-eval-loop"),
        RuleName("AMP103", "tensor-truth-in-hot-path"),
        RuleName("AMP106", "data-dependent-shape-in-hot-path"),
    ),
)


@rule.on(calls(".item", ".tolist", "builtins.float", "builtins.int") & in_capture)
def check_read(call: View) -> Iterator[Finding]:
    """Ex) x.item(), float(x), x.tolist()"""
    operand = operand_of_read(call)
    if operand is not None and (operand == call.receiver or is_certain(operand)):
        option = "" if call.method == "tolist" else SCALARS
        yield from findings(call, operand, f"`{call.brief}`", "AMP101", option)


@rule.on(calls(".cpu", ".numpy") & in_capture)
def check_copy(call: View) -> Iterator[Finding]:
    """Ex) x.cpu(), which a CUDA graph alone refuses"""
    captured, operand = call.ask(Captures), operand_of_read(call)
    if captured is not None and captured.by in (CUDA_GRAPH, GRAPHER) and operand is not None:
        yield from findings(call, operand, f"`{call.brief}`", "AMP101")


@rule.on(nodes("test") & in_capture)
def check_truth(at: View) -> Iterator[Finding]:
    """Ex) if x:, while x:, x of `x and y`, not x"""
    test = last_operand(at)
    if not is_truth(test) or any(map(is_truth, others_asked(test)[0])):
        return  # what has to be changed is the condition as a whole
    if not any(isinstance(node, cst.Assert) for node in test.source.ancestors(test.cst)):
        yield from findings(test, test, f"testing `{test.brief}`", "AMP103")


@rule.on((nodes("subscript") | calls(*DATA_DEPENDENT)) & in_capture)
def check_shape(at: View) -> Iterator[Finding]:
    """Ex) x[x > 0], mask.nonzero(), F.one_hot(y)"""
    decides = deciding(at) if at.op == "call" else mask_of(at)
    if decides is not None and (at.callee not in COUNTED or is_certain(decides)):
        yield from findings(at, decides, f"the shape of `{at.brief}`", "AMP106", SHAPES)


def findings(
    at: View, tensor: View, subject: str, former: str, option: str = ""
) -> Iterator[Finding]:
    """The finding that a place breaks the graph, or raises.

    Args:
        option: with which it is captured, as it is with `fullgraph=True`.
    """
    captured = at.ask(Captures) if tensor.tensor is not None else None
    if captured is None:
        return
    by_cuda = captured.by in (CUDA_GRAPH, GRAPHER)
    if option and not by_cuda and (captured.is_whole is not False or at.mentions(option)):
        return
    if captured.by == EXPORTER and former != "AMP103":
        return  # it depends on its options, which of the others it takes
    group = Group.CORRECTNESS
    if captured.by != COMPILER:
        effect = f"raises under `{CUDA_GRAPH if by_cuda else captured.by}`"
    elif captured.is_whole:
        effect = "raises under `torch.compile(fullgraph=True)`"
    else:
        effect, group = "breaks the graph under `torch.compile`", Group.PERFORMANCE
    yield at.finding(f"{subject} {effect}", captured.chain, group=group, former=former)


def is_certain(at: View) -> bool:
    """Whether an expression is a tensor by more than a guess."""
    tensor = at.tensor
    on_device = tensor is not None and tensor.device.kind == ACCELERATOR
    return bool(at.ask(NotGuessed if on_device else TensorCertainty))


def is_truth(test: View) -> bool:
    """Whether a tensor is tested, and not a size."""
    tensor = test.tensor
    return tensor is not None and is_certain(test) and not may_be_size(test, tensor)
