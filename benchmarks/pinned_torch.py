"""Safe fixes in projects that pin a torch: does that torch have the names that they write?

    python -m benchmarks.pinned_torch CHECKOUTS [--json FILE]

CHECKOUTS holds one directory for each repository, OWNER+NAME, with a `.git` in it and the commit in
OWNER+NAME.commit. Each that pins a torch is copied and fixed (`amplint fix --apply`); nothing of it
is run. Result: benchmarks/results/pinned_torch.json. Status 1: a name is newer than the pin, or is
not in the table.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from amplint.claim.selectors import version
from amplint.knowledge.since import SINCE
from amplint.project.torch_floor import Floor, TorchFloors

LIMIT = 100  # seconds for a repository
# Further names that fixes write, by the release notes of torch; all of the others are in 1.0.
LATER = {"torch.inference_mode": "1.9", "torch.nn.functional.one_hot": "1.1"}
IN_1_0 = frozenset(
    f"torch.{name}"
    for name in """
    arange as_tensor bool cat clamp cuda cuda.synchronize device empty empty_like eye float float16
    float32 float64 from_numpy full full_like half int int32 int64 isfinite linspace long max mean
    min nn nn.utils nn.utils.clip_grad_norm_ no_grad ones ones_like optim rand rand_like randint
    randn randn_like stack sum tensor uint8 where zeros zeros_like
    """.split()
) | {"torch"}
# The old functions of these names take no device: with an argument they are the new ones.
WITH_DEVICE = frozenset({"torch.is_autocast_enabled"})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/pinned_torch.json"))
    given = parser.parse_args()
    there = sorted(each for each in given.checkouts.iterdir() if each.is_dir())
    with ThreadPoolExecutor(2) as pool:
        found = [each for each in pool.map(judged, there) if each is not None]
    fixed = [each for each in found if each["files"]]
    missing = [name for each in fixed for file in each["files"] for name in file["missing"]]
    result = {
        "pinned": len(found),
        "fixed": len(fixed),
        "files": sum(len(each["files"]) for each in fixed),
        "missing": len(missing),
        "repositories": found,
    }
    given.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print({key: value for key, value in result.items() if key != "repositories"}, missing)
    return 1 if missing else 0


def judged(checkout: Path) -> dict[str, Any] | None:
    """What the safe fixes of a repository write; None where it pins no torch."""
    if not any(floors_in(checkout)):
        return None
    commit = checkout.with_name(f"{checkout.name}.commit").read_text().strip()
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory, checkout.name)
        shutil.copytree(checkout, copy, symlinks=True)
        command = [sys.executable, "-m", "amplint", "fix", "--apply", "--no-cache", "."]
        try:
            done = subprocess.run(
                command, cwd=copy, capture_output=True, text=True, timeout=LIMIT, check=False
            )
            told = done.stderr.strip().splitlines()[-1:]
        except subprocess.TimeoutExpired:
            told = [f"more than {LIMIT} s"]
        files = [
            changed(checkout, path, before, after)
            for path in sorted(checkout.rglob("*.py"))
            if (before := path.read_bytes())
            != (after := (copy / path.relative_to(checkout)).read_bytes())
        ]
    name = checkout.name.replace("+", "/", 1)
    return {"repository": f"{name}@{commit}", "told": told, "files": [one for one in files if one]}


def floors_in(checkout: Path) -> Iterator[Floor]:
    """The pins of the directories with code."""
    floors = TorchFloors()
    for directory in {path.parent for path in checkout.rglob("*.py")}:
        floor = floors.of(directory.as_posix())
        if floor is not None and floor.pinned:
            yield floor


def changed(checkout: Path, path: Path, before: bytes, after: bytes) -> dict[str, Any] | None:
    """The names of torch that a fixed file has more of; None where the file has no pin."""
    floor = TorchFloors().of(path.parent.as_posix())
    if floor is None or not floor.pinned:
        return None
    old, new = names_in(before), names_in(after)
    written = sorted(name for name in new if new[name] > old.get(name, 0))
    missing = [name for name in written if version(since(name)) > version(floor.version)]
    return {
        "file": path.relative_to(checkout).as_posix(),
        "torch": floor.version,
        "by": floor.file.relative_to(checkout).as_posix(),
        "written": written,
        "missing": missing,
    }


def since(name: str) -> str:
    """The torch that brought a name; one that none has, where the tables do not know it."""
    return SINCE.get(name) or LATER.get(name) or ("1.0" if name in IN_1_0 else "99.0")


def names_in(text: bytes) -> dict[str, int]:
    """How often a file names each thing of torch, in full."""
    module = ast.parse(text)
    bound: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                bound[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    found: dict[str, int] = {}
    inner = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Attribute)}
    called = {id(node.func): node for node in ast.walk(module) if isinstance(node, ast.Call)}
    for node in ast.walk(module):
        if not isinstance(node, ast.Attribute | ast.Name) or id(node) in inner:
            continue
        text = ast.unparse(node)
        if not re.fullmatch(r"[\w.]+", text):
            continue  # a method of a tensor, say
        first, dot, rest = text.partition(".")
        name = re.sub(r"^torch\.nn\.F\b", "torch.nn.functional", bound.get(first, "") + dot + rest)
        if name.partition(".")[0] == "torch":
            call = called.get(id(node))
            if name in WITH_DEVICE and call is not None and (call.args or call.keywords):
                name += "(device_type)"
            found[name] = found.get(name, 0) + 1
    return found


if __name__ == "__main__":
    raise SystemExit(main())
