"""Fold what repeats in a step: the layers of a model are alike, and shown once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from amplint_verify.recording.events import Event, ModuleDtypes
from amplint_verify.recording.sightings import ModulePath

LONGEST = 100  # groups of a block that is looked for again: those of a layer are some ten
NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class EventGroup:
    """Events that follow each other in one module, or outside of any."""

    module: ModulePath | None
    events: tuple[Event, ...]

    @property
    def key(self) -> object:
        """Equal for groups that are alike: those of modules whose paths differ in numbers alone."""
        events = tuple(replace(event, module=None) for event in self.events)
        return alike(self.module), events


@dataclass(frozen=True)
class FoldedBlock:
    """Groups that follow each other, as they are, and again in other modules.

    Args:
        groups: the first time.
        again: what holds the modules, each time they come again: "layers.1"; "" if nothing does.
    """

    groups: tuple[EventGroup, ...]
    again: tuple[str, ...]


def alike(module: ModulePath | None) -> ModulePath | None:
    """A module with its numbers taken out."""
    return module and replace(module, path=NUMBER.sub("#", module.path))


def groups_of(events: Iterable[Event]) -> list[EventGroup]:
    runs = groupby(events, key=lambda event: event.module)
    return [EventGroup(module, tuple(run)) for module, run in runs]


def blocks_of(groups: Sequence[EventGroup]) -> Iterator[FoldedBlock]:
    """The groups, those that repeat folded: of what fits, the fold that covers the most."""
    numbers: dict[object, int] = {}
    keys = [numbers.setdefault(group.key, len(numbers)) for group in groups]
    at = 0
    while at < len(groups):
        length, times = longest_fold(keys, at)
        parts = [groups[at + length * n : at + length * (n + 1)] for n in range(times)]
        yield FoldedBlock(tuple(parts[0]), tuple(holder(part) for part in parts[1:]))
        at += length * times


def longest_fold(keys: Sequence[int], at: int) -> tuple[int, int]:
    """How many groups from a place on come again right after it, and how often they stand there."""
    best = (1, 1)
    for length in range(1, min(LONGEST, (len(keys) - at) // 2) + 1):
        if keys[at] != keys[at + length]:
            continue
        first, times = keys[at : at + length], 1
        while keys[at + length * times : at + length * (times + 1)] == first:
            times += 1
        if times > 1 and length * times > best[0] * best[1]:
            best = (length, times)
    return best


def holder(groups: Iterable[EventGroup]) -> str:
    """The begin of all paths: "layers.1" of "layers.1.norm" and "layers.1.mlp"."""
    paths = [group.module.path.split(".") for group in groups if group.module is not None]
    common: list[str] = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return ".".join(common)


def modules_alike(modules: Iterable[ModuleDtypes]) -> Iterator[tuple[str, int, ModuleDtypes]]:
    """The modules, those that differ in the numbers of their paths alone as one: the path, with `*`
    for numbers that differ, how many they are, and the first."""
    groups: dict[ModuleDtypes, list[ModuleDtypes]] = {}
    for each in modules:
        path = alike(each.module) or each.module
        groups.setdefault(replace(each, module=path), []).append(each)
    for own in groups.values():
        yield common_path([each.module.path for each in own]), len(own), own[0]


def common_path(paths: Sequence[str]) -> str:
    """Ex) layers.*.mlp.0"""
    numbers = zip(*map(NUMBER.findall, paths), strict=True)
    replacements = iter([one[0] if len(set(one)) == 1 else "*" for one in numbers])
    return NUMBER.sub(lambda _: next(replacements), paths[0])
