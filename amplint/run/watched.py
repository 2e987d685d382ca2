"""A check that watches a project (`check --watch`), and the runs that let it work for them.

A result never goes through the socket. A run asks whether its project is watched with its settings
and by its version; then it waits, and looks into the cache again, where each entry is sealed, and
named by all that decides about it. So it reports what it would have found by itself, and it does
find it by itself where nobody answers.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import socketserver
import stat
import threading
from pathlib import Path

from amplint.run.seal import state_directory

DIRECTORY = "amplint/watched"
LONGEST = 1000  # bytes of a question
SIGN = 0.5  # seconds between two signs that the check is still at work
PATIENCE = 5.0  # seconds that a run waits for the next of them
WAIT, DONE = b"w", b"d"


def address(root: Path) -> Path:
    """The socket for a project. Raises OSError where another user might listen
    there."""
    directory = state_directory() / DIRECTORY
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{directory} is open to others")
    # The whole path of a socket may have 107 bytes, with some systems 103.
    return directory / hashlib.blake2b(os.fsencode(root), digest_size=8).hexdigest()


def is_checked(root: Path, analysis: str) -> bool:
    """Whether somebody who watches a project has checked it as it is now.

    Args:
        analysis: the digest of all but the texts that decides about the result.
    """
    try:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(PATIENCE)
            stream.connect(str(address(root)))
            stream.sendall(analysis.encode() + b"\n")
            while (answer := stream.recv(1)) == WAIT:
                pass
            return answer == DONE
    except (AttributeError, OSError):  # a system without such sockets; nobody listens
        return False


class Listener:
    """Listens for runs that ask for a check of a project.

    Attributes:
        analysis: what the last check was, see `is_checked`: all who ask for another are refused.
        question: is set when somebody waits.
    """

    def __init__(self) -> None:
        self.analysis = ""
        self.question = threading.Event()
        self._waiting: list[threading.Event] = []
        self._begun: list[threading.Event] = []
        self._place: Path | None = None
        self._server: socketserver.BaseServer | None = None

    def listen(self, root: Path, analysis: str) -> None:
        """Listen for who asks for this analysis. Where that is not possible, nothing is said: what
        they find is the same."""
        self.analysis = analysis
        if self._place is None:
            with contextlib.suppress(AttributeError, OSError):
                directory = state_directory() / DIRECTORY
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._place = address(root)
                self._serve(self._place)

    def _serve(self, place: Path) -> None:
        with socket.socket(socket.AF_UNIX) as other, contextlib.suppress(OSError):
            other.connect(str(place))
            return  # somebody watches it already
        place.unlink(missing_ok=True)
        listener = self

        class Question(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):  # it waits no longer
                    if self.rfile.readline(LONGEST).strip().decode() == listener.analysis:
                        done = listener.wait()
                        while not done.wait(SIGN):
                            self.wfile.write(WAIT)
                        self.wfile.write(DONE)

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """Nothing is said of what is no question."""

        self._server = Server(str(place), Question)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def wait(self) -> threading.Event:
        """An event that is set after the next check that begins."""
        done = threading.Event()
        self._waiting.append(done)
        self.question.set()
        return done

    def begin(self) -> None:
        """A check begins of the project as it is now, unless it is the one that was checked."""
        self.question.clear()
        waiting, self._waiting = self._waiting, []
        self._begun += waiting

    def end(self) -> None:
        """The check that has begun is done."""
        for done in self._begun:
            done.set()
        self._begun.clear()

    def close(self) -> None:
        """Listen no longer."""
        if self._server is not None and self._place is not None:
            self._server.shutdown()
            self._server.server_close()
            self._place.unlink(missing_ok=True)
