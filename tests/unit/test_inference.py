"""What link knows of values, regions and heat: small programs, and what must be known of them."""

from __future__ import annotations

import ast
import itertools
import textwrap

import pytest

from amplint.analyses.backward_calls import BackwardCalls
from amplint.analyses.hotness import TRAINING, Hotness
from amplint.analyses.tensor_certainty import TensorCertainty
from amplint.facts.code_texts import CalledTexts, FunctionTexts
from amplint.facts.inference_results import Regions
from amplint.facts.program import FileView, Program
from amplint.inference import Inference
from amplint.inference.components import complete
from amplint.inference.fixpoint import solve
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.util.positions import Place
from amplint.values.atoms import (
    ACCELERATOR,
    CPU,
    NO_DEVICE,
    PERHAPS_CPU,
    UNKNOWN,
    Device,
    Heat,
    Host,
    Object,
    Region,
    Sequence,
    Tensor,
    TensorTree,
    Value,
)
from amplint.values.lattice import is_unknown, join_devices, only
from tests.helpers import programs


def linked(main: str, **others: str) -> tuple[File, FileView]:
    """`main.py` beside other modules, linked from all its functions."""
    texts = {"main.py": main, **{f"{name}.py": text for name, text in others.items()}}
    files = {path: File(path, textwrap.dedent(text)) for path, text in texts.items()}
    return files["main.py"], Program(Files(files)).about("main.py")


def expression(file: File, text: str) -> ast.expr:
    """The last expression of the file that reads like this."""
    found = [
        node
        for node in ast.walk(file.parsed.module)
        if isinstance(node, ast.expr) and ast.unparse(node) == text
    ]
    assert found, f"no expression `{text}`"
    return max(found, key=lambda node: (node.lineno, node.col_offset))


def value(text: str, main: str, **others: str) -> Value:
    file, facts = linked(main, **others)
    return facts.value(expression(file, text))


def tensor(text: str, main: str, **others: str) -> Tensor:
    atom = only(value(text, main, **others))
    assert isinstance(atom, Tensor), atom
    return atom


def batch(text: str, main: str) -> TensorTree:
    atom = only(value(text, main))
    assert isinstance(atom, TensorTree), atom
    return atom


def heat(text: str, main: str, **others: str) -> Heat | None:
    file, facts = linked(main, **others)
    return facts.ask(Hotness, expression(file, text))


def region(text: str, main: str, **others: str) -> Region | None:
    file, facts = linked(main, **others)
    return facts.ask(Regions, expression(file, text))


# Of each program: what is claimed of it, and what is known of its expressions. All import torch.
PROGRAMS = """
what a batch holds is a tensor where a nest would fail | items: tensor | lengths: tree
| lengths > limit: tensor bool
    def train(model, loader, optimizer, limit):
        for batch in loader:
            batch = batch.to("cuda")
            items, lengths = batch["items"], batch["lengths"]
            size = items.size(0)
            longest(items, lengths)
            is_long(lengths > limit)
            model(items).sum().backward()
            optimizer.step()
a dict gives each parameter what stands under its name | tokens: tensor accelerator
| lengths: int 3
    def forward(tokens, lengths):
        return tokens, lengths
    def run(x: torch.Tensor):
        sample = {"tokens": x.cuda()}
        sample["lengths"] = 3
        sample.update({"more": None})
        forward(**sample)
a variable is the tensor that it is given | known: tensor accelerator grad
| unknown: tensor anywhere
    from torch.autograd import Variable
    def run(x):
        known = Variable(torch.zeros(3).cuda(), requires_grad=True)
        unknown = Variable(x)
        out = known, unknown
a pair is assigned element by element | a: tensor float64 | b: tensor float32
    def run():
        a, b = torch.zeros(3), torch.zeros(3, dtype=torch.float64)
        a, b = b, a
        out = a, b
what a builtin type lacks is asked of another alternative | flags.any(): tensor bool
    def run(fast):
        flags = "none" if fast else torch.zeros(3, dtype=torch.bool)
        return flags.any()
what is filtered are the elements of the second argument | norm: tensor
    def run(model):
        for p in list(filter(lambda p: p.grad is not None, torch.nn.Linear(2, 2).parameters())):
            norm = p.grad.norm(2)
        return norm
a batch moves with to | x: tree cpu | y: tree accelerator
    from torch.utils.data import DataLoader
    def train(data, device):
        for x, y in DataLoader(data):
            y = y.to(device)
            use(x, y)
a mask of a batch is on its device | mask: tree accelerator | count: tensor accelerator
    from torch.utils.data import DataLoader
    def train(data, device):
        for x, y in DataLoader(data):
            y = y.to(device)
            mask, count = y != 0, (y != 0).sum()
            use(mask, count)
a tensor of the cpu or an output may be anywhere | pad(torch.eye(3)): tensor anywhere
    def pad(points):
        return torch.nn.functional.pad(points, (0, 1))
    class Matcher(torch.nn.Module):
        def __init__(self):
            self.net = torch.nn.Sequential()
        def forward(self, x):
            pad(self.net(x))
            return pad(torch.eye(3))
a dict comprehension moves what it holds | batch['x']: tree accelerator
    from torch.utils.data import DataLoader
    def train(data):
        for batch in DataLoader(data):
            batch = {k: v.cuda() for k, v in batch.items()}
            use(batch["x"])
a field is what any method stores | self.total: tensor float32
    class Meter:
        def __init__(self):
            self.total = None
        def update(self, x):
            self.total = torch.zeros(3)
        def show(self):
            use(self.total)
branches that disagree are unknown | x: tensor cpu-or-not
    def f(flag):
        if flag:
            x = torch.zeros(3, device="cuda")
        else:
            x = torch.zeros(3)
        use(x)
a return ends its branch | x: tensor rank-1
    def f(flag):
        x = torch.zeros(3)
        if flag:
            x = 1.0
            return x
        use(x)
a number of the host is no tensor whatever a test asks | asked: unknown | tested: unknown
    class Up(torch.nn.Module):
        def forward(self, x):
            factor = 1.0 + 1.0 * (x.size(2) > 1)
            if isinstance(factor, torch.Tensor):
                asked = factor
            if torch.is_tensor(factor):
                tested = factor
            return asked, tested
what is copied by torch tensor is data whatever its annotation says | x: tensor | mean: unknown
    def scale(x: torch.Tensor, mean: torch.Tensor):
        return x - torch.tensor(mean)
isinstance narrows | x: tensor
    def f(x):
        if isinstance(x, torch.Tensor):
            use(x)
what is an instance of none of some classes | x: unknown | y: tensor
    def f(x, y):
        if not isinstance(x, (torch.Tensor, float, z)) and not isinstance(y, (int, float, z)):
            use(x, y)
    f(torch.zeros(3), torch.zeros(3))
numpy is no tensor | x: numpy
    import numpy as np
    x = np.zeros(3).sum()
    use(x)
a function that calls itself ends | f(5): tensor float32
    def f(n):
        return torch.zeros(n) if n < 2 else f(n - 1)
    use(f(5))
a loss is no number | loss: tensor
    def loss_of(x):
        return torch.ones(3).sum() if x else 0.0
    def step(x):
        loss = loss_of(x)
        loss.backward()
who only calls itself is in no region | use(x) is in no region
    def f(x):
        use(x)
        return f(x) if x else g(x)
    def g(x):
        return f(x)
a loop over epochs is not one over batches | use(model) is cold
    def epoch(model, loader):
        for batch in loader:
            model(batch).sum().backward()
    def main(model, loader):
        for _ in range(10):
            epoch(model, loader)
            use(model)
a forward is hot and an init is not | first(self) is cold | second(x) is hot
    from torch import nn
    class Net(nn.Module):
        def __init__(self):
            first(self)
        def forward(self, x):
            return second(x)
a base that is given something else | made.held: tensor cpu
    class Base:
        def __init__(self, held):
            self.held = held
    class Derived(Base):
        def __init__(self, held):
            super().__init__(held.cpu())
    def run(x):
        made = Derived(torch.zeros(3).cuda())
        use(made.held)
what is handed on by stars keeps its place and its name | tokens: tensor accelerator
| lengths: int 3 | flag: bool True | mask: tensor cpu
    class Base(torch.nn.Module):
        def extract(self, *args, **kwargs):
            return self.features(*args, **kwargs)
        def features(self, tokens, lengths, flag, mask):
            return tokens, lengths, flag, mask
    def run(model: Base, x: torch.Tensor):
        model.extract(x.cuda(), 3, flag=True, mask=torch.zeros(2))
what is used as a tensor is none of the numbers that calls give | given: tensor accelerator
| other: several
    def pad(given, other):
        return given.size(0), other == 0
    def run(x: torch.Tensor):
        pad(x.cuda(), x.cuda())
        pad(0, 0)
        pad("text", "text")
only a number of the host joins tensors elsewhere | number: tensor anywhere | numbers: tensor cpu
    def f(x: torch.Tensor):
        number, numbers = torch.tensor(2.0) * x, torch.ones(3) * x
        use(number, numbers)
a chosen tensor type is that of the accelerator | given: tensor accelerator
| made: tensor accelerator | there: tensor accelerator | alike: tensor anywhere | here: tensor cpu
    Chosen = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
    Other = torch.LongTensor if torch.cuda.is_available() else torch.FloatTensor
    def f(x: torch.Tensor):
        given, made, there = x.type(Chosen), Chosen(3), torch.ones(3).type(Chosen)
        alike, here = torch.ones(3).type(x.type()), torch.ones(3).type(Other)
        use(given, made, there, alike, here)
a view stays where it is wherever its sizes come from | x: tensor cpu | y: tensor cpu
    n = torch.ones((), dtype=torch.long, device="cuda")
    x = torch.arange(4).expand(n, -1)
    y = torch.arange(4).repeat(n)
    use(x, y)
a parameter is what the call passes | loss: tensor accelerator rank-0
    def read(loss):
        return loss.item()
    read(torch.ones((), device="cuda"))
what is backpropagated is a loss on the device | loss: tensor accelerator rank-0 grad
    def step(model, batch):
        loss = model.compute(batch)
        loss.backward()
        return loss.item()
what a library shapes anew keeps its dtype and its device
| heads: tensor float16 accelerator any-rank
| reduce(heads, 'h n d -> ', 'mean'): tensor float16 accelerator any-rank
    from einops import rearrange, reduce
    def run(n):
        x = torch.zeros(n, 8, dtype=torch.float16, device="cuda")
        heads = rearrange(x, "n (h d) -> h n d", h=4)
        return reduce(heads, "h n d -> ", "mean")
a distribution is where its parameters are | actions: tensor int64 no-grad accelerator
| likely: tensor accelerator | apart: tensor accelerator | deviation: tensor accelerator
| host: tensor cpu
    from torch.distributions import Categorical, Independent, Normal, kl_divergence
    def run(n):
        logits = torch.zeros(n, 4, device="cuda")
        actions = Categorical(logits=logits).sample()
        heights = Independent(Normal(logits, 1.0), 1)
        likely = heights.log_prob(logits)
        apart = kl_divergence(heights, heights)
        deviation = heights.stddev
        host = Normal(0.0, 1.0).rsample()
        return actions, likely, apart, deviation, host
a partial of autocast | half: Autocast
    import functools
    half = functools.partial(torch.autocast, "cuda", dtype=torch.float16)
    use(half)
a decorator opens a region | use(x) is in cuda float16 own
    @torch.autocast("cuda", dtype=torch.float16)
    def f(x):
        use(x)
the region of all callers is inherited | use(x) is in cuda inherited
    def f(x):
        use(x)
    def g(x):
        with torch.autocast("cuda"):
            f(x)
one caller in a region suffices | use(x) is in cuda inherited
    def f(x):
        use(x)
    def g(x):
        f(x)
        with torch.autocast("cuda"):
            f(x)
a context manager of the project | use(x) is in cuda
    import contextlib
    @contextlib.contextmanager
    def mixed():
        with torch.autocast("cuda"):
            yield
    def f(x):
        with mixed():
            use(x)
a decorator that is an instance | use(x) is in cuda
    import functools
    class Half:
        def __call__(self, function):
            @functools.wraps(function)
            def wrapper(*args):
                with torch.autocast("cuda"):
                    return function(*args)
            return wrapper
    @Half()
    def f(x):
        use(x)
a loader without training is evaluation | use(model(batch)) is hot evaluation
    from torch.utils.data import DataLoader
    def evaluate(model, data):
        for batch in DataLoader(data):
            use(model(batch))
"""


def words(found: Value) -> set[str]:
    """What is known of a value, in words."""
    atom = only(found)
    if atom is None:
        return {"unknown" if found == UNKNOWN else "several"}
    if isinstance(atom, Host) and len(found) == 1:
        return {atom.kind, str(atom.const) if atom.known else ""}
    if not isinstance(atom, Tensor | TensorTree):
        return {type(atom).__name__}
    device = atom.device.kind or "anywhere"
    place = "pinned" if atom.device.pinned else device.replace(" ", "-")
    if isinstance(atom, TensorTree):
        return {"tree", place}
    rank = "any-rank" if atom.rank is None else f"rank-{atom.rank}"
    grad = "any-grad" if atom.grad is None else "grad" if atom.grad else "no-grad"
    return {"tensor", place, rank, grad, atom.dtype or "any-dtype"}


def circumstances(at: ast.expr, facts: FileView) -> set[str]:
    """Whether an expression runs for every batch, and in which region, in words."""
    around, hot = facts.ask(Regions, at), facts.ask(Hotness, at)
    heat = {"cold"} if hot is None else {"hot", hot.temperature}
    if around is None:
        return {*heat, "in", "no", "region"}
    opened = "inherited" if around.inherited else "own"
    return {*heat, "in", str(around.device), str(around.dtype), opened}


@pytest.mark.parametrize(
    ("claims", "text"),
    [pytest.param(rest, text, id=title) for (title, *rest), text in programs(PROGRAMS)],
)
def test_what_is_known_of_a_program(claims: list[str], text: str) -> None:
    file, facts = linked(f"import torch\n{text}")
    for claim in claims:
        written, is_of_place, said = claim.partition(" is ")
        if not is_of_place:
            written, _, said = claim.rpartition(": ")
        at = expression(file, written)
        told = circumstances(at, facts) if is_of_place else words(facts.value(at))
        assert told >= {*said.split()}, claim


SHAPES = """
    import torch
    class Layer(torch.nn.Module):
        def forward(self, x, H, W, sizes, lengths, grid: torch.Tensor):
            area = H * W
            half = sizes[0] + 1
            end = 0
            for size in sizes[1:]:
                end = end + size
            longest = lengths.max() + 1
            last = lengths[-1]
            for h, w in grid:
                both = h * w
            shapes = [h * w for h, w in grid]
            twice = double(lengths)
            more = treble(half)
            most = max(longest, last)
            return x, area, half, end, longest, last, both, shapes, twice, more, most
    def double(n):
        return n * 2
    def treble(n):
        return n * 3
    """


class TestCertainty:
    @pytest.mark.parametrize("name", ["longest", "last", "both", "shapes", "twice", "most"])
    def test_annotations_attributes_and_methods_make_a_tensor_sure(self, name: str) -> None:
        file, facts = linked(SHAPES)
        assert facts.ask(TensorCertainty, expression(file, name))

    @pytest.mark.parametrize("name", ["area", "half", "end", "more"])
    def test_arithmetic_and_subscripts_do_not(self, name: str) -> None:
        """They are taken for tensors, which numbers and lists could be as well."""
        file, facts = linked(SHAPES)
        assert any(isinstance(atom, Tensor) for atom in facts.value(expression(file, name)))
        assert not facts.ask(TensorCertainty, expression(file, name))


class TestValues:
    def test_what_a_function_of_another_file_returns(self) -> None:
        main = "import torch\nfrom helpers import make\ny = make(3)\nuse(y)\n"
        helpers = "import torch\ndef make(n):\n    return torch.zeros(n, dtype=torch.float16)\n"
        assert tensor("y", main, helpers=helpers).dtype == "float16"

    @pytest.mark.parametrize(
        ("stored", "dtype"),
        [("torch.zeros(3)", "float32"), ("weight", None), ("None", None)],
    )
    def test_the_annotation_of_a_field_counts_where_nothing_more_is_stored(
        self, stored: str, dtype: str | None
    ) -> None:
        program = f"""
            import torch
            class Layer:
                weight: torch.Tensor
                def __init__(self, weight):
                    self.weight = {stored}
                def show(self):
                    use(self.weight)
            """
        found = [a for a in value("self.weight", program) if isinstance(a, Tensor)]
        assert [each.dtype for each in found] == [dtype]

    def test_joins_of_devices_do_not_depend_on_their_order(self) -> None:
        devices = [CPU, PERHAPS_CPU, NO_DEVICE, Device(ACCELERATOR), Device("cpu", pinned=True)]
        for a, b, c in itertools.product(devices, repeat=3):
            one_by_one = join_devices([join_devices([a, b]), c])
            assert one_by_one == join_devices([a, b, c]) == join_devices([c, b, a])

    @pytest.mark.parametrize("annotation", ["list[()]", "tuple[()]", "Union[()]", "dict[()]"])
    def test_an_annotation_with_nothing_between_its_brackets(self, annotation: str) -> None:
        program = f"""
            from typing import Union
            def f(x: {annotation}):
                use(x)
            """
        assert not isinstance(only(value("x", program)), Tensor)

    def test_a_loop_joins_what_it_rebinds(self) -> None:
        program = """
            def f(n):
                total = 0
                for i in range(n):
                    total = total + 0.5
                use(total)
            """
        kinds = {atom.kind for atom in value("total", program) if isinstance(atom, Host)}
        assert kinds == {"int", "float"}

    def test_a_class_of_the_same_name_elsewhere_has_subclasses_of_its_own(self) -> None:
        program = """
            import torch
            class Base:
                def make(self):
                    return torch.zeros(3, device="{device}")
            class Sub(Base):
                def make(self):
                    return torch.ones(3, device="{device}")
            use(Base().make())
            """
        here, there = program.format(device="cpu"), program.format(device="cuda")
        assert tensor("Base().make()", here, other=there).device.kind == "cpu"

    @pytest.mark.parametrize(
        "derived",
        [
            "from main import Base\nclass Sub(Base):",
            "from again import Base\nclass Sub(Base):",
            "import main\nclass Base: ...\nclass Sub(main.Base):",
            "import typing\nfrom main import Base\nclass Sub(typing.Generic[int], Base[int]):",
        ],
    )
    def test_a_subclass_is_found_through_imports(self, derived: str) -> None:
        main = """
            class Base:
                def show(self):
                    return self.make()
            use(Base().show())
            """
        sub = f"{derived}\n    def make(self):\n        return torch.ones(3)\nimport torch\n"
        made = tensor("Base().show()", main, sub=sub, again="from main import *\n")
        assert made.dtype == "float32"

    def test_a_library_may_be_the_project_itself(self) -> None:
        main = "from timm.layers import half\nuse(half(x))\n"
        half = "def half(x):\n    return x.to('cuda').half()\n"
        own = {"timm/__init__.py": "", "timm/layers.py": half}
        inside = {"models/__init__.py": "", **{f"models/{path}": own[path] for path in own}}
        for texts, dtype in ((own, "float16"), (inside, None)):
            files = {p: File(p, text) for p, text in {"main.py": main, **texts}.items()}
            facts = Program(Files(files)).about("main.py")
            atom = only(facts.value(expression(files["main.py"], "half(x)")))
            assert (atom.dtype if isinstance(atom, Tensor) else None) == dtype

    @pytest.mark.parametrize("written", ["from lib import metrics", "from . import metrics"])
    def test_a_package_that_imports_its_module_from_itself_means_the_module(
        self, written: str
    ) -> None:
        texts = {
            "main.py": "from lib import metrics\nuse(metrics.zero())\n",
            "lib/__init__.py": f"{written}\n",
            "lib/metrics.py": "import torch\ndef zero():\n    return torch.zeros(3)\n",
        }
        files = {path: File(path, text) for path, text in texts.items()}
        facts = Program(Files(files)).about("main.py")
        made = only(facts.value(expression(files["main.py"], "metrics.zero()")))
        assert isinstance(made, Tensor)

    @pytest.mark.parametrize(
        ("summed", "term"),
        [
            ("sum(terms.values())", "terms['a']"),
            ("sum(each for each in terms.values())", "terms['a']"),
            ("torch.stack(terms).mean()", "terms[0]"),
            ("0.5 * terms - other", "terms"),
            ("torch.mean(-terms)", "terms"),
            ("kl_weight * terms", "terms"),
            ("terms * self.args.gamma - other", "terms"),
            (
                "sum(terms[k] * weight_dict[k] for k in terms.keys() if k in weight_dict)",
                "terms['a']",
            ),
            ("sum(terms[k] for k in terms)", "terms['a']"),
        ],
    )
    def test_the_terms_of_a_loss_are_on_the_device(self, summed: str, term: str) -> None:
        main = f"""
            import torch
            def step(self, terms, other, kl_weight, weight_dict):
                loss = {summed}
                loss.backward()
                {term}
        """
        known = tensor(term, main)
        assert known.device.kind == "accelerator"

    @pytest.mark.parametrize(
        ("product", "factor"),
        [("far * near", "near"), ("weight * term", "weight"), ("alpha * beta", "beta")],
    )
    def test_a_factor_that_may_be_a_weight_is_no_term(self, product: str, factor: str) -> None:
        main = f"""
            def step(term, weight, near, far, alpha, beta):
                loss = {product}
                loss.backward()
                {factor}
        """
        assert is_unknown(value(factor, main))

    def test_a_method_that_was_handed_on_is_called(self) -> None:
        main = """
            def around(method):
                def wrapper(*args):
                    return method(*args)
                return wrapper
            def patch(model):
                model.to = around(model.to)
                return model.to("cuda")
        """
        file = File("main.py", textwrap.dedent(main))
        assert not Program(Files({"main.py": file})).failures

    def test_the_rows_of_what_has_two_dimensions_have_one(self) -> None:
        main = "import torch\nm = torch.ones(3, 3) > 0\nfor i in m.nonzero():\n    use(i, i[0])\n"
        assert (tensor("i", main).rank, tensor("i[0]", main).rank) == (1, 0)
        rows = "import torch\nr, c = torch.where(torch.ones(3, 3) > 0)\nuse(c[2], c)\n"
        assert (tensor("c[2]", rows).rank, tensor("c", rows).rank) == (0, 1)

    def test_an_import_cycle_ends(self) -> None:
        main = "from helpers import g\ndef f(n):\n    return g(n)\nx = f(1)\nuse(x)\n"
        helpers = (
            "import torch\nfrom main import f\ndef g(n):\n    return f(n) if n else torch.ones(2)\n"
        )
        assert tensor("x", main, helpers=helpers).dtype == "float32"

    def test_a_slice_is_what_it_is_cut_from(self) -> None:
        program = "import torch\nx = torch.ones(2, 3)\n"
        assert only(value("x.shape[-2:]", program + "x.shape[-2:]")) == Host("size")
        assert only(value("x.shape[0]", program + "x.shape[0]")) == Host("int")
        cut = only(value("xs[1:]", program + "xs = [x, x, x]\nxs[1:]"))
        assert isinstance(cut, Sequence) and isinstance(only(cut.element), Tensor)

    @pytest.mark.parametrize(
        ("expression", "pinned"),
        [
            ("batch", True),
            ("batch['x']", True),
            ("batch['x'][:8]", True),
            ("batch['x'][batch['rows']]", False),
            ("batch['x'].to(torch.float16)", False),
            ("batch['x'] + 1", False),
            ("batch['x'].to('cuda')", False),
        ],
    )
    def test_what_a_loader_pins_is_pinned_until_it_is_copied(
        self, expression: str, pinned: bool
    ) -> None:
        program = f"""
            import torch
            from torch.utils.data import DataLoader
            def f(data, collate):
                for batch in DataLoader(data, {{options}}):
                    {expression}
            """
        known = only(value(expression, program.replace("{options}", "pin_memory=True")))
        assert isinstance(known, Tensor | TensorTree)
        assert known.device.pinned is pinned
        maybe = only(value("batch", program.replace("{options}", "pin_memory=data")))
        assert isinstance(maybe, TensorTree)
        assert maybe.device.pinned  # as an option says
        for options in ("pin_memory=False", "pin_memory=True, collate_fn=collate"):
            other = only(value("batch", program.replace("{options}", options)))
            assert isinstance(other, TensorTree)
            assert not other.device.pinned

    @pytest.mark.parametrize(
        ("expression", "pinned"),
        [("batch", False), ("batch['x']", True), ("batch[0]['x'][:2]", True), ("batch.x", False)],
    )
    def test_what_is_taken_out_of_a_collated_batch_is_pinned(
        self, expression: str, pinned: bool
    ) -> None:
        program = f"""
            import torch
            from torch.utils.data import DataLoader
            def f(data, collate):
                for batch in DataLoader(data, pin_memory=True, collate_fn=collate):
                    {expression}
            """
        known = only(value(expression, program))
        assert isinstance(known, TensorTree)
        assert known.device.pinned is pinned


class TestAutocast:
    @pytest.mark.parametrize(
        ("opened", "device", "dtype"),
        [
            ("torch.autocast('cuda')", "cuda", "float16"),
            ("torch.autocast('cuda', dtype=torch.bfloat16)", "cuda", "bfloat16"),
            ("torch.cuda.amp.autocast()", "cuda", "float16"),
            ("torch.cpu.amp.autocast()", "cpu", "bfloat16"),
            ("torch.no_grad(), torch.amp.autocast('cuda')", "cuda", "float16"),
            ("context", "cuda", "bfloat16"),
            ("helper(torch.bfloat16)", "cuda", "bfloat16"),
            ("torch.autocast('cuda', enabled=False)", "cuda", "float32"),
            ("torch.autocast('cuda')", "cpu", "float32"),  # another device's region
            ("open('f')", "cuda", "float32"),
        ],
    )
    def test_a_matmul_takes_the_dtype_of_the_region(
        self, opened: str, device: str, dtype: str
    ) -> None:
        program = f"""
            import torch
            def helper(dtype):
                return torch.autocast("cuda", dtype=dtype)
            def f():
                context = torch.autocast("cuda", dtype=torch.bfloat16)
                a = torch.ones(2, 2, device="{device}")
                with {opened}:
                    h = a @ a
                    use(h)
            """
        assert tensor("h", program).dtype == dtype

    @pytest.mark.parametrize(
        ("layers", "then", "dtype"),
        [
            ("nn.ReLU(), nn.Linear(4, 4)", "pass", "float16"),
            ("nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU()", "pass", "float16"),
            ("nn.Sequential(nn.Linear(4, 4)), nn.Dropout(0.1)", "pass", "float16"),
            ("nn.Linear(4, 4), nn.LayerNorm(4)", "pass", "float32"),
            ("nn.Linear(4, 4), nn.Softmax(-1), nn.Identity()", "pass", "float32"),
            ("nn.Linear(4, 4), Own()", "pass", None),
            ("nn.ReLU(), nn.BatchNorm1d(4)", "pass", None),
            ("*layers", "pass", None),
            ("nn.Linear(4, 4)", "net.append(Own())", None),
            ("nn.Linear(4, 4)", "net[-1] = Own()", None),
            ("nn.Linear(4, 4), nn.LSTM(4, 4)", "pass", None),
            ("nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU()", "pass", "float16"),
            ("nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU()", "pass", "float32"),
            ("*[nn.Linear(4, 4) for _ in range(3)], nn.ReLU()", "pass", "float16"),
            ("*[nn.Linear(4, 4), nn.LayerNorm(4)][::1], nn.ReLU()", "pass", None),
            ("nn.LayerNorm(4), *[nn.Linear(4, 4) for _ in range(3)]", "pass", None),
            ("nn.Linear(4, 4) if layers else nn.Conv2d(3, 4, 1)", "pass", "float16"),
            ("nn.Linear(4, 4) if layers else nn.ReLU()", "pass", None),
        ],
    )
    def test_the_last_layers_of_a_sequential_settle_the_dtype(
        self, layers: str, then: str, dtype: str | None
    ) -> None:
        program = f"""
            import torch
            from torch import nn
            from elsewhere import Own
            def f(x, layers):
                net = nn.Sequential({layers}).cuda()
                {then}
                with torch.autocast("cuda"):
                    h = net(x.cuda())
                    use(h)
            """
        atom = only(value("h", program))
        assert (atom.dtype if isinstance(atom, Tensor) else None) == dtype

    def test_what_it_gives_is_half_to_a_caller_in_the_region_alone(self) -> None:
        program = """
            import torch
            layer = torch.nn.Linear(4, 4)
            def f(x):
                return [layer(x)]
            def evaluate(x: torch.Tensor):
                outside(f(x)[0])
            def train(x: torch.Tensor):
                with torch.autocast("cuda", dtype=torch.float16):
                    inside(f(x)[0])
            """
        assert tensor("f(x)[0]", program).dtype == "float16"
        assert tensor("f(x)[0]", program.replace("inside(f(x)[0])", "inside(f(x))")).dtype is None

    def test_a_test_puts_no_code_into_a_region(self) -> None:
        program = """
            import torch
            def f(x):
                use(x)
            """
        test = """
            import torch
            from m import f
            def test_f():
                with torch.autocast("cuda"):
                    f(1)
            """
        assert region("use(x)", program, **{"tests/test_f.py": test}) is None

    @pytest.mark.parametrize(
        ("statements", "inside", "after"),
        [
            ("half.__enter__(); use(x); half.__exit__(None, None, None); end(x)", True, False),
            ("stack.enter_context(half); use(x); stack.close(); end(x)", True, False),
            ("stack.enter_context(half); use(x); other.close(); end(x)", True, True),
            ("with stack as s:\n s.enter_context(half); use(x)\nend(x)", True, False),
            ("if amp:\n half.__enter__()\nuse(x); end(x)", True, True),
            ("if amp:\n half.__enter__()\nelse:\n use(x)\nend(x)", False, True),
            ("if amp:\n half.__enter__(); use(x)\n return x\nend(x)", True, False),
            (
                "half.__enter__(); use(x)\nif amp:\n half.__exit__(None, None, None)\nend(x)",
                True,
                False,
            ),
            (
                "for h in (half, half):\n h.__enter__(); use(x)\n h.__exit__(*none)\nend(x)",
                True,
                False,
            ),
            ("with half and torch.no_grad():\n use(x)\nend(x)", False, False),
            ("with torch.no_grad() and half:\n use(x)\nend(x)", True, False),
            ("with half or torch.no_grad():\n use(x)\nend(x)", True, False),
        ],
    )
    def test_a_context_that_is_entered_by_hand(
        self, statements: str, inside: bool, after: bool
    ) -> None:
        program = f"""
            import contextlib, torch
            def f(x, amp, other, none):
                half, stack = torch.autocast("cuda"), contextlib.ExitStack()
{textwrap.indent(statements, " " * 16)}
            """
        found = region("use(x)", program), region("end(x)", program)
        assert (found[0] is not None, found[1] is not None) == (inside, after)

    @pytest.mark.parametrize(
        ("options", "device", "enabled"),
        [
            ("options", "cuda", True),
            ("options | {'enabled': False}", "cuda", False),
            ("{**options, 'enabled': False}", "cuda", False),
            ("changed", "cuda", False),
            ("updated", "xpu", False),
            ("Trainer().options", "cuda", None),
        ],
    )
    def test_options_of_a_context_in_a_dict(
        self, options: str, device: str, enabled: bool | None
    ) -> None:
        program = f"""
            import torch
            options = {{"device_type": "cuda"}}
            class Trainer:
                def __init__(self, amp):
                    self.options = dict(device_type="cuda", enabled=amp)
            def f(x):
                changed, updated = dict(options), dict(options)
                changed["enabled"] = False
                updated.update(enabled=False, device_type="xpu")
                with torch.autocast(**({options})):
                    use(x)
            """
        found = region("use(x)", program)
        assert found is not None and (found.device, found.enabled) == (device, enabled)

    @pytest.mark.parametrize(
        ("context", "enabled"),
        [
            ("Plain()", True),
            ("Plain(enabled=False)", False),
            ("Half()", True),
            ("Half(enabled=False)", False),
            ("Half(False)", False),
            ("Half(enabled=amp)", None),
            ("Off(enabled=True)", False),
            ("Entering()", True),
            ("managed()", True),
            ("managed(False)", False),
            ("half('cuda')", True),
            ("half('cuda', enabled=False)", False),
        ],
    )
    def test_a_context_that_the_project_makes(self, context: str, enabled: bool | None) -> None:
        program = f"""
            import contextlib, functools, torch
            half = functools.partial(torch.autocast, dtype=torch.float16)
            class Plain(torch.cuda.amp.autocast):
                pass
            class Half(torch.autocast):
                def __init__(self, enabled=True):
                    super().__init__("cuda", enabled=enabled)
            class Off(torch.autocast):
                def __init__(self, enabled=True):
                    super().__init__("cuda", enabled=False)
            class Entering:
                def __enter__(self):
                    self.region = half("cuda")
                    self.region.__enter__()
                def __exit__(self, *error):
                    self.region.__exit__(*error)
            @contextlib.contextmanager
            def managed(enabled=True):
                with half("cuda", enabled=enabled):
                    yield
            def others():
                return Half(), Half(enabled=False), managed(True), managed(False)
            def f(x, amp):
                with {context}:
                    use(x)
            """
        found = region("use(x)", program)
        assert found is not None and (found.device, found.enabled) == ("cuda", enabled)


LOOP = """
    def train(model, loader, optimizer, args, verbose=False):
        for step, batch in enumerate(loader):
            loss = model(batch)
            loss.backward()
            optimizer.step()
            {guard}
                use(loss)
    """


class TestHeat:
    @pytest.mark.parametrize(
        "guard",
        [
            "if step % 10 == 0:",
            "if not step % 10:",
            "if (step + 1) % args.log_every == 0:",
            "if step % 10 == 0 and args.rank == 0:",
            "if step == len(loader) - 1:",
            "if verbose:",
            "if args.verbose:",
            "if args.log_interval > 0:",
            "if step & 63 == 0:",
            "if step in (1, 10, 100):",
        ],
    )
    def test_what_runs_now_and_then_is_cold(self, guard: str) -> None:
        assert heat("use(loss)", LOOP.format(guard=guard)) is None

    @pytest.mark.parametrize(
        "guard",
        [
            "if args.rank == 0:",
            "if step % 10 != 0:",
            "if args.use_amp:",
            "if loss is not None:",
            "for _ in range(2):",
            "with context():",
        ],
    )
    def test_what_runs_nearly_always_is_hot(self, guard: str) -> None:
        found = heat("use(loss)", LOOP.format(guard=guard))
        assert found is not None and found.temperature == TRAINING

    def test_after_an_early_continue(self) -> None:
        program = LOOP.format(guard="if step % 10: continue\n            if True:")
        assert heat("use(loss)", program) is None

    def test_the_loop_of_a_caller_in_another_file(self) -> None:
        main = "def read(loss):\n    use(loss)\n"
        other = """
            from main import read
            def train(model, loader):
                for batch in loader:
                    loss = model(batch)
                    loss.backward()
                    read(loss)
            """
        found = heat("use(loss)", main, other=other)
        assert found is not None and found.temperature == TRAINING
        assert [evidence.place.path for evidence in found.chain] == ["other.py", "other.py"]

    def test_an_error_path_is_cold(self) -> None:
        program = LOOP.format(
            guard="if loss > 3:\n                raise ValueError(name(loss))\n            if True:"
        )
        assert heat("name(loss)", program) is None


TABLE = """
    import torch
    from main import LOSSES

    class Base(torch.nn.Module):
        def __init__(self, name):
            self.name = name
            self.weight = torch.nn.Parameter(torch.ones(2))
        @property
        def loss_function(self):
            return LOSSES.get(self.name)

    class Model(Base):
        def forward(self, x, labels):
            return self.loss_function(x, labels, smoothing=x)
    """
LOSSES = """
    def loss_1(x, y, smoothing): return 1
    def loss_2(x, y, smoothing): return 2
    def loss_3(x, y, smoothing): return 3
    def loss_4(x, y, smoothing): return 4
    def loss_5(x, y, smoothing): return 5
    def loss_6(x, y, smoothing): return 6
    def loss_7(x, durations, smoothing):
        smoothing.item()
        return durations
    def loss_8(x, y):
        return x.item()
    LOSSES = {
        "1": loss_1, "2": loss_2, "3": loss_3, "4": loss_4, "5": loss_5, "6": loss_6, "7": loss_7,
        "8": loss_8,
    }
    """
DECORATED = """
    import torch
    from functools import wraps

    def documented(function=None, *, text=""):
        def decorate(function):
            function.__doc__ = text
            return function
        return decorate(function) if function else decorate

    def logged(function):
        @wraps(function)
        def wrapper(self, *args, **kwargs):
            return function(self, *args, **kwargs)
        return wrapper

    class Model(torch.nn.Module):
        def __init__(self):
            self.weight = torch.nn.Parameter(torch.ones(2))
        @logged
        @documented
        def first(self, x): return x
        @logged
        @documented
        def second(self, x): return x
        @logged
        @documented
        def third(self, x): return x
        @logged
        @documented
        def fourth(self, x): return x
        @logged
        @documented
        def fifth(self, x): return x
        @logged
        @documented
        def sixth(self, x): return x
        @logged
        @documented
        def seventh(self, x): return x.sum().item()
        @logged
        @documented
        def eighth(self, x): return x.max().item()
        def forward(self, x):
            return self.seventh(x.float())
    """


class TestFunctionsInTables:
    def heat(self, text: str) -> Heat | None:
        return heat(text, LOSSES, model=TABLE)

    def test_a_call_of_what_is_looked_up_may_mean_each_of_many(self) -> None:
        found = self.heat("smoothing.item()")
        assert found is not None and len(found.chain) == 2

    def test_but_only_those_that_can_be_called_so(self) -> None:
        assert self.heat("x.item()") is None

    def test_arguments_are_told_by_name_alone(self) -> None:
        assert "accelerator" in str(value("smoothing", LOSSES, model=TABLE))
        assert value("durations", LOSSES, model=TABLE) == UNKNOWN


class TestDecorators:
    def test_a_wrapper_of_many_functions_calls_the_one_that_it_is_put_around(self) -> None:
        found = heat("x.sum().item()", DECORATED)
        assert found is not None and len(found.chain) == 2
        assert tensor("x.sum()", DECORATED).dtype == "float32"

    def test_and_no_other(self) -> None:
        assert heat("x.max().item()", DECORATED) is None

    @pytest.mark.parametrize(
        "decorator", ["functools.lru_cache(maxsize=None)", "functools.cache", "cached_for_export()"]
    )
    def test_what_is_remembered_does_not_run_for_every_batch(self, decorator: str) -> None:
        program = DECORATED.replace("@logged\n        @documented", f"@{decorator}")
        assert heat("x.sum().item()", program) is None


class TestBackward:
    def test_through_a_helper(self) -> None:
        program = """
            def finish(loss):
                loss.backward()
            def train(loss):
                finish(loss)
            """
        file, facts = linked(program)
        call = expression(file, "finish(loss)")
        assert isinstance(call, ast.Call)
        chain = facts.ask(BackwardCalls, call)
        assert chain is not None and [evidence.place.row for evidence in chain] == [3]

    def test_not_in_a_function_that_is_only_defined(self) -> None:
        program = """
            def train(loss):
                def later():
                    loss.backward()
                return wrap(later)
            """
        file, facts = linked(program)
        call = expression(file, "wrap(later)")
        assert isinstance(call, ast.Call) and facts.ask(BackwardCalls, call) is None


def test_the_text_around_a_place_is_that_of_its_innermost_function() -> None:
    others = {
        "other": "import time\nclass A:\n    def f(self):\n        g = lambda: 0\n        g()\n"
    }
    _, facts = linked("import other\n", **others)
    assert facts.fact(FunctionTexts).around(Place("other.py", 5, 8, 5, 11)) == (
        "    def f(self):\n        g = lambda: 0\n        g()"
    )
    assert (
        facts.fact(FunctionTexts)
        .around(Place("other.py", 1, 0, 1, 11))
        .startswith("import time\nclass A:")
    )


def test_the_texts_of_what_a_call_runs_are_those_of_modules_and_functions_below() -> None:
    program = """
        import torch
        def read(x):
            return x.item()
        def scale(x):
            return x * read(x)
        class Net(torch.nn.Module):
            def forward(self, x):
                return scale(x)
        def main(x):
            net = Net()
            return net(x)
        """
    file, facts = linked(program)
    call = expression(file, "net(x)")
    assert isinstance(call, ast.Call)
    assert [text.split("(")[0].split()[1] for text in facts.ask(CalledTexts, call) or ()] == [
        "forward", "scale", "read",
    ]  # fmt: skip
    outside = expression(file, "x.item()")
    assert isinstance(outside, ast.Call) and not facts.ask(CalledTexts, outside)


def test_a_loop_that_adds_tensors_to_a_number_gives_a_tensor() -> None:
    program = """
        import torch
        def norm(parameters):
            total = 0.0
            for p in parameters:
                if p is None:
                    continue
                total += torch.linalg.vector_norm(p) ** 2
            first(total)
        def plain(batches):
            steps, best = 0, 0.0
            for batch in batches:
                steps = steps + 1
                if torch.rand(()) > best:
                    best = torch.rand(())
            second(steps, best)
        """
    file, facts = linked(program)

    def given(call: str) -> list[set[type]]:
        node = expression(file, call)
        assert isinstance(node, ast.Call)
        return [{type(atom) for atom in facts.value(arg)} for arg in node.args]

    assert given("first(total)") == [{Tensor}]
    # A counter stays a number; what is replaced now and then may never be.
    assert given("second(steps, best)") == [{Host}, {Host, Tensor}]


def test_a_lambda_may_be_asked_for_before_the_function_around_it_is_evaluated() -> None:
    helpers = "def read(x):\n    return x.item()\n"
    main = """
    import atexit
    import torch
    from helpers import read

    def main():
        atexit.register(lambda: read(torch.ones(3, device="cuda")))

    read(torch.ones(3, device="cuda"))
    main()
    """
    # The module calls both: the graph of `main` is built, so that its lambda is known to mention
    # `read`, whose callers are asked for before `main` is evaluated.
    texts = {"main.py": textwrap.dedent(main), "helpers.py": helpers}
    files = {path: File(path, text) for path, text in texts.items()}
    program = Program(Files(files))
    assert program.failures == []
    x = only(program.about("helpers.py").value(expression(files["helpers.py"], "x")))
    assert isinstance(x, Tensor)
    assert x.device.kind == ACCELERATOR


LATE_HELPERS = """
    import torch

    def region():
        return torch.autocast("cuda", dtype=torch.bfloat16)

    def start():
        return torch.zeros(3, dtype=torch.float16, device="cuda")
"""


def test_what_stands_in_a_region_is_evaluated_again_once_the_region_is_known() -> None:
    main = """
    import torch
    from late import region

    def run():
        a = torch.ones(2, 2, device="cuda")
        with region():
            b = a @ a
        return b
    """
    assert tensor("a @ a", main, late=LATE_HELPERS).dtype == "bfloat16"


def test_a_loop_is_evaluated_again_when_something_outside_changes_what_it_carries() -> None:
    main = """
    import torch
    from late import start

    def run(xs):
        total = start()
        for x in xs:
            for y in x:
                total = total * 2
            held = total
        return total
    """
    for text in ("total * 2", "total"):
        known = tensor(text, main, late=LATE_HELPERS)
        assert (known.dtype, known.device.kind) == ("float16", ACCELERATOR)


def test_a_call_looks_again_at_the_object_whose_method_it_calls() -> None:
    """More classes override the method than a value can name: the callee stays unknown, and what it
    may be is read off the object, which is known late."""
    classes = "\n".join(
        f"class C{number}(Base):\n    def on_step(self, x):\n        return x.item()\n"
        for number in range(30)
    )
    events = f"class Base:\n    def on_step(self, x):\n        pass\n{classes}"
    main = """
    import torch
    from late import made

    def run():
        made().on_step(torch.zeros(3, device="cuda"))
    """
    late = "from events import Base\n\ndef made():\n    return Base()\n"
    texts = {"main.py": textwrap.dedent(main), "late.py": late, "events.py": events}
    inference = Inference(Files({path: File(path, text) for path, text in texts.items()}))
    solve(inference, ["main.py::run"])
    complete(inference)
    called = set().union(*inference.calls.edges.values())
    assert {f"events.py::C{number}.on_step" for number in range(30)} <= called


TO_DEVICE = """
    import torch
    from torch.utils.data import DataLoader

    def to_device(data, device):
        if isinstance(data, dict):
            return {k: to_device(v, device) for k, v in data.items()}
        elif isinstance(data, (list, tuple)):
            return type(data)(to_device(v, device) for v in data)
        elif isinstance(data, torch.Tensor):
            return data.to(device)
        else:
            return data

    def train(loader: DataLoader):
        for batch in loader:
            moved = to_device(batch, "cuda")
            moved["x"].size(0)
"""


def places_of_tensors(value: Value) -> set[str | None]:
    return {a.device.kind for a in value if isinstance(a, Tensor | TensorTree)}


def test_a_batch_that_a_helper_moves_by_its_form_is_on_the_device() -> None:
    assert places_of_tensors(value("moved['x']", TO_DEVICE)) == {ACCELERATOR}


@pytest.mark.parametrize("left_out", ["(list, tuple)", "dict", "torch.Tensor"])
def test_a_form_that_the_helper_does_not_know_stays_where_it_was(left_out: str) -> None:
    program = TO_DEVICE.replace(f"isinstance(data, {left_out})", "data is left_out")
    assert places_of_tensors(value("moved", program)) - {ACCELERATOR}


def test_a_value_that_does_not_settle_ends_and_is_named() -> None:
    """n is a loss while nothing is known of it, then a size, of which nothing is known."""
    program = """
        def endless():
            x = None
            for _ in range(3):
                n = x.size(0)
                n.backward()
                x = n
            return x

        def ends():
            x = 0
            for _ in range(3):
                x = x + 1
            return x
        """
    files = {"main.py": File("main.py", textwrap.dedent(program))}
    assert Program(Files(files)).limited == {"values": ("main.py::endless",)}


@pytest.mark.parametrize(
    ("read", "dtype"),
    [
        ("layers.first", "float16"),
        ("layers['first']", "float16"),
        ("layers.norm", "float32"),
        ("layers.rest[0]", "float16"),
        ("next(iter(layers.rest))", "float16"),
        ("layers[name]", "float16 or float32"),
        ("layers.inner.norm", None),
    ],
)
def test_a_dict_of_modules_has_them_as_attributes(read: str, dtype: str | None) -> None:
    program = f"""
        import torch
        from torch import nn

        def run(x, name):
            layers = nn.ModuleDict(dict(
                first=nn.Linear(4, 4),
                norm=nn.LayerNorm(4),
                rest=nn.ModuleList([nn.Linear(4, 4) for _ in range(3)]),
                inner=nn.ModuleDict(dict(norm=nn.LayerNorm(4))),
            ))
            layer = {read}
            with torch.autocast("cuda"):
                y = layer(x.cuda())
                out = y
        """
    found = [a.dtype for a in value("y", program) if isinstance(a, Tensor)]
    assert found == ([dtype] if dtype is not None else [])


@pytest.mark.parametrize("change", ["layers[name] = nn.LayerNorm(4)", "layers['a'] = make()"])
def test_what_is_put_into_a_dict_of_modules_may_have_any_key(change: str) -> None:
    program = f"""
        import torch
        from torch import nn

        def run(x, name, make):
            layers = nn.ModuleDict(dict(a=nn.Linear(4, 4)))
            {change}
            with torch.autocast("cuda"):
                y = layers.a(x.cuda())
                out = y
        """
    assert not any(isinstance(a, Tensor) and a.dtype for a in value("y", program))


@pytest.mark.parametrize(("count", "followed"), [(32, True), (33, False)])
def test_a_method_that_very_many_override_is_the_own_one(count: int, followed: bool) -> None:
    classes = "".join(
        f"class Net{n}(Net):\n    def encode(self, x):\n        return x.item()\n"
        for n in range(count)
    )
    main = f"""
import torch

class Net:
    def encode(self, x):
        return 1

{classes}

def train(net: Net, loader, optimizer):
    for x in loader:
        net.encode(x.cuda()).backward()
        optimizer.step()
"""
    _, facts = linked(main)
    assert facts.fact(Hotness).is_hot(f"main.py::Net{count - 1}.encode") is followed


class TestWhatOneCallHasMade:
    """An instance is told from others of its class by what its constructor was given."""

    HOLDER = """
        import torch
        from unknown import make

        class Holder:
            def __init__(self, held):
                {store}

        class Owner:
            def __init__(self):
                self.known = Holder(torch.zeros(3).cuda())
                self.other = Holder(make())
                self.many = [Holder(torch.zeros(3).cuda()), Holder(torch.zeros(3))]

            def run(self):
                use(self.known.held, self.other.held)
                for each in self.many:
                    use(each.held)
        """

    def test_a_field_that_is_stored_as_it_is_given(self) -> None:
        program = self.HOLDER.format(store="self.held = held")
        assert tensor("self.known.held", program).device.kind == ACCELERATOR
        assert value("self.other.held", program) == UNKNOWN
        known = value("self.known.held", program)
        assert UNKNOWN.isdisjoint(known)

    def test_of_several_it_is_any(self) -> None:
        program = self.HOLDER.format(store="self.held = held")
        assert tensor("each.held", program).device == PERHAPS_CPU

    def test_a_field_that_is_computed_is_that_of_all(self) -> None:
        program = self.HOLDER.format(store="self.held = held + 1")
        assert any(isinstance(atom, Tensor) for atom in value("self.other.held", program))

    def test_what_is_stored_elsewhere_counts(self) -> None:
        program = self.HOLDER.format(store="self.held = held")
        program += """
            def put(self):
                other = self.other
                other.held = torch.zeros(3)
        """
        assert any(isinstance(atom, Tensor) for atom in value("self.other.held", program))

    def test_a_helper_that_hands_on_what_it_is_given(self) -> None:
        program = """
            import torch
            from torch import nn
            from unknown import make, wrapped

            class Holder:
                def __init__(self, held, name):
                    self.held = held

            class Owner:
                def __init__(self):
                    self.known = self.hold(nn.Linear(2, 2), "known")
                    self.other = self.hold(make(), name="other")

                def hold(self, model, name):
                    if wrapped():
                        model = nn.DataParallel(model)
                    return Holder(model, name)

                def run(self):
                    use(self.known.held, self.other.held)
            """
        assert value("self.other.held", program) == UNKNOWN
        assert UNKNOWN.isdisjoint(value("self.known.held", program))


def test_a_method_that_reads_a_tensor_is_none_of_a_module() -> None:
    program = """
        from torch import nn
        from unknown import make

        class Features(nn.Module):
            def tolist(self):
                return [self.weight]

        def run():
            lengths = make().tolist()
            use(lengths)
        """
    assert not any(isinstance(atom, Sequence) for atom in value("lengths", program))


def test_a_constructor_that_is_called_by_its_class_is_given_self_first():
    """`Base.__init__(self, x)` gives x to the parameter behind `self`, as `super()` does."""
    program = """
        import torch

        class Base:
            def __init__(self, weight, rate):
                self.weight = weight
                self.rate = rate

        class Middle(Base):
            pass

        class Named(Middle):
            def __init__(self, **options):
                Middle.__init__(self, **options)

        class Placed(Base):
            def __init__(self, weight, rate):
                Base.__init__(self, weight, rate)

        def run():
            named = Named(weight=torch.zeros(3), rate=1)
            placed = Placed(torch.zeros(3), 2)
            return named.weight, placed.weight
        """
    for text in ("named.weight", "placed.weight"):
        found = value(text, program)
        assert {type(atom) for atom in found} == {Tensor}, found


def test_a_tuple_times_a_number_has_so_many_elements():
    found = only(value("(None,) * 3", "pair = (None,) * 3"))
    assert isinstance(found, Sequence) and found.items is not None
    assert len(found.items) == 3
    long = only(value("(None,) * 300", "pair = (None,) * 300"))
    assert isinstance(long, Sequence) and long.items is None


def test_a_function_may_return_rows_of_nothing_to_what_calls_it_for_each():
    """`multi_apply(f, xs)` gives a list for each result of `f`, whichever way it returns."""
    program = """
        from mmdet.core import multi_apply

        def single(image):
            if image is None:
                return (None,) * 2
            return image.sum(), image.nonzero()

        def run(images):
            sums, places = multi_apply(single, [torch.zeros(3)])
            return places

        import torch
        """
    found = only(value("places", program))
    assert isinstance(found, Sequence)
    assert any(isinstance(atom, Tensor) and atom.dtype == "int64" for atom in found.element)


MOVED = """
    import torch
    from torch.utils.data import DataLoader

    class Trainer:
        def __init__(self, model):
            self.model = model.eval()
            {move}

        def run(self, data):
            for batch in DataLoader(data):
                output = self.model(batch)
            return output
    """


@pytest.mark.parametrize(
    ("move", "kind"), [("self.model.to('cuda')", "accelerator"), ("pass", None)]
)
def test_a_module_on_the_device_that_is_given_a_batch_of_the_host_moves_it(
    move: str, kind: str | None
):
    """`self.model.to(device)` moves what the field holds."""
    text = MOVED.format(move=move)
    (module,) = value("self.model", text)
    assert isinstance(module, Object)
    assert module.device.kind == kind
    (output,) = value("output", text)
    assert isinstance(output, TensorTree)
    assert output.device.kind == (kind or "cpu")


BY_BODY = """
    from elsewhere import Model
    import torch

    class Tagger(Model):
        def __init__(self):
            super().__init__()
            self.layer = {layer}

        def {method}(self, tokens):
            return tokens
    """


@pytest.mark.parametrize(
    ("layer", "method", "expected"),
    [
        ("torch.nn.Linear(2, 2)", "forward", True),
        ("torch.nn.Linear(2, 2)", "run", False),  # a trainer that holds a layer
        ("None", "forward", False),
    ],
)
def test_a_class_of_an_unknown_base_that_has_layers_and_a_forward_is_a_module(
    layer: str, method: str, expected: bool
):
    text = BY_BODY.format(layer=layer, method=method)
    found = heat("tokens", text)
    assert (found is not None) == expected


@pytest.mark.parametrize(
    ("call", "dtypes"),
    [
        ("torch.unique(x, return_inverse=True)", ["float16", "int64"]),
        ("x.unique(return_counts=True)", ["float16", "int64"]),
        (
            "torch.unique_consecutive(x, return_inverse=True, return_counts=True)",
            ["float16", "int64", "int64"],
        ),
        ("F.max_pool2d(x, 2, return_indices=True)", ["float16", "int64"]),
        ("torch.unique(x, return_inverse=False, return_counts=True)", ["float16", "int64"]),
    ],
)
def test_what_a_call_gives_besides_its_values_are_numbers_of_items(
    call: str, dtypes: list[str]
) -> None:
    names = [f"r{number}" for number in range(len(dtypes))]
    text = f"""
        import torch
        import torch.nn.functional as F

        x = torch.zeros(3, 3, 3, dtype=torch.float16)
        {", ".join(names)} = {call}
        print({", ".join(names)})
    """
    assert [tensor(name, text).dtype for name in names] == dtypes


def test_an_object_of_a_framework_has_the_attributes_that_its_model_says() -> None:
    text = """
        import accelerate
        accelerator = accelerate.Accelerator(mixed_precision="fp16")
        print(accelerator.num_processes, accelerator.device)
    """
    assert isinstance(only(value("accelerator.num_processes", text)), Host)
    assert only(value("accelerator.device", text)).kind == ACCELERATOR


def test_a_trainer_of_a_framework_has_the_scaler_that_its_model_says() -> None:
    text = """
        from detectron2.engine import DefaultTrainer
        class Own(DefaultTrainer):
            def run_step(self):
                scaler = self.grad_scaler
                return scaler
    """
    scaler = only(value("scaler", text))
    assert isinstance(scaler, Object) and scaler.kind == "scaler"
    assert scaler.enabled is None, "whether it scales is for the framework to say"
