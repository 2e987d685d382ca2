"""The settled answers that link gives to rules, about one file.

`amplint.analyses.program` implements this; `amplint.source.Source` passes the questions of rules on
to it. The protocol stands apart so that neither has to know the other.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from amplint.analyses.backward_support import Support
from amplint.analyses.cast_cache import Stale
from amplint.core.values import Heat, Place, Region, Trait, Value, Why
from amplint.core.violations import Violation
from amplint.gradscaler.checker import Misuse


class Answers(Protocol):
    """Questions about the nodes of one file's `ast`. A node without an answer is Unknown."""

    def value(self, node: ast.expr) -> Value:
        """What the expression evaluates to."""
        ...

    def surely_tensor(self, node: ast.expr) -> bool:
        """Whether the tensor that the expression is known to be is one by more than a guess."""
        ...

    def is_constant(self, node: ast.expr) -> bool:
        """Whether the expression is of the host, and has the same value in every iteration."""
        ...

    def built_of_constants(self, node: ast.expr) -> Place | None:
        """Where the list of constants becomes a tensor from which alone the value is computed."""
        ...

    def name(self, node: ast.expr) -> str | None:
        """The dotted name of the library object that the expression certainly is, else None."""
        ...

    def traits(self) -> Sequence[tuple[int, int, frozenset[Trait]]]:
        """Of each function: its rows, first and last, and the traits of the places in it."""
        ...

    def misuse_rows(self) -> Mapping[Violation, Collection[int]]:
        """By violation, the rows of the calls that `misuses` has something about."""
        ...

    def heat(self, node: ast.AST) -> Heat | None:
        """Why the node runs for every batch; None where it is cold or nothing says so."""
        ...

    def region(self, node: ast.AST) -> Region | None:
        """The innermost autocast region around the node, opened here or by all known callers."""
        ...

    def is_outside(self, node: ast.AST) -> bool:
        """Whether the node stands in no autocast region, or in one that its function switches off,
        whichever of the known callers calls."""
        ...

    def backward(self, call: ast.Call) -> tuple[Why, ...] | None:
        """If the call runs a backward pass, itself or through functions of the project: the chain
        of places from the call (excluded) to the `backward()` (empty if the call is itself one)."""
        ...

    def backpropagated(self, node: ast.expr, itself: bool = False) -> Why | None:
        """Where what the expression holds, or is computed of, goes through a backward pass.

        `itself`: only where it is what `backward()` is called on, or a part of it."""
        ...

    def support(self, call: ast.Call) -> Support:
        """What is known of the forward work behind a backward pass in an autocast region."""
        ...

    def thread_work(self, call: ast.Call) -> Why | None:
        """Where what the call hands to another thread runs a product, outside of any region."""
        ...

    def stale(self, context: ast.expr) -> Stale | None:
        """The weights that change within the autocast region which a `with` or a decorator opens,
        and are used in it again."""
        ...

    def misuses(self, call: ast.Call) -> Sequence[Misuse]:
        """What is wrong with a call on the paths of a training step with a scaler."""
        ...

    def bases(self, node: ast.expr) -> frozenset[str]:
        """The library classes that the class of the project, or its instance, derives from."""
        ...

    def replicated(self, node: ast.expr) -> Why | None:
        """Where the module that the expression is may have been wrapped by `nn.DataParallel`."""
        ...

    def run_by_workers(self, node: ast.AST) -> tuple[Why, ...] | None:
        """If the node runs in the worker processes of a loader: the chain of places that leads
        from the loader to it."""
        ...

    def may_be_without_grad(self, node: ast.AST) -> bool:
        """Whether gradients may be off where the node runs, by what is around it or a caller."""
        ...

    def moved_to_device(self, loader: ast.Call) -> Why | None:
        """Where a batch of a loader that does not pin them is moved to the device."""
        ...

    def class_bases(self, cls: ast.ClassDef) -> frozenset[str]:
        """The library classes that a class derives from."""
        ...

    def class_mentions(self, cls: ast.ClassDef, word: str) -> bool:
        """Whether a class, one of the project that it derives from, or one that derives from it,
        holds an identifier."""
        ...

    def is_stored_from_outside(self, attribute: str) -> bool:
        """Whether some file assigns an attribute of that name to something other than `self`."""
        ...

    def is_module(self, node: ast.expr) -> bool:
        """Whether the expression is a torch module of the project, or what is mixed into one."""
        ...

    def mentions(self, *words: str) -> bool:
        """Whether some file of the project holds all these identifiers."""
        ...

    def is_called(self, *names: str) -> bool:
        """Whether code of the project that is no test calls a function of one of these names."""
        ...

    def matches(self, pattern: str) -> bool:
        """Whether the regular expression matches a line of some file of the project."""
        ...

    def text_around(self, place: Place) -> str:
        """The text of the innermost function around a place, in whatever file."""
        ...

    def bases_at(self, place: Place) -> frozenset[str]:
        """The library classes that the class of the method around a place, in whatever file,
        derives from."""
        ...

    def called_texts(self, call: ast.Call) -> Sequence[str]:
        """The texts of the functions of the project that the call runs, a few calls deep."""
        ...

    def uses(self, node: ast.expr) -> Sequence[ast.expr]:
        """The expressions that read the value of `node` within its function, by data flow."""
        ...

    def joined(self, node: ast.expr) -> bool:
        """Whether the value may be one of several at some place that reads it: then `uses`, which
        lists the places where it is the only one, is not all."""
        ...

    def parameter(self, node: ast.expr) -> str | None:
        """The parameter of its function whose value the expression certainly is, by its name."""
        ...
