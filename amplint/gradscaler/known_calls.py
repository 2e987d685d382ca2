"""The calls of a training step as the checker knows them, in words: why a rule is silent about one.

A clipping is right for the checker because of an `unscale_` before it, or because a call came in
between that may have done anything; neither shows in the line of the clipping.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from amplint.gradscaler.event_index import EventIndex
from amplint.gradscaler.events import Role, TrainingEventKind
from amplint.gradscaler.interpreter import Interpreter
from amplint.gradscaler.losses import scalers_of
from amplint.gradscaler.outcomes import Outcomes
from amplint.gradscaler.symbolic_values import Symbolic
from amplint.gradscaler.trace import Occurrence, Site, TrainingTrace
from amplint.ir.model import path_of
from amplint.util.walks import reachable
from amplint.values.atoms import Evidence, Shows

# Where the object of the call is named, `{}` is how it is written.
TEXTS = {
    TrainingEventKind.SCALED_BACKWARD: "the backward pass of a loss that `{}` scales",
    TrainingEventKind.UNSCALE: "`{}` divides the gradients by the scale",
    TrainingEventKind.CLIP: "gradients are clipped",
    TrainingEventKind.CLIP_BY_HOOK: "gradients are clipped in each backward pass",
    TrainingEventKind.READ: "the size of gradients is read",
    TrainingEventKind.UPDATE: "`{}` is updated",
    TrainingEventKind.ZERO: "gradients are cleared",
    TrainingEventKind.HALF: "parameters become float16",
    TrainingEventKind.BFLOAT16: "parameters become bfloat16",
    TrainingEventKind.CAST: "parameters become another dtype than float16 or bfloat16",
    TrainingEventKind.ELSEWHERE: (
        "this may do anything to the gradients: amplint assumes that it is right"
    ),
    TrainingEventKind.HOOK: "this may do a part of the step, or nothing",
}
STEPS = {
    Role.SCALER: "`{}` steps the optimizer",
    Role.DISABLED: "`{}`, a scaler that is switched off, steps the optimizer",
    Role.OPTIMIZER: "`{}` steps without a scaler",
    Role.SCHEDULER: "`{}`, a scheduler, steps",
}
STEP = "`{}` steps, perhaps with a scaler"


class KnownCalls(NamedTuple):
    """The calls that a function runs.

    Args:
        function: its name; empty where no function that leads to a call of a scaler is known.
        calls: each once, in their order, with what it does.
        complete: whether all calls could be followed.
    """

    function: str = ""
    calls: tuple[Evidence, ...] = ()
    complete: bool = True


def known_calls(index: EventIndex, path: str, row: int) -> KnownCalls:
    """The calls of a training step in the innermost function around a line that leads to a call of
    a scaler, or that such a function calls."""
    functions = index.inference.functions
    around = [
        function
        for function in index.inference.states
        if functions[function].path == path
        and functions[function].location[0] <= row <= functions[function].location[2]
    ]
    around.sort(key=lambda each: functions[each].location[:2], reverse=True)
    levels = (reachable([each], index.callers) for each in around)
    function = next((f for reached in levels for f in reached if f in index.scaling), None)
    if function is None:
        return KnownCalls()
    trace = Interpreter(index, {}).explore(function)
    calls: dict[Site, Evidence] = {}
    for step in trace.steps:
        event = step.event
        if event is not None and event.site[-1][1] >= 0 and event.site not in calls:
            calls[event.site] = Evidence(
                index.inference.place(*event.site[-1]),
                f"{in_words(index, trace, event)}{', under a test' * bool(event.guards)}",
                Shows.SCALER,
            )
    return KnownCalls(
        functions[function].qualname, tuple(dict.fromkeys(calls.values())), trace.is_complete
    )


def in_words(index: EventIndex, trace: TrainingTrace, event: Occurrence) -> str:
    """The meaning of a call for the training."""
    function, number = event.site[-1]
    found = index.of[function].get(number)
    graph = index.inference.states[function].graph
    owner = path_of(graph, found.object) if found is not None and found.object >= 0 else None
    owner = owner or written(index, trace, event.object)
    if event.kind is TrainingEventKind.BACKWARD:
        return of_backward(index, trace, event.object)
    if event.kind is TrainingEventKind.STEP:
        text = STEPS.get(trace.roles.get(event.object, Role.UNKNOWN), STEP)
    else:
        text = TEXTS[event.kind]
    return text.format(owner or "it")


def of_backward(index: EventIndex, trace: TrainingTrace, loss: Symbolic) -> str:
    possible = scalers_of(loss, trace, Outcomes(trace.symbols))
    scalers = next(iter(possible)) if len(possible) == 1 else None
    if scalers is None:
        return "the backward pass of a loss that may have been scaled"
    if not scalers:
        return "the backward pass of a loss that is not scaled"
    names = sorted(filter(None, (written(index, trace, each) for each in scalers)))
    by = f" by `{', '.join(names)}`" if names else ""
    return f"the backward pass of a loss that is scaled{by}"


def written(index: EventIndex, trace: TrainingTrace, value: Symbolic) -> str:
    """The way in which a symbolic value may be written; empty for what has no name."""
    if value < 0:
        return ""
    names: list[str] = []
    term = trace.symbols[value]
    while term[0] == "attr":
        names.append(term[2])
        term = trace.symbols[term[1]]
    if term[0] == "name":
        names.append(term[1])
    elif term[0] in ("param", "free"):
        names.append(term[2])
    elif term[0] == "result" and trace.symbols[term[1]][0] == "function":
        names.extend(bound_names(index, trace.symbols[term[1]][1], term[2]))
    else:
        return ""
    return ".".join(reversed(names))


def bound_names(index: EventIndex, function: str, number: int) -> Iterator[str]:
    """The first name that a function binds to the result of a call."""
    bindings = index.inference.states[function].graph.bindings
    yield from [name for name, nodes in bindings.items() if number in nodes][:1]
