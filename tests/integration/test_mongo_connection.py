"""Connecting, and what the errors of a real driver and server become."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.database import Database

from migronaut.core.ports import (
    PortError,
    UnavailableError,
    WriteConflictError,
    WriteTooLargeError,
    WriteTooSlowError,
)
from migronaut.engine.speaking import speaking
from migronaut.errors import ConfigInvalidError, ConnectionFailedError, UsageError
from migronaut.mongo.connection import collections, connect, translating

CLOSED = "127.0.0.1:9"


@contextmanager
def failing(client: MongoClient[Any], **data: Any) -> Iterator[None]:
    """The server fails the next find."""
    told = {"failCommands": ["find"]} | data
    client.admin.command("configureFailPoint", "failCommand", mode={"times": 2}, data=told)
    try:
        yield
    finally:
        client.admin.command("configureFailPoint", "failCommand", mode="off")


def test_a_client_is_given_once_the_server_has_answered(mongo_uri: str) -> None:
    with connect(mongo_uri) as client:
        assert client.admin.command("ping")["ok"] == 1


@pytest.mark.parametrize("patience", ["", "?serverSelectionTimeoutMS=60000&connectTimeoutMS=60000"])
def test_a_silent_server_is_told_soon_whatever_the_uri_says_and_without_credentials(patience: str) -> None:
    began = time.monotonic()
    with pytest.raises(ConnectionFailedError) as raised:
        connect(f"mongodb://bob:hunter2@{CLOSED}/{patience}", timeout=0.3)
    assert time.monotonic() - began < 5
    assert CLOSED in raised.value.message
    assert "hunter2" not in raised.value.message
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    "uri",
    [
        "postgres://bob:hunter2@db",
        "mongodb://bob:hun/ter2@db/",
        "mongodb://bob:hun@ter2@:x/",
        "mongodb://bob:hunter2@db:99999/",
    ],
)
def test_a_wrong_uri_is_one_sentence_without_any_piece_of_it(uri: str) -> None:
    with pytest.raises(ConfigInvalidError) as raised:
        connect(uri)
    assert not any(piece in raised.value.message for piece in ("hun", "ter2", "bob"))


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("readPreferenc=primary", "one of its options does not exist (did you mean readpreference?)"),
        ("zzz=hunter2", "one of its options does not exist"),
        ("hunter2=1", "one of its options does not exist"),
        ("authMechanism=hunter2", "its option authmechanism cannot have this value"),
        ("maxPoolSize=-3", "its option maxpoolsize cannot have this value"),
        ("retryWrites=1", "its option retrywrites cannot have this value"),
        ("tls=true&tlsCAFile=/hunter2", "the file of its option tlscafile cannot be read (No such file or directory)"),
        ("tls=true&tlsCAFile=" + __file__, "a file that it names holds no certificates"),
        ("tls=true&tlsCertificateKeyFile=/hunter2", "the file of its option tlscertificatekeyfile cannot be read"),
        ("tls=true&ssl=false", "with options that go together"),
    ],
)
def test_an_option_that_the_driver_would_leave_out_is_refused_without_its_value(
    mongo_uri: str, option: str, told: str, recwarn: pytest.WarningsRecorder
) -> None:
    uri = mongo_uri.replace("mongodb://", "mongodb://bob:hunter2@") + "&" + option
    with pytest.raises(ConfigInvalidError) as raised:
        connect(uri)
    assert (raised.value.exit_code, told in raised.value.message) == (6, True), raised.value.message
    assert not any(piece in raised.value.message for piece in ("hunter2", "zzz", "bob", "site-packages"))
    assert not recwarn.list


def test_options_that_are_right_are_left_to_the_driver(mongo_uri: str, recwarn: pytest.WarningsRecorder) -> None:
    right = "&w=majority&readPreferenceTags=a:b&readPreferenceTags=&appName=a%2Fb&retryWrites=true&maxPoolSize=3"
    with connect(mongo_uri + right + "&readPreference=nearest&uuidRepresentation=standard") as client:
        assert client.options.pool_options.max_pool_size == 3
    assert not recwarn.list


def test_a_compressor_whose_library_is_missing_is_logged_and_the_connection_used(
    mongo_uri: str, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    with connect(mongo_uri + "&compressors=imaginary,zlib") as client:
        assert client.admin.command("ping")["ok"] == 1
    (record,) = caplog.records
    assert "compressor" in record.getMessage()
    assert not recwarn.list


def test_what_the_driver_refuses_is_told_as_what_it_is(client: MongoClient[Any], mongo_uri: str) -> None:
    with MongoClient[Any](mongo_uri) as other, other.start_session() as foreign:
        with pytest.raises(UsageError) as raised, speaking(), translating():
            client.admin.command("ping", session=foreign)
        assert "refuses this client (Can only use session with the MongoClient that" in raised.value.message
        assert "closed" not in raised.value.message
    with pytest.raises(UsageError, match="client was closed"), speaking(), translating():
        other.admin.command("ping")


def test_a_refused_login_names_what_to_check(mongo_uri: str) -> None:
    host = urlsplit(mongo_uri).netloc.rpartition("@")[2]
    with pytest.raises(ConnectionFailedError, match="login") as raised:
        connect(f"mongodb://bob:hunter2@{host}/?authSource=admin&directConnection=true")
    assert "hunter2" not in raised.value.message


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        ({"closeConnection": True}, UnavailableError),
        ({"errorCode": 189}, UnavailableError),
        ({"errorCode": 89}, UnavailableError),
        ({"errorCode": 112}, WriteConflictError),
        ({"errorCode": 251, "errorLabels": ["TransientTransactionError"]}, WriteConflictError),
        ({"errorCode": 50}, WriteTooSlowError),
        ({"errorCode": 334}, WriteTooLargeError),
        ({"errorCode": 13}, ConnectionFailedError),
        ({"errorCode": 2}, PortError),
    ],
)
def test_failures_come_in_the_words_of_the_ports(
    client: MongoClient[Any], db: Database[Any], failure: dict[str, Any], expected: type[Exception]
) -> None:
    with failing(client, **failure), pytest.raises(expected) as raised, translating():
        db.orders.find_one()
    assert type(raised.value) is expected


def test_what_is_no_error_of_the_driver_passes() -> None:
    with pytest.raises(KeyError), translating():
        raise KeyError


def test_a_value_that_a_unique_index_refused_stays_in_the_database(db: Database[Any]) -> None:
    db.orders.create_index("email", unique=True)
    db.orders.insert_one({"email": "ann@example.org"})
    with pytest.raises(PortError) as raised, translating():
        db.orders.insert_one({"email": "ann@example.org"})
    assert "ann@example.org" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_our_collections_ignore_how_the_client_is_set_up(mongo_uri: str, db: Database[Any]) -> None:
    options: dict[str, Any] = {"w": 0, "readPreference": "secondary", "tz_aware": True, "tzinfo": UTC}
    with MongoClient[Any](mongo_uri, document_class=RawBSONDocument, **options) as client:
        (records,) = collections(client[db.name], "records")
        assert records.insert_one({"_id": 1, "at": datetime(2026, 1, 1)}).acknowledged
        assert records.find_one() == {"_id": 1, "at": datetime(2026, 1, 1)}
