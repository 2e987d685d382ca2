"""Functions that do nothing but bring a tensor that they are given to the host.

    def to_numpy(t):
        return t.detach().cpu().numpy()

Nothing is to be changed in such a function: who calls it decides to read. So the read is one of
the call.
"""

from __future__ import annotations

from amplint.analyses.callers import Callers
from amplint.analyses.fact import CallFact, Fact, NodeFact, Required
from amplint.analyses.hotness import TRAINING, Hotness
from amplint.analyses.tensor_certainty import TensorCertainty
from amplint.inference import Inference, SiteId, State
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import Node
from amplint.knowledge.host_reads import READING_FUNCTIONS, READING_METHODS
from amplint.knowledge.operations import SAME_VALUES
from amplint.util.positions import Place
from amplint.values.atoms import ACCELERATOR, Evidence, Function, Shows, Symbol, Tensor
from amplint.values.lattice import known, only

ASKING_FUNCTIONS = frozenset({"builtins.hasattr", "builtins.isinstance", "torch.is_tensor"})
# Operations that name things, or choose among them.
PLAIN = frozenset({ops.ANNOTATION, ops.ATTR, ops.CONST, ops.NAME, ops.PARAM, ops.RETURN, ops.TUPLE})
CHOOSING = frozenset({ops.BOOL, ops.COMPARE, ops.UNARY})
GIVEN = frozenset({ops.NARROW, ops.PHI})
RECEIVERS = ("self", "cls")


class HandedReads(CallFact[Evidence]):
    """The read in the function that a call hands a tensor on the device to, to be read there."""

    _certainty = Required(TensorCertainty)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._known: dict[str, Evidence | None] = {}

    def of(self, at: NodePlace) -> Evidence | None:
        state = self.inference.states[at.function]
        node = state.graph.nodes[at.node]
        given = node.argument(0) if node.op == ops.CALL else -1
        if given < 0 or node.arguments != (given,):
            return None
        callees = state.values[node.operands[0]]
        if not callees or not all(isinstance(a, Function) and is_whole(a) for a in callees):
            return None
        reads = [self.read_in(id_) for id_ in sorted(self.inference.calls.edges.get(at[:2], ()))]
        if not reads or None in reads or not self._is_on_device(at.function, given):
            return None
        return reads[0]

    def read_in(self, function: str) -> Evidence | None:
        """The first read of a function that only reads what it is given."""
        if function not in self._known:
            self._known[function] = self._find(function)
        return self._known[function]

    def _is_on_device(self, function: str, number: int) -> bool:
        """Whether a value surely is a tensor, and one that is not known to be on the CPU."""
        state = self.inference.states[function]
        atom = only(known(state.values[number]))
        if not isinstance(atom, Tensor) or state.graph.nodes[number].op == ops.STARRED:
            return False
        place = NodePlace(function, number, state.graph.nodes[number].block)
        unsaid = atom.device.kind is None and bool(self._certainty.of(place))
        return atom.device.kind == ACCELERATOR or unsaid

    def _find(self, function: str) -> Evidence | None:
        state = self.inference.states.get(function)
        facts = self.inference.functions[function]
        given = [p for p in facts.params if p.name not in RECEIVERS]
        if state is None or state.graph.yields or not state.graph.returns:
            return None
        if facts.kind != "function" or facts.decorated or [p.kind for p in given] != ["positional"]:
            return None
        read = first_read(state, given[0].name)
        if read is None:
            return None
        return Evidence(Place(facts.path, *read.location), "it is read here", Shows.CALL)


class ReadsOfCallers(NodeFact[bool]):
    """Whether a place stands in a function that only reads what it is given, and that a call which
    runs for every batch hands a tensor on the device: the read is one of that call."""

    _reads = Required(HandedReads)
    _callers = Required(Callers)
    _hotness = Required(Hotness)

    def of(self, at: NodePlace) -> bool:
        if self._reads.read_in(at.function) is None:
            return False
        return any(self._is_hot(site) for site in self._callers.sites.get(at.function, ()))

    def _is_hot(self, site: SiteId) -> bool:
        function, number = site
        state = self.inference.states.get(function)
        if state is None or number < 0:
            return False
        at = NodePlace(function, number, state.graph.nodes[number].block)
        heat = self._hotness.of(at)
        hot = heat is not None and heat.temperature == TRAINING
        return hot and self._reads.of(at) is not None


def is_whole(function: Function) -> bool:
    """Whether nothing is given to a function yet, by `functools.partial`."""
    return not function.given and not function.given_names


def first_read(state: State, given: str) -> Node | None:
    """The first read in a graph, if it does nothing but read what is given, and return that."""
    made: set[int] = set()
    first: Node | None = None
    for number, node in enumerate(state.graph.nodes):
        if node.op in GIVEN or node.op == ops.RETURN:
            chosen = node.operands if node.op == ops.PHI else node.operands[:1]
            if not all(each in made or is_nothing(state, each) for each in chosen):
                return None
            made.add(number)
        elif node.op == ops.PARAM and node.data == given:
            made.add(number)
        elif node.op == ops.CALL:
            how = call_of(state, node, made)
            if how is None:
                return None
            if how != "ask":
                made.add(number)
            if how == "read" and first is None:
                first = node
        elif node.op not in PLAIN and node.op not in CHOOSING:
            return None
    return first


def is_nothing(state: State, number: int) -> bool:
    node = state.graph.nodes[number]
    return node.op == ops.CONST and node.data is None


def call_of(state: State, node: Node, made: set[int]) -> str | None:
    """Whether a call reads a tensor ("read"), keeps it as it is ("keep"), or asks what it is
    ("ask"); None for anything else."""
    callee = state.graph.nodes[node.operands[0]]
    if callee.op == ops.ATTR and callee.operands[0] in made and not node.arguments:
        if callee.data in READING_METHODS:
            return "read"
        return "keep" if callee.data in SAME_VALUES else None
    names = {atom.name for atom in state.values[node.operands[0]] if isinstance(atom, Symbol)}
    if len(names) != 1 or node.argument(0) not in made:
        return None
    if names <= ASKING_FUNCTIONS:
        return "ask"
    return "read" if names <= READING_FUNCTIONS and len(node.arguments) == 1 else None
