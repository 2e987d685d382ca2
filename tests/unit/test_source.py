"""What a rule may ask about a file, and the edits that it may build."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst
import pytest

from amplint import (
    TRAINING,
    Classes,
    Edit,
    Finding,
    Fix,
    Group,
    Rule,
    Safety,
    TensorCertainty,
    Unrun,
)
from amplint.facts.program import FileView, Program
from amplint.findings.finding import edited
from amplint.fix.unused_imports import exported, orphans, starred, without
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.rule.conditions import nodes as anywhere
from amplint.source.edits.code_edits import REFUSED
from amplint.source.navigation import Layout
from amplint.source.scopes import Scopes
from amplint.source.source import Source
from amplint.util.positions import Place, Span
from amplint.util.text import Text, span_in
from amplint.values import atoms as values
from amplint.values.atoms import NONE, UNKNOWN, Autocast, Evidence, Host, Shows, is_autocast, one
from amplint.values.lattice import only
from amplint.view.view import FileCode, View
from rules.migration._deprecated import is_given


def source(text: str) -> Source:
    """A file that is a project, with all its units open."""
    facts = about(text)
    src = Source(Layout("a.py", Text(text), facts.module), facts, lambda at: span_in(None, at))
    for unit in src.layout.units.units:
        src.layout.open(unit)
    return src


def view(src: Source, node: cst.CSTNode) -> View:
    """A node as a View of some rule."""
    unrun = Unrun("made up", "nowhere")
    rule = Rule("AMP900", "Doc.", Group.PRECISION, "0.1", unrun, name="made-up")
    return FileCode(src, src._facts).view_of(rule, node)


def about(text: str) -> FileView:
    """The facts about a file that is a project, linked from all its functions."""
    file = File("a.py", text)
    return Program(Files({"a.py": file})).about("a.py")


def nodes(src: Source) -> Iterator[cst.CSTNode]:
    for unit in src.layout.units.units:
        yield from src.layout.open(unit).nodes


def find(
    src: Source, written: str, kind: type[cst.CSTNode] = cst.BaseExpression, nth: int = 0
) -> cst.CSTNode:
    """The nth node that is written so, from the outside in."""
    found = [n for n in nodes(src) if isinstance(n, kind) and src.text(n) == written]
    return found[nth]


def call_in(src: Source, name: str = "f") -> cst.Call:
    """The call of a function."""
    return next(n for n in nodes(src) if isinstance(n, cst.Call) and src.text(n.func) == name)


def after(src: Source, *edits: Edit | None) -> str | None:
    """The file with the edits in it; None if one was refused."""
    made = [edit for edit in edits if edit is not None and edit is not REFUSED]
    return edited(src.layout.content.text, made) if len(made) == len(edits) else None


# ------------------------------------------------------------------------------- structure

NESTED = """\
class Trainer:
    rate = 1

    @hook(a)
    def step(self, x=b):
        def inner():
            return lambda y: y.item()
        with c, d(e):
            f(g); h = i
"""


def test_every_node_knows_what_is_around_it() -> None:
    src = source(NESTED)
    item = find(src, "y.item()")
    kinds = [type(each).__name__ for each in src.ancestors(item)]
    assert kinds[:4] == ["Lambda", "Return", "SimpleStatementLine", "IndentedBlock"]
    assert isinstance(src.parent(item), cst.Lambda)
    assert isinstance(src.function(item), cst.Lambda)
    function = src.function(find(src, "f(g)"))
    assert isinstance(function, cst.FunctionDef) and function.name.value == "step"
    assert src.function(function) is None
    assert src.parent(None) is None


@pytest.mark.parametrize(
    ("written", "scope"),
    [("y.item()", "Trainer.step.inner"), ("f(g)", "Trainer.step"), ("rate", "Trainer")],
)
def test_scopes_are_qualified_names(written: str, scope: str) -> None:
    src = source(NESTED)
    assert src.layout.scope(find(src, written)) == scope


def test_the_statement_of_a_node() -> None:
    src = source(NESTED)
    assert isinstance(src.statement(find(src, "g")), cst.SimpleStatementLine)
    assert isinstance(src.statement(find(src, "d(e)")), cst.With)
    assert src.text(src.statement(find(src, "i")) or cst.Pass()) == "f(g); h = i"


def test_what_becomes_of_a_value() -> None:
    src = source("a = b()\nc: int = d()\ne = f = g()\nh()\ni(j())\n")
    names = {
        each: src.assigned_name(find(src, f"{each}()", cst.Call)) for each in ("b", "d", "g", "h")
    }
    assert names == {"b": "a", "d": "c", "g": None, "h": None}
    assert src.layout.assignment(find(src, "g()", cst.Call)) is not None
    assert not src.layout.value_used(find(src, "h()", cst.Call))
    assert src.layout.value_used(find(src, "j()", cst.Call))


def test_the_method_that_is_called_on_an_expression() -> None:
    src = source("a.b(c).d\nf(a.g)\n")
    call = src.layout.call_on(find(src, "a", cst.Name))
    assert call is not None
    assert src.text(call) == "a.b(c)"
    assert src.layout.call_on(find(src, "a.b(c)", cst.Call)) is None
    assert src.layout.call_on(find(src, "a.g", cst.Attribute)) is None
    assert src.layout.call_on(find(src, "c", cst.Name)) is None


def test_occurrences_of_a_name() -> None:
    src = source("for a in b:\n    a += c.a + a\n    f'{a}'\n")
    assert src.layout.occurrences("a", next(nodes(src))) == 4


@pytest.mark.parametrize(
    ("call", "first", "named"),
    [
        ("f(x, k=y)", "x", "y"),
        ("f(k=y)", None, "y"),
        ("f(*x, y)", None, None),
        ("f(x, *y)", "x", None),
        ("f(x, **y)", "x", None),
        ("f(**x)", None, None),
        ("f()", None, None),
    ],
)
def test_arguments_that_are_certain(call: str, first: str | None, named: str | None) -> None:
    src = source(f"{call}\n")
    node = call_in(src)
    one, other = src.argument(node, "p", 0), src.argument(node, "k", 1)
    assert (one and src.text(one.value)) == first
    if named is not None or "*" not in call:
        assert (other and src.text(other.value)) == named
    assert src.has_star(node) == ("*" in call)


def test_text_is_as_it_is_written() -> None:
    src = source("x = f( (a  .b), '''é\r\n  ''' )\r\ny = ((c.d))\r\n")
    assert src.text(call_in(src)) == "f( (a  .b), '''é\r\n  ''' )"
    attribute = call_in(src).args[0].value
    assert (src.text(attribute), src.text(attribute, parentheses=False)) == ("(a  .b)", "a  .b")
    assert src.text(find(src, "((c.d))"), parentheses=False) == "c.d"


def test_brief_text_fits_a_message() -> None:
    src = source(f"f(a,\n  b)\ng({'x' * 50})\n")
    assert src.brief(call_in(src)) == "f(a, b)"
    brief = src.brief(call_in(src, "g"))
    assert len(brief) <= 40 and brief.startswith("g(xxx") and brief.endswith(" ...")


@pytest.mark.parametrize(
    ("text", "written", "expected"),
    [
        ("é = f(1)\n", "f(1)", ((1, 5), (1, 9))),
        ("x = (\n  f(1))\n", "f(1)", ((2, 3), (2, 7))),
        ("x = g(a for a in b)\n", "a for a in b", ((1, 7), (1, 19))),
        # A compound statement is shown by its first line.
        ("if a:  \n  b\n", "if a:  \n  b", ((1, 1), (1, 6))),
        # Before Python 3.12, `ast` has other positions here.
        ("x = f'''{a}\n  {f(1)}'''\n", "f(1)", ((2, 4), (2, 8))),
        ("x = f'{a:{f(1)}}'\n", "f(1)", ((1, 11), (1, 15))),
    ],
)
def test_spans_are_rows_and_columns(
    text: str, written: str, expected: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    src = source(text)
    node = next(node for node in nodes(src) if src.text(node, parentheses=False) == written)
    assert src.span(node) == expected


def test_a_name_that_is_no_expression_has_a_place_too() -> None:
    src = source("a\nb\nx.item()\n")
    attribute = call_in(src, "x.item").func
    assert isinstance(attribute, cst.Attribute)
    assert src.layout.offsets(attribute.attr) == (6, 10)


# ------------------------------------------------------------------------------- meaning


TRAINED = """\
import torch
class Net(torch.nn.Module): pass
def train(optimizer: torch.optim.Optimizer, loader: torch.utils.data.DataLoader):
    net = Net()
    for x in loader:
        with torch.autocast("cuda"):
            loss = net(x).sum()
            f(torch.zeros(3).half(), 'text', [net][0])
            loss.backward()
        optimizer.step()
"""


def test_facts_are_those_of_the_paired_node() -> None:
    src = source(TRAINED)
    half, text, net = (arg.value for arg in call_in(src).args)
    tensor = view(src, half).tensor
    assert tensor is not None and tensor.dtype == "float16"
    assert view(src, half).ask(TensorCertainty)
    assert view(src, text).tensor is None and view(src, text).value == {Host("str", "text", True)}
    assert view(src, call_in(src, "torch.zeros").func).name == "torch.zeros"
    assert view(src, call_in(src, "loss.backward")).backward == ()
    assert view(src, call_in(src)).backward is None
    assert view(src, net).fact(Classes).bases_of(view(src, net).value) == {"torch.nn.Module"}
    assert view(src, net).fact(Classes).is_module(view(src, net).value)


def test_a_fact_about_calls_has_no_answer_about_a_name() -> None:
    src = source(TRAINED.replace("loss.backward()", "done = loss.backward()\n            g(done)"))
    assert view(src, call_in(src, "loss.backward")).backward == ()
    assert view(src, call_in(src, "g").args[0].value).backward is None


def test_autocast_contexts() -> None:
    region = one(Autocast("cuda"))
    assert is_autocast(region)
    assert not is_autocast(region | {NONE}) and not is_autocast(frozenset())


def test_questions_about_the_project() -> None:
    src = source("import torch\nx = isinstance(y, torch.Tensor)\n")
    at = view(src, call_in(src, "isinstance"))
    assert at.mentions("isinstance", "Tensor") and not at.mentions("isinstance", "missing")
    assert at.matches(r"isinstance\(.*Tensor") and not at.matches(r"^isinstance")


def test_a_node_without_a_counterpart_is_unknown() -> None:
    src = source("f(x, a and b and c)\n")
    argument, chain = call_in(src).args
    assert isinstance(chain.value, cst.BooleanOperation)
    inner = chain.value.left  # `ast` has one operation with three operands
    for node in (argument, inner):
        assert view(src, node).value == UNKNOWN
        assert view(src, node).name is None and view(src, node).backward is None
        assert src.variables.joined(node) and not src.variables.uses(node)


def test_literals_have_values() -> None:
    src = source("f(1, 2.5, 's', True, None, f'{x}', 'a' 'b')\n")
    values = [view(src, arg.value).value for arg in call_in(src).args]
    assert values == [
        {Host("int", 1, True)}, {Host("float", 2.5, True)}, {Host("str", "s", True)},
        {Host("bool", True, True)}, {Host("none", None, True)}, {Host("str")}, {Host("str")},
    ]  # fmt: skip


def test_nodes_that_are_not_paired_are_found_by_their_place() -> None:
    src = source("f((1, 2), 1 and 2 or 3)\ng = 6, 7\n")
    pair, truth = (arg.value for arg in call_in(src).args)
    for node in (pair, find(src, "6, 7", cst.Tuple)):
        assert isinstance(only(view(src, node).value), values.Sequence)
    assert {atom for atom in view(src, truth).value if isinstance(atom, Host)} == view(
        src, truth
    ).value


def test_circumstances_are_those_of_the_expression_around() -> None:
    src = source(TRAINED)
    text = call_in(src).args[1].value
    region, heat = view(src, text).region, view(src, text).hotness
    assert region is not None and region.device == "cuda"
    assert heat is not None and heat.temperature == TRAINING


# ------------------------------------------------------------------------------- data flow


def test_uses_and_origins_follow_the_data() -> None:
    src = source("def f(d):\n    m = g(d)\n    h(m)\n    m = k(m)\n    return m\n")
    made = find(src, "g(d)", cst.Call)
    uses = src.variables.uses(made)
    assert [src.span(use).start.row for use in uses] == [3, 4]
    assert not src.variables.joined(made)
    assert isinstance(uses[0], cst.Name) and src.variables.origin(uses[0]) is made
    returned = find(src, "m", cst.Name, -1)
    assert isinstance(returned, cst.Name) and src.variables.origin(returned) is find(
        src, "k(m)", cst.Call
    )


def test_a_value_that_may_be_another_has_no_origin() -> None:
    src = source("def f(d):\n    m = g(d)\n    if d:\n        m = k(d)\n    return m\n")
    returned = find(src, "m", cst.Name, -1)
    assert isinstance(returned, cst.Name) and src.variables.origin(returned) is None
    assert src.variables.joined(find(src, "g(d)", cst.Call))


def test_a_join_that_nobody_reads_is_none() -> None:
    """A loop joins what its body binds; it matters where the next round, or the end, reads it."""
    body = "def f(d):\n    for x in d:\n        m = g(x)\n        h(m)\n"
    assert not linked_joined(body, "g(x)")
    assert linked_joined(f"{body}    return m\n", "g(x)")


def linked_joined(text: str, written: str) -> bool:
    src = source(text)
    return src.variables.joined(find(src, written, cst.Call))


def test_a_variable_is_a_parameter_as_long_as_nothing_else_is_bound_to_it() -> None:
    src = source("def f(a, *, b: int):\n    g(a, b)\n    a = 1\n    if b:\n        g(a, b)\n")
    found = [
        src.variables.parameter(arg.value)
        for call in (call_in(src, "g"), find(src, "g(a, b)", cst.Call, 1))
        for arg in call.args
        if isinstance(arg.value, cst.Name)
    ]
    assert [param and param.name.value for param in found] == ["a", "b", None, "b"]


def test_uses_that_libcst_cannot_show_make_it_joined() -> None:
    text = "m = g()\nclass A(x=1, *m): pass\n"
    facts = about(text)
    src = Source(Layout("a.py", Text(text), facts.module), facts, lambda at: span_in(None, at))
    (made,) = (n for n in src.layout.open(src.layout.units.units[0]).nodes if type(n) is cst.Call)
    assert src.variables.uses(made) == () and src.variables.joined(made)


@pytest.mark.parametrize(
    ("body", "same"),
    [
        pytest.param("here()\nlater(x)", True, id="a parameter"),
        pytest.param("here()\nx = 1\nlater(x)", False, id="bound in between"),
        pytest.param("here()\nfor x in y: pass\nlater(x)", False, id="by a loop"),
        pytest.param("here()\nlater(x)\nx = 1", True, id="bound afterwards"),
        pytest.param("here()\nlater(z)", True, id="a global that nobody binds twice"),
        pytest.param("if y:\n    v = 1\nhere()\nlater(v)", False, id="not on every path"),
        pytest.param("if y:\n    v = 1\n    here()\n    later(v)", True, id="on this path"),
        pytest.param("with y as v:\n    here()\n    later(v)", True, id="within its with"),
        pytest.param("v = 1\ndel v\nhere()\nlater(v)", True, id="a deleted name raises anyhow"),
        pytest.param("here()\nlater(lambda: 0)", False, id="something else than names"),
        pytest.param("here()\nlater(x.device)", True, id="an attribute"),
        pytest.param("here()\nx.device = 1\nlater(x.device)", False, id="that changes"),
        pytest.param("here()\nlater(x.device, 'cuda', 0)", True, id="several"),
        pytest.param("here()\nlater(x[0])", False, id="an item may change with what holds it"),
        pytest.param("here()\nlater(w())", False, id="a call may give something else"),
    ],
)
def test_same_meaning_at_an_earlier_place(body: str, same: bool) -> None:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    src = source(f"def f(x, y):\n{lines}")
    assert src.variables.same_meaning(call_in(src, "later"), call_in(src, "here")) is same


@pytest.mark.parametrize(
    ("body", "same"),
    [
        pytest.param("here()\nlater(x[0] > len(y))", True, id="whatever is made of them"),
        pytest.param("later(x)\nhere()", True, id="behind it"),
        pytest.param("v = 1\nlater(v)\nv = 2\nhere()", False, id="bound anew in between"),
        pytest.param("if y:\n    v = 1\n    later(v)\nhere()", False, id="not on every path"),
        pytest.param("here()\nfor v in y:\n    later(v)", False, id="bound by a later loop"),
        pytest.param("for v in y:\n    here()\n    later(v)", True, id="in the same loop"),
        pytest.param("here()\n[later(v) for v in y]", False, id="in a comprehension"),
        pytest.param("[later(v) for v in y]\nhere()", False, id="after a comprehension"),
        pytest.param("here()\n[later(x) for v in y]", True, id="from around it"),
        pytest.param("here()\nlater(nowhere)", False, id="bound nowhere"),
        pytest.param("here()\nlater(lambda v: v)", False, id="a parameter of its own"),
    ],
)
def test_names_of_an_expression_at_another_place(body: str, same: bool) -> None:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    src = source(f"def f(x, y):\n{lines}")
    given = call_in(src, "later").args[0].value
    assert src.variables.same_at(given, call_in(src, "here")) is same
    statement = src.statement(call_in(src, "here"))
    assert statement is not None and src.variables.same_at(given, statement) is same


def test_a_statement_in_a_block_of_its_own() -> None:
    src = source("if a:\n\tb\n")
    statement = src.statement(find(src, "b"))
    assert statement is not None
    edit = src.edits.insert_statement_before(statement, "new", "if c:")
    assert after(src, edit) == "if a:\n\tif c:\n\t\tnew\n\tb\n"


def test_bindings_belong_to_their_scopes() -> None:
    module = ast.parse(
        "import a.b\nfrom c import d as e\nclass f:\n    g = 1\n"
        "def h(i, *j, **k):\n    global m\n    m = [n for n in (o := i)]\n"
        "    try: pass\n    except p as q: pass\n    match r:\n        case [s, *t] | {**u}: pass\n"
    )
    scopes = Scopes(module)
    owners = {
        name: type(binding.scope).__name__
        for name in "abcdefghijkmnopqrstu"
        for binding in scopes.bindings(name)
    }
    assert owners == {
        "a": "Module", "e": "Module", "f": "Module", "g": "ClassDef", "h": "Module",
        "i": "FunctionDef", "j": "FunctionDef", "k": "FunctionDef", "m": "Module",
        "n": "ListComp", "o": "FunctionDef", "q": "FunctionDef", "s": "FunctionDef",
        "t": "FunctionDef", "u": "FunctionDef",
    }  # fmt: skip
    assert [scopes.bindings(name)[0].target for name in ("a", "e")] == ["a", "c.d"]


# ------------------------------------------------------------------------------- edits


def test_replacing_keeps_parentheses_or_takes_them_along() -> None:
    src = source("x = ((a.b)) + c\n")
    node = find(src, "((a.b))")
    assert after(src, src.edits.replace(node, "d")) == "x = ((d)) + c\n"
    assert after(src, src.edits.replace(node, "d", parentheses=True)) == "x = d + c\n"
    assert after(src, src.edits.insert_before(node, "!"), src.edits.insert_after(node, "?")) == (
        "x = !((a.b))? + c\n"
    )


def test_replacing_part_of_an_attribute() -> None:
    src = source("é = a . b ( c )\n")
    call = call_in(src, "a . b")
    assert isinstance(call.func, cst.Attribute)
    assert after(src, src.edits.replace(call.func.attr, "d")) == "é = a . d ( c )\n"


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("x = make(1).to(d)\n", "x = make(1)\n"),
        ("x = (make(1)).to(d).y\n", "x = (make(1)).y\n"),
        ("x = (make(1)\n     .to(d))\n", "x = (make(1))\n"),
    ],
)
def test_removing_what_is_around_an_expression(before: str, expected: str) -> None:
    src = source(before)
    move = next(n for n in nodes(src) if isinstance(n, cst.Call))
    assert after(src, src.edits.remove_between(call_in(src, "make"), move)) == expected
    assert src.edits.remove_between(move.args[0].value, move) is REFUSED


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a", "a.float()"),
        ("a[0]", "a[0].float()"),
        ("a + b", "(a + b).float()"),
        ("(a + b)", "(a + b).float()"),
        ("-a", "(-a).float()"),
        ("1", "(1).float()"),
        ("a if b else c", "(a if b else c).float()"),
        ("await a", "(await a).float()"),
    ],
)
def test_appending_a_call(written: str, expected: str) -> None:
    src = source(f"async def f():\n    x = {written}\n")
    value = next(n for n in nodes(src) if isinstance(n, cst.Assign)).value
    assert (
        after(src, src.edits.append_call(value, "float()"))
        == f"async def f():\n    x = {expected}\n"
    )


LONG = "a" * 84
ADDED = [
    ("f()", "f(k=v)"),
    ("f( )", "f(k=v )"),
    ("f(  # c\n)", "f(k=v  # c\n)"),
    ("f(a)", "f(a, k=v)"),
    ("f(a,)", "f(a, k=v,)"),
    ("f((a))", "f((a), k=v)"),
    ("f(*a)", "f(*a, k=v)"),
    ("f(b=c)", "f(b=c, k=v)"),
    ("f(b = c)", "f(b = c, k = v)"),
    ("f(b = c, d=e)", "f(b = c, d=e, k=v)"),
    ("f(**a)", None),
    ("f(x for x in y)", "f((x for x in y), k=v)"),
    ("f((x for x in y))", "f((x for x in y), k=v)"),
    ("f(x := y)", "f(x := y, k=v)"),
    ("f(a,\n  b)", "f(a,\n  b, k=v)"),
    ("f(\n  a, b,\n)", "f(\n  a, b, k=v,\n)"),
    ("f(\n  a\n)", "f(\n  a, k=v\n)"),
    ("f(\n  a)", "f(\n  a, k=v)"),
    (f"f(\n  {LONG}\n)", f"f(\n  {LONG},\n  k=v,\n)"),
    (f"f(\n  {LONG})", f"f(\n  {LONG},\n  k=v)"),
    ("f(\n  [\n    a\n  ]\n)", "f(\n  [\n    a\n  ],\n  k=v,\n)"),
    ("f(\n  a,\n  b\n)", "f(\n  a,\n  b,\n  k=v\n)"),
    ("f(\n  a,\n)", "f(\n  a,\n  k=v,\n)"),
    ("f(\n  a,\n  b)", "f(\n  a,\n  b,\n  k=v)"),
    ("f(\n  a,\n  b,)", "f(\n  a,\n  b,\n  k=v,)"),
    ("f(\n  a,  # c\n)", "f(\n  a,  # c\n  k=v,\n)"),
    ("f(\n  a  # c\n)", "f(\n  a,  # c\n  k=v,\n)"),
    ("f(\n  a\n  ,\n)", "f(\n  a,\n  k=v\n  ,\n)"),
    ("f(\n\ta,\r\n\tb\r\n)", "f(\n\ta,\r\n\tb,\n\tk=v\r\n)"),
]


@pytest.mark.parametrize(("before", "expected"), ADDED)
def test_adding_an_argument(before: str, expected: str | None) -> None:
    src = source(f"x = {before}.y\n")
    result = after(src, src.edits.add_argument(call_in(src), "k=v"))
    assert result == (f"x = {expected}.y\n" if expected is not None else None)
    if result is not None:
        keywords = next(n for n in ast.walk(ast.parse(result)) if isinstance(n, ast.Call)).keywords
        assert keywords[-1].arg == "k"


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("f()", "f(new)"),
        ("f(a, b)", "f(new, a, b)"),
        ("f(*a)", "f(new, *a)"),
        ("f(**a)", "f(new, **a)"),
        ("f(k=a)", "f(new, k=a)"),
        ("f(x for x in y)", None),
        ("f(\n  a,\n  b,\n)", "f(\n  new,\n  a,\n  b,\n)"),
        ("f(\n  # c\n  a\n)", "f(\n  # c\n  new,\n  a\n)"),
    ],
)
def test_inserting_an_argument(before: str, expected: str | None) -> None:
    src = source(f"{before}\n")
    result = after(src, src.edits.insert_argument(call_in(src), "new"))
    assert result == (f"{expected}\n" if expected is not None else None)


def test_an_inserted_keyword_has_the_spaces_of_the_others() -> None:
    src = source("f(b = c)\n")
    edit = src.edits.insert_argument(call_in(src), '"a=b"', "k=v")
    assert after(src, edit) == 'f("a=b", k = v, b = c)\n'


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("f(a)", "f(k=a)"),
        ("f((a))", "f(k=(a))"),
        ("f(j=a)", "f(k=a)"),
        ("f(*a)", None),
        ("f(x for x in y)", "f(k=(x for x in y))"),
        ("f(x := y)", "f(k=(x := y))"),
    ],
)
def test_naming_an_argument(before: str, expected: str | None) -> None:
    src = source(f"{before}\n")
    result = after(src, src.edits.name_argument(call_in(src).args[0], "k"))
    assert result == (f"{expected}\n" if expected is not None else None)


REMOVED = [
    ("f(a)", "a", "f()"),
    ("f(a,)", "a", "f()"),
    ("f(\n  a,\n)", "a", "f()"),
    ("f(a, b)", "a", "f(b)"),
    ("f(a, b)", "b", "f(a)"),
    ("f(a, b,)", "b", "f(a,)"),
    ("f(a , b)", "b", "f(a)"),
    ("f(a, b, c)", "b", "f(a, c)"),
    ("f(a, b, c)", "b c", "f(a)"),
    ("f(a, b, c)", "a c", "f(b)"),
    ("f(a, b, c)", "a b", "f(c)"),
    ("f(a, b, c)", "a b c", "f()"),
    ("f(*a, k=b)", "a", "f(k=b)"),
    ("f(\n  a,\n  b,\n)", "a", "f(\n  b,\n)"),
    ("f(\n  a,\n  b,\n)", "b", "f(\n  a,\n)"),
    ("f(\n  a,\n  b\n)", "b", "f(\n  a,\n)"),
    ("f(\n  a,\n  b)", "b", "f(\n  a,)"),
    ("f(\n  a,  # about a\n  b,\n)", "b", "f(\n  a,  # about a\n)"),
    ("f(\n  a,\n  b,  # about b\n)", "b", "f(\n  a,\n)"),
    ("f(\n  a,\n  b, c,\n)", "b c", "f(\n  a,\n)"),
]


@pytest.mark.parametrize(("before", "gone", "expected"), REMOVED)
def test_removing_arguments(before: str, gone: str, expected: str) -> None:
    src = source(f"{before}\n")
    call = call_in(src)
    args = [arg for arg in call.args if src.text(arg.value) in gone.split()]
    assert after(src, *src.edits.remove_arguments(call, args)) == f"{expected}\n"
    if len(args) == 1:
        assert after(src, src.edits.remove_argument(call, args[0])) == f"{expected}\n"


STATEMENTS_REMOVED = [
    ("a\nx()\nb\n", "a\nb\n"),
    ("a\nx()", "a\n"),
    ("a\nx()  # c\nb\n", "a\nb\n"),
    ("a\nx(\n  1)\nb\n", "a\nb\n"),
    ("# c\nx()\nb\n", "# c\nb\n"),
    ("a; x(); b\n", "a; b\n"),
    ("x(); b\n", "b\n"),
    ("a; x()\n", "a\n"),
    ("a; x();\n", "a;\n"),
    ("if a: x()\n", "if a: pass\n"),
    ("if a: b; x()\n", "if a: b\n"),
    ("if a:\n  x()\n", "if a:\n  pass\n"),
    ("if a:\n  x()  # c\n", "if a:\n  pass  # c\n"),
    ("if a:\n  b\n  x()\nc", "if a:\n  b\nc"),
    ("class A:\n  # c\n  x()\n", "class A:\n  # c\n  pass\n"),
    ("class A:\n  a\n  x()\n", "class A:\n  a\n"),
]


@pytest.mark.parametrize(("before", "expected"), STATEMENTS_REMOVED)
def test_removing_a_statement(before: str, expected: str) -> None:
    src = source(before)
    statement = src.parent(call_in(src, "x"))
    assert isinstance(statement, cst.Expr)
    assert after(src, src.edits.remove_statement(statement)) == expected


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("a\nif x():\n  c\nelse:\n  d\ne\n", "a\ne\n"),
        ("if a:\n  @x()\n  def f(): ...\nb\n", "if a:\n  pass\nb\n"),
        ("class A:\n\n  @x()\n  def f(): ...\n", "class A:\n\n  pass\n"),
        ("a\n@x()\nclass A:\n  b\n", "a\n"),
        ("if a: b; x()\nc\n", "c\n"),
    ],
)
def test_removing_a_whole_statement(before: str, expected: str) -> None:
    src = source(before)
    statement = src.statement(call_in(src, "x"))
    assert statement is not None and after(src, src.edits.remove_statement(statement)) == expected


@pytest.mark.parametrize(
    ("before", "above", "below"),
    [
        ("a\nx\n", "a\nnew\nx\n", "a\nx\nnew\n"),
        ("if a:\r\n\tx\r\n", "if a:\r\n\tnew\r\n\tx\r\n", "if a:\r\n\tx\r\n\tnew\r\n"),
        ("if a:\n  x", "if a:\n  new\n  x", "if a:\n  x\n  new"),
    ],
)
def test_inserting_a_statement(before: str, above: str, below: str) -> None:
    src = source(before)
    statement = src.statement(find(src, "x"))
    assert statement is not None
    assert after(src, src.edits.insert_statement_before(statement, "new")) == above
    assert after(src, src.edits.insert_statement_after(statement, "new")) == below


def test_a_statement_after_a_loop_stands_outside() -> None:
    src = source("if a:\n  for b in c:\n    d\n  e\n")
    loop = src.statement(find(src, "c"))
    assert loop is not None
    assert after(src, src.edits.insert_statement_after(loop, "new")) == (
        "if a:\n  for b in c:\n    d\n  new\n  e\n"
    )


DEDENTED = [
    pytest.param("with a:\n    b\n    x()\nc\n", "with a:\n    b\nx()\nc\n", id="the last one"),
    pytest.param("with a:\n    b\n    x()\n    c", "with a:\n    b\nx()\nc", id="and all after it"),
    pytest.param("with a:\n    x()\n    c\n", None, id="nothing would stay"),
    pytest.param("if a:\n    b\n    x()\n", None, id="no with"),
    pytest.param(
        "if q:\n\twith a:\n\t\tb\n\t\tx()\n", "if q:\n\twith a:\n\t\tb\n\tx()\n", id="tabs"
    ),
    pytest.param(
        "with a:\n    b\n\n    # why\n    x(  # c\n      1,\n  2)\n    if c:\n        d\n",
        "with a:\n    b\n\n# why\nx(  # c\n  1,\n  2)\nif c:\n    d\n",
        id="comments, continued lines and blocks",
    ),
    pytest.param(
        "with a:\n    b\n    x('''\n    s\n    ''', f'''\n    {c}\n    ''')\n",
        "with a:\n    b\nx('''\n    s\n    ''', f'''\n    {c}\n    ''')\n",
        id="strings of several lines stay",
    ),
    pytest.param("with a: b; x(); c  # d\ne\n", "with a: b\nx(); c  # d\ne\n", id="one line"),
    pytest.param("with a: x(); c\n", None, id="one line, and nothing would stay"),
    pytest.param(
        "if q:\n  with a:\n    b; x()\n    c\n", "if q:\n  with a:\n    b\n  x()\n  c\n", id="mixed"
    ),
    pytest.param("with a:\r\n  b\r\n  x()\r\n", "with a:\r\n  b\r\nx()\r\n", id="line ends"),
]


@pytest.mark.parametrize(("before", "expected"), DEDENTED)
def test_moving_statements_out_of_a_with(before: str, expected: str | None) -> None:
    src = source(before)
    small = src.parent(call_in(src, "x"))
    line = src.parent(small)
    assert isinstance(small, cst.Expr)
    moved: list[cst.BaseStatement | cst.BaseSmallStatement]
    if isinstance(line, cst.SimpleStatementLine) and line.body[0] is small:
        block = src.parent(line)
        assert isinstance(block, cst.IndentedBlock)
        moved = [*block.body[[*block.body].index(line) :]]
    else:
        assert isinstance(line, (cst.SimpleStatementLine, cst.SimpleStatementSuite))
        moved = [*line.body[[*line.body].index(small) :]]
        block = src.parent(line)
        if isinstance(block, cst.IndentedBlock):
            moved += block.body[[*block.body].index(line) + 1 :]
    edits = src.edits.dedent(moved)
    assert (after(src, *edits) if edits != (REFUSED,) else None) == expected


def test_without_offsets_every_edit_is_refused() -> None:
    # The last expression nests too deep for LibCST to resolve any place in the unit.
    deep = "q" + ".a" * 700
    src = source(f"def h():\n  with a: b; f(x, y)\n  with a:\n    z\n    g()\n  {deep}\n")
    call, empty = call_in(src), call_in(src, "g")
    statement, expression = src.statement(empty), src.parent(call)
    assert statement is not None and isinstance(expression, cst.Expr)
    edits = src.edits
    refused = [
        edits.replace(call, "y"), edits.insert_before(call, "y"), edits.insert_after(call, "y"),
        edits.remove_between(call.args[0], call), edits.append_call(call, "y()"),
        edits.add_argument(call, "y"), edits.add_argument(empty, "y"),
        edits.insert_argument(call, "y"),
        edits.name_argument(call.args[0], "y"), edits.remove_argument(call, call.args[0]),
        edits.remove_statement(expression),
    ]  # fmt: skip
    assert refused == [REFUSED] * len(refused)
    assert src.edits.remove_arguments(call, call.args) == (REFUSED, REFUSED)
    assert src.edits.insert_statement_before(statement, "y") is REFUSED
    assert src.edits.insert_statement_after(statement, "y") is REFUSED
    assert src.edits.remove_statement(statement) is REFUSED
    assert src.edits.dedent([expression]) == src.edits.dedent([statement]) == (REFUSED,)


def test_only_what_ends_the_block_is_moved() -> None:
    src = source("with a:\n    b\n    x()\n    c\n")
    statement = src.statement(call_in(src, "x"))
    assert statement is not None and src.edits.dedent([statement]) == (REFUSED,)
    assert src.edits.dedent([]) == (REFUSED,)


# ------------------------------------------------------------------------------- imports


@pytest.mark.parametrize(
    ("imports", "dotted", "bound"),
    [
        ("import torch\n", "torch.amp.autocast", "torch.amp.autocast"),
        ("import torch as th\n", "torch.amp.autocast", "th.amp.autocast"),
        ("import torch.cuda.amp\n", "torch.amp", "torch.amp"),
        ("from torch import amp\n", "torch.amp.autocast", "amp.autocast"),
        ("from torch.amp import autocast as ac\n", "torch.amp.autocast", "ac"),
        ("import torch\nfrom torch import amp\n", "torch.amp.autocast", "amp.autocast"),
        ("import torch as a\nimport torch\n", "torch.amp", "torch.amp"),
        ("import torch\nimport torch.nn\n", "torch.amp", "torch.amp"),
        ("import torch\ndef f(torch): pass\n", "torch.amp", None),
        ("try:\n    import torch\nexcept ImportError: pass\n", "torch.amp", None),
        ("def f():\n    import torch\n", "torch.amp", None),
        ("from .torch import amp\n", "torch.amp", None),
        ("import torchvision\n", "torch.amp", None),
    ],
)
def test_how_a_library_name_can_be_written(imports: str, dotted: str, bound: str | None) -> None:
    assert source(imports).imports.bound_as(dotted) == bound


@pytest.mark.parametrize(
    ("before", "text", "expected"),
    [
        pytest.param("import torch\nx\n", "torch.amp.gc", "import torch\nx\n", id="is there"),
        pytest.param("import os\nx\n", "torch.amp.gc", "import os\nimport torch\nx\n", id="new"),
        pytest.param("x\n", "torch.amp.gc", "import torch\nx\n", id="no imports"),
        pytest.param("# c\n\n@d\ndef f(): ...\n", "torch.amp.gc",
                     "# c\n\nimport torch\n@d\ndef f(): ...\n", id="below a comment"),
        pytest.param("'''Doc.'''\nx\n", "torch.amp.gc", "'''Doc.'''\nimport torch\nx\n", id="doc"),
        pytest.param("'doc'", "torch.amp.gc", "'doc'\nimport torch", id="no last line end"),
        pytest.param("from __future__ import division\r\n\r\nx\r\n", "torch.amp.gc",
                     "from __future__ import division\r\nimport torch\r\n\r\nx\r\n", id="future"),
        pytest.param("import a\ndef f(): ...\nimport b\n", "torch.amp.gc",
                     "import a\nimport torch\ndef f(): ...\nimport b\n", id="the first imports"),
        pytest.param("import a\nfrom torch.cuda import b\nimport c\n", "torch.amp.gc",
                     "import a\nimport torch\nfrom torch.cuda import b\nimport c\n", id="home"),
        pytest.param("import a\nfrom .torch import b\n", "torch.amp.gc",
                     "import a\nfrom .torch import b\nimport torch\n", id="another torch"),
        pytest.param("from torch.amp import a\n", "gc", "from torch.amp import a, gc\n", id="same"),
        pytest.param("from torch.amp import (\n  a,  # c\n)\n", "gc",
                     "from torch.amp import (\n  a, gc,  # c\n)\n", id="same, in parentheses"),
        pytest.param("torch = 1\n", "gc", "from torch.amp import gc\ntorch = 1\n", id="taken"),
        pytest.param("torch = gc = 1\n", None, None, id="all names are taken"),
    ],
)  # fmt: skip
def test_making_a_library_name_available(
    before: str, text: str | None, expected: str | None
) -> None:
    src = source(before)
    spelled = src.imports.spell("torch.amp.gc")
    if spelled.edits == (REFUSED,):
        assert expected is None
    else:
        assert (spelled.text, after(src, *spelled.edits)) == (text, expected)


ORPHANS = [
    ("import a\na.b\n", "import a\nc\n", "c\n"),
    ("import a, d\na.b, d\n", "import a, d\nd\n", "import d\nd\n"),
    ("from a import b, c\nb, c\n", "from a import b, c\nb\n", "from a import b\nb\n"),
    ("from a import (\n  b,\n  c,\n)\nb, c\n", "from a import (\n  b,\n  c,\n)\nc\n",
     "from a import (\n  c,\n)\nc\n"),
    ("import a as b; c\nb\n", "import a as b; c\n", "import a as b; c\n"),
    # An empty line that would stay twice, or first in its block, goes too.
    ("import a\n\nimport b\n\nb, a\n", "import a\n\nimport b\n\na\n", "import a\n\na\n"),
    ("import a\n\n\nb, a\n", "import a\n\n\nb\n", "\n\nb\n"[1:]),
    # Words in a string are no names.
    ("import a\na\nb = 'like a c'\n", "import a\nb = 'like a c'\n", "b = 'like a c'\n"),
    ("import a\na\nadd('-a', '--a')\n", "import a\nadd('-a', '--a')\n", "add('-a', '--a')\n"),
    ("import a, c\na\nx: 'c.a'\n", "import a, c\nx: 'c.a'\n", "import c\nx: 'c.a'\n"),
    # In functions.
    ("def f():\n    import a\n\n    a\n", "def f():\n    import a\n\n    b\n",
     "def f():\n    b\n"),
    ("class C:\n def f(self):\n  'doc'\n  import a, b\n  a, b\n",
     "class C:\n def f(self):\n  'doc'\n  import a, b\n  b\n",
     "class C:\n def f(self):\n  'doc'\n  import b\n  b\n"),
    ("def f(c):\n if c:\n  import a\n  g()\n  a\n", "def f(c):\n if c:\n  import a\n  g()\n",
     "def f(c):\n if c:\n  g()\n"),
    ("def f():\n import a\n a\ndef f():\n import a\n a\n",
     "def f():\n import a\n a\ndef f():\n import a\n b\n",
     "def f():\n import a\n a\ndef f():\n b\n"),
    # A star, when nothing that it may have brought is read.
    ("from torch.cuda.amp import *\nautocast()\n", "from torch.cuda.amp import *\nb()\n", "b()\n"),
    ("from torch.cuda.amp import *\nautocast(), GradScaler()\n",
     "from torch.cuda.amp import *\nb(), GradScaler()\n",
     "from torch.cuda.amp import *\nb(), GradScaler()\n"),
    ("from other import *\nautocast()\n", "from other import *\nb()\n",
     "from other import *\nb()\n"),
    # All of a block, in a `try`, or shared with other functions: they stay.
    ("def f(c):\n if c: import a\n", "def f(c):\n if c: import a\n",
     "def f(c):\n if c: import a\n"),
    ("def f(c):\n if c():\n  import a\n a\n", "def f(c):\n if c():\n  import a\n b\n",
     "def f(c):\n if c():\n  import a\n b\n"),
    ("def f(c):\n if c:\n  import a\n elif d:\n  c()\n a\n",
     "def f(c):\n if c:\n  import a\n elif d:\n  c()\n b\n",
     "def f(c):\n if c:\n  import a\n elif d:\n  c()\n b\n"),
    ("def f(c):\n while c:\n  import a\n a\n", "def f(c):\n while c:\n  import a\n b\n",
     "def f(c):\n while c:\n  import a\n b\n"),
    # An `if` for nothing but imports goes with them.
    ("def f(c):\n if c.d and not e:\n  import a\n\n a\n",
     "def f(c):\n if c.d and not e:\n  import a\n\n b\n", "def f(c):\n b\n"),
    ("def f(c):\n if c: import a\n a\n", "def f(c):\n if c: import a\n b\n",
     "def f(c):\n b\n"),
    ("def f(c):\n g()\n if c:\n  import a\n else:\n  a = None\n a\n",
     "def f(c):\n g()\n if c:\n  import a\n else:\n  a = None\n b\n",
     "def f(c):\n g()\n b\n"),
    ("def f():\n try:\n  import a\n  a\n except E: b\n",
     "def f():\n try:\n  import a\n  b\n except E: b\n",
     "def f():\n try:\n  import a\n  b\n except E: b\n"),
    ("def f():\n global a\n import a\n a\n", "def f():\n global a\n import a\n b\n",
     "def f():\n global a\n import a\n b\n"),
    # Unused before, for others, hidden in a string, or not to be touched: they stay.
    ("import a\n", "import a\n", "import a\n"),
    ("import a\na\ndef f():\n global a\n a = 1\n", "import a\ndef f():\n global a\n a = 1\n",
     "import a\ndef f():\n global a\n a = 1\n"),
    ("from a import b as b\nb\n", "from a import b as b\n", "from a import b as b\n"),
    ("import a\na\nb = ['a']\n", "import a\nb = ['a']\n", "import a\nb = ['a']\n"),
    ("import a\na\n__all__ = 'a b'.split()\n", "import a\n__all__ = 'a b'.split()\n",
     "import a\n__all__ = 'a b'.split()\n"),
    ("import a\na\nx: 'L[a.b]'\n", "import a\nx: 'L[a.b]'\n", "import a\nx: 'L[a.b]'\n"),
    ("import a\na\n'\\n>>> a.b'\n", "import a\n'\\n>>> a.b'\n", "import a\n'\\n>>> a.b'\n"),
    ("import a  # noqa\na\n", "import a  # noqa\n", "import a  # noqa\n"),
    ("try: import a\nexcept E: b\na\n", "try: import a\nexcept E: b\n",
     "try: import a\nexcept E: b\n"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("def f(amp): x(amp.autocast)\n", True),
        ("def f(amp):\n    mine = amp\n    x(mine.autocast)\n", True),
        ("class A:\n    def f(self): x(self.amp.autocast)\n", True),
        ("import amp\ndef f(): x(amp.autocast)\n", False),
        ("import amp\ndef f():\n    mine = amp.autocast\n    x(mine)\n", False),
        ("def f(amp): x(getattr(amp, 'autocast'))\n", True),
        ("def f(x): x(getattr(amp, 'autocast'))\n", False),
    ],
)
def test_a_name_that_callers_give(text: str, given: bool) -> None:
    src = source(text)
    assert is_given(view(src, call_in(src, "x").args[0].value)) is given


@pytest.mark.parametrize(("before", "fixed", "expected"), ORPHANS)
def test_imports_that_a_fix_has_orphaned_go(before: str, fixed: str, expected: str) -> None:
    gone = orphans(ast.parse(before), ast.parse(fixed))
    assert without(Text(fixed), gone) == expected


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("from .utils import autocast", True),
        ("from pkg.utils import a, autocast as b", True),
        ("from utils import (\n    other,\n    autocast,\n)", True),
        ("from utils import (\n    other,\n)\nautocast", False),
        ("    x = utils.autocast()", True),
        ("from utils import other, \\\n    autocast", True),
        ('hint = "from pkg.utils import other\\n"', False),
        ("from utils import other", False),
        ("from myutils import autocast", False),
        ("from torch import autocast", False),
    ],
)
def test_names_that_other_files_take(line: str, taken: bool) -> None:
    assert bool(exported("pkg/utils.py", "autocast").search(line)) is taken


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("from .utils import *", True),
        ("from pkg.utils import  *  # all", True),
        ("from utils import other", False),
        ("from myutils import *", False),
    ],
)
def test_names_that_other_files_take_by_a_star(line: str, taken: bool) -> None:
    assert bool(starred("pkg/utils.py").search(line)) is taken


# ------------------------------------------------------------------------------- findings


def rule(code: str) -> Rule:
    unrun = Unrun("made up", "nowhere")
    return Rule(
        code,
        "Doc.",
        Group.PRECISION,
        "0.1",
        unrun,
        anywhere("call"),
        safe_if=("it is so",),
        name=code.lower(),
    )


def test_a_finding_says_where_and_what() -> None:
    src = source("class A:\n    def f(self): item(é)\n")
    finding = src.finding(rule("AMP900"), call_in(src, "item"), "it is so")
    assert finding == Finding(
        "AMP900",
        "amp900",
        Group.PRECISION,
        "a.py",
        Span((2, 18), (2, 25)),
        "it is so",
        "A.f",
        url="docs/rules/AMP900.md",
    )


def test_the_scope_of_the_name_of_a_definition_is_that_definition() -> None:
    """Names of functions are not among the nodes that are walked."""
    for text, scope in (
        ("class A:\n    x = 1\n    def f(self): f()\n", "A.f"),
        ("def f(): pass\n", "f"),
        ("def g():\n    class B:\n        def f(self, f=1): pass\n", "g.B.f"),
    ):
        src = source(text)
        (function,) = [
            n for n in nodes(src) if isinstance(n, cst.FunctionDef) and n.name.value == "f"
        ]
        assert src.layout.scope(function.name) == scope
        assert src.layout.scope(function) == scope.rpartition(".")[0]


@pytest.mark.parametrize(
    ("before", "after_fix"),
    [
        ("x = f(a)\n", "x = g(a)\n"),
        ("x = f('#')\n", "x = g(a)\n"),
        ("x = f(a  # c\n)  # d\n", "# c\nx = g(a)  # d\n"),
        ("x = f(  # b\n  # b\n  a)\n", "# b\n# b\nx = g(a)\n"),
        ("if a:\n  x = [\n    1, f(\n  # c\n)]\n", "if a:\n  x = [\n    # c\n    1, g(a)]\n"),
        ("if a:\n  x = 1\nelif f(  # c\n):\n  y\n", "if a:\n  x = 1\n# c\nelif g(a):\n  y\n"),
        ("x = 1 + \\\n  f(  # c\n)\n", "# c\nx = 1 + \\\n  g(a)\n"),
        ('x = """\n""" + f(  # c\n)\n', '# c\nx = """\n""" + g(a)\n'),
        ("x = f(  # noqa\n)\n", "# noqa\nx = g(a)\n"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_fix_keeps_the_comments_in_what_it_replaces(
    before: str, after_fix: str, newline: str
) -> None:
    src = source(before.replace("\n", newline))
    fix = Fix("Do it", (src.edits.replace(call_in(src), "g(a)"),), Safety.SAFE, ("it is so",))
    found = src.finding(rule("AMP900"), call_in(src), "it is so", fix)
    assert found.fix is not None and found.fix.safety is Safety.SAFE
    assert after(src, *found.fix.edits) == after_fix.replace("\n", newline)


def test_a_comment_that_a_fix_moves_stands_there_once() -> None:
    src = source("x = f(a  # c\n)\n")
    fix = Fix("Do it", (src.edits.replace(call_in(src), "g(a  # c\n)"),), Safety.UNSAFE)
    found = src.finding(rule("AMP900"), call_in(src), "it is so", fix)
    assert found.fix == fix


@pytest.mark.parametrize(
    ("before", "after_fix"),
    [
        ("if a:\n  f(a)  # c\n  b\n", "if a:\n  # c\n  b\n"),
        ("if a:\n  f(  # c\n    # d\n  )\n  b\n", "if a:\n  # c\n  # d\n  b\n"),
        ("if a:\n  f(a)  # noqa: X1\n  b\n", "if a:\n  b\n"),
        ("if a:\n  f(a)  # c\n", "if a:\n  pass  # c\n"),
    ],
)
def test_the_comment_of_a_statement_that_goes_stays_unless_it_is_for_a_tool(
    before: str, after_fix: str
) -> None:
    src = source(before)
    statement = src.statement(call_in(src))
    assert statement is not None
    removal = src.edits.remove_statement(statement)
    assert removal is not None
    found = src.finding(
        rule("AMP900"), call_in(src), "it is so", Fix("Go", (removal,), Safety.UNSAFE)
    )
    assert found.fix is not None and after(src, *found.fix.edits) == after_fix


def test_the_comment_of_an_argument_that_goes_stays_in_its_place() -> None:
    src = source("x = f(\n    a,\n    b=1,  # c\n)\n")
    call = call_in(src)
    fix = Fix("Go", (src.edits.remove_argument(call, call.args[1]),), Safety.UNSAFE)
    found = src.finding(rule("AMP900"), call, "it is so", fix)
    assert found.fix is not None
    assert after(src, *found.fix.edits) == "x = f(\n    a,\n    # c\n)\n"


@pytest.mark.parametrize(
    ("written", "fixed"),
    [
        ("""f"{f(a)}\"""", """f"{g('cuda')}\""""),
        ("""f'{f(a)}'""", """f'{g("cuda")}'"""),
        ("""f"{x:{f(a)}}\"""", """f"{x:{g('cuda')}}\""""),
        ('''f"""{f(a)}"""''', '''f"""{g("cuda")}"""'''),
        ("""f"{f'{f(a)}'}\"""", None),
        ("""[f"{x}", f(a)]""", """[f"{x}", g("cuda")]"""),
    ],
)
def test_a_fix_within_an_f_string_has_other_quotes(written: str, fixed: str | None) -> None:
    src = source(f"x = {written}\n")
    fix = Fix("Do it", (src.edits.replace(call_in(src), 'g("cuda")'),), Safety.UNSAFE)
    found = src.finding(rule("AMP900"), call_in(src), "it is so", fix).fix
    assert (after(src, *found.edits) if found else None) == (fixed and f"x = {fixed}\n")


def test_a_condition_that_the_rule_does_not_declare_is_refused() -> None:
    src = source("f(a)\n")
    fix = Fix("Do it", (src.edits.replace(call_in(src), "g(a)"),), Safety.SAFE, ("it seems so",))
    with pytest.raises(ValueError, match=r"AMP900 does not declare .*it seems so"):
        src.finding(rule("AMP900"), call_in(src), "it is so", fix)


def test_a_fix_that_cannot_be_made_is_left_out() -> None:
    src = source("def h():\n\f  f(x)\n  y\n")  # LibCST drops the form feed, and with it all offsets
    call = call_in(src)
    fix = Fix("Do it", (src.edits.replace(call, "y"),), Safety.SAFE, ("it is so",))
    found = src.finding(rule("AMP900"), call, "it is so", fix)
    assert found.fix is None
    assert found.span == ((2, 4), (2, 8))


def test_reasons_are_shown_in_characters_in_this_and_other_files() -> None:
    others = {"b.py": Text("ß = é\n")}
    text = "é = 1\n"
    facts = about(text)
    layout = Layout("a.py", Text(text), facts.module)
    src = Source(layout, facts, lambda at: span_in(others.get(at.path), at))
    spans = [
        src.related(Evidence(Place(path, 1, 5, 1, end), "because", Shows.CALL)).span
        for path, end in (("a.py", 6), ("b.py", 7), ("unread.py", 7))
    ]
    assert spans == [((1, 5), (1, 6)), ((1, 5), (1, 6)), ((1, 6), (1, 8))]
