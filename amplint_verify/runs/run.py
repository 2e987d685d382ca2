"""Run programs in processes of their own: whatever they do ends in an observation.

A crash, a hang, a memory blow-up, `sys.exit`, a flood of output: none reaches the process that
asks. Programs run with the rights of who starts amplint; this is no sandbox.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from amplint_verify import torch_range
from amplint_verify.backends.choice import BACKENDS
from amplint_verify.recording.observation import Observation, RunOutcome, to_json
from amplint_verify.runs.spec import Spec

KEPT = 8192  # bytes of what a program printed last
CHUNK = 1 << 16
GRACE = 0.05  # seconds between looks at whether a silent process still lives
ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # reproducible products, see torch's notes on randomness
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
# What stands for a GPU is not to find one: it is the same everywhere, and a fork cannot use it.
WITHOUT_GPU = {"CUDA_VISIBLE_DEVICES": ""}


# ------------------------------------------------------------------------------- one process


@dataclass
class ChildOutput:
    """The output of a process.

    Args:
        answer: what it wrote to its pipe.
        printed: the end of what it printed.
        status: as `os.waitpid` returns it; None of one that had to be killed.
    """

    answer: bytes = b""
    printed: bytes = b""
    status: int | None = None


def collect(pid: int, answers: int, output: int, spec: Spec) -> Observation:
    """Wait for a process that leads a process group, then end the group.

    Args:
        pid: of the process, a child of this one.
        answers: where it writes one line of JSON; closed here.
        output: what it prints; closed here, and read, so that it cannot block.
        spec: what it was asked.
    """
    child = ChildOutput()
    try:
        listen(pid, answers, output, time.monotonic() + spec.seconds, child)
    finally:
        os.close(answers)
        os.close(output)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        if child.status is None:
            _, status = os.waitpid(pid, 0)
            child.status = status if child.answer.endswith(b"\n") else None
    return judged(child, spec)


def listen(pid: int, answers: int, output: int, deadline: float, child: ChildOutput) -> None:
    """Read both pipes until there is an answer, or the process or its time has come to an end."""
    with selectors.DefaultSelector() as selector:
        for pipe in (answers, output):
            os.set_blocking(pipe, False)
            selector.register(pipe, selectors.EVENT_READ)
        while not child.answer.endswith(b"\n") and time.monotonic() < deadline:
            for key, _ in selector.select(GRACE):
                data = os.read(key.fd, CHUNK)
                if not data:
                    selector.unregister(key.fd)
                elif key.fd == answers:
                    child.answer += data
                else:
                    child.printed = (child.printed + data)[-KEPT:]
            if child.status is None:
                ended, status = os.waitpid(pid, os.WNOHANG)
                child.status = status if ended else None
            elif not selector.select(0):
                return  # it has ended, and nothing is left to read


def judged(child: ChildOutput, spec: Spec) -> Observation:
    """The observation that a process gave, or what its silence means."""
    printed = child.printed.decode(errors="replace").strip()
    if child.answer.endswith(b"\n"):
        observation = Observation.from_json(json.loads(child.answer))
        is_good = observation.outcome is RunOutcome.OK
        return observation if is_good else replace(observation, printed=printed)
    if child.status is None:
        text = f"no answer within {spec.seconds:g} s"
        return Observation(spec.backend, "", RunOutcome.TIMEOUT, "timeout", text)
    if os.WIFSIGNALED(child.status):
        name = signal.Signals(os.WTERMSIG(child.status)).name
        return Observation(spec.backend, "", RunOutcome.KILLED, name, printed)
    code = os.WEXITSTATUS(child.status)
    return Observation(spec.backend, "", RunOutcome.NO_RESULT, f"exit {code}", printed)


def fresh(spec: Spec) -> Observation:
    """Run a spec in a new process. Importing torch takes it seconds; see `ForkServer`."""
    answers, answering = os.pipe()
    output, printing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-B", "-m", "amplint_verify.runs.child", str(answering)],
        stdin=subprocess.PIPE,
        stdout=printing,
        stderr=printing,
        pass_fds=(answering,),
        start_new_session=True,
        env=environment(),
    )
    os.close(answering)
    os.close(printing)
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(to_json(spec)).encode())
        process.stdin.close()
    observation = collect(process.pid, answers, output, spec)
    process.returncode = 0  # collect has waited for it
    return observation


def environment() -> dict[str, str]:
    """The environment of children: this amplint, one thread, nothing left to chance."""
    return {**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


# ------------------------------------------------------------------------------- a warm process


class ForkServer:
    """A process that has imported torch, and forks a child for every program.

    Not for `cuda`: a process that has touched CUDA cannot fork.
    """

    def __init__(self, backend: str) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the server)
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-m", "amplint_verify.runs.child", "--serve", backend],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**environment(), **WITHOUT_GPU},
        )

    def run(self, spec: Spec) -> Observation:
        """The observation of a spec: "not simulable" if the server itself has ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(to_json(spec)).encode() + b"\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if line:
            return Observation.from_json(json.loads(line))
        self.errors.seek(0)
        error = self.errors.read()[-KEPT:].decode(errors="replace").strip().rpartition("\n")[2]
        text = torch_range.not_started(spec.backend, error, torch_range.installed())
        return Observation(spec.backend, "", RunOutcome.NOT_SIMULABLE, "RuntimeError", text)

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.communicate()
        self.errors.close()


class Runner:
    """Runs specs, on whichever back end they ask for; servers are started when needed.

    Threads may share one. A server runs one program at a time; what gets a process of its own does
    not wait for others.
    """

    def __init__(self) -> None:
        self._servers: dict[str, ForkServer] = {}
        self._turns = {name: threading.Lock() for name in BACKENDS}

    def run(self, spec: Spec) -> Observation:
        """The observation of a spec. On `sim`, both guesses are tried if any was needed."""
        first = self.once(spec)
        if spec.backend != "sim" or not (first.guesses or first.outcome is not RunOutcome.OK):
            return first
        return merged(first, self.once(replace(spec, guess=not spec.guess)))

    def once(self, spec: Spec) -> Observation:
        """The observation of a spec, with the guess that it names."""
        if spec.backend == "cuda" or not hasattr(os, "fork"):
            return fresh(spec)
        with self._turns[spec.backend]:
            if spec.backend not in self._servers:
                self._servers[spec.backend] = ForkServer(spec.backend)
            return self._servers[spec.backend].run(spec)

    def close(self) -> None:
        for server in self._servers.values():
            server.close()


def merged(one: Observation, other: Observation) -> Observation:
    """Two runs that guessed differently, as one: what only one of them met depends on the guess."""
    if one.outcome is other.outcome:
        return one
    good, bad = (one, other) if one.outcome is RunOutcome.OK else (other, one)
    if good.outcome is not RunOutcome.OK:
        return one
    problem = f"{bad.error}: {bad.text}".partition("\n")[0]
    return replace(good, notes=(*good.notes, f"depends on values: another guess met {problem}"))


@contextmanager
def running() -> Iterator[Runner]:
    """A runner whose processes end with the block."""
    runner = Runner()
    try:
        yield runner
    finally:
        runner.close()
