"""The scalers that have scaled a loss."""

from __future__ import annotations

from itertools import islice, product

from amplint.gradscaler.events import Role
from amplint.gradscaler.outcomes import Decision, Outcomes
from amplint.gradscaler.symbolic_values import (
    Symbolic,
    SymbolicValues,
    Term,
    operands_of,
)
from amplint.gradscaler.trace import TrainingTrace
from amplint.knowledge.vocabulary import WEIGHT
from amplint.util.walks import reachable

Scalers = frozenset[Symbolic]
Possible = frozenset[Scalers | None]  # what may have scaled a loss; None where nobody knows
MOST = 8  # possibilities that are kept apart


def scalers_of(loss: Symbolic, trace: TrainingTrace, outcomes: Outcomes) -> Possible:
    """The scalers that may have scaled a loss, where tests have these outcomes."""
    symbols = trace.symbols
    scalers: dict[Symbolic, Possible] = {}
    # A term comes after those that it is made of.
    for value in sorted(reachable([loss], lambda each: operands_of(symbols[each]))):
        term = symbols[value]
        if term[0] == "choice":
            alternatives = zip(term[4], operands_of(term), strict=True)
            possible = [scalers[each] for guards, each in alternatives if outcomes.allow(guards)]
            scalers[value] = frozenset[Scalers | None]().union(*possible)
        else:
            operands = operands_of(term)
            ways = product(*(scalers[each] for each in operands))
            scalers[value] = frozenset(
                combined(term, dict(zip(operands, way, strict=True)), trace)
                for way in islice(ways, MOST + 1)
            )
        if not 0 < len(scalers[value]) <= MOST:
            scalers[value] = frozenset({None})
    return scalers[loss]


def scaled_under(loss: Symbolic, trace: TrainingTrace) -> frozenset[Decision]:
    """The outcomes of tests without which no scaler has scaled a loss.

    Ex) `if scaler is not None: loss = scaler.scale(loss)`, before `loss.backward()` in any case
    """
    symbols = trace.symbols
    under: dict[Symbolic, frozenset[Decision]] = {}  # of the values that may be scaled
    for value in sorted(reachable([loss], lambda each: operands_of(symbols[each]))):
        term, operands = symbols[value], operands_of(symbols[value])
        guards = term[4] if term[0] == "choice" else [frozenset[Decision]()] * len(operands)
        ways = [
            decisions | under[each]
            for decisions, each in zip(guards, operands, strict=True)
            if each in under
        ]
        if term[0] == "scaled" and trace.roles.get(term[1]) is Role.SCALER:
            under[value] = frozenset()
        elif ways:
            under[value] = frozenset.intersection(*ways)
    return under.get(loss, frozenset())


def combined(
    term: Term, scalers: dict[Symbolic, Scalers | None], trace: TrainingTrace
) -> Scalers | None:
    """The scalers of a term, from those of what it is made of."""
    match term[0]:
        case "scaled":
            role = trace.roles.get(term[1])
            if role is Role.SCALER:
                return frozenset({term[1]})
            return scalers[term[2]] if role is Role.DISABLED else None
        case "op" if term[2] == "Div":
            return scalers[term[3]]  # nobody divides by a loss
        case "op":
            parts = [
                scalers[each]
                for each in operands_of(term)
                if not (term[2] == "Mult" and is_weight(trace.symbols[each]))
            ]
            scaler_sets = [each for each in parts if each is not None]
            return frozenset().union(*scaler_sets) if len(scaler_sets) == len(parts) else None
        case "attr" | "unpack":
            return scalers[term[1]]
        case "call":
            if may_scale(term, trace.symbols) or adds_up_appended(term, trace.symbols):
                return None
            if scalers[term[3]] is None and is_of_result(term, trace.symbols):
                return None  # the sum of losses, of which its mean is taken
            # Ex) scaler.scale(loss).mean()
            return frozenset().union(*(scalers[each] or () for each in operands_of(term)))
        case "const" | "each":
            return frozenset()
        case _:
            return None


def is_of_result(call: Term, symbols: SymbolicValues) -> bool:
    """Whether a method is called on the result of a call."""
    callee = symbols[call[3]]
    return bool(callee[0] == "attr" and symbols[callee[1]][0] == "call")


def is_weight(factor: Term) -> bool:
    """Whether a factor is named after what weights a term of a loss, and not after a scale.

    Ex) self.critic_coef * critic_loss
    """
    name = str(factor[-1]) if factor[0] in ("attr", "param", "name", "free") else ""
    is_loss = name.lower().endswith("loss")  # Ex) weight_loss
    return WEIGHT.search(name) is not None and not is_loss and not scales(name)


def adds_up_appended(call: Term, symbols: SymbolicValues) -> bool:
    """Whether a function adds up a list that a loop may have filled: terms do not have what was
    appended to it.

    Ex) sum(losses), torch.stack(losses)
    """
    adds_up = symbols[call[3]][-1] in ("sum", "stack", "cat")
    return adds_up and any(is_left_by_loop(symbols[argument]) for argument in call[4:])


def is_left_by_loop(term: Term) -> bool:
    """Whether a term is what a loop has left of a variable."""
    return term[0] == "result" and -1 in term[3]


def may_scale(call: Term, symbols: SymbolicValues) -> bool:
    """Whether a function, by its name or by what it is given, may return a scaled loss."""
    are_scaled = (symbols[part][0] == "scaled" for part in call[4:])
    return scales(str(symbols[call[3]][-1])) or any(are_scaled)


def scales(name: str) -> bool:
    return "scal" in name.lower()
