"""What the rules about dtypes leave alone in a whole project, which fixtures cannot show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import lint, places

PROGRAM = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


def step(wrapper, x, y):
    model = nn.Linear(4, 4)
    {wrapped}
    with torch.autocast("cuda"):
        output = model(x)
    return F.cross_entropy(output, y), torch.linalg.inv(output)
"""


@pytest.mark.parametrize(
    ("imported", "wrapped", "codes"),
    [
        ("", "model = model.cuda()", ["AMP305", "AMP313"]),
        ("from accelerate import Accelerator", "model = Accelerator().prepare(model)", []),
        ("from lightning import Fabric", "model = Fabric().setup(model)", []),
        ("from accelerate import Accelerator", "wrapper.prepare(model)", []),
    ],
)
def test_libraries_cast_what_the_models_give_that_they_wrap(
    imported: str, wrapped: str, codes: list[str], tmp_path: Path
) -> None:
    text = f"{imported}\n{PROGRAM.format(wrapped=wrapped)}"
    outcome = lint({"main.py": text.encode()}, tmp_path)
    assert [code for _, code in places(outcome.findings, "main.py")] == codes
