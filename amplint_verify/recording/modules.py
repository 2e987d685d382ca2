"""Follow which module of the program's is being called.

By hooks that torch has for all modules: a list of the calls that are under way, for each thread.
Names are looked up where something is seen, since most calls show nothing.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules import module as hooks

from amplint_verify.recording.sightings import ModulePath
from amplint_verify.torch_names import takes

Listener = Callable[..., None]


class ModuleCalls:
    """The calls of modules that are under way, and the names of modules."""

    def __init__(self) -> None:
        self._threads = threading.local()
        # By identity, with the module: another one may get the same identity later.
        self._paths: dict[int, tuple[weakref.ref[torch.nn.Module], ModulePath]] = {}

    @property
    def calls(self) -> list[torch.nn.Module]:
        """The modules whose calls are under way in this thread, the outermost first."""
        calls: list[torch.nn.Module] | None = getattr(self._threads, "calls", None)
        if calls is None:
            calls = self._threads.calls = []
        return calls

    def enter(self, module: torch.nn.Module) -> None:
        """A call has begun."""
        self.calls.append(module)

    def leave(self, module: torch.nn.Module) -> None:
        """A call has ended, and with it those inside that were left by an error."""
        calls = self.calls
        if any(each is module for each in calls):
            while calls.pop() is not module:
                pass

    def here(self) -> ModulePath | None:
        """The innermost module that is being called."""
        calls = self.calls
        return self.path(calls[-1]) if calls else None

    def path(self, module: torch.nn.Module) -> ModulePath:
        """The path of a module that is being called, from the root that it was first seen under:
        a backward pass that calls a layer again has that layer for its root."""
        module_path = self._cached_path(module)
        if module_path is not None:
            return module_path
        root, *inner = self.calls
        kind = type(root).__name__
        for name, each in root.named_modules():
            if self._cached_path(each) is None:
                self._keep(each, ModulePath(kind, name, type(each).__name__))
        module_path = self._cached_path(module)
        if module_path is None:  # kept where its root does not look, such as in a list
            around = [self._cached_path(each) for each in (root, *inner)]
            path = next((each.path for each in reversed(around) if each is not None), "")
            module_path = ModulePath(kind, path, type(module).__name__)
            self._keep(module, module_path)
        return module_path

    def _cached_path(self, module: torch.nn.Module) -> ModulePath | None:
        entry = self._paths.get(id(module))
        return entry[1] if entry is not None and entry[0]() is module else None

    def _keep(self, module: torch.nn.Module, path: ModulePath) -> None:
        self._paths[id(module)] = weakref.ref(module), path


@contextmanager
def following(modules: ModuleCalls, on_entry: Listener, on_exit: Listener) -> Iterator[None]:
    """Follow the calls of modules.

    Args:
        on_entry: is called for each that begins: the module, and its arguments.
        on_exit: is called for each that has ended: the module, its arguments, and its result.
    """

    def enter(module: torch.nn.Module, args: Any) -> None:
        modules.enter(module)
        on_entry(module, args)

    def leave(module: torch.nn.Module, *values: Any) -> None:
        *inputs, output = values  # after an error, torch leaves out the keyword arguments
        on_exit(module, inputs, output)
        modules.leave(module)

    # An older torch (2.4) does not hand on keyword arguments, as none does after an error.
    options = dict.fromkeys(takes(hooks.register_module_forward_hook, "with_kwargs"), True)
    handles = (
        hooks.register_module_forward_pre_hook(enter),
        hooks.register_module_forward_hook(leave, always_call=True, **options),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
