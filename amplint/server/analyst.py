"""The process that analyses, as the server sees it: started when it is needed, and again where it
has ended."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from amplint.server.messages import HEAD, Answer, Request, answer_in, framed

# The modules are found where this process has found them. Python itself would look into the
# directory that the editor has started the server in first, which may hold an `amplint.py`.
START = "import sys; sys.path[:] = sys.argv[1:]; from amplint.server.worker import main; main()"


class Analyst:
    """Sends requests to the process, and hands on its answers.

    Args:
        answered: is called with each answer.
        ended: is called when the process has ended and nobody has asked for it, with its status.
    """

    def __init__(
        self, answered: Callable[[Answer], None], ended: Callable[[int | None], None]
    ) -> None:
        self._answered = answered
        self._ended = ended
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()

    async def send(self, request: Request) -> None:
        """Send a request. One that cannot be sent is answered by `ended`."""
        async with self._sending:  # one process is started, and messages come one by one
            if self._process is None:
                await self._start()
            assert self._process is not None and self._process.stdin is not None
            try:
                self._process.stdin.write(framed(request))
                await self._process.stdin.drain()
            except (BrokenPipeError, ConnectionResetError):
                pass  # who reads the answers notes it

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()

    async def _start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            START,
            *sys.path,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self._reading = asyncio.create_task(self._read(self._process))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while True:
                (size,) = HEAD.unpack(await process.stdout.readexactly(HEAD.size))
                self._answered(answer_in(await process.stdout.readexactly(size)))
        except asyncio.IncompleteReadError:
            pass
        status = await process.wait()
        if self._process is process:
            self._process = None
            self._ended(status)
