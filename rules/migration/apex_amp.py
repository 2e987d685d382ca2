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
Not offered if the calls are spread over several functions, get anything else than one model and one
optimizer; or if apex may be optional, by an import in a `try` or under an `if`: the alternative is
not known. The fix needs torch 2.3, and is a suggestion if the project allows an older version.

Known limits: `apex.parallel.SyncBatchNorm`, the fused optimizers and the rest of apex are not
reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

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
INITIALIZED = re.compile(
    r"(?P<model>[\w.]+), (?P<optimizer>[\w.]+) = [\w.]+\("
    r"\s*(?P=model),\s*(?P=optimizer)(,\s*(opt_level|verbosity)=[^,()]+)*,?\s*\)"
)
BACKWARD = re.compile(
    r"with [\w.]+\((?P<loss>.+), (?P<optimizer>[\w.]+)\) as (?P<scaled>\w+):"
    r"\s+(?P=scaled)\.backward(?P<arguments>\(.*\))\s*"
)
# An import in a `try` or under an `if`: the file may go on without apex.
OPTIONAL = re.compile(r"^[ \t]+(from|import) apex\b", re.MULTILINE)
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
        can_migrate = level == "O1" and not call.source.says(OPTIONAL)
        yield call.finding(message, because, migration(call, others) if can_migrate else None)
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
    argument = call.arg("opt_level")
    if argument is None:
        return None if call.has_star or len([*call.arguments]) > 2 else "O1"
    level = constant(argument.value)
    return level if isinstance(level, str) else None


def migration(call: View, others: Sequence[View]) -> Fix | None:
    """The fix of a function that is to use torch.amp: all edits, or none where one of the other
    calls of apex is not understood."""
    src, line = call.source, call.source.statement(call.cst)
    function, torch = src.function(call.cst), src.imports.spell("torch")
    if not isinstance(function, cst.FunctionDef):
        return None
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    named = INITIALIZED.fullmatch(src.text(line.body[0]))
    if named is None or any(name.value == "scaler" for name in src.layout.names(function)):
        return None
    model, optimizer = named["model"], named["optimizer"]
    scaler = f'scaler = {torch.text}.amp.GradScaler("cuda")'
    edits = [*torch.edits, src.edits.replace(line.body[0], scaler)]
    for other in others:
        changes = adapted(other, model, optimizer, torch.text)
        if not changes:
            return None
        edits += changes
    steps = [each for each in src.calls(function) if src.text(each) == f"{optimizer}.step()"]
    for step in steps:
        edits.append(src.edits.replace(step, f"scaler.step({optimizer})"))
        edits.append(src.edits.insert_statement_after(step, "scaler.update()"))
    if not steps or all(each.callee != SCALE_LOSS for each in others):
        return None
    return Fix("Use torch.amp in this function", tuple(edits), Safety.UNSAFE)


def adapted(call: View, model: str, optimizer: str, torch: str) -> Sequence[Edit]:
    """The edits of a call that belongs to it; none where it is not understood."""
    edits = call.source.edits
    if call.callee == SCALE_LOSS:
        return scaled(call, model, optimizer, torch)
    if call.callee == MASTER_PARAMS and call.text.endswith(f"({optimizer})"):
        unscale = edits.insert_statement_before(call.cst, f"scaler.unscale_({optimizer})")
        return unscale, edits.replace(call.cst, f"{model}.parameters()")
    if call.callee in STATES:
        return [edits.replace(call.cst.func, f"scaler.{call.method}")]
    return []


def scaled(call: View, model: str, optimizer: str, torch: str) -> Sequence[Edit]:
    """Ex) with amp.scale_loss(loss, optimizer) as scaled: scaled.backward()

    The forward pass goes into a region: from the first statement that runs the model on, and up to
    the backward pass, except what belongs behind it, such as `optimizer.zero_grad()`.
    """
    src = call.source
    opened = src.parent(src.parent(call.cst))
    block = src.parent(opened)
    if not isinstance(opened, cst.With) or not isinstance(block, cst.IndentedBlock):
        return []
    match = BACKWARD.fullmatch(src.text(opened))
    before = list(block.body)[: block.body.index(opened)]
    while before and not runs(before[0], model, call):
        del before[0]
    if match is None or match["optimizer"] != optimizer or not before:
        return []
    while goes_behind(before[-1], call):
        del before[-1]
    text = f"scaler.scale({match['loss']}).backward{match['arguments']}"
    region = src.edits.indent(before, f'with {torch}.autocast("cuda"):')
    return [src.edits.replace(opened, text), *region]


def runs(statement: cst.BaseStatement, model: str, at: View) -> bool:
    return any(at.source.text(call.func) == model for call in at.source.calls(statement))


def goes_behind(statement: cst.BaseStatement, at: View) -> bool:
    calls = [at.of(call) for call in at.source.calls(statement)]
    return bool(calls) and all(map(belongs_after, calls))
