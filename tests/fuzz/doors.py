"""Coverage-guided fuzzing of the doors that untrusted input comes in by; not part of the test suite.

``python tests/fuzz/doors.py -max_total_time=300`` (libFuzzer's options), with ``atheris`` installed. A crash is an
exception that no caller expects, a value that was accepted and does not survive a round trip, or an error that repeats
what it refuses.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris

with atheris.instrument_imports(include=["migronaut", "cattrs", "tomllib", "dotenv", "bson"]):
    import bson

    from migronaut.config import resolve
    from migronaut.core.jobs import Hint, parse_payload
    from migronaut.core.state import BackgroundState, Lease, Partition, Scope, Spec, Status
    from migronaut.core.tickets import Role, Ticket, TicketStatus
    from migronaut.errors import ConfigInvalidError, MigronautError, QueueJobInvalidError, StateInvalidError
    from migronaut.mongo.codec import partition_from, state_from, ticket_from, to_document
    from migronaut.versioning import CODEC

MARK = "s3cr3t"
_AT = datetime(2026, 1, 1)
_HERE = TemporaryDirectory()
_CWD = Path(_HERE.name)


def _silent(error: MigronautError) -> None:
    told = f"{error} {error.context!r}"
    if MARK in told:
        raise AssertionError("an error repeats a value") from error


def job(data: bytes) -> None:
    """The body of a message, as a queue library hands it over."""
    try:
        payload = json.loads(data)
    except (ValueError, RecursionError):
        return
    try:
        parsed = parse_payload(payload)
    except QueueJobInvalidError as error:
        _silent(error)
    else:
        assert json.loads(json.dumps(Hint(id="x", payload=parsed).body())) == payload


def record(data: bytes) -> None:
    """A document of one of our collections; the first byte says which."""
    read = (state_from, partition_from, ticket_from)[data[0] % 3] if data else state_from
    try:
        document = bson.decode(data[1:], codec_options=CODEC)
    except Exception:  # what the driver cannot read never comes here
        return
    with contextlib.suppress(StateInvalidError):
        stored = to_document(read(document))
        again = to_document(read(stored))
        assert bson.encode(again, codec_options=CODEC) == bson.encode(stored, codec_options=CODEC)


def toml(data: bytes) -> None:
    """A configuration file."""
    _settled("migronaut.toml", data)


def env_file(data: bytes) -> None:
    """A file of variables."""
    _settled(".env", data)


def _settled(name: str, data: bytes) -> None:
    path = _CWD / name
    path.write_bytes(data)
    try:
        config = resolve(flags={"uri": "mongodb://h"}, env={}, cwd=_CWD)
    except ConfigInvalidError as error:
        # Names are told, values never are: only what stands behind a = is a value.
        if not _in_a_name(data):
            _silent(error)
    else:
        assert config.db
        config.db.encode()
    finally:
        path.unlink()


def _in_a_name(data: bytes) -> bool:
    return any(MARK.encode() in line.partition(b"=")[0] for line in data.splitlines())


TARGETS: tuple[Callable[[bytes], None], ...] = (job, record, toml, env_file)


def one_input(data: bytes) -> None:
    """What libFuzzer calls: the first byte chooses the door."""
    if data:
        TARGETS[data[0] % len(TARGETS)](data[1:])


def seeds() -> dict[str, bytes]:
    """Valid inputs of every door, to begin with."""
    coordinator = {"v": 1, "kind": "background", "migration": "1_s3cr3t.py", "run": "a-1", "seq": 0}
    state = BackgroundState(
        name="1_a.py",
        registration="r",
        status=Status.RUNNING,
        checksum=MARK,
        spec=Spec(collection="orders", to_version=1, filter={"a": MARK}),
        registered_at=_AT,
        updated_at=_AT,
    )
    lease = Lease(slot=0, token=MARK, owner="o", host="h", pid=1, ttl=60.0, renewed_at=_AT)
    partition = Partition(
        id="p", background="1_a.py", generation=1, plan="t", seq=0, scope=Scope(bracket="number"), lease=lease
    )
    ticket = Ticket(
        id="1_a.py", migration="1_a.py", role=Role.LANE, run="r", seq=0, status=TicketStatus.WORKING, due=_AT
    )
    records = [bson.encode(to_document(value), codec_options=CODEC) for value in (state, partition, ticket)]
    jobs = [coordinator, {**coordinator, "kind": "background-lane", "lane": 0}, {"v": 1, "kind": "background-verify"}]
    return {
        **{f"job-{number}": b"\0" + json.dumps(each).encode() for number, each in enumerate(jobs)},
        **{f"record-{number}": bytes([1, number]) + raw for number, raw in enumerate(records)},
        "toml": b"\2db = 'shop'\nlock_ttl = 60\nenvironment = 's3cr3t'\nlock_collection = [1, 2]\nhooks = { a = 1 }\n",
        "env": b"\3MIGRONAUT_DB=shop\nexport MIGRONAUT_LOCK_TTL='60' # x\nMIGRONAUT_ENVIRONMENT=\"${A:-s3cr3t}\"\n",
    }


def main(arguments: list[str]) -> None:
    """Fuzz until libFuzzer is told to stop."""
    logging.disable()  # python-dotenv has a word for every line that it cannot read
    corpus = _CWD / "corpus"
    corpus.mkdir()
    for name, data in seeds().items():
        (corpus / name).write_bytes(data)
    atheris.Setup([*arguments, str(corpus)], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main([argument for argument in sys.argv if argument])
