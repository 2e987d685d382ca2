"""`amplint fix` keeps the style of import that a file has."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint.findings.finding import Edit, edited
from amplint.fix.import_style import in_style
from amplint.util.text import Text
from tests.helpers import fix

TRAIN = "train.py"
LONG = 'torch.amp.autocast("cuda")'
USE = "with autocast():\n    loss = model(x)\n"
SHORT = USE.replace("autocast()", 'autocast("cuda")')


def fixed(tmp_path: Path, program: str, **others: str) -> str:
    files = {TRAIN: program, **{f"{name}.py": text for name, text in others.items()}}
    data = {name: text.encode() for name, text in files.items()}
    after = fix(data, tmp_path, unsafe=False)
    return after[TRAIN].decode() if TRAIN in after else program


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from torch.cuda.amp import autocast", "from torch.amp import autocast"),
        (
            "from torch.cuda.amp import autocast  # noqa: E402",
            "from torch.amp import autocast  # noqa: E402",
        ),
        ("from  torch.cuda.amp  import (autocast)", "from  torch.amp  import (autocast)"),
        (
            "from torch.cuda.amp import (\n    autocast,\n)",
            "from torch.amp import (\n    autocast,\n)",
        ),
        (
            "import os; from torch.cuda.amp import autocast",
            "import os; from torch.amp import autocast",
        ),
        (
            "if amp:\n    from torch.cuda.amp import autocast",
            "if amp:\n    from torch.amp import autocast",
        ),
        (
            "from torch.cuda.amp import autocast, common",
            "from torch.amp import autocast\nfrom torch.cuda.amp import common",
        ),
        (
            "from torch.cuda.amp import (\n    autocast,\n    common,\n)",
            "from torch.amp import autocast\nfrom torch.cuda.amp import (\n    common,\n)",
        ),
    ],
)
def test_an_import_names_the_new_module(tmp_path: Path, before: str, after: str) -> None:
    assert fixed(tmp_path, f"{before}\n{USE}") == f"{after}\n{SHORT}"


@pytest.mark.parametrize(
    "program",
    [
        # Others may rely on what the name means.
        f"from torch.cuda.amp import autocast\n__all__ = ['autocast']\n{USE}",
        f"from torch.cuda.amp import autocast as autocast\n{USE}",
        f"from torch.cuda.amp import autocast  # noqa: F401\n{USE}",
        f"from torch.cuda.amp import autocast  # noqa\n{USE}",
        # Not all uses are replaced.
        f"from torch.cuda.amp import autocast\nprint(autocast)\n{USE}",
        f"from torch.cuda.amp import autocast\nregion: 'autocast'\n{USE}",
        f"from torch.cuda.amp import autocast\n{USE}with autocast():  # amplint: ignore[AMP701]\n"
        "    pass\n",
        # Another import might not be there, and what then happens is another thing.
        "try:\n    from torch.cuda.amp import autocast\nexcept AttributeError:\n    pass\n" + USE,
        "if hasattr(torch.cuda, 'amp'):\n    from torch.cuda.amp import autocast\n    go()\n" + USE,
        # It would be two styles in one file.
        f'from torch.cuda.amp import autocast\nwith torch.amp.autocast("cpu"):\n    pass\n{USE}',
    ],
)
def test_where_that_is_not_sure_the_new_name_is_written_out(tmp_path: Path, program: str) -> None:
    program = f"import torch\n{program}"
    after = fixed(tmp_path, program)
    assert "from torch.amp import" not in after
    assert LONG in after


@pytest.mark.parametrize(
    "other",
    [
        "from train import autocast\nprint(autocast)\n",
        "from train import *\nprint(autocast)\n",
        "import train\nprint(train.autocast)\n",
    ],
)
def test_a_name_that_another_file_takes_keeps_its_meaning(tmp_path: Path, other: str) -> None:
    program = f"from torch.cuda.amp import autocast\n{USE}"
    assert "from torch.cuda.amp import autocast\n" in fixed(tmp_path, program, other=other)


@pytest.mark.parametrize("above", [True, False])
def test_a_star_below_may_bind_the_name_again(tmp_path: Path, above: bool) -> None:
    """`autocast("cuda", enabled=False)` of the old class raises: `enabled` has two values."""
    lines = ["from torch.cuda.amp import autocast\n", "from helpers import *\n"]
    program = f"{''.join(lines if above else lines[::-1])}{USE}"
    helpers = "from torch.cuda.amp import autocast\n\n\ndef model(x):\n    return x\n"
    after = fixed(tmp_path, program, helpers=helpers)
    assert (LONG in after) is above
    assert ("from torch.amp import autocast" in after) is not above


def test_a_package_imports_for_others(tmp_path: Path) -> None:
    program = f"from torch.cuda.amp import autocast\n{USE}".encode()
    after = fix({"pkg/__init__.py": program}, tmp_path, unsafe=False)["pkg/__init__.py"].decode()
    assert "from torch.cuda.amp import autocast\n" in after


def test_an_import_under_a_test_of_the_version_goes_when_it_is_unused(tmp_path: Path) -> None:
    program = (
        "import torch\nhas_amp = False\nif torch.__version__ >= '1.6':\n    has_amp = True\n"
        f"    from torch.cuda.amp import autocast\nif has_amp:\n    {USE.replace('  ', '    ', 1)}"
    )
    program = program.replace("\n    loss", "\n        loss")
    after = fixed(tmp_path, program)
    assert LONG in after
    assert "import autocast" not in after


def test_functions_with_imports_of_their_own(tmp_path: Path) -> None:
    body = "    from torch.cuda import amp\n    with amp.autocast():\n        return model(x)\n"
    program = f"def one(x):\n{body}\n\ndef two(x):\n{body}"
    new = body.replace("torch.cuda", "torch").replace("()", '("cuda")')
    assert fixed(tmp_path, program) == f"def one(x):\n{new}\n\ndef two(x):\n{new}"


def test_an_import_that_was_unused_before_stays_as_it_was(tmp_path: Path) -> None:
    unused = "def one(x):\n    from torch.cuda import amp\n    return x\n"
    used = "def two(x):\n    from torch.cuda import amp\n    return amp.GradScaler()\n"
    new = used.replace("torch.cuda", "torch").replace("()", '("cuda")')
    assert fixed(tmp_path, f"{unused}{used}") == f"{unused}{new}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch.cuda.amp as amp\namp.GradScaler()\n", "import torch.amp as amp\namp."),
        ("import torch.cuda.amp as old\nold.GradScaler()\n", "import torch\ntorch.amp."),
    ],
)
def test_an_alias_that_is_still_right(tmp_path: Path, before: str, after: str) -> None:
    assert fixed(tmp_path, before) == f'{after}GradScaler("cuda")\n'


def test_arguments_on_lines_of_their_own_stay_there(tmp_path: Path) -> None:
    program = (
        "import torch\nfrom torch.cuda.amp import autocast\nwith autocast(\n    use_amp,\n"
        "    torch.bfloat16,\n):\n    loss = model(x)\n"
    )
    assert fixed(tmp_path, program) == (
        'import torch\nfrom torch.amp import autocast\nwith autocast(\n    "cuda",\n'
        "    enabled=use_amp,\n    dtype=torch.bfloat16,\n):\n    loss = model(x)\n"
    )


IMPORTS = st.sampled_from(
    [
        "from torch.cuda.amp import autocast",
        "from torch.cuda.amp import GradScaler, autocast",
        "from torch.cuda.amp import autocast as other",
        "from torch.cuda import amp as autocast",
        "try:\n    from torch.cuda.amp import autocast\nexcept ImportError:\n    autocast = None",
        "import torch",
        "autocast = None",
    ]
)


@given(st.lists(IMPORTS, max_size=3), st.lists(st.booleans(), min_size=1, max_size=4))
@settings(deadline=None, max_examples=60)
def test_names_are_short_everywhere_or_nowhere(imports: list[str], replaced: list[bool]) -> None:
    """Where one use keeps the old name, its import stays."""
    head = "".join(f"{line}\n" for line in ["import torch", *imports])
    program = head + "autocast()\n" * len(replaced)
    starts = [len(head) + 11 * number for number, each in enumerate(replaced) if each]
    edits = [Edit(start, start + 8, "torch.amp.autocast") for start in starts]
    new = in_style(Text(program), edits, lambda _: False)
    if new is None:
        return
    assert all(replaced)
    module = ast.parse(edited(program, new))
    targets = {
        (node.module, alias.name)
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (alias.asname or alias.name) == "autocast"
    }
    assert targets == {("torch.amp", "autocast")}
