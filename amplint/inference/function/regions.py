"""The autocast regions in one function, by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from amplint.inference import transfer
from amplint.inference.inference import Inference
from amplint.inference.key_access import KeyAccess
from amplint.inference.state import Key, State
from amplint.ir import ops
from amplint.ir.flow import origins
from amplint.ir.model import SIDES, FunctionFacts, Graph, Node, path_of
from amplint.knowledge import libraries
from amplint.values.atoms import (
    BOTTOM,
    Autocast,
    DType,
    Instance,
    Region,
    Symbol,
    Value,
    entered,
    one,
    ordered,
)

FLOAT32 = one(DType("float32"))
RUN_BY_CALL = frozenset({"forward", "__call__"})  # methods that a call of a module runs


class FunctionRegions:
    """The regions in a function while it is evaluated.

    Args:
        inference, access, facts: as for `Frame`.
        graph, values: of the function; the values are those known so far.

    Attributes:
        by_block: the regions, noted as they are asked for.
        openers: by block, as `opener` finds them.
        around: the region that is inherited, or that decorators open.
    """

    def __init__(
        self,
        inference: Inference,
        access: KeyAccess,
        facts: FunctionFacts,
        graph: Graph,
        values: Sequence[Value],
    ) -> None:
        self.inference = inference
        self.access = access
        self.facts = facts
        self.graph = graph
        self.values = values
        self.by_block: dict[int, Region | None] = {}
        self.openers: dict[int, int | None] = {}
        self.around: Region | None = None

    def forget(self) -> None:
        """Look for the regions anew, since a value has changed."""
        self.by_block.clear()
        self.openers.clear()

    def chain(self, block: int) -> Iterable[int]:
        """The block and those around it, innermost first."""
        while block >= 0:
            yield block
            block = self.graph.blocks[block].parent

    def of_whole_function(self) -> Region | None:
        """The region that decorators or some caller put around the body."""
        own = self.own_region()
        if own is not None:
            return own
        if self.facts.kind in ("class", "module") or self.facts.parent is None:
            return None
        return self.access.inherited_region(self.facts.id)

    def own_region(self) -> Region | None:
        """The region that decorators, or a framework, put around the body."""
        return region_around(self.inference, self.facts, self.access.read)

    def of(self, block: int) -> Region | None:
        """The autocast state inside a block."""
        if block < 0:
            return self.around
        if block not in self.by_block:
            facts = self.graph.blocks[block]
            around = self.of(facts.parent)
            if facts.kind == "with" and facts.node >= 0:
                inner = opened_by(self.values[facts.node])
                around = nested(inner, around) if inner is not None else around
            elif facts.kind in SIDES and around is not None:
                around = self.where_tested(block, around)
            self.by_block[block] = around
        return self.by_block[block]

    def where_tested(self, block: int, around: Region) -> Region | None:
        """The region in a block under a test: `around`, unless the region is not opened, or is
        switched off, where the test has this outcome.

        Ex) torch.autocast("cuda") if amp else nullcontext(), `enabled=amp`, and then `if not amp:`
        """
        opener = self.opener(block)
        if opener is None:
            return around  # which is inherited
        contexts = origins(self.graph, self.graph.blocks[opener].node)
        opening = [n for n in contexts if opened_by(self.values[n]) is not None]
        if len(opening) != 1:
            return around
        node = self.graph.nodes[opening[0]]
        flag, holds = self.tested(block)
        if not holds and flag in map(self.flag, self.options(node, "enabled")):
            return replace(around, enabled=False)
        if self.is_float32(node, flag, holds):
            return replace(around, enabled=False)
        of_opener = set(self.chain(opener))
        blocks = [n for n in self.chain(node.block) if n not in of_opener]
        sides = [self.tested(n) for n in blocks if self.graph.blocks[n].kind in SIDES]
        outer = self.graph.blocks[opener].parent
        return self.of(outer) if (flag, not holds) in sides else around

    def opener(self, block: int) -> int | None:
        """The innermost block around one that opens a region. A test after a test that may end the
        function is within the other one, so each begins where the one around it has ended."""
        for each in self.chain(block):
            if each in self.openers or self.opens(each):
                self.openers[block] = self.openers.get(each, each)
                return self.openers[block]
        self.openers[block] = None
        return None

    def opens(self, block: int) -> bool:
        """Whether the context of a block opens a region, or may open one."""
        facts = self.graph.blocks[block]
        is_context = facts.kind == "with" and facts.node >= 0
        return is_context and opened_by(self.values[facts.node]) is not None

    def is_float32(self, call: Node, flag: str | int, holds: bool) -> bool:
        """Whether a region is given float32, which switches it off, where a test has an outcome.

        Ex) `if amp: dtype = torch.float16`, `autocast(dtype=dtype)`, and then `if not amp:`
        """
        dtypes = [n for each in self.options(call, "dtype") for n in origins(self.graph, each)]
        blocks = {n: self.chain(self.graph.nodes[n].block) for n in dtypes}
        values = [
            self.values[n]
            for n, around in blocks.items()
            if (flag, not holds)
            not in [self.tested(b) for b in around if self.graph.blocks[b].kind in SIDES]
        ]
        return bool(values) and all(value == FLOAT32 for value in values)

    def options(self, call: Node, parameter: str) -> Iterable[int]:
        """The values that a call passes to autocast for a parameter."""
        for atom in self.values[call.operands[0]] if call.op == ops.CALL else ():
            name = transfer.canonical(atom.name) if isinstance(atom, Symbol) else ""
            api = libraries.AUTOCASTS.get(name)
            names = api.parameters if api is not None else ()
            place = names.index(parameter) if parameter in names else None
            operand = call.argument(place, parameter)
            if operand >= 0 and (api or isinstance(atom, Autocast)):
                yield operand

    def tested(self, block: int) -> tuple[str | int, bool]:
        """The flag that a block is under, and what it is there."""
        number, holds = self.graph.blocks[block].node, self.graph.blocks[block].kind == "if"
        while self.graph.nodes[number].op == ops.UNARY and self.graph.nodes[number].data == "Not":
            number, holds = self.graph.nodes[number].operands[0], not holds
        return self.flag(number), holds

    def flag(self, number: int) -> str | int:
        """The identity of a flag, the same for all its reads: the path to it, or its node."""
        sources = origins(self.graph, number)
        return path_of(self.graph, sources[0]) or sources[0] if len(sources) == 1 else number

    def of_call(self, node: Node, function: str) -> Region | None:
        """The region in which a call runs a function: the one around the call, or that in which a
        framework has wrapped the module that is called."""
        facts = self.inference.functions[function]
        if facts.name in RUN_BY_CALL and facts.cls is not None and node.op == ops.CALL:
            for atom in ordered(self.values[node.operands[0]]):
                dtype = atom.wrapped if isinstance(atom, Instance) else None
                if (
                    isinstance(atom, Instance)
                    and dtype
                    and facts.cls in self.inference.hierarchy.mro(atom.cls)
                ):
                    return Region("cuda", dtype, True, wrapped=True)
        return self.of(node.block)


def regions_of(inference: Inference, facts: FunctionFacts, state: State) -> FunctionRegions:
    """The regions in a function that was evaluated, of which nobody has asked for one yet."""
    return FunctionRegions(inference, inference.store, facts, state.graph, state.values)


def region_around(
    inference: Inference, facts: FunctionFacts, ask: Callable[[Key], Value]
) -> Region | None:
    """The region that decorators put around a function, or the framework that calls it.

    Args:
        ask: returns the value of a key.
    """
    decorators = ask(Key("decorators", facts.id)) if facts.decorated else BOTTOM
    opened = opened_by(decorators)
    if opened is not None or not libraries.TRANSPARENT_DECORATORS.issuperset(facts.decorated):
        return opened  # a decorator that nobody knows may end the region
    dtype = inference.hierarchy.dtype_of_framework(facts, ask)
    return Region("cuda", dtype, True, inherited=True) if dtype else None


def opened_by(contexts: Value) -> Region | None:
    """The region that a context, or what may be one, opens."""
    for atom in entered(contexts) if contexts else ():
        if isinstance(atom, Autocast):
            return as_region(atom)
    return None


def as_region(context: Autocast) -> Region:
    return Region(context.device, context.dtype, context.enabled, context.evidence)


def nested(inner: Region, outer: Region | None) -> Region:
    """A region without a dtype takes that of the enclosing one of its device type."""
    if inner.dtype is None and outer is not None and outer.device == inner.device and outer.enabled:
        return replace(inner, dtype=outer.dtype)
    return inner
