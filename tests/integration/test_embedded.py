"""The servers from the wheels: ready, restartable, and never left behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from migronaut.embedded import EmbeddedMongo, EmbeddedValkey, process
from migronaut.embedded.process import EmbeddedServer
from migronaut.errors import EmbeddedServerError

ILLEGAL_OPERATION = 20


def ask_valkey(port: int, command: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(f"{command}\r\n".encode())
        return connection.recv(4096)


def someone_listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_a_replica_set_commits_a_transaction() -> None:
    with EmbeddedMongo() as server, MongoClient(server.uri) as client:
        with client.start_session() as session, session.start_transaction():
            client.shop.orders.insert_one({"_id": 1}, session=session)
        assert client.shop.orders.count_documents({}) == 1


def test_a_standalone_server_refuses_transactions(standalone_uri: str) -> None:
    with MongoClient(standalone_uri) as client, client.start_session() as session:
        session.start_transaction()
        with pytest.raises(OperationFailure) as refused:
            client.shop.orders.insert_one({"_id": 1}, session=session)
    assert refused.value.code == ILLEGAL_OPERATION


def test_mongod_keeps_its_documents_and_its_port_through_kill_and_restart() -> None:
    with EmbeddedMongo() as server:
        uri, first_pid = server.uri, server.pid
        with MongoClient(uri) as client:
            client.shop.orders.insert_one({"_id": 1})
        server.kill()
        assert not someone_listens(server.port)
        server.restart()
        with MongoClient(uri) as client:
            assert client.shop.orders.count_documents({}) == 1
        assert server.uri == uri
        assert server.pid != first_pid


def test_valkey_restarts_empty_on_the_same_port(valkey: EmbeddedValkey) -> None:
    url = valkey.url
    ask_valkey(valkey.port, "SET job waiting")
    assert ask_valkey(valkey.port, "DBSIZE") == b":1\r\n"
    valkey.restart()
    assert valkey.url == url
    assert ask_valkey(valkey.port, "DBSIZE") == b":0\r\n"


def test_valkey_restarts_on_the_same_port_after_stop(valkey: EmbeddedValkey) -> None:
    port = valkey.port
    valkey.stop()
    assert not someone_listens(port)
    valkey.restart()
    assert ask_valkey(port, "PING") == b"+PONG\r\n"


@pytest.mark.parametrize("kind", [EmbeddedMongo, EmbeddedValkey])
def test_stop_leaves_neither_files_nor_a_listener(
    kind: type[EmbeddedServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    server = kind().start()
    assert any(tmp_path.iterdir())
    server.stop()
    assert not any(tmp_path.iterdir())
    assert not someone_listens(server.port)
    assert not server.running


@pytest.mark.parametrize("kind", [EmbeddedMongo, EmbeddedValkey])
def test_a_port_that_another_server_took_first_is_given_up(
    kind: type[EmbeddedServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    with kind() as other:
        ports = iter([other.port, process._free_port()])
        monkeypatch.setattr(process, "_free_port", lambda: next(ports))
        with kind() as server:
            assert server.port != other.port
            assert server.pid != other.pid
        assert other.running


OWNER = """
import sys
from migronaut.embedded import EmbeddedMongo, EmbeddedValkey
servers = EmbeddedMongo().start(), EmbeddedValkey().start()
print(*(server.port for server in servers), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a child to its parent")
def test_the_servers_die_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with owner:
        assert owner.stdout is not None
        ports = [int(port) for port in owner.stdout.readline().split()]
        assert len(ports) == 2
        assert all(map(someone_listens, ports))
        owner.kill()
    assert wait_for(lambda: not any(map(someone_listens, ports)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_exit_of_a_fork_leaves_the_server_to_its_owner() -> None:
    script = """
import os, sys
from migronaut.embedded import EmbeddedValkey
server = EmbeddedValkey().start()
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
print(server.running)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, env=environment, check=True
    )
    assert answer.stdout.split() == ["True"]


def test_a_server_started_from_a_thread_outlives_the_thread() -> None:
    server = EmbeddedValkey()
    starter = threading.Thread(target=server.start)
    starter.start()
    starter.join()
    try:
        assert ask_valkey(server.port, "PING") == b"+PONG\r\n"
    finally:
        server.stop()


def test_a_server_that_was_not_started_says_so() -> None:
    with pytest.raises(EmbeddedServerError, match="never started"):
        _ = EmbeddedMongo().uri
    with pytest.raises(EmbeddedServerError, match="not running"):
        _ = EmbeddedValkey().pid
