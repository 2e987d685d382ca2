"""`apex.amp` is superseded by `torch.amp`, and no longer maintained.

    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for x, y in loader:
        loss = criterion(model(x), y)
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        optimizer.step()

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

Level O1 is this: autocast and a scaler. O0 is float32 and needs neither. O2 (half weights, with
float32 copies in the optimizer) and O3 (half alone) have no successor; try that of O1. The finding
is at `initialize`, or at each call if `initialize` is in another function.

Fix safety: unsafe: rewrites level O1 in the whole function. The lists of operations that run in
half differ from apex's, and code outside the region, such as an evaluation, then runs in float32.
Not offered if the calls are spread over several functions, or get anything else than one model and
one optimizer; or if apex is optional, by an import that may fail (`except ImportError: amp = None`)
or that is under an `if`: the alternative is not known. The fix needs torch 2.3, and is a suggestion
if the project allows an older version.

Known limits: `apex.parallel.SyncBatchNorm`, the fused optimizers and the rest of apex are not
reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from amplint import (
    Edit,
    Finding,
    Fix,
    Group,
    Rule,
    Safety,
    Unrun,
    View,
    calls,
    constant,
    in_functions_with,
    nodes,
)
from amplint import libcst as cst
from amplint.knowledge.since import SINCE

from .._shared.forward import belongs_after

if TYPE_CHECKING:
    from amplint import Source

INITIALIZE, SCALE_LOSS = "apex.amp.initialize", "apex.amp.scale_loss"
MASTER_PARAMS = "apex.amp.master_params"
PUBLIC = frozenset(
    f"apex.amp.{name}"
    for name in """
    initialize scale_loss master_params state_dict load_state_dict
    float_function half_function promote_function
    register_float_function register_half_function register_promote_function
    """.split()
)
STATES = frozenset({"apex.amp.state_dict", "apex.amp.load_state_dict"})
PARALLEL = "apex.parallel.DistributedDataParallel"
UNDERSTOOD = frozenset({"opt_level", "verbosity"})  # keywords of `initialize`
SUCCESSORS = {
    "O0": "level O0 is plain float32",
    "O1": "level O1 is autocast and a GradScaler",
    "O2": "level O2 has no successor, O1's is autocast and a GradScaler",
    "O3": "level O3 has no successor, O1's is autocast and a GradScaler",
    None: "level O1 is autocast and a GradScaler",
}


rule = Rule(
    "AMP705",
    __doc__,
    group=Group.MIGRATION,
    since="0.1",
    fixes_torch=SINCE["torch.amp.GradScaler"],
    help="use `torch.autocast` and `torch.amp.GradScaler`, or `torch.nn.parallel`",
    witness=Unrun(
        "apex is not on PyPI (the package of this name there is another project)",
        "https://nvidia.github.io/apex/amp.html",
    ),
)


@rule.on(calls(*PUBLIC, PARALLEL))
def check_call(call: View) -> Iterator[Finding]:
    function, name = call.operands[0], call.callee or ""
    if name == PARALLEL:
        message = f"`{function.text}` is superseded by `torch.nn.parallel`"
        yield call.finding(message, place=function.cst)
    elif name == INITIALIZE:
        level = opt_level(call)
        message = f"apex is superseded by `torch.amp`: {SUCCESSORS.get(level, SUCCESSORS[None])}"
        others = [each for each in calls_around(call) if each != call]
        because = [other.related("belongs to it") for other in others]
        wanted = level == "O1" and not is_option(call.source)
        yield call.finding(message, because, Migration(call, others).fix() if wanted else None)
    elif name in PUBLIC and all(each.callee != INITIALIZE for each in calls_around(call)):
        yield call.finding(f"`{function.text}` is superseded by `torch.amp`")


@rule.on(nodes("context") & in_functions_with(PUBLIC))
def check_decorator(decorator: View) -> Iterator[Finding]:
    """Ex) @amp.float_function, without a call"""
    name = decorator.name or ""
    if name in PUBLIC:
        message = f"`{decorator.text}` is superseded by `torch.amp`"
        if name.endswith("float_function"):
            message += ": open a region with `enabled=False`"
        yield decorator.finding(message)


def calls_around(call: View) -> list[View]:
    """The calls of apex.amp in the function that holds a call."""
    return [each for each in call.operations("call") if each.callee in PUBLIC]


def opt_level(call: View) -> str | None:
    given = call.arg("opt_level")
    if given is None:
        return None if call.has_star or len([*call.arguments]) > 2 else "O1"
    level = constant(given.value)
    return level if isinstance(level, str) else None


def is_option(src: Source) -> bool:
    """Whether the file goes on without apex: by `except ImportError: amp = None`, or an `if`."""
    return any(
        (
            (isinstance(node, ast.If) and not isinstance(node.test, ast.Constant))
            or (isinstance(node, ast.Try) and not reraises(node))
        )
        and any(imports_apex(line) for line in node.body)
        for node in ast.walk(src.layout.module)
    )


def reraises(node: ast.Try) -> bool:
    return all(any(isinstance(n, ast.Raise) for n in ast.walk(h)) for h in node.handlers)


def imports_apex(line: ast.stmt) -> bool:
    names = [alias.name for alias in line.names] if isinstance(line, ast.Import) else []
    if isinstance(line, ast.ImportFrom) and line.module is not None:
        names.append(line.module)
    return any(name.partition(".")[0] == "apex" for name in names)


class Migration:
    """The edits of one function that is to use torch.amp.

    Args:
        call: of `initialize`.
        others: the calls of apex.amp besides.
    """

    def __init__(self, call: View, others: Sequence[View]) -> None:
        self.at = call
        self.call: cst.Call = call.cst
        self.src = call.source
        self.others = others
        self.edits: list[Edit | None] = []

    def fix(self) -> Fix | None:
        """All edits, or none where one of the calls is not understood."""
        function = self.src.function(self.call)
        spelled = self.src.imports.spell("torch")
        scales = any(each.callee == SCALE_LOSS for each in self.others)
        if not isinstance(function, cst.FunctionDef) or spelled is None or not scales:
            return None
        if any(name.value == "scaler" for name in self.src.layout.names(function)):
            return None
        self.torch = spelled.text
        names = self._names()
        statement = self.src.statement(self.call)
        if names is None or not isinstance(statement, cst.SimpleStatementLine):
            return None
        if len(statement.body) != 1:
            return None
        model, optimizer = names
        made = f'scaler = {self.torch}.amp.GradScaler("cuda")'
        self.edits += [*spelled.edits, self.src.edits.replace(statement.body[0], made)]
        understood = all(self._rewrite(each, model, optimizer) for each in self.others)
        steps = [self._step(each, optimizer) for each in self.src.calls(function)]
        if not understood or not any(steps):
            return None
        if any(edit is None for edit in self.edits):
            return None
        edits = tuple(edit for edit in self.edits if edit is not None)
        return Fix("Use torch.amp in this function", edits, Safety.UNSAFE)

    def _names(self) -> tuple[str, str] | None:
        """`model` and `optimizer` of `model, optimizer = amp.initialize(model, optimizer, ...)`"""
        assigned = self.src.layout.assignment(self.call)
        if not isinstance(assigned, cst.Assign) or len(assigned.targets) != 1:
            return None
        target = assigned.targets[0].target
        positional = [arg for arg in self.call.args if arg.keyword is None and not arg.star]
        keywords = {arg.keyword.value for arg in self.call.args if arg.keyword is not None}
        if not isinstance(target, cst.Tuple) or not keywords <= UNDERSTOOD:
            return None
        given = [self.src.text(arg.value) for arg in positional]
        names = [self.src.text(element.value) for element in target.elements]
        return (names[0], names[1]) if given == names and len(names) == 2 else None

    def _rewrite(self, at: View, model: str, optimizer: str) -> bool:
        name, call = at.callee, at.cst
        if name == SCALE_LOSS:
            return self._scale(call, model, optimizer)
        if name == MASTER_PARAMS:
            statement = self.src.statement(call)
            if self._arguments(call) != [optimizer] or statement is None:
                return False
            unscale = f"scaler.unscale_({optimizer})"
            self.edits.append(self.src.edits.insert_statement_before(statement, unscale))
            self.edits.append(self.src.edits.replace(call, f"{model}.parameters()"))
            return True
        if name in STATES:
            method = name.rpartition(".")[2]
            self.edits.append(self.src.edits.replace(call.func, f"scaler.{method}"))
            return True
        return False

    def _scale(self, call: cst.Call, model: str, optimizer: str) -> bool:
        """Ex) with amp.scale_loss(loss, optimizer) as scaled: scaled.backward()"""
        item = self.src.parent(call)
        opened = self.src.parent(item)
        block = self.src.parent(opened)
        given = self._arguments(call)
        if not isinstance(item, cst.WithItem) or not isinstance(opened, cst.With):
            return False
        if len(opened.items) != 1 or item.asname is None or len(given) != 2:
            return False
        if given[1] != optimizer or not isinstance(block, cst.IndentedBlock):
            return False
        backward = self._only_call(opened.body)
        scaled = self.src.text(item.asname.name)
        if backward is None or self.src.text(backward.func) != f"{scaled}.backward":
            return False
        arguments = self.src.text(backward)[len(f"{scaled}.backward") :]
        text = f"scaler.scale({given[0]}).backward{arguments}"
        self.edits.append(self.src.edits.replace(opened, text))
        return self._region(block, opened, model)

    def _region(self, block: cst.IndentedBlock, opened: cst.With, model: str) -> bool:
        """Put the forward pass into a region: from the first statement that runs the model on, and
        up to the backward pass, except what belongs behind it, such as `optimizer.zero_grad()`."""
        body = list(block.body)
        end = next(i for i, line in enumerate(body) if line is opened)
        start = next((i for i, line in enumerate(body[:end]) if self._runs(line, model)), None)
        if start is None:
            return False
        while self._belongs_after(body[end - 1]):
            end -= 1
        header = f'with {self.torch}.autocast("cuda"):'
        edits = self.src.edits.indent(body[start:end], header)
        self.edits += edits
        return bool(edits)

    def _belongs_after(self, statement: cst.BaseStatement) -> bool:
        calls = list(self.src.calls(statement))
        return bool(calls) and all(belongs_after(self.at.of(call)) for call in calls)

    def _runs(self, statement: cst.BaseStatement, model: str) -> bool:
        return any(self.src.text(call.func) == model for call in self.src.calls(statement))

    def _step(self, call: cst.Call, optimizer: str) -> bool:
        """`optimizer.step()` -> `scaler.step(optimizer)` and `scaler.update()`"""
        statement = self.src.statement(call)
        if self.src.text(call.func) != f"{optimizer}.step" or call.args or statement is None:
            return False
        self.edits.append(self.src.edits.replace(call, f"scaler.step({optimizer})"))
        self.edits.append(self.src.edits.insert_statement_after(statement, "scaler.update()"))
        return True

    def _arguments(self, call: cst.Call) -> list[str]:
        """The positional arguments as they are written; none where there are others."""
        if any(arg.keyword is not None or arg.star for arg in call.args):
            return []
        return [self.src.text(arg.value) for arg in call.args]

    def _only_call(self, body: cst.BaseSuite) -> cst.Call | None:
        """The call that a block consists of."""
        lines = body.body
        small = lines[0] if len(lines) == 1 else None
        if isinstance(small, cst.SimpleStatementLine) and len(small.body) == 1:
            small = small.body[0]
        expression = small.value if isinstance(small, cst.Expr) else None
        return expression if isinstance(expression, cst.Call) else None
