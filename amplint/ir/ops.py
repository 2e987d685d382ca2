"""The operations of value graphs (`amplint.ir.operations`) by constants.

Code names them by these, `ops.CALL`, which mypy knows: before Python 3.12, a member of an enum
takes four times as long to look up as a name of a module.
"""

from __future__ import annotations

from typing import Final

from amplint.ir.operations import Op

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
