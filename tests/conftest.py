"""Real servers for the tests: from the wheels, or those that the environment names."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from pymongo import MongoClient
from pymongo.database import Database

from cluster_kit import Cluster, cluster_of_three
from migronaut.embedded import EmbeddedMongo, EmbeddedValkey

# How long an example takes says more about the machine than about the code. What fails can be repeated.
settings.register_profile("tests", deadline=None, print_blob=True)
settings.load_profile("tests")


@pytest.fixture(scope="session")
def mongo_uri() -> Iterator[str]:
    """URI of a replica set: ``MIGRONAUT_TEST_MONGODB_URI``, else one of our own for this test process."""
    given = os.environ.get("MIGRONAUT_TEST_MONGODB_URI")
    if given:
        yield given
        return
    with EmbeddedMongo(test_commands=True) as server:
        yield server.uri


@pytest.fixture(scope="session")
def standalone_uri() -> Iterator[str]:
    """URI of a server without transactions, always our own."""
    with EmbeddedMongo(replica_set=False, test_commands=True) as server:
        yield server.uri


@pytest.fixture(scope="session")
def _cluster() -> Iterator[Cluster]:
    with cluster_of_three() as made:
        yield made


@pytest.fixture
def cluster(_cluster: Cluster) -> Iterator[Cluster]:
    """A replica set of three members, always our own, which a test may kill and freeze as it wants."""
    yield _cluster
    _cluster.heal()


@pytest.fixture
def cluster_db(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Database[dict[str, Any]]]:
    """An empty database on the three members, dropped afterwards."""
    name = _database_name(request.node.name)
    with MongoClient[dict[str, Any]](cluster.uri) as connected:
        yield connected[name]
        cluster.heal()
        connected.drop_database(name)


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """URL of a Redis or Valkey: ``MIGRONAUT_TEST_REDIS_URL``, else one of our own for this test process."""
    given = os.environ.get("MIGRONAUT_TEST_REDIS_URL")
    if given:
        yield given
        return
    with EmbeddedValkey() as server:
        yield server.url


@pytest.fixture
def valkey() -> Iterator[EmbeddedValkey]:
    """A Valkey of the test's own, which it may kill and restart."""
    with EmbeddedValkey() as server:
        yield server


@pytest.fixture(scope="session")
def amqp_url() -> str:
    """URL of a RabbitMQ; there is no wheel of one, so it must be named."""
    given = os.environ.get("MIGRONAUT_TEST_AMQP_URL")
    if not given:
        pytest.skip("needs a RabbitMQ: set MIGRONAUT_TEST_AMQP_URL")
    return given


@pytest.fixture(scope="session")
def client(mongo_uri: str) -> Iterator[MongoClient[dict[str, Any]]]:
    """A client of the replica set."""
    with MongoClient[dict[str, Any]](mongo_uri) as connected:
        yield connected


@pytest.fixture
def db(client: MongoClient[dict[str, Any]], request: pytest.FixtureRequest) -> Iterator[Database[dict[str, Any]]]:
    """An empty database of the test's own, dropped afterwards."""
    name = _database_name(request.node.name)
    yield client[name]
    client.drop_database(name)


@pytest.fixture
def standalone_db(standalone_uri: str, request: pytest.FixtureRequest) -> Iterator[Database[dict[str, Any]]]:
    """An empty database on the server without transactions, dropped afterwards."""
    name = _database_name(request.node.name)
    with MongoClient[dict[str, Any]](standalone_uri) as connected:
        yield connected[name]
        connected.drop_database(name)


def _database_name(test: str) -> str:
    readable = re.sub(r"\W+", "_", test.removeprefix("test_"), flags=re.ASCII)[:40]
    return f"t_{readable}_{uuid.uuid4().hex[:8]}"
