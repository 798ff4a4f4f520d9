"""Calling the installed command as a user does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from attrs import frozen

NAME = "0001_orders.py"
BACKGROUND = '''"""Orders get shipping."""
from migronaut import Background

def migrate(doc):
    doc["shipping"] = {"address": doc.pop("address")}
    return doc

background = Background(collection="orders", from_version=1, to_version=2, migrate=migrate, pause=0)
'''


@frozen
class Called:
    """How a call ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on standard output."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """What a user reads: one line, no traceback."""
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err + self.out
        return lines[0]


@frozen
class Cli:
    """The command in a project directory, with settings in the environment."""

    cwd: Path
    settings: Mapping[str, str]

    def __call__(self, *arguments: str, timeout: float = 60, **settings: str) -> Called:
        process = self.start(*arguments, **settings)
        out, err = process.communicate(timeout=timeout)
        return Called(process.returncode, out, err)

    def start(self, *arguments: str, stdout: IO[str] | int = subprocess.PIPE, **settings: str) -> subprocess.Popen[str]:
        """Start it and leave it running."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MIGRONAUT_")}
        return subprocess.Popen(
            [sys.executable, "-m", "migronaut", *arguments],
            cwd=self.cwd,
            env=inherited | dict(self.settings) | settings,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def write(self, name: str, text: str) -> None:
        """Put a migration file into the project."""
        directory = self.cwd / "migrations"
        directory.mkdir(exist_ok=True)
        (directory / name).write_text(text)


def interrupt(process: subprocess.Popen[str]) -> None:
    """What Ctrl-C does."""
    process.send_signal(signal.SIGINT)
