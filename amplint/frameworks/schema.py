"""The rows of a model: what a framework calls, what it is given, and what becomes of the result.

A model is a TOML file. `amplint explain --model-schema` prints this schema as JSON Schema, and
docs/frameworks.md says how to write one.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Frequency = Literal["element", "micro-batch", "step", "evaluation-batch", "epoch", "once"]
"""How often a framework calls a method. "element": for each element of a data set, in a worker of
a loader; "micro-batch": for each batch of training; "step": for each step of the optimizer;
"evaluation-batch": for each batch of validation, test or prediction."""

OF_TRAINING: frozenset[Frequency] = frozenset({"micro-batch", "step"})

Role = Literal[
    "accelerator", "batch", "device", "host batch", "loss", "module", "number", "optimizer",
    "other", "outputs", "scaler", "scheduler", "tensor",
]  # fmt: skip
"""What a value is. "batch": tensors on the device, or a nest of them; "host batch": the same before
it was moved; "loss": a tensor with a graph, without dimensions; "outputs": what a model gives;
"other": nothing that amplint needs to know."""

Kind = Literal["accelerator", "callback", "metric", "module", "trainer"]
"""What the instances of a class are. "accelerator": something that puts models, optimizers and
loaders where and how they shall run; "callback": something that is called at events; "trainer":
something that runs a loop; "module": a torch.nn.Module."""

Given = Literal["given", "nothing", "region"]
"""What else a call gives: "given", its arguments in their order, on the device; "region": a context
that opens the autocast region of the precision."""

Built = Literal[
    "accelerator", "like", "lists", "loader", "module", "optimizer", "same", "scheduler"
]
"""What a call of a function or a class builds. "like": a tensor with the dtype and the device of
the first tensor that it is given, of whatever shape; "lists": one list for each result of the
function that it is given first, which it calls with an element of each other argument at a time;
"same": nothing, it gives back what it is given first, or something like it."""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A row, with where its facts are written: a page, or a file of the release."""

    source: str = ""


class MethodRow(Row, frozen=True):
    """Methods that a framework calls, or that code may call of it.

    Args:
        names: of the methods.
        called: how often the framework calls them; None where it does not.
        region: whether it does so in the autocast region that its settings ask for.
        gradients: whether gradients are recorded there.
        unless: the option or attribute by which the framework does not call it.
        parameters: by name, what each is given, in the order of the framework's own signature and
            without `self`. A parameter of another name takes the role of the one in its place.
        result: what the framework does with what it gets. "loss": it runs its backward pass;
            "read": it brings it to the host; "batch": it takes it for a batch on the device.
        gives: what a call of it returns to the code of users.
        wraps: whether the modules that it returns run their `forward` in the region.
        reads: whether a call of it brings the tensors that it is given to the host.
        asks: the dtype of the region that a call of it asks the framework for; such a call returns
            the object back.
        scaled: whether the framework scales the loss then.
        scaling: what a call of it does where the precision scales the loss. "scales": it runs the
            backward pass of the scaled loss; "unscales": it divides the gradients by the scale;
            "clips": it limits them as they are; "gathers": it is a context in which the optimizer
            makes its step for the last of several batches alone.
    """

    names: tuple[str, ...]
    called: Frequency | None = None
    region: bool = False
    gradients: bool = True
    unless: str | None = None
    parameters: dict[str, Role] = msgspec.field(default_factory=dict)
    result: Literal["loss", "read", "batch"] | None = None
    gives: Role | Given | None = None
    wraps: bool = False
    reads: bool = False
    asks: str | None = None
    scaled: bool = False
    scaling: Literal["scales", "unscales", "clips", "gathers"] | None = None

    def role(self, name: str, position: int) -> Role | None:
        """The role of what a parameter is given.

        Args:
            name: of the parameter.
            position: of it, without `self`.
        """
        if name in self.parameters:
            return self.parameters[name]
        in_place = [*self.parameters.items()][position : position + 1]
        return in_place[0][1] if in_place else None


class ClassRow(Row, frozen=True):
    """Classes that users derive from, or make instances of.

    Args:
        names: dotted ones, each under which a class can be imported; `*` stands for any characters
            in them: `trl.*Trainer`.
        kind: what the instances are.
        attributes: what their attributes hold.
        methods: the rows of their methods, each a `[[class.method]]`.
    """

    names: tuple[str, ...]
    kind: Kind | None = None
    attributes: dict[str, Role] = msgspec.field(default_factory=dict)
    methods: tuple[MethodRow, ...] = msgspec.field(default=(), name="method")


class Maker(Row, frozen=True):
    """Functions and classes of which a call builds an object.

    Args:
        names: dotted ones, as those of a class.
        builds: what a call builds.
        on_device: whether that is, or returns what is, on the device.
        pins: whether a loader pins all that it returns where it is given `pin_memory=True`.
        gathering: the arguments that say for how many batches gradients are gathered before a step;
            without them each batch makes one.
    """

    names: tuple[str, ...]
    builds: Built
    on_device: bool = msgspec.field(default=False, name="on-device")
    pins: bool = False
    gathering: tuple[str, ...] = ()


class Telling(Row, frozen=True, kw_only=True):
    """A place where a framework is given a precision.

    Args:
        values: each value as it is written (`true` for True) -> the dtype of the region that the
            framework opens around what it calls with `region = true`.
        casts: each value that casts parameters and inputs instead -> their dtype.
        scaled: the values with which the framework scales the loss.
    """

    values: dict[str, str] = msgspec.field(default_factory=dict)
    casts: dict[str, str] = msgspec.field(default_factory=dict)
    scaled: tuple[str, ...] = ()


class Precision(Telling, frozen=True):
    """An argument by which a framework is given a precision.

    Args:
        calls: the dotted names of what takes it.
        argument: its name.
        position: where it stands, if it may be given by position.
        unless: the argument with which no value opens a region, whatever it is.
        own_parameters: the library that the framework may hand a training to, and that keeps
            float32 parameters of its own, by the word that a function then uses.
        keeps_outputs: whether what a model returns that the framework wraps keeps the dtype that it
            has in the region. Else the framework casts it to float32.
    """

    calls: tuple[str, ...]
    argument: str
    position: int | None = None
    unless: str | None = None
    own_parameters: str | None = msgspec.field(default=None, name="own-parameters")
    keeps_outputs: bool = msgspec.field(default=True, name="keeps-outputs")


class Wrapper(Row, frozen=True):
    """A call that is given a module, whose `forward` the framework runs from then on: in the region
    that its precision asks for, or without any.

    Args:
        calls: the dotted names of what takes the module; a class that derives from one of them
            takes it, too.
        argument: its name.
        position: where it stands, if it may be given by position.
        made: whether it is a function that makes the module, and not the module.
        method: the method that is given it, of what such a call builds; it is then no new fact
            that the framework runs its methods, but which of several precisions they run in.
        told_by: the name of the argument of the same call, wherever it stands, that a call of a
            `[[precision]]` has built.
    """

    calls: tuple[str, ...]
    argument: str
    position: int | None = None
    made: bool = False
    method: str | None = None
    told_by: str | None = msgspec.field(default=None, name="told-by")


class Setting(Telling, frozen=True):
    """A value in configuration files by which a framework is given a precision; `*` stands for any
    one but None and False. Of the rows of a framework, the first that has the value of a file
    counts.

    Args:
        format: of these files. "python": they assign it to a variable, as mmengine's do.
        key: where the value stands, from the outside: `fp16.enabled` for the `enabled` of `fp16`.
        also: other keys, each with the value that it must have, too.
        calls: the dotted names of what takes the same as a dictionary in code.
        arguments: the names of the arguments that are one.
    """

    format: Literal["json", "python"]
    key: str
    also: dict[str, str] = msgspec.field(default_factory=dict)
    calls: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


class Star(Row, frozen=True):
    """Modules of which users import all names: `from fastai.vision.all import *`. A name that such
    an import alone can bind is one of a row of the model, or one of `names`.

    Args:
        modules: their dotted names.
        names: others that they bring, each with what it is. Ex) `F = "torch.nn.functional"`
    """

    modules: tuple[str, ...]
    names: dict[str, str] = msgspec.field(default_factory=dict)


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All that is known of a framework, and of what it does with the code that it calls.

    Args:
        name: of the framework.
        version: the release that it was read from.
        releases: all those that its rows were read from, as pip names them, if they are not just
            `NAME==VERSION`. Ex) `trl==1.16.0`, `x @ https://.../x-1.0.tar.gz`
        packages: the top-level names by which it is imported.
        signs: texts by which a project shows that it trains under autocast by this framework, with
            quotes of either kind. Ex) `precision="bf16`, which `precision='bf16-mixed'` begins with
    """

    name: str
    version: str = ""
    releases: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    classes: tuple[ClassRow, ...] = msgspec.field(default=(), name="class")
    makers: tuple[Maker, ...] = msgspec.field(default=(), name="maker")
    wrappers: tuple[Wrapper, ...] = msgspec.field(default=(), name="wrapper")
    precision: tuple[Precision, ...] = ()
    settings: tuple[Setting, ...] = msgspec.field(default=(), name="setting")
    stars: tuple[Star, ...] = msgspec.field(default=(), name="star")
