"""Functions that run only on some versions of torch, since all their calls do."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from amplint.knowledge.vocabulary import ASKS_TORCH

MAX_CALLERS = 3  # how many calls up a version may be asked for
LEAVES = (ast.Return, ast.Continue, ast.Break)


class _Call(NamedTuple):
    """A call: of what, in which function, and whether a test of the version decides on it."""

    callee: str
    caller: str
    is_tested: bool


@dataclass
class _Calls:
    """The calls of a module.

    Args:
        module: its tree.
    """

    module: ast.Module
    _values: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for statement in self.module.body:
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    self._values[ast.unparse(target)] = ast.unparse(statement.value)

    @cached_property
    def _calls(self) -> tuple[_Call, ...]:
        return tuple(self._in(self.module.body, "", False))

    def decide_on(self, function: str) -> bool:
        """Whether there are calls of a function, and tests of the version decide on all of them.

        Ex) if torch.__version__ < "2.4": scaler = make_old()
        """
        waiting, callers = [function], {function}
        for _ in range(MAX_CALLERS):
            sites = [call for call in self._calls if call.callee in waiting]
            if not {call.callee for call in sites} >= set(waiting):
                return False
            waiting = [call.caller for call in sites if not call.is_tested]
            if not waiting:
                return True
            if not callers.isdisjoint(waiting):
                return False
            callers.update(waiting)
        return False

    def _in(self, body: Sequence[ast.AST], caller: str, is_tested: bool) -> Iterator[_Call]:
        for node in body:
            name = node.name if isinstance(node, ast.FunctionDef) else caller
            if isinstance(node, ast.Call):
                callee = ast.unparse(node.func).removeprefix("self.").removeprefix("cls.")
                yield _Call(callee, caller, is_tested)
            asks = isinstance(node, ast.If | ast.IfExp) and self._asks(node.test)
            inner = is_tested and name == caller
            for _, part in ast.iter_fields(node):
                parts = part if isinstance(part, list) else [part]
                nodes = [each for each in parts if isinstance(each, ast.AST)]
                yield from self._in(nodes, name, inner or asks)
            if isinstance(node, ast.If) and asks and isinstance(node.body[-1], LEAVES):
                is_tested = True  # what comes after it runs only on the others

    def _asks(self, test: ast.expr) -> bool:
        names = (each.id for each in ast.walk(test) if isinstance(each, ast.Name))
        texts = [ast.unparse(test), *(self._values.get(name, "") for name in names)]
        return any(ASKS_TORCH.search(text) for text in texts)


@lru_cache(maxsize=1)
def versioned_calls(module: ast.Module) -> _Calls:
    """The calls of a module, which are listed once for all findings in it: files are judged one
    after the other."""
    return _Calls(module)
