"""What the rules report as a wait for the device, held against what a GPU did.

benchmarks/waits_on_gpu.py ran each statement on a GPU. Here each stands in a training loop of its
own, with values that the loop computes.
"""

from __future__ import annotations

import json
import textwrap

import pytest

from benchmarks.waits_on_gpu import IMPORTS, SETUP, STATEMENTS, statements
from tests.helpers import lint

(RESULT,) = (STATEMENTS.parent / "results").glob("waits-*.json")
# In a loop, so that nothing is a constant; without a training step nothing is hot.
LOOP = """\
x = model(batch.cuda(non_blocking=True)).detach()
y = x.relu()
v = x[0]
m = v > 0.5
z = i[0] + 0
f = v.sum()
opt.zero_grad()
model(x).sum().backward()
opt.step()
"""
# What these report is a read of the device, a wait for it, or a copy that is waited for.
RULES = (*(f"AMP{number}" for number in (101, 103, 104, 105, 106, 107, 108, 110, 112, 113)),
         "AMP502", "AMP505")  # fmt: skip

# The GPU did not wait, and a rule says that it does.
EXCUSED = {
    "torch.equal(x, x)": "the answer is known where both are one tensor",
    "torch.cuda.synchronize()": "waits, and the mode does not warn of it",
}
INSIDE = "waits inside, to look at its operands or its success; there is no other way to call it"
COPY = "a copy between the devices that somebody asked for"
ONCE = "belongs to a checkpoint, not to a step"
# The GPU waited, and no rule says so.
NOT_REPORTED = {
    **dict.fromkeys(
        (
            "F.ctc_loss(torch.rand(4, 2, 4, device=d).log_softmax(2), torch.ones(2, 2, "
            "dtype=torch.long), (4, 4), (2, 2))",
            "F.gaussian_nll_loss(x, y, y.abs() + 1)",
            "scaler.step(opt)",
            "torch.combinations(v)",
            "torch.corrcoef(x)",
            "torch.cov(x)",
            "torch.distributions.Categorical(logits=x)",
            "torch.distributions.Categorical(logits=x).sample()",
            "torch.distributions.Normal(x, x + 1)",
            "torch.distributions.Normal(x, x + 1).log_prob(y)",
            "torch.histc(v)",
            "torch.inverse(x)",
            "torch.istft(torch.stft(torch.rand(1, 400, device=d), 64, return_complex=True, "
            "window=torch.ones(64, device=d)), 64, window=torch.ones(64, device=d))",
            "torch.linalg.cholesky(x @ x.T + 4 * torch.eye(4, device=d))",
            "torch.linalg.eigh(x @ x.T)",
            "torch.linalg.inv(x)",
            "torch.linalg.lstsq(x, y)",
            "torch.linalg.matrix_rank(x)",
            "torch.linalg.pinv(x)",
            "torch.linalg.solve(x, y)",
            "torch.linalg.svd(x)",
            "torch.normal(x, y)",
            "torch.sparse_coo_tensor(torch.stack([i, i]), v)",
        ),
        INSIDE,
    ),
    **dict.fromkeys(
        (
            "cpu.copy_(x)",
            "nn.BatchNorm1d(4).cuda()(x)",
            "nn.LSTM(4, 4).cuda()(x[None])",
            "pin.cuda()",
            "x.clone().copy_(cpu)",
            "x.clone()[0] = cpu[0]",
            "x.clone()[i] = torch.tensor(1.0)",
        ),
        COPY,
    ),
    **dict.fromkeys(("scaler.state_dict()", "torch.save(model.state_dict(), io.BytesIO())"), ONCE),
    "nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)": "the error that "
    "is asked for costs the wait",
    "x.clone()[0, 0] = 1.0": "reported by AMP502 where it is known that these are all dimensions",
    "torch.clip(x, 0.0, f)": "one bound is a number, and the other is read for it",
    "x.clamp(0.0, f)": "one bound is a number, and the other is read for it",
    "torch.zeros(4).cuda()": "reported by AMP501, as built in the wrong place",
    "torch.zeros(4).to(d)": "reported by AMP501, as built in the wrong place",
    "torch.tensor([f, f])": "reported by AMP503, as built of tensors",
    "x.index_put((m,), f)": "a mask is looked at, if what is written is no number",
}


@pytest.fixture(scope="module")
def waited() -> dict[str, int]:
    """How often each statement waited on the GPU."""
    found: dict[str, int] = json.loads(RESULT.read_text(encoding="utf-8"))["synchronizations"]
    return found


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The statements that the rules report."""
    parts, rows = [IMPORTS], {}
    row = IMPORTS.count("\n")
    for number, line in enumerate(statements()):
        body = [f"def train_{number}(loader):", *textwrap.indent(SETUP, " " * 4).splitlines()]
        body += ["    for batch in loader:", *textwrap.indent(LOOP + line, " " * 8).splitlines()]
        row += len(body)
        rows[row] = line
        parts.append("\n".join(body) + "\n")
    directory = tmp_path_factory.mktemp("waits")
    found = lint({"main.py": "".join(parts).encode()}, directory, select=RULES).findings
    return {rows[each.span.start.row] for each in found if each.span.start.row in rows}


def test_each_statement_was_run(waited: dict[str, int]) -> None:
    assert list(waited) == statements()


def test_what_is_reported_waited(waited: dict[str, int], reported: set[str]) -> None:
    assert {line for line in reported if not waited[line]} == EXCUSED.keys()
    assert len(reported) > 70


def test_what_waited_and_is_not_reported_has_a_reason(
    waited: dict[str, int], reported: set[str]
) -> None:
    assert {line for line in waited if waited[line]} - reported == NOT_REPORTED.keys()
