"""`check` and `fix` import neither torch nor the harness."""

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """\
import sys
from amplint.cli.main import main
status = main(sys.argv[1:])
heavy = [name for name in sys.modules if name == "torch" or name.startswith("amplint_verify")]
print(status, heavy)
"""


@pytest.mark.parametrize("command", [("check",), ("fix",), ("fix", "--apply", "--unsafe")])
def test_neither_torch_nor_the_harness_is_imported(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("import torch\nscaler = torch.cuda.amp.GradScaler()\n")
    done = subprocess.run(
        [sys.executable, "-c", CODE, *command, "a.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1].endswith(" []")
