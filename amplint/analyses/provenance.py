"""Where a value comes from, unchanged: the calls that may have made it.

They are looked for when a rule asks, from a use back through names, fields, parameters and what
functions return: the value of a module does not show its wrapper, nor that of a batch its loader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from amplint.analyses.module_uses import owner_of_each
from amplint.facts.callers import Callers
from amplint.facts.fact import Fact, Required
from amplint.gradscaler.events import CASTS, TrainingEventKind, event
from amplint.gradscaler.parameter_lists import collected, modules_of, owner_of
from amplint.inference import transfer
from amplint.ir import ops
from amplint.ir.flow import alternatives, elements, method_called
from amplint.ir.model import Graph, Node
from amplint.knowledge import libraries
from amplint.knowledge.modules import RETURNING_ITSELF
from amplint.util.positions import Place
from amplint.util.walks import reachable
from amplint.values.atoms import (
    ACCELERATOR,
    BOTTOM,
    CPU,
    NONE,
    Autocast,
    Class,
    Device,
    DType,
    Evidence,
    Instance,
    Object,
    Shows,
    Symbol,
    Tensor,
    TensorTree,
    Value,
)
from amplint.values.lattice import only

MAX_NODES = 200  # that are looked at for one use
# What yields the batches of a loader, or the tensors of a batch.
DRAWING = frozenset({"items", "values", "get", "pop"})
MOVING = frozenset({"cuda", "to"})
At = tuple[str, int]  # a function's id, and one of its nodes


class Sharded(NamedTuple):
    """The evidence that parameters are sharded.

    Args:
        reasons: the places that show it.
        certain: whether the strategy is known to be one that shards.
    """

    reasons: Sequence[Evidence]
    certain: bool


class Origins(Fact):
    """The calls that make values, looked for from where these are used."""

    _callers = Required(Callers)

    def replicated(self, function: str, number: int) -> Evidence | None:
        """Where the module that a node holds may have been wrapped by `nn.DataParallel`."""
        at = next(self._search((function, number), self._replicates), None)
        return (
            self.why(*at, "wrapped in `DataParallel` here", Shows.OPERATION)
            if at is not None
            else None
        )

    def distributed(self, function: str, number: int) -> Evidence | None:
        """Where the module that a node holds may have been wrapped by DistributedDataParallel, and
        nowhere by what shards it."""
        wrapped = [*self._search((function, number), self._distributes)]
        if not wrapped or any(
            not self._names(at).isdisjoint(libraries.FULLY_SHARDED) for at in wrapped
        ):
            return None
        text = "wrapped in `DistributedDataParallel` here"
        return self.why(*wrapped[0], text, Shows.OPERATION)

    def _distributes(self, at: At) -> bool:
        if self._node(at).op != ops.CALL:
            return False
        return not self._names(at).isdisjoint(libraries.DISTRIBUTED | libraries.FULLY_SHARDED)

    def moved(self, function: str, number: int) -> Evidence | None:
        """Where a batch of the loader that a call makes, unpinned, is moved to the device."""
        return self._moves.get(self.inference.place(function, number))

    @cached_property
    def _moves(self) -> dict[Place, Evidence]:
        """The loaders that do not pin their batches -> the first move of one."""
        moves: dict[Place, Evidence] = {}
        for function, state in sorted(self.inference.states.items()):
            for number, node in enumerate(state.graph.nodes):
                if node.op == ops.CALL and self._moves_to_device((function, number)):
                    batch = (function, self._node((function, node.operands[0])).operands[0])
                    for loader in self._search(batch, self._leaves_unpinned, is_item=True):
                        evidence = self.why(
                            function, number, "moved to the device here", Shows.PLACEMENT
                        )
                        moves.setdefault(self.inference.place(*loader), evidence)
        return moves

    def _moves_to_device(self, at: At) -> bool:
        """Whether a call moves what is in ordinary memory."""
        method, receiver = method_called(self._graph(at), self._node(at))
        if method not in MOVING:
            return False
        before, after = self._device((at[0], receiver)), self._device(at)
        return before.kind == CPU.kind and not before.pinned and after.kind == ACCELERATOR

    def _device(self, at: At) -> Device:
        atom = only(self.inference.states[at[0]].values[at[1]] or frozenset())
        return atom.device if isinstance(atom, Tensor | TensorTree) else Device(None)

    def _leaves_unpinned(self, at: At) -> bool:
        """Whether a call makes a loader that could pin its batches, and is not asked to."""
        node = self._node(at)
        names = self._names(at) if node.op == ops.CALL else frozenset()
        return (
            any(self._pins(name) for name in names)
            and not node.data.stars
            and node.argument(7, "pin_memory") < 0
            and node.argument(6, "collate_fn") < 0
        )

    def _pins(self, name: str) -> bool:
        """Whether a call of this name makes a loader that pins all its batches, if asked to."""
        maker = self.inference.files.models.maker(name)
        return name in libraries.LOADERS or (maker is not None and maker.pins)

    def sharded(self, function: str, number: int) -> Sharded | None:
        """Where the module whose parameters a node holds is wrapped in FSDP."""
        owners = (
            (owner[0], owner_of(self._graph(owner), self._node(owner)))
            for owner in islice(reachable([(function, number)], self._collected), MAX_NODES)
        )
        wraps = (wrap for owner in owners for wrap in self._wraps(owner))
        return next((self._sharded_by(wrap) for wrap in wraps), None)

    def scaled_sharded(self, function: str, number: int) -> Sharded | None:
        """Where the scaler that a call makes steps on parameters that FSDP shards, in float16."""
        return self._scaled_sharded.get(self.inference.place(function, number))

    @cached_property
    def _scaled_sharded(self) -> dict[Place, Sharded]:
        """By the call that makes a scaler, the first of these steps."""
        steps: dict[Place, Sharded] = {}
        for function in self.inference.texts.mentioning("step"):
            state = self.inference.states.get(function)
            for number, node in enumerate(state.graph.nodes if state is not None else ()):
                scaler = self._stepping(function, node)
                sharded = self._steps_sharded(function, node) if scaler is not None else None
                if scaler is None or sharded is None:
                    continue
                text = "the scaler steps on them here"
                reasons = (*sharded.reasons, self.why(function, number, text, Shows.SCALER))
                makers = [*self._search(scaler, self._makes_scaler)]
                if any(self._is_call_of(each, libraries.SHARDED_SCALERS) for each in makers):
                    continue  # a test chooses between them
                for maker in makers:
                    place = self.inference.place(*maker)
                    steps.setdefault(place, Sharded(reasons, sharded.certain))
        return steps

    def _stepping(self, function: str, node: Node) -> At | None:
        """The scaler that a call of `step` is one of."""
        state = self.inference.states[function]
        method, receiver = method_called(state.graph, node)
        if method != "step" or node.argument(0, "optimizer") < 0:
            return None
        value = state.values[receiver]
        is_scaler = any(isinstance(atom, Object) and atom.kind == "scaler" for atom in value)
        return (function, receiver) if is_scaler else None

    def _steps_sharded(self, function: str, step: Node) -> Sharded | None:
        """Where the parameters of the optimizer that a scaler steps are sharded, in float16."""
        for wrap in self._wraps_of((function, step.argument(0, "optimizer"))):
            if self._is_float16(wrap) or self._opens_float16(function):
                return self._sharded_by(wrap)
        return None

    def sharded_in_float16(self, function: str, number: int) -> Evidence | None:
        """Where FSDP is asked to compute in float16, of the parameters of an optimizer."""
        wraps = filter(self._is_float16, self._wraps_of((function, number)))
        text = "FSDP computes in float16, gradients too"
        return next((self.why(*wrap, text, Shows.OPERATION) for wrap in wraps), None)

    def _wraps_of(self, optimizer: At) -> Iterator[At]:
        """The calls that may have wrapped in FSDP the module whose parameters an optimizer has."""
        for function, number in self._search(optimizer, self._makes_optimizer):
            for module in modules_of(self.inference, function, number):
                yield from self._wraps((function, module))

    def _makes_scaler(self, at: At) -> bool:
        return self._is_call_of(at, libraries.SCALERS.keys())

    def _makes_optimizer(self, at: At) -> bool:
        return self._is_call_of(at, libraries.OPTIMIZERS)

    def _is_call_of(self, at: At, names: Set[str]) -> bool:
        return self._node(at).op == ops.CALL and not self._names(at).isdisjoint(names)

    def _wraps(self, module: At) -> Iterator[At]:
        """The calls that may have wrapped a module in FSDP, and shard it."""
        if self._is_known(module):
            yield from self._search(module, self._shards)

    def _shards(self, at: At) -> bool:
        """Whether a call wraps a module in FSDP, unless it asks for whole parameters."""
        strategies = self._given_to(at, 2, "sharding_strategy")
        return self._is_call_of(at, libraries.FULLY_SHARDED) and not any(
            isinstance(atom, Symbol) and atom.name.endswith(".NO_SHARD") for atom in strategies
        )

    def _sharded_by(self, wrap: At) -> Sharded:
        is_known = all(
            isinstance(atom, Symbol) or atom == NONE
            for atom in self._given_to(wrap, 2, "sharding_strategy")
        )
        why = self.why(*wrap, "each process keeps a part of the parameters", Shows.OPERATION)
        return Sharded((why,), is_known and not self._node(wrap).data.stars)

    def _is_float16(self, wrap: At) -> bool:
        """Whether FSDP computes in float16, by what it is asked for."""
        number = self._node(wrap).argument(6, "mixed_precision")
        sources = self._search((wrap[0], number), self._tells_precision) if number >= 0 else ()
        return any(DType("float16") in self._given_to(each, 0, "param_dtype") for each in sources)

    def _tells_precision(self, at: At) -> bool:
        return self._is_call_of(at, libraries.SHARDED_PRECISIONS)

    def _opens_float16(self, function: str) -> bool:
        """Whether a function opens a region of float16."""
        state = self.inference.states[function]
        contexts = (block.node for block in state.graph.blocks if block.kind == "with")
        return any(
            isinstance(atom, Autocast)
            and atom.enabled is not False
            and (atom.dtype or libraries.DEFAULT_DTYPES.get(atom.device or "")) == "float16"
            for context in contexts
            for atom in state.values[context]
        )

    def _given_to(self, call: At, position: int, name: str) -> Value:
        """The value of an argument of a call; bottom where it is not given."""
        node = self._node(call)
        argument = node.argument(position, name) if node.op == ops.CALL else -1
        return self.inference.states[call[0]].values[argument] if argument >= 0 else BOTTOM

    def _collected(self, at: At) -> Iterator[At]:
        """The nodes from which a collection comes, or what is in it."""
        inside = collected(self.inference.states[at[0]], at[1])
        nodes = (*self._sources(at), *((at[0], each) for each in inside))
        return (each for each in nodes if self._is_known(each))

    def in_bfloat16(self, function: str, number: int) -> Evidence | None:
        """Where the module that a node is a parameter of, in a loop over all of them, is cast to
        bfloat16; None where it is cast to something else, too."""
        module = (function, owner_of_each(self.inference.states[function].graph, number))
        if not self._is_known(module):
            return None
        sources = [*islice(reachable([module], self._sources_at_hand), MAX_NODES)]
        casts = {cast: kind for at in sources for cast, kind in self._casts(at)}
        if set(casts.values()) != {TrainingEventKind.BFLOAT16}:
            return None
        return self.why(*next(iter(casts)), "cast to bfloat16 here", Shows.DTYPE)

    def _sources_at_hand(self, at: At) -> Iterator[At]:
        """Those of a value that no field has kept, where it may have been cast by another name."""
        if self._node(at).op != ops.ATTR:
            yield from (each for each in self._sources(at) if self._is_known(each))

    def _casts(self, at: At) -> Iterator[tuple[At, TrainingEventKind]]:
        """The calls that cast the module that a node is: the node itself, and methods of it."""
        state = self.inference.states[at[0]]
        nodes = state.graph.nodes
        methods = [user for user in state.users[at[1]] if nodes[user].op == ops.ATTR]
        for call in (at[1], *(user for each in methods for user in state.users[each])):
            cast = event(self.inference, state, call) if nodes[call].op == ops.CALL else None
            if cast is not None and cast.kind in CASTS:
                yield (at[0], call), cast.kind

    def _replicates(self, at: At) -> bool:
        """Whether a call makes a DataParallel, unless it names one device alone."""
        node = self._node(at)
        if node.op != ops.CALL or self._names(at).isdisjoint(libraries.DATA_PARALLEL):
            return False
        argument = node.argument(1, "device_ids")
        devices = elements(self._graph(at), argument) if argument >= 0 else None
        return devices is None or len(devices) > 1

    def _names(self, call: At) -> frozenset[str]:
        """The library name that is called, or that a called class derives from."""
        names: set[str] = set()
        for atom in self.inference.states[call[0]].values[self._node(call).operands[0]]:
            if isinstance(atom, Symbol):
                names.add(transfer.canonical(atom.name))
            elif isinstance(atom, Class):
                names |= self.inference.hierarchy.library_bases(atom.id)
        return frozenset(names)

    def _search(self, start: At, ends: Callable[[At], bool], is_item: bool = False) -> Iterator[At]:
        """The nodes from which a value comes, the nearest first, that end the search.

        Args:
            start: the node that holds the value.
            ends: whether it ends at a node.
            is_item: whether the value may also be drawn from what is looked for.
        """
        queue = deque([start])
        trail = {start}
        while queue and len(trail) < MAX_NODES:
            at = queue.popleft()
            if ends(at):
                yield at
                continue
            sources = [*self._sources(at), *(self._containers(at) if is_item else ())]
            new = [each for each in sources if self._is_known(each) and each not in trail]
            queue.extend(new)
            trail.update(new)

    def _is_known(self, at: At) -> bool:
        return at[0] in self.inference.states and at[1] >= 0

    def _graph(self, at: At) -> Graph:
        return self.inference.states[at[0]].graph

    def _node(self, at: At) -> Node:
        return self._graph(at).nodes[at[1]]

    def _containers(self, at: At) -> Iterator[At]:
        """The nodes that hold what the value of a node is drawn from."""
        node, (function, _) = self._node(at), at
        if node.op in (ops.ITER, ops.UNPACK, ops.SUBSCRIPT):
            yield function, node.operands[0]
        elif node.op == ops.CALL:
            method, receiver = method_called(self._graph(at), node)
            names = self._names(at)
            passed = any(libraries.PASS_THROUGH.get(n) in ("elements", "enumerate") for n in names)
            if method in DRAWING:
                yield function, receiver
            elif passed or "builtins.next" in names:
                yield function, node.argument(0)

    def _sources(self, at: At) -> Iterator[At]:
        """The nodes from which the value of a node may come, unchanged."""
        node, (function, number) = self._node(at), at
        match node.op:
            case ops.NARROW | ops.PHI:
                yield from ((function, each) for each in alternatives(self._graph(at), number))
            case ops.ATTR:
                yield from self._stored(at)
            case ops.PARAM:
                yield from self._arguments(function, str(node.data))
            case ops.NAME:
                yield from self._bound(function, str(node.data))
            case ops.CALL:
                method, receiver = method_called(self._graph(at), node)
                if method in RETURNING_ITSELF:
                    yield function, receiver
                else:
                    yield from self._returned(function, number, None)
                    yield from self._original(function, node)
            case ops.UNPACK:
                of, (index, _, starred) = node.operands[0], node.data
                source = self._node((function, of))
                if not starred and source.op == ops.TUPLE:
                    yield function, self.inference.states[function].graph.element(of, index)
                elif not starred and source.op == ops.CALL:
                    yield from self._returned(function, of, index)

    def _original(self, function: str, node: Node) -> Iterator[At]:
        """Ex) `model` of torch.compile(model) and of deepcopy(model)"""
        for atom in self.inference.states[function].values[node.operands[0]]:
            name = transfer.canonical(atom.name) if isinstance(atom, Symbol) else ""
            if libraries.MODULE_WRAPPERS.get(name) == "same" or name in libraries.COPIES:
                yield function, node.argument(0)

    def _stored(self, at: At) -> Iterator[At]:
        """The values that methods store in a field: self.model"""
        node, infer = self._node(at), self.inference
        holders = infer.states[at[0]].values[node.operands[0]]
        for cls in sorted(atom.cls for atom in holders if isinstance(atom, Instance)):
            for related in (*infer.hierarchy.mro(cls), *infer.hierarchy.subclasses(cls)):
                for method in infer.hierarchy.writers_of_field(related, str(node.data)):
                    if (state := infer.states.get(method)) is not None:
                        for store in state.graph.stores.get(node.data, ()):
                            yield method, state.graph.nodes[store].second

    def _arguments(self, function: str, name: str) -> Iterator[At]:
        """The values that callers pass for a parameter."""
        places = self.inference.functions[function].places
        position = places.index(name) if name in places else None
        for caller, number in self._callers.sites.get(function, ()):
            node = self._node((caller, number))
            # A decorator is called where its function is defined, which passes no argument.
            argument = node.argument(position, name) if node.op == ops.CALL else -1
            if argument >= 0:
                yield caller, argument

    def _bound(self, function: str, name: str) -> Iterator[At]:
        """The values that a name of a surrounding function, or of the module, is bound to."""
        outer = self.inference.functions[function].parent
        while outer is not None:
            state = self.inference.states.get(outer)
            bound = state.graph.bindings.get(name, ()) if state is not None else ()
            if bound:
                yield from ((outer, number) for number in bound)
                return
            outer = self.inference.functions[outer].parent

    def _returned(self, function: str, number: int, index: int | None) -> Iterator[At]:
        """The values that a call returns; of a tuple, one of its elements."""
        for callee in sorted(self.inference.calls.edges.get((function, number), ())):
            state = self.inference.states.get(callee)
            if state is None:
                continue
            for value in state.graph.given_back:
                yield callee, value if index is None else state.graph.element(value, index)
