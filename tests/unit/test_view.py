"""Views: on the value graph alone they answer as with the code at hand, or say that they cannot."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amplint import (
    HOT,
    READ,
    UNKNOWN,
    Classes,
    Finding,
    Group,
    Rule,
    TensorCertainty,
    Unrun,
    Value,
    View,
    calls,
    constant,
    nodes,
    region_dtype,
)
from amplint.analyses.hotness import Hotness
from amplint.facts.inference_results import Regions, Values
from amplint.facts.program import Program
from amplint.facts.recorded_questions import NotedView, name_of
from amplint.ir import ops
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.ir.ssa import where
from amplint.rule.search import CandidateSearch, FileCandidates, may_find, rows_of
from amplint.run.judge import JudgedFile, judge, views_of
from amplint.source.navigation import Layout
from amplint.source.source import Source
from amplint.util.positions import Place
from amplint.util.text import Text, span_in
from amplint.view.operands import parts_of
from amplint.view.view import FileCode
from tests.helpers import FIXTURES
from tests.unit.test_units import PROGRAMS

LOOP = """\
import torch
def train(model, loader, optimizer, n, *rest):
    for x in loader:
        x = x.cuda()
        longest = x.max()
        model(x[:, :longest], k=longest, *rest).sum().backward()
        torch.arange((n), x.size(0), *rest, device="cuda")
        x[longest] += 1
        optimizer.step()
"""


def rule() -> Rule:
    unrun = Unrun("made up", "nowhere")
    return Rule("AMP900", "Doc.", Group.PRECISION, "0.1", unrun, name="made-up")


class Project:
    """A file that is a project."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.files = Files({"a.py": File("a.py", text)})
        self.program = Program(self.files)

    def search(self, found: Rule) -> CandidateSearch:
        return CandidateSearch(self.files, self.program.facts, [found], may_find)

    def judged(self, found: Rule) -> JudgedFile:
        candidates = self.search(found).of("a.py")
        return judge("a.py", Text(self.text), self.program.about("a.py"), candidates, [found])

    def views(self, found: Rule) -> list[View]:
        """What the checks of a rule are shown, with the code at hand and with every question
        noted."""
        self.noted = NotedView(self.files.own["a.py"], self.program.facts, spans)
        layout = Layout("a.py", Text(self.text), self.noted.module)
        code = FileCode(Source(layout, self.noted, spans), self.noted)
        shown = self.search(found).of("a.py").nodes
        return [view for view, _ in views_of(shown, {found.code: found}, code)]


def spans(place: Place):  # type: ignore[no-untyped-def]
    return span_in(None, place)


def nothing(_: View) -> Iterator[Finding]:
    yield from ()


def written(at: View) -> Iterator[Finding]:
    yield at.finding(at.brief)


def shown(text: str, op: str, check: Callable[[View], Iterator[Finding]] = written) -> list[View]:
    found = rule()
    found.on(nodes(op))(check)
    return Project(text).views(found)


# ------------------------------------------------------------------------------ what is a candidate


def test_a_node_is_a_candidate_where_its_check_finds_something_or_asks_for_the_code() -> None:
    def check(at: View) -> Iterator[Finding]:
        if at.callee == "torch.arange" or (at.callee == "Tensor.size" and at.text == "x.size(1)"):
            yield at.finding("found")

    found = rule()
    found.on(calls("torch.arange", "Tensor.size", "Tensor.sum") & HOT)(check)
    project = Project(LOOP)
    shown = project.search(found).of("a.py").nodes
    assert [[*each.here.names][-1] for each in shown] == ["Tensor.size", "torch.arange"]
    assert [each.message for each in project.judged(found).findings] == ["found"]


def test_no_tree_is_made_for_the_search() -> None:
    found = rule()
    found.on(nodes("call"))(written)
    project = Project(LOOP)
    file = project.files.own["a.py"]
    file.forget()
    assert project.search(found).of("a.py").nodes
    assert file._parsed is None


def test_two_conditions_for_one_check_show_it_a_node_once() -> None:
    found = rule()
    found.on(nodes("call") | calls("torch.arange") | nodes("call") & HOT)(written)
    messages = [each.message for each in Project(LOOP).judged(found).findings]
    assert messages.count("x.cuda()") == 1


def test_what_is_read_and_written_is_shown_once() -> None:
    found = rule()
    found.on(nodes("subscript", "put"))(written)
    messages = [each.message for each in Project(LOOP).judged(found).findings]
    assert messages == ["x[:, :longest]", "x[longest]"]


def test_an_annotation_in_quotes_is_no_expression() -> None:
    assert [view.text for view in shown('def f(x: "A[int]"): return x[0]\n', "subscript")] == [
        "x[0]"
    ]


def test_kept_findings_rest_on_the_nodes_that_were_shown() -> None:
    """Two nodes of one row are two candidates: what changes elsewhere may add the second one."""
    found = rule()
    found.on(nodes("call"))(written)
    candidates = Project("def f(x): return x.a(), x.b()\n").search(found).of("a.py")
    one, two = candidates.nodes
    assert one.row == two.row
    assert rows_of(candidates) != rows_of(FileCandidates([one]))


STATEMENTS = """import os, sys
from torch import amp

class Model(Base):
    @amp.wrapped
    def run(self, x: int, found):
        while x:
            x -= 1
        if found and not x:
            with found as opened, amp.entered(x):
                self.field = [each for each in x if each]
        else:
            assert x if found else opened
        return lambda: x
"""


@pytest.mark.parametrize(
    ("op", "texts"),
    [
        ("test", ["x", "found and not x", "found", "x", "each", "x if found else opened", "found"]),
        ("context", ["found", "amp.entered(x)", "amp.wrapped"]),
        ("function", ["def run(self, x: int, found):", "lambda: x"]),
        ("aug", ["x -= 1"]),
        ("import", ["import os, sys", "import os, sys", "from torch import amp"]),
        ("store", ["self.field"]),
        ("assert", ["assert x if found else opened"]),
        ("return", ["return lambda: x"]),
        ("class", ["class Model(Base):"]),
    ],
)
def test_what_is_no_expression_is_a_view_too(op: str, texts: list[str]) -> None:
    views = shown(STATEMENTS, op)
    assert sorted(view.text.strip().partition("\n")[0] for view in views) == sorted(texts)
    assert all(view.op == READ for view in views if view.text == "found")


def test_any_node_of_the_file_is_a_view() -> None:
    (call,) = [view for view in shown(LOOP, "call") if view.callee == "torch.arange"]
    argument = call.of(call.cst.args[0].value)
    assert (argument.op, argument.text, argument.tensor) == (READ, "(n)", None)
    keyword = call.of(call.cst.args[-1].value)
    assert constant(keyword.value) == "cuda"
    assert call.of(call.cst.args[-1]).hotness == call.hotness
    assert call.of(call.cst.args[-1]).value == UNKNOWN


# ------------------------------------------------------------------------------ what is known


def test_a_fact_that_is_asked_for_in_the_wrong_way_says_how() -> None:
    view: Any = shown(LOOP, "call")[0]
    with pytest.raises(TypeError, match=r"call `at.fact\(Classes\)`: "):
        view.ask(Classes)
    with pytest.raises(TypeError, match=r"call `at.ask\(Hotness\)`: "):
        view.fact(Hotness)


MODULES = """\
import torch, lightning, registry, yaml
from torch import nn
class Base(lightning.LightningModule): ...
class Deep(Base): ...
class Stacked(nn.Sequential): ...
class Other:
    def run(self): ...
class Mixin: ...
class Mixed(Mixin, nn.Module): ...
def run(flag, unknown, given: nn.Module, other: Other, *args, **kwargs):
    late = None
    if flag:
        late = Deep()
    either = Deep() if flag else nn.Linear(1, 1)
    some = Deep() if flag else Other()
    %s(1)
"""


ARE = """nn.Linear(1, 1)|nn.CrossEntropyLoss()|nn.ModuleList([Deep()])[0]|Deep()|Mixin()|given|\
Stacked(nn.ReLU())|late|either|{"a": nn.Linear, "b": Deep}[unknown](8)"""
ARE_NOT = """some|Deep|Other()|other|unknown|None|torch.zeros(1)|Deep().forward|print|args[0]|\
kwargs["net"]|registry.MODELS.build(unknown)|registry.MODELS[unknown](8)|getattr(nn, unknown)(8)|\
torch.load(unknown)|yaml.safe_load(unknown)["net"]"""


@pytest.mark.parametrize("written", f"{ARE}|{ARE_NOT}".split("|"))
def test_modules_of_libraries_and_of_the_project_are_modules(written: str) -> None:
    found: dict[str, bool] = {}

    def check(at: View) -> Iterator[Finding]:
        is_known = at.called.is_module  # on the graph, and then with the code
        assert found.setdefault(at.text, is_known) is is_known
        yield at.finding(at.brief)

    shown = rule()
    shown.on(nodes("call"))(check)
    assert Project(MODULES % written).judged(shown).problems == ()
    assert found[f"{written}(1)"] is (written in ARE.split("|"))


CLASSES = """\
import torch
class Model(torch.nn.Module):
    def forward(self, x, scale):
        def inner(y):
            return [y.exp(), (lambda z: z.log())(y)]
        return inner(x).sin()
class Other:
    def run(self, x): return x.cos()
def run(x): return x.tan()
"""


@pytest.mark.parametrize(
    ("method", "function", "is_module"),
    [
        ("exp", "inner", True),
        ("log", "<lambda>", True),
        ("sin", "forward", True),
        ("cos", "run", False),
        ("tan", "run", False),
    ],
)
def test_the_function_and_the_class_around_an_operation(
    method: str, function: str, is_module: bool
) -> None:
    found: list[tuple[str, bool]] = []

    def check(at: View) -> Iterator[Finding]:
        found.append((at.function.name, "torch.nn.Module" in at.bases))
        yield at.finding(at.brief)

    shown = rule()
    shown.on(calls(f".{method}"))(check)
    project = Project(CLASSES)
    (view,) = project.views(shown)
    [*check(view)]
    assert found == [(function, is_module)] * 2  # on the graph, and with the code
    assert "amplint.facts.project_classes.Classes" in {
        each.question[0] for each in project.noted.notes.questions or ()
    }
    assert view.of(view.source.layout.node_for(project.noted.module.body[0])).function.name == ""


AROUND = """\
import torch
def train(model, loader, optimizer):
    region = torch.autocast("cuda")
    with region, torch.no_grad():
        for x in loader:
            with open("log") as log:
                yield log.write(str(model(x).sum().backward()))
                optimizer.step()
    with torch.autocast("cuda", enabled=False):
        return lambda: loader.reset()
"""


@pytest.mark.parametrize(
    ("method", "contexts", "dtype", "is_generator"),
    [
        ("write", ['open("log")', "torch.no_grad()", "region"], "float16", True),
        ("reset", [], None, False),
    ],
)
def test_what_the_withs_around_an_operation_enter(
    method: str, contexts: list[str], dtype: str | None, is_generator: bool
) -> None:
    def check(at: View) -> Iterator[Finding]:
        found.append((at.is_generator, [each.value for each in at.contexts_around]))
        yield at.finding(at.brief)

    found = list[object]()
    asks = rule()
    asks.on(calls(f".{method}"))(check)
    (view,) = Project(AROUND).views(asks)
    [*check(view)]
    assert found[0] == found[1] and view.is_generator is is_generator
    assert [each.text for each in view.contexts_around] == contexts
    assert all((each.op == READ) is (each.text == "region") for each in view.contexts_around)
    assert (view.enabled_region and region_dtype(view.enabled_region)) == dtype
    nowhere = view.of(view.cst.func.attr)
    assert not nowhere.is_generator and not [*nowhere.contexts_around]


STALE = """\
import torch
def train(loader):
    model = torch.nn.Linear(3, 3).cuda()
    optimizer = torch.optim.SGD(model.parameters())
    region = torch.autocast("cuda")
    with region:
        for x in loader:
            model(x.cuda()).sum().backward()
            optimizer.step()
    with region:
        return model(x)
"""


def test_a_region_keeps_casts_where_it_is_entered() -> None:
    def check(at: View) -> Iterator[Finding]:
        if at.stale is not None:
            yield at.finding(at.brief)

    asks = rule()
    asks.on(nodes("context"))(check)
    (finding,) = Project(STALE).judged(asks).findings
    assert (finding.message, finding.span.start.row) == ("region", 6)


CONTEXTS = """\
import torch
def train(model, x, scale, opened):
    with opened, torch.autocast("cuda"):
        @torch.no_grad()
        def inner():
            with torch.enable_grad(): ...
    with torch.inference_mode(): ...
    return scale(x).exp()
"""


def test_the_contexts_that_a_function_enters() -> None:
    found: list[list[Value]] = []

    def check(at: View) -> Iterator[Finding]:
        found.append([each.value for each in at.contexts])
        yield at.finding(at.brief)

    (view,) = shown(CONTEXTS, "return", check)
    [*check(view)]
    assert len(found) == 2  # on the graph, and with the code
    assert found[0] == found[1]
    texts = [each.text for each in view.contexts]
    assert texts == ["opened", 'torch.autocast("cuda")', "torch.inference_mode()"]
    nowhere = view.of(view.cst.whitespace_after_return)
    assert [*nowhere.contexts] == []


def test_a_read_of_a_variable_stands_where_it_is_written() -> None:
    (view,) = [view for view in shown(LOOP, "call") if view.callee == "torch.arange"]
    number, size, *_ = [argument for _, _, argument in view.arguments]
    assert (number.op, number.text, number.span.start.row) == (READ, "(n)", 7)
    assert (size.op, size.text) == (ops.CALL, "x.size(0)")
    device = view.arg("device")
    assert device is not None and device.text == '"cuda"'
    assert view.arg("end", 2) is None  # behind a star


@pytest.mark.parametrize(
    ("written", "argument"),
    [("f(1, a=2)", 2), ("f(1, 2)", 2), ("f(1)", None), ("f(*x, 2)", None), ("f(1, 2, *x)", 2)],
)
def test_an_argument_is_found_by_name_or_place(written: str, argument: int | None) -> None:
    found: list[object] = []

    def check(at: View) -> Iterator[Finding]:
        given = at.arg("a", 1)
        found.append(constant(given.value) if given is not None else None)
        yield at.finding(at.brief)

    (view,) = shown(f"{written}\n", "call", check)
    [*check(view)]
    assert found == [argument, argument]  # on the graph, and with the code


def test_the_operators_of_a_comparison() -> None:
    (view,) = shown("def f(x): return 0 < x not in (1, 2)\n", "compare")
    assert [*view.operators] == ["Lt", "NotIn"]


def test_what_is_no_call_has_no_arguments() -> None:
    (view,) = shown(LOOP, "put")
    assert not [*view.arguments]
    assert (view.arg("x", 0), view.callee, view.method) == (None, None, "")


def test_the_operations_that_take_a_value() -> None:
    (view,) = shown(LOOP, "put")
    longest = view.operands[1]
    assert sorted(use.text for use in longest.uses) == [
        "model(x[:, :longest], k=longest, *rest)",
        "x[:, :longest]",
        "x[longest]",
    ]


ORIGINS = """def f(x, flag):
    made = x.cpu()
    if made is not None:
        g(made)
    either = made if flag else x
    g(x)
    g(either)
    g(x.cuda())
    for each in x:
        g(each)
"""


def test_what_has_made_the_value_of_a_variable() -> None:
    given = [each.arguments for each in shown(ORIGINS, "call") if each.text.startswith("g(")]
    origins = [argument.origin for ((_, _, argument),) in given]
    assert [(each.op, each.text if each.is_written else "") for each in origins] == [
        (ops.CALL, "x.cpu()"),
        (ops.PARAM, ""),
        (ops.PHI, "made if flag else x"),
        (ops.CALL, "x.cuda()"),
        (ops.ITER, ""),
    ]


def test_a_value_that_is_given_twice_stands_in_two_places() -> None:
    (view,) = shown("def f(x): return g(x, other=x)\n", "call")
    one, other = view.arg("one", 0), view.arg("other", 1)
    assert one is not None and other is not None
    assert (view.called.text, one.span.start.column) == ("g", 20)
    assert other.span.start.column == 29


def test_the_operations_of_its_function() -> None:
    (view,) = [view for view in shown(CLASSES, "call") if view.text.endswith(".sin()")]
    assert [each.text for each in view.operations("call")] == ["inner(x)", "inner(x).sin()"]
    (function,) = [each for each in shown(CLASSES, "function") if "def forward" in each.text]
    assert [each.text for each in function.operations("return")] == ["return inner(x).sin()"]


@pytest.mark.parametrize(
    ("op", "texts"),
    [
        ("aug", ["x", "1"]),
        ("assert", ["x if found else opened"]),
        ("return", ["lambda: x"]),
        ("store", ["self"]),
    ],
)
def test_what_statements_are_made_of(op: str, texts: list[str]) -> None:
    (view,) = shown(STATEMENTS, op)
    assert [each.text for each in view.operands if each.is_written] == texts
    assert all(each.op == READ for each in view.operands if each.is_written and each.text == "x")


ASSIGNMENTS = """from torch import Tensor
held: Tensor
def f(self, x, table):
    self.one = table["two"] = x
    self.three: Tensor = x.cpu()
    self.four, table["five"] = x
    self.six += x
"""


def test_what_is_assigned_to_a_field_or_an_element() -> None:
    views = [*shown(ASSIGNMENTS, "store"), *shown(ASSIGNMENTS, "put")]
    assigned = {view.text: view.assigned for view in views}
    texts = {target: value and (value.op, value.text) for target, value in assigned.items()}
    assert texts == {
        "self.one": (READ, "x"),
        'table["two"]': (READ, "x"),
        "self.three": (ops.CALL, "x.cpu()"),
        "self.four": None,
        'table["five"]': None,
        "self.six": None,
    }


def test_the_annotation_of_a_variable_is_an_operand() -> None:
    (annotation,) = [
        operand
        for view in shown(ASSIGNMENTS, "annotation")
        for operand in view.operands
        if operand.op == READ
    ]
    assert (annotation.text, annotation.name) == ("Tensor", "torch.Tensor")


HELD = """\
def f(x, flag):
    made = x.half()
    kept = made
    kept.use(made)
    return (made if flag else x.float()).use(x)
"""


def test_the_loops_around_an_operation() -> None:
    (view,) = [view for view in shown(LOOP, "call") if view.callee == "torch.arange"]
    assert [*view.loops] == [None] and view.hotness is not None
    within = LOOP.replace("x = x.cuda()", "for y in x: y.cuda()")
    (view,) = [view for view in shown(within, "call") if view.method == "cuda"]
    inner, outer = view.loops
    assert inner is not None and outer is None
    (test,) = shown(STATEMENTS, "aug")
    assert [*test.loops] == [None]


def test_a_value_that_is_joined_with_another_is_merged() -> None:
    use, *_ = [view for view in shown(HELD, "call") if view.method == "use"]
    receiver = use.receiver
    assert receiver is not None and receiver.origin.text == "x.half()"
    assert receiver.origin.is_merged and not use.is_merged


def test_views_of_one_expression_are_equal() -> None:
    use, *_ = [view for view in shown(HELD, "call") if view.method == "use"]
    receiver, argument = use.receiver, use.arg("x", 0)
    assert receiver is not None and argument is not None
    assert receiver == use.receiver and receiver != argument
    assert receiver.origin == argument.origin
    assert use.of(use.cst.args[0]) == use.of(use.cst.args[0])
    assert len({receiver, argument, receiver.origin, use.receiver}) == 3


@pytest.mark.parametrize(
    ("ask", "fact"),
    [
        (lambda at: at.value, Values),
        (lambda at: at.tensor, Values),
        (lambda at: at.callee, Values),
        (lambda at: at.hotness, Hotness),
        (lambda at: at.region, Regions),
        (lambda at: at.ask(TensorCertainty), TensorCertainty),
    ],
)
def test_what_a_view_is_asked_is_noted(ask: Callable[[View], object], fact: type) -> None:
    found = rule()
    found.on(calls("torch.arange"))(written)
    project = Project(LOOP)
    (view,) = project.views(found)
    for each in (view, *(argument for _, _, argument in view.arguments)):
        before = len(project.noted.notes.questions or ())
        ask(each)
        after = project.noted.notes.questions
        assert after is not None
        assert {question.question[0] for question in after[before:]} <= {name_of(fact)}
    assert name_of(fact) in {each.question[0] for each in project.noted.notes.questions or ()}


@pytest.mark.parametrize(
    "path", sorted(FIXTURES.glob("*/bad.py")), ids=lambda path: path.parent.name
)
def test_the_parts_of_expressions_are_the_operands_of_their_nodes(path: Path) -> None:
    assert paired(path.read_text(encoding="utf-8")) > 0


@pytest.mark.parametrize("text", PROGRAMS, ids=lambda text: text[:20])
def test_the_parts_of_any_expression_are_the_operands_of_its_node(text: str) -> None:
    paired(text)


def paired(text: str) -> int:
    """How many expressions have parts that are the operands of their nodes, each in its place; all
    that have operands are tried."""
    file = File("a.py", text)
    count = 0
    for function in [*file.facts.functions]:
        graph = file.graph(function)
        placed = file.placed().within(function)
        for thing, at in placed.items():
            node = graph.nodes[at.node]
            made = isinstance(thing, ast.expr) and where(thing) == node.location
            if not made or isinstance(thing, ast.Name | ast.NamedExpr | ast.FormattedValue):
                continue
            parts = [placed[part].node for part in parts_of(thing) if part is not None]
            operands = node.operands[: len(parts)]
            assert tuple(parts) == operands, ast.unparse(thing)
            # Of `x[i] = y` and `yield`: the value, which is no part of what is written.
            others = node.op == ops.PUT or (node.op == ops.YIELD and not parts)
            assert len(node.operands) - len(parts) == others, ast.unparse(thing)
            count += bool(parts)
    return count
