"""Run fixtures in a process of their own, so that none can disturb the tests or another fixture.

The process imports torch once and forks a child for every program (`witness_child.py`). The two
speak JSON, a line a message.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


class Server:
    """Starts the warm process, sends requests, reads answers."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-B", str(Path(__file__).with_name("witness_child.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, directory: Path, module: str, device: str = "cpu") -> dict[str, Any]:
        """Run `module.run(device)` with the directory as sys.path[0] and working directory."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"directory": str(directory), "module": module, "device": device}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "the process that runs fixtures has ended"
        result = json.loads(answer)
        assert isinstance(result, dict)
        return result

    def close(self) -> None:
        self.process.communicate()
