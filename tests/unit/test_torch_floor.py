"""The lowest torch that a project's own requirements allow, and the fixes that need a newer one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.findings.selectors import version
from amplint.project.torch_floor import TorchFloors, _lowest
from tests.command import Amplint


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("pyproject.toml", '[project]\ndependencies = ["numpy", "torch>=1.8"]', "1.8"),
        ("pyproject.toml", '[project]\ndependencies = ["torch (>=1.8, !=1.9, <3)"]', "1.8"),
        (
            "pyproject.toml",
            "[project]\ndependencies = [\"Torch[opt] ~= 2.1 ; python_version>'3'\"]",
            "2.1",
        ),
        ("pyproject.toml", '[project]\ndependencies = ["torch==2.0.1+cu118"]', "2.0.1"),
        ("pyproject.toml", '[project]\ndependencies = ["torch>=2.1.0rc1"]', "2.1.0"),
        ("pyproject.toml", '[project.optional-dependencies]\ngpu = ["torch>1.12"]', "1.12"),
        (
            "pyproject.toml",
            '[dependency-groups]\ndev = [{include-group = "a"}, "torch==2.4.*"]',
            "2.4",
        ),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "^1.8"', "1.8"),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = {version = "1.9 || ^2.0"}', "1.9"),
        ("pyproject.toml", '[tool.poetry.group.a.dependencies]\ntorch = "~2.2"', "2.2"),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "*"', None),
        ("pyproject.toml", '[project]\ndependencies = ["torch"]', None),
        ("pyproject.toml", '[project]\ndependencies = ["torch!=1.9"]', None),
        ("pyproject.toml", '[project]\ndependencies = ["torch<2.0"]', "0"),
        (
            "pyproject.toml",
            '[project]\ndependencies = ["torchvision>=0.9", "torch-fidelity>=1"]',
            None,
        ),
        (
            "pyproject.toml",
            '[project]\ndependencies = ["torch @ https://x.org/torch-2.0.whl"]',
            None,
        ),
        ("pyproject.toml", '[project]\ndependencies = "torch>=1.8"', None),
        ("pyproject.toml", "[project", None),
        ("setup.cfg", "[options]\ninstall_requires =\n    numpy\n    torch>=1.7  # old", "1.7"),
        ("setup.cfg", "[options.extras_require]\ngpu = torch>=1.6", "1.6"),
        ("setup.cfg", "torch>=1.7", None),
        ("setup.py", "from setuptools import setup\nsetup(install_requires=['torch>=1.5'])", "1.5"),
        ("setup.py", "needs = ['torch>=1.5']\nsetup(install_requires=needs)", "1.5"),
        ("setup.py", "setup(extras_require={'gpu': ['torch>=1.4']})", "1.4"),
        ("setup.py", "setup(install_requires=read())", None),
        ("setup.py", "setup(description='torch>=1.4')", None),
        ("setup.py", "setup(", None),
        ("requirements.txt", "-r other.txt\ntorch>=1.3 --hash=sha256:1\n", "1.3"),
        ("requirements-dev.txt", "torch==2.3.0\ntorch>=2.1\n", "2.1"),
        ("requirements/base.txt", "torch>=1.2", "1.2"),
        ("environment.yml", "dependencies:\n  - python=3.8\n  - pytorch=2.2.2\n", "2.2.2"),
        ("environment_gpu.yaml", "- 'pytorch::pytorch=1.13.1=py3.9_cuda11.7_0'", "1.13.1"),
        ("environment.yml", "- pip:\n    - torch==2.0.1+cu118  # why", "2.0.1"),
        ("environment.yml", "- conda-forge::pytorch-gpu >=1.8,<3", "1.8"),
        ("environment.yml", "channels:\n- pytorch\ndependencies:\n- pytorch-cuda=11.8", None),
        ("environment.yml", "name: torch>=1.2", None),
        ("conda/environment.yml", "- pytorch=1.10", "1.10"),
        ("uv.lock", '[[package]]\nname = "torch"\nversion = "2.5.1+cpu"\n', "2.5.1"),
        ("poetry.lock", '[[package]]\nname = "torchvision"\nversion = "0.20"\n', None),
        ("conda-lock.yml", "- name: pytorch\n  version: 2.2.2\n", "2.2.2"),
        ("pixi.lock", "- conda: https://a.org/c/linux-64/pytorch-2.3.1-cpu_h1.conda", "2.3.1"),
        ("Dockerfile", "FROM pytorch/pytorch:1.13.1-cuda11.6-cudnn8-runtime", "1.13.1"),
        ("docker/Dockerfile.gpu", "FROM nvcr.io/nvidia/pytorch:22.11-py3 AS base", "1.13"),
        ("Dockerfile", "FROM nvcr.io/nvidia/pytorch:24.02-py3", "2.2"),
        ("Dockerfile", "FROM nvcr.io/nvidia/pytorch:99.01-py3", "2.9"),
        ("Dockerfile", "ARG V=2.1.0\nFROM pytorch/pytorch:${V}-cuda", "2.1.0"),
        ("Dockerfile", "FROM pytorch/pytorch:latest", None),
        ("Dockerfile", "# FROM pytorch/pytorch:1.13.1", None),
        (
            "Dockerfile",
            "FROM pytorch/pytorch:1.13.1\nRUN pip3 install -U \\\n  'torch==2.4.0' \\\n  x && y",
            "2.4.0",
        ),
        ("Dockerfile", "FROM x\nRUN conda install -y -c pytorch pytorch=1.12 x=2", "1.12"),
        ("Dockerfile", "FROM x\nRUN pip install torchvision==0.9 pytorch-lightning==1.1", None),
    ],
)
def test_what_requirements_say(
    tmp_path: Path, name: str, content: str, expected: str | None
) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content)
    (tmp_path / "src").mkdir()
    found = TorchFloors().of(str(tmp_path / "src"))
    said = (found.version, found.file) if found is not None else None
    assert said == (None if expected is None else (expected, file))


def test_the_lowest_of_all_counts(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("setup(install_requires=['torch>=1.10'])")
    (tmp_path / "requirements.txt").write_text("torch==2.1.0")
    found = TorchFloors().of(str(tmp_path))
    assert found is not None
    assert (found.version, found.file) == ("1.10", tmp_path / "setup.py")
    assert not found.pinned


@pytest.mark.parametrize("end", ["pyproject.toml", "setup.cfg", "setup.py", ".git"])
def test_another_project_above_says_nothing(tmp_path: Path, end: str) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=1.8")
    (tmp_path / "inner").mkdir()
    assert TorchFloors().of(str(tmp_path / "inner")) is not None
    (tmp_path / "inner" / end).write_text("")
    assert TorchFloors().of(str(tmp_path / "inner")) is None


VERSIONS = st.lists(st.integers(0, 30), min_size=1, max_size=3).map(
    lambda parts: ".".join(map(str, parts))
)


@given(VERSIONS, VERSIONS)
def test_a_bound_is_no_higher_than_what_it_allows(lower: str, upper: str) -> None:
    assert _lowest(f">={lower}, <{upper}") == (lower, False)
    one_of = _lowest(f"{lower} || {upper}")
    assert one_of is not None
    assert version(one_of.version) == min(version(lower), version(upper))
    assert _lowest(f"<{upper}") == ("0", False)


@pytest.mark.parametrize(
    ("specifiers", "is_exact"),
    [
        ("==2.2.2", True),
        ("===2.2.2", True),
        ("=2.2.2=py3.8_cuda11.8_0", True),
        ("2.2.2", True),
        ("==2.2.*", True),
        ("==2.*", False),
        ("=2", False),
        ("^2.2", False),
        ("~=2.2", False),
        (">=2.2,<2.3", False),
        ("2.2 || >=2.3", False),
    ],
)
def test_which_requirements_allow_one_version(specifiers: str, is_exact: bool) -> None:
    found = _lowest(specifiers)
    assert found is not None
    assert found.is_exact is is_exact


PROGRAM = "import torch\nscaler = torch.cuda.amp.GradScaler()\n"
NEW = "import torch\nscaler = torch.amp.GradScaler('cuda')\n".replace("'", '"')


@pytest.mark.parametrize(
    ("required", "options", "is_fixed"),
    [
        ("torch>=2.3", (), True),
        ("torch>=1.13", (), False),
        ("torch<3", (), False),
        # What is asked for is not looked for.
        ("torch>=1.13", ("--target-torch", "2.4"), True),
    ],
)
def test_a_fix_that_needs_a_newer_torch_is_a_suggestion(
    amplint: Amplint, project: Path, required: str, options: tuple[str, ...], is_fixed: bool
) -> None:
    (project / "requirements.txt").write_text(required)
    (project / "a.py").write_text(PROGRAM)
    told = amplint("check", *options, "a.py").out
    assert "AMP702" in told
    assert ("(suggestion)" in told) is not is_fixed
    assert ("which needs torch 2.3 (requirements.txt allows" in told) is not is_fixed
    amplint("fix", "--apply", "--unsafe", *options, "a.py")
    assert (project / "a.py").read_text() == (NEW if is_fixed else PROGRAM)


@pytest.mark.parametrize(
    ("name", "content", "is_told"),
    [
        ("requirements.txt", "torch==2.2.2", False),
        ("requirements.txt", "torch==2.3.0", True),
        ("environment.yaml", "- pytorch=2.2.2", False),
        ("environment.yaml", "- pytorch>=2.2.2", True),
        ("uv.lock", 'name = "torch"\nversion = "2.2.2"', False),
        ("Dockerfile", "FROM nvcr.io/nvidia/pytorch:22.11-py3", False),
        ("Dockerfile", "FROM nvcr.io/nvidia/pytorch:24.05-py3", True),
    ],
)
def test_nothing_is_deprecated_in_the_one_torch_of_a_project_that_lacks_the_new_name(
    amplint: Amplint, project: Path, name: str, content: str, is_told: bool
) -> None:
    (project / name).write_text(content)
    (project / "a.py").write_text(PROGRAM)
    assert ("AMP702" in amplint("check", "a.py").out) is is_told


def test_the_newest_of_several_pins_decides(amplint: Amplint, project: Path) -> None:
    (project / "environment.yaml").write_text("- pytorch=2.2.2")
    (project / "requirements.txt").write_text("torch==2.4.0")
    (project / "a.py").write_text(PROGRAM)
    told = amplint("check", "a.py").out
    assert "which needs torch 2.3 (environment.yaml allows 2.2.2) (suggestion)" in told


def test_a_fix_waits_where_nothing_says_which_torch(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(PROGRAM)
    told = amplint("check", "a.py").out
    assert "fix: Use `torch.amp.GradScaler`, which needs torch 2.3 (unsafe)" in told
    (found,) = json.loads(amplint("check", "--format", "json", "a.py").out)
    assert (found["fix"]["safety"], found["fix"]["needs_torch"]) == ("unsafe", "2.3")
    ran = amplint("fix", "--apply", "a.py")
    assert "--unsafe would fix 1 more (1 waits for `target-torch`)" in ran.err
    assert (project / "a.py").read_text() == PROGRAM
    shown = amplint("fix", "--unsafe", "a.py").out
    assert shown.startswith("# AMP702: needs torch 2.3\n--- a/a.py\n")
    patched = subprocess.run(["git", "apply"], input=shown.encode(), cwd=project, check=True)
    assert patched.returncode == 0
    assert (project / "a.py").read_text() == NEW


def test_a_fix_that_torch_2_has_waits_for_nothing(amplint: Amplint, project: Path) -> None:
    program = "import torch\nwith torch.cuda.amp.autocast():\n    pass\n"
    (project / "a.py").write_text(program)
    amplint("fix", "--apply", "a.py")
    assert "torch.amp.autocast(" in (project / "a.py").read_text()


@pytest.mark.parametrize(
    ("other", "is_handled"),
    [
        ('if torch.__version__ < "1.13":\n    pass\n', True),
        ('NEW = torch.__version__ >= "2.4"\n', True),
        ('if hasattr(torch.amp, "autocast"):\n    pass\n', True),
        (
            "try:\n    from torch.amp import GradScaler\nexcept ImportError:\n"
            "    from torch.cuda.amp import GradScaler\n",
            True,
        ),
        ('if torch.__version__ < "2.4":\n    raise RuntimeError\n', False),
        ("print(torch.__version__)\n", False),
        ('file.write("==> torch: {}\\n".format(torch.__version__))\n', False),
        ('name = f"v{torch.__version__}"\n', False),
    ],
)
def test_code_for_an_old_torch_says_that_there_is_one(
    amplint: Amplint, project: Path, other: str, is_handled: bool
) -> None:
    (project / "a.py").write_text(PROGRAM)
    (project / "b.py").write_text(f"import torch\n\n{other}")
    (project / "pyproject.toml").write_text("")
    told = amplint("check", ".").out
    assert ("which needs torch 2.3 (b.py allows older ones) (suggestion)" in told) is is_handled


@pytest.mark.parametrize(
    ("required", "option", "written"),
    [
        ("torch>=2.3", "--target-torch=2.3", 'torch.amp.GradScaler("cuda", enabled=on)'),
        ("torch>=2.0", "--target-torch=2.0", "torch.cuda.amp.GradScaler(enabled=on)"),
        ("torch>=1.13", "--select=ALL", "torch.cuda.amp.GradScaler(enabled=on)"),
        ("torch<3", "--select=ALL", "torch.cuda.amp.GradScaler(enabled=on)"),
        ("torch>=2.4", "--select=ALL", 'torch.amp.GradScaler("cuda", enabled=on)'),
        # AMP702 goes on from there, where nothing says how old a torch may be.
        ("torch", "--select=ALL", 'torch.amp.GradScaler("cuda", enabled=on)'),
        ("torch", "--select=AMP417", "torch.cuda.amp.GradScaler(enabled=on)"),
        # It is no rename, whoever else is switched off.
        ("torch>=2.4", "--select=AMP702", 'torch.cuda.amp.GradScaler("cuda:0", enabled=on)'),
    ],
)
def test_a_fix_of_its_own_for_a_newer_torch(
    amplint: Amplint, project: Path, required: str, option: str, written: str
) -> None:
    program = 'import torch\non = True\nscaler = torch.cuda.amp.GradScaler("cuda:0", enabled=on)\n'
    (project / "requirements.txt").write_text(required)
    (project / "a.py").write_text(program)
    amplint("fix", "--apply", "--unsafe", option, "a.py")
    assert (project / "a.py").read_text() == f"import torch\non = True\nscaler = {written}\n"


TAKES_GRADIENTS = """import torch


def step(model, criterion, x, y, optimizer):
    with torch.autocast("cuda"):
        with torch.no_grad():
            guess = model(x)
        loss = criterion(model(x, guess), y)
    loss.backward()
    optimizer.step()


def train(loader, criterion):
    model = torch.nn.Linear(3, 3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        step(model, criterion, x, y, optimizer)
"""


@pytest.mark.parametrize(
    ("required", "is_told"),
    [("torch>=2.4", True), ("torch>=2.11", False), ("torch", False), ("torch<3", False)],
)
def test_a_rule_that_newer_torch_has_made_needless(
    amplint: Amplint, project: Path, required: str, is_told: bool
) -> None:
    (project / "a.py").write_text(TAKES_GRADIENTS)
    (project / "requirements.txt").write_text(required)
    assert ("AMP314" in amplint("check", "a.py").out) is is_told


def test_a_changed_requirement_counts_in_the_next_run(amplint: Amplint, project: Path) -> None:
    """The cache knows it."""
    (project / "a.py").write_text(PROGRAM)
    for required, suggested in (("torch>=1.13", True), ("torch>=2.4", False)):
        (project / "requirements.txt").write_text(required)
        assert ("(suggestion)" in amplint("check", "a.py").out) is suggested


def test_a_fix_may_need_more_than_its_rule(amplint: Amplint, project: Path) -> None:
    """apex is deprecated on any torch; what replaces it is of 2.3."""
    (project / "a.py").write_text(
        "from apex import amp\n\ndef train(model, optimizer, loader):\n"
        '    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")\n'
        "    for x in loader:\n        loss = model(x).mean()\n        optimizer.zero_grad()\n"
        "        with amp.scale_loss(loss, optimizer) as scaled:\n"
        "            scaled.backward()\n        optimizer.step()\n"
    )
    assert "(unsafe)" in amplint("check", "a.py", "--select", "AMP705").out
    told = amplint("check", "a.py", "--select", "AMP705", "--target-torch", "1.13").out
    assert "which needs torch 2.3 (`target-torch` allows 1.13) (suggestion)" in told


def test_the_settings_tell_where_the_floor_comes_from(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(PROGRAM)
    (project / "setup.cfg").write_text("[options]\ninstall_requires = torch>=1.7")
    shown = amplint("check", "--show-settings", "a.py").out
    assert "# target-torch is not set: the lowest torch is 1.7, by setup.cfg\n" in shown
    shown = amplint("check", "--show-settings", "--target-torch", "2.4", "a.py").out
    assert 'target-torch = "2.4"  # the command line\n' in shown
