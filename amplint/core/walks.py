"""Walks over graphs that end: over the operands of a value graph, over call edges, over origins.

A recursive function that follows the operands of `a2 = a1 + a1; a3 = a2 + a2; ...` visits 2^n
nodes, and one that follows call edges does not end at a cycle unless it remembers what it has
visited. The walks here visit each item once; `least` visits one again only when an answer that it
used has grown.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)
Answer = TypeVar("Answer")


def reachable(
    starts: Iterable[Item], following: Callable[[Item], Iterable[Item]]
) -> Iterator[Item]:
    """Yield the items reachable from `starts`, each once, nearest first.

    The order is that of a breadth-first walk, so the first item with some property is one of the
    nearest that have it. `following` is asked lazily: a caller that stops early pays for no more.
    """
    seen = dict.fromkeys(starts)
    level = list(seen)
    while level:
        further: list[Item] = []
        for item in level:
            yield item
            for each in following(item):
                if each not in seen:
                    seen[each] = None
                    further.append(each)
        level = further


def shortest_path(
    starts: Iterable[Item],
    following: Callable[[Item], Iterable[Item]],
    is_goal: Callable[[Item], bool],
) -> tuple[Item, ...] | None:
    """A shortest path from one of `starts` to an item that `is_goal` accepts, or None.

    Of several, the one whose items come first in the order of `starts` and `following`.
    """
    came_from: dict[Item, Item | None] = dict.fromkeys(starts)

    def note(item: Item) -> Iterator[Item]:
        for each in following(item):
            came_from.setdefault(each, item)
            yield each

    for item in reachable(list(came_from), note):
        if is_goal(item):
            path = [item]
            while (before := came_from[path[-1]]) is not None:
                path.append(before)
            return tuple(reversed(path))
    return None


def least(
    start: Item, equation: Callable[[Item, Callable[[Item], Answer]], Answer], bottom: Answer
) -> Answer:
    """The least solution, at `start`, of equations that refer to one another.

    Args:
        start: the item whose answer is wanted.
        equation: computes the answer of an item; it gets a function that gives the present answers
            of other items. It must be monotone: larger answers of others never make it smaller.
        bottom: the answer that every item begins with, below all others. For a question that has to
            hold along all operands, ask for its negation: "some operand is no number".

    An answer may grow only finitely often. The number of evaluations is at most the number of uses
    of answers times the height of the lattice; of booleans, twice the number of operands.
    """
    answers: dict[Item, Answer] = {start: bottom}
    users: dict[Item, dict[Item, None]] = {}
    stack = [start]
    waiting = {start}
    while stack:
        item = stack.pop()
        waiting.discard(item)

        def ask(other: Item, user: Item = item) -> Answer:
            users.setdefault(other, {})[user] = None
            if other not in answers:
                answers[other] = bottom
                stack.append(other)
                waiting.add(other)
            return answers[other]

        answer = equation(item, ask)
        if answer != answers[item]:
            answers[item] = answer
            for user in users.get(item, ()):
                if user not in waiting:
                    stack.append(user)
                    waiting.add(user)
    return answers[start]
