"""One server program as a child process: started on a port of its own, watched, ended."""

from __future__ import annotations

import atexit
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from migronaut.errors import EmbeddedServerError, redact

LOOPBACK = "127.0.0.1"

# Below the range from which systems take the ports of outgoing connections: a port there stays ours while the
# server is down, whereas a client that keeps knocking on an ephemeral port can end up connected to itself.
_PORTS = range(15_000, 32_000)
_START_TIMEOUT = 60.0
_STOP_TIMEOUT = 30.0
_POLL = 0.01

# Run in the child before it becomes the server. A program of its own, because code between fork and exec
# (preexec_fn) can deadlock when the parent has threads. The comparison closes the gap in which the parent died first.
_BOUND_TO_PARENT = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


class EmbeddedServer(ABC):
    """A server program that lives no longer than the process that started it.

    On Linux the server is killed when its parent is, whatever the signal, provided that it was started from
    the main thread: the kernel ties a child to the *thread* that created it, so a server started from another thread
    is stopped only by :meth:`stop` or at the normal end of the interpreter. So it is on other systems.
    """

    name: ClassVar[str]

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._directory: Path | None = None
        self._port: int | None = None
        self._started_by = os.getpid()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the server process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the server.

        Raises:
            EmbeddedServerError: The server is not running.
        """
        if self._process is None or self._process.poll() is not None:
            raise EmbeddedServerError(f"{self.name} is not running; call start() first.")
        return self._process.pid

    @property
    def port(self) -> int:
        """The port on the loopback interface; the same for the whole life of this object.

        Raises:
            EmbeddedServerError: The server was never started.
        """
        if self._port is None:
            raise EmbeddedServerError(f"{self.name} was never started; call start() first.")
        return self._port

    def start(self) -> Self:
        """Start the server and wait until it is ready; a running one is left as it is.

        Returns:
            The server itself.

        Raises:
            EmbeddedServerError: It is not installed, cannot run here, or is not ready within a minute.
        """
        if self.running:
            return self
        deadline = time.monotonic() + _START_TIMEOUT
        self._started_by = os.getpid()
        atexit.register(self._stop_at_exit)
        try:
            self._launch(deadline)
            self._settle(deadline)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the server and remove its files; does nothing when it is not there."""
        atexit.unregister(self._stop_at_exit)
        self._terminate()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def kill(self) -> None:
        """End the server as ``kill -9`` does: at once, its files left behind for :meth:`restart`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self) -> Self:
        """Start again on the same port, with the files that :meth:`kill` left; a running server is ended first.

        After :meth:`stop` there are no files, and the server starts empty.

        Returns:
            The server itself.

        Raises:
            EmbeddedServerError: As for :meth:`start`.
        """
        self._terminate()
        return self.start()

    @abstractmethod
    def _command(self, port: int, directory: Path) -> Sequence[str]:
        """The server's program and arguments."""

    @abstractmethod
    def _answering_pid(self, port: int) -> int | None:
        """Ask whoever listens on ``port`` for its process id; None when there is no such answer (yet)."""

    @abstractmethod
    def _environment(self, directory: Path) -> Mapping[str, str]:
        """The environment the program needs; ``directory`` may be used for it."""

    @abstractmethod
    def _settle(self, deadline: float) -> None:
        """Do what the server needs between its first answer and being ready."""

    def _wait_until(self, ready: Callable[[], bool], deadline: float) -> None:
        while not ready():
            if time.monotonic() > deadline:
                raise EmbeddedServerError(f"{self.name} was not ready within {_START_TIMEOUT:.0f} s.")
            time.sleep(_POLL)

    def _launch(self, deadline: float) -> None:
        directory = self._directory = self._directory or Path(tempfile.mkdtemp(prefix="migronaut-"))
        environment = self._environment(directory)
        log = directory / "server.log"
        while True:
            port = self._port or _free_port()
            self._process = _spawn(self._command(port, directory), environment, log)
            if self._comes_up(self._process, port, deadline):
                self._port = port
                return
            # Another process may have taken the port since we looked; everything else is final.
            if "Address already in use" not in _text(log) or time.monotonic() > deadline:
                raise EmbeddedServerError(f"{self.name} did not start: {redact(_last_complaint(log))}")
            log.unlink()

    def _comes_up(self, process: subprocess.Popen[bytes], port: int, deadline: float) -> bool:
        self._wait_until(lambda: process.poll() is not None or self._answering_pid(port) == process.pid, deadline)
        return process.poll() is None

    def _terminate(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def _stop_at_exit(self) -> None:
        # A fork inherits the exit handlers, but the server is not its own.
        if os.getpid() == self._started_by:
            self.stop()


def _spawn(command: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    if sys.platform == "linux" and threading.current_thread() is threading.main_thread():
        command = [sys.executable, "-I", "-S", "-c", _BOUND_TO_PARENT, str(os.getpid()), *command]
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in the terminal is for us, not for the server
        )


def _free_port() -> int:
    for port in random.sample(_PORTS, k=100):
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return port
    raise EmbeddedServerError("No free port was found on the loopback interface; close some servers.")


def _text(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


def _last_complaint(log: Path) -> str:
    lines = _text(log).splitlines() or ["it said nothing"]
    complaints = [line for line in lines if any(sign in line for sign in ('"s":"E"', '"s":"F"', "rror"))]
    return (complaints or lines)[-1]
