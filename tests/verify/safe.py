"""For each condition of each safe fix: a program in which it holds, and the same where it does not.

Without the condition, the safe fixes must not make the change that they make with it; and that
change, made all the same, must give another program. So no condition stands there that nothing
needs, and none is missing that another one of these programs would need.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

from amplint.rule.registry import all_rules

Change = tuple[str, str]


@dataclass
class Case:
    """A condition that is taken away.

    Args:
        code: of the rule whose fix is safe.
        condition: how the words that name it begin.
        program: the module `main`, whose function `run(device)` is run.
        backend: which shows that the change is then a mistake; "" if none here can.
        why: what it would take to show it, where no back end can.
        without: what is replaced in the program to take the condition away.
        rewrite: what is replaced then by the mistaken change; the unsafe fix, if there is none.
    """

    code: str
    condition: str
    program: str
    backend: str = ""
    why: str = ""
    without: list[Change] = field(default_factory=list)
    rewrite: list[Change] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.code}: {self.condition}"

    @property
    def full_condition(self) -> str:
        """The condition in the rule's own words."""
        rule = next(rule for rule in all_rules() if rule.code == self.code)
        (found,) = (each for each in rule.safe_if if each.startswith(self.condition))
        return found


def replaced(text: str, changes: list[Change]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, (text.count(old), old)
        text = text.replace(old, new)
    return text


HEAD = """\
import os

import torch
from torch import nn


"""

STEPS = """\
def run(device):
    torch.manual_seed(0)
    model = nn.Linear(8, 8).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    shown = []
    for _ in range(2):
        x = torch.randn(4, 8, device=device)
{body}
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return shown, loss.detach()
"""

ONCE = """\
def run(device):
    shown = []
{body}
    return shown
"""

# What a program is given to take a condition away.
DEFINITIONS = {
    # The same, in a function that somebody else may call with what amplint does not see.
    "fed": """\
def fed(y, t):
    return y * t.item()
""",
    # Its methods that build a tensor are not those of any tensor, as those of a DTensor are not.
    "Wrapper": """\
class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, device=x.device)

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
        raise NotImplementedError(function)
""",
    "Own": """\
class Own(torch.Tensor):
    pass
""",
    "Product": """\
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight.t(), x.t() @ grad
""",
    "Maker": """\
class Maker:
    def new_tensor(self, x):
        return torch.as_tensor(x).clone()
""",
    "Newer": """\
class Newer:
    def new(self, *sizes):
        return torch.empty(sizes)
""",
    "Typed": """\
class Typed:
    def type(self, name):
        return str(name)
""",
}

# A program: the code of the rule, and where `run` has the lines behind `>`: once, for every batch
# in the steps of a training loop, or nowhere, where what stands above it has a `run` (behind `|`).
# Below, its conditions, each with the back end that shows the mistake, or why none does, in
# brackets; and how it is taken away:
#     old => new                          (or a line of - and a line of + for each line of them)
#     with NAME                           one of DEFINITIONS is there
#     also CALL                           is shown, which amplint does not see, as of other code
# What follows `fix:` is then the mistaken change.
PROGRAMS = r"""
AMP001 steps
> shown.append(x.sum())  # amplint: ignore[AMP101]
[a comment does nothing at run time] the code suppresses nothing
shown.append(x.sum()) => shown.append(x.sum().item())

AMP204 once
> rows = torch.full((2, 4), 0.1, device=device)
> index = torch.tensor([1, 0], device=device)
> buffer = torch.zeros(2, 4, device=device, dtype=torch.float16)
> buffer[index] = rows
> shown.append(buffer)
[a cast to the dtype that the tensor has does nothing] the dtypes are known to differ
, dtype=torch.float16) => )
[policy] nothing around it catches the error
-    buffer[index] = rows
+    try:
+        buffer[index] = rows
+    except RuntimeError:
+        pass

AMP204 once
| def written(rows: torch.Tensor, device):
|     index = torch.tensor([1, 0], device=device)
|     buffer = torch.zeros(2, 4, device=device, dtype=torch.float16)
|     buffer[index] = rows
|     return buffer
> shown.append(written(torch.full((2, 4), 0.1, device=device), device))
[policy] the source is a tensor for every caller
rows: torch.Tensor => rows
also globals()['written'](0.1, device)

AMP204 once
| def written(buffer: torch.Tensor, device):
|     index = torch.tensor([1, 0], device=device)
|     with torch.autocast("cuda"):
|         buffer[index] = torch.ones(2, 4, device=device).half()
|     return len(buffer)
> shown.append(written(torch.zeros(2, 4, device=device), device))
[policy] the destination is a tensor for every caller
buffer: torch.Tensor => buffer
also globals()['written']({}, device)

AMP313 once
| def volume(x: torch.Tensor):
|     with torch.autocast("cuda"):
|         h = x.half()
|         return torch.logdet(h)
> shown.append(volume(torch.eye(4, device=device)))
[policy] the operand is cast to half in this function
h = x.half() => h = x
-    shown.append(volume(torch.eye(4, device=device)))
+    if os.environ.get('SEEN'):
+        shown.append(volume(torch.eye(4, device=device).half()))
also globals()['volume'](torch.eye(4, device=device).double())

AMP202 once
> x = torch.full((3,), 2.5, device=device).half()
> shown.append(torch.zeros(4, 8).type_as(x))
[sim] every device and dtype gets the same values
torch.zeros(4, 8) => torch.rand(4, 8)
fix: torch.rand(4, 8).type_as(x) => torch.rand(4, 8, device=x.device).type_as(x)
[policy] no elements share memory
torch.zeros(4, 8) => torch.zeros(4, 1).expand(4, 8)
[policy] no part of it is sliced out
torch.zeros(4, 8) => torch.zeros(4, 8)[:, :2]

AMP202 once
| def made(x: torch.Tensor, n):
|     return torch.ones(4).view(1, n).type_as(x)
> shown.append(made(torch.ones(3, device=device).half(), 4))
[policy] its arguments are the same for every caller
view(1, n) => view(n)
also globals()['made'](torch.ones(3, device=device).half(), torch.int32)

AMP202 once
> x = torch.full((3,), 2.5, device=device).half()
> shown.append(torch.zeros(4, 8).type_as(x))
[a class may make its `new_zeros` in its own way] the project has no tensor subclasses
with Own
-    shown.append
+    x = x.as_subclass(Own)
+    shown.append

AMP202 once
> x = torch.full((3,), 2.5, device=device).half()
> shown.append(torch.zeros(4, 8).to(x))
[policy] the other tensor is strided
.half() => .half().to_sparse()
fix: torch.zeros(4, 8).to(x) => x.new_zeros(4, 8)

AMP202 once
| def made(n, like: torch.Tensor):
|     return torch.zeros(n).to(like)
> shown.append(made(4, torch.ones(3, device=device).half()))
[policy] the cast is to the dtype and the device of a tensor
like: torch.Tensor => like
also globals()['made'](4, torch.float64)

AMP301 whole
| def run(device):
|     torch.manual_seed(0)
|     body = nn.Linear(16, 16).to(device)
|     head = nn.Linear(16, 4).to(device)
|     x = torch.randn(32, 16, device=device)
|     with torch.autocast("cuda", dtype=torch.bfloat16):
|         h = torch.tanh(body(x))
|         loss = head(h).square().mean()
|         loss.backward()
|     return body.weight.grad, head.weight.grad
[policy] nothing else leaves the region
head = nn.Linear(16, 4).to(device) => head = nn.Linear(16, 4).to(device, torch.bfloat16)
-        loss.backward()
-    return
+        loss.backward()
+        norm = torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
+    return norm,
[policy] all of the forward pass is seen to be ordinary work in the region
-    with torch.autocast
+    early = torch.tanh(body(x))
+    with torch.autocast
h = torch.tanh(body(x)) => h = torch.tanh(early)
[policy] none of it runs in a wider dtype than the region
-        loss = head(h)
+        with torch.autocast("cuda", enabled=False):
+            h = torch.tanh(body(h.float()))
+        loss = head(h)
[policy] none of it runs in a wider dtype than the region
-loss = head(h).square().mean()
+wide = h.float().T @ h.float() + torch.eye(16, device=device)
+        loss = head(torch.linalg.inv(wide)).square().mean()
[policy] all of the forward pass is seen to be ordinary work in the region
with Product
loss = head(h) => loss = Product.apply(h, head.weight.t())

AMP405 once
> torch.manual_seed(0)
> model = nn.Linear(8, 4).to(device)
> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
> scaler = torch.amp.GradScaler(device, init_scale=1024.0)
> scaler.scale(model(torch.ones(2, 8, device=device)).square().mean()).backward()
> scaler.unscale_(optimizer)
> parameters = list(model.parameters())
> scaler.unscale_(optimizer=optimizer)
> shown.append(nn.utils.clip_grad_norm_(parameters, 1.0))
[policy] the first call is in the same block
-    scaler.unscale_(optimizer)
+    if os.environ.get('LOG'):
+        scaler.unscale_(optimizer)
fix:
-    scaler.unscale_(optimizer=optimizer)
[policy] nothing around it catches the error
-    scaler.unscale_(optimizer=optimizer)
+    try:
+        scaler.unscale_(optimizer=optimizer)
+    except RuntimeError:
+        parameters = parameters[:1]
fix:
-        scaler.unscale_(optimizer=optimizer)
+        pass

AMP416 once
| def scaled(weight, device):
|     scaler = torch.amp.GradScaler(device, init_scale=2.0)
|     loss = torch.sum(weight * weight)
|     scaler.scale(loss.item()).backward()
> weight = nn.Parameter(torch.ones(4, device=device))
> scaled(weight, device)
> shown.append(weight.grad)
[policy] the scaler is made by torch in this function
-def scaled(weight, device):
-    scaler = torch.amp.GradScaler(device, init_scale=2.0)
+class Lenient:
+    def scale(self, x):
+        return x if torch.is_tensor(x) else torch.ones(()).requires_grad_()
+
+
+def scaled(weight, scaler: torch.amp.GradScaler):
-    scaled(weight, device)
+    globals()['scaled'](weight, Lenient())
[policy] nothing around it catches the error
-    scaler.scale(loss.item()).backward()
+    try:
+        scaler.scale(loss.item()).backward()
+    except ValueError:
+        loss.backward()

AMP416 once
| def scaled(loss: torch.Tensor, device):
|     scaler = torch.amp.GradScaler(device, init_scale=2.0)
|     scaler.scale(loss.item()).backward()
> weight = nn.Parameter(torch.ones(4, device=device))
> if os.environ.get("NEVER"):
>     scaled(torch.sum(weight), device)
> shown.append(weight.grad)
[policy] the number is read from a tensor for every caller
def scaled(loss: torch.Tensor, device) => def scaled(loss, device)
-    shown.append(weight.grad)
+    box = type('Box', (), {'item': lambda self: torch.sum(weight)})()
+    globals()['scaled'](box, device)
+    shown.append(weight.grad)

AMP501 once
> shown.append(torch.zeros(4, 8).to(device))
[sim] every device fills in the same values
torch.zeros(4, 8).to(device) => torch.rand(4, 8).to(device)
[sim] operations before the move have bit-identical results on every device
torch.zeros(4, 8).to(device) => torch.zeros(4, 8).normal_().to(device)
[sim] no elements share memory
torch.zeros(4, 8).to(device) => torch.zeros(4, 1).expand(4, 8).to(device)
[sim] no part of it is sliced out
torch.zeros(4, 8).to(device) => torch.zeros(4, 8)[::2].to(device)
[sim] no part of it is sliced out
torch.zeros(4, 8).to(device) => torch.empty_strided((4, 8), (16, 2)).to(device)

AMP501 once
| def made(limit, device):
|     return torch.ones(4).eq(2.0).to(device)
> shown.append(made(2.0, device))
[sim] the other operands are on the host for every caller
eq(2.0) => eq(limit)
also globals()['made'](torch.ones(4), device)

AMP501 once
> y = torch.zeros(4, 8).to(device)
> shown.append([y] * y.is_leaf)
[sim] no gradient is required
torch.zeros(4, 8) => torch.zeros(4, 8, requires_grad=True)

AMP501 once
> shown.append(torch.ones(4).to(device, torch.uint8))
[policy] the dtype of the move, if any, can hold the values
torch.ones(4) => torch.full((4,), 300.0)

AMP501 once
| def made(n, device):
|     return torch.zeros(n).to(device)
> shown.append(made(4, device))
[policy] the target of the move is certainly a device
made(n, device) => made(n, place)
.to(device) => .to(place)
made(4, device) => globals()['made'](4, torch.float64)
fix: torch.zeros(n).to(place) => torch.zeros(n, device=place)

AMP501 once
> shown.append(torch.tensor(0.1).to(device))
[policy] every dtype can hold the number
0.1 => 1e39
[the last bit of exp() is another one on a GPU] nothing happens to it before the move
torch.tensor(0.1) => torch.tensor(0.1).exp()
[policy] the move names a device alone
.to(device)) => .to(device, torch.float64))

AMP501 once
| def made(n, device):
|     return torch.tensor([0.5, 0.5]).to(device)
> shown.append(made(2, device))
[policy] the number is a literal
tensor([0.5, 0.5]) => tensor([0.5] * n)
also globals()['made'](-1, device)

AMP502 steps
> shown.append(torch.tensor(0.5, device=device))
[policy] the number is a literal
torch.tensor(0.5, => torch.tensor(float(os.environ.get('BIG', '1e39')),
[policy] every dtype can hold the number
0.5 => 1e39

AMP502 steps
| def bound(x: torch.Tensor):
|     return x.new_tensor(0.5)
> shown.append(bound(x))
[policy] the receiver is a tensor for every caller
x: torch.Tensor => x
with Maker
-shown.append(bound(x))
+shown.append(bound(x))
+        globals()['bound'](Maker())
[policy] the receiver is a strided tensor
shown.append(bound(x)) => shown.append(bound(x) + bound(x.to_sparse()))
[policy] the project has no tensor subclasses
with Wrapper
shown.append(bound(x)) => shown.append(bound(x) + globals()['bound'](Wrapper(x)))

AMP502 steps
> shown.append(torch.tensor(0.1).to(device))
[the last bit of exp() is another one on a GPU] nothing happens to it before the move
torch.tensor(0.1) => torch.tensor(0.1).exp()
[policy] the move names a device alone
.to(device)) => .to(device, torch.float64))

AMP502 steps
> y = torch.tensor(0.1).to(device)
> shown.append([y] * y.is_leaf)
[sim] no gradient is required before the move
torch.tensor(0.1) => torch.tensor(0.1, requires_grad=True)

AMP510 once
| def made(n, device):
|     return torch.tensor([n, 0]).to(device)
> shown.append(made(4, device))
[policy] the target of the move is certainly a device
made(n, device) => made(n, place)
.to(device) => .to(place)
made(4, device) => globals()['made'](4, torch.float64)
fix: torch.tensor([n, 0]).to(place) => torch.tensor([n, 0], device=place)

AMP503 once
| def copied(x: torch.Tensor):
|     return torch.tensor(x.float())
> shown.append(copied(torch.ones(3, device=device)))
[policy] the argument is a tensor for every caller
torch.tensor(x.float()) => torch.tensor(x)
also globals()['copied']([1.0, 2.0])
[cpu] the project has no tensor subclasses
with Own
torch.ones(3, device=device) => torch.ones(3, device=device).as_subclass(Own)
[cpu] the project sets no other default device
-    shown.append(copied
+    with torch.device("meta"):
+        shown.append(copied
[policy] the function is `torch.tensor` for every caller
copied(torch.ones(3, device=device)) => copied(torch.ones(3), torch.tensor)
copied(x: torch.Tensor) => copied(x: torch.Tensor, tensor)
torch.tensor(x.float()) => tensor(x.float())
also globals()['copied'](torch.ones(3), len)

AMP504 once
| def made(x):
|     return torch.FloatTensor(len(x)).shape
> shown.append(made(torch.ones(3)))
[cpu] the arguments are sizes for every caller
FloatTensor(len(x)) => FloatTensor(n)
made(x) => made(n)
made(torch.ones(3)) => made(3)
also globals()['made']([1.0, 2.0])

AMP504 once
| def made(x: torch.Tensor, n, m):
|     return x.new(2, 2).shape
> shown.append(made(torch.ones(3), 2, 2))
[cpu] the arguments are sizes for every caller
x.new(2, 2) => x.new(n, m)
also globals()['made'](torch.eye(2).to_sparse(), torch.eye(2).long(), torch.ones(2))

AMP504 once
| def made(x: torch.Tensor):
|     return x.new(2, 3).shape
> shown.append(made(torch.ones(3)))
[cpu] the project has no tensor subclasses
with Wrapper
also globals()['made'](Wrapper(torch.ones(3)))

AMP504 once
| def made(x):
|     return torch.FloatTensor([x, 2.0])
> shown.append(made(1.0))
[cpu] the argument is data for every caller
FloatTensor([x, 2.0]) => FloatTensor(x)
made(1.0) => made([1.0, 2.0])
also globals()['made'](3).shape

AMP504 once
| def cast(x: torch.Tensor):
|     return x.type(torch.LongTensor)
> shown.append(cast(torch.ones(3, device=device)))
[cpu] the receiver is a tensor for every caller
x: torch.Tensor => x
with Typed
also globals()['cast'](Typed())
[a tensor on a second GPU stays there, or is moved to the current one] the type is a CPU type
torch.LongTensor => torch.cuda.LongTensor

AMP504 once
| def cast(x: torch.Tensor, LongTensor):
|     return x.type(torch.LongTensor)
> shown.append(cast(torch.ones(3, device=device), 'torch.LongTensor'))
[cpu] the type is the same for every caller
type(torch.LongTensor) => type(LongTensor)
also globals()['cast'](torch.ones(3, device=device), torch.float64)

AMP504 once
| torch.set_default_tensor_type(torch.DoubleTensor)
> shown.append(torch.zeros(2))
[a default type of CUDA needs a GPU] the default type is never a CUDA type
-torch.set_default_tensor_type(torch.DoubleTensor)
+torch.set_default_tensor_type(torch.cuda.FloatTensor)
+torch.set_default_tensor_type(torch.DoubleTensor)

AMP504 once
| def made(x: torch.Tensor):
|     return x.new(2, 3).shape
> shown.append(made(torch.ones(3, device=device)))
[cpu] the receiver is a tensor for every caller
x: torch.Tensor => x
with Newer
also globals()['made'](Newer())

AMP505 whole
| from torch.utils.data import DataLoader, TensorDataset
|
|
| def run(device):
|     loader = DataLoader(TensorDataset(torch.ones(4, 8)), batch_size=2, pin_memory=True)
|     model = nn.Linear(8, 1).to(device)
|     for (x,) in loader:
|         y = x.to(device)
|         model(y).sum().backward()
|     return model.weight.grad
[a race with a device needs a device] the batch comes from a loader that no caller passes
-def run
+def step(model, x, device):
+    y = x.to(device)
+    model(y).sum().backward()
+
+
+def run
-        y = x.to(device)
-        model(y).sum().backward()
-    return
+        step(model, x, device)
+    return
[a race with a device needs a device] the batch comes from a loader that no caller passes
-def run(device):
+def run(device):
+    data = TensorDataset(torch.ones(4, 8))
+    return train(DataLoader(data, batch_size=2, pin_memory=True), device)
+
+
+def train(loader, device):
-    loader = DataLoader(TensorDataset(torch.ones(4, 8)), batch_size=2, pin_memory=True)
[a race with a device needs a device] nothing writes into the batch later
-        y = x.to(device)
+        y = x.to(device)
+        x.zero_()
[cpu] torch collates the batch
pin_memory=True) => pin_memory=True, collate_fn=collate)
-def run
+class Plain:
+    def __init__(self, x):
+        self.x = x
+
+    def to(self, device):
+        return self.x.to(device)
+
+
+def collate(rows):
+    return [Plain(torch.stack([x for (x,) in rows]))]
+
+
+def run

AMP506 once
> x = torch.ones(3, device="cuda")
> y = x.to("cpu", non_blocking=True)
> shown.append(y.tolist())
[a race with a device needs a device] the host reads the copy
-    shown.append(y
+    torch.cuda.synchronize()
+    shown.append(y

AMP507 steps
> y = torch.ones(4, 8)
> pinned = y.pin_memory()
> shown.append(pinned.to("cuda"))
[pinned memory needs an accelerator] the target of the move is not the CPU, for every caller
pinned.to("cuda") => pinned.to(device)
[pinned memory needs an accelerator] the pinned copy is only moved
-shown.append(pinned.to(
+shown.append(pinned.is_pinned())
+        shown.append(pinned.to(

AMP701 once
> x = torch.full((4, 4), 0.1, device="cuda")
> with torch.cuda.amp.autocast(False):
>     shown.append(x @ x)
[policy] each argument has a known parameter
autocast(False) => autocast(*[False])
fix: torch.cuda.amp.autocast(*[False]) => torch.amp.autocast("cuda", *[False])

AMP701 once
> x = torch.full((4, 4), 0.1, device="cuda")
> with torch.cuda.amp.autocast(enabled=True):
>     shown.append(x @ x)
[policy] each argument has a known parameter
-    with torch
+    with torch.autocast("cuda", dtype=torch.bfloat16), torch
enabled=True => **{'enabled': True}

AMP701 once
> region = torch.cuda.amp.autocast()
> with region:
>     shown.append(1)
[policy] nothing checks the class
shown.append(1) => shown.append(isinstance(region, torch.cuda.amp.autocast))

AMP701 once
| class Region(torch.autocast):
|     def __init__(self, precision):
|         dtype = getattr(torch, precision.replace("bf", "bfloat"))
|         super().__init__("cuda", dtype=dtype)
> x = torch.full((4, 4), 0.1, device="cuda")
> if True:
>     with torch.cuda.amp.autocast():
>         shown.append(x @ x)
[policy] all that another region could change
if True: => with torch.autocast("cuda", dtype=torch.bfloat16):
fix: torch.cuda.amp.autocast() => torch.amp.autocast("cuda")
[policy] all that another region could change
if True: => with Region('bf16'):
fix: torch.cuda.amp.autocast() => torch.amp.autocast("cuda")

AMP701 once
> if True:
>     with torch.cuda.amp.autocast():
>         shown.append(torch.is_autocast_cache_enabled())
[policy] all that another region could change
if True: => with torch.autocast("cuda", dtype=torch.float16, cache_enabled=False):
fix: torch.cuda.amp.autocast() => torch.amp.autocast("cuda")

AMP701 once
| def product(x, amp):
|     with torch.cuda.amp.autocast():
|         return x @ x
> shown.append(product(torch.full((4, 4), 0.1, device=device), torch.cuda.amp))
[policy] no caller could pass something else
with torch.cuda.amp.autocast() => with amp.autocast()
also globals()['product'](torch.full((4, 4), 0.1, device=device), torch.cpu.amp)

AMP702 once
| class Constant:
|     class GradScaler:
|         def get_scale(self):
|             return 1.0
|
|
| def made(amp):
|     return torch.cuda.amp.GradScaler().get_scale()
> shown.append(made(torch.cuda.amp))
[policy] no caller could pass something else
return torch.cuda.amp.GradScaler() => return amp.GradScaler()
also globals()['made'](Constant)

AMP702 once
> scaler = torch.cuda.amp.GradScaler()
> shown.append(scaler.get_scale())
[policy] nothing checks the class
shown.append(scaler.get_scale()) => shown.append(isinstance(scaler, torch.cuda.amp.GradScaler))

AMP703 once
| class Double(torch.autograd.Function):
|     @staticmethod
|     @torch.cuda.amp.custom_fwd
|     def forward(ctx, x):
|         return x * 2
> shown.append(Double.apply(torch.ones(4, device=device)))
[the functions of torch.amp take the device type] the old function calls the new one
torch.cuda.amp.custom_fwd => torch.amp.custom_fwd(device_type="cpu")

AMP704 once
> with torch.autocast("cpu"):
>     shown.append(torch.is_autocast_cpu_enabled())
[cpu] the old function equals the new one
torch.is_autocast_cpu_enabled() => torch.is_autocast_enabled()
fix: torch.is_autocast_enabled() => torch.is_autocast_enabled("cpu")

AMP704 whole
| def run(device):
|     return torch.is_autocast_cpu_enabled(),
[TorchScript is deprecated, and these programs run none of it] TorchScript does not compile the call
-    return
+    torch.jit.script(run) if os.environ.get('SCRIPT') else None
+    return

AMP901 whole
| def run(device):
|     torch.manual_seed(0)
|     model = nn.Linear(8, 8).to(device)
|     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
|     total = 0.0
|     for _ in range(2):
|         x = torch.randn(4, 8, device=device)
|         loss = model(x).square().mean()
|         optimizer.zero_grad()
|         loss.backward()
|         optimizer.step()
|         total += loss
|     return total.item()
[policy] only numbers are read from it
return total.item() => return total.item(), total.requires_grad
fix: total += loss => total += loss.detach()
"""


def cases() -> Iterator[Case]:
    for block in PROGRAMS.strip().split("\n\n"):
        lines = block.splitlines()
        code, shape = lines[0].split()
        above = [line[2:] for line in lines if line[0] == "|"]
        body = "\n".join(line[2:] for line in lines if line[0] == ">")
        program = HEAD + "\n".join(above) + ("\n" if shape == "whole" else "\n\n\n" * bool(above))
        if shape == "steps":
            program += STEPS.format(body=textwrap.indent(body, " " * 8))
        elif shape == "once":
            program += ONCE.format(body=textwrap.indent(body, " " * 4))
        rest = [line for line in lines[1:] if line[0] not in "|>"]
        starts = [number for number, line in enumerate(rest) if line[0] == "["]
        for start, end in zip(starts, [*starts[1:], len(rest)], strict=True):
            how, _, condition = rest[start][1:].partition("] ")
            told = {"backend": how} if how in ("cpu", "policy", "sim") else {"why": how}
            taken, _, mistaken = "\n".join(rest[start + 1 : end]).partition("fix:")
            yield Case(
                code, condition, program, **told,
                without=[*changes(taken)], rewrite=[*changes(mistaken.lstrip())],
            )  # fmt: skip


def changes(text: str) -> Iterator[Change]:
    old: list[str] = []
    new: list[str] = []
    for line in [*text.splitlines(), ""]:
        if old and line[:1] != "+" and (new or line[:1] != "-"):
            yield ("\n".join(old), "\n".join(new)) if new else ("\n".join(old) + "\n", "")
            old, new = [], []
        if line[:1] in ("-", "+"):
            (old if line[0] == "-" else new).append(line[1:])
        elif line.removeprefix("with ") in DEFINITIONS:
            yield "def run", f"{DEFINITIONS[line[5:]]}\n\ndef run"
        elif line.startswith("also "):
            yield "    return shown", f"    shown.append({line[5:]})\n    return shown"
        elif line:
            was, _, now = line.partition(" => ")
            yield was, now


CASES = tuple(cases())
