"""The models of frameworks say what the releases have that they were read from.

`python -m benchmarks.frameworks NAME --update` reads these again and writes the extracts, against
which the models are held here.
"""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from amplint.facts.program import Program
from amplint.frameworks.model_reading import model_of
from amplint.frameworks.models import bundled
from amplint.frameworks.schema import ClassRow, Model
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.values.atoms import Atom, Device, Host, Object, Tensor, TensorTree
from benchmarks.frameworks import Archive, Extract, Reader, complaints, extract_file, stored

# `others` is of many libraries: single facts, each with its source.
READ = [model for model in bundled() if model.name != "others"]
MODELS = [pytest.param(model, id=model.name) for model in READ]


@pytest.mark.parametrize("model", MODELS)
def test_a_model_says_what_its_releases_have(model: Model) -> None:
    assert extract_file(model.name).exists(), "`python -m benchmarks.frameworks --update` writes it"
    assert complaints(model, stored(model.name)) == []


@pytest.mark.parametrize("model", MODELS)
def test_what_a_name_alone_does_not_show_has_a_source(model: Model) -> None:
    """Where a class or a function is defined stands in the extract."""
    for cls in model.classes:
        for row in cls.methods:
            assert row.source or cls.source, (cls.names[0], row.names)
    for precision in model.precision:
        assert precision.source, precision.calls[0]


# What an attribute of each role is, as far as a value says it.
KIND_OF_ROLE: dict[str, Callable[[Atom], bool]] = {
    "batch": lambda atom: isinstance(atom, TensorTree),
    "outputs": lambda atom: isinstance(atom, TensorTree),
    "loss": lambda atom: isinstance(atom, Tensor) and atom.rank == 0,
    "tensor": lambda atom: isinstance(atom, Tensor),
    "device": lambda atom: isinstance(atom, Device),
    "number": lambda atom: isinstance(atom, Host),
    **{
        kind: lambda atom, kind=kind: isinstance(atom, Object) and atom.kind == kind
        for kind in ("module", "optimizer", "scaler", "scheduler")
    },
}
TELLS_NOTHING = "other"


@pytest.mark.parametrize("model", MODELS)
def test_an_attribute_has_the_value_of_its_role(model: Model) -> None:
    """In a class of the project that derives from it, and in what a call of the library builds."""
    for row in model.classes:
        named = [name for name in row.names if "*" not in name]
        if not named:
            continue
        imports = "".join(f"import {name.rpartition('.')[0]}\n" for name in named)
        own = f"{imports}class Own({named[0]}): ...\n"
        built = {n for m in model.makers if m.builds == row.kind for n in m.names}
        for maker in ("Own", *sorted(built.intersection(named))):
            assert told_wrongly(row, own, maker) == [], maker


def told_wrongly(row: ClassRow, before: str, maker: str) -> list[str]:
    """The attributes of which a program is not known to read what the row says."""
    roles = {name: role for name, role in row.attributes.items() if role != TELLS_NOTHING}
    text = f"{before}thing = {maker}()\n" + "".join(f"print(thing.{name})\n" for name in roles)
    file = File("main.py", text)
    about = Program(Files({"main.py": file})).about("main.py")
    calls = [node for node in ast.walk(file.parsed.module) if isinstance(node, ast.Call)]
    read = {ast.unparse(call.args[0]): about.value(call.args[0]) for call in calls if call.args}
    return [
        f"{name}: {role}, not {read[f'thing.{name}']}"
        for name, role in roles.items()
        if not any(map(KIND_OF_ROLE[role], read[f"thing.{name}"]))
    ]


def test_no_extract_is_without_its_model() -> None:
    extracts = {file.stem for file in extract_file("x").parent.glob("*.json")}
    assert extracts == {model.name for model in READ}


# ------------------------------------------------------------------------- the benchmark itself

BASE = """
from typing import Literal, Union

INPUT = Union[Literal[16], Literal["16-mixed"]]

class Base:
    def __init__(self, device, *, precision: INPUT = "16-mixed"):
        self.device = device

    def step(self, batch, index=0, *rest): ...

    @property
    def epoch(self): return 0

def run(hooks):
    for hook in hooks:
        hook.named()
        for event in "begin_all end_all".split():
            getattr(hook, event)()
"""
FILES = {
    "acme/__init__.py": """
from typing import TYPE_CHECKING
_import_structure = {"lazy": ["Lazy"]}
if TYPE_CHECKING:
    pass
try:
    from .core import *
except ImportError:
    pass
from acme.engine import trainer as trainers
""",
    "acme/core.py": "from .engine.trainer import Trainer as Renamed\nAlias = Renamed\n",
    "acme/lazy.py": """
from dataclasses import dataclass
@dataclass
class Lazy:
    fp16: bool = False
""",
    "acme/engine/__init__.py": "",
    "acme/engine/base.py": BASE,
    "acme/engine/trainer.py": """
from acme.engine import base
class Trainer(base.Base): ...
def load(data, batch_size=1): ...
""",
}
MODEL = """
name = "acme"
version = "1.0"

[[class]]
names = ["acme.Renamed", "acme.Alias", "acme.engine.trainer.Trainer", "acme.trainers.Trainer"]
attributes = { device = "device", epoch = "number" }
source = "acme/engine/base.py, Base"

[[class.method]]
names = ["step"]
parameters = { batch = "batch", index = "number" }

[[class.method]]
names = ["named", "end_all"]
called = "step"
source = "acme/engine/base.py, run: calls them"

[[class]]
names = ["acme.*Base"]
source = "acme/engine/base.py"

[[maker]]
names = ["acme.engine.trainer.load"]
builds = "loader"
source = "acme/engine/trainer.py"

[[precision]]
calls = ["acme.Renamed"]
argument = "precision"
values = { "16-mixed" = "float16", "16" = "float16" }
scaled = ["16"]
source = "acme/engine/base.py"

[[precision]]
calls = ["acme.Lazy"]
argument = "fp16"
position = 0
values = { true = "float16" }
source = "acme/lazy.py, Lazy.fp16"
"""


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    path = tmp_path / "acme-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in FILES.items():
            wheel.writestr(name, text)
    return Archive("acme==1.0", path)


def told(archive: Archive, old: str = "", new: str = "") -> list[str]:
    """The complaints about the model with a text replaced, held against what is read for it."""
    assert old in MODEL
    model = model_of(MODEL.replace(old, new, 1))
    extract = Reader(model, [archive]).extract()
    again = msgspec.json.decode(msgspec.json.encode(extract), type=Extract)
    return complaints(model, again)


def test_names_are_followed_through_all_that_exports_them(archive: Archive) -> None:
    assert told(archive) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("acme.Alias", "acme.Other", "`acme.Other` is no class or function"),
        ("acme.*Base", "acme.*Basis", "`acme.*Basis` is no class or function"),
        ("trainer.load", "trainer.store", "`acme.engine.trainer.store` is no class or function"),
        ("epoch =", "era =", "acme.Renamed has no attribute `era`"),
        ('"named"', '"unnamed"', "acme.Renamed.unnamed: there is no such method, and nothing"),
        ("index =", "number =", "acme.Renamed.step: its parameters are (self, batch, index=0, *re"),
        (
            'batch = "batch", index = "number"',
            'index = "number", batch = "batch"',
            "acme.Renamed.step: its parameters are (self, batch, index=0, *rest), not (index, bat",
        ),
        ('argument = "precision"', 'argument = "amp"', "(amp=): there is no such argument"),
        (
            'argument = "precision"',
            'argument = "precision"\nposition = 1',
            "acme.Renamed(precision=): its position is None, not 1",
        ),
        ("position = 0", "position = 1", "acme.Lazy(fp16=): its position is 0, not 1"),
        ('"16-mixed" =', '"bf16" =', "(precision=): `bf16` is no value of its annotation"),
        ('scaled = ["16"]', 'scaled = ["8"]', "`8` is scaled, and neither a region nor a cast"),
        ("base.py, Base", "bases.py, Base", "there is no file acme/engine/bases.py"),
        ("base.py, run", "base.py, walk", "nothing of that name is in the file"),
        ('version = "1.0"', 'version = "1.1"', "the model was read from acme==1.1, and the ext"),
    ],
)
def test_each_kind_of_error_is_told(archive: Archive, old: str, new: str, complaint: str) -> None:
    found = told(archive, old, new)
    assert any(complaint in each for each in found), found


def test_a_model_of_another_version_than_the_extract_says_so(archive: Archive) -> None:
    extract = Reader(model_of(MODEL), [archive]).extract()
    newer = model_of(MODEL.replace('"1.0"', '"1.1"'))
    assert complaints(newer, extract) == ["the model is of 1.1, and the extract of 1.0"]


def test_a_method_that_is_called_by_name_needs_a_source(archive: Archive) -> None:
    sourceless = MODEL.replace('source = "acme/engine/base.py, Base"', "").replace(
        'source = "acme/engine/base.py, run: calls them"', ""
    )
    model = model_of(sourceless)
    found = complaints(model, Reader(model, [archive]).extract())
    assert "acme.Renamed.named: it is called by name, and no source says where" in found


def test_another_release_of_the_same_distribution_is_read_too(
    archive: Archive, tmp_path: Path
) -> None:
    path = tmp_path / "acme-0.9-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("acme/__init__.py", "class Gone:\n    def step(self, batch): ...\n")
    text = MODEL.replace('"acme.Alias"', '"acme.Alias", "acme.Gone"').replace(
        'version = "1.0"', 'version = "1.0"\nreleases = ["acme==1.0", "acme==0.9"]'
    )
    model = model_of(text)
    older = Archive("acme==0.9", path, " (0.9)")
    extract = Reader(model, [archive, older]).extract()
    assert complaints(model, extract) == []
    assert extract.names["acme.Gone"] == ("acme.Gone (0.9)",)
