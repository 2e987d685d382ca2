"""The operations of value graphs.

For each, in a comment: its operands, and what `Node.data` holds. Code names them by these
constants, `ops.CALL`, of which mypy knows when one is misspelt.
"""

from __future__ import annotations

from typing import Final, NewType

Op = NewType("Op", str)

CONST: Final = Op("const")  # the constant
PARAM: Final = Op("param")  # the parameter's name; operands: its annotation, if any
NAME: Final = Op("name")  # a name bound outside this function
# (module or None, name or None, level); name None binds the module itself
IMPORT: Final = Op("import")
ATTR: Final = Op("attr")  # (object): the attribute's name
CALL: Final = Op("call")  # (callee, *positional, *keywords): a `CallShape`
SUBSCRIPT: Final = Op("subscript")  # (object, index)
SLICE: Final = Op("slice")  # (lower, upper, step)
BINOP: Final = Op("binop")  # (left, right): the name of the `ast` operator class
UNARY: Final = Op("unary")  # (operand): likewise
AUG: Final = Op("aug")  # (target, value): likewise, of `x += y`
COMPARE: Final = Op("compare")  # (left, *comparators): the names of the operator classes
BOOL: Final = Op("bool")  # (*operands): "And" or "Or"
TUPLE: Final = Op("tuple")  # (*elements)
LIST: Final = Op("list")  # (*elements)
SET: Final = Op("set")  # (*elements)
DICT: Final = Op("dict")  # (*values): the constant keys or None
STARRED: Final = Op("starred")  # (operand)
FSTRING: Final = Op("fstring")  # (*values): the text before the first value
PHI: Final = Op("phi")  # (*alternatives)
ITER: Final = Op("iter")  # (iterable): one element of what is iterated
UNPACK: Final = Op("unpack")  # (sequence): (index, number of targets, whether one is starred)
ENTER: Final = Op("enter")  # (context): what `with context as ...` binds
COMP: Final = Op("comp")  # (element): "list", "set", "generator"
# (key, value) or, of `{**d for d in e}`, (mapping,); (key, value, mapping) where these are the
# pairs of a mapping: `{k: v for k, v in mapping.items() if test}`
DICTCOMP: Final = Op("dictcomp")
PUT: Final = Op("put")  # (container, index, value): the container after `container[index] = value`
# (container, value): the container after `append(value)`; the name of the method. Likewise
# (loader, function) after `loader.collate_fn = function`
ADD: Final = Op("add")
STORE: Final = Op("store")  # (object, value): `object.data = value`
# (operand, *classes): "none", "tensor", "isinstance", "on cuda", "dtype" ...
NARROW: Final = Op("narrow")
DEF: Final = Op("def")  # (*decorators): the id of what is defined
CLASS: Final = Op("class")  # (*bases and decorators): likewise
LAMBDA: Final = Op("lambda")  # likewise
DEFAULT: Final = Op("default")  # (value): the id of a function and the name of its parameter
ASSERT: Final = Op("assert")  # (test)
# (operand): of a variable, where nothing is bound to it by this
ANNOTATION: Final = Op("annotation")
AWAIT: Final = Op("await")  # (operand)
YIELD: Final = Op("yield")  # (operand)
RETURN: Final = Op("return")  # (operand)
RAISE: Final = Op("raise")
BREAK: Final = Op("break")
CONTINUE: Final = Op("continue")
UNBOUND: Final = Op("unbound")  # the name of a variable that was deleted
OPAQUE: Final = Op("opaque")  # what nothing is known of

OPERATIONS: Final = tuple(Op(value) for name, value in [*globals().items()] if name.isupper())
# What conditions of rules may be about that is no node of its own (`amplint.view.evaluated_node`).
NO_NODES = frozenset({"function", "test", "context"})
NAMES = frozenset(OPERATIONS) | NO_NODES
