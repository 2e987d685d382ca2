"""Reads which torch an environment of a project has: those of conda, lock files, and images.

Each is read by its lines: only the versions of torch are wanted, and a lock file has many others.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from amplint.util.lazy import lazy_pattern

# Ex) - pytorch=1.13.1=py3.9_cuda11.7_0 ; - "conda-forge::pytorch >=1.8" ; - torch==2.2.2+cu118
ITEM = lazy_pattern(
    r"""^\s*-\s*["']?(?:[\w./-]+::)?(?:pytorch|torch)(?:-gpu|-cpu)?(?![\w.-])"""
    r"""\s*(?:\[[^\]]*\])?\s*([^;@#"'\n]*)""",
    re.MULTILINE,
)
LOCKED = lazy_pattern(
    r"""^[\s-]*name\s*[=:]\s*["']?(?:py)?torch["']?\s*\n\s*version\s*[=:]\s*["']?(\d[\d.]*\d)"""
    r"""|/pytorch-(\d[\d.]*\d)-\w+\.(?:conda|tar\.bz2)""",
    re.MULTILINE,
)

CONTINUED = lazy_pattern(r"\\[ \t]*\n")
ARGUMENT = lazy_pattern(r"^\s*ARG\s+(\w+)=[\"']?([^\s\"']+)", re.MULTILINE | re.IGNORECASE)
BLANK = lazy_pattern(r"\$\{?(\w+)(?::-[^}]*)?\}?")
INSTALLS = lazy_pattern(
    r"\b(?:pip[\d.]*|conda|mamba|micromamba)\s+(?:install|create|add)\b([^&|;\n]*)"
)
# Ex) torch==1.13.1+cu117, "torch>=2.0,<2.1", pytorch=1.12, pytorch::pytorch==1.12
INSTALLED = lazy_pattern(
    r"""(?<![\w./=-])(?:[\w-]+::)?(?:pytorch|torch)(?:\[[^\]]*\])?([=<>~!][^\s"']*)"""
)
FROM = lazy_pattern(r"^\s*FROM\s+(?:--\S+\s+)?(\S+)", re.MULTILINE | re.IGNORECASE)
IMAGE = lazy_pattern(r"(?:^|/)pytorch/pytorch:(\d+\.\d+(?:\.\d+)?)")
NGC_IMAGE = lazy_pattern(r"^nvcr\.io/nvidia/pytorch:(\d\d\.\d\d)")
# Of NVIDIA's images, from each tag on: the newest release of torch that it has all of. Their torch
# is mostly on the way to the next: that of 22.11 calls itself 1.14.0a0, and has all of 1.13.
# https://docs.nvidia.com/deeplearning/frameworks/pytorch-release-notes/ ("is based on")
# Of these, the pages of 20.02 and 25.12 were read; the other rows were not held against theirs.
NGC = (
    ("00.00", "1.0"),
    ("20.01", "1.3"),
    ("20.03", "1.4"),
    ("20.06", "1.5"),
    ("20.08", "1.6"),
    ("20.11", "1.7"),
    ("21.03", "1.8"),
    ("21.07", "1.9"),
    ("21.11", "1.10"),
    ("22.03", "1.11"),
    ("22.06", "1.12"),
    ("22.11", "1.13"),
    ("23.04", "2.0"),
    ("23.11", "2.1"),
    ("24.02", "2.2"),
    ("24.05", "2.3"),
    ("24.08", "2.4"),
    ("24.11", "2.5"),
    ("25.02", "2.6"),
    ("25.05", "2.7"),
    ("25.09", "2.8"),
    ("25.11", "2.9"),
)


def of_conda(text: str) -> Iterator[str]:
    """Of the items of an environment, those for pip among them."""
    yield from (match[1] for match in ITEM.finditer(text))


def of_lock(text: str) -> Iterator[str]:
    yield from (f"=={match[1] or match[2]}" for match in LOCKED.finditer(text))


def of_dockerfile(text: str) -> Iterator[str]:
    """Of what it installs; where that is no torch of a known version, of its images."""
    arguments = dict(ARGUMENT.findall(text))
    plain = BLANK.sub(lambda blank: arguments.get(blank[1], blank[0]), CONTINUED.sub(" ", text))
    lines = "\n".join(line for line in plain.splitlines() if not line.lstrip().startswith("#"))
    installed = [
        match[1] for call in INSTALLS.finditer(lines) for match in INSTALLED.finditer(call[1])
    ]
    yield from installed or (f"=={torch}" for image in FROM.findall(lines) for torch in _in(image))


def _in(image: str) -> Iterator[str]:
    """The torch of an image."""
    if match := IMAGE.search(image):
        yield match[1]
    elif tagged := NGC_IMAGE.search(image):
        tags = [tag for tag, _ in NGC]
        yield NGC[bisect_right(tags, tagged[1]) - 1][1]
