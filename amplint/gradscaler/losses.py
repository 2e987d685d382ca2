"""The scalers that have scaled a loss."""

from __future__ import annotations

from amplint.gradscaler.events import Role
from amplint.gradscaler.paths import Paths
from amplint.gradscaler.symbolic_values import (
    NOTHING,
    Symbolic,
    SymbolicValues,
    Term,
    operands_of,
)
from amplint.knowledge.vocabulary import WEIGHT
from amplint.util.walks import reachable

Scalers = frozenset[Symbolic]


def scalers_of(loss: Symbolic, paths: Paths) -> Scalers | None:
    """The scalers that have scaled a loss; None where it is not known who may have."""
    symbols = paths.symbols
    found: dict[Symbolic, Scalers | None] = {}
    # A term comes after those that it is made of.
    for value in sorted(reachable([loss], lambda each: operands_of(symbols[each]))):
        found[value] = combined(symbols[value], found, paths)
    return found[loss]


def combined(term: Term, found: dict[Symbolic, Scalers | None], paths: Paths) -> Scalers | None:
    """The scalers of a term, from those of what it is made of."""
    match term[0]:
        case "scaled":
            role = paths.roles.get(term[1])
            if role is Role.SCALER:
                return frozenset({term[1]})
            return found[term[2]] if role is Role.DISABLED else None
        case "op" if term[2] == "Div":
            return found[term[3]]  # nobody divides by a loss
        case "op" | "choice":
            is_product = term[0] == "op" and term[2] == "Mult"
            parts = [
                found[each]
                for each in operands_of(term)
                if not (is_product and is_weight(paths.symbols[each]))
            ]
            known = [each for each in parts if each is not None]
            return frozenset().union(*known) if len(known) == len(parts) else None
        case "attr" | "unpack":
            return found[term[1]]
        case "call":
            if may_scale(term, paths.symbols) or adds_up_appended(term, paths.symbols):
                return None
            owner = owner_of(term, paths.symbols)  # the sum of losses, of which its mean is taken
            if owner in found and found[owner] is None and paths.symbols[owner][0] == "call":
                return None
            # Ex) scaler.scale(loss).mean()
            return frozenset().union(*(found[each] or () for each in operands_of(term)))
        case "const" | "each":
            return frozenset()
        case _:
            return None


def owner_of(call: Term, symbols: SymbolicValues) -> Symbolic:
    """The value whose method is called; `NOTHING` where it is no method."""
    callee = symbols[call[3]]
    owner: Symbolic = callee[1] if callee[0] == "attr" else NOTHING
    return owner


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
    return adds_up and any(is_left_by_loop(symbols[given]) for given in call[4:])


def is_left_by_loop(term: Term) -> bool:
    """Whether a term is what a loop has left of a variable."""
    return term[0] == "result" and -1 in term[3]


def may_scale(call: Term, symbols: SymbolicValues) -> bool:
    """Whether a function, by its name or by what it is given, may return a scaled loss."""
    given = (symbols[part][0] == "scaled" for part in call[4:])
    return scales(str(symbols[call[3]][-1])) or any(given)


def scales(name: str) -> bool:
    return "scal" in name.lower()
