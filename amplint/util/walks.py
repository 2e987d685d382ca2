"""Walks over graphs that end: over the operands of a value graph, over call edges, over origins.

A recursive function that follows the operands of `a2 = a1 + a1; a3 = a2 + a2; ...` visits 2^n
nodes, and one that follows call edges does not end at a cycle unless it remembers what it has
visited. The walks here visit each item once, and `Solver` computes an answer again only when one
that it used has changed. None of them recurses, so no chain is too long for them.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)
Answer = TypeVar("Answer")


def reachable(
    starts: Iterable[Item], following: Callable[[Item], Iterable[Item]]
) -> Iterator[Item]:
    """Yield the items reachable from `starts`, each once, nearest first.

    The order is that of a breadth-first walk, so the first item with some property is one of the
    nearest that have it. `following` is asked lazily: a caller that stops early pays for no more.
    """
    items = dict.fromkeys(starts)
    level = list(items)
    while level:
        further: list[Item] = []
        for item in level:
            yield item
            for each in following(item):
                if each not in items:
                    items[each] = None
                    further.append(each)
        level = further


def nearest(
    goals: Iterable[Item], preceding: Callable[[Item], Iterable[Item]]
) -> Mapping[Item, tuple[int, Item]]:
    """For each item from which a goal is reachable, the distance to the nearest one, and which.

    Of several, the one that leads there by the item that was found first; `preceding` returns the
    items from which one step leads to an item. One walk answers for all items.
    """
    distances = {goal: (0, goal) for goal in goals}

    def note(item: Item) -> Iterator[Item]:
        distance, goal = distances[item]
        for each in preceding(item):
            distances.setdefault(each, (distance + 1, goal))
            yield each

    for _ in reachable(list(distances), note):
        pass
    return distances


def derivable(clauses: Iterable[tuple[Item, Collection[Item]]]) -> Mapping[Item, int]:
    """The items that follow from clauses, each with the height of its lowest derivation.

    A clause (item, conditions) says that the item holds where all its conditions do; without any it
    holds at height 1. Each condition is looked at once, so time is linear in the clauses.
    """
    waiting: dict[Item, list[int]] = {}  # by condition: the clauses that it is one of
    heads: list[Item] = []
    missing: list[int] = []  # by clause: how many of its conditions do not hold yet
    heights: dict[Item, int] = {}
    level: list[Item] = []
    for head, conditions in clauses:
        distinct = dict.fromkeys(conditions)
        for condition in distinct:
            waiting.setdefault(condition, []).append(len(heads))
        heads.append(head)
        missing.append(len(distinct))
        if not distinct and head not in heights:
            heights[head] = 1
            level.append(head)
    height = 1
    while level:
        height += 1
        further: list[Item] = []
        for item in level:
            for clause in waiting.get(item, ()):
                missing[clause] -= 1
                head = heads[clause]
                if not missing[clause] and head not in heights:
                    heights[head] = height
                    further.append(head)
        level = further
    return heights


def components(
    items: Iterable[Item], following: Callable[[Item], Iterable[Item]]
) -> list[list[Item]]:
    """The strongly connected components of what is reachable from items: those that reach each
    other. A component comes after those that it leads to."""
    successors: dict[Item, Sequence[Item]] = {}

    def note(item: Item) -> Sequence[Item]:
        successors[item] = tuple(following(item))
        return successors[item]

    for _ in reachable(items, note):
        pass
    things = list(successors)
    numbers = {item: number for number, item in enumerate(things)}
    edges = [[numbers[each] for each in successors[item]] for item in things]
    return [[things[number] for number in component] for component in numbered_components(edges)]


def numbered_components(
    following: Sequence[Sequence[int]], alone: bool = True, starts: Iterable[int] | None = None
) -> Iterator[list[int]]:
    """The strongly connected components of numbers; a list has at each number those that follow it.

    It is Tarjan's algorithm, with a stack of its own; inference runs it over all nodes of a
    project.

    Args:
        following: by number, those that it leads to.
        alone: whether components of one item are wanted.
        starts: those from which the wanted components are reachable; None for all.
    """
    size = len(following)
    entered = [0] * size  # when each was, counted from 1
    lowest = [0] * size  # of what it leads to and that is in no component yet
    pending = bytearray(size)  # whether it is in none
    stack: list[int] = []
    count = 0
    for start in range(size) if starts is None else starts:
        path = [(start, iter(following[start]))] if not entered[start] else []
        while path:
            item, rest = path[-1]
            if not entered[item]:
                count += 1
                entered[item] = lowest[item] = count
                stack.append(item)
                pending[item] = 1
            for each in rest:
                if not entered[each]:
                    if not alone and not following[each]:
                        continue  # it leads to nothing, and so not back
                    path.append((each, iter(following[each])))
                    break
                if pending[each] and lowest[each] < lowest[item]:
                    lowest[item] = lowest[each]
            else:
                path.pop()
                if path and lowest[item] < lowest[path[-1][0]]:
                    lowest[path[-1][0]] = lowest[item]
                if lowest[item] == entered[item]:
                    place = len(stack) - 1
                    while stack[place] != item:
                        place -= 1
                    component = stack[place:]
                    del stack[place:]
                    for each in component:
                        pending[each] = 0
                    if alone or len(component) > 1:
                        yield component


class Solver(Generic[Item, Answer]):
    """The least solution of equations that refer to one another, computed where it is asked for.

    Answers are kept, so that any number of questions takes the time of solving each equation once.

    Args:
        equation: computes the answer of an item; it gets a function for the present answers
            of other items. It must be monotone where items refer to each other in a cycle:
            larger answers of others never make it smaller. It had better ask for all that it may
            need, and not stop at the first answer that decides: it is called again for each new
            item that it asks for only then.
        bottom: the answer that every item begins with, below all others. For a question that has to
            hold along all operands, ask for its negation: "some operand is no number".

    Each item is evaluated twice, when its operands are found and when they are known, and again
    when an answer in a cycle grows: at most the number of uses of answers times the height of
    the lattice.
    """

    def __init__(
        self, equation: Callable[[Item, Callable[[Item], Answer]], Answer], bottom: Answer
    ) -> None:
        self._equation = equation
        self._bottom = bottom
        self._answers: dict[Item, Answer] = {}

    def __call__(self, start: Item) -> Answer:
        if start not in self._answers:
            self._answers.update(self._solved(start))
        return self._answers[start]

    def _solved(self, start: Item) -> Mapping[Item, Answer]:
        """The answers of an item, and of all that it needs and that were not known."""
        answers = {start: self._bottom}
        users: dict[Item, dict[Item, None]] = {}
        stack = [start]
        waiting = {start}  # what is on the stack
        unknown: list[Item] = []

        def ask(other: Item) -> Answer:
            if other in self._answers:
                return self._answers[other]
            if other not in answers:
                answers[other] = self._bottom
                unknown.append(other)
            users.setdefault(other, {})[stack[-1]] = None
            return answers[other]

        while stack:
            item = stack[-1]
            answer = self._equation(item, ask)
            more = unknown[::-1]
            if not more:
                stack.pop()
                waiting.discard(item)
                if answer != answers[item]:
                    answers[item] = answer
                    more = [user for user in users.get(item, ()) if user not in waiting]
            unknown.clear()
            waiting.update(more)
            stack += more
        return answers
