"""Programs that say "cuda" and run where there is none."""

import tempfile
from copy import deepcopy

import numpy as np
import torch
from torch import nn

from amplint_verify.recording.snapshot import Returned


def step(device):
    """Two steps of mixed precision, with all that belongs to it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    first = model[0].weight
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(2):
        x = torch.randn(16, 4).to("cuda", non_blocking=True)
        with torch.autocast("cuda", dtype=torch.float16):
            y = model(x)
            loss = y.softmax(1).square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    assert first is model[0].weight, "a parameter stays the same object when its module moves"
    state = {"parameters": dict(model.named_parameters()), "gradient": first.grad}
    return Returned({"y": y, "loss": loss, "scale": scaler.state_dict()["scale"]}, state)


def dtypes(device):
    """What autocast makes of some operations."""
    x = torch.ones(4, 4, device=device)
    with torch.autocast(device, dtype=torch.float16):
        h = x @ x
        return {
            "mm": h,
            "softmax": h.softmax(1),
            "sum": h.sum(),
            "norm": h.norm(),
            "cumsum": h.cumsum(0),
            "cat": torch.cat([h, x]),
            "relu": h.relu(),
            "float64": x.double().exp(),
            "where": torch.where(x > 0, h, x),
            "asked": h.sum(dtype=torch.float64),
        }


def banned(device):
    with torch.autocast(device):
        x = torch.rand(4, device=device)
        return nn.functional.binary_cross_entropy(x, x)


def default(device):
    with torch.autocast(device):
        x = torch.ones(2, 2, device=device)
        return x @ x


def outside(device):
    x = torch.ones(2, 2, device=device, dtype=torch.float16)
    return {"softmax": x.softmax(1), "dtype": str(torch.get_autocast_dtype("cuda"))}


class Scaled(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, x):
        return x * 2

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, gradient):
        return gradient * 2


def custom_function(device):
    x = torch.ones(2, 2, device=device, requires_grad=True)
    with torch.autocast("cuda"):
        return Scaled.apply(x @ x)


def reads(device):
    """One read a line, each by another name."""
    x = torch.ones(4, device=device)
    mask = x > 0
    x.sum().item()
    float(x[0])
    bool(mask.all())
    f"{x[1]:.2f}"
    x.tolist()
    x.cpu().numpy()
    mask.nonzero()
    x[mask]
    x.masked_select(mask)
    x.unique()
    torch.bincount(x.long())
    torch.equal(x, x)
    print(x)
    x.repeat_interleave(x.long())


def branches(device):
    """Only one of the two guesses comes through."""
    if torch.ones((), device=device).isnan():
        raise ValueError("not finite")
    return 1


def hosts(device):
    """What is on the host keeps its values."""
    order = torch.randperm(6)
    picked = order[order > 2].tolist()
    batch = torch.tensor(picked, device=device)
    return {"sorted": sorted(picked), "batch": batch, "mean": order.float().mean().item()}


def mismatch(device):
    return torch.ones(2, device=device) + torch.ones(2)


def unequal(device):
    """Fake kernels let this pass."""
    x = torch.ones(2, 2, device=device, dtype=torch.float16)
    return x @ torch.ones(2, 2, device=device)


def gradient_of_gradient(device):
    x = torch.ones(2, device=device, requires_grad=True)
    (gradient,) = torch.autograd.grad(x.square().sum(), x, create_graph=True)
    gradient.sum().backward()
    return x.grad


def copies(device):
    x = torch.tensor([1.0, 2.0])
    y = torch.tensor(x.to(device))
    return [y, y.new_tensor(y), torch.as_tensor(y), torch.zeros(3).to(y)]


def recurrent(device):
    x = torch.ones(5, 2, 4, device=device)
    with torch.autocast("cuda", dtype=torch.float16):
        return [cell(4, 3).to(device)(x)[0] for cell in (nn.LSTM, nn.GRU, nn.RNN)]


def waits(device):
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    event.synchronize()
    torch.cuda.synchronize()
    torch.cuda.current_stream().synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        return torch.ones(1, device=device)


def pinned(device):
    """Pinned memory is the host's: without a GPU it is as any other."""
    x = torch.ones(2, pin_memory=True).pin_memory()
    assert not x.is_pinned()
    return x.to(device, non_blocking=True) + torch.tensor([1.0, 2.0], pin_memory=True).cuda()


def arrays(device):
    x = torch.ones(2, device=device).cpu()
    arrays = [np.asarray(x), np.array(x, dtype=np.float64), np.array([x.sum(), x.sum()])]
    return [f"{each.dtype} {each.shape}" for each in arrays]


def parallel(device):
    """The module gets what it is given on the device."""
    net = nn.DataParallel(nn.Linear(4, 2)).cuda()
    with torch.autocast("cuda", dtype=torch.float16):
        y = net(input=torch.randn(3, 4))
    y.sum().backward()
    return [y, net.module.weight.grad]


@torch.inference_mode()
def inferred(device):
    """A copy there and one back."""
    x = torch.ones(1, 3, 2, 2)
    return x.to(device=device, dtype=torch.float16, memory_format=torch.channels_last).cpu()


def numbered(device):
    """A number alone names a GPU, and so do the old types of tensors."""
    x = torch.ones(2)
    moved = [x.cuda(0), x.to(0), x.to(device=0), torch.ones(2, device=0)]
    layers = [nn.Linear(2, 2).cuda(0), nn.Linear(2, 2).to(0)]
    old = [x.type("torch.cuda.FloatTensor"), x.type(torch.cuda.FloatTensor)]
    return [*moved, *(layer.weight for layer in layers), *old]


def copied(device):
    """A copy moves, and mixes with what it is a copy of."""
    net = nn.Linear(2, 2).cuda()
    copy = deepcopy(net).to("cuda")
    return [net.weight + copy.weight]


def checkpoints(device):
    """What a file holds is on the device that `map_location` names."""
    net = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(2, 2).cuda()).sum().backward()
    optimizer.step()
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        file, of_host = f"{directory}/net.pt", f"{directory}/host.pt"
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, file)
        torch.save(nn.Linear(2, 2).state_dict(), of_host)
        for name, path, place in (
            ("saved there", file, None),
            ("to the host", file, "cpu"),
            ("by a table", file, {"cuda:0": "cpu"}),
            ("from the host", of_host, None),
            ("to the device", of_host, "cuda"),
            ("by a function", of_host, lambda storage, _: storage.cuda(0)),
        ):
            state = torch.load(path, map_location=place)
            found[name] = state.get("net", state)["weight"]
        state = torch.load(file)
    net.load_state_dict(state["net"])
    optimizer.load_state_dict(state["optimizer"])
    return found


def products(device):
    """Sums of halves that only float32 holds on the way."""
    x = torch.full((1, 256), 200.0, dtype=torch.float16, device=device)
    signs = torch.tensor([1.0, -1.0], device=device).repeat_interleave(128).half()
    return [x @ signs.mul(200).unsqueeze(1)]
