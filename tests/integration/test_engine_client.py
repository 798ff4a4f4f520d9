"""Whatever client the user passes in: ours are its connection, not its settings."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.monitoring import CommandListener, CommandStartedEvent

from engine_kit import NAME, Rig, assert_migrated_once, old, orders
from migronaut.core.state import Status
from migronaut.engine.operator import controls
from migronaut.engine.states import Request
from migronaut.errors import InvalidMigrationError


class Commits(CommandListener):
    """Write concerns that transactions were committed with."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name == "commitTransaction":
            self.asked.append(event.command.get("writeConcern"))

    def succeeded(self, event: object) -> None:
        """Nothing to note."""

    def failed(self, event: object) -> None:
        """Nothing to note."""


def test_transactions_commit_with_the_write_concern_of_the_migration(mongo_uri: str, db: Database[Any]) -> None:
    commits = Commits()
    db.orders.insert_many([old(number) for number in range(3)])
    with MongoClient[dict[str, Any]](mongo_uri, event_listeners=[commits]) as client:
        rig = Rig(db=client[db.name])
        rig.register(orders(write_concern={"w": 1, "j": True}))
        assert rig.run() is Status.COMPLETED
    assert commits.asked
    assert all(concern == {"w": 1, "j": True} for concern in commits.asked)
    assert_migrated_once(Rig(db=db).documents())


@pytest.mark.parametrize(
    "options",
    [
        {"readPreference": "secondaryPreferred"},
        {"w": 0},
        {"retryWrites": False, "retryReads": False},
        {"tz_aware": True, "tzinfo": UTC},
        {"uuidRepresentation": "pythonLegacy"},
        {"readConcernLevel": "linearizable"},
        {"directConnection": True},
        {"timeoutMS": 20_000},
        {"socketTimeoutMS": 20_000},
        {"document_class": RawBSONDocument},
    ],
)
def test_settings_of_the_users_client_change_nothing(
    mongo_uri: str, db: Database[Any], options: dict[str, Any]
) -> None:
    db.orders.insert_many([old(number) for number in range(30)])
    with MongoClient[dict[str, Any]](mongo_uri, **options) as client:
        rig = Rig(db=client.get_database(db.name, codec_options=CodecOptions(tz_aware=True)))
        rig.register(orders())
        assert rig.run() is Status.COMPLETED
        assert rig.totals.migrated == 30
    assert_migrated_once(Rig(db=db).documents())


@pytest.mark.parametrize("concern", [{"w": 3}, {"w": "nowhere"}])
def test_a_write_concern_that_can_never_be_met_is_refused_when_registering(
    db: Database[Any], standalone_db: Database[Any], concern: dict[str, Any]
) -> None:
    for database, guard in ((db, "snapshot"), (standalone_db, "version")):
        rig = Rig(db=database)
        with pytest.raises(InvalidMigrationError, match="write_concern"):
            rig.register(orders(write_concern=concern, guard=guard))
        assert database.list_collection_names() == []
        rig.register(orders(guard=guard))
        rig.give(orders(write_concern=concern, guard=guard), text="2")
        with pytest.raises(InvalidMigrationError, match="write_concern"):
            controls.repin(rig.ports, NAME, Request())
        assert rig.state.checksum == "1"
