"""The strings that fixes write have the quotes of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import fix


@pytest.mark.parametrize(
    ("around", "expected"),
    [
        ("", '"cuda"'),
        ("a = 'x', 'y', 'z'\n", "'cuda'"),
        ("a = 'x', 'y'\n", '"cuda"'),
        ('"""Text."""\na = \'x\', \'y\', \'z\', "it\'s"\n', "'cuda'"),
        ("a = 'x', 'y', 'z', \"w\"\n", '"cuda"'),
        ('a = "x"\n', '"cuda"'),
    ],
)
def test_a_file_keeps_its_quotes(tmp_path: Path, around: str, expected: str) -> None:
    text = f"import torch\n{around}x = torch.zeros(3).cuda()\n"
    after = fix({"a.py": text.encode()}, tmp_path, unsafe=False)["a.py"].decode()
    assert after == f"import torch\n{around}x = torch.zeros(3, device={expected})\n"


def test_what_stood_there_before_stays(tmp_path: Path) -> None:
    text = "import torch\na = 'x'\n" * 10 + 'x = torch.zeros(3).to("cuda")\n'
    after = fix({"a.py": text.encode()}, tmp_path, unsafe=False)["a.py"].decode()
    assert after.endswith('x = torch.zeros(3, device="cuda")\n')


def test_a_string_cannot_hold_its_own_quotes(tmp_path: Path) -> None:
    text = "import torch\na = 'x', 'y', 'z'\nprint(f'{torch.zeros(3).cuda()}')\n"
    after = fix({"a.py": text.encode()}, tmp_path, unsafe=False)["a.py"].decode()
    assert "'cuda'" not in after
