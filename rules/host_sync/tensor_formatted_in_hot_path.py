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

from amplint import HOT, Finding, Group, Host, Method, Object, Rule, Syncs, View, calls, nodes, only
from amplint import libcst as cst

from .._shared.reads import hot_tensor, read_of_training

if TYPE_CHECKING:
    from .._shared.reads import Reasons

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


rule = Rule(
    "AMP104",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="format it every N steps, not in each",
    witness=Syncs(before=4, after=1),
)


@rule.on(nodes("fstring") & HOT)
def check_fstring(at: View) -> Iterator[Finding]:
    """One finding for each of the strings that are written one after the other."""
    reported: list[cst.CSTNode | None] = []
    for operand, reasons in reads(at.operands):
        if is_rare(at):
            return
        string = at.source.layout.innermost(operand.cst, (cst.FormattedString,))
        if string not in reported:
            reported.append(string)
            yield at.finding(told(operand), reasons, place=string)


@rule.on((calls(*FORMATTING_BUILTINS, *LOGGING, *FORMATTING_METHODS) | nodes("binop")) & HOT)
def check(at: View) -> Iterator[Finding]:
    """One finding for the first of the operands that is a tensor on the device."""
    for operand, reasons in reads(in_percent(at) if at.op == "binop" else in_call(at)):
        yield at.finding(told(operand), reasons)
        return


def reads(operands: Sequence[View]) -> Iterator[tuple[View, Reasons]]:
    """Those of the operands that are tensors on the device, and why the host waits for them."""
    for operand in operands:
        reasons = read_of_training(operand, hot_tensor(operand))
        if reasons is not None:
            yield operand, reasons


def told(operand: View) -> str:
    return f"formatting `{operand.brief}` waits for the device in every iteration"


def is_rare(at: View) -> bool:
    return any(at.of(around).callee in RARE for around in at.source.ancestors(at.cst))


def in_percent(at: View) -> Sequence[View]:
    """Ex) "%s" % loss, "%d: %s" % (step, loss), "%g " * 2 % (loss, norm)"""
    if at.operator != "Mod":
        return ()
    left, right = at.operands
    text = left.operands[0] if left.op == "binop" and left.operator == "Mult" else left
    if not is_text(text):
        return ()
    return right.operands if right.op == "tuple" else (right,)


def in_call(call: View) -> Sequence[View]:
    """The arguments that the call turns into text."""
    given = call.arguments
    arguments = [each for _, keyword, each in given if keyword != "**" and each.op != "starred"]
    name, method = call.callee or "", call.method
    if name in FORMATTING_BUILTINS:
        return arguments
    if call.receiver is None:
        return arguments if name.startswith("logging.") else ()
    if method in POSTFIX_METHODS:
        # `postfix(dict(loss=loss))` holds the tensors one level down.
        return [inner for argument in arguments for inner in dict_values(argument)]
    receiver = only(call.receiver.value)
    if method == "format" and isinstance(receiver, Host) and receiver.kind == "str":
        return arguments
    if name.startswith("logging."):
        return arguments if method in LOG_METHODS else ()
    if method in LOG_METHODS and arguments and is_text(arguments[0]):
        return arguments[1:] if not isinstance(receiver, Method | Object) else ()
    return ()


def is_text(at: View) -> bool:
    atom = only(at.value)
    return isinstance(atom, Host) and atom.kind == "str"


def dict_values(at: View) -> Sequence[View]:
    if at.op == "dict":
        return at.operands
    if at.callee == "builtins.dict":
        return [each for _, keyword, each in at.arguments if keyword != "**"]
    return [at]
