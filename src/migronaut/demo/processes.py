"""The worker processes: started, looked at, killed with all that they started themselves, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from attrs import frozen

from migronaut.errors import redact

_STOP_TIMEOUT = 15.0

# Run in the child before it becomes the worker: nothing of the demo outlives it, whatever ended it.
_BOUND_TO_PARENT = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


@frozen(kw_only=True)
class WorkerCommand:
    """How a worker is started.

    Args:
        arguments: Of ``python -m migronaut``.
        environment: All of it.
        directory: Where it runs, and where its output is kept.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: Path

    @property
    def shown(self) -> str:
        """As one would type it."""
        return " ".join(("migronaut", *self.arguments))


class WorkerProcess:
    """One worker, and the processes that it starts."""

    def __init__(self, number: int, command: WorkerCommand) -> None:
        self.number = number
        self._log = command.directory / f"worker-{number}.log"
        program = [sys.executable, "-m", "migronaut", *command.arguments]
        if sys.platform == "linux":
            program = [sys.executable, "-I", "-S", "-c", _BOUND_TO_PARENT, str(os.getpid()), *program]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                program,
                env=command.environment,
                cwd=command.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal is for the demo, which ends its workers
            )

    @property
    def running(self) -> bool:
        """Whether it is alive."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """What it ended with; None while it runs."""
        return self._process.poll()

    @property
    def last_words(self) -> str:
        """The last line of its output, fit to be shown."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        return redact(next((line for line in reversed(lines) if line.strip()), "it said nothing"))

    def processes(self) -> frozenset[int]:
        """Ids of the worker and of everything that it started."""
        children = _children()
        found, todo = set[int](), [self._process.pid]
        while todo:
            pid = todo.pop()
            found.add(pid)
            todo += children.get(pid, ())
        return frozenset(found)

    def freeze(self) -> frozenset[int]:
        """Let it do nothing until ``thaw`` or ``kill``; ids of its processes."""
        if os.name == "posix":
            _signal([self._process.pid], signal.SIGSTOP)
            _signal(self.processes(), signal.SIGSTOP)
        return self.processes()

    def thaw(self) -> None:
        """Let it go on."""
        if os.name == "posix":
            _signal(self.processes(), signal.SIGCONT)

    def kill(self) -> None:
        """End it and everything that it started as ``kill -9`` does."""
        if os.name == "posix":
            _signal(self.freeze(), signal.SIGKILL)
        else:
            self._process.kill()
        self._process.wait()

    def ask_to_stop(self) -> None:
        """Ask it to end its batch and to stop."""
        if self.running:
            self._process.terminate()

    def stop(self) -> None:
        """Wait until it has stopped; kill it when that takes too long."""
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()


class Workers:
    """The workers of a demo; none is left when the block ends."""

    def __init__(self, count: int, command: WorkerCommand) -> None:
        self._command = command
        self._count = count
        self._all: list[WorkerProcess] = []

    def __enter__(self) -> Self:
        try:
            for number in range(1, self._count + 1):
                self._all.append(WorkerProcess(number, self._command))
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._kill()
            return
        for worker in self._all:
            worker.ask_to_stop()
        for worker in self._all:
            worker.stop()

    @property
    def running(self) -> tuple[WorkerProcess, ...]:
        """Those that are alive."""
        return tuple(worker for worker in self._all if worker.running)

    @property
    def ended(self) -> tuple[WorkerProcess, ...]:
        """Those that are not."""
        return tuple(worker for worker in self._all if not worker.running)

    def _kill(self) -> None:
        for worker in self.running:
            worker.kill()


def _signal(pids: Sequence[int] | frozenset[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _children() -> Mapping[int, Sequence[int]]:
    """Parent to children, of all processes of this machine; empty where nobody can tell."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    return children


def _parents() -> list[tuple[int, int]]:
    proc = Path("/proc")
    if not (proc / "self" / "stat").exists():
        return _parents_by_ps() if os.name == "posix" else []
    found = []
    for entry in proc.iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:  # it ended meanwhile
                continue
            # The second field is the program's name in parentheses, with any characters in it.
            found.append((int(entry.name), int(stat.rpartition(")")[2].split()[1])))
    return found


def _parents_by_ps() -> list[tuple[int, int]]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    return [(int(pid), int(parent)) for pid, parent in map(str.split, listed.stdout.splitlines())]
