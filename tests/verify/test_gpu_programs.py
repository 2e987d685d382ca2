"""Programs that say "cuda", on what stands for a GPU: `sim` and `policy`."""

from pathlib import Path

import pytest

from amplint_verify.recording.observation import Observation, ReturnedTensor, RunOutcome, Wait
from amplint_verify.runs.run import Runner
from amplint_verify.runs.spec import Spec

pytest.importorskip("torch")

from amplint_verify.backends import sim

PROGRAMS = Path(__file__).with_name("programs")
TEXT = (PROGRAMS / "gpus.py").read_text(encoding="utf-8").splitlines()
BOTH = pytest.mark.parametrize("backend", ["sim", "policy"])


def run(runner: Runner, name: str, backend: str) -> Observation:
    return runner.run(Spec(str(PROGRAMS), f"gpus:{name}", backend, ("{device}",)))


def tensors(seen: Observation) -> dict[str, ReturnedTensor]:
    assert seen.outcome is RunOutcome.OK, f"{seen.error}: {seen.text} ({seen.place})"
    return {leaf.where: leaf.tensor for leaf in (*seen.result, *seen.state) if leaf.tensor}


def dtypes(seen: Observation) -> dict[str, str]:
    return {
        where.removeprefix("result['").removesuffix("']"): tensor.dtype
        for where, tensor in tensors(seen).items()
    }


@BOTH
def test_a_training_step_runs_as_it_is(backend: str, runner: Runner) -> None:
    found = tensors(run(runner, "step", backend))
    device = {"sim": "cuda:0", "policy": "cpu"}[backend]
    assert {tensor.device for tensor in found.values()} == {device}
    assert found["result['y']"].dtype == "float16"
    assert found["result['loss']"].dtype == "float32"
    weight = found["state['parameters']['0.weight']"]
    assert (weight.dtype, weight.type) == ("float32", "torch.nn.parameter.Parameter")
    assert found["state['gradient']"].dtype == "float32"
    assert all((tensor.data is None) == (backend == "sim") for tensor in found.values())


@BOTH
def test_cuda_autocast_decides_dtypes(backend: str, runner: Runner) -> None:
    assert dtypes(run(runner, "dtypes", backend)) == {
        "mm": "float16",
        "softmax": "float32",
        "sum": "float32",
        "norm": "float32",
        "cumsum": "float32",
        "cat": "float32",
        "relu": "float16",
        "float64": "float64",
        "where": "float32",
        "asked": "float64",
    }


def test_cpu_autocast_is_another(runner: Runner) -> None:
    assert dtypes(run(runner, "dtypes", "cpu"))["softmax"] == "float16"


@BOTH
def test_what_cuda_autocast_refuses_is_refused(backend: str, runner: Runner) -> None:
    seen = run(runner, "banned", backend)
    assert seen.outcome is RunOutcome.EXCEPTION
    assert "unsafe to autocast" in seen.text
    assert "return nn.functional" in TEXT[int(seen.place.partition(":")[2]) - 1]


@BOTH
def test_a_region_without_a_dtype_is_float16_as_on_cuda(backend: str, runner: Runner) -> None:
    assert tensors(run(runner, "default", backend))["result"].dtype == "float16"


@BOTH
def test_outside_of_a_region_nothing_is_cast(backend: str, runner: Runner) -> None:
    seen = run(runner, "outside", backend)
    assert tensors(seen)["result['softmax']"].dtype == "float16"
    assert [leaf.text for leaf in seen.result if leaf.kind == "str"] == ["'torch.float16'"]


@BOTH
def test_a_function_for_cuda_autocast_is_cast_as_it_asks(backend: str, runner: Runner) -> None:
    assert tensors(run(runner, "custom_function", backend))["result"].dtype == "float32"


@BOTH
def test_recurrent_layers_run(backend: str, runner: Runner) -> None:
    found = tensors(run(runner, "recurrent", backend))
    assert {tensor.dtype for tensor in found.values()} == {"float16"}


@BOTH
def test_memory_is_pinned_by_name_only(backend: str, runner: Runner) -> None:
    device = {"sim": "cuda:0", "policy": "cpu"}[backend]
    assert tensors(run(runner, "pinned", backend))["result"].device == device


@BOTH
def test_events_and_streams_have_stand_ins(backend: str, runner: Runner) -> None:
    seen = run(runner, "waits", backend)
    assert seen.outcome is RunOutcome.OK, seen.text
    assert seen.waits[Wait.SYNCHRONIZE.value].total == 3


@BOTH
def test_arrays_are_made_of_what_is_on_the_host(backend: str, runner: Runner) -> None:
    seen = run(runner, "arrays", backend)
    texts = [leaf.text for leaf in seen.result if leaf.kind == "str"]
    assert texts == ["'float32 (2,)'", "'float64 (2,)'", "'float32 (2,)'"], seen.text


@BOTH
def test_data_parallel_runs_on_one_gpu(backend: str, runner: Runner) -> None:
    found = tensors(run(runner, "parallel", backend))
    assert [tensor.dtype for tensor in found.values()] == ["float16", "float32"]
    device = {"sim": "cuda:0", "policy": "cpu"}[backend]
    assert {tensor.device for tensor in found.values()} == {device}


@BOTH
@pytest.mark.parametrize(("name", "count"), [("numbered", 8), ("copied", 1)])
def test_the_device_by_a_number_and_copies_of_modules(
    name: str, count: int, backend: str, runner: Runner
) -> None:
    devices = [tensor.device for tensor in tensors(run(runner, name, backend)).values()]
    assert devices == [{"sim": "cuda:0", "policy": "cpu"}[backend]] * count


@BOTH
def test_checkpoints(backend: str, runner: Runner) -> None:
    found = tensors(run(runner, "checkpoints", backend))
    device = {"sim": "cuda:0", "policy": "cpu"}[backend]
    assert {where: tensor.device for where, tensor in found.items()} == {
        "result['saved there']": device,
        "result['to the host']": "cpu",
        "result['by a table']": "cpu",
        "result['from the host']": "cpu",
        "result['to the device']": device,
        "result['by a function']": device,
    }


def test_products_of_halves_are_summed_in_float32(runner: Runner) -> None:
    (found,) = tensors(run(runner, "products", "policy")).values()
    assert (found.dtype, found.data) == ("float16", "AAA=")


@BOTH
def test_copies_in_inference_mode(backend: str, runner: Runner) -> None:
    seen = run(runner, "inferred", backend)
    assert tensors(seen)["result"].dtype == "float16"
    assert (seen.to_device, seen.to_host) == ((24, 24) if backend == "sim" else (0, 0))


# ------------------------------------------------------------------------------- sim alone


def test_every_read_of_the_device_is_found_at_its_line(runner: Runner) -> None:
    seen = run(runner, "reads", "sim")
    assert seen.outcome is RunOutcome.OK, seen.text
    first = next(row for row, line in enumerate(TEXT, 1) if "x.sum().item()" in line)
    last = next(row for row, line in enumerate(TEXT, 1) if "x.repeat_interleave" in line)
    found = [row.row for row in seen.rows if row.wait is not None and row.wait.reads]
    assert found == list(range(first, last + 1))
    assert all(row.direct for row in seen.rows if row.wait is not None)
    assert seen.guesses > 0


def test_both_guesses_are_tried(runner: Runner) -> None:
    seen = run(runner, "branches", "sim")
    assert seen.outcome is RunOutcome.OK
    assert seen.notes == ("depends on values: another guess met ValueError: not finite",)


def test_what_is_on_the_host_keeps_its_values(runner: Runner) -> None:
    seen = run(runner, "hosts", "sim")
    texts = {leaf.where: leaf.text for leaf in seen.result}
    assert [texts[f"result['sorted'][{at}]"] for at in range(3)] == ["3", "4", "5"]
    assert texts["result['mean']"] == "2.5"
    assert tensors(seen)["result['batch']"].device == "cuda:0"
    assert seen.guesses == 0


def test_two_devices_do_not_meet(runner: Runner) -> None:
    seen = run(runner, "mismatch", "sim")
    assert seen.outcome is RunOutcome.EXCEPTION
    assert "cuda:0" in seen.text


def test_what_fake_kernels_let_pass_is_flagged_and_policy_confirms(runner: Runner) -> None:
    (flag,) = run(runner, "unequal", "sim").flags
    assert (flag.op, flag.dtypes) == ("aten.mm.default", ("float16", "float32"))
    assert "return x @" in TEXT[flag.row - 1]
    seen = run(runner, "unequal", "policy")
    assert (seen.outcome, seen.flags) == (RunOutcome.EXCEPTION, ())
    assert "same dtype" in seen.text


def test_what_cannot_be_simulated_is_said(runner: Runner) -> None:
    seen = run(runner, "gradient_of_gradient", "sim")
    assert (seen.outcome, seen.text) == (RunOutcome.NOT_SIMULABLE, "the derivative of a gradient")
    assert run(runner, "gradient_of_gradient", "policy").outcome is RunOutcome.OK


def test_copies_stay_on_the_device(runner: Runner) -> None:
    seen = run(runner, "copies", "sim")
    assert {tensor.device for tensor in tensors(seen).values()} == {"cuda:0"}
    assert any("To copy construct from a tensor" in text for text in seen.warnings)
    assert (seen.to_device, seen.to_host) == (20, 0)


def test_a_kernel_that_is_absent_is_named_in_one_sentence() -> None:
    text = "Could not run 'aten::x'. This could be because of much.\nCPU: registered at x.cpp:1"
    assert sim.reason(NotImplementedError(text), text) == "Could not run 'aten::x'."
