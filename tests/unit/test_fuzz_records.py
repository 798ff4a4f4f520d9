"""Whatever stands in our own collections is read exactly or refused, by an error that repeats nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import bson
import pytest
from bson.int64 import Int64
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz_kit import STORED, assert_silent, mutated
from migronaut.core.state import (
    BackgroundState,
    Counters,
    Cursor,
    DocumentError,
    HistoryEntry,
    Lease,
    Partition,
    PartitionStatus,
    Plan,
    Scope,
    Spec,
    Status,
)
from migronaut.core.tickets import Role, Ticket, TicketStatus
from migronaut.errors import StateInvalidError
from migronaut.mongo.codec import partition_from, state_from, ticket_from, to_document
from migronaut.versioning import CODEC

AT = datetime(2026, 1, 1)
ERROR = DocumentError(at=AT, kind="refused", message="why")
STATE = BackgroundState(
    name="0001_a.py",
    registration="r",
    status=Status.RUNNING,
    checksum="c",
    spec=Spec(collection="orders", to_version=1, filter={"a": {"$exists": False}}),
    registered_at=AT,
    updated_at=AT,
    plan=Plan(token="t", method="single", estimate=5, match="m", made_at=AT),
    totals=Counters(scanned=1),
    bad_ids=(1, {"a": 1}),
    errors=(ERROR,),
    requires=("0000_z.py",),
    started_at=AT,
    history=(HistoryEntry(at=AT, action="start", from_status=None, to_status=Status.PENDING),),
)
PARTITION = Partition(
    id="t-0",
    background="0001_a.py",
    generation=1,
    plan="t",
    seq=0,
    scope=Scope(bracket="number", lower=1, bounded_below=True),
    status=PartitionStatus.RUNNING,
    cursor=Cursor(last_id={"a": [1]}),
    bad_ids=(1,),
    errors=(ERROR,),
    lease=Lease(slot=0, token="k", owner="o", host="h", pid=1, ttl=60.0, renewed_at=AT, session=None),
)
TICKET = Ticket(
    id="0001_a.py#0",
    migration="0001_a.py",
    role=Role.LANE,
    run="r",
    seq=0,
    status=TicketStatus.WORKING,
    due=AT,
    lane=0,
    owner="o",
)
READERS: dict[str, tuple[Any, Callable[[Mapping[str, Any]], Any]]] = {
    "state": (STATE, state_from),
    "partition": (PARTITION, partition_from),
    "ticket": (TICKET, ticket_from),
}
MANY = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def canonical(value: Any) -> Any:
    """A stored value so that two that mean the same are equal: numbers of all widths, every NaN."""
    if isinstance(value, Mapping):
        return {name: canonical(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(inner) for inner in value]
    if type(value) in {int, Int64, float}:
        return ("number", repr(float(value)))
    return (str if isinstance(value, str) else type(value), value)


def part_of(told: Any, whole: Any) -> bool:
    """Whether all that a record says is in another; defaults may stand beside it."""
    if isinstance(told, dict) and isinstance(whole, dict):
        return told.keys() <= whole.keys() and all(part_of(inner, whole[name]) for name, inner in told.items())
    if isinstance(told, list) and isinstance(whole, list):
        return len(told) == len(whole) and all(part_of(*pair) for pair in zip(told, whole, strict=True))
    return bool(told == whole)


@pytest.mark.parametrize(
    ("kind", "name", "wrong"),
    [
        ("ticket", "_id", None),
        ("ticket", "owner", 5),
        ("ticket", "run", ["r"]),
        ("ticket", "status", "working "),
        ("partition", "plan", b"t"),
        ("partition", "bad_ids", "12"),
        ("partition", "errors", {}),
        ("state", "requires", "0000_z.py"),
        ("state", "last_error", {"a": 1}),
    ],
)
def test_a_text_is_a_text_and_an_array_an_array(kind: str, name: str, wrong: Any) -> None:
    value, read = READERS[kind]
    with pytest.raises(StateInvalidError):
        read(to_document(value) | {name: wrong})


@pytest.mark.parametrize("kind", READERS)
@MANY
@given(data=st.data())
def test_a_record_is_read_exactly_or_refused(kind: str, data: st.DataObject) -> None:
    value, read = READERS[kind]
    document = data.draw(mutated(to_document(value), STORED) | st.dictionaries(st.text(max_size=5), STORED, max_size=3))
    try:
        found = read(document)
    except StateInvalidError as error:
        assert_silent(error)
        return
    again = to_document(found)
    newer = kind == "state" and isinstance(document.get("schema"), int) and document["schema"] > 1
    assert newer or part_of(
        canonical(document) | {"lease": document.get("lease") and None}, canonical(again) | {"lease": None}
    )
    assert canonical(to_document(read(again))) == canonical(again)


@pytest.mark.parametrize("kind", READERS)
@MANY
@given(data=st.data())
def test_each_field_alone_is_read_exactly_or_refused(kind: str, data: st.DataObject) -> None:
    value, read = READERS[kind]
    document = to_document(value)
    name = data.draw(st.sampled_from(sorted(document)))
    wanted = document | {name: data.draw(STORED)}
    try:
        found = read(wanted)
    except StateInvalidError as error:
        assert_silent(error)
        return
    newer = name == "schema"
    assert newer or part_of(canonical(wanted[name]), canonical(to_document(found).get(name)))


@MANY
@given(document=mutated(to_document(STATE), STORED), schema=st.sampled_from([2, Int64(99), 2**40]))
def test_a_state_of_a_newer_release_is_understood_in_part_or_refused(document: dict[str, Any], schema: int) -> None:
    try:
        found = state_from(document | {"schema": schema})
    except StateInvalidError as error:
        assert_silent(error)
        return
    assert found.schema == schema
    bson.encode(to_document(found), codec_options=CODEC)
