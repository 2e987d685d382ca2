"""How the work of `amplint check` grows with the program: linearly, whatever its shape.

    python -m benchmarks.check_growth [SHAPE...] [--size N] [--seconds | --megabytes]

Generates programs of several shapes of sizes N, 2N and 4N and counts the lines of amplint and of
its rules that a whole `check` executes: index, link, judge, all rules. Prints how the count grows
from 2N to 4N, and the functions of amplint whose own count grows fastest. Exits with 1 when a count
grows by 2.3 or more. With --seconds it measures CPU time instead of counting, for larger programs:
`--size` says how many times as large as usual they are. With --megabytes, the most memory that
Python has given out at a time.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import itertools
import math
import os
import sys
import tempfile
import textwrap
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import amplint
from amplint.project.config import Settings
from amplint.project.discover import Selection
from amplint.rule import registry
from amplint.run.engine import run
from amplint.run.request import Outcome, Request

MOST = 2.3  # times the operations, of twice the program
SIZES = (1, 2, 4)
# Functions that climb from a place to what is around it: they take the time of the depth of nesting
# for each question, which the shapes with deep nesting show.
OF_NESTING = frozenset({"ancestors"})
Texts = Mapping[str, str]  # a project: its files
Counts = Counter[CodeType]  # by function: executed lines

# -------------------------------------------------------------------------------- measuring


def check(texts: Texts) -> Outcome:
    """Check the project with all rules, in this process and without a cache."""
    with tempfile.TemporaryDirectory() as directory:
        for path, text in texts.items():
            (Path(directory) / path).write_text(text, encoding="utf-8")
        paths = tuple(sorted(texts))
        project = Selection(Path(directory), paths, frozenset(paths))
        settings = Settings(Path(directory), select=("ALL",), preview=True, target_torch="2.10")
        return run(Request(project, settings, registry.all_rules()))


class TooManyError(BaseException):
    """More operations than allowed: an analysis may handle any `Exception`, but not this."""


def operations(texts: Texts, most: float = math.inf) -> Counts:
    """The lines that a check of the project executes, by function of amplint or its rules.

    Raises TooManyError when they are more than `most`, so that what takes exponential time ends.
    """
    registry.all_rules()  # imported before anything is counted
    with counting(most) as counts:
        outcome = check(texts)
    if outcome.problems:
        raise RuntimeError("\n".join(outcome.problems))
    return counts


@contextmanager
def counting(most: float) -> Iterator[Counts]:
    """Count the lines that functions of amplint and its rules execute, in all threads."""
    packages = amplint, importlib.import_module("amplint.rules")
    own = tuple(f"{Path(str(package.__file__)).parent}{os.sep}" for package in packages)
    cells: dict[CodeType, list[int]] = {}
    tracers: dict[CodeType, Any] = {}

    def tracer(code: CodeType) -> Any:
        if not code.co_filename.startswith(own):
            return None
        cell = cells[code] = [0]

        def local(_frame: FrameType, event: str, _argument: object) -> Any:
            if event == "line":
                cell[0] += 1
                if cell[0] > most:
                    raise TooManyError(name_of(code))
            return local

        return local

    def trace(frame: FrameType, _event: str, _argument: object) -> Any:
        code = frame.f_code
        if code not in tracers:
            tracers[code] = tracer(code)
        return tracers[code]

    counts: Counts = Counter()
    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        yield counts
    finally:
        sys.settrace(before)
        threading.settrace(None)  # type: ignore[arg-type]  # None ends it, as in `sys.settrace`
        counts.update({code: cell[0] for code, cell in cells.items()})


def too_fast(shape: Callable[[int], Texts], size: int = 1, share: float = 0.02) -> list[str]:
    """What grows by `MOST` or more for twice the program: all operations together, or those of a
    function that makes up a share of them."""
    smaller: Counts | None = None
    for each in SIZES:
        most = math.inf if smaller is None else MOST * smaller.total()
        try:
            larger = operations(shape(size * each), most)
        except TooManyError as error:
            return [f"{error} executes more lines than all of amplint for half the program"]
        found = faster(smaller, larger, share) if smaller is not None else []
        smaller = larger
    return found


def faster(smaller: Counts, larger: Counts, share: float) -> list[str]:
    """What grows by `MOST` or more between two counts."""
    totals = [("all operations", smaller.total(), larger.total())]
    single = [
        (name_of(code), smaller[code], count)
        for code, count in larger.most_common()
        if count >= share * larger.total() and code.co_name not in OF_NESTING
    ]
    return [
        f"{name}: {before:,} -> {after:,} lines, {after / max(before, 1):.2f} times"
        for name, before, after in [*totals, *single]
        if after >= MOST * max(before, 1)
    ]


def name_of(code: CodeType) -> str:
    return f"{Path(code.co_filename).name}:{code.co_firstlineno} {code.co_name}"


# -------------------------------------------------------------------------------- shapes


def lines(*blocks: str) -> str:
    """A module: an import of torch, and blocks of code that may be indented."""
    return "import torch\nfrom torch import nn\n\n" + "\n".join(map(textwrap.dedent, blocks))


def call_chain(size: int) -> Texts:
    """A loop in a region, and below it functions each of which calls the next: to the end of
    training, and to a read of the device."""
    length = 12 * size
    links = [
        f"""
        def step{n}(model, optimizer, loss, flag):
            if flag:
                step{n + 1}(model, optimizer, loss, flag)
            return loss.item()
        """
        for n in range(length)
    ]
    last = f"""
        def step{length}(model, optimizer, loss, flag):
            loss.backward()
            optimizer.step()
        """
    return {"main.py": lines(TRAIN, *links, last)}


TRAIN = """
    def main(model, loader, flag):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler()
        with torch.autocast("cuda"):
            for x in loader:
                loss = model(x.cuda()).mean()
                step0(model, optimizer, loss, flag)
    """


def call_diamonds(size: int) -> Texts:
    """The same, where each function calls two that call the same next one."""
    length = 5 * size
    links = [
        f"""
        def step{n}(model, optimizer, loss, flag):
            if flag:
                left{n}(model, optimizer, loss, flag)
            else:
                right{n}(model, optimizer, loss, flag)

        def left{n}(model, optimizer, loss, flag):
            step{n + 1}(model, optimizer, loss * 2.0, flag)

        def right{n}(model, optimizer, loss, flag):
            step{n + 1}(model, optimizer, loss + 1.0, flag)
        """
        for n in range(length)
    ]
    last = f"""
        def step{length}(model, optimizer, loss, flag):
            loss.backward()
            optimizer.step()
            model(loss)
        """
    return {"main.py": lines(TRAIN, *links, last)}


def double_calls(size: int) -> Texts:
    """Functions that call the next one in two places and train nothing: nothing is found."""
    length = 16 * size  # the last ones join nothing, which makes a short chain cheaper
    links = [
        f"""
        def step{n}(model, optimizer, loss, flag):
            first = step{n + 1}(model, optimizer, loss, flag)
            return first + step{n + 1}(model, optimizer, loss, flag)
        """
        for n in range(length)
    ]
    return {"main.py": lines(TRAIN, *links, f"\ndef step{length}(*given):\n    return given[2]\n")}


def recursion(size: int) -> Texts:
    """Functions that all reach each other: each calls two others, and some end training."""
    length = 8 * size
    links = [
        f"""
        def step{n}(model, optimizer, loss, flag):
            if flag:
                step{(2 * n + 1) % length}(model, optimizer, loss, flag)
            if not flag:
                loss = step{(2 * n + 2) % length}(model, optimizer, loss, flag)
            {"loss.backward()" if n % 8 == 7 else "model.forward(loss)"}
            {"optimizer.step()" if n % 8 == 5 else "print(flag)"}
            return loss
        """
        for n in range(length)
    ]
    return {"main.py": lines(TRAIN, *links)}


def everyone_calls_everyone(size: int) -> Texts:
    """Functions each of which calls all of its group, each group below the one before."""
    groups, width = 2 * size, 6
    links = []
    for n in range(groups * width):
        group = n // width
        after = group + 1 if group + 1 < groups else group
        calls = [f"step{group * width + k}" for k in range(width)] + [f"step{after * width}"]
        body = [f"    {name}(model, optimizer, loss, flag)" for name in calls]
        end = ["    loss.backward()", "    optimizer.step()"] if n == groups * width - 1 else []
        links.append("\n".join([f"def step{n}(model, optimizer, loss, flag):", *body, *end, ""]))
    return {"main.py": lines(TRAIN, *links)}


def fan_out(size: int) -> Texts:
    """A hot loop that calls many functions, each of them once."""
    count = 12 * size
    helpers = [
        f"""
        def read{n}(x, flag):
            y = x * {n}.5
            if flag:
                print(y.item())
            return y
        """
        for n in range(count)
    ]
    calls = "\n".join(f"        loss = read{n}(loss, flag)" for n in range(count))
    main = f"""\
def main(model, loader, flag):
    for x in loader:
        loss = model(x.cuda())
{calls}
        loss.backward()
"""
    return {"main.py": lines(*helpers, main)}


def fan_in(size: int) -> Texts:
    """Many hot loops, in regions and outside, that call one function."""
    loops = [
        f"""
        def main{n}(model, loader, flag):
            for x in loader:
                with torch.autocast("cuda"):
                    loss = read(model(x.cuda()), flag)
                read(loss, {n}).backward()
        """
        for n in range(10 * size)
    ]
    read = """
        def read(x, flag):
            if flag:
                print(x.item())
            return x.float() + torch.zeros(3).cuda()
        """
    return {"main.py": lines(read, *loops)}


def hot_loops(size: int) -> Texts:
    """Many functions with loops of their own that train, read the device, clip and scale."""
    loops = [
        f"""
        class Net{n}(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.layer = nn.Linear(width, width)
                self.total = 0.0

            def forward(self, x, mask=None):
                h = self.layer(x) + torch.zeros(3).to(x.device)
                if mask is not None:
                    h = h.masked_fill(mask, -1e9)
                return h

        def train{n}(loader, args):
            model = Net{n}(8).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.cuda.amp.GradScaler()
            total, count = 0.0, 0
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                with torch.cuda.amp.autocast():
                    loss = (model(x.cuda()) - y.cuda()).mean()
                scaler.scale(loss).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                total += loss.item()
                if step % 100 == 0 and args.verbose:
                    print(total / (step + 1))
            return total
        """
        for n in range(3 * size)
    ]
    return {"main.py": lines(*loops)}


def many_files(size: int) -> Texts:
    """The same loops, each in a file of its own, with a module that all of them import."""
    shared = """
        def report(loss, step):
            if step % 50 == 0:
                print(loss.item())

        class Base(nn.Module):
            def log(self, loss):
                self.last = loss.item()
        """
    units = {
        f"train{n}.py": lines(
            f"""
            from shared import Base, report

            class Net(Base):
                def __init__(self, width):
                    super().__init__()
                    self.layer{n} = nn.Linear(width, width)

                def forward(self, x):
                    return self.layer{n}(x) + torch.zeros(3).to(x.device)

            def train(loader):
                model = Net(8).cuda()
                model.layer{n}.kept{n} = None
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for step, x in enumerate(loader):
                    with torch.autocast("cuda"):
                        loss = model(x.cuda()).mean()
                    loss.backward()
                    optimizer.step()
                    model.log(loss)
                    report(loss, step)
            """
        )
        for n in range(4 * size)
    }
    return {"shared.py": lines(shared), **units}


def long_function(size: int) -> Texts:
    """One loop with many statements, names, tests and calls, one after the other."""
    body = "".join(
        f"""
        h{n} = model(x) * {n}.0
        if args.scale{n}:
            h{n} = h{n} / h{n}.max()
        total = total + h{n}.item()
"""
        for n in range(8 * size)
    )
    main = f"""\
def main(model, loader, args):
    total = 0.0
    for x in loader:
        x = x.cuda()
{body}
        model(x).mean().backward()
    return total
"""
    return {"main.py": lines(main)}


def long_module(size: int) -> Texts:
    """A module of many statements, without a function."""
    body = "".join(
        f"""
x{n} = torch.zeros({n}).cuda()
if x{n}.sum() > {n}:
    print(x{n}.item())
"""
        for n in range(16 * size)
    )
    return {"main.py": lines(body)}


def elif_chain(size: int) -> Texts:
    """A long chain of `elif` in a hot loop."""
    branches = "".join(
        f"""\
        {"elif" if n else "if"} args.kind == "k{n}":
            loss = model(x) * {n}.0
            total += loss.item()
"""
        for n in range(8 * size)
    )
    main = f"""\
def main(model, loader, args):
    total = 0.0
    for x in loader:
        loss = model(x.cuda())
{branches}
        loss.backward()
    return total
"""
    return {"main.py": lines(main)}


def guards(size: int) -> Texts:
    """Many tests that end the iteration, so that what follows each of them is nested in it."""
    tests = "".join(
        f"""\
        if args.skip{n} == step:
            continue
        total += (x * {n}.0).sum().item()
"""
        for n in range(8 * size)
    )
    main = f"""\
def main(model, loader, args):
    total = 0.0
    for step, x in enumerate(loader):
        x = x.cuda()
{tests}
        model(x).mean().backward()
    return total
"""
    return {"main.py": lines(main)}


def nested_tests(size: int) -> Texts:
    """Tests in tests, as deep as Python allows at the largest size."""
    text, depth = "", 20 * size
    for n in range(depth):
        pad = " " * (n + 2)
        text += f"{pad}if args.deep{n}:\n{pad} total += (x * {n}.0).sum().item()\n"
    main = "def main(model, loader, args):\n total = 0.0\n for x in loader:\n  x = x.cuda()\n"
    return {"main.py": lines(f"{main}{text}  model(x).mean().backward()\n")}


def nested_expression(size: int) -> Texts:
    """Expressions in parentheses, as deep as Python allows at the largest size."""
    deep = "x.cuda()"
    for n in range(20 * size):
        deep = f"({deep} + {n}.0)" if n % 2 else f"abs({deep})"
    body = f"        print({deep})\n        model(x).backward()\n"
    return {"main.py": lines(f"def main(model, loader):\n    for x in loader:\n{body}")}


def long_expression(size: int) -> Texts:
    """A sum of many terms, a chain of many methods, a test of many parts."""
    terms = " + ".join(f"x * {n}.0" for n in range(8 * size))
    calls = "x" + "".join(f".mul({n}.0).add(x)" for n in range(8 * size))
    parts = " and ".join(f"args.flag{n} != {n}" for n in range(8 * size))
    body = f"""\
def main(model, loader, args):
    for x in loader:
        x = x.cuda()
        loss = model({terms}) + {calls}
        if {parts}:
            print(loss.item())
        loss.backward()
"""
    return {"main.py": lines(body)}


class Chains(NamedTuple):
    """Chains of operations in a hot loop: `a1 = a0 + a0; a2 = a1 + a1; ...`

    Args:
        starts: what they begin with, one after the other.
        operations: by the operands, joined by a separator.
        uses: what is done with the last value; every analysis of an operand is reached from one.
    """

    starts: Sequence[str]
    operations: Sequence[tuple[str, str]]
    uses: Sequence[str]

    def program(self, length: int, operands: int) -> Texts:
        """A loop for each start and operation, whose chain has a length; an operation has so many
        operands, all of them the same."""
        names = [f"a{n}" for n in range(length + 1)]
        loops = []
        for start, (form, separator) in itertools.product(self.starts, self.operations):
            repeated = {name: form.format(separator.join([name] * operands)) for name in names}
            steps = [f"{after} = {repeated[name]}" for name, after in itertools.pairwise(names)]
            uses = [use.replace("{}", names[-1]) for use in self.uses]
            body = "".join(f"        {line}\n" for line in (f"a0 = {start}", *steps, *uses))
            loops.append(f"""\
def main{len(loops)}(loader, model: nn.Module, args, count: int, given: torch.Tensor, flag=False):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.cuda.amp.GradScaler()
    total, losses = 0.0, []
    for step, x in enumerate(loader):
        with torch.autocast("cuda"):
            loss = model(x.cuda()).mean()
{body}    return total, losses
""")
        return {"main.py": "import time\n" + lines(*loops)}

    def doubled(self, size: int) -> Texts:
        return self.program(6 * size, 2)

    def widened(self, size: int) -> Texts:
        return self.program(5, 2 * size)


SUM, CALL, OR, PAIR = ("{}", " + "), ("max({})", ", "), ("{}", " or "), ("({})[0]", ", ")
CHOICE = ("{}", " if flag else ")
TENSORS = Chains(
    ("model(x)", "loss", "given", "torch.arange(9)"),
    (SUM, CALL, CHOICE, PAIR),
    (
        "total = total + {}",
        "print({}.item(), torch.tensor({}).cuda())",
        "y = torch.where({} > 0, {}.half(), {}.float())",
        "{}.backward()",
    ),
)
NUMBERS = Chains(
    ("step", "count", "args.scale", "flag"),
    (SUM, ("({}) % 7", " + "), OR, CHOICE),
    (
        "if {} == args.kind: print(loss.item())",
        "if {}: print(loss.item())",
        "y = torch.FloatTensor({}).cuda() + given.new({})",
        "losses.append(loss)",
    ),
)
SIZES_OF_TENSORS = Chains(
    ("len(x)", "x.shape[0]"), (SUM,), ("y = torch.FloatTensor({}).cuda() + given.new({})",)
)
OBJECTS = Chains(
    ("scaler", "optimizer", "model", "loss"),
    (OR, CHOICE),
    (
        "{}.scale(loss).backward()",
        "scaler.scale({}).backward()",
        "scaler.unscale_({})",
        "torch.nn.utils.clip_grad_norm_({}.parameters(), 1.0)",
        "{}.step(optimizer)",
        "scaler.step({})",
        "{}.update()",
    ),
)


def same_methods(size: int) -> Texts:
    """Many classes with methods of the same names, called on something unknown."""
    classes = [
        f"""
        class Net{n}(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.layer = nn.Linear(width, width)

            def forward(self, x):
                return self.calculate_loss(self.layer(x))

            def calculate_loss(self, x):
                print(x.mean().item())
                return x.mean() * {n}.0
        """
        for n in range(6 * size)
    ]
    main = """
        def main(model, loader, optimizer):
            for x in loader:
                loss = model.calculate_loss(x.cuda())
                loss.backward()
                optimizer.step()
        """
    return {"main.py": lines(*classes, main)}


def callbacks(size: int) -> Texts:
    """Many classes that override the methods of one base, which a trainer calls by name."""
    classes = [
        f"""
        class Callback{n}(Callback):
            def on_batch(self, loss, step):
                self.last = loss.item() * {n}

            def on_end(self, loss, step):
                loss.backward()
        """
        for n in range(8 * size)
    ]
    base = """
        class Callback:
            def on_batch(self, loss, step):
                pass

            def on_end(self, loss, step):
                raise NotImplementedError

        class Trainer:
            def __init__(self, callbacks: list[Callback], model):
                self.callbacks = callbacks
                self.model = model

            def fire(self, event, loss, step):
                for callback in self.callbacks:
                    getattr(callback, event)(loss, step)

            def fit(self, loader):
                with torch.autocast("cuda"):
                    for step, x in enumerate(loader):
                        loss = self.model(x.cuda())
                        self.fire("on_batch", loss, step)
                        self.fire("on_end", loss, step)
        """
    return {"main.py": lines(base, *classes)}


def overriding(size: int) -> Texts:
    """Many classes that override the method of one base, which many functions call."""
    classes = [
        f"""
        class Net{n}(Net):
            def encode(self, x):
                print(x.mean().item())
                return x * {n}
        """
        for n in range(20 * size)
    ]
    callers = [
        f"""
        def main{n}(net: Net, loader, optimizer):
            for x in loader:
                net.encode(x.cuda()).mean().backward()
                optimizer.step()
        """
        for n in range(20 * size)
    ]
    base = """
        class Net(nn.Module):
            def encode(self, x):
                return x
        """
    return {"main.py": lines(base, *classes, *callers)}


def subclasses(size: int) -> Texts:
    """Hierarchies of eight classes, each of which derives from the one before and calls its method.

    (A class has all that it derives from: what is asked of it takes the time of their number.)
    """
    classes = [
        f"""
        class Level{n}({f"Level{n - 1}" if n % 8 else "nn.Module"}):
            def __init__(self, width):
                super().__init__({"width" if n % 8 else ""})
                self.layer{n} = nn.Linear(width, width)

            def forward(self, x):
                h = self.layer{n}({"super().forward(x)" if n % 8 else "x"})
                print(h.mean().item())
                return h
        """
        for n in range(8 * size)
    ]
    return {"main.py": lines(*classes)}


def fields(size: int) -> Texts:
    """A class with many fields, which its `forward` reads one after the other."""
    count = 8 * size
    stored = "\n".join(f"        self.layer{n} = nn.Linear(8, 8)" for n in range(count))
    kept = "\n".join(f"        self.kept{n} = torch.zeros({n}).cuda()" for n in range(count))
    used = "\n".join(
        f"        x = self.layer{n}(x) * self.kept{n}.sum().item()" for n in range(count)
    )
    net = f"""\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
{stored}
{kept}

    def forward(self, x):
{used}
        return x
"""
    return {"main.py": lines(net)}


def nested_containers(size: int) -> Texts:
    """Tuples of tuples, each of which holds the one before twice; and long lists and dicts."""
    count = 8 * size
    pairs = "".join(f"        t{n + 1} = (t{n}, [t{n}])\n" for n in range(count))
    items = ", ".join(f'"k{n}": x * {n}.0' for n in range(count))
    listed = ", ".join(f"x + {n}.0" for n in range(count))
    body = f"""\
def main(model, loader):
    for x in loader:
        t0 = x = x.cuda()
{pairs}        losses = {{{items}}}
        rows = [{listed}]
        for name, loss in losses.items():
            print(name, loss.item(), t{count}[0][0].item())
        sum(rows).mean().backward()
"""
    return {"main.py": lines(body)}


def long_literals(size: int) -> Texts:
    """Data: a table that a tensor is built of, a list of names, a dict of words, rows of them."""
    count = range(400 * size)
    table = ",\n".join(f"            [+1, -{n}, {n}.5]" for n in count)
    names = ", ".join(f'"name{n}"' for n in count)
    words = ", ".join(f'"k{n}": {n}' for n in count)
    rows = ", ".join(f'("row", {{"n": {n}}})' for n in count)
    body = f"""\
NAMES = [{names}]
WORDS = {{{words}}}


def main(model, loader):
    table = torch.FloatTensor(
        [
{table},
        ]
    ).cuda()
    for x in loader:
        for name, options in ({rows}):
            print(name, options["n"], NAMES[0], WORDS[name])
        model(x.cuda() * table).mean().backward()
"""
    return {"main.py": lines(body)}


def star_imports(size: int) -> Texts:
    """Modules each of which has all names of the next one by a star."""
    count = 5 * size
    files = {
        f"m{n}.py": lines(
            f"""
            from m{n + 1} import *

            def read{n}(x):
                return x.cuda().item() + {f"read{n + 1}(x)" if n + 1 < count else "0"}
            """
        )
        for n in range(count)
    }
    main = """
        from m0 import *

        def main(model, loader):
            for x in loader:
                loss = model(x.cuda())
                read0(loss)
                last(loss).backward()
        """
    last = "\ndef last(x):\n    return x.mean()\n"
    return {"main.py": lines(main), f"m{count}.py": lines(last), **files}


def decorators(size: int) -> Texts:
    """Many functions behind one decorator of the project, called in a hot loop."""
    count = 6 * size
    functions = [
        f"""
        @timed
        def work{n}(x):
            print(x.item())
            return x * {n}.0
        """
        for n in range(count)
    ]
    calls = "\n".join(f"        loss = work{n}(loss)" for n in range(count))
    timed = """
        def timed(function):
            def inner(*args, **kwargs):
                return function(*args, **kwargs)
            return inner
        """
    main = f"""\
def main(model, loader):
    for x in loader:
        loss = model(x.cuda())
{calls}
        loss.backward()
"""
    return {"main.py": lines(timed, *functions, main)}


def flags(size: int) -> Texts:
    """Tests that call functions whose results are such tests in turn."""
    count = 8 * size
    functions = [
        f"""
        def due{n}(step, flag):
            if flag:
                return due{n + 1}(step, flag) or due{n + 1}(step + 1, flag)
            return due{n + 1}(step + 2, flag)
        """
        for n in range(count)
    ]
    main = f"""
        def due{count}(step, flag):
            return step % 10 == 0

        def main(model, loader, flag):
            for step, x in enumerate(loader):
                loss = model(x.cuda())
                if due0(step, flag):
                    print(loss.item())
                loss.backward()
        """
    return {"main.py": lines(*functions, main)}


def returned_losses(size: int) -> Texts:
    """Functions that hand on a loss twice, which the last one has backpropagated."""
    count = 6 * size
    functions = [
        f"""
        def loss{n}(model, x, flag):
            left = loss{n + 1}(model, x, flag)
            right = loss{n + 1}(model, x, flag)
            return left + right if flag else left
        """
        for n in range(count)
    ]
    main = f"""
        def loss{count}(model, x, flag):
            loss = model(x).mean()
            loss.backward()
            return loss

        def main(model, loader, flag):
            total = 0.0
            losses = []
            for x in loader:
                loss = loss0(model, x.cuda(), flag)
                total = total + loss
                losses.append(loss)
            return total, losses
        """
    return {"main.py": lines(*functions, main)}


def workers(size: int) -> Texts:
    """Functions that the workers of a loader run, each of which calls the next one twice."""
    count = 8 * size
    functions = [
        f"""
        def load{n}(index):
            return load{n + 1}(index) if index else load{n + 1}(index + 1)
        """
        for n in range(count)
    ]
    rest = f"""
        def load{count}(index):
            return torch.zeros(3).cuda()

        class Data(torch.utils.data.Dataset):
            def __getitem__(self, index):
                return load0(index)

        def main(model):
            for x in torch.utils.data.DataLoader(Data(), num_workers=4):
                model(x.cuda()).mean().backward()
        """
    return {"main.py": lines(*functions, rest)}


def threads(size: int) -> Texts:
    """What a thread runs in a region: functions each of which calls the next one twice."""
    count = 8 * size
    functions = [
        f"""
        def work{n}(model, x):
            if x is None:
                return work{n + 1}(model, x)
            return work{n + 1}(model, x)
        """
        for n in range(count)
    ]
    rest = f"""
        def work{count}(model, x):
            return x @ x

        def main(model, loader):
            import threading
            for x in loader:
                with torch.autocast("cuda"):
                    worker = threading.Thread(target=work0, args=(model, x.cuda()))
                    worker.start()
        """
    return {"main.py": lines(*functions, rest)}


def passed_down(size: int) -> Texts:
    """A module, a constant and a batch that many functions hand on in two ways."""
    count = 6 * size
    functions = [
        f"""
        def use{n}(model, x, size, flag):
            if flag:
                model, x = (model, x) if size else (model, x.half())
                return use{n + 1}(model, x, size + 1, flag)
            return use{n + 1}(model, x, size, not flag)
        """
        for n in range(count)
    ]
    rest = f"""
        def use{count}(model, x, size, flag):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                mask = torch.tensor([1.0, 2.0] * size).cuda()
                return model(x) * mask * torch.tensor(x)

        def main(loader, flag):
            model = nn.DataParallel(nn.Linear(8, 8)).cuda()
            for x in loader:
                use0(model, x.cuda(), 3, flag).mean().backward()
        """
    return {"main.py": lines(*functions, rest)}


def accumulators(size: int) -> Texts:
    """A loop with many names that add up each other, each of which is backpropagated."""
    names = range(8 * size)
    begun = "\n".join(f"    t{n} = 0.0" for n in names)
    added = "\n".join(
        f"        t{n} = t{n} + t{n - 1 if n else len(names) - 1} + loss" for n in names
    )
    passed = "\n".join(f"        t{n}.backward(retain_graph=True)" for n in names)
    main = f"""\
def main(model, loader):
{begun}
    for x in loader:
        loss = model(x.cuda()).mean()
{added}
{passed}
    print(float(t0))
"""
    return {"main.py": lines(main)}


def trainings(size: int) -> Texts:
    """A project that shows autocast, and trains outside of it: many passes in a loop, and many
    loops."""
    count = range(6 * size)
    passes = "\n".join(f"        model{n}(x).mean().backward()" for n in count)
    loops = "\n".join(f"    for x in loader:\n        step{n}(model{n}, x)" for n in count)
    steps = "\n\n".join(
        f"def step{n}(model, x):\n    loss = model(x)\n    loss.backward()" for n in count
    )
    models = ", ".join(f"model{n}" for n in count)
    main = f"""\
scaler = torch.amp.GradScaler("cuda")


{steps}


def main(loader, {models}):
    for x in loader:
{passes}
{loops}
"""
    return {"main.py": lines(main)}


def early_returns(size: int) -> Texts:
    """Many tests in a region, each of which may end the function."""
    tests = "\n".join(f"        if flag{n}:\n            return h.sum()" for n in range(6 * size))
    flags = ", ".join(f"flag{n}" for n in range(6 * size))
    main = f"""\
def loss_of(layer, x, amp, {flags}):
    with torch.autocast("cuda", enabled=amp):
        h = torch.nn.functional.linear(x, layer.weight)
{tests}
        return h.mean()
"""
    return {"main.py": lines(main)}


def chained_parameters(size: int) -> Texts:
    """An optimizer of the parameters of many modules, and the scaler that makes its steps."""
    count = range(6 * size)
    made = "\n".join(f"    net{n} = torch.nn.Linear(4, 4).cuda()" for n in count)
    given = ", ".join(f"net{n}.parameters()" for n in count)
    main = f"""\
def main(loader):
{made}
    parameters = [p for p in itertools.chain({given}) if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters)
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        with torch.autocast("cuda"):
            loss = net0(x.cuda()).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
    return {"main.py": lines("import itertools\n\n\n" + main)}


def chosen_contexts(size: int) -> Texts:
    """A helper that returns a region, chosen in many steps, and functions that are called in it."""
    steps = "\n".join(
        f"    c{n + 1} = c{n} if dtype else c{n}\n    c{n + 1} = c{n + 1} or c{n}"
        for n in range(6 * size)
    )
    loops = [
        f"""
        def main{n}(model, loader, optimizer):
            with region(torch.float16):
                for x in loader:
                    work(model, x.cuda(), optimizer)
        """
        for n in range(4 * size)
    ]
    helper = f"""\
def region(dtype):
    c0 = torch.autocast("cuda", dtype=dtype)
{steps}
    return c{6 * size}

def work(model, x, optimizer):
    model(x).mean().backward()
    optimizer.step()
"""
    return {"main.py": lines(helper, *loops)}


SHAPES: dict[str, Callable[[int], Texts]] = {
    **{
        shape.__name__: shape
        for shape in (
            call_chain, call_diamonds, double_calls, recursion, everyone_calls_everyone, fan_out,
            fan_in, hot_loops, many_files, long_function, long_module, elif_chain, guards,
            nested_tests, nested_expression, long_expression, same_methods, callbacks, overriding,
            subclasses, fields, nested_containers, long_literals, star_imports, decorators, flags,
            returned_losses, workers, threads, passed_down, accumulators, chosen_contexts,
            trainings, early_returns, chained_parameters,
        )
    },
    "doubled_tensors": TENSORS.doubled,
    "doubled_numbers": NUMBERS.doubled,
    "doubled_objects": OBJECTS.doubled,
    "doubled_sizes": SIZES_OF_TENSORS.doubled,
    "widened_tensors": TENSORS.widened,
    "widened_numbers": NUMBERS.widened,
    "widened_objects": OBJECTS.widened,
}  # fmt: skip


# -------------------------------------------------------------------------------- report


def seconds(texts: Texts) -> float:
    gc.collect()
    begun = time.process_time()
    check(texts)
    return time.process_time() - begun


def megabytes(texts: Texts) -> float:
    registry.all_rules()  # imported before anything is counted
    gc.collect()
    tracemalloc.start()
    try:
        check(texts)
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE")
    parser.add_argument("--size", type=int, default=1)
    for each in (seconds, megabytes):
        option = f"--{each.__name__}"
        parser.add_argument(option, dest="measure", action="store_const", const=each)
    options = parser.parse_args()
    failures = []
    for name in options.shapes or SHAPES:
        if options.measure:
            projects = [SHAPES[name](options.size * size) for size in SIZES]
            rows = sum(text.count("\n") for text in projects[-1].values())
            shown = "".join(f"{options.measure(texts):9.2f}" for texts in projects)
            print(f"{name:26}{rows:8} lines{shown} {options.measure.__name__}", flush=True)
            continue
        found = too_fast(SHAPES[name], options.size)
        print(
            f"{name:26}{'grows too fast' if found else 'linear'}", *found, sep="\n    ", flush=True
        )
        failures += [name] if found else []
    print(f"growing too fast: {', '.join(failures) or 'none'}", file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
