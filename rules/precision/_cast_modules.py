"""Which modules of the project are cast to half as a whole, with all that they hold, and where.

class Model(nn.Module):
    def __init__(self):
        self.rotary = Rotary()    # so is this one

model = Model().cuda()
model.half()                      # here
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from amplint.facts.fact import Fact
from amplint.gradscaler.events import MODULE_CASTS, TrainingEventKind, event
from amplint.inference import SiteId
from amplint.inference.state import Key
from amplint.ir import ops
from amplint.knowledge.vocabulary import TEST_PATH
from amplint.util.walks import reachable
from amplint.values.atoms import Atom, Evidence, Instance, Shows, Value, ordered
from amplint.values.lattice import inner

DTYPES = {TrainingEventKind.HALF: "float16", TrainingEventKind.BFLOAT16: "bfloat16"}
# A module that has one of these says itself what a cast does to it; who asks for its buffers one
# by one may keep some of them.
OWN_CASTS = frozenset({"_apply", "to", "half", "bfloat16"})
BUFFERS = frozenset({"buffers", "named_buffers", "_buffers", "_apply"})


class CastModules(Fact):
    """The modules of the project that are cast to half, as a whole or with one that holds them."""

    sentence = "the module is cast to half"

    def of_class(self, cls: str) -> tuple[str, Evidence] | None:
        """The dtype that instances of a class are cast to, and where; None where that is not seen,
        or where one of them is cast by itself to something else."""
        return None if cls in self._cast_otherwise else self._cast.get(cls)

    def is_set_elsewhere(self, cls: str, field: str) -> bool:
        """Whether something other than a constructor sets a field of a class."""
        infer = self.inference
        family = (*infer.hierarchy.mro(cls), *infer.hierarchy.subclasses(cls))
        keys = [Key("field", each, field) for each in family]
        writers = {site[0] for key in keys for site in infer.store.sites_of(key)}
        named = {infer.functions[each].name for each in writers if each in infer.functions}
        return named != {"__init__"} or infer.texts.is_stored_from_outside(field)

    @cached_property
    def _cast(self) -> dict[str, tuple[str, Evidence]]:
        """By class: the dtype, and the first cast to it."""
        by_class: dict[str, tuple[str, Evidence]] = {}
        for (function, number), kind, value in self._casts:
            words = self.inference.functions[function].words
            if kind in DTYPES and BUFFERS.isdisjoint(words):
                text = f"cast to {DTYPES[kind]} here"
                evidence = self.why(function, number, text, Shows.DTYPE)
                for cls in self._with_parts(classes_in(value)):
                    by_class.setdefault(cls, (DTYPES[kind], evidence))
        return by_class

    @cached_property
    def _cast_otherwise(self) -> frozenset[str]:
        """The classes of which an instance is cast to another dtype, and not with the whole model
        that is cast to half elsewhere."""
        wholes = {
            cls for _, kind, value in self._casts if kind in DTYPES for cls in classes_in(value)
        }
        others = (value for _, kind, value in self._casts if kind not in DTYPES)
        parts = {cls for value in others for cls in classes_in(value) if cls not in wholes}
        return frozenset(self._with_parts(parts))

    @cached_property
    def _casts(self) -> list[tuple[SiteId, TrainingEventKind, Value]]:
        """The casts of modules, but in tests and by methods of their own."""
        casts: list[tuple[SiteId, TrainingEventKind, Value]] = []
        infer = self.inference
        for function, state in sorted(infer.states.items()):
            facts = infer.functions[function]
            if facts.words.isdisjoint(MODULE_CASTS) or TEST_PATH.search(facts.path):
                continue
            for number, node in enumerate(state.graph.nodes):
                callee = state.graph.nodes[node.operands[0]] if node.op == ops.CALL else node
                is_own = bool(infer.calls.edges.get((function, number)))
                if callee.op == ops.ATTR and callee.data in MODULE_CASTS and callee is not node:
                    cast = event(infer, state, number) if not is_own else None
                    if cast is not None:
                        value = state.values[callee.operands[0]]
                        casts.append(((function, number), cast.kind, value))
        return casts

    def _with_parts(self, classes: Iterable[str]) -> Iterator[str]:
        """Classes, and those of the modules that their instances hold, as far as a cast goes."""
        casting = (cls for cls in classes if self._is_cast_plainly(cls))
        return reachable(casting, self._parts)

    def _parts(self, cls: str) -> Iterator[str]:
        for each in self.inference.hierarchy.mro(cls):
            for value in self._fields.get(each, ()):
                yield from (part for part in classes_in(value) if self._is_cast_plainly(part))

    @cached_property
    def _fields(self) -> dict[str, list[Value]]:
        """By class: the values of its fields."""
        by_class: dict[str, list[Value]] = {}
        for key, value in self.inference.store.written("field"):
            by_class.setdefault(key.owner, []).append(value)
        return by_class

    def _is_cast_plainly(self, cls: str) -> bool:
        infer = self.inference
        own = (infer.classes[each].methods for each in infer.hierarchy.mro(cls))
        return infer.hierarchy.is_module(cls) and all(
            OWN_CASTS.isdisjoint(methods) for methods in own
        )


def classes_in(value: Value) -> Iterator[str]:
    """The classes of the project whose instances a value is, or holds in containers."""
    atoms = reachable(ordered(value), held_by)
    return (atom.cls for atom in atoms if isinstance(atom, Instance))


def held_by(atom: Atom) -> Iterator[Atom]:
    if not isinstance(atom, Instance):  # what its constructor was given is no part of it
        yield from (each for value in inner(atom) for each in ordered(value))
