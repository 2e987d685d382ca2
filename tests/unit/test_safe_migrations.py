"""Fixes of old names where the program means by them what torch does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import fix

TRAIN = "train.py"
SCALER = "from torch.cuda.amp import GradScaler\nscaler = GradScaler()\n"
REGION = "from torch.cuda.amp import autocast\nwith autocast():\n    go()\n"


def fixed(tmp_path: Path, program: str, unsafe: bool = False) -> str:
    after = fix({TRAIN: program.encode()}, tmp_path, unsafe=unsafe)
    return after[TRAIN].decode() if TRAIN in after else program


@pytest.mark.parametrize(
    "program",
    [
        # An object of the new class matches no pattern of the old one.
        f"{SCALER}match scaler:\n    case GradScaler():\n        go()\n",
        f"{SCALER}match pair:\n    case [GradScaler(), _]:\n        go()\n",
        # A library for another device puts its own classes there.
        f"import torch\nimport npu\ntorch.cuda.amp.GradScaler = npu.Scaler\n{SCALER}",
        f"import torch\nimport npu\ntorch.cuda.amp.autocast = npu.autocast\n{REGION}",
        f"from torch.cuda import amp\nimport npu\namp.autocast = npu.autocast\n{REGION}",
        f"import torch\nimport npu\nsetattr(torch.cuda.amp, 'autocast', npu.autocast)\n{REGION}",
    ],
)
def test_a_new_class_is_no_safe_fix(tmp_path: Path, program: str) -> None:
    assert fixed(tmp_path, program) == program
    assert fixed(tmp_path, program, unsafe=True) != program


@pytest.mark.parametrize("program", [f"{SCALER}use_amp = scaler == other\n", REGION])
def test_a_comparison_puts_no_class_there(tmp_path: Path, program: str) -> None:
    program = f"import torch\nsame = torch.cuda.amp.GradScaler == x\n{program}"
    assert fixed(tmp_path, program) != program


def test_a_region_that_is_open_at_a_yield_keeps_its_dtype(tmp_path: Path) -> None:
    """Who makes a context manager of it may open that inside a region of another dtype."""
    program = "import torch\n\n\ndef half(on):\n    with {}:\n        yield\n"
    old, new = "torch.cuda.amp.autocast(on)", 'torch.amp.autocast("cuda", {}enabled=on)'
    after = program.format(new.format("dtype=torch.float16, "))
    assert fixed(tmp_path, program.format(old)) == after


@pytest.mark.parametrize("shape", ["x.shape", "x.size()", "size"])
def test_a_shape_of_the_seen_calls_is_put_in_no_brackets(tmp_path: Path, shape: str) -> None:
    """`torch.full((x.shape,), 2.0)` raises."""
    program = (
        "import torch\n\n\ndef f(x, size):\n"
        f"    return torch.cuda.FloatTensor({shape}).fill_(2.0)\n\n\n"
        "x = torch.randn(2, 3)\nf(x, x.shape)\n"
    )
    after = fixed(tmp_path, program, unsafe=True)
    assert f'torch.empty({shape}, dtype=torch.float32, device="cuda").fill_(2.0)' in after


def test_scripted_code_asks_as_torchscript_can(tmp_path: Path) -> None:
    """`torch.is_autocast_enabled("cpu")` does not compile: TorchScript gives it no argument."""
    program = (
        "import torch\n\n\n@torch.jit.script\ndef f(x: torch.Tensor) -> bool:\n"
        "    return torch.is_autocast_cpu_enabled()\n"
    )
    assert fixed(tmp_path, program) == program
    plain = program.replace("@torch.jit.script\n", "")
    assert 'torch.is_autocast_enabled("cpu")' in fixed(tmp_path, plain)


@pytest.mark.parametrize(
    ("bases", "safe"),
    [
        ("torch.Tensor", False),
        ("Generic[T], torch.Tensor", False),
        ("Transform[torch.Tensor]", True),
        ("Transform[dict[str, torch.Tensor]]", True),
    ],
)
def test_tensors_of_a_class_of_their_own(tmp_path: Path, bases: str, safe: bool) -> None:
    """They may build by `new_empty` what they do not by `new`; a type in brackets is no base."""
    program = f"import torch\n\n\nclass Own({bases}):\n    pass\n\n\n"
    program += "def f(x: torch.Tensor):\n    return x.new(2, 3)\n"
    assert fixed(tmp_path, program) == (program.replace("new", "new_empty") if safe else program)


def test_scripted_code_asks_for_no_gradient_of_full(tmp_path: Path) -> None:
    """`torch.full(..., requires_grad=True)` does not compile; `torch.tensor` takes it."""
    plain = (
        "import torch\n\n\ndef zero(x: torch.Tensor):\n"
        "    return torch.tensor(0.0, device=x.device, requires_grad=True)\n\n\n"
        "def train(model: torch.nn.Module, loader, optimizer):\n    for x in loader:\n"
        "        loss = model(x.cuda()).sum() + zero(x.cuda())\n"
        "        loss.backward()\n        optimizer.step()\n"
    )
    scripted = plain.replace("def zero", "@torch.jit.script\ndef zero")
    assert "torch.full((), 0.0, device=x.device, requires_grad=True)" in fixed(tmp_path, plain)
    assert fixed(tmp_path, scripted) == scripted


@pytest.mark.parametrize(
    "returned", ["{}", "{} if on else None", "None if off else ({} if on else None)"]
)
def test_a_region_that_is_returned_keeps_its_dtype(tmp_path: Path, returned: str) -> None:
    """Who gets it may open it inside a region of another dtype."""
    program = "import torch\n\n\ndef region(on, off):\n    return {}\n"
    after = fixed(tmp_path, program.format(returned.format("torch.cuda.amp.autocast()")))
    new = 'torch.amp.autocast("cuda", dtype=torch.float16)'
    assert "".join(after.split()) == "".join(program.format(returned.format(new)).split())


@pytest.mark.parametrize(
    ("line", "elsewhere"),
    [
        ('with torch.device("meta"):', True),
        ("with self.main_device:", True),
        ("with device if fast else nullcontext():", True),
        ('with torch.no_grad(), torch.device("meta"):', True),
        ("with init_empty_weights(include_buffers=True):", True),
        ("with torch.cuda.device(1):", False),
        ("with torch.autocast(device_type=device):", False),
        ("with open(path): # does not scale with device, it is said", False),
        ('print(f"created with device={device}")', False),
    ],
)
def test_a_device_is_written_out_where_another_may_be_the_default(
    tmp_path: Path, line: str, elsewhere: bool
) -> None:
    body = "\n    pass" if line.startswith("with") else ""
    program = f"import torch\n\nones = torch.BoolTensor([1])\n{line}{body}\n"
    device = ', device="cpu"' if elsewhere else ""
    after = program.replace("BoolTensor([1]", f"tensor([1], dtype=torch.bool{device}")
    assert fixed(tmp_path, program) == after


BODY = "\n\n\ndef f(x, on):\n"
OLD_SCALER = "torch.cuda.amp.GradScaler()"
ASKS = "torch.is_autocast_cpu_enabled()"


@pytest.mark.parametrize(
    "body",
    [
        # An old torch is handled where the name, or its argument, is missing.
        f"    try:\n        s = {OLD_SCALER}\n    except AttributeError:\n        s = None\n",
        f"    try:\n        return {OLD_SCALER}\n    except Exception:\n        return Scaler()\n",
        f"    try:\n        return {ASKS}\n"
        "    except (TypeError, ValueError):\n        return False\n",
        "    try:\n        with torch.cuda.amp.autocast():\n            y = x()\n"
        "    except RuntimeError:\n        y = x()\n",
        "    try:\n        return torch.is_autocast_enabled('cpu')\n"
        f"    except TypeError:\n        return {ASKS}\n",
        f"    try:\n        return torch.amp.GradScaler('cuda')\n"
        f"    except:\n        s = {OLD_SCALER}\n",
        f"    return getattr(torch.amp, 'GradScaler', {OLD_SCALER})\n",
        f"    return x if hasattr(torch.amp, 'GradScaler') else {OLD_SCALER}\n",
        # The version is asked for where it is called.
        f"    return {OLD_SCALER}\n\n\nif torch.__version__ < '2.3':\n    f(1, 2)\n",
        f"    return {OLD_SCALER}\n\n\nOLD = torch.__version__ < '2.3'\n\n\n"
        "def g(x):\n    return f(x, 1)\n\n\ny = g(1) if OLD else None\n",
        f"    return {OLD_SCALER}\n\n\ndef g(x):\n    if hasattr(torch.amp, 'GradScaler'):\n"
        "        return x\n    return f(x, 1)\n",
    ],
)
def test_code_that_handles_an_old_torch_is_left_alone(tmp_path: Path, body: str) -> None:
    program = f"import torch{BODY}{body}"
    assert fixed(tmp_path, program, unsafe=True) == program


@pytest.mark.parametrize(
    "body",
    [
        # The handler does not what has failed.
        f"    try:\n        s = {OLD_SCALER}\n"
        "    except AttributeError as e:\n        print(e)\n        raise\n",
        f"    try:\n        s = {OLD_SCALER}\n    except Exception:\n        pass\n",
        f"    try:\n        s = {OLD_SCALER}\n    except RuntimeError:\n        exit(1)\n",
        f"    try:\n        s = {OLD_SCALER}\n    except:\n        x.close()\n        ok = False\n",
        f"    try:\n        s = {OLD_SCALER}\n    except KeyError:\n        s = None\n",
        f"    try:\n        s = {OLD_SCALER}\n    finally:\n        s = None\n",
        f"    try:\n        x()\n    except ValueError:\n        s = {OLD_SCALER}\n",
        # It is called without a test as well, or by nobody who is seen, or tested otherwise.
        f"    return {OLD_SCALER}\n\n\nif torch.__version__ < '2.3':\n    f(1, 2)\nf(2, 3)\n",
        f"    return {OLD_SCALER}\n\n\nif x.on:\n    f(1, 2)\n",
        f"    return f(x, {OLD_SCALER})\n",
    ],
)
def test_code_that_only_notices_a_failure_is_migrated(tmp_path: Path, body: str) -> None:
    program = f"import torch{BODY}{body}"
    assert 'torch.amp.GradScaler("cuda")' in fixed(tmp_path, program)
