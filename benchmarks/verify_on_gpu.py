"""`amplint verify` on a machine that has a GPU and torch, and nothing else: no index, no amplint.

    python -m benchmarks.verify_on_gpu FILE.pyz [--python 3.12]    where packages can be had
    python FILE.pyz [--out DIRECTORY] [ARGUMENTS of verify]        on the machine with the GPU

The first command writes one file that holds amplint and all that it needs for a version of Python.
The second, without further arguments, runs `amplint verify --rules --self-test --bench` and writes
verify-GPU-torchVERSION.json and .html to a directory (by default, where it is called); what belongs
into benchmarks/results is that JSON. Where torch sees no GPU, "cpu" stands in the place of its
name. It ends with the status of `amplint verify`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipapp
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INSIDE = "site"  # the directory of the archive that holds the packages
ARGUMENTS = ("--rules", "--self-test", "--bench")
# Of wheels with compiled code: Linux on x86-64, with a C library since 2014.
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64")


# ------------------------------------------------------------------------------- where it is made


def pack(target: Path, python: str) -> None:
    """Write the archive. Raises subprocess.CalledProcessError if a package is not to be had."""
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    with tempfile.TemporaryDirectory(prefix="amplint-") as name:
        wheels, tree = Path(name, "wheels"), Path(name, "tree")
        build = ("wheel", "--no-deps", "--wheel-dir", str(wheels), str(sources(Path(name))))
        subprocess.run([*pip, *build], check=True)
        (ours,) = wheels.glob("amplint-*.whl")
        platforms = [word for each in PLATFORMS for word in ("--platform", each)]
        only = ("--only-binary=:all:", "--python-version", python, "--implementation", "cp")
        download = ("download", "--dest", str(wheels), *only, *platforms, str(ours))
        subprocess.run([*pip, *download], check=True)
        for wheel in wheels.glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(tree / INSIDE)
        shutil.copy(__file__, tree / "__main__.py")
        zipapp.create_archive(tree, target, compressed=True)


def sources(directory: Path) -> Path:
    """A copy of what the wheel is built from: a stale build/ of the checkout must not add to it."""
    copy = directory / "sources"
    unwanted = shutil.ignore_patterns("__pycache__")
    for name in ("amplint", "amplint_verify", "rules", "fixtures", "benchmarks/verify_programs"):
        shutil.copytree(ROOT / name, copy / name, ignore=unwanted)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    return copy


# ------------------------------------------------------------------------------- where it is run


def run(archive: Path, out: Path, arguments: Sequence[str]) -> int:
    """Run `amplint verify` from the archive, and keep its report."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="amplint-") as name:
        # Compiled packages cannot be imported from an archive.
        zipfile.ZipFile(archive).extractall(name)
        site, report = Path(name, INSIDE), Path(name, "report")
        command = [sys.executable, "-m", "amplint", "verify", *(arguments or ARGUMENTS)]
        path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
        # Where it is called, a checkout of amplint would be imported in the place of this one.
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
        done = subprocess.run([*command, "--report", str(report)], env=environment, check=False)
        stem = out / f"verify-{machine()}"
        for suffix in (".json", ".html"):
            written = report / f"verify{suffix}"
            if written.exists():
                shutil.copy(written, f"{stem}{suffix}")
                print(f"wrote {stem}{suffix}", file=sys.stderr)
    return done.returncode


def machine() -> str:
    """Ex) "nvidia-h200-torch2.11.0" """
    code = (
        "import torch; there = torch.cuda.is_available();"
        "print(torch.cuda.get_device_name(0) if there else 'cpu');"
        "print(torch.__version__.partition('+')[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    gpu, version = done.stdout.splitlines()
    return f"{re.sub('[^a-z0-9]+', '-', gpu.lower()).strip('-')}-torch{version}"


def main(arguments: Sequence[str] | None = None) -> int:
    archive = Path(sys.argv[0])
    if zipfile.is_zipfile(archive):
        parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
        parser.add_argument("--out", type=Path, default=Path())
        given, rest = parser.parse_known_args(arguments)
        return run(archive, given.out, rest)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="to write, e.g. verify.pyz")
    parser.add_argument("--python", default="3.12", help="of the machine with the GPU")
    options = parser.parse_args(arguments)
    pack(options.file, options.python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
