"""A lane in a process of its own, as users run them. As a program: the process; as a module: its handle.

They talk in lines: the process says ``ready``, is told ``go``, and tells what it saw as JSON when it has ended.
Closing its input stops it.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.machine import peak_memory
from benchmarks.orders import DB, Orders
from migronaut import Migrator
from migronaut.engine.stopping import StopEvent

_ROOT = Path(__file__).parent.parent
_STOP_TIMEOUT = 30.0


class LaneProcess:
    """A program of this folder that waits for its start."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._line()

    @classmethod
    def beside(cls, migrator: Migrator, orders: Orders, *, lease_ttl: float = 60.0) -> Self:
        """A lane for what a migrator has registered."""
        return cls("benchmarks.lane", uri_of(orders), str(migrator.config.migrations_dir), str(lease_ttl))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it is at work, or about to be."""
        return self._process.poll() is None

    def go(self) -> None:
        """Let it begin."""
        self._write("go\n")

    def result(self) -> Any:
        """What it tells at its end."""
        return json.loads(self._line())

    def kill(self) -> None:
        """End it as ``kill -9`` does."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Ask it to stop."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def stop(self) -> None:
        """Ask it to stop, and wait until it has ended."""
        self.close()
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
        if self._process.stdout:
            self._process.stdout.close()

    def told(self, *, within: float) -> bool:
        """Wait until it has told its result, ``within`` seconds at most; whether it has."""
        return bool(select.select([self._output], [], [], within)[0])

    @staticmethod
    def wait_for_first(processes: Sequence[LaneProcess]) -> None:
        """Return as soon as one of them has told its result."""
        select.select([each._output for each in processes], [], [])

    @property
    def _output(self) -> Any:
        return self._process.stdout

    def _line(self) -> str:
        line: str = self._output.readline()
        if not line:
            raise RuntimeError(f"A process of the benchmark ended early, with {self._process.wait()}.")
        return line

    def _write(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()


def uri_of(orders: Orders) -> str:
    """What another process connects to."""
    host, port = orders.client.address or ("127.0.0.1", 27017)
    return f"mongodb://{host}:{port}/?replicaSet=rs0"


def wait_for_go() -> StopEvent | None:
    """In the process: say ``ready``, wait for ``go``; what stops it then, or None when it is not wanted any more."""
    print("ready", flush=True)
    if not sys.stdin.readline():
        return None
    stop = StopEvent()

    def watch() -> None:
        sys.stdin.read()
        stop.set("the benchmark has seen enough")

    threading.Thread(target=watch, daemon=True).start()
    return stop


def main(uri: str, directory: str, lease_ttl: str) -> None:
    """Work as one lane of all that is active, and tell the memory it took."""
    with Migrator(uri=uri, db=DB, migrations_dir=directory, lease_ttl=float(lease_ttl)) as migrator:
        names = migrator.background.active()
        before = peak_memory()
        stop = wait_for_go()
        if stop is None:
            return
        migrator.background.run(names, stop=stop)
    print(json.dumps({"before": before, "peak": peak_memory()}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
