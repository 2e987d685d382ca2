"""A tensor on the device is turned into text in every iteration of a training loop.

`print(loss)`, an f-string, `"%s" % loss`, `logger.info("%s", loss)` and `set_postfix(loss=loss)`
copy the tensor to the host to format it, and so wait for the device.

    for step, batch in enumerate(loader):
        loss = train_step(batch)
        print(f"loss {loss}")             # waits at every step

    for step, batch in enumerate(loader):
        loss = train_step(batch)
        if step % 50 == 0:
            print(f"loss {loss}")         # waits now and then

Fix safety: none is offered; which steps to report is for the author to choose.

Known limits: as for AMP101. A logger is recognised by where it comes from (`logging`, a module's
`logger`), or by its method's name together with a constant text as first argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from amplint import (
    HOT,
    Finding,
    Group,
    Host,
    Method,
    Object,
    Rule,
    Spot,
    Syncs,
    calls,
    nodes,
    only,
)
from amplint import libcst as cst

from .._shared.reads import hot_evidence, presumed_tensor, tensor_of_training

if TYPE_CHECKING:
    from amplint import Source

FORMATTING_BUILTINS = frozenset(
    {"builtins.print", "builtins.str", "builtins.repr", "builtins.format"}
)
# A warning is there for what should not happen.
RARE = frozenset({"warnings.warn"})
# Not `debug`: it formats only where somebody has switched debugging on.
LOG_METHODS = frozenset({"info", "warning", "warn", "error", "critical", "exception"})
POSTFIX_METHODS = frozenset({"set_postfix", "set_postfix_str", "set_description"})
LOGGING = frozenset(f"logging.{name}" for name in (*LOG_METHODS, "debug", "fatal", "log"))
FORMATTING_METHODS = frozenset(f".{name}" for name in (*LOG_METHODS, *POSTFIX_METHODS, "format"))


def formats(at: Spot) -> bool:
    """Whether a tensor on the device may be turned into text."""
    return any(
        presumed_tensor(at, part) is not None
        for operand in at.node.operands
        for part in (operand, *parts_of(at, operand))
    )


def parts_of(at: Spot, number: int) -> tuple[int, ...]:
    """Ex) what dict(loss=loss) is made of"""
    node = at.graph.nodes[number]
    return node.operands if node.op in ("dict", "tuple", "call") else ()


rule = Rule(
    "AMP104",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="format it every N steps, not in each",
    witness=Syncs(before=4, after=1),
    candidates=(
        nodes("fstring") & formats
        | calls(*FORMATTING_BUILTINS, *LOGGING, *FORMATTING_METHODS) & formats
        | nodes("binop") & (lambda at: at.node.data == "Mod" and formats(at))
    )
    & HOT,
)


@rule.check
def check_fstring(node: cst.FormattedString, src: Source) -> Iterator[Finding]:
    if any(isinstance(a, cst.Call) and src.name(a.func) in RARE for a in src.ancestors(node)):
        return
    parts = [p.expression for p in node.parts if isinstance(p, cst.FormattedStringExpression)]
    yield from formatted(node, parts, src)


@rule.check
def check_call(call: cst.Call, src: Source) -> Iterator[Finding]:
    operands = formatted_operands(call, src)
    yield from formatted(call, operands, src)


@rule.check
def check_percent(node: cst.BinaryOperation, src: Source) -> Iterator[Finding]:
    """Ex) "%s" % loss, "%d: %s" % (step, loss), "%g " * 2 % (loss, norm)"""
    text: cst.BaseExpression = node.left
    if isinstance(text, cst.BinaryOperation) and isinstance(text.operator, cst.Multiply):
        text = text.left
    if isinstance(node.operator, cst.Modulo) and is_text(text, src):
        right = node.right
        elements = right.elements if isinstance(right, cst.Tuple) else None
        operands = [e.value for e in elements] if elements is not None else [right]
        yield from formatted(node, operands, src)


def formatted(
    node: cst.BaseExpression, operands: Sequence[cst.BaseExpression], src: Source
) -> Iterator[Finding]:
    """One finding for the first of the operands that is a tensor on the device."""
    for operand in operands:
        evidence = hot_evidence(operand, tensor_of_training(operand, src), src)
        if evidence is not None:
            message = f"formatting `{src.brief(operand)}` waits for the device in every iteration"
            yield src.finding(rule, node, message, None, evidence)
            return


def formatted_operands(call: cst.Call, src: Source) -> list[cst.BaseExpression]:
    """The arguments that the call turns into text."""
    arguments = [arg.value for arg in call.args if not arg.star]
    name = src.name(call.func)
    if name in FORMATTING_BUILTINS:
        return arguments
    if not isinstance(call.func, cst.Attribute):
        return arguments if name is not None and name.startswith("logging.") else []
    method = call.func.attr.value
    if method in POSTFIX_METHODS:
        # `postfix(dict(loss=loss))` holds the tensors one level down.
        return [inner for value in arguments for inner in dict_values(value)]
    receiver = only(src.value(call.func.value))
    if method == "format" and isinstance(receiver, Host) and receiver.kind == "str":
        return arguments
    if name is not None and name.startswith("logging."):
        return arguments if method in LOG_METHODS else []
    if method in LOG_METHODS and call.args and is_text(call.args[0].value, src):
        return arguments[1:] if not isinstance(receiver, Method | Object) else []
    return []


def is_text(node: cst.BaseExpression, src: Source) -> bool:
    atom = only(src.value(node))
    return isinstance(atom, Host) and atom.kind == "str"


def dict_values(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(node, cst.Dict):
        return [e.value for e in node.elements if isinstance(e, cst.DictElement)]
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "dict":
        return [arg.value for arg in node.args if not arg.star]
    return [node]
