"""Walk LibCST's and the standard library's trees in source order, and pair their nodes.

Neither tree lists its fields in source order, hence the tables. The n-th node of a kind in one is
then the n-th of that kind in the other; counts, names and numbers of arguments are checked.
"""

from __future__ import annotations

import ast
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import libcst as cst

# The children of LibCST's nodes that are expressions, statements or hold some, in source order.
# Names that are no expressions (attributes, keywords, parameters, imports) are left out.
_FIELDS: Mapping[type[cst.CSTNode], str] = {
    cst.AnnAssign: "target annotation value",
    cst.Annotation: "annotation",
    cst.Arg: "value",
    cst.AsName: "name",
    cst.Assert: "test msg",
    cst.Assign: "targets value",
    cst.AssignTarget: "target",
    cst.Attribute: "value",
    cst.AugAssign: "target value",
    cst.Await: "expression",
    cst.BinaryOperation: "left right",
    cst.BooleanOperation: "left right",
    cst.Call: "func args",
    cst.ClassDef: "decorators type_parameters bases keywords body",
    cst.CompFor: "target iter ifs inner_for_in",
    cst.CompIf: "test",
    cst.Comparison: "left comparisons",
    cst.ComparisonTarget: "comparator",
    cst.ConcatenatedString: "left right",
    cst.Decorator: "decorator",
    cst.Del: "target",
    cst.Dict: "elements",
    cst.DictComp: "key value for_in",
    cst.DictElement: "key value",
    cst.Element: "value",
    cst.Else: "body",
    cst.ExceptHandler: "type body",
    cst.ExceptStarHandler: "type body",
    cst.Expr: "value",
    cst.Finally: "body",
    cst.For: "target iter body orelse",
    cst.FormattedString: "parts",
    cst.FormattedStringExpression: "expression format_spec",
    cst.From: "item",
    cst.FunctionDef: "decorators type_parameters params returns body",
    cst.GeneratorExp: "elt for_in",
    cst.If: "test body orelse",
    cst.IfExp: "body test orelse",
    cst.Import: "names",
    cst.ImportFrom: "names",
    cst.IndentedBlock: "body",
    cst.Index: "value",
    cst.Lambda: "params body",
    cst.List: "elements",
    cst.ListComp: "elt for_in",
    cst.Match: "subject cases",
    cst.MatchAs: "pattern",
    cst.MatchCase: "pattern guard body",
    cst.MatchClass: "cls patterns kwds",
    cst.MatchKeywordElement: "pattern",
    cst.MatchList: "patterns",
    cst.MatchMapping: "elements",
    cst.MatchMappingElement: "key pattern",
    cst.MatchOr: "patterns",
    cst.MatchOrElement: "pattern",
    cst.MatchSequenceElement: "value",
    cst.MatchTuple: "patterns",
    cst.MatchValue: "value",
    cst.NamedExpr: "target value",
    cst.Param: "annotation default",
    cst.Parameters: "posonly_params params star_arg kwonly_params star_kwarg",
    cst.Raise: "exc cause",
    cst.Return: "value",
    cst.Set: "elements",
    cst.SetComp: "elt for_in",
    cst.SimpleStatementLine: "body",
    cst.SimpleStatementSuite: "body",
    cst.Slice: "lower upper step",
    cst.StarredDictElement: "value",
    cst.StarredElement: "value",
    cst.Subscript: "value slice",
    cst.SubscriptElement: "slice",
    cst.Try: "body handlers orelse finalbody",
    cst.TryStar: "body handlers orelse finalbody",
    cst.Tuple: "elements",
    cst.TypeAlias: "name type_parameters value",
    cst.TypeParam: "param default",
    cst.TypeParameters: "params",
    cst.TypeVar: "bound",
    cst.UnaryOperation: "expression",
    cst.While: "test body orelse",
    cst.With: "items body",
    cst.WithItem: "item asname",
    cst.Yield: "value",
}
# Kinds that came with later versions of LibCST than the oldest supported one.
_NEWER_FIELDS = {
    "LazyImport": "names",
    "LazyImportFrom": "names",
    "StarredDictComp": "value for_in",
    "TemplatedString": "parts",
    "TemplatedStringExpression": "expression format_spec",
}
FIELDS: Mapping[type[cst.CSTNode], tuple[str, ...]] = {
    kind: tuple(fields.split())
    for kind, fields in [
        *_FIELDS.items(),
        *((getattr(cst, kind, cst.CSTNode), fields) for kind, fields in _NEWER_FIELDS.items()),
    ]
}
_REVERSED = {kind: fields[::-1] for kind, fields in FIELDS.items()}

# Which kind of LibCST node stands for a kind of `ast` node. Left out are constants, and those that
# the two trees nest or count differently: tuples, boolean operations, strings.
KINDS: Mapping[type[ast.AST], type[cst.CSTNode]] = {
    ast.AnnAssign: cst.AnnAssign,
    ast.Assert: cst.Assert,
    ast.Assign: cst.Assign,
    ast.AsyncFor: cst.For,
    ast.AsyncFunctionDef: cst.FunctionDef,
    ast.AsyncWith: cst.With,
    ast.Attribute: cst.Attribute,
    ast.AugAssign: cst.AugAssign,
    ast.Await: cst.Await,
    ast.BinOp: cst.BinaryOperation,
    ast.Break: cst.Break,
    ast.Call: cst.Call,
    ast.ClassDef: cst.ClassDef,
    ast.Compare: cst.Comparison,
    ast.Continue: cst.Continue,
    ast.Delete: cst.Del,
    ast.Dict: cst.Dict,
    ast.DictComp: cst.DictComp,
    ast.Expr: cst.Expr,
    ast.For: cst.For,
    ast.FunctionDef: cst.FunctionDef,
    ast.GeneratorExp: cst.GeneratorExp,
    ast.Global: cst.Global,
    ast.If: cst.If,
    ast.IfExp: cst.IfExp,
    ast.Import: cst.Import,
    ast.ImportFrom: cst.ImportFrom,
    ast.Lambda: cst.Lambda,
    ast.List: cst.List,
    ast.ListComp: cst.ListComp,
    ast.Match: cst.Match,
    ast.Name: cst.Name,
    ast.NamedExpr: cst.NamedExpr,
    ast.Nonlocal: cst.Nonlocal,
    ast.Pass: cst.Pass,
    ast.Raise: cst.Raise,
    ast.Return: cst.Return,
    ast.Set: cst.Set,
    ast.SetComp: cst.SetComp,
    ast.Subscript: cst.Subscript,
    ast.Try: cst.Try,
    ast.UnaryOp: cst.UnaryOperation,
    ast.While: cst.While,
    ast.With: cst.With,
    ast.Yield: cst.Yield,
    ast.YieldFrom: cst.Yield,
    **({ast.TryStar: cst.TryStar} if hasattr(ast, "TryStar") else {}),
    **({ast.TypeAlias: cst.TypeAlias} if hasattr(ast, "TypeAlias") else {}),
}
# What later versions of Python have with the same kind of `ast` node, and LibCST with another.
_LAZY = {
    ast.Import: getattr(cst, "LazyImport", cst.Import),
    ast.ImportFrom: getattr(cst, "LazyImportFrom", cst.ImportFrom),
}
_STARRED_DICT_COMP = getattr(cst, "StarredDictComp", cst.DictComp)
_PAIRED = frozenset((*KINDS.values(), *_LAZY.values(), _STARRED_DICT_COMP))
_CONSTANT_NAMES = frozenset({"True", "False", "None"})


def walk(
    roots: Iterable[cst.CSTNode], header: bool = False
) -> tuple[list[cst.CSTNode], dict[int, cst.CSTNode]]:
    """The nodes from the roots down, in source order, and each one's parent by its `id`.

    With `header`, the bodies of the roots are left out.
    """
    nodes: list[cst.CSTNode] = []
    parents: dict[int, cst.CSTNode] = {}
    stack = list(roots)[::-1]
    top = {id(node) for node in stack} if header else set()
    while stack:
        node = stack.pop()
        nodes.append(node)
        for field in _REVERSED.get(type(node), ()):
            if field == "body" and id(node) in top:
                continue
            child = getattr(node, field)
            if isinstance(child, cst.CSTNode):
                parents[id(child)] = node
                stack.append(child)
            elif isinstance(child, (tuple, list)):
                for item in child:
                    parents[id(item)] = node
                stack.extend(reversed(child))
    return nodes, parents


def ast_nodes(roots: Sequence[ast.AST], header: bool = False) -> list[ast.AST]:
    """The nodes of `ast` from the roots down, in source order.

    Positions are hardly looked at: before Python 3.12 they are wrong inside of f-strings.
    """
    nodes: list[ast.AST] = []
    stack = list(roots)[::-1]
    if header:
        nodes.append(stack.pop())
        stack.extend(reversed(_class_header(nodes[0])))
    while stack:
        node = stack.pop()
        nodes.append(node)
        special = _SPECIAL.get(type(node))
        if special is not None:
            stack.extend(reversed(special(node)))
            continue
        for field in _AST_FIELDS[type(node)]:
            child = getattr(node, field, None)
            if isinstance(child, ast.AST):
                stack.append(child)
            elif isinstance(child, list):
                stack.extend(item for item in reversed(child) if isinstance(item, ast.AST))
    return nodes


def pair_by_order(
    nodes: Sequence[cst.CSTNode], things: Sequence[ast.AST]
) -> dict[int, ast.AST] | None:
    """By the `id` of a LibCST node, its `ast` node; None where the two trees do not agree."""
    left: dict[type[cst.CSTNode], list[cst.CSTNode]] = {kind: [] for kind in _PAIRED}
    right: dict[type[cst.CSTNode], list[ast.AST]] = {kind: [] for kind in _PAIRED}
    for node in nodes:
        kind = type(node)
        if kind in left:
            left[kind].append(node)
    for thing in things:
        kind_of = _kind(thing)
        if kind_of is not None:
            right[kind_of].append(thing)
    left[cst.Name] = [node for node in left[cst.Name] if not _is_constant(node)]
    pairs: dict[int, ast.AST] = {}
    for kind, of_kind in left.items():
        if not _pair(of_kind, right[kind], pairs, _CHECKS.get(kind)):
            return None
    own = (_tuples(nodes), _operations(nodes), _strings(nodes))
    others = (_tuples_of_ast(nodes, pairs, things), _of(ast.BoolOp, things), _formatted(things))
    alike = all(_pair(one, other, pairs) for one, other in zip(own, others, strict=True))
    return pairs if alike else None


def _kind(thing: ast.AST) -> type[cst.CSTNode] | None:
    """The kind of LibCST node that stands for an `ast` node."""
    if getattr(thing, "is_lazy", False):
        return _LAZY[type(thing)]
    if isinstance(thing, ast.DictComp) and thing.value is None:
        return _STARRED_DICT_COMP
    return KINDS.get(type(thing))


def _pair(
    nodes: Sequence[cst.CSTNode],
    things: Sequence[ast.AST],
    pairs: dict[int, ast.AST],
    check: Callable[[cst.CSTNode, ast.AST], bool] | None = None,
) -> bool:
    """Pair nodes of one kind by their order, and say whether there are as many."""
    if len(nodes) != len(things) or (check and not all(map(check, nodes, things))):
        return False
    pairs.update(zip(map(id, nodes), things, strict=True))
    return True


def _of(kind: type[ast.AST], things: Iterable[ast.AST]) -> list[ast.AST]:
    return [thing for thing in things if isinstance(thing, kind)]


# ------------------------------------------------------ what the trees nest or count differently


def _tuples(nodes: Iterable[cst.CSTNode]) -> list[cst.CSTNode]:
    """The tuples of LibCST that are one for `ast`, too: `del a, b` has none for it."""
    bare = {
        id(node.target) for node in nodes if isinstance(node, cst.Del) and _is_bare(node.target)
    }
    return [node for node in nodes if isinstance(node, cst.Tuple) and id(node) not in bare]


def _is_bare(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Tuple) and not node.lpar


def _tuples_of_ast(
    nodes: Iterable[cst.CSTNode], pairs: Mapping[int, ast.AST], things: Iterable[ast.AST]
) -> list[ast.AST]:
    """The tuples of `ast` that are one for LibCST, too: `x[a, b]` has none for it."""
    hidden: set[int] = set()
    for node in nodes:
        if isinstance(node, cst.Subscript) and not _holds_tuple(node):
            subscript = pairs.get(id(node))
            assert isinstance(subscript, ast.Subscript)
            hidden.add(id(subscript.slice))
    return [thing for thing in _of(ast.Tuple, things) if id(thing) not in hidden]


def _holds_tuple(node: cst.Subscript) -> bool:
    """Ex) x[(a, b)]"""
    only = node.slice[0]
    bare = len(node.slice) == 1 and not isinstance(only.comma, cst.Comma)
    index = only.slice
    return bare and isinstance(index, cst.Index) and isinstance(index.value, cst.Tuple)


def _operations(nodes: Iterable[cst.CSTNode]) -> list[cst.CSTNode]:
    """The boolean operations that begin one of `ast`: `a and b and c` is one for it."""
    inner = {
        id(node.left)
        for node in nodes
        if isinstance(node, cst.BooleanOperation)
        and isinstance(node.left, cst.BooleanOperation)
        and type(node.left.operator) is type(node.operator)
        and not node.left.lpar
    }
    return [
        node for node in nodes if isinstance(node, cst.BooleanOperation) and id(node) not in inner
    ]


def _strings(nodes: Iterable[cst.CSTNode]) -> list[cst.CSTNode]:
    """The strings with values in them: those that are concatenated are one for `ast`."""
    inner: set[int] = set()
    strings: list[cst.CSTNode] = []
    for node in nodes:
        if isinstance(node, cst.ConcatenatedString):
            inner.update((id(node.left), id(node.right)))
        if id(node) not in inner and _is_formatted(node):
            strings.append(node)
    return strings


def _is_formatted(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.ConcatenatedString):
        return _is_formatted(node.left) or _is_formatted(node.right)
    return isinstance(node, cst.FormattedString)


def _formatted(things: Iterable[ast.AST]) -> list[ast.AST]:
    """The strings with values in them, without what says how a value is formatted."""
    formats = {id(getattr(thing, "format_spec", None)) for thing in things}
    return [thing for thing in _of(ast.JoinedStr, things) if id(thing) not in formats]


def _is_constant(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Name) and node.value in _CONSTANT_NAMES


def _same_name(written: str, name: str) -> bool:
    return written == name or unicodedata.normalize("NFKC", written) == name


def _names_agree(node: cst.CSTNode, thing: ast.AST) -> bool:
    assert isinstance(node, cst.Name) and isinstance(thing, ast.Name)
    return _same_name(node.value, thing.id)


def _attributes_agree(node: cst.CSTNode, thing: ast.AST) -> bool:
    assert isinstance(node, cst.Attribute) and isinstance(thing, ast.Attribute)
    return _same_name(node.attr.value, thing.attr)


def _calls_agree(node: cst.CSTNode, thing: ast.AST) -> bool:
    assert isinstance(node, cst.Call) and isinstance(thing, ast.Call)
    if len(node.args) != len(thing.args) + len(thing.keywords):
        return False
    if isinstance(node.func, cst.Attribute):
        return isinstance(thing.func, ast.Attribute) and _attributes_agree(node.func, thing.func)
    if isinstance(node.func, cst.Name) and not _is_constant(node.func):
        return isinstance(thing.func, ast.Name) and _names_agree(node.func, thing.func)
    return not isinstance(thing.func, (ast.Attribute, ast.Name))


def _definitions_agree(node: cst.CSTNode, thing: ast.AST) -> bool:
    assert isinstance(node, (cst.FunctionDef, cst.ClassDef))
    assert isinstance(thing, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    return _same_name(node.name.value, thing.name)


_CHECKS: Mapping[type[cst.CSTNode], Callable[[cst.CSTNode, ast.AST], bool]] = {
    cst.Attribute: _attributes_agree,
    cst.Call: _calls_agree,
    cst.ClassDef: _definitions_agree,
    cst.FunctionDef: _definitions_agree,
    cst.Name: _names_agree,
}


def _in_order(nodes: Iterable[ast.AST | None]) -> list[ast.AST]:
    return [node for node in nodes if node is not None]


def _mixed(args: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> list[ast.AST]:
    """Positional and keyword arguments as they are written: `f(a=1, *b)`."""
    if not keywords or not any(isinstance(arg, ast.Starred) for arg in args):
        return [*args, *keywords]
    both: list[ast.expr | ast.keyword] = [*args, *keywords]
    return [*sorted(both, key=lambda arg: (arg.lineno, arg.col_offset))]


def _call(node: ast.AST) -> list[ast.AST]:
    assert isinstance(node, ast.Call)
    return [node.func, *_mixed(node.args, node.keywords)]


def _dict(node: ast.AST) -> list[ast.AST]:
    assert isinstance(node, ast.Dict)
    return _in_order(n for pair in zip(node.keys, node.values, strict=True) for n in pair)


def _mapping(node: ast.AST) -> list[ast.AST]:
    assert isinstance(node, ast.MatchMapping)
    return _in_order(n for pair in zip(node.keys, node.patterns, strict=True) for n in pair)


def _arguments(node: ast.AST) -> list[ast.AST]:
    assert isinstance(node, ast.arguments)
    positional = [*node.posonlyargs, *node.args]
    defaults = [*[None] * (len(positional) - len(node.defaults)), *node.defaults]
    return _in_order(
        [
            *(n for pair in zip(positional, defaults, strict=True) for n in pair),
            node.vararg,
            *(n for pair in zip(node.kwonlyargs, node.kw_defaults, strict=True) for n in pair),
            node.kwarg,
        ]
    )


def _class_header(node: ast.AST) -> list[ast.AST]:
    assert isinstance(node, ast.ClassDef)
    parameters: list[ast.AST] = getattr(node, "type_params", [])
    return [*node.decorator_list, *parameters, *_mixed(node.bases, node.keywords)]


def _class(node: ast.AST) -> list[ast.AST]:
    assert isinstance(node, ast.ClassDef)
    return [*_class_header(node), *node.body]


_SPECIAL: Mapping[type[ast.AST], Callable[[ast.AST], list[ast.AST]]] = {
    ast.Call: _call,
    ast.ClassDef: _class,
    ast.Dict: _dict,
    ast.MatchMapping: _mapping,
    ast.arguments: _arguments,
}

# Where the fields of `ast` are not in source order, and those that hold no nodes.
_AST_ORDER = {
    ast.AsyncFunctionDef: "decorator_list type_params args returns body",
    ast.FunctionDef: "decorator_list type_params args returns body",
    ast.IfExp: "body test orelse",
}
_AST_LEAVES = frozenset(
    {"arg", "attr", "conversion", "ctx", "id", "is_async", "kind", "level", "module", "op", "ops"}
    | {"simple", "type_comment"}
)


def _ast_kinds(kind: type[ast.AST] = ast.AST) -> Iterator[type[ast.AST]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _ast_kinds(each)


# Last field first, as a stack wants them.
_AST_FIELDS: Mapping[type[ast.AST], tuple[str, ...]] = {
    kind: tuple(
        field
        for field in reversed(_AST_ORDER[kind].split() if kind in _AST_ORDER else kind._fields)
        if field not in _AST_LEAVES
    )
    for kind in _ast_kinds()
}
