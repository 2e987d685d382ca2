"""What goes wrong between a scaler and its optimizers, on the paths of a training step.

Each path (`amplint.gradscaler.path_explorer`) is played to the automaton
(`amplint.gradscaler.automaton`). What cannot be seen is taken to be in order: gradients from
before a function begins, whatever an unknown function does.
Where a backward pass may or may not reach the parameters of an optimizer, both are kept, and a
mistake is one only if nothing that is possible is right.

A mistake has two ends: the call to be changed, and the one that makes it wrong. It counts only if
*every* path from the one to the other goes wrong, whatever the flags are: `if clip: unscale_` and
`if max_norm: clip` may go together for all that is known. Tests on a remainder (`if step % n == 0`)
are an exception, for they will have any outcome at some time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from amplint.core.values import Place, Why
from amplint.gradscaler.automaton import Call, Effect, Part, Standing, add, advance
from amplint.gradscaler.checkpoints import Unsaved
from amplint.gradscaler.events import Kind, Role, divides_by_zero
from amplint.gradscaler.path_explorer import Events, Explorer, Happening, Path, Paths, Token
from amplint.inference import Inference, SiteId

Site = tuple[SiteId, ...]
ANY = -1  # stands for all parameters, where it is not known whose are meant


class Misuse(NamedTuple):
    """A call that a rule speaks of.

    Args:
        inner: where the call only leads to what is wrong, the places on the way there.
        other: the call that makes it wrong.
        raises: the text of the exception, if there is one.
    """

    code: str
    inner: tuple[Why, ...]
    other: Why
    raises: str = ""


class Fault(NamedTuple):
    """A mistake on one path, by positions in it: the call to be changed, and the other."""

    code: str
    here: int
    there: int
    raises: str = ""


class Pair(NamedTuple):
    """A mistake on all paths; `first` tells whether the call to be changed comes first."""

    code: str
    here: Site
    there: Site
    first: bool


OTHER_TEXTS = {
    "AMP401": "the gradients are scaled here",
    "AMP402": "the scaler divides the gradients here",
    "AMP403": "this raises in the next iteration",
    "AMP404": "the gradients are scaled here",
    "AMP405": "they are unscaled here already",
    "AMP406": "the step is made here",
    "AMP407": "the scaler is called here, too",
    "AMP408": "this step finds no gradients",
    "AMP410": "the parameters are float16 since here",
    "AMP412": "the gradients of another batch are added here",
    "AMP413": "the scaler makes the steps here",
    "AMP414": "the gradients are scaled here",
    "AMP418": "the optimizer makes its step here",
    "AMP804": "the parameters are float16 since here",
}
# The calls that make it right, on a path that a test keeps away from the mistake.
REMEDIES = {
    "AMP401": Call.STEP,
    "AMP402": Call.SCALED_BACKWARD,
    "AMP403": Call.UPDATE,
    "AMP404": Call.UNSCALE,
    "AMP414": Call.UNSCALE,
}


class Misuses:
    """The misuses of all scalers of a project; found when the first question comes."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference

    def at(self, function: str, number: int) -> tuple[Misuse, ...]:
        """What is wrong with a call."""
        return tuple(self._all.get((function, number), ()))

    def sites(self) -> Iterator[tuple[str, str, int]]:
        """The codes of all misuses, each with the function and the number of the call."""
        for (function, number), misuses in self._all.items():
            for misuse in misuses:
                yield misuse.code, function, number

    @cached_property
    def _all(self) -> dict[SiteId, list[Misuse]]:
        return self._find()

    def _find(self) -> dict[SiteId, list[Misuse]]:
        events = Events(self._inference)
        claims: dict[Pair, str] = {}
        plays: list[Play] = []
        for function in sorted(events.scaling | (events.halving & events.dividing)):
            if not self._is_entry(events, function):
                continue
            explorer = Explorer(self._inference, events)
            paths = explorer.explore(function)
            if paths is not None:
                played = [Play(explorer, path, paths.paths) for path in paths.paths]
                claims |= review(played, list(free_tests(paths, explorer)))
                plays += played
        found: dict[SiteId, dict[str, Misuse]] = {}
        for pair, raises in sorted(claims.items()):
            placed = innermost(pair, claims, plays)
            misuse = self._misuse(placed, raises)
            found.setdefault(placed.here[0], {}).setdefault(pair.code, misuse)
        for site, step in Unsaved(self._inference, events).find():
            misuse = Misuse("AMP413", (), Why(self._place(step), OTHER_TEXTS["AMP413"]))
            found.setdefault(site, {}).setdefault("AMP413", misuse)
        return {site: list(misuses.values()) for site, misuses in found.items()}

    def _is_entry(self, events: Events, function: str) -> bool:
        """Whether more comes together in a function than one call of another says already."""
        state = self._inference.states[function]
        if events.of[function]:
            return True
        calls = [number for number, node in enumerate(state.graph.nodes) if node.op == "call"]
        training = [number for number in calls if events.callees((function, number))]
        return (
            len(training) > 1
            or any(state.graph.nodes[number].block for number in training)
            or any(divides_by_zero(state, number) for number in calls)
        )

    def _misuse(self, pair: Pair, raises: str) -> Misuse:
        inner = tuple(
            Why(self._place(site), "here" if site == pair.here[-1] else "by way of this call")
            for site in pair.here[1:]
        )
        other = Why(self._place(pair.there[-1]), OTHER_TEXTS[pair.code])
        return Misuse(pair.code, inner, other, raises)

    def _place(self, site: SiteId) -> Place:
        function, number = site
        node = self._inference.states[function].graph.nodes[number]
        return Place(self._inference.functions[function].path, *node.location)


# ------------------------------------------------------------------------------ all paths


def review(plays: list[Play], frees: list[frozenset[Token]]) -> dict[Pair, str]:
    """What goes wrong on every path of a function where it may; and the text of the exception."""
    faults: dict[Pair, dict[int, str]] = {}
    remedied: set[Pair] = set()
    for number, found in enumerate([list(play.run()) for play in plays]):
        play = plays[number]
        for fault in found:
            here, there = play.site(fault.here), play.site(fault.there)
            pair = Pair(fault.code, here, there, fault.here < fault.there)
            faults.setdefault(pair, {})[number] = fault.raises
            if has_remedy(fault, play, plays):
                remedied.add(pair)
    return {
        pair: next(iter(failing.values()))
        for pair, failing in faults.items()
        if pair not in remedied and is_certain(pair, set(failing), plays, frees)
    }


def innermost(pair: Pair, claims: Collection[Pair], plays: Iterable[Play]) -> Pair:
    """The pair as it stands in the innermost function that sees both ends, unless that function is
    right where others call it, and is not wrong by itself: then as it stands in the caller."""
    depth, last = 0, min(len(pair.here), len(pair.there)) - 1
    while depth < last and pair.here[depth] == pair.there[depth]:
        depth += 1
    for level in range(depth, 0, -1):
        within = pair._replace(here=pair.here[level:], there=pair.there[level:])
        if within in claims or all(w in claims for play in plays for w in play.wholes(within)):
            return within
    return pair


def has_remedy(fault: Fault, play: Play, plays: Iterable[Play]) -> bool:
    """Whether the same test keeps the mistake and the right call apart: then it may well be the
    test that says whether the scaler is enabled."""
    wanted, own = REMEDIES.get(fault.code), play.path.decisions
    guards = play.path.happenings[fault.here].guards
    return wanted is not None and any(
        other.path.decisions[guard] is not own[guard]
        for other in plays
        for guard in guards & other.guarded.get(wanted, frozenset())
    )


def is_certain(
    pair: Pair, failing: set[int], plays: list[Play], frees: list[frozenset[Token]]
) -> bool:
    """Whether all paths on which both ends are met, in their order, go wrong; or for each way that
    other tests may go, one of those that differ in a free test alone.

    Two tests that change from one iteration to the next may be one in other words.
    """
    ends = (pair.here, pair.there) if pair.first else (pair.there, pair.here)
    both = [n for n, play in enumerate(plays) if n in failing or play.meets(*ends)]
    varying = frozenset[Token]().union(*(plays[number].varying(pair) for number in failing))
    for free in (frozenset[Token](), *(free for free in frees if varying <= free)):
        modes: dict[frozenset[tuple[Token, bool]], bool] = {}
        for number in both:
            decisions = plays[number].path.decisions.items()
            mode = frozenset((token, out) for token, out in decisions if token not in free)
            modes[mode] = modes.get(mode, False) or number in failing
        if all(modes.values()):
            return True
    return False


def free_tests(paths: Paths, explorer: Explorer) -> Iterator[frozenset[Token]]:
    """The tests on a remainder, each with those that share a part with it."""
    for token, sites in paths.tests.items():
        if explorer.is_periodic(token):
            group, around = {token}, set(sites)
            for other, at in paths.tests.items():
                if at & around:
                    group.add(other)
            yield frozenset(group)


# ------------------------------------------------------------------------------ one path


@dataclass
class Play:
    """One path, played to the automaton."""

    explorer: Explorer
    path: Path
    all_paths: tuple[Path, ...]
    guarded: dict[Call, frozenset[Token]] = field(default_factory=dict)
    last: dict[tuple[Call, Token], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        roles, happenings = self.explorer.roles, [h for p in self.all_paths for h in p.happenings]
        self.owners: dict[Token, set[Token]] = {}
        for happening in happenings:
            thing, given = happening.object, happening.argument
            if happening.kind in (Kind.UNSCALE, Kind.STEP) and given >= 0:
                if roles.get(thing) is Role.SCALER:
                    self.owners.setdefault(given, set()).add(thing)
                elif roles.get(thing) is Role.DISABLED:
                    self.owners.setdefault(given, set())
            elif roles.get(thing) is Role.OPTIMIZER:
                self.owners.setdefault(thing, set())
        self.sites: dict[Site, list[int]] = {}
        self.dead = False

    def site(self, position: int) -> Site:
        return self.path.happenings[position].site

    def meets(self, first: Site, then: Site) -> bool:
        """Whether one call is made, and the other after it."""
        return any(a < b for a in self.sites.get(first, ()) for b in self.sites.get(then, ()))

    def varying(self, pair: Pair) -> frozenset[Token]:
        """The tests around both ends whose outcome is another one in another iteration."""
        return frozenset(
            guard
            for happening in self.path.happenings
            if happening.site in (pair.here, pair.there)
            for guard in happening.guards
            if self.explorer.varies(guard)
        )

    def wholes(self, pair: Pair) -> Iterator[Pair]:
        """The pairs on this path of which the given one, seen from within a function, is a part."""
        for site in self.sites:
            if site[-len(pair.here) :] == pair.here:
                there = site[: -len(pair.here)] + pair.there
                if self.meets(*((site, there) if pair.first else (there, site))):
                    yield pair._replace(here=site, there=there)

    def run(self) -> Iterator[Fault]:
        self.standings: dict[Token, frozenset[Standing]] = {}
        self.checked: bool | None = None  # since the last update; None where that is not seen
        self.reset()
        for position, happening in enumerate(self.path.happenings):
            self.sites.setdefault(happening.site, []).append(position)
            yield from self.play(position, happening)
            if self.dead:
                return  # by an exception

    def reset(self) -> None:
        """Whatever there is may have been changed."""
        self.halved: dict[Token, int] = {}
        self.reset_gradients()

    def reset_gradients(self) -> None:
        self.standings = dict.fromkeys((*self.owners, ANY), FRESH)
        self.checked = None
        self.last = {}
        self.current: dict[Token, Token] = {}
        self.gradients: int | None = None  # the backward pass since the last step
        self.scheduled: int | None = None  # the scheduler's step since then

    @property
    def one(self) -> Token | None:
        """The only optimizer."""
        return next(iter(self.owners)) if len(self.owners) == 1 else None

    def play(self, position: int, happening: Happening) -> Iterator[Fault]:
        kind, thing, given = happening.kind, happening.object, happening.argument
        role = self.explorer.roles.get(thing, Role.UNKNOWN)
        if kind is Kind.ELSEWHERE:
            self.reset()
        elif kind is Kind.BACKWARD:
            self.gradients, self.scheduled = position, None
            self.backward(position, thing)
        elif kind in LOOKS:
            yield from self.call(LOOKS[kind], ANY if self.one is None else self.one, position)
        elif kind is Kind.ZERO:
            self.zero(position, thing, given)
        elif kind is Kind.UPDATE and role is Role.SCALER:
            yield from self.update(position, thing)
        elif kind is Kind.HALF:
            self.halved[thing] = position
        elif kind is Kind.CAST:
            self.halved.pop(thing, None)
        elif self.is_refused(happening):
            self.dead = True
            cast = self.halved[self.explorer.modules[given]]
            yield Fault("AMP410", position, cast, HALF_GRADIENTS)
        elif kind is Kind.UNSCALE and role is Role.SCALER:
            self.checked = True
            self.meet(given, thing)
            yield from self.call(Call.UNSCALE, given, position)
        elif kind is Kind.STEP and role is Role.SCALER and given >= 0:
            self.checked = True
            self.meet(given, thing)
            yield from self.call(Call.STEP, given, position)
            self.last[Call.STEP, thing] = position
        elif kind is Kind.STEP and role is Role.DISABLED and given >= 0:
            yield from self.divide(given, position)
            yield from self.call(Call.PLAIN_STEP, given, position)
        elif kind is Kind.STEP and role is Role.SCHEDULER:
            if self.one is not None and self.gradients is not None:
                self.scheduled = position
        elif kind is Kind.STEP and self.explorer.is_handed_out(thing):
            self.reset()
        elif kind is Kind.STEP and thing in self.owners:
            yield from self.divide(thing, position)
            yield from self.call(Call.PLAIN_STEP, thing, position)

    def divide(self, optimizer: Token, position: int) -> Iterator[Fault]:
        """A step divides by a root plus an epsilon, which is 0 in the dtype of the parameters."""
        cast = self.halved.get(self.explorer.modules.get(optimizer, -1))
        if cast is not None and optimizer in self.explorer.dividing:
            yield Fault("AMP804", position, cast)

    def is_refused(self, happening: Happening) -> bool:
        """Whether a scaler is to divide the gradients of float16 parameters.

        Where they are float16 for one outcome of a test alone, a flag of the scaler may well have
        to do with it.
        """
        thing, given = happening.object, happening.argument
        cast = self.halved.get(self.explorer.modules.get(given, -1))
        if cast is None or happening.kind not in (Kind.UNSCALE, Kind.STEP):
            return False
        if self.explorer.roles.get(thing) is not Role.SCALER:
            return False
        guards = self.path.happenings[cast].guards
        return not guards or (happening.guards <= guards and thing not in self.explorer.switched)

    def meet(self, optimizer: Token, scaler: Token) -> None:
        """An optimizer that goes from one of its scalers to another is ready for that."""
        owners = self.owners.get(optimizer, ())
        if len(owners) > 1 and scaler in owners and self.current.get(optimizer) != scaler:
            self.standings[optimizer] = FRESH
            self.current[optimizer] = scaler

    def note(self, call: Call, position: int) -> None:
        guards = self.path.happenings[position].guards
        self.guarded[call] = self.guarded.get(call, frozenset()) | guards

    def backward(self, position: int, loss: Token) -> None:
        scalers = self.explorer.scalers_of(loss)
        if scalers is None:
            self.reset_gradients()
            return
        call = Call.SCALED_BACKWARD if scalers else Call.BACKWARD
        self.note(call, position)
        for token in self.standings:
            for scaler in scalers:
                self.meet(token, scaler)
            possible = self.standings[token]
            foreign = scalers and not scalers <= (self.owners.get(token) or scalers)
            reached = {
                add(at, Part.FOREIGN) if foreign else advance(at, call)[0] for at in possible
            }
            if token not in (ANY, self.one):
                reached |= {at._replace(ran=True) for at in possible}
            self.standings[token] = frozenset(reached)
            self.last[call, token] = position

    def zero(self, position: int, thing: Token, to_none: Token) -> None:
        call = Call.ZERO if self.explorer.is_false(to_none) else Call.CLEAR
        if thing not in self.owners:
            # A module's: of whose parameters is not known.
            for token, possible in self.standings.items():
                self.standings[token] = frozenset(at._replace(gradient=None) for at in possible)
            return
        self.last[call, thing] = self.last[Call.CLEAR, thing] = position
        for token in (thing, ANY):
            possible = self.standings[token]
            self.standings[token] = frozenset(advance(at, call)[0] for at in possible)

    def update(self, position: int, scaler: Token) -> Iterator[Fault]:
        self.note(Call.UPDATE, position)
        before = self.last.get((Call.UPDATE, scaler))
        if self.checked is False and before is not None:
            self.dead = True
            yield Fault("AMP407", position, before, NOTHING_TO_UPDATE)
        self.checked = False
        for token, possible in self.standings.items():
            if scaler in self.owners.get(token, {scaler}):
                self.standings[token] = frozenset(advance(at, Call.UPDATE)[0] for at in possible)
                self.last[Call.UPDATE, token] = position
        self.last[Call.UPDATE, scaler] = position

    def call(self, call: Call, token: Token, position: int) -> Iterator[Fault]:
        """A call that concerns one optimizer."""
        self.note(call, position)
        if call in (Call.STEP, Call.PLAIN_STEP):
            if self.scheduled is not None:
                yield Fault("AMP418", self.scheduled, position)
            self.gradients = self.scheduled = None
        possible = self.standings.get(token, FRESH)
        outcomes = {at: advance(at, call) for at in possible}
        effects = [outcome for _, outcome in outcomes.values()]
        fault = None
        if not any(outcome.effect is Effect.RIGHT for outcome in effects):
            codes = sorted((o.code, o.text) for o in effects if o.code is not None)
            if codes:
                fault = self.fault(*codes[0], token, position)
        if fault is not None:
            self.checked = None  # one mistake is told once
            self.dead = all(outcome.effect is Effect.RAISES for outcome in effects)
            yield fault
        after = {at for at, outcome in outcomes.values() if outcome.effect is not Effect.RAISES}
        self.standings[token] = frozenset(after) or FRESH
        if call in (Call.STEP, Call.PLAIN_STEP):
            # Gradients that a step has used are done with, wherever they are cleared.
            self.standings[token] = frozenset(
                at._replace(gradient=None, lost=False) for at in self.standings[token]
            )
        if call not in LOOKS.values() and token != ANY:
            if self.one is not None:
                self.standings[ANY] = self.standings[token]
            else:
                self.standings[ANY] = FRESH
        self.last[call, token] = position

    def fault(self, code: str, text: str, token: Token, position: int) -> Fault | None:
        """The two ends of a mistake."""
        if code == "AMP403":
            # The update is due after the last of all steps.
            owner = self.path.happenings[position].object
            steps = [self.last.get((Call.STEP, thing), -1) for thing in (token, owner)]
            return Fault(code, max(steps), position, text) if max(steps) >= 0 else None
        here, there = SILENT_ENDS[code] if code in SILENT_ENDS and not text else ENDS[code]
        ends = [position if end is None else self.last.get((end, token)) for end in (here, there)]
        if ends[0] is None or ends[1] is None:
            return None
        return Fault(code, ends[0], ends[1], text)


FRESH = frozenset({Standing()})
LOOKS = {Kind.CLIP: Call.CLIP, Kind.READ: Call.READ}
NOTHING_TO_UPDATE = "No inf checks were recorded prior to update."
HALF_GRADIENTS = "Attempting to unscale FP16 gradients."

# The call to be changed and the other; None for the call that goes wrong itself.
Ends = tuple[Call | None, Call | None]
ENDS: dict[str, Ends] = {
    "AMP401": (None, Call.SCALED_BACKWARD),
    "AMP402": (Call.BACKWARD, None),
    "AMP404": (None, Call.SCALED_BACKWARD),
    "AMP405": (None, Call.UNSCALE),
    "AMP406": (None, Call.STEP),
    "AMP407": (None, Call.STEP),
    "AMP408": (Call.CLEAR, None),
    "AMP412": (None, Call.UNSCALE),
    "AMP414": (None, Call.SCALED_BACKWARD),
}
# Where nothing is raised, it is an earlier call that has to be changed.
SILENT_ENDS: dict[str, Ends] = {
    "AMP407": (Call.UPDATE, None),
    "AMP412": (Call.UNSCALE, None),
}
