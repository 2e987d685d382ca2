"""For each condition of each safe fix: a program in which it holds, and the same where it does not.

Without the condition, the safe fixes must not make the change that they make with it; and that
change, made all the same, must give another program. So no condition stands there that nothing
needs, and none is missing that another one of these programs would need.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from amplint.rule.registry import all_rules

Change = tuple[str, str]


@dataclass(frozen=True)
class Case:
    """A condition that is taken away.

    Args:
        code: of the rule whose fix is safe.
        condition: how the words that name it begin.
        program: the module `main`, whose function `run(device)` is run.
        without: what is replaced in it to take the condition away.
        backend: which shows that the change is then a mistake; "" if none here can.
        rewrite: what is replaced then by the mistaken change; the unsafe fix, if there is none.
        why: what it would take to show it, where no back end can.
    """

    code: str
    condition: str
    program: str
    without: tuple[Change, ...]
    backend: str = ""
    rewrite: tuple[Change, ...] = ()
    why: str = ""

    @property
    def name(self) -> str:
        return f"{self.code}: {self.condition}"

    @property
    def full_condition(self) -> str:
        """The condition in the rule's own words."""
        rule = next(rule for rule in all_rules() if rule.code == self.code)
        (found,) = (each for each in rule.safe_if if each.startswith(self.condition))
        return found


def replaced(text: str, changes: tuple[Change, ...]) -> str:
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


def steps(body: str, before: str = "") -> str:
    """A training loop with some lines for every batch."""
    return (
        HEAD + before + STEPS.format(body=textwrap.indent(textwrap.dedent(body).strip(), " " * 8))
    )


def once(body: str, before: str = "") -> str:
    """A function with some lines."""
    before = textwrap.dedent(before).lstrip()
    return HEAD + before + ONCE.format(body=textwrap.indent(textwrap.dedent(body).strip(), " " * 4))


def also(call: str) -> Change:
    """Show the result of a call that amplint does not see, as of somebody else's code."""
    return "    return shown", f"    shown.append({call})\n    return shown"


def cases() -> Iterator[Case]:
    yield from of_suppressions()
    yield from of_values_fed_back()
    yield from of_dtypes()
    yield from of_casts_of_factories()
    yield from of_backward_passes()
    yield from of_scalers()
    yield from of_moved_factories()
    yield from of_numbers()
    yield from of_host_data()
    yield from of_copied_tensors()
    yield from of_legacy_constructors()
    yield from of_copies()
    yield from of_steps_in_regions()
    yield from of_calls_of_autocast()
    yield from of_old_names()
    yield from of_sums_of_losses()


# ------------------------------------------------------------------------------- AMP001


def of_suppressions() -> Iterator[Case]:
    yield Case(
        "AMP001",
        "the code suppresses nothing",
        steps("shown.append(x.sum())  # amplint: ignore[AMP101]"),
        (("shown.append(x.sum())", "shown.append(x.sum().item())"),),
        why="a comment does nothing at run time",
    )


# ------------------------------------------------------------------------------- AMP110


def of_values_fed_back() -> Iterator[Case]:
    fed = steps(
        """
        y = torch.arange(1.0, 99.0, device="cuda:0")
        t = torch.full((), 0.3, device="cuda:0")
        shown.append(y * t.item())
        """
    )
    in_place = steps(
        """
        y = torch.arange(3.0, device="cuda:0") + 1.5
        t = y[1]
        shown.append(y - t.item())
        """
    )
    yield Case(
        "AMP110",
        "the number is used where it is read",
        fed,
        (
            (
                "        shown.append(y * t.item())\n",
                "        number = t.item()\n        t.add_(1)\n        shown.append(y * number)\n",
            ),
        ),
        "policy",
        (("t.item()", "t"),),
    )
    yield Case(
        "AMP110",
        "the operation rounds a tensor as it does a number",
        fed,
        (("y * t.item()", "t.item() / y"),),
        "policy",
    )
    yield Case(
        "AMP110",
        "nothing writes to",
        in_place,
        (("shown.append(y - t.item())", "y -= t.item()\n        shown.append(y)"),),
        "policy",
        (("t.item()", "t"),),
    )
    yield Case(
        "AMP110",
        "nothing writes to",
        fed,
        (("y * t.item()", "t.item() * t.mul_(2)"),),
        "policy",
        (("t.item()", "t"),),
    )
    yield Case(
        "AMP110",
        "both are known to have the same dtype and device, and no gradient",
        fed,
        (
            ("torch.full((), 0.3,", "torch.full((), 0.3, dtype=torch.float64,"),
            ("torch.arange(1.0, 99.0,", "torch.full((), 1.7,"),
        ),
        "policy",
    )
    yield Case(
        "AMP110",
        "both are made in this function",
        fed,
        (
            ("shown.append(y * t.item())", "shown.append(fed(y, t))"),
            ("def run", FED + "def run"),
            also("globals()['fed'](y, t.clone().requires_grad_())"),
        ),
        "policy",
        (("t.item()", "t"),),
    )
    yield Case(
        "AMP110",
        "both are known to have the same dtype and device, and no gradient",
        fed,
        (("torch.full((), 0.3,", "torch.full((), 0.3, requires_grad=True,"),),
        "policy",
        (("t.item()", "t"),),
    )
    yield Case(
        "AMP110",
        "the project has no tensor subclasses",
        fed,
        (
            ("def run", OWN_CLASS + "def run"),
            (
                "        shown.append(y *",
                "        t = t.as_subclass(Own)\n        shown.append(y *",
            ),
        ),
        "policy",
        (("t.item()", "t"),),
    )


# The same, in a function that somebody else may call with what amplint does not see.
FED = """\
def fed(y, t):
    return y * t.item()


"""


# Its methods that build a tensor are not those of any tensor, as those of a DTensor are not.
WRAPPER = """\
class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, device=x.device)

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
        raise NotImplementedError(function)


"""


OWN_CLASS = """\
class Own(torch.Tensor):
    pass


"""

# ------------------------------------------------------------------------------- AMP201, 204, 206


def of_dtypes() -> Iterator[Case]:
    mixed = once(
        """
        half = torch.full((4,), 0.5, device=device).half()
        buffer = torch.zeros(4, device=device)
        shown.append(torch.lerp(buffer, half, 0.5))
        """
    )
    yield Case(
        "AMP201",
        "the operation raises where the dtypes differ",
        mixed,
        (("torch.lerp(buffer, half, 0.5)", "torch.cat([buffer, half])"),),
        "policy",
    )
    yield Case(
        "AMP201",
        "nothing around it catches the error",
        mixed,
        (
            (
                "    shown.append(torch.lerp(buffer, half, 0.5))\n",
                "    try:\n        shown.append(torch.lerp(buffer, half, 0.5))\n"
                "    except RuntimeError:\n        shown.append(buffer)\n",
            ),
        ),
        "policy",
    )
    yield Case(
        "AMP201",
        "nothing else reads the buffer",
        mixed,
        (
            (
                "    shown.append(torch.lerp(buffer, half, 0.5))\n",
                "    if os.environ.get('BLEND'):\n"
                "        shown.append(torch.lerp(buffer, half, 0.5))\n"
                "    shown.append(buffer)\n",
            ),
        ),
        "policy",
    )
    written = once(
        """
        rows = torch.full((2, 4), 0.1, device=device)
        index = torch.tensor([1, 0], device=device)
        buffer = torch.zeros(2, 4, device=device, dtype=torch.float16)
        buffer[index] = rows
        shown.append(buffer)
        """
    )
    yield Case(
        "AMP204",
        "the dtypes are known to differ",
        written,
        ((", dtype=torch.float16", ""),),
        why="a cast to the dtype that the tensor has does nothing",
    )
    yield Case(
        "AMP204",
        "the source is a tensor for every caller",
        once(
            "shown.append(written(torch.full((2, 4), 0.1, device=device), device))",
            """
            def written(rows: torch.Tensor, device):
                index = torch.tensor([1, 0], device=device)
                buffer = torch.zeros(2, 4, device=device, dtype=torch.float16)
                buffer[index] = rows
                return buffer


            """,
        ),
        (("rows: torch.Tensor", "rows"), also("globals()['written'](0.1, device)")),
        "policy",
    )
    yield Case(
        "AMP204",
        "the destination is a tensor for every caller",
        once(
            "shown.append(written(torch.zeros(2, 4, device=device), device))",
            """
            def written(buffer: torch.Tensor, device):
                index = torch.tensor([1, 0], device=device)
                with torch.autocast("cuda"):
                    buffer[index] = torch.ones(2, 4, device=device).half()
                return len(buffer)


            """,
        ),
        (("buffer: torch.Tensor", "buffer"), also("globals()['written']({}, device)")),
        "policy",
    )
    yield Case(
        "AMP204",
        "nothing around it catches the error",
        written,
        (
            (
                "    buffer[index] = rows\n",
                "    try:\n        buffer[index] = rows\n    except RuntimeError:\n        pass\n",
            ),
        ),
        "policy",
    )
    state = once(
        """
        rnn = nn.GRU(4, 4).to(device).half()
        x = torch.ones(3, 1, 4, device=device).half()
        state = torch.zeros(1, 1, 4, device=device)
        y, _ = rnn(x, state)
        shown.append(y.detach().mean())
        """
    )
    yield Case(
        "AMP206",
        "the dtypes of the input and the state are known to differ",
        state,
        (("state = torch.zeros(1, 1, 4, device=device)", "state = x.new_zeros(1, 1, 4)"),),
        why="a cast to the dtype that the tensor has does nothing",
    )
    yield Case(
        "AMP206",
        "the state is a tensor for every caller",
        once(
            "shown.append(stepped(torch.zeros(1, 1, 4, device=device), device))",
            """
            def stepped(state: torch.Tensor, device):
                rnn = nn.GRU(4, 4).to(device).half()
                x = torch.ones(3, 1, 4, device=device).half()
                return rnn(x, state)[0].shape


            """,
        ),
        (("state: torch.Tensor", "state"), also("globals()['stepped'](None, device)")),
        "policy",
    )
    yield Case(
        "AMP206",
        "nothing around it catches the error",
        state,
        (
            (
                "    y, _ = rnn(x, state)\n",
                "    try:\n        y, _ = rnn(x, state)\n"
                "    except (RuntimeError, ValueError):\n        y = x\n",
            ),
        ),
        "policy",
    )
    seen = "    shown.append(volume(torch.eye(4, device=device)))\n"
    yield Case(
        "AMP313",
        "the operand is cast to half in this function",
        once(
            "shown.append(volume(torch.eye(4, device=device)))",
            """
            def volume(x: torch.Tensor):
                with torch.autocast("cuda"):
                    h = x.half()
                    return torch.logdet(h)


            """,
        ),
        (
            ("h = x.half()", "h = x"),
            (
                seen,
                "    if os.environ.get('SEEN'):\n"
                "        shown.append(volume(torch.eye(4, device=device).half()))\n",
            ),
            also("globals()['volume'](torch.eye(4, device=device).double())"),
        ),
        "policy",
    )


# ------------------------------------------------------------------------------- AMP202


def of_casts_of_factories() -> Iterator[Case]:
    like = "x = torch.full((3,), 2.5, device=device).half()\n"
    zeros = once(like + "shown.append(torch.zeros(4, 8).type_as(x))")
    eye = once(like + "shown.append(torch.eye(3).type_as(x))")
    yield Case(
        "AMP202",
        "every device and dtype gets the same values",
        zeros,
        (("torch.zeros(4, 8)", "torch.rand(4, 8)"),),
        "sim",
        (("torch.rand(4, 8).type_as(x)", "torch.rand(4, 8, device=x.device).type_as(x)"),),
    )
    yield Case(
        "AMP202",
        "every device and dtype gets the same values",
        zeros.replace("torch.zeros(4, 8)", "torch.full((4, 8), 3.0)").replace("half()", "byte()"),
        (("3.0", "300.0"),),
        "policy",
    )
    yield Case(
        "AMP202",
        "every device and dtype gets the same values",
        once(
            "shown.append(filled(torch.ones(3, device=device).half()))",
            """
            def filled(x):
                return torch.full((4, 8), 3.0).type_as(x)


            """,
        ),
        (("3.0", "300.0"), also("globals()['filled'](torch.ones(3, device=device).byte())")),
        "policy",
    )
    yield Case(
        "AMP202",
        "its arguments are the same for every caller",
        once(
            "shown.append(made(torch.ones(3, device=device).half(), 4))",
            """
            def made(x: torch.Tensor, n):
                return torch.ones(4).view(1, n).type_as(x)


            """,
        ),
        (
            ("view(1, n)", "view(n)"),
            also("globals()['made'](torch.ones(3, device=device).half(), torch.int32)"),
        ),
        "policy",
    )
    yield Case(
        "AMP202",
        "no elements share memory",
        zeros,
        (("torch.zeros(4, 8)", "torch.zeros(4, 1).expand(4, 8)"),),
        "policy",
    )
    yield Case(
        "AMP202",
        "no part of it is sliced out",
        zeros,
        (("torch.zeros(4, 8)", "torch.zeros(4, 8)[:, :2]"),),
        "policy",
    )
    yield Case(
        "AMP202",
        "the project has no tensor subclasses",
        eye,
        (
            ("def run", OWN_CLASS + "def run"),
            ("    shown.append", "    x = x.as_subclass(Own)\n    shown.append"),
        ),
        "policy",
    )
    yield Case(
        "AMP202",
        "the other tensor is strided",
        zeros.replace(".type_as(x)", ".to(x)"),
        ((".half()", ".half().to_sparse()"),),
        "policy",
        (("torch.zeros(4, 8).to(x)", "x.new_zeros(4, 8)"),),
    )
    made = once(
        "shown.append(made(4, torch.ones(3, device=device).half()))",
        """
        def made(n, like: torch.Tensor):
            return torch.zeros(n).to(like)


        """,
    )
    yield Case(
        "AMP202",
        "the cast is to the dtype and the device of a tensor",
        made,
        (
            ("like: torch.Tensor", "like"),
            also("globals()['made'](4, torch.float64)"),
        ),
        "policy",
    )


# ------------------------------------------------------------------------------- AMP301


def of_backward_passes() -> Iterator[Case]:
    net = HEAD + textwrap.dedent(
        """\
        def run(device):
            torch.manual_seed(0)
            body = nn.Linear(16, 16).to(device)
            head = nn.Linear(16, 4).to(device)
            x = torch.randn(32, 16, device=device)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                h = torch.tanh(body(x))
                loss = head(h).square().mean()
                loss.backward()
            return body.weight.grad, head.weight.grad
        """
    )
    yield Case(
        "AMP301",
        "nothing else leaves the region",
        net,
        (
            (
                "head = nn.Linear(16, 4).to(device)",
                "head = nn.Linear(16, 4).to(device, torch.bfloat16)",
            ),
            (
                "        loss.backward()\n    return",
                "        loss.backward()\n"
                "        norm = torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)\n"
                "    return norm,",
            ),
        ),
        "policy",
    )
    yield Case(
        "AMP301",
        "all of the forward pass is seen to run in the region",
        net,
        (
            ("    with torch.autocast", "    early = torch.tanh(body(x))\n    with torch.autocast"),
            ("h = torch.tanh(body(x))", "h = torch.tanh(early)"),
        ),
        "policy",
    )
    yield Case(
        "AMP301",
        "none of it is kept out of autocast",
        net,
        (
            (
                "        loss = head(h)",
                '        with torch.autocast("cuda", enabled=False):\n'
                "            h = torch.tanh(body(h.float()))\n        loss = head(h)",
            ),
        ),
        "policy",
    )
    yield Case(
        "AMP301",
        "none of it runs in a wider dtype than the region",
        net,
        (
            (
                "loss = head(h).square().mean()",
                "wide = h.float().T @ h.float() + torch.eye(16, device=device)\n"
                "        loss = head(torch.linalg.inv(wide)).square().mean()",
            ),
        ),
        "policy",
    )
    yield Case(
        "AMP301",
        "it holds no custom autograd.Function",
        net,
        (
            ("def run", DOUBLED + "def run"),
            ("loss = head(h)", "loss = Product.apply(h, head.weight.t())"),
        ),
        "policy",
    )


DOUBLED = """\
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight.t(), x.t() @ grad


"""

# ------------------------------------------------------------------------------- AMP405


def of_scalers() -> Iterator[Case]:
    unscaled = once(
        """
        torch.manual_seed(0)
        model = nn.Linear(8, 4).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(device, init_scale=1024.0)
        scaler.scale(model(torch.ones(2, 8, device=device)).square().mean()).backward()
        scaler.unscale_(optimizer)
        parameters = list(model.parameters())
        scaler.unscale_(optimizer=optimizer)
        shown.append(nn.utils.clip_grad_norm_(parameters, 1.0))
        """
    )
    second = "    scaler.unscale_(optimizer=optimizer)\n"
    yield Case(
        "AMP405",
        "the first call is in the same block",
        unscaled,
        (
            (
                "    scaler.unscale_(optimizer)\n",
                "    if os.environ.get('LOG'):\n        scaler.unscale_(optimizer)\n",
            ),
        ),
        "policy",
        ((second, ""),),
    )
    yield Case(
        "AMP405",
        "nothing around it catches the error",
        unscaled,
        (
            (
                second,
                "    try:\n        scaler.unscale_(optimizer=optimizer)\n"
                "    except RuntimeError:\n        parameters = parameters[:1]\n",
            ),
        ),
        "policy",
        (("        scaler.unscale_(optimizer=optimizer)\n", "        pass\n"),),
    )
    scaled = once(
        """
        weight = nn.Parameter(torch.ones(4, device=device))
        scaled(weight, device)
        shown.append(weight.grad)
        """,
        """
        def scaled(weight, device):
            scaler = torch.amp.GradScaler(device, init_scale=2.0)
            loss = torch.sum(weight * weight)
            scaler.scale(loss.item()).backward()


        """,
    )
    yield Case(
        "AMP416",
        "the scaler is made by torch in this function",
        scaled,
        (
            (
                "def scaled(weight, device):\n"
                "    scaler = torch.amp.GradScaler(device, init_scale=2.0)\n",
                "class Lenient:\n    def scale(self, x):\n"
                "        return x if torch.is_tensor(x) else torch.ones(()).requires_grad_()\n\n\n"
                "def scaled(weight, scaler: torch.amp.GradScaler):\n",
            ),
            ("    scaled(weight, device)", "    globals()['scaled'](weight, Lenient())"),
        ),
        "policy",
    )
    yield Case(
        "AMP416",
        "the number is read from a tensor for every caller",
        once(
            """
            weight = nn.Parameter(torch.ones(4, device=device))
            if os.environ.get("NEVER"):
                scaled(torch.sum(weight), device)
            shown.append(weight.grad)
            """,
            """
            def scaled(loss: torch.Tensor, device):
                scaler = torch.amp.GradScaler(device, init_scale=2.0)
                scaler.scale(loss.item()).backward()


            """,
        ),
        (
            ("def scaled(loss: torch.Tensor, device)", "def scaled(loss, device)"),
            (
                "    shown.append(weight.grad)",
                "    box = type('Box', (), {'item': lambda self: torch.sum(weight)})()\n"
                "    globals()['scaled'](box, device)\n    shown.append(weight.grad)",
            ),
        ),
        "policy",
    )
    yield Case(
        "AMP416",
        "nothing around it catches the error",
        scaled,
        (
            (
                "    scaler.scale(loss.item()).backward()\n",
                "    try:\n        scaler.scale(loss.item()).backward()\n"
                "    except ValueError:\n        loss.backward()\n",
            ),
        ),
        "policy",
    )


# ------------------------------------------------------------------------------- AMP501


def of_moved_factories() -> Iterator[Case]:
    zeros = once("shown.append(torch.zeros(4, 8).to(device))")

    def made(new: str) -> tuple[Change, ...]:
        return (("torch.zeros(4, 8).to(device)", new),)

    yield Case(
        "AMP501",
        "every device fills in the same values",
        zeros,
        made("torch.rand(4, 8).to(device)"),
        "sim",
    )
    yield Case(
        "AMP501",
        "operations before the move have bit-identical results on every device",
        zeros,
        made("torch.zeros(4, 8).normal_().to(device)"),
        "sim",
    )
    yield Case(
        "AMP501",
        "the other operands are on the host for every caller",
        once(
            "shown.append(made(2.0, device))",
            """
            def made(limit, device):
                return torch.ones(4).eq(2.0).to(device)


            """,
        ),
        (("eq(2.0)", "eq(limit)"), also("globals()['made'](torch.ones(4), device)")),
        "sim",
    )
    yield Case(
        "AMP501",
        "no elements share memory",
        zeros,
        made("torch.zeros(4, 1).expand(4, 8).to(device)"),
        "sim",
    )
    yield Case(
        "AMP501",
        "no part of it is sliced out",
        zeros,
        made("torch.zeros(4, 8)[::2].to(device)"),
        "sim",
    )
    yield Case(
        "AMP501",
        "no part of it is sliced out",
        zeros,
        made("torch.empty_strided((4, 8), (16, 2)).to(device)"),
        "sim",
    )
    yield Case(
        "AMP501",
        "no gradient is required",
        once("y = torch.zeros(4, 8).to(device)\nshown.append([y] * y.is_leaf)"),
        (("torch.zeros(4, 8)", "torch.zeros(4, 8, requires_grad=True)"),),
        "sim",
    )
    yield Case(
        "AMP501",
        "the dtype of the move, if any, can hold the values",
        once("shown.append(torch.ones(4).to(device, torch.uint8))"),
        (("torch.ones(4)", "torch.full((4,), 300.0)"),),
        "policy",
    )
    yield Case(
        "AMP501",
        "the target of the move is certainly a device",
        once(
            "shown.append(made(4, device))",
            """
            def made(n, device):
                return torch.zeros(n).to(device)


            """,
        ),
        (
            ("made(n, device)", "made(n, place)"),
            (".to(device)\n", ".to(place)\n"),
            ("made(4, device)", "globals()['made'](4, torch.float64)"),
        ),
        "policy",
        (("torch.zeros(n).to(place)", "torch.zeros(n, device=place)"),),
    )


# ------------------------------------------------------------------------------- AMP502


def of_numbers() -> Iterator[Case]:
    number = steps("shown.append(torch.tensor(0.5, device=device))")
    moved = steps("shown.append(torch.tensor(0.1).to(device))")
    yield Case(
        "AMP502",
        "the number is a literal",
        number,
        (("torch.tensor(0.5,", "torch.tensor(float(os.environ.get('BIG', '1e39')),"),),
        "policy",
    )
    yield Case(
        "AMP502",
        "the receiver is a tensor for every caller",
        steps(
            "shown.append(bound(x))",
            "def bound(x: torch.Tensor):\n    return x.new_tensor(0.5)\n\n\n",
        ),
        (
            ("x: torch.Tensor", "x"),
            ("def run", MAKER + "def run"),
            (
                "shown.append(bound(x))",
                "shown.append(bound(x))\n        globals()['bound'](Maker())",
            ),
        ),
        "policy",
    )
    yield Case(
        "AMP502",
        "the receiver is a strided tensor",
        steps(
            "shown.append(bound(x))",
            "def bound(x: torch.Tensor):\n    return x.new_tensor(0.5)\n\n\n",
        ),
        (("shown.append(bound(x))", "shown.append(bound(x) + bound(x.to_sparse()))"),),
        "policy",
    )
    yield Case(
        "AMP502",
        "the project has no tensor subclasses",
        steps(
            "shown.append(bound(x))",
            "def bound(x: torch.Tensor):\n    return x.new_tensor(0.5)\n\n\n",
        ),
        (
            ("def bound", WRAPPER + "def bound"),
            (
                "shown.append(bound(x))",
                "shown.append(bound(x) + globals()['bound'](Wrapper(x)))",
            ),
        ),
        "policy",
    )
    yield Case("AMP502", "every dtype can hold the number", number, (("0.5", "1e39"),), "policy")
    yield Case(
        "AMP502",
        "nothing happens to it before the move",
        moved,
        (("torch.tensor(0.1)", "torch.tensor(0.1).exp()"),),
        why="the last bit of exp() is another one on a GPU",
    )
    yield Case(
        "AMP502",
        "the target of the move is certainly a device, without a dtype",
        moved,
        ((".to(device))\n", ".to(device, torch.float64))\n"),),
        "policy",
    )
    yield Case(
        "AMP502",
        "no gradient is required before the move",
        steps("y = torch.tensor(0.1).to(device)\nshown.append([y] * y.is_leaf)"),
        (("torch.tensor(0.1)", "torch.tensor(0.1, requires_grad=True)"),),
        "sim",
    )


# ------------------------------------------------------------------------------- AMP510


def of_host_data() -> Iterator[Case]:
    yield Case(
        "AMP510",
        "the target of the move is certainly a device",
        once(
            "shown.append(made(4, device))",
            """
            def made(n, device):
                return torch.tensor([n, 0]).to(device)


            """,
        ),
        (
            ("made(n, device)", "made(n, place)"),
            (".to(device)\n", ".to(place)\n"),
            ("made(4, device)", "globals()['made'](4, torch.float64)"),
        ),
        "policy",
        (("torch.tensor([n, 0]).to(place)", "torch.tensor([n, 0], device=place)"),),
    )


# ------------------------------------------------------------------------------- AMP503


def of_copied_tensors() -> Iterator[Case]:
    copy = once(
        "shown.append(copied(torch.ones(3, device=device)))",
        """
        def copied(x: torch.Tensor):
            return torch.tensor(x.float())


        """,
    )
    yield Case(
        "AMP503",
        "the argument is a tensor for every caller",
        copy,
        (
            ("torch.tensor(x.float())", "torch.tensor(x)"),
            also("globals()['copied']([1.0, 2.0])"),
        ),
        "policy",
    )
    yield Case(
        "AMP503",
        "the project has no tensor subclasses",
        copy,
        (
            ("def run", OWN_CLASS + "def run"),
            ("torch.ones(3, device=device)", "torch.ones(3, device=device).as_subclass(Own)"),
        ),
        "cpu",
    )
    yield Case(
        "AMP503",
        "the project sets no other default device",
        copy,
        (
            (
                "    shown.append(copied",
                '    with torch.device("meta"):\n        shown.append(copied',
            ),
        ),
        "cpu",
    )
    like = once(
        "shown.append(copied(torch.ones(3, device=device).half(), torch.ones(3, device=device)))",
        """
        def copied(like: torch.Tensor, x: torch.Tensor):
            return like.new_tensor(x.float())


        """,
    )
    yield Case(
        "AMP503",
        "the receiver is a tensor for every caller",
        like,
        (
            ("like: torch.Tensor", "like"),
            ("def run", MAKER + "def run"),
            also("globals()['copied'](Maker(), torch.ones(2))"),
        ),
        "policy",
    )

    given = once(
        "shown.append(copied(torch.ones(3, device=device), torch.float64))",
        """
        def copied(x: torch.Tensor, kind):
            return x.new_tensor(x.half(), dtype=torch.float64)


        """,
    )
    yield Case(
        "AMP503",
        "dtype, device and requires_grad are known",
        given,
        (
            ("dtype=torch.float64", "dtype=kind"),
            also("globals()['copied'](torch.ones(3, device=device), None)"),
        ),
        "policy",
    )
    yield Case(
        "AMP503",
        "the function is `torch.tensor` for every caller",
        copy,
        (
            ("copied(torch.ones(3, device=device))", "copied(torch.ones(3), torch.tensor)"),
            ("copied(x: torch.Tensor)", "copied(x: torch.Tensor, tensor)"),
            ("torch.tensor(x.float())", "tensor(x.float())"),
            also("globals()['copied'](torch.ones(3), len)"),
        ),
        "policy",
    )


MAKER = """\
class Maker:
    def new_tensor(self, x):
        return torch.as_tensor(x).clone()


"""

# ------------------------------------------------------------------------------- AMP504


def of_legacy_constructors() -> Iterator[Case]:
    sizes = once(
        "shown.append(made(torch.ones(3)))",
        """
        def made(x):
            return torch.FloatTensor(len(x)).shape


        """,
    )
    yield Case(
        "AMP504",
        "the arguments are sizes for every caller",
        sizes,
        (
            ("FloatTensor(len(x))", "FloatTensor(n)"),
            ("made(x)", "made(n)"),
            ("made(torch.ones(3))", "made(3)"),
            also("globals()['made']([1.0, 2.0])"),
        ),
        "cpu",
    )
    yield Case(
        "AMP504",
        "the arguments are sizes for every caller",
        once(
            "shown.append(made(torch.ones(3)))",
            """
            def made(x: torch.Tensor):
                return torch.FloatTensor(2, *x.shape).shape


            """,
        ),
        (
            ("FloatTensor(2, *x.shape)", "FloatTensor(*x.shape)"),
            ("torch.ones(3)", "torch.ones(3).sum()"),
        ),
        "cpu",
        (("FloatTensor(*x.shape)", "empty(*x.shape, dtype=torch.float32)"),),
    )
    yield Case(
        "AMP504",
        "the arguments are sizes for every caller",
        once(
            "shown.append(made(torch.ones(3), 2, 2))",
            """
            def made(x: torch.Tensor, n, m):
                return x.new(2, 2).shape


            """,
        ),
        (
            ("x.new(2, 2)", "x.new(n, m)"),
            also("globals()['made'](torch.eye(2).to_sparse(), torch.eye(2).long(), torch.ones(2))"),
        ),
        "cpu",
    )
    yield Case(
        "AMP504",
        "the project has no tensor subclasses",
        once(
            "shown.append(made(torch.ones(3)))",
            """
            def made(x: torch.Tensor):
                return x.new(2, 3).shape


            """,
        ),
        (
            ("def made", WRAPPER + "def made"),
            also("globals()['made'](Wrapper(torch.ones(3)))"),
        ),
        "cpu",
    )
    yield Case(
        "AMP504",
        "the argument is data for every caller",
        once(
            "shown.append(made(1.0))",
            """
            def made(x):
                return torch.FloatTensor([x, 2.0])


            """,
        ),
        (
            ("FloatTensor([x, 2.0])", "FloatTensor(x)"),
            ("made(1.0)", "made([1.0, 2.0])"),
            also("globals()['made'](3).shape"),
        ),
        "cpu",
    )
    cast = once(
        "shown.append(cast(torch.ones(3, device=device)))",
        """
        def cast(x: torch.Tensor):
            return x.type(torch.LongTensor)


        """,
    )
    yield Case(
        "AMP504",
        "the receiver is a tensor for every caller",
        cast,
        (
            ("x: torch.Tensor", "x"),
            ("def run", TYPED + "def run"),
            also("globals()['cast'](Typed())"),
        ),
        "cpu",
    )
    yield Case(
        "AMP504",
        "the type is the same for every caller",
        once(
            "shown.append(cast(torch.ones(3, device=device), 'torch.LongTensor'))",
            """
            def cast(x: torch.Tensor, LongTensor):
                return x.type(torch.LongTensor)


            """,
        ),
        (
            ("type(torch.LongTensor)", "type(LongTensor)"),
            also("globals()['cast'](torch.ones(3, device=device), torch.float64)"),
        ),
        "cpu",
    )
    yield Case(
        "AMP504",
        "the type is a CPU type",
        cast,
        (("torch.LongTensor", "torch.cuda.LongTensor"),),
        why="a tensor on a second GPU stays there, or is moved to the current one",
    )
    yield Case(
        "AMP504",
        "the default type is never a CUDA type",
        once(
            "shown.append(torch.zeros(2))",
            "torch.set_default_tensor_type(torch.DoubleTensor)\n\n\n",
        ),
        (
            (
                "torch.set_default_tensor_type(torch.DoubleTensor)",
                "torch.set_default_tensor_type(torch.cuda.FloatTensor)\n"
                "torch.set_default_tensor_type(torch.DoubleTensor)",
            ),
        ),
        why="a default type of CUDA needs a GPU",
    )

    yield Case(
        "AMP504",
        "the receiver is a tensor for every caller",
        once(
            "shown.append(made(torch.ones(3, device=device)))",
            """
            def made(x: torch.Tensor):
                return x.new(2, 3).shape


            """,
        ),
        (
            ("x: torch.Tensor", "x"),
            ("def run", NEWER + "def run"),
            also("globals()['made'](Newer())"),
        ),
        "cpu",
    )


NEWER = """\
class Newer:
    def new(self, *sizes):
        return torch.empty(sizes)


"""

TYPED = """\
class Typed:
    def type(self, name):
        return str(name)


"""

# ------------------------------------------------------------------------------- AMP505 to 507


def of_copies() -> Iterator[Case]:
    loader = """\
from torch.utils.data import DataLoader, TensorDataset


def run(device):
    loader = DataLoader(TensorDataset(torch.ones(4, 8)), batch_size=2, pin_memory=True)
    model = nn.Linear(8, 1).to(device)
    for (x,) in loader:
        y = x.to(device)
        model(y).sum().backward()
    return model.weight.grad
"""
    race = "a race with a device needs a device"
    yield Case(
        "AMP505",
        "the batch comes from a loader that no caller passes",
        HEAD.rstrip() + "\n" + loader,
        (
            (
                "def run",
                "def step(model, x, device):\n    y = x.to(device)\n"
                "    model(y).sum().backward()\n\n\ndef run",
            ),
            (
                "        y = x.to(device)\n        model(y).sum().backward()\n    return",
                "        step(model, x, device)\n    return",
            ),
        ),
        why=race,
    )
    yield Case(
        "AMP505",
        "the batch comes from a loader that no caller passes",
        HEAD.rstrip() + "\n" + loader,
        (
            (
                "def run(device):\n",
                "def run(device):\n"
                "    data = TensorDataset(torch.ones(4, 8))\n"
                "    return train(DataLoader(data, batch_size=2, pin_memory=True), device)\n\n\n"
                "def train(loader, device):\n",
            ),
            (
                "    loader = DataLoader(TensorDataset(torch.ones(4, 8)), batch_size=2, "
                "pin_memory=True)\n",
                "",
            ),
        ),
        why=race,
    )
    yield Case(
        "AMP505",
        "nothing writes into the batch later",
        HEAD.rstrip() + "\n" + loader,
        (("        y = x.to(device)\n", "        y = x.to(device)\n        x.zero_()\n"),),
        why=race,
    )
    yield Case(
        "AMP505",
        "torch collates the batch",
        HEAD.rstrip() + "\n" + loader,
        (
            ("pin_memory=True)", "pin_memory=True, collate_fn=collate)"),
            (
                "def run",
                "class Plain:\n    def __init__(self, x):\n        self.x = x\n\n"
                "    def to(self, device):\n        return self.x.to(device)\n\n\n"
                "def collate(rows):\n    return [Plain(torch.stack([x for (x,) in rows]))]\n\n\n"
                "def run",
            ),
        ),
        "cpu",
    )
    yield Case(
        "AMP506",
        "the host reads the copy",
        once(
            """
            x = torch.ones(3, device="cuda")
            y = x.to("cpu", non_blocking=True)
            shown.append(y.tolist())
            """
        ),
        (("    shown.append(y", "    torch.cuda.synchronize()\n    shown.append(y"),),
        why=race,
    )
    pinned = steps(
        """
        y = torch.ones(4, 8)
        pinned = y.pin_memory()
        shown.append(pinned.to("cuda"))
        """
    )
    yield Case(
        "AMP507",
        "the target of the move is not the CPU, for every caller",
        pinned,
        (('pinned.to("cuda")', "pinned.to(device)"),),
        why="pinned memory needs an accelerator",
    )
    yield Case(
        "AMP507",
        "the pinned copy is only moved",
        pinned,
        (
            (
                "shown.append(pinned.to(",
                "shown.append(pinned.is_pinned())\n        shown.append(pinned.to(",
            ),
        ),
        why="pinned memory needs an accelerator",
    )


# ------------------------------------------------------------------------------- AMP303


def of_steps_in_regions() -> Iterator[Case]:
    step = once(
        """
        torch.manual_seed(0)
        model = nn.Linear(8, 8).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(4, 8, device=device)
        with torch.autocast("cuda"):
            loss = model(x).square().mean()
        loss.backward()
        with torch.autocast("cuda"):
            shown.append(model(x).detach())
            optimizer.step()
            optimizer.zero_grad()
        shown.append(model(x).detach())
        """
    )
    yield Case(
        "AMP303",
        "only steps leave the region",
        step,
        (("        optimizer.zero_grad()", "        shown.append(model(x).detach())"),),
        "policy",
        (
            (
                "        optimizer.step()\n        shown.append(model(x).detach())",
                "    optimizer.step()\n    shown.append(model(x).detach())",
            ),
        ),
    )
    yield Case(
        "AMP303",
        "the optimizer works element by element",
        step,
        (("torch.optim.SGD(model.parameters(), lr=0.1)", "torch.optim.LBFGS([model.weight])"),),
        why="what else there is takes a closure, or is of another torch",
    )


# ------------------------------------------------------------------------------- AMP307


def of_calls_of_autocast() -> Iterator[Case]:
    yield Case(
        "AMP307",
        "the line can only raise",
        once(
            """
            x = torch.full((4, 4), 0.1, device=device)
            with torch.cuda.amp.autocast:
                shown.append(x @ x)
            """
        ),
        (("torch.cuda.amp.autocast", "torch.autocast"),),
        why="which device is meant is not known to anybody but the author",
    )
    yield Case(
        "AMP307",
        "the argument is of that kind for every caller",
        once(
            "shown.append(product(torch.full((4, 4), 0.1, device=device), True))",
            """
            def product(x, use_amp: bool):
                with torch.autocast("cuda", use_amp):
                    return x @ x


            """,
        ),
        (
            ("use_amp: bool", "use_amp"),
            (
                "    shown.append(product",
                "    if os.environ.get('AMP'):\n        shown.append(product",
            ),
            also("globals()['product'](torch.full((4, 4), 0.1, device=device), torch.bfloat16)"),
        ),
        "policy",
    )
    yield Case(
        "AMP307",
        "nothing around it catches the error",
        once(
            """
            x = torch.full((4, 4), 0.1, device=device)
            if True:
                with torch.autocast(x.device):
                    shown.append(x @ x)
            """
        ),
        (
            ("    if True:\n", "    try:\n"),
            ("(x @ x)\n", "(x @ x)\n    except ValueError:\n        pass\n"),
        ),
        "policy",
    )


# ------------------------------------------------------------------------------- AMP701 to 704


def of_old_names() -> Iterator[Case]:
    region = once(
        """
        x = torch.full((4, 4), 0.1, device="cuda")
        with torch.cuda.amp.autocast(False):
            shown.append(x @ x)
        """
    )
    yield Case(
        "AMP701",
        "each argument has a known parameter",
        region,
        (("autocast(False)", "autocast(*[False])"),),
        "policy",
        (("torch.cuda.amp.autocast(*[False])", 'torch.amp.autocast("cuda", *[False])'),),
    )
    yield Case(
        "AMP701",
        "each argument has a known parameter",
        region.replace("False", "enabled=True"),
        (
            ("    with torch", '    with torch.autocast("cuda", dtype=torch.bfloat16), torch'),
            ("enabled=True", "**{'enabled': True}"),
        ),
        "policy",
    )
    yield Case(
        "AMP701",
        "nothing checks the class of a region",
        once(
            """
            region = torch.cuda.amp.autocast()
            with region:
                shown.append(1)
            """
        ),
        (("shown.append(1)", "shown.append(isinstance(region, torch.cuda.amp.autocast))"),),
        "policy",
    )
    for around in (
        'with torch.autocast("cuda", dtype=torch.bfloat16):',
        "with Region('bf16'):",
    ):
        yield Case(
            "AMP701",
            "all that another region could change",
            once(
                """
                x = torch.full((4, 4), 0.1, device="cuda")
                if True:
                    with torch.cuda.amp.autocast():
                        shown.append(x @ x)
                """,
                """
                class Region(torch.autocast):
                    def __init__(self, precision):
                        dtype = getattr(torch, precision.replace("bf", "bfloat"))
                        super().__init__("cuda", dtype=dtype)


                """,
            ),
            (("if True:", around),),
            "policy",
            (("torch.cuda.amp.autocast()", 'torch.amp.autocast("cuda")'),),
        )
    yield Case(
        "AMP701",
        "all that another region could change",
        once(
            """
            if True:
                with torch.cuda.amp.autocast():
                    shown.append(torch.is_autocast_cache_enabled())
            """
        ),
        (("if True:", 'with torch.autocast("cuda", dtype=torch.float16, cache_enabled=False):'),),
        "policy",
        (("torch.cuda.amp.autocast()", 'torch.amp.autocast("cuda")'),),
    )
    yield Case(
        "AMP701",
        "no caller could pass another function",
        once(
            "shown.append(product(torch.full((4, 4), 0.1, device=device), torch.cuda.amp))",
            """
            def product(x, amp):
                with torch.cuda.amp.autocast():
                    return x @ x


            """,
        ),
        (
            ("with torch.cuda.amp.autocast()", "with amp.autocast()"),
            also("globals()['product'](torch.full((4, 4), 0.1, device=device), torch.cpu.amp)"),
        ),
        "policy",
    )
    yield Case(
        "AMP702",
        "no caller could pass another class",
        once(
            "shown.append(made(torch.cuda.amp))",
            """
            class Constant:
                class GradScaler:
                    def get_scale(self):
                        return 1.0


            def made(amp):
                return torch.cuda.amp.GradScaler().get_scale()


            """,
        ),
        (
            ("return torch.cuda.amp.GradScaler()", "return amp.GradScaler()"),
            also("globals()['made'](Constant)"),
        ),
        "policy",
    )
    yield Case(
        "AMP702",
        "nothing checks the class of a scaler",
        once("scaler = torch.cuda.amp.GradScaler()\nshown.append(scaler.get_scale())"),
        (
            (
                "shown.append(scaler.get_scale())",
                "shown.append(isinstance(scaler, torch.cuda.amp.GradScaler))",
            ),
        ),
        "policy",
    )
    yield Case(
        "AMP703",
        "the old function calls the new one",
        once(
            "shown.append(Double.apply(torch.ones(4, device=device)))",
            """
            class Double(torch.autograd.Function):
                @staticmethod
                @torch.cuda.amp.custom_fwd
                def forward(ctx, x):
                    return x * 2


            """,
        ),
        (("torch.cuda.amp.custom_fwd", 'torch.amp.custom_fwd(device_type="cpu")'),),
        why="the functions of torch.amp take the device type",
    )
    yield Case(
        "AMP704",
        "the old function equals the new one",
        once(
            """
            with torch.autocast("cpu"):
                shown.append(torch.is_autocast_cpu_enabled())
            """
        ),
        (("torch.is_autocast_cpu_enabled()", "torch.is_autocast_enabled()"),),
        "cpu",
        (("torch.is_autocast_enabled()", 'torch.is_autocast_enabled("cpu")'),),
    )


# ------------------------------------------------------------------------------- AMP901


def of_sums_of_losses() -> Iterator[Case]:
    summed = STEPS.replace("    shown = []\n", "    total = 0.0\n").replace(
        "return shown, loss.detach()", "return total.item()"
    )
    yield Case(
        "AMP901",
        "only numbers are read from it",
        (HEAD + summed)
        .replace("{body}\n", "")
        .replace("step()\n", "step()\n        total += loss\n"),
        (("return total.item()", "return total.item(), total.requires_grad"),),
        "policy",
        (("total += loss", "total += loss.detach()"),),
    )


CASES = tuple(cases())
