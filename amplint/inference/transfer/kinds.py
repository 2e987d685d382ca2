"""The values of the host that every part of the engine names, and where an operation stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from amplint.frameworks.models import Models, models_with
from amplint.values.atoms import ACCELERATOR, CPU, NONE, Device, Evidence, Host, Region, Shows, one

INT = one(Host("int"))


FLOAT = one(Host("float"))


BOOL = one(Host("bool"))


STR = one(Host("str"))


NUMBER = one(Host("number"))


OBJECT = one(Host("object"))


NUMPY = one(Host("numpy"))


NOTHING = one(NONE)


@dataclass(frozen=True)
class Site:
    """Where an operation stands: the autocast region around it, and how to give it as a reason.

    `models`: what is known of frameworks there. `on_host`: whether the project trains on the CPU.
    """

    region: Region | None
    evidence: Callable[[str, Shows], Evidence | None]
    models: Models = field(default_factory=lambda: models_with(()))
    on_host: bool = False

    def device(self, text: str) -> Device:
        """The accelerator, which the code chooses here."""
        return Device(ACCELERATOR, self.evidence(text, Shows.PLACEMENT))

    def usual(self, text: str) -> Device:
        """The accelerator, where most values of such a role are, if the project trains there."""
        if self.on_host:
            return CPU
        return Device(ACCELERATOR, self.evidence(text, Shows.CONVENTION))
