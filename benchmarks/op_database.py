"""The tables and the back ends against the sample inputs of PyTorch's own op database.

    python -m benchmarks.op_database [--every N] [--out DIRECTORY]

`torch.testing._internal.common_methods_invocations` (private, used here and nowhere else) has
arguments for some 700 operations. Each is called in a CUDA autocast region, float16, with all
floating arguments in float32, all in float16, and mixed, on `sim` (PyTorch's kernels of CUDA
autocast, no values), on `policy` (amplint's, with values) and, where torch sees a GPU, on `cuda`
instead of `policy`. Then

- both must give results of the same dtypes;
- these must be what `amplint.knowledge` says of the name;
- where unequal dtypes make a real kernel raise and a fake one does not, the recorder must flag it.

Writes op_database.json to benchmarks/results or to a directory (of a GPU:
op_database-GPU-torchVERSION.json) when all of it was run; exits with 1 when anything is not as it
should be and is not listed below, with its reason.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path
from typing import Any, cast

from amplint.knowledge.casts import AUTOCAST
from amplint.knowledge.operations import RESULTS
from amplint_verify import selftest
from amplint_verify.backends.choice import missing
from amplint_verify.recording.observation import Observation, RunOutcome
from amplint_verify.runs.run import Runner, running
from amplint_verify.runs.spec import Spec
from benchmarks.verify_on_gpu import machine

ROOT = Path(__file__).resolve().parent.parent
RESULT = Path(__file__).parent / "results" / "op_database.json"
SAMPLES = 2  # of each operation
# Dtypes of the first floating argument, and of the others.
MIXES = (
    ("float32", "float32"),
    ("float16", "float16"),
    ("float16", "float32"),
    ("float32", "float16"),
)
# What stands for a GPU, and what has kernels with values: a GPU, or amplint's policy.
STAND_IN, REAL = "sim", ("cuda", "policy")

# Operations and variants for which something else than the dtypes of CUDA autocast shows.
STATISTICS = "the CPU's kernel has other dtypes for what it saves for the backward pass"
POLICY_DIFFERS = {
    "_softmax_backward_data": STATISTICS,
    "native_group_norm": STATISTICS,
    "native_batch_norm": STATISTICS,
    "_native_batch_norm_legit": STATISTICS,
    "_batch_norm_with_update": STATISTICS,
    "normal": "the fake kernel promotes the mean and the deviation, the CPU's does not",
}
CUDA_DIFFERS = {"normal": "the fake kernel promotes the mean and the deviation, CUDA's does not"}
DIFFERS: Mapping[str, Mapping[str, str]] = {"policy": POLICY_DIFFERS, "cuda": CUDA_DIFFERS}
NOTHING_TO_DO = "the power 0 or 1 multiplies nothing"
LAX = "the real kernel raises"
TABLES_DIFFER = {
    "nn.functional.interpolate.area": "adaptive pooling: not cast, as the table says in words",
    "nn.functional.linear_cross_entropy.chunked": "another path of the same name",
    "nn.functional.linear_cross_entropy.chunked_none": "another path of the same name",
    "inner": "with a 0-dim operand it is a product, in the dtype of the other",
    "linalg.matrix_power": NOTHING_TO_DO,
    "max.binary": "with a tensor in the place of the dim it is maximum, which has a row of its own",
    "min.binary": "with a tensor in the place of the dim it is minimum, which has a row of its own",
    "nn.functional.embedding_bag": LAX,
    "grid_sampler_2d": LAX,
}
CPU_ALONE = "the CPU's kernel alone wants this"
POLICY_UNFLAGGED = {
    "_batch_norm_with_update": CPU_ALONE,
    "_native_batch_norm_legit": CPU_ALONE,
    "native_batch_norm": CPU_ALONE,
    "native_group_norm": CPU_ALONE,
    "nn.functional.batch_norm": CPU_ALONE,
    "nn.functional.instance_norm": CPU_ALONE,
    "nn.functional.linear_cross_entropy.chunked": "flagged as the mm that it comes to",
    "nn.functional.linear_cross_entropy.chunked_none": "flagged as the mm that it comes to",
    "_softmax_backward_data": "no call of a program",
    "_unsafe_masked_index_put_accumulate": "no call of a program",
}
CUDNN = "the kernel of cuDNN alone wants this, which takes three dimensions and more"
CUDA_UNFLAGGED = {
    "nn.functional.batch_norm": CUDNN,
    "nn.functional.instance_norm": CUDNN,
    "_softmax_backward_data": "no call of a program",
    "_unsafe_masked_index_put_accumulate": "no call of a program",
}
UNFLAGGED: Mapping[str, Mapping[str, str]] = {"policy": POLICY_UNFLAGGED, "cuda": CUDA_UNFLAGGED}
UNEQUAL = ("did not match", "scalar type", "same dtype", "dtypes match", "different dtypes",
           "same type", "same scalar type")  # fmt: skip

Row = dict[str, Any]


# ------------------------------------------------------------------------------- in the child


def measure(device: str, every: int) -> str:
    """Call every N-th operation of the database. Rows as JSON; this runs on a back end."""
    torch = importlib.import_module("torch")
    selftest.without_expecttest()
    # PyTorch's tests ask numba for a GPU, if it is there: one that `sim` hides crashes it.
    sys.modules.setdefault("numba", cast("Any", None))
    database = importlib.import_module("torch.testing._internal.common_methods_invocations")
    rows: list[Row] = []
    for op in database.op_db[::every]:
        if torch.float32 not in op.dtypes:
            continue
        torch.manual_seed(0)
        try:
            samples = list(itertools.islice(op.sample_inputs("cpu", torch.float32), SAMPLES))
        except Exception:
            continue  # samples that want SciPy
        for sample in samples:
            arguments = [sample.input, *sample.args], sample.kwargs
            if all(tensor.layout is torch.strided for tensor in tensors(arguments)):
                rows += [row(op, mix, device, arguments) for mix in MIXES]
    return json.dumps(rows)


def tensors(nest: Any) -> list[Any]:
    torch = importlib.import_module("torch")
    leaves = importlib.import_module("torch.utils._pytree").tree_leaves(nest)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def row(op: Any, mix: tuple[str, str], device: str, arguments: Any) -> Row:
    """What went into an operation and came out of it; for an error, its text."""
    torch = importlib.import_module("torch")
    dtypes = itertools.chain(mix[:1], itertools.repeat(mix[1]))

    def placed(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.dtype == torch.float32:
            value = value.to(getattr(torch, next(dtypes)))
        return value.detach().to(device)

    args, kwargs = importlib.import_module("torch.utils._pytree").tree_map(placed, arguments)
    found: list[Any] = []
    text = ""
    try:
        with torch.no_grad(), torch.autocast(device, dtype=torch.float16):
            found = tensors(op.op(*args, **kwargs))
    except Exception as error:
        text = f"{type(error).__name__}: {error}".partition("\n")[0]
    return {
        "op": op.name,
        "variant": ".".join(filter(None, (op.name, op.variant_test_name))),
        "mix": mix,
        "asked": "dtype" in kwargs or any(isinstance(value, torch.dtype) for value in args),
        "operands": [
            (str(x.dtype).removeprefix("torch."), x.dim()) for x in tensors((args, kwargs))
        ],
        "gives": [str(x.dtype).removeprefix("torch.") for x in found],
        "error": text,
    }


# ------------------------------------------------------------------------------- in the parent


def measured(runner: Runner, every: int, real: str) -> tuple[list[Row], list[Row], set[str]]:
    """The rows of `sim` and of a back end with values, and the operations that were flagged."""
    target = f"{__name__}:{measure.__name__}"

    def run(name: str) -> Observation:
        spec = Spec(str(ROOT), target, name, ("{device}", every), seconds=1800, memory=32 << 30)
        seen = runner.run(spec)
        if seen.outcome is not RunOutcome.OK:
            raise RuntimeError(f"{name}: {seen.error}: {seen.text}")
        return seen

    with ThreadPoolExecutor() as pool:
        sim, other = pool.map(run, (STAND_IN, real))
    flagged = {flag.op.split(".")[1].rstrip("_") for flag in sim.flags}
    return rows(sim), rows(other), flagged


def rows(seen: Observation) -> list[Row]:
    return list(json.loads(ast.literal_eval(seen.result[0].text)))


def pairs(sim: Sequence[Row], real: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """The rows of the same calls; samples that one back end could not make are left out."""

    def keyed(rows: Sequence[Row]) -> dict[tuple[Any, ...], Row]:
        counts: Counter[Any] = Counter()
        found = {}
        for each in rows:
            key = (each["variant"], *each["mix"])
            found[(*key, counts[key])] = each
            counts[key] += 1
        return found

    ours, others = keyed(sim), keyed(real)
    for key in ours.keys() & others.keys():
        if ours[key]["operands"] == others[key]["operands"]:
            yield ours[key], others[key]


def told(each: Row, expected: object) -> str:
    operands = ", ".join(dtype for dtype, _ in each["operands"])
    return f"{each['variant']}({operands}) gives {each['gives'] or each['error']}, not {expected}"


def of_tables(each: Row) -> str | None:
    """The dtype of the first result that the tables say; None where they claim nothing."""
    torch = importlib.import_module("torch")
    name = f"torch.{each['op']}"
    policy, result = AUTOCAST["cuda"].get(name), RESULTS.get(name)
    if result is None or result.kind not in ("tensor", "same", "self", "tensors"):
        return None
    if each["asked"] or not each["operands"] or policy in ("unknown", "banned"):
        return None
    floats = {dtype for dtype, _ in each["operands"]} & {"float16", "float32"}
    widest = "float32" if "float32" in floats else "float16"
    cast = {"half": "float16", "promote": widest}.get(policy or "", "float32")
    operands = [
        torch.empty(
            (1,) * min(dims, 1),
            dtype=getattr(torch, dtype if policy is None or dtype not in floats else cast),
        )
        for dtype, dims in each["operands"]
    ]
    word = (result.dtypes or (result.dtype,))[0]
    dtype = meant(word, operands, torch)
    return None if dtype is None else str(dtype).removeprefix("torch.")


def meant(word: str, operands: Sequence[Any], torch: Any) -> Any:
    """The dtype that a word of the tables means; None where it claims nothing."""
    first = operands[0].dtype
    is_float = first.is_floating_point or first.is_complex
    if word.startswith("promote"):
        promoted = reduce(
            lambda a, b: torch.empty((1,) * max(a.dim(), b.dim()), dtype=torch.result_type(a, b)),
            operands,
        ).dtype
        is_number = promoted.is_floating_point or promoted.is_complex
        return torch.float32 if word == "promote-float" and not is_number else promoted
    known = {
        "unknown": None,
        "arg": None,
        "same": first,
        "float-of": first if is_float else torch.float32,
        "long-of": first if is_float else torch.int64,
        "default": torch.float32,
    }
    return known[word] if word in known else getattr(torch, word)


def compared(
    sim: Sequence[Row], others: Sequence[Row], flagged: set[str], real: str
) -> dict[str, Any]:
    """Counts of what agrees, and all that does not and has no reason above."""
    counts: Counter[str] = Counter()
    problems: list[str] = []

    def count(what: str, right: bool, known: Mapping[str, str], each: Row, other: object) -> None:
        listed = {each["op"], each["variant"]} & known.keys()
        counts[f"{what}: {'equal' if right else 'listed' if listed else 'not equal'}"] += 1
        if not right and not listed:
            problems.append(f"{what}: {told(each, other)}")

    for ours, theirs in pairs(sim, others):
        if ours["error"]:
            counts["raises on sim"] += 1
            continue
        if not theirs["error"]:
            right = ours["gives"] == theirs["gives"]
            count(f"{real} and sim", right, DIFFERS[real], theirs, ours["gives"])
        elif len(set(ours["mix"])) == 2 and any(text in theirs["error"] for text in UNEQUAL):
            right = any(ours["op"].rpartition(".")[2] in name for name in flagged)
            count("flagged on sim", right, UNFLAGGED[real], theirs, "flagged")
        else:
            counts[f"raises on {real}, for another reason"] += 1
        says = of_tables(ours)
        if says is not None and ours["gives"]:
            count("tables and sim", says == ours["gives"][0], TABLES_DIFFER, ours, says)
    return {
        "operations": len({each["op"] for each in sim}),
        "calls": len(sim),
        "counts": dict(sorted(counts.items())),
        "problems": sorted(set(problems)),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="only every N-th operation")
    parser.add_argument("--out", type=Path, default=RESULT.parent, help="where the result goes")
    options = parser.parse_args(arguments)
    real = next(name for name in REAL if missing(name) is None)
    with running() as runner:
        found = compared(*measured(runner, options.every, real), real)
    version = importlib.import_module("torch").__version__
    text = json.dumps({"torch": version, "with values": real, **found}, indent=1)
    print(text)
    if options.every == 1:
        name = f"{RESULT.stem}-{machine()}.json" if real == "cuda" else RESULT.name
        (options.out / name).write_text(text + "\n", encoding="utf-8")
    return 1 if found["problems"] else 0


if __name__ == "__main__":
    # Not as __main__: the child has to find it.
    sys.exit(importlib.import_module("benchmarks.op_database").main())
