"""The operations of value graphs: their operands, and what `Node.data` holds for each.

Code names them by the constants, `ops.CALL`, which mypy knows: before Python 3.12, a member of an
enum takes four times as long to look up as a name of a module.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class Op(str, Enum):
    CONST = "const"  # the constant
    PARAM = "param"  # the parameter's name; operands: its annotation, if any
    NAME = "name"  # a name bound outside this function
    IMPORT = "import"  # (module or None, name or None, level); name None binds the module itself
    ATTR = "attr"  # (object): the attribute's name
    CALL = "call"  # (callee, *positional, *keywords): a `CallShape`
    SUBSCRIPT = "subscript"  # (object, index)
    SLICE = "slice"  # (lower, upper, step)
    BINOP = "binop"  # (left, right): the name of the `ast` operator class
    UNARY = "unary"  # (operand): likewise
    AUG = "aug"  # (target, value): likewise, of `x += y`
    COMPARE = "compare"  # (left, *comparators): the names of the operator classes
    BOOL = "bool"  # (*operands): "And" or "Or"
    TUPLE = "tuple"  # (*elements)
    LIST = "list"  # (*elements)
    SET = "set"  # (*elements)
    DICT = "dict"  # (*values): the constant keys or None
    STARRED = "starred"  # (operand)
    FSTRING = "fstring"  # (*values): the text before the first value
    PHI = "phi"  # (*alternatives)
    ITER = "iter"  # (iterable): one element of what is iterated
    UNPACK = "unpack"  # (sequence): (index, number of targets, whether one is starred)
    ENTER = "enter"  # (context): what `with context as ...` binds
    COMP = "comp"  # (element): "list", "set", "generator"
    DICTCOMP = "dictcomp"  # (key, value) or, of `{**d for d in e}`, (mapping,)
    PUT = "put"  # (container, index, value): the container after `container[index] = value`
    # (container, value): the container after `append(value)`; the name of the method. Likewise
    # (loader, function) after `loader.collate_fn = function`
    ADD = "add"
    STORE = "store"  # (object, value): `object.data = value`
    NARROW = "narrow"  # (operand, *classes): "none", "true", "tensor", "isinstance", "on cuda" ...
    DEF = "def"  # (*decorators): the id of what is defined
    CLASS = "class"  # (*bases and decorators): likewise
    LAMBDA = "lambda"  # likewise
    DEFAULT = "default"  # (value): the id of a function and the name of its parameter
    ASSERT = "assert"  # (test)
    ANNOTATION = "annotation"  # (operand): of a variable, where nothing is bound to it by this
    AWAIT = "await"  # (operand)
    YIELD = "yield"  # (operand)
    RETURN = "return"  # (operand)
    RAISE = "raise"
    BREAK = "break"
    CONTINUE = "continue"
    UNBOUND = "unbound"  # the name of a variable that was deleted
    OPAQUE = "opaque"  # what nothing is known of


CONST: Final = Op.CONST
PARAM: Final = Op.PARAM
NAME: Final = Op.NAME
IMPORT: Final = Op.IMPORT
ATTR: Final = Op.ATTR
CALL: Final = Op.CALL
SUBSCRIPT: Final = Op.SUBSCRIPT
SLICE: Final = Op.SLICE
BINOP: Final = Op.BINOP
UNARY: Final = Op.UNARY
AUG: Final = Op.AUG
COMPARE: Final = Op.COMPARE
BOOL: Final = Op.BOOL
TUPLE: Final = Op.TUPLE
LIST: Final = Op.LIST
SET: Final = Op.SET
DICT: Final = Op.DICT
STARRED: Final = Op.STARRED
FSTRING: Final = Op.FSTRING
PHI: Final = Op.PHI
ITER: Final = Op.ITER
UNPACK: Final = Op.UNPACK
ENTER: Final = Op.ENTER
COMP: Final = Op.COMP
DICTCOMP: Final = Op.DICTCOMP
PUT: Final = Op.PUT
ADD: Final = Op.ADD
STORE: Final = Op.STORE
NARROW: Final = Op.NARROW
DEF: Final = Op.DEF
CLASS: Final = Op.CLASS
LAMBDA: Final = Op.LAMBDA
DEFAULT: Final = Op.DEFAULT
ASSERT: Final = Op.ASSERT
ANNOTATION: Final = Op.ANNOTATION
AWAIT: Final = Op.AWAIT
YIELD: Final = Op.YIELD
RETURN: Final = Op.RETURN
RAISE: Final = Op.RAISE
BREAK: Final = Op.BREAK
CONTINUE: Final = Op.CONTINUE
UNBOUND: Final = Op.UNBOUND
OPAQUE: Final = Op.OPAQUE
