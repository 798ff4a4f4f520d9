"""Passwords in URLs, with characters that libraries stumble over: whatever goes wrong, nobody reads them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

import pytest

from e2e.cli_kit import BACKGROUND, Called, Cli
from migronaut.errors import MigronautError
from migronaut.mongo.connection import connect

SECRET = "s3cr"
"""The start of every password, so that a text which quotes one cut short is found too."""
PASSWORDS = ("s3cr#t", "s3cr/t", "s3cr?t", "s3cr@t", "s3cr:t", "s3cr%t", "s3cr%23t", "s3cr t")
REDIS = [f"redis://:{password}@127.0.0.1:1/0" for password in PASSWORDS]
MONGODB = [f"mongodb://ann:{password}@127.0.0.1:1/?serverSelectionTimeoutMS=100" for password in PASSWORDS]
CONFIG_INVALID, CONNECTION_FAILED = 6, 5


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A project whose MongoDB does not answer."""
    made = Cli(tmp_path, {"MIGRONAUT_URI": "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100", "MIGRONAUT_DB": "x"})
    made.write("0001_orders.py", BACKGROUND)
    return made


def refused_silently(called: Called) -> None:
    assert called.code in (CONFIG_INVALID, CONNECTION_FAILED), called.err
    assert SECRET not in called.out + called.err


def commands(queue: str) -> Iterable[tuple[str, ...]]:
    yield ("worker", "--queue", queue)
    yield ("background", "enqueue", "--queue", queue)
    yield ("background", "heal", "--queue", queue)


# Tracebacks show the most; each command once for people and once for machines.
@pytest.mark.parametrize("output", ["--verbose", "--json"])
@pytest.mark.parametrize(("queue", "variable"), [("rq", "MIGRONAUT_REDIS_URL"), ("dramatiq", "MIGRONAUT_BROKER_URL")])
def test_no_command_shows_the_password_of_a_broker(cli: Cli, queue: str, variable: str, output: str) -> None:
    pytest.importorskip(queue, reason=f"needs the extra {queue}")
    for command in commands(queue):
        refused_silently(cli(output, *command, **{variable: REDIS[0]}))
    refused_silently(cli(output, "background", "heal", "--queue", queue, "--broker-url", REDIS[0]))


@pytest.mark.parametrize("command", ["up", "background run", "background status", "background verify"])
def test_no_command_shows_the_password_of_mongodb(cli: Cli, command: str) -> None:
    refused_silently(cli("--verbose", *command.split(), MIGRONAUT_URI=MONGODB[0]))
    refused_silently(cli("--json", "--uri", MONGODB[1], *command.split()))


@pytest.mark.parametrize("url", REDIS)
def test_neither_error_nor_log_of_rq_shows_a_password(url: str, caplog: pytest.LogCaptureFixture) -> None:
    open_queue = pytest.importorskip("migronaut_rq", reason="needs the extra rq", exc_type=ImportError).open_queue
    caplog.set_level(logging.DEBUG)
    with pytest.raises(MigronautError) as raised:
        open_queue(url)
    assert_silent(raised.value, caplog)


@pytest.mark.parametrize("url", REDIS + [url.replace("redis", "amqp", 1) for url in REDIS])
def test_neither_error_nor_log_of_dramatiq_shows_a_password(url: str, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("dramatiq", reason="needs the extra dramatiq")
    from migronaut_dramatiq.brokers import require_answer

    caplog.set_level(logging.DEBUG)
    with pytest.raises(MigronautError) as raised:
        require_answer(url)
    assert_silent(raised.value, caplog)


@pytest.mark.filterwarnings("ignore:Unknown option")
@pytest.mark.parametrize("uri", MONGODB)
def test_neither_error_nor_log_of_mongodb_shows_a_password(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(MigronautError) as raised:
        connect(uri)
    assert_silent(raised.value, caplog)


def assert_silent(error: MigronautError, caplog: pytest.LogCaptureFixture) -> None:
    told = "\n".join([error.message, repr(error.context), repr(error.__cause__), caplog.text])
    assert SECRET not in told


@pytest.mark.parametrize("output", ["--verbose", "--json"])
@pytest.mark.parametrize(
    "command", ["worker --queue rq", "up", "background run", "background status", "background retry", "init"]
)
def test_a_url_that_is_typed_in_the_wrong_place_is_not_echoed(cli: Cli, command: str, output: str) -> None:
    for url in (REDIS[7], MONGODB[0]):
        called = cli(output, *command.split(), url)
        assert called.code != 0
        assert SECRET not in called.out + called.err
