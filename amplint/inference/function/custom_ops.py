"""Operators that a project registers with `torch.library`.

An operator is known by what it is called by, `torch.ops.namespace.name`: this is what its
definition says, and what registers a function for it is an attribute of it. So
`name.register_kernel("cuda")`, `torch.library.register_kernel("namespace::name", "cuda")` and
`torch.library.impl(Library("namespace"), "name", "CUDA")` come to the same.
"""

from __future__ import annotations

from dataclasses import replace

from amplint.values.atoms import Arguments, Function, Symbol, Value, constant
from amplint.values.lattice import only

PREFIX = "torch.ops."
LIBRARY = "torch.library"
MODULES = (PREFIX, f"{LIBRARY}.")
# What the function that is handed over does for the operator; "" for one that is never run on data.
REGISTRARS = {
    "custom_op": "forward",
    "triton_op": "forward",
    "define": "",
    "register_kernel": "forward",
    "impl": "forward",
    "register_autograd": "backward",
    "register_fake": "",
    "impl_abstract": "",
    "register_vmap": "",
}
DEFINES = frozenset({"custom_op", "triton_op", "define"})
# Dispatch keys and device types of kernels that no tensor of the accelerator gets to.
OFF_DEVICE = frozenset({"cpu", "CPU", "Meta", "meta"})


def registrar(name: str) -> tuple[str, str] | None:
    """An operator, a namespace or `torch.library`, and how it registers functions; None where the
    name is that of something else."""
    owner, _, how = name.rpartition(".")
    known = how in REGISTRARS and (owner == LIBRARY or owner.startswith(PREFIX))
    return (owner, how) if known else None


def registration(owner: str, arguments: Arguments) -> tuple[str | None, Arguments]:
    """Which operator a call is about, and the rest of its arguments."""
    given = list(arguments.positional)
    name: str | None = owner
    if owner == LIBRARY:
        name = operator_called(given.pop(0)) if given else None
    if name is not None and name.startswith(PREFIX) and name.count(".") == PREFIX.count("."):
        local = constant(given.pop(0)) if given else None
        name = f"{name}.{local}" if isinstance(local, str) else None
    return name, replace(arguments, positional=tuple(given))


def operator_called(value: Value) -> str | None:
    """The operator, or the namespace, that is given by its name or as itself."""
    text, atom = constant(value), only(value)
    if isinstance(text, str) and "::" in text:
        return PREFIX + text.replace("::", ".")
    if isinstance(atom, Symbol) and atom.name.startswith(PREFIX):
        return atom.name.removesuffix(".default")
    return None


def functions_in(arguments: Arguments) -> list[Function]:
    return [a for value in arguments.all for a in value if isinstance(a, Function)]


def on_device(how: str, arguments: Arguments) -> str:
    """How a function is registered, in the light of the tensors that it is registered for."""
    if all(constant(value) not in OFF_DEVICE for value in arguments.all):
        return how
    return "define" if how in DEFINES else "register_fake"
