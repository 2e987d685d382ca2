"""Installs amplint from the action's own checkout, into an environment of its own.

The Python of the workflow stays as it is: the project may need other versions of amplint's
dependencies. Reads what GitHub sets (GITHUB_ACTION_PATH, RUNNER_TEMP, GITHUB_OUTPUT).
"""

import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    environment = Path(os.environ["RUNNER_TEMP"], "amplint")
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    steps = (
        [sys.executable, "-I", "-m", "venv", str(environment)],
        [str(python), "-I", "-m", "pip", "install", "--quiet", os.environ["GITHUB_ACTION_PATH"]],
    )
    for step in steps:
        if subprocess.run(step, check=False).returncode:
            print(
                "::error title=amplint::amplint could not be installed; the log says why. "
                "It needs Python 3.10 or later: set it up with actions/setup-python before"
            )
            return 2
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8", newline="\n") as outputs:
        print(f"python={python}", file=outputs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
