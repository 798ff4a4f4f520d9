"""MongoDB from a wheel: a one-member replica set, or a standalone server."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from migronaut.embedded.binaries import mongod_binary, mongod_environment
from migronaut.embedded.process import LOOPBACK, EmbeddedServer

REPLICA_SET = "rs0"
_ALREADY_INITIALIZED = 23
_ANSWER_MS = 2000


class EmbeddedMongo(EmbeddedServer):
    """A ``mongod`` on the loopback interface, ready in about a second.

    Args:
        replica_set: Start as a one-member replica set, which has transactions and change streams; otherwise as a
            standalone server, which has neither.
        test_commands: Allow the server's test commands (``configureFailPoint``), for tests that force a failure.
    """

    name = "mongod"

    def __init__(self, *, replica_set: bool = True, test_commands: bool = False) -> None:
        super().__init__()
        self._replica_set = replica_set
        self._test_commands = test_commands

    @property
    def uri(self) -> str:
        """The connection string.

        Raises:
            EmbeddedServerError: The server was never started.
        """
        query = f"?replicaSet={REPLICA_SET}" if self._replica_set else ""
        return f"mongodb://{LOOPBACK}:{self.port}/{query}"

    def _environment(self, directory: Path) -> Mapping[str, str]:
        return mongod_environment(mongod_binary(), directory)

    def _command(self, port: int, directory: Path) -> Sequence[str]:
        data = directory / "data"
        data.mkdir(exist_ok=True)
        settings = {
            "--dbpath": str(data),
            "--bind_ip": LOOPBACK,
            "--port": str(port),
            "--wiredTigerCacheSizeGB": "0.25",
            # The files of a server that lives for minutes stay small: no preallocated journal, no diagnostic history.
            "--wiredTigerEngineConfigString": "log=(file_max=32MB,prealloc=false)",
        }
        parameters = ["diagnosticDataCollectionEnabled=false"]
        if self._replica_set:
            settings |= {"--replSet": REPLICA_SET, "--oplogSize": "128"}
        if self._test_commands:
            parameters.append("enableTestCommands=1")
        return [
            str(mongod_binary()),
            *(part for setting in settings.items() for part in setting),
            *(part for parameter in parameters for part in ("--setParameter", parameter)),
        ]

    def _answering_pid(self, port: int) -> int | None:
        try:
            # Cheaper to ask a closed port than a driver that waits for it to open.
            socket.create_connection((LOOPBACK, port), timeout=1).close()
            with _direct_client(port) as client:
                return int(client.admin.command("serverStatus")["pid"])
        except (OSError, PyMongoError):
            return None

    def _settle(self, deadline: float) -> None:
        if not self._replica_set:
            return
        with _direct_client(self.port) as client:
            _initiate(client, f"{LOOPBACK}:{self.port}")
            self._wait_until(lambda: bool(client.admin.command("hello")["isWritablePrimary"]), deadline)


def _direct_client(port: int) -> MongoClient[dict[str, Any]]:
    return MongoClient(LOOPBACK, port, directConnection=True, serverSelectionTimeoutMS=_ANSWER_MS)


def _initiate(client: MongoClient[dict[str, Any]], member: str) -> None:
    try:
        client.admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": [{"_id": 0, "host": member}]})
    except OperationFailure as failure:
        if failure.code != _ALREADY_INITIALIZED:
            raise
