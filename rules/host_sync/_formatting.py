"""Tensors that are turned into text: by `%`, `print`, `str`, loggers and progress bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from amplint import Host, Method, Object, only

if TYPE_CHECKING:
    from amplint import View

FORMATTING_BUILTINS = frozenset(
    {"builtins.print", "builtins.str", "builtins.repr", "builtins.format"}
)
# Not `debug`: it formats only where somebody has switched debugging on.
LOG_METHODS = frozenset({"info", "warning", "warn", "error", "critical", "exception"})
POSTFIX_METHODS = frozenset({"set_postfix", "set_postfix_str", "set_description"})
LOGGING = frozenset(f"logging.{name}" for name in (*LOG_METHODS, "debug", "fatal", "log"))
FORMATTING_METHODS = frozenset(f".{name}" for name in (*LOG_METHODS, *POSTFIX_METHODS, "format"))


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
    arguments = [
        each for _, keyword, each in call.arguments if keyword != "**" and each.op != "starred"
    ]
    name, method = call.callee or "", call.method
    if name in FORMATTING_BUILTINS:
        return arguments
    if call.receiver is None:
        return arguments if name.startswith("logging.") else ()
    if method in POSTFIX_METHODS:
        # `postfix(dict(loss=loss))` holds the tensors one level down.
        return [inner for argument in arguments for inner in _dict_values(argument)]
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


def _dict_values(at: View) -> Sequence[View]:
    if at.op == "dict":
        return at.operands
    if at.callee == "builtins.dict":
        return [each for _, keyword, each in at.arguments if keyword != "**"]
    return [at]
