"""The operations of value graphs.

For each, in a comment: its operands, and what `Node.data` holds.
"""

from __future__ import annotations

from enum import Enum


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
    # (key, value) or, of `{**d for d in e}`, (mapping,); (key, value, mapping) where these are the
    # pairs of a mapping: `{k: v for k, v in mapping.items() if test}`
    DICTCOMP = "dictcomp"
    PUT = "put"  # (container, index, value): the container after `container[index] = value`
    # (container, value): the container after `append(value)`; the name of the method. Likewise
    # (loader, function) after `loader.collate_fn = function`
    ADD = "add"
    STORE = "store"  # (object, value): `object.data = value`
    NARROW = "narrow"  # (operand, *classes): "none", "tensor", "isinstance", "on cuda", "dtype" ...
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


# What conditions of rules may be about that is no node of its own (`amplint.view.spot`).
NO_NODES = frozenset({"function", "test", "context"})
NAMES = frozenset(op.value for op in Op) | NO_NODES
