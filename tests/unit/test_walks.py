"""Walks over graphs visit each item once, whatever the shape of the graph."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.util.walks import Solver, components, derivable, nearest, reachable

Graph = dict[int, list[int]]
NODES = 8
graphs = st.dictionaries(
    st.integers(0, NODES - 1), st.lists(st.integers(0, NODES - 1), max_size=4), max_size=NODES
)


def following(graph: Graph) -> Callable[[int], Iterable[int]]:
    return lambda node: graph.get(node, [])


def closure(graph: Graph, start: int) -> set[int]:
    found = {start}
    while True:
        more = found | {each for node in found for each in graph.get(node, [])}
        if more == found:
            return found
        found = more


def test_a_chain_of_diamonds_is_walked_once() -> None:
    asked: list[int] = []

    def twice(node: int) -> list[int]:
        asked.append(node)
        return [node + 1, node + 1] if node < 1000 else []

    assert len(list(reachable([0], twice))) == 1001
    assert len(asked) == 1001


def test_least_evaluates_a_chain_of_diamonds_in_linear_time() -> None:
    count = 0

    def equation(node: int, ask: Callable[[int], bool]) -> bool:
        nonlocal count
        count += 1
        return node == 1000 or any([ask(node + 1), ask(node + 1)])

    assert Solver(equation, False)(0)
    assert count <= 2 * 1001


@given(graphs)
def test_reachable_is_the_transitive_closure(graph: Graph) -> None:
    walked = list(reachable([0], following(graph)))
    assert len(walked) == len(set(walked))
    assert set(walked) == closure(graph, 0)


@given(graphs, st.sets(st.integers(0, NODES - 1)))
def test_least_solves_reachability_in_graphs_with_cycles(graph: Graph, goals: set[int]) -> None:
    def equation(node: int, ask: Callable[[int], bool]) -> bool:
        return node in goals or any(ask(each) for each in graph.get(node, []))

    assert Solver(equation, False)(0) == bool(closure(graph, 0) & goals)


def distances(graph: Graph, start: int) -> dict[int, int]:
    found, level, distance = {start: 0}, {start}, 0
    while level:
        distance += 1
        level = {each for node in level for each in graph.get(node, [])} - found.keys()
        found.update(dict.fromkeys(level, distance))
    return found


@given(graphs, st.sets(st.integers(0, NODES - 1)))
def test_nearest_gives_the_distance_to_the_nearest_goal(graph: Graph, goals: set[int]) -> None:
    reversed_: Graph = {}
    for node, others in graph.items():
        for each in others:
            reversed_.setdefault(each, []).append(node)
    found = nearest(sorted(goals), following(reversed_))
    for node in range(NODES):
        known = {goal: d for goal, d in distances(graph, node).items() if goal in goals}
        assert (node in found) == bool(known)
        if known:
            distance, goal = found[node]
            assert distance == known[goal] == min(known.values())


@given(graphs)
def test_components_are_what_reaches_each_other_and_what_they_lead_to_comes_first(
    graph: Graph,
) -> None:
    found = components(range(NODES), following(graph))
    known: set[int] = set()
    for component in found:
        assert not known & set(component)
        known |= set(component)
        for node in component:
            reached = closure(graph, node)
            assert reached <= known
            assert {n for n in reached if node in closure(graph, n)} == set(component)
    assert known >= set(range(NODES))


clauses = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.lists(st.integers(0, NODES - 1), max_size=3)),
    max_size=2 * NODES,
)


@given(clauses)
def test_derivable_is_the_least_set_that_the_clauses_close(
    given_clauses: list[tuple[int, list[int]]],
) -> None:
    heights: dict[int, int] = {}
    for height in range(1, NODES + 2):
        known = set(heights)
        for head, conditions in given_clauses:
            if known.issuperset(conditions):
                heights.setdefault(head, height)
    assert dict(derivable(given_clauses)) == heights


@given(graphs, st.sets(st.integers(0, NODES - 1)))
def test_a_solver_gives_the_same_answers_one_after_the_other(graph: Graph, goals: set[int]) -> None:
    def equation(node: int, ask: Callable[[int], bool]) -> bool:
        return node in goals or any(ask(each) for each in graph.get(node, []))

    solver = Solver(equation, False)
    for node in range(NODES):
        assert solver(node) == bool(closure(graph, node) & goals)


def test_a_solver_solves_each_equation_once_for_all_questions() -> None:
    count = 0

    def equation(node: int, ask: Callable[[int], int]) -> int:
        nonlocal count
        count += 1
        return 1 + ask(node + 1) if node < 1000 else 0

    solver = Solver(equation, 0)
    assert [solver(node) for node in reversed(range(1001))] == list(range(1001))
    assert [solver(node) for node in range(1001)] == list(range(1000, -1, -1))
    assert count <= 2 * 1001


def test_a_solver_forgets_what_it_has_not_finished() -> None:
    faults = [RuntimeError()]

    def equation(node: int, ask: Callable[[int], bool]) -> bool:
        if node == 3 and faults:
            raise faults.pop()
        return node == 3 or ask(node + 1)

    solver = Solver(equation, False)
    with pytest.raises(RuntimeError):
        solver(0)
    assert solver(0)


def test_no_chain_is_too_long() -> None:
    length = 100_000
    assert Solver(lambda n, ask: n == length or ask(n + 1), False)(0)
