"""The harness on the installed torch: the two commands on the example, and the self-test.

    python -m benchmarks.torch_range

Adds or replaces the row of this torch in results/torch_range.json. To be run with the lowest torch
that is supported and with the newest; `amplint_verify/torch_range.py` names both.
"""

from __future__ import annotations

import datetime
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from amplint_verify import torch_range

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "torch_range.json"
SCRIPT = ("--steps", "3", "--script", "train.py")
# Each command with the statuses that it may end with: 1 of `observe` is that it has findings.
COMMANDS = {
    "verify": (("verify", ".", *SCRIPT), {0}),
    "observe": (("observe", ".", *SCRIPT), {1}),
    "self-test": (("verify", "--self-test"), {0}),
}


def run(arguments: tuple[str, ...], place: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "amplint", *arguments]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)


def main() -> int:
    version = torch_range.installed()
    row: dict[str, object] = {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "python": platform.python_version(),
    }
    failed = False
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "examples"
        shutil.copytree(ROOT / "examples", place, ignore=shutil.ignore_patterns("__pycache__"))
        for name, (arguments, good) in COMMANDS.items():
            done = run(arguments, place)
            lines = [line for line in done.stdout.splitlines() if line.strip()]
            row[name] = {"status": done.returncode, "output": lines[-8:]}
            if done.returncode not in good:
                failed = True
                print(f"{name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    rows[version] = row
    by_version = sorted(rows.items(), key=lambda item: torch_range.minor(item[0]))
    RESULTS.write_text(json.dumps(dict(by_version), indent=1) + "\n")
    print(f"torch {version}: {'failed' if failed else 'runs'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
