"""Programs that want to be started by torchrun, and were not."""

from __future__ import annotations

import re
from collections.abc import Mapping

from amplint_verify.recording.observation import Observation, RunOutcome

# The variables that torchrun sets (torch/distributed/run.py, "Environment Variables"), as they are
# for one process.
OF_ONE_PROCESS: Mapping[str, str] = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}
# As torch/distributed/rendezvous.py says it.
EXPECTED = re.compile(r"environment variable (\w+) expected, but not set")
READ = re.compile(r"(?:environ|getenv)\b[^#]*[\"'](\w+)[\"']")


def missing(original: Observation, line: str, environment: Mapping[str, str]) -> str | None:
    """The sentence that says what a program misses that no launcher has started.

    Args:
        original: its run.
        line: the one that raised.
        environment: the variables that it had.

    Returns:
        None, if its error has another cause.
    """
    if original.outcome is not RunOutcome.EXCEPTION:
        return None
    names = [*EXPECTED.findall(original.text), *READ.findall(line)]
    if original.error == "KeyError":
        names.append(original.text.strip("'"))
    unset = [name for name in OF_ONE_PROCESS if name not in environment]
    named = next((name for name in names if name in unset), None)
    if named is None:
        return None
    values = " ".join(f"{name}={OF_ONE_PROCESS[name]}" for name in unset)
    return (
        f"{named} is not set, which a launcher such as torchrun sets ({original.place}); to run it "
        f"as one process, put this before `amplint`: {values}"
    )
