"""Which tests hold rarely, so that what stands under them is cold, and which say "evaluation".

A guard that holds now and then (`if step % 50 == 0`), a flag that is off by default, a wish for
output and an error path make what is inside cold. Guards on the rank do not: rank 0 waits for its
device all the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from operator import eq, ge, gt, or_

from amplint.analyses import random_draws
from amplint.facts.fact import Fact
from amplint.inference import Inference, State
from amplint.inference.incremental.continuation import FixpointEdit
from amplint.ir import ops
from amplint.ir.flow import (
    EXITS,
    HOLDS,
    PARTS,
    SUMS,
    constant,
    elements,
    is_carried,
    is_none,
    last_name,
    method_called,
    whole,
)
from amplint.ir.model import Block, Graph, Node, path_of
from amplint.knowledge import libraries
from amplint.knowledge.vocabulary import (
    CHECK,
    COUNTER,
    DONE_ONCE,
    EVALUATION_CONTEXT,
    EVALUATION_FLAG,
    EVALUATION_WORDS,
    HOW_TO_TRAIN,
    INTERVAL,
    NUMERIC_CHECK,
    OF_RARE_DEVICE,
    OF_RARE_DEVICES,
    OUTPUT_FLAG,
    RARE_DEVICES,
    REPORTS,
    TRAINING_FLAG,
    TRAINING_WORDS,
    WARNINGS,
)
from amplint.util.walks import Solver, reachable
from amplint.values.atoms import NONE, Host, Symbol, Tensor, TensorTree, Unknown, Value, may_be
from amplint.values.lattice import known, only

MAX_DEPTH = 8  # of the parts of a test that are looked at
MAX_PARTS = 4  # of an `and` or `or`
MAX_NESTING = 2  # of an `and` or `or` in another one
OFTEN = 5  # steps, by the default of an option
MAX_DEPTH_OF_CALLS = 4  # at which what a call in a test returns is looked at
COUNTS = frozenset({"len", "size", "numel", "nelement"})
SHOWS = frozenset({"item", "clone", "detach", "cpu", "float"})
NONFINITE = frozenset({"isnan", "isinf"})
ORDERS = frozenset({"Gt", "GtE", "Lt", "LtE", "Eq"})
ORDERS_UP = {"Gt": gt, "GtE": ge, "Eq": eq}  # of a flag that is on when it is this much


class ColdGuards(Fact):
    """The tests in the functions of a project, each part of one looked at once.

    `dropped`: after an edit, the functions whose tests are looked at again.
    """

    def __init__(self, inference: Inference) -> None:
        super().__init__(inference)
        self._rare: dict[str, frozenset[int]] = {}
        self._nodes: dict[str, dict[int, list[int]]] = {}  # by function: those of each block
        # By function: the joins of each name in each block.
        self._phis: dict[str, dict[tuple[int, str], list[int]]] = {}
        self._sides: dict[tuple[str, int, int], str | None] = {}
        self._giving: dict[tuple[str, int], bool] = {}
        self._asking: dict[str, set[str]] = {}  # by function: those with a test that calls it
        self.dropped: frozenset[str] = frozenset()
        self._is_counter = Solver(self._counts, False)

    def follow(self, inference: Inference, edit: FixpointEdit) -> bool:
        off_flags = self._off_flags
        self.inference = inference
        self.__dict__.pop("_off_flags")
        if off_flags != self._off_flags:
            return False
        asking = self._asking
        self.dropped = frozenset(reachable(edit.functions, lambda each: asking.get(each, ())))
        for tables in (self._rare, self._nodes, self._phis):
            for function in self.dropped & tables.keys():
                del tables[function]
        self._sides = {at: side for at, side in self._sides.items() if at[0] not in self.dropped}
        self._giving = {at: of for at, of in self._giving.items() if at[0] not in self.dropped}
        self._is_counter = Solver(self._counts, False)
        return True

    def is_evaluation(self, state: State, number: int) -> bool:
        """Whether a block runs in evaluation alone: `if not self.training`, the other side of `if
        train:`, `if mode == "predict"`, `with eval_mode(model)`."""
        block = state.graph.blocks[number]
        if block.kind == "with" and block.node >= 0:
            context = state.graph.nodes[block.node]
            name = last_name(state.graph, context.operands[0]) if context.op == ops.CALL else ""
            return bool(EVALUATION_CONTEXT.search(name))
        if block.kind not in ("if", "else", "after") or block.node < 0:
            return False
        return self._tells_evaluation(state, block.node, block.kind == "if")

    def _tells_evaluation(self, state: State, number: int, holds: bool, depth: int = 0) -> bool:
        """Whether this outcome of a test is that of evaluation alone.

        Ex) that `not self.training` holds, that `train and step > 0` does not is none

        Args:
            depth: at which it stands in a test with `and` or `or`.
        """
        node = state.graph.nodes[state.graph.narrowed(number)]
        for _ in range(MAX_DEPTH):
            if node.op == ops.UNARY and node.data == "Not":
                number, holds = node.operands[0], not holds
                node = state.graph.nodes[state.graph.narrowed(number)]
        if node.op == ops.COMPARE:
            return self._names_evaluation(state, node, holds)
        if node.op == ops.BOOL:
            # What holds of all parts of it; and of any, where each of them has this outcome.
            each_has = (node.data == "And") is holds
            is_looked_at = depth < MAX_NESTING and len(node.operands) <= MAX_PARTS
            parts = node.operands if is_looked_at else ()
            outcomes = [self._tells_evaluation(state, part, holds, depth + 1) for part in parts]
            return any(outcomes) if each_has else bool(outcomes) and all(outcomes)
        flag = EVALUATION_FLAG if holds else TRAINING_FLAG
        return flag.fullmatch(last_name(state.graph, number)) is not None

    def _names_evaluation(self, state: State, test: Node, holds: bool) -> bool:
        """Ex) `mode == "predict"`, `split in ("dev", "test")`, `stage == Stage.VALID`; the other
        side of `mode == "train"`"""
        written = elements(state.graph, test.second)
        named = [state.graph.nodes[n] for n in ((test.second,) if written is None else written)]
        is_member = [n.op == ops.ATTR for n in named]
        is_text = [n.op == ops.CONST and isinstance(n.data, str) for n in named]
        if not named or not all(map(or_, is_member, is_text)):
            return False
        words = [set(str(each.data).lower().split("_")) for each in named]
        operator = test.data[0] if len(test.data) == 1 else ""
        if operator in ("NotEq", "NotIn"):
            operator, holds = {"NotEq": "Eq", "NotIn": "In"}[operator], not holds
        if operator not in ("Eq", "In"):
            return False
        return all(each & (EVALUATION_WORDS if holds else TRAINING_WORDS) for each in words)

    def is_cold(self, function: str, state: State, number: int) -> bool:
        """Whether a block is the side of a test on which code runs rarely, or a handler."""
        block = state.graph.blocks[number]
        if block.kind == "handler":
            return True
        if block.kind not in ("if", "else", "after") or block.node < 0:
            return False
        side = self._cold_side(function, state, block.node, 0)
        here = "if" if block.kind == "if" else "else"
        if side == here:
            return True
        if block.kind == "if" and (
            self._sets_what_it_tests(function, state, number)
            or self._enters_what_it_misses(function, state, number)
            or self._moves_on(function, state, number)
            or self._reports_value(function, state, number)
        ):
            return True
        return block.kind != "after" and number in self._raising(function, state)

    def _inside(self, function: str, state: State, block: int) -> Sequence[int]:
        """The nodes of a block, without those of the blocks in it."""
        if function not in self._nodes:
            by_block = self._nodes[function] = defaultdict[int, list[int]](list)
            for number, node in enumerate(state.graph.nodes):
                by_block[node.block].append(number)
        return self._nodes[function].get(block, ())

    def _sets_what_it_tests(self, function: str, state: State, number: int) -> bool:
        """A block that sets the very field that its test compares with a constant: it runs until
        that is done.

        Ex) if self.params[2] < 0: self.params[2] = out.mean()
        """
        graph = state.graph
        test = graph.nodes[graph.blocks[number].node]
        if test.op != ops.COMPARE or len(test.operands) != 2:
            return False
        compared = {path_of(graph, self._field_of(graph, operand)) for operand in test.operands}
        constants = sum(graph.nodes[operand].op == ops.CONST for operand in test.operands)
        return constants == 1 and any(
            node.op == ops.STORE and f"{path_of(graph, node.operands[0])}.{node.data}" in compared
            for node in (graph.nodes[each] for each in self._inside(function, state, number))
        )

    def _enters_what_it_misses(self, function: str, state: State, number: int) -> bool:
        """A block under the test that a constant is no key of what outlives the call, which enters
        that key: it runs once.

        Ex) if "shape" not in seen: ...; seen["shape"] = True
        """
        graph = state.graph
        test, negated = graph.nodes[graph.blocks[number].node], False
        while test.op == ops.UNARY and test.data == "Not":
            test, negated = graph.nodes[test.operands[0]], not negated
        if test.op != ops.COMPARE or test.data != (("In",) if negated else ("NotIn",)):
            return False
        key, container = (graph.nodes[each] for each in test.operands)
        path = path_of(graph, test.second)
        outlives = container.op == ops.NAME or (path or "").startswith("self.")
        if key.op != ops.CONST or not outlives:
            return False
        inside = (graph.nodes[each] for each in self._inside(function, state, number))
        return any(
            node.op == ops.PUT
            and path_of(graph, node.operands[0]) == path
            and graph.nodes[node.second].data == key.data
            for node in inside
        )

    def _moves_on(self, function: str, state: State, number: int) -> bool:
        """A block that moves on one of the numbers that its test compares: it runs now and then.

        Ex) if step - last >= every: last = step
        Ex) if self.steps > self.next_report: self.next_report += 100
        """
        graph = state.graph
        block = graph.blocks[number]
        test = graph.nodes[block.node]
        if test.op != ops.COMPARE or not ORDERS.issuperset(test.data):
            return False
        parts = list(reachable(test.operands, lambda at: summands(graph, at)))
        if any(may_be(state.values[each], Tensor | TensorTree) for each in parts):
            return False
        stored = {
            f"{path_of(graph, node.operands[0])}.{node.data}"
            for node in (graph.nodes[each] for each in self._inside(function, state, number))
            if node.op == ops.STORE
        }
        if any(path_of(graph, each) in stored for each in parts):
            return True
        carried = {graph.nodes[n].data: n for n in parts if graph.nodes[n].op == ops.PHI}
        later = [self._phi_after(function, state, block, name) for name in carried]
        joined = min((each for each in later if each is not None), default=None)
        return joined is not None and any(
            carried[graph.nodes[joined].data]
            not in reachable([operand], lambda at: summands(graph, at))
            for operand in graph.nodes[joined].operands
        )

    def _phi_after(self, function: str, state: State, block: Block, name: str) -> int | None:
        """The join of a name behind a test, of what it holds on the two sides."""
        if function not in self._phis:
            by_name = self._phis[function] = defaultdict[tuple[int, str], list[int]](list)
            for number, node in enumerate(state.graph.nodes):
                if node.op == ops.PHI:
                    by_name[node.block, node.data].append(number)
        joins = self._phis[function].get((block.parent, name), [])
        position = bisect_left(joins, block.node)
        return joins[position] if position < len(joins) else None

    def _field_of(self, graph: Graph, number: int) -> int:
        """The field whose item, or number, a node is: `self.params` of `self.params[2].item()`."""
        for _ in range(MAX_DEPTH):
            node = graph.nodes[number]
            method, receiver = method_called(graph, node)
            if node.op in PARTS:
                number = node.operands[0]
            elif method in SHOWS:
                number = receiver
            else:
                break
        return number

    def _reports_value(self, function: str, state: State, number: int) -> bool:
        """A block that does nothing but report that a tensor is out of its range.

        Ex) if norm < 1e-8: print("too small", norm.item())
        """
        graph = state.graph
        test = graph.nodes[graph.blocks[number].node]
        if test.op != ops.COMPARE or not any(
            may_be(state.values[each], Tensor) for each in test.operands
        ):
            return False
        inside = [(each, graph.nodes[each]) for each in self._inside(function, state, number)]
        statements = [
            last_name(state.graph, node.operands[0])
            for each, node in inside
            if node.op == ops.CALL and not state.users[each]
        ]
        changes = any(node.op in HOLDS | EXITS | {ops.AUG} for _, node in inside)
        return bool(statements) and not changes and all(name in REPORTS for name in statements)

    def _raising(self, function: str, state: State) -> frozenset[int]:
        """The blocks that end in an error, warn of one, or draw a picture."""
        if function not in self._rare:
            nodes = state.graph.nodes
            self._rare[function] = frozenset(
                node.block
                for node in nodes
                if node.op == ops.RAISE or self._warns(state, node) or draws(state, node)
            )
        return self._rare[function]

    def _warns(self, state: State, node: Node) -> bool:
        """Ex) warnings.warn(...), logger.warning(...), logging.error(...), check(False, ...)"""
        if node.op != ops.CALL:
            return False
        if constant(state.graph, node.argument(0)) is False:
            name = last_name(state.graph, node.operands[0])
            return bool(CHECK.search(name))
        return method_called(state.graph, node)[0] in WARNINGS

    def _cold_side(self, function: str, state: State, number: int, depth: int) -> str | None:
        """On which side of a test the code runs rarely: "if", "else" or neither."""
        key = (function, number, depth)
        if key not in self._sides:
            deep = depth > MAX_DEPTH
            self._sides[key] = None if deep else self._find_side(function, state, number, depth + 1)
        return self._sides[key]

    def _find_side(self, function: str, state: State, number: int, inner: int) -> str | None:
        node = state.graph.nodes[number]
        if self._is_switched_on(state, number):
            return None
        if node.op == ops.UNARY and node.data == "Not":
            return _flip(self._cold_side(function, state, node.operands[0], inner))
        if node.op == ops.BOOL or (node.op == ops.BINOP and node.data == "BitOr"):
            sides = [self._cold_side(function, state, n, inner) for n in node.operands]
            both, either = ("else", "if") if node.data == "And" else ("if", "else")
            if either in sides:
                return either
            return both if all(side == both for side in sides) else None
        if (
            node.op == ops.BINOP
            and node.data in ("Mod", "BitAnd")
            and self._is_interval(state, node)
        ):
            return "else"
        if node.op == ops.NARROW:
            return self._cold_side(function, state, node.operands[0], inner)
        if node.op == ops.PHI:
            # A flag that was asked for before: both sides of that test are the flag again.
            flags = {state.graph.narrowed(operand) for operand in node.operands}
            if len(flags) == 1 and number not in flags:
                return self._cold_side(function, state, flags.pop(), inner)
            if side := self._handled_side(state, node):
                return side
        if node.op == ops.COMPARE:
            return self._cold_comparison(function, state, node)
        if node.op == ops.CALL:
            if random_draws.draw_at(state, number) is not None:
                return "else"  # `if not random.randrange(100)`
            return self._cold_call(function, state, number, node, inner)
        if self._off_by_default(function, state, number):
            return "if"
        if node.op == ops.ATTR and node.data == "is_cuda":
            return "else"
        if node.op == ops.ATTR and node.data in OF_RARE_DEVICES:
            return "if"
        if node.op == ops.ATTR and DONE_ONCE.search(node.data):
            return "else"  # `if not self.initialized`: in the first forward pass alone
        return "if" if self._is_wish(state, number) else None

    def _is_wish(self, state: State, number: int) -> bool:
        """Whether a value is a wish for output by its name, and no tensor, as `log_alpha` is."""
        is_tensor = may_be(state.values[number], Tensor | TensorTree)
        return not is_tensor and wishes_output(last_name(state.graph, number))

    def _handled_side(self, state: State, flag: Node) -> str | None:
        """`failed`, which only a handler sets to True: it holds after an error."""
        nodes = [state.graph.nodes[operand] for operand in flag.operands]
        if any(node.op != ops.CONST for node in nodes):
            return None
        outcomes = {(bool(node.data), self._is_handled(state, node.block)) for node in nodes}
        for failed, side in ((True, "if"), (False, "else")):
            if outcomes == {(failed, True), (not failed, False)}:
                return side
        return None

    def _is_handled(self, state: State, number: int) -> bool:
        """Whether a block is in a handler, or is one."""
        while number >= 0:
            block = state.graph.blocks[number]
            if block.kind == "handler":
                return True
            number = block.parent
        return False

    def _cold_comparison(self, function: str, state: State, node: Node) -> str | None:
        operator = node.data[0]
        if operator in ("IsNot", "Is"):
            if self._starts_as_none(state, node) or self._never_none(state, node):
                return "if" if operator == "Is" else "else"
            if self._is_wish(state, node.operands[0]):
                return "if" if operator == "IsNot" else "else"
            return None
        side = (
            self._host_only_side(state, node)
            or self._empty_side(state, node)
            or random_draws.rare_side(state, node)
        )
        if side is not None:
            return side
        rare = any(self._has_modulo(state, n, 0) for n in node.operands)
        rare |= any(self._is_clock(state, n, 0) for n in node.operands)
        if operator in ("Eq", "NotEq") and any(measures_batch(state, n) for n in node.operands):
            return None
        if not rare and operator in ("Eq", "NotEq", "In", "NotIn"):
            rare = any(self._is_counter((function, n)) for n in node.operands) and not any(
                may_be(state.values[n], Tensor | TensorTree) for n in node.operands
            )
        if not rare and operator in ("Gt", "GtE"):
            # `if step >= next_log`, which moves on each time.
            moving = is_carried(state.graph, node.second)
            rare = moving and self._is_counter((function, node.operands[0]))
        if not rare and operator in ("Lt", "LtE"):
            rare = self._counts_first_batches(function, state, node)
        if not rare:
            # `if args.log_interval > 0` is a wish for output as much as the flag itself.
            return self._flag_comparison(function, state, node)
        return "else" if operator in ("NotEq", "NotIn") else "if"

    def _host_only_side(self, state: State, test: Node) -> str | None:
        """`x.device.type == "cpu"`, `mode == "cpu"`: where nothing is on the device, or on a rare
        one."""
        left, right = (state.graph.nodes[n] for n in test.operands[:2])
        if left.op == ops.CONST and left.data in RARE_DEVICES:  # `"mps" in x.device.type`
            return {"In": "if", "NotIn": "else"}.get(test.data[0])
        if right.op != ops.CONST:
            return None
        if right.data == "cpu" or right.data in RARE_DEVICES:
            return {"Eq": "if", "NotEq": "else"}.get(test.data[0])
        if right.data != "cuda" or left.op != ops.ATTR or left.data != "type":
            return None
        device = state.graph.nodes[left.operands[0]]
        if device.op != ops.ATTR or device.data != "device":
            return None
        return {"Eq": "else", "NotEq": "if"}.get(test.data[0])

    def _empty_side(self, state: State, test: Node) -> str | None:
        """`len(sentences) == 0`, `labels.size(0) == 0`: an empty batch is rare, and so is a mask
        that keeps nothing (`mask.sum() > 0`)."""
        size, zero = (state.graph.nodes[n] for n in test.operands[:2])
        if zero.op != ops.CONST or zero.data != 0:
            return None
        callee = state.graph.nodes[size.operands[0]] if size.op == ops.CALL else None
        measured = callee is not None and (
            callee.data in COUNTS or (callee.data == "sum" and is_of_mask(state, callee))
        )
        if size.op == ops.SUBSCRIPT:
            shape = state.graph.nodes[size.operands[0]]
            measured = shape.op == ops.ATTR and shape.data == "shape"
        return {"Eq": "if", "NotEq": "else", "Gt": "else"}.get(test.data[0]) if measured else None

    def _starts_as_none(self, state: State, test: Node) -> bool:
        """`total is None`, where a loop goes on to give it a value: true once."""
        number = test.operands[0]
        node = state.graph.nodes[number]
        return (
            is_carried(state.graph, number)
            and is_none(state.graph, test.second)
            and any(is_none(state.graph, each) for each in node.operands)
        )

    def _never_none(self, state: State, test: Node) -> bool:
        """`size is None`, where every visible call passes a size."""
        value = state.values[test.operands[0]]
        of_none = is_none(state.graph, test.second)
        return of_none and bool(value) and NONE not in value and Unknown() not in value

    def _flag_comparison(self, function: str, state: State, node: Node) -> str | None:
        """`log_interval > 0`, and `steps_since >= log_interval`, which holds at that interval; not
        `verbose > 0` of a parameter that is 1 by default."""
        is_order = node.data[0] in ORDERS_UP
        wished = is_order and any(self._is_wish(state, n) for n in node.operands)
        return "if" if wished and not self._holds_by_default(function, state, node) else None

    def _holds_by_default(self, function: str, state: State, test: Node) -> bool:
        """Whether the default of a parameter passes a comparison with a number."""
        left, right = (state.graph.nodes[state.graph.narrowed(n)] for n in test.operands[:2])
        parameter = (
            self.inference.functions[function].param(left.data) if left.op == ops.PARAM else None
        )
        if parameter is None or not parameter.constant_default or right.op != ops.CONST:
            return False
        default, limit = parameter.default, right.data
        return (
            isinstance(default, int)
            and isinstance(limit, int)
            and ORDERS_UP[test.data[0]](default, limit)
        )

    def _counts_first_batches(self, function: str, state: State, node: Node) -> bool:
        """`step < 3`, where the number is written there; not of epochs, which have many batches."""
        count, limit = node.operands[:2]
        return (
            isinstance(constant(state.graph, limit), int)
            and self._is_counter((function, count))
            and "epoch" not in last_name(state.graph, count)
        )

    def _cold_call(
        self, function: str, state: State, number: int, node: Node, depth: int
    ) -> str | None:
        callee = state.graph.nodes[node.operands[0]]
        name = last_name(state.graph, node.operands[0])
        if name in ("any", "all", "bool", "item") and depth < 6:
            inner = [*node.arguments, *callee.operands]
            sides = [self._cold_side(function, state, n, depth) for n in inner]
            return next((side for side in sides if side), None)
        symbols = {a.name for a in state.values[node.operands[0]] if isinstance(a, Symbol)}
        if name in NONFINITE or OF_RARE_DEVICE.search(name) or symbols & libraries.EXPORTING:
            return "if"
        if INTERVAL.search(name):
            return "if"
        if name == "isfinite":
            return "else"
        if wishes_output(name):
            return "if"
        # `if self.every_n(step):`, whose body returns such a test.
        callees = self.inference.calls.edges.get((function, number), ())
        for called in callees:
            self._asking.setdefault(called, set()).add(function)
        follow = depth < MAX_DEPTH_OF_CALLS
        return "if" if follow and any(self._gives_cold(c, depth + 3) for c in callees) else None

    def _gives_cold(self, function: str, depth: int) -> bool:
        """Whether a function may return a test that holds rarely."""
        key = (function, depth)
        if key not in self._giving:
            state = self.inference.states.get(function)
            returned = state.graph.returns if state is not None else ()
            self._giving[key] = state is not None and any(
                self._cold_side(function, state, operand, depth) == "if"
                for number in returned
                for operand in state.graph.nodes[number].operands[:1]
            )
        return self._giving[key]

    def _has_modulo(self, state: State, number: int, depth: int) -> bool:
        node = state.graph.nodes[number]
        if node.op == ops.BINOP and node.data in ("Mod", "BitAnd"):
            return self._is_interval(state, node)
        return (
            depth < 4
            and node.op in (ops.BINOP, ops.UNARY, ops.NARROW)
            and any(self._has_modulo(state, n, depth + 1) for n in node.operands)
        )

    def _is_interval(self, state: State, node: Node) -> bool:
        """`step % n` of a longer period, not `"%s" % x` nor a tensor's remainder: a counter may be
        restored as a tensor."""
        counter = state.values[node.operands[0]]
        if self._is_often(state, node.second):
            return False
        if Host("int") in counter:
            return True
        return not any(
            isinstance(a, Tensor | TensorTree) or (isinstance(a, Host) and a.kind == "str")
            for a in counter
        )

    def _is_often(self, state: State, number: int) -> bool:
        """Whether a period is a few steps by the default of an option, and is no wish for output;
        or is one step.

        Ex) n of `step % n`, of `def train(n: int = 2)` and add_argument("--n", type=int, default=2)
        """
        periods = [atom for atom in state.values[number] if isinstance(atom, Host)]
        return (
            bool(periods)
            and not self._is_wish(state, number)
            and all(
                isinstance(n.const, int) and n.const <= (1 if n.known else OFTEN) for n in periods
            )
        )

    def _is_clock(self, state: State, number: int, depth: int) -> bool:
        node = state.graph.nodes[number]
        if node.op == ops.CALL:
            return any(
                isinstance(a, Symbol) and a.name.startswith("time.")
                for a in state.values[node.operands[0]]
            )
        return (
            depth < 4
            and node.op == ops.BINOP
            and any(self._is_clock(state, n, depth + 1) for n in node.operands)
        )

    def _counts(self, at: tuple[str, int], ask: Callable[[tuple[str, int]], bool]) -> bool:
        """Whether the node counts iterations: the variable of a loop, or `step + 1`."""
        function, number = at
        state = self.inference.states[function]
        node = state.graph.nodes[number]
        if node.op == ops.BINOP and node.data in ("Add", "Sub", "FloorDiv"):
            return any(ask((function, n)) for n in node.operands)
        if node.op == ops.UNPACK and state.graph.nodes[node.operands[0]].op != ops.ITER:
            return False  # `n, d = x.shape`
        if node.op in (ops.ITER, ops.UNPACK, ops.AUG) or (node.op == ops.PHI and node.data):
            return all(
                isinstance(a, Host) and a.kind in ("int", "number") for a in state.values[number]
            )
        return bool(COUNTER.search(last_name(state.graph, number)))

    @cached_property
    def _off_flags(self) -> frozenset[str]:
        """The flags that a command line has, off by default."""
        return frozenset(self.inference.calls.off_flags.values())

    def _is_switched_on(self, state: State, number: int) -> bool:
        """A flag of which the code itself says that it is on: a call passes True for the parameter,
        whatever its default is, or a field is never anything else."""
        node = state.graph.nodes[state.graph.narrowed(number)]
        value = state.values[number]
        if node.op == ops.PARAM:
            return Host("bool", True, True) in value
        return node.op == ops.ATTR and value == {Host("bool", True, True)}

    def _off_by_default(self, function: str, state: State, number: int) -> bool:
        """A flag whose default is False, and that nobody is seen to set; not one that says how to
        train, which is for users to set."""
        node = state.graph.nodes[number]
        if HOW_TO_TRAIN.search(last_name(state.graph, number)):
            return False
        if node.op == ops.PARAM:
            parameter = self.inference.functions[function].param(node.data)
            return (
                parameter is not None and parameter.constant_default and parameter.default is False
            )
        if node.op == ops.ATTR and node.data in self._off_flags:
            return True
        if node.op in (ops.ATTR, ops.NAME, ops.PHI):
            value: Value = state.values[number]
            off = Host("bool", False, True)
            return off in value and known(value) <= {off, NONE}
        return False


def is_of_mask(state: State, method: Node) -> bool:
    """Whether a method is one of a tensor of booleans."""
    tensor = only(state.values[method.operands[0]]) if method.op == ops.ATTR else None
    return isinstance(tensor, Tensor) and tensor.dtype == "bool"


def summands(graph: Graph, number: int) -> tuple[int, ...]:
    """The numbers that a number is the sum or the difference of."""
    node = graph.nodes[number]
    if node.operator in SUMS:
        return node.operands
    return node.operands[:1] if node.op == ops.NARROW else ()


def measures_batch(state: State, number: int) -> bool:
    """Ex) len(batch), of what a loop draws: most batches are as long as they should be"""
    graph, node = state.graph, state.graph.nodes[number]
    measured = node.argument(0) if node.op == ops.CALL else -1
    if measured < 0 or Symbol("builtins.len") not in state.values[node.operands[0]]:
        return False
    return graph.nodes[whole(graph, measured)].op == ops.ITER


def draws(state: State, node: Node) -> bool:
    """Ex) plt.imshow(x.cpu())"""
    return node.op == ops.CALL and any(
        isinstance(atom, Symbol) and atom.name.startswith("matplotlib.")
        for atom in state.values[node.operands[0]]
    )


def wishes_output(name: str) -> bool:
    """Whether a flag of this name asks for output: `verbose`, `log_interval`; a filter of losses
    (`logging_nan_inf_filter`) is on whatever is logged."""
    return bool(OUTPUT_FLAG.search(name)) and not NUMERIC_CHECK.search(name)


def _flip(side: str | None) -> str | None:
    return {"if": "else", "else": "if"}.get(side or "")
