"""`amplint verify` without a program says what it could do, and runs nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amplint_verify import offer
from tests.command import Amplint
from tests.helpers import ROOT, write

TRAIN = b"""\
import torch

open("ran", "w").close()  # whoever runs this leaves a trace


def helper(x):
    return x


def main(epochs=1, *, device):
    x = torch.zeros(3).to("cuda")
    scaler = torch.cuda.amp.GradScaler()
    return x


if __name__ == "__main__":
    main(device="cuda")
"""
FILES = {
    "tools/train.py": TRAIN,
    "tools/test_train.py": b"def test_it():\n    assert True\n",
    "tools/quiet.py": b"import torch\n\nif __name__ == '__main__':\n    print(torch)\n",
    "pyproject.toml": b"",
}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(write(FILES, tmp_path / "project"))
    Path("requirements.txt").write_text("torch>=2.4\n")
    return Path.cwd()


def test_it_says_what_to_type_and_runs_nothing(amplint: Amplint, project: Path) -> None:
    status, out, _ = amplint("verify", "tools/train.py")
    assert status == 0
    assert out.startswith(
        "Fixes that could be verified: 2 (2 safe)\n  tools/train.py:11 AMP501 safe"
    )
    assert "  amplint verify tools/train.py --steps 20 --script tools/train.py\n" in out
    assert "  amplint verify tools/train.py --entry tools.train:main\n" in out
    assert ":helper" not in out  # it needs an argument
    assert "  amplint verify tools/train.py --pytest\n" in out
    assert "--unsafe" not in out  # there are no unsafe fixes
    assert "Nothing was run." in out
    assert not list(project.rglob("ran"))


def test_what_it_says_to_type_is_taken(amplint: Amplint, project: Path) -> None:
    pytest.importorskip("torch")
    text = (project / "tools/train.py").read_text().replace('open("ran", "w").close()', "")
    (project / "tools/train.py").write_text(text)
    ran = amplint("verify")
    assert ran.status == 0
    (command,) = (line for line in ran.out.splitlines() if "--entry" in line)
    ran = amplint(*command.split()[1:], "--backend", "policy", "--select", "AMP501")
    assert ran.status == 0
    assert "AMP501 exact" in ran.out


def test_a_path_that_is_not_there_is_a_problem(amplint: Amplint) -> None:
    ran = amplint("verify", "nowhere.py")
    assert ran.status == 2
    assert "nowhere.py: there is no such file or directory" in ran.err


def test_without_fixes(amplint: Amplint) -> None:
    ran = amplint("verify", "tools/quiet.py")
    assert ran.status == 0
    assert ran.out.startswith(
        "No finding has a fix that may be applied: there is nothing to verify.\n"
    )


def test_without_torch_it_says_what_to_install(project: Path) -> None:
    """Importing torch raises there, and nothing imports it."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.modules['torch'] = None;"
        "import importlib.util as u; u.find_spec = lambda _: None;"
        "from amplint.cli.main import main; sys.exit(main(['verify', 'tools/train.py']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == (
        "To run anything, torch is needed here: pip install torch numpy"
    )


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("train.py", "train"),
        ("src/pkg/train.py", "pkg.train"),
        ("pkg/train.py", "pkg.train"),
        ("my-tools/train.py", "train"),
        ("src.py", "src"),
    ],
)
def test_names_to_import_by(path: str, name: str) -> None:
    assert offer.module_name(path) == name


def test_scripts_and_entries_that_run_most_fixes_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, amplint: Amplint
) -> None:
    files = {
        "options.py": b"""\
import torch

def get_args():
    return [torch.float16]
""",
        "engine.py": b"""\
import torch
from options import get_args

def get_scaler(): return torch.cuda.amp.GradScaler()

def images(n=1):
    return torch.zeros(n).cuda()

def defaults():
    return get_args()

class Trainer:
    def fit(self):
        return images(), get_scaler()

def smoke():
    return Trainer().fit()
""",
        "a_tool.py": b"import torch\nfrom options import get_args\n"
        b"if __name__ == '__main__':\n    get_args()\n",
        "train.py": b"import torch\nimport engine\n"
        b"if __name__ == '__main__':\n    engine.smoke()\n",
        "other.py": b"import engine\n\ndef check():\n    engine.images()\n",
    }
    monkeypatch.chdir(write(files, tmp_path / "many"))
    status, out, _ = amplint("verify")
    assert status == 0
    commands = [line.strip() for line in out.splitlines() if line.startswith("  amplint verify")]
    assert commands == [
        "amplint verify . --steps 20 --script train.py",
        "amplint verify . --steps 20 --script a_tool.py",
        "amplint verify . --entry engine:smoke",
        "amplint verify . --entry engine:get_scaler",
        "amplint verify . --entry engine:images",
        "amplint verify . --entry other:check",
    ]


def test_fixes_that_need_unsafe_are_offered_with_it(amplint: Amplint, project: Path) -> None:
    text = TRAIN.replace(b"torch.cuda.amp.GradScaler()", b"1")
    (project / "tools/train.py").write_bytes(text.replace(b"zeros(3)", b"rand(3)"))
    status, out, _ = amplint("verify", "tools/train.py")
    assert status == 0
    assert "Fixes that could be verified: 1 (1 unsafe)" in out
    assert "  amplint verify tools/train.py --unsafe --entry tools.train:main\n" in out
    assert "With --unsafe behind" not in out
