"""Walks over graphs visit each item once, whatever the shape of the graph."""

import itertools
from collections.abc import Callable, Iterable

from hypothesis import given
from hypothesis import strategies as st

from amplint.core.walks import least, reachable, shortest_path

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

    assert least(0, equation, False)
    assert count <= 2 * 1001


@given(graphs)
def test_reachable_is_the_transitive_closure(graph: Graph) -> None:
    walked = list(reachable([0], following(graph)))
    assert len(walked) == len(set(walked))
    assert set(walked) == closure(graph, 0)


@given(graphs, st.integers(0, NODES - 1))
def test_a_shortest_path_is_a_path_and_no_shorter_one_exists(graph: Graph, goal: int) -> None:
    path = shortest_path([0], following(graph), lambda node: node == goal)
    if path is None:
        assert goal not in closure(graph, 0)
        return
    assert (path[0], path[-1]) == (0, goal)
    assert all(b in graph.get(a, []) for a, b in itertools.pairwise(path))
    level, length = {0}, 1
    while goal not in level:
        level, length = {each for node in level for each in graph.get(node, [])}, length + 1
    assert len(path) == length


@given(graphs, st.sets(st.integers(0, NODES - 1)))
def test_least_solves_reachability_in_graphs_with_cycles(graph: Graph, goals: set[int]) -> None:
    def equation(node: int, ask: Callable[[int], bool]) -> bool:
        return node in goals or any(ask(each) for each in graph.get(node, []))

    assert least(0, equation, False) == bool(closure(graph, 0) & goals)
