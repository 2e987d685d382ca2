"""How link's work grows with what it is given: linearly, whatever shape a project has.

    python -m benchmarks.link_growth [PACKAGE...] [--cache DIR] [--shapes-only]

Generates projects of several shapes, each of 1, 2, 4 and 8 times the size, and counts what linking
them takes, for each node of the functions' value graphs: evaluations of functions, of which a loop
is one too; transfers, values that are joined, keys that are read, functions that are asked for,
edges of the call graph and questions for heat. `time` is CPU time for each node, as a multiple of
that at the smallest size. Then the same for real packages, from small ones to large ones, with the
microseconds for each node. Writes results/link_growth.json when all of it was run; exits with 1
when at eight times the size anything is more than 1.3 times what it is at one (1.8 times, where
loops nest as deep as the size).
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from amplint.analyses.hotness import Hotness
from amplint.facts.program import Program
from amplint.inference import Evaluation
from amplint.inference.store import Store
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.values import lattice
from benchmarks.packages import RESULTS, arguments, fetch, load, sources

SIZES = (1, 2, 4, 8)
PACKAGES = (  # from 4,000 lines to 600,000
    "gfpgan", "asteroid", "pyannote-audio", "catalyst", "accelerate", "pykeen", "peft",
    "torchmetrics", "monai", "diffusers",
)  # fmt: skip
MOST = 1.3  # times the work per node of the smallest size
# Where loops nest as deep as the size: a value that goes through d loops takes up to d + 3 passes
# over them (Kam and Ullman, Global data flow analysis and iterative algorithms, 1976). It takes
# far fewer here: with the depth doubled, a third of a pass more.
MOST_IN_DEPTH = 1.8
Texts = Mapping[str, str]  # a project: its files


@dataclass(frozen=True)
class Work:
    """What linking took.

    Args:
        functions, nodes: that were evaluated, and what their graphs hold.
        evaluations, transfers: of functions and of nodes, each as often as it was done.
        joined: values that went into a join.
        reads: of keys (parameters, returns, fields, names).
        demands: functions that were asked for because they may be concerned.
        edges: from a call to a function that it may mean.
        heats: questions for the heat of a block, while heat spreads.
        seconds: of link alone; the files had been indexed before.
    """

    files: int
    functions: int
    nodes: int
    evaluations: int
    transfers: int
    joined: int
    reads: int
    demands: int
    edges: int
    heats: int
    seconds: float


COUNTED = ("evaluations", "transfers", "joined", "reads", "demands", "edges", "heats")


def measure(texts: Texts) -> Work:
    """Link the project twice, to count and to take the time, which counting would add to."""
    with counting() as counts:
        program, _ = linked(texts)
    _, seconds = linked(texts)
    states = program._inference.states
    counts["edges"] = sum(map(len, program._inference.calls.edges.values()))
    return Work(
        files=len(program._files),
        functions=len(states),
        nodes=sum(len(state.graph.nodes) for state in states.values()),
        seconds=seconds,
        **{name: counts[name] for name in COUNTED},
    )


def linked(texts: Texts) -> tuple[Program, float]:
    """The project, linked as `amplint check` does, and how long that took."""
    files = Files({path: file for path, text in texts.items() if (file := indexed(path, text))})
    gc.collect()
    gc.disable()  # as amplint does
    try:
        start = time.process_time()
        program = Program(files)
        program.facts[Hotness]
        return program, time.process_time() - start
    finally:
        gc.enable()


def indexed(path: str, text: str) -> File | None:
    try:
        return File(path, text)
    except (SyntaxError, ValueError):
        return None


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Count what the engine does, from outside of it."""
    counts: Counter[str] = Counter()
    undo: list[Callable[[], None]] = []

    def patch(owner: Any, name: str, counter: str) -> None:
        original = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            counts[counter] += 1
            return original(*args, **kwargs)

        setattr(owner, name, counted)
        undo.append(lambda: setattr(owner, name, original))

    def count_joins(owner: Any) -> None:
        original = owner.join

        def counted(parts: Any) -> Any:
            parts = list(parts)
            counts["joined"] += len(parts)
            return original(parts)

        owner.join = counted
        undo.append(lambda: setattr(owner, "join", original))

    patch(Evaluation, "run", "evaluations")
    patch(Evaluation, "transfer", "transfers")
    patch(Store, "read", "reads")
    patch(Store, "need", "demands")
    patch(Hotness, "_heat_of", "heats")
    join = lattice.join
    for name, module in sorted(sys.modules.items()):
        if name.startswith("amplint.") and getattr(module, "join", None) is join:
            count_joins(module)
    try:
        yield counts
    finally:
        for each in reversed(undo):
            each()


# ------------------------------------------------------------------------------ shapes


def program(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


MODEL = """
    import torch
    from torch import nn
    import torch.nn.functional as F
    from .{helpers} import normalise{n}, mix{n}

    class Block{n}(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.proj = nn.Linear(dim, dim)
            self.register_buffer("scale", torch.ones(dim))

        def forward(self, x, mask=None):
            h = self.proj(x)
            if mask is not None:
                h = torch.where(mask, h, torch.zeros(h.shape, device=h.device))
            return mix{n}(normalise{n}(h), self.scale)

    class Residual{n}(Block{n}):
        def forward(self, x, mask=None):
            return x + super().forward(x, mask)

    class Net{n}(nn.Module):
        def __init__(self, dim, depth):
            super().__init__()
            self.blocks = nn.ModuleList([Residual{n}(dim) for _ in range(depth)])
            self.stem = Block{n}(dim)
            self.head = nn.Linear(dim, 10)

        def forward(self, x):
            x = self.stem(x)
            for block in self.blocks:
                x = block(x)
            return self.head(x)
    """
HELPERS = """
    import torch

    def normalise{n}(x):
        return x / x.norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def mix{n}(x, scale):
        parts = []
        for weight in (0.5, 1.0, 2.0):
            parts.append(x * scale * weight)
        return sum(parts)

    def report{n}(losses, step):
        if step % 50 == 0:
            print(sum(losses).item() / len(losses))
    """
TRAINER = """
    import torch
    import torch.nn.functional as F
    from torch.utils.data import DataLoader
    from .{helpers} import report{n}
    from .model{m} import Net{m}

    class Trainer{m}:
        def __init__(self, args):
            self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            self.model = Net{m}(args.dim, args.depth).to(self.device)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr)
            self.loader = DataLoader(args.dataset)
            self.losses = []

        def fit(self, epochs):
            for epoch in range(epochs):
                for step, (x, y) in enumerate(self.loader):
                    self.losses.append(self.step(x.to(self.device), y.to(self.device)))
                    report{n}(self.losses, step)

        def step(self, x, y):
            self.optimizer.zero_grad()
            with torch.autocast("cuda"):
                loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            return loss.detach()
    """


def independent(size: int) -> dict[str, str]:
    """Models with helpers and trainers of their own, of names of their own."""
    files = {}
    for n in range(4 * size):
        files[f"p/model{n}.py"] = program(MODEL.format(n=n, helpers=f"helpers{n}"))
        files[f"p/helpers{n}.py"] = program(HELPERS.format(n=n))
        files[f"p/trainer{n}.py"] = program(TRAINER.format(n=n, m=n, helpers=f"helpers{n}"))
    return files


def namesakes(size: int) -> dict[str, str]:
    """The same, where every model has the same names, as examples and tasks of one project have."""
    files = {}
    for n in range(4 * size):
        files[f"p{n}/model.py"] = program(MODEL.format(n="", helpers="helpers"))
        files[f"p{n}/helpers.py"] = program(HELPERS.format(n=""))
        files[f"p{n}/trainer.py"] = program(TRAINER.format(n="", m="", helpers="helpers"))
    return files


def hub(size: int) -> dict[str, str]:
    """One module of helpers that all the models and trainers call."""
    files = {"p/helpers.py": program(HELPERS.format(n=""))}
    model = MODEL
    for name in ("Block", "Residual", "Net"):
        model = model.replace(f"{name}{{n}}", f"{name}{{m}}")
    for n in range(4 * size):
        files[f"p/model{n}.py"] = program(model.format(n="", m=n, helpers="helpers"))
        files[f"p/trainer{n}.py"] = program(TRAINER.format(n="", m=n, helpers="helpers"))
    return files


def records(size: int) -> dict[str, str]:
    """One function that all callers give a dict with keys of their own."""
    files = {
        "p/log.py": program("""
            import torch

            def write(record, step):
                for name, value in record.items():
                    print(name, value.item() if isinstance(value, torch.Tensor) else value)
            """)
    }
    for n in range(16 * size):
        files[f"p/train{n}.py"] = program(f"""
            from .log import write

            def train(model, loader):
                for step, x in enumerate(loader):
                    loss = model(x.cuda())
                    loss.backward()
                    write({{"loss{n}": loss.detach(), "size{n}": len(x), "step{n}": step}}, step)
            """)
    return files


def chain(size: int) -> dict[str, str]:
    """A loop, and below it one function that calls the next, down to the backward pass."""
    length = 24 * size
    files = {}
    for n in range(length):
        deeper = f"f{n + 1}(loss, rows + [loss * {n}.0])" if n + 1 < length else "loss.backward()"
        imported = f"from .f{n + 1} import f{n + 1}" if n + 1 < length else ""
        files[f"p/f{n}.py"] = program(f"""
            import torch
            {imported}

            def f{n}(loss, rows):
                loss = loss + torch.zeros((), device="cuda")
                {deeper}
                return loss.detach().float()
            """)
    files["p/main.py"] = program("""
        from .f0 import f0

        def main(model, loader):
            for x in loader:
                print(f0(model(x.cuda()), []))
        """)
    return files


def wide(size: int) -> dict[str, str]:
    """A base class whose loop calls a method that every subclass has."""
    files = {
        "p/base.py": program("""
            import torch
            from torch import nn

            class Base(nn.Module):
                def __init__(self, dim):
                    super().__init__()
                    self.proj = nn.Linear(dim, dim)
                    self.last = None

                def forward(self, x):
                    h = self.proj(x)
                    self.last = self.loss(h, x)
                    return self.last

                def loss(self, h, x):
                    return (h - x).abs().mean()

                def fit(self, loader, optimizer):
                    for x in loader:
                        optimizer.zero_grad()
                        loss = self(x.cuda())
                        loss.backward()
                        optimizer.step()
                        self.log(loss)

                def log(self, loss):
                    print(loss.item())
            """)
    }
    for n in range(16 * size):
        files[f"p/sub{n}.py"] = program(f"""
            import torch
            from .base import Base

            class Sub{n}(Base):
                def __init__(self, dim):
                    super().__init__(dim)
                    self.weight{n} = torch.full((dim,), {n}.0)

                def loss(self, h, x):
                    difference = (h - x) * self.weight{n}.to(x.device)
                    kept = torch.where(x > 0, difference, difference.half())
                    return kept.sum() + super().loss(h, x)

                def log(self, loss):
                    self.last = loss
            """)
    return files


def deep(size: int) -> dict[str, str]:
    """Hierarchies of eight classes, each of which derives from the one before."""
    files = {}
    for n in range(16 * size):
        base = f"Level{n - 1}" if n % 8 else "nn.Module"
        imported = f"from .level{n - 1} import Level{n - 1}" if n % 8 else ""
        files[f"p/level{n}.py"] = program(f"""
            import torch
            from torch import nn
            {imported}

            class Level{n}({base}):
                def __init__(self, dim):
                    super().__init__()
                    self.layer{n} = nn.Linear(dim, dim)

                def forward(self, x):
                    return self.step{n}(self.layer{n}(x))

                def step{n}(self, h):
                    return torch.cat([h, torch.zeros(h.shape, device=h.device)]).mean()
            """)
    return files


def nested(size: int) -> dict[str, str]:
    """Loops in loops: as deep as the size, with names that all of them rebind."""
    lines = [
        "import torch",
        "",
        "def main(model, loader, optimizer):",
        "    total, best, x = 0.0, None, 0",
    ]
    depth = 3 * size
    for level in range(depth):
        pad = "    " * (level + 1)
        lines += [
            f"{pad}for i{level} in range({level + 2}):",
            f"{pad}    x = x + i{level}",
            f"{pad}    total = total + x",
        ]
    pad = "    " * (depth + 1)
    lines += [f"{pad}loss = model(x)", f"{pad}loss.backward()", f"{pad}total += loss.item()"]
    for level in reversed(range(depth)):
        lines.append(f"{'    ' * (level + 2)}best = total if best is None else max(best, total)")
    return {"p/main.py": "\n".join([*lines, ""])}


def long(size: int) -> dict[str, str]:
    """One function of many loops, one after the other, of many branches and calls."""
    lines = [
        "import torch",
        "",
        "def read(tensors):",
        "    return sum(tensors).item()",
        "",
        "def main(model, loaders, args):",
        "    total, kept = 0.0, []",
    ]
    for n in range(8 * size):
        lines += [
            f"    for step, x in enumerate(loaders[{n}]):",
            "        x = x.cuda()",
            f"        if args.scale{n}:",
            f"            x = x * torch.full((), {n}.0, device=x.device)",
            "        loss = model(x)",
            "        loss.backward()",
            "        kept.append(loss.detach())",
            "        if step % 10 == 0:",
            "            total += read(kept)",
            f"        if loss > {n}:",
            "            print(read([loss]))",
        ]
    return {"p/main.py": "\n".join([*lines, "    return total", ""])}


SHAPES: dict[str, Callable[[int], dict[str, str]]] = {
    shape.__name__: shape
    for shape in (independent, namesakes, hub, records, chain, wide, deep, nested, long)
}


# ------------------------------------------------------------------------------ report


def rates(work: Work) -> dict[str, float]:
    """Each count, for each node."""
    return {name: getattr(work, name) / work.nodes for name in COUNTED}


def growth(small: Work, large: Work) -> dict[str, float]:
    """What each rate at the large size is of that at the small one."""
    before, after = rates(small), rates(large)
    return {name: after[name] / before[name] for name in COUNTED if before[name]}


def row(name: str, work: Work, seconds: str) -> str:
    counts = "".join(f"{rate:>13.2f}" for rate in rates(work).values())
    return f"{name:<18}{work.functions:>10}{work.nodes:>9}{counts}{seconds:>11}"


def head(last: str) -> str:
    counted = "".join(f"{name:>13}" for name in COUNTED)
    return f"{'':<18}{'functions':>10}{'nodes':>9}{counted}{last:>11}"


def most(shape: str) -> float:
    """The growth of a rate that a shape may have."""
    return MOST_IN_DEPTH if shape == "nested" else MOST


def run_shapes() -> tuple[dict[str, Any], list[str]]:
    """The table of the shapes, and those of them that grow too fast."""
    found: dict[str, Any] = {}
    failures: list[str] = []
    measure(independent(1))  # imports, and caches of imports
    print(head("time"))
    for name, shape in SHAPES.items():
        works = [measure(shape(size)) for size in SIZES]
        for size, work in zip(SIZES, works, strict=True):
            times = work.seconds / work.nodes / (works[0].seconds / works[0].nodes)
            print(row(f"{name} x{size}", work, f"{times:.2f}"), flush=True)
        grown = growth(works[0], works[-1])
        failures += [
            f"{name}: {count} grow {times:.2f} times"
            for count, times in grown.items()
            if times > most(name)
        ]
        found[name] = {
            "growth": {count: round(times, 2) for count, times in grown.items()},
            "sizes": [asdict(work) for work in works],
        }
    return found, failures


def run_packages(names: Sequence[str], cache: Path) -> dict[str, Any]:
    """The table of real packages, the smallest first."""
    measured: dict[str, Work] = {}
    for package in load(names):
        tree = fetch(package, cache)
        texts = {}
        for path in sources(package, tree):
            data = path.read_bytes()
            texts[path.relative_to(tree).as_posix()] = data.decode("utf-8", "replace")
        measured[package.name] = measure(texts)
        print(f"{package.name} ...", file=sys.stderr, flush=True)
    print(f"\n{head('us a node')}")
    ordered = sorted(measured.items(), key=lambda item: item[1].nodes)
    for name, work in ordered:
        print(row(name, work, f"{1e6 * work.seconds / work.nodes:.0f}"))
    return {name: asdict(work) for name, work in ordered}


def main() -> None:
    parser: argparse.ArgumentParser = arguments(__doc__)
    parser.add_argument("--shapes-only", action="store_true", help="no packages")
    options = parser.parse_args()
    shapes, failures = run_shapes()
    if not options.shapes_only:
        packages = run_packages(options.packages or PACKAGES, options.cache)
        if not options.packages:
            text = json.dumps({"shapes": shapes, "packages": packages}, indent=1)
            (RESULTS / "link_growth.json").write_text(text + "\n", encoding="utf-8")
    for failure in failures:
        print(failure, file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
