"""Questions about the texts of all files: who mentions a word, whether something is called."""

from __future__ import annotations

import ast
from functools import cached_property

from amplint.inference.whole_program.definitions import Definitions
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.knowledge.vocabulary import IDLE_SCALER, MOVES_TENSORS, OF_DEVICES, TEST_PATH
from amplint.util.text import code_says

# Words that are looked for in each function. After an edit no more are asked for, mostly, and an
# index of all words, which pays for more, takes longer than all else that a new function needs.
FEW = 8


class ProjectTexts:
    """The texts of a project, whose answers are remembered."""

    def __init__(self, definitions: Definitions) -> None:
        self._files = definitions.files
        self._own_functions = definitions.own_functions
        self._mentions: dict[str, list[str]] | None = None
        self._mentions_asked = 0
        self._calls: dict[frozenset[str], bool] = {}
        self._matches: dict[str, bool] = {}
        self._stored: dict[str, bool] = {}
        self._idle_scalers: dict[str, bool] = {}

    @cached_property
    def trains_on_host(self) -> bool:
        return trains_on_host(self._files)

    def makes_idle_scaler(self, path: str) -> bool:
        """Whether a file has a GradScaler for the CPU, or one that is switched off."""
        if path not in self._idle_scalers:
            self._idle_scalers[path] = makes_idle_scaler(self._files[path].text)
        return self._idle_scalers[path]

    def mentioning(self, word: str) -> list[str]:
        """The functions in whose text the identifier stands."""
        functions = (each for each in self._own_functions() if each.kind != "class")
        if self._mentions is None and self._mentions_asked < FEW:
            self._mentions_asked += 1
            return [each.id for each in functions if word in each.words]
        if self._mentions is None:
            self._mentions = {}
            for function in functions:
                for mentioned in function.words:
                    self._mentions.setdefault(mentioned, []).append(function.id)
        return self._mentions.get(word, [])

    def is_called(self, names: frozenset[str]) -> bool:
        """Whether code that is no test calls a function of one of these names."""
        if names not in self._calls:
            paths = {path for name in names for path in self._files.holding(name)}
            self._calls[names] = any(
                called_name(node) in names
                for path in sorted(paths)
                if not TEST_PATH.search(path)
                for node in ast.walk(self._files[path].parsed.module)
                if isinstance(node, ast.Call)
            )
        return self._calls[names]

    def matches(self, pattern: str, *words: str) -> bool:
        """Whether the regular expression matches a line of some file; see `text.has_line`."""
        if pattern not in self._matches:
            self._matches[pattern] = any(self._files.matching(pattern, words))
        return self._matches[pattern]

    def is_stored_from_outside(self, attribute: str) -> bool:
        """Whether some file assigns an attribute of that name to something other than `self`."""
        if attribute not in self._stored:
            self._stored[attribute] = any(
                attribute in self._files.own[path].stored_from_outside
                for path in self._files.own_holding(attribute)
            ) or self._files.another_stores(attribute)
        return self._stored[attribute]


def makes_idle_scaler(text: str) -> bool:
    """Whether a file has a GradScaler for the CPU, or one that is switched off."""
    return code_says(text, "GradScaler(", IDLE_SCALER)


def trains_on_host(files: Files) -> bool:
    """Whether a project trains on the CPU, so that nothing in it is on another device.

    It runs backward passes itself, and makes NumPy arrays of what has a gradient, which raises for
    a tensor of another device. No file moves a tensor, speaks of devices or names a framework.
    """
    own = files.own.values()
    if not files.own_holding("backward"):
        return False
    if not any(code_says(file.text, ".detach().numpy()") for file in own):
        return False
    if any(files.matching(*MOVES_TENSORS)):
        return False
    frameworks = {package for model in files.models.models for package in model.packages}
    return not any(any(files.holding(word)) for word in sorted(OF_DEVICES | frameworks))


def speaks_of_devices(file: File) -> bool:
    """Whether anything in a file may be moved to a device."""
    return not file.facts.words.isdisjoint(OF_DEVICES)


def called_name(call: ast.Call) -> str:
    """The last identifier of what is called: `f` of `f(x)` and of `module.f(x)`."""
    callee = call.func
    if isinstance(callee, ast.Attribute):
        return callee.attr
    return callee.id if isinstance(callee, ast.Name) else ""
