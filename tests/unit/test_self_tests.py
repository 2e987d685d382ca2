"""What is a self-test of a library module, and what is a script that trains."""

from __future__ import annotations

import pytest

from amplint.analyses.self_tests import SelfTests
from amplint.facts.program import Program
from amplint.ir.file_index import File
from amplint.ir.file_set import Files

MODULE = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return x

def demo(steps=3):
    net = Net()
    for _ in range(steps):
        net(torch.randn(2, 2)).sum().backward()

if __name__ == "__main__":
    demo()
"""
IMPORT = "from net import Net\n"


def loops(module: str, importer: str = IMPORT, path: str = "use.py") -> list[str]:
    """The functions whose loops are self-tests; the module itself is called "main"."""
    texts = {"net.py": module, path: importer}
    files = Files({name: File(name, text) for name, text in texts.items()})
    found = Program(files).about("net.py").fact(SelfTests).loops
    return [function.partition("::")[2] or "main" for function, _ in found]


def changed(*pairs: tuple[str, str]) -> str:
    text = MODULE
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    "importer", [IMPORT, "import net\n", "def f():\n    from net import Net\n"]
)
def test_it_stands_in_a_module_that_others_import(importer: str) -> None:
    assert loops(MODULE, importer) == ["demo"]


@pytest.mark.parametrize(
    ("module", "found"),
    [
        (changed(("def demo", "def _demo"), ("    demo()", "    _demo()")), ["_demo"]),
        (changed(("demo(steps=3)", "_demo(steps)"), ("    demo()", "    _demo(3)")), ["_demo"]),
        (changed(("    demo()", "    for _ in range(3):\n        demo()")), ["main", "demo"]),
        (changed(('__name__ == "__main__"', '"__main__" == __name__')), ["demo"]),
        (changed(("    demo()", "    if torch.cuda.is_available():\n        demo()")), ["demo"]),
    ],
)
def test_it_is_what_main_alone_runs(module: str, found: list[str]) -> None:
    assert loops(module) == found


@pytest.mark.parametrize(
    ("module", "importer"),
    [
        (MODULE, "import os\n"),
        (MODULE, "from net import Net, demo\n"),
        (MODULE, "import net\nnet.demo()\n"),
        (changed(("if __name__", "demo()\nif __name__")), IMPORT),
        (changed(("demo(steps=3)", "demo(steps)"), ("    demo()", "    demo(3)")), IMPORT),
        (changed(("torch.randn(2, 2)", "torch.load('x.pt')")), IMPORT),
        (changed(("range(steps)", "get_loader()")), IMPORT),
        (changed(("import torch\n", "import argparse\nimport torch\n")), IMPORT),
        (changed(("    demo()", "    demo(**vars(parse_args()))")), IMPORT),
        (changed(("__main__", "__mp_main__")), IMPORT),
    ],
    ids=[
        "not imported", "imported by name", "called from elsewhere", "run on import", "for users",
        "no random numbers", "a loader", "a command line", "arguments", "another name",
    ],
)  # fmt: skip
def test_what_may_train_is_none(module: str, importer: str) -> None:
    assert loops(module, importer) == []


def test_what_tests_import_is_a_script_all_the_same() -> None:
    assert loops(MODULE, IMPORT, "tests/test_net.py") == []
