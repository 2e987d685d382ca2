"""The words of `--module` and `--input`: a module, and random tensors that it is called with."""

from __future__ import annotations

import ast
import re
from typing import Any, NamedTuple

FLOATS = ("float16", "bfloat16", "float32", "float64")
DTYPES = (*FLOATS, "uint8", "int8", "int16", "int32", "int64", "bool")
KEYWORD = re.compile(r"([^\W\d]\w*)=(?!=)")
TENSOR = re.compile(rf"({'|'.join(DTYPES)})\[([\d, ]*)\](?:<(\d+))?")
BOUND = "2"  # of integers: such an index is in range nearly everywhere


class TensorForm(NamedTuple):
    """A tensor to be filled with random values; integers are below the bound."""

    dtype: str
    shape: tuple[int, ...]
    bound: int


def call_of(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """The name in "package.module:Net(3, width=8)", and the arguments. Raises ValueError."""
    name, parenthesis, rest = text.partition("(")
    if not parenthesis:
        return name, [], {}
    try:
        call = ast.parse(f"f({rest}", mode="eval").body
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            pairs = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
            return name, [ast.literal_eval(each) for each in call.args], pairs
    except (SyntaxError, ValueError):
        pass
    raise ValueError(f"the arguments in {text!r} are not literals of Python")


def input_of(text: str) -> tuple[str, Any]:
    """The keyword of an input, or "", and its value. Raises ValueError.

    Ex) of mask=bool[2,16], whose value is a `TensorForm`; of scale=2.0, whose value is 2.0
    """
    named = KEYWORD.match(text)
    keyword = named[1] if named else ""
    value = text[named.end() :] if named else text
    form = TENSOR.fullmatch(value)
    try:
        if form is None:
            return keyword, ast.literal_eval(value)
        sizes = tuple(int(size) for size in form[2].split(",") if size.strip())
        return keyword, TensorForm(form[1], sizes, int(form[3] or BOUND))
    except (SyntaxError, ValueError) as error:
        forms = "a tensor, such as float32[2,3] or int64[2,16]<100, nor a literal of Python"
        raise ValueError(f"the input {text!r} is neither {forms}") from error
