"""The door for payloads: untrusted input names a ticket or is refused, and an error repeats nothing of it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migronaut.core.jobs import (
    MAX_SEQ,
    CoordinatorJob,
    Hint,
    LaneJob,
    VerifyJob,
    parse_payload,
    queue_id,
)
from migronaut.errors import QueueJobInvalidError

COORDINATOR: dict[str, Any] = {"v": 1, "kind": "background", "migration": "20261004_orders.py", "run": "a-1", "seq": 0}
LANE: dict[str, Any] = {**COORDINATOR, "kind": "background-lane", "lane": 0}
LONG = "ä" * 126 + ".py"
VERIFY: dict[str, Any] = {"v": 1, "kind": "background-verify"}


def _refusal(payload: object) -> QueueJobInvalidError:
    with pytest.raises(QueueJobInvalidError) as caught:
        parse_payload(payload)
    return caught.value


@pytest.mark.parametrize(
    ("payload", "job"),
    [
        (COORDINATOR, CoordinatorJob(migration="20261004_orders.py", run="a-1", seq=0)),
        ({**COORDINATOR, "seq": MAX_SEQ}, CoordinatorJob(migration="20261004_orders.py", run="a-1", seq=MAX_SEQ)),
        (LANE, LaneJob(migration="20261004_orders.py", run="a-1", seq=0, lane=0)),
        ({**LANE, "lane": 63}, LaneJob(migration="20261004_orders.py", run="a-1", seq=0, lane=63)),
        ({**LANE, "migration": LONG}, LaneJob(migration=LONG, run="a-1", seq=0, lane=0)),
        ({**LANE, "run": "r" * 128}, LaneJob(migration="20261004_orders.py", run="r" * 128, seq=0, lane=0)),
        (VERIFY, VerifyJob()),
    ],
)
def test_a_payload_of_ours_is_read_and_its_body_reads_the_same(payload: dict[str, Any], job: Any) -> None:
    assert parse_payload(payload) == job
    body = Hint(id="x", payload=job).body()
    assert body == payload
    assert parse_payload(json.loads(json.dumps(body))) == job


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("migration", "../secret.py"),
        ("migration", "/etc/secret"),
        ("migration", "dir/secret.py"),
        ("migration", "dir\\secret.py"),
        ("migration", ".secret"),
        ("migration", ""),
        ("migration", "secret\n.py"),
        ("migration", "secret\t.py"),
        ("migration", "secret\u2028.py"),
        ("migration", "_secret.py"),
        ("migration", "secret"),
        ("migration", "secret\x00.py"),
        ("migration", "secret\ud800.py"),
        ("migration", "s" * 256),
        ("migration", "secret" * 2_000_000),
        ("migration", 5),
        ("migration", None),
        ("migration", ["secret"]),
        ("run", ""),
        ("run", "r" * 129),
        ("run", "secret run"),
        ("run", "secret\n"),
        ("run", 7),
        ("seq", -1),
        ("seq", MAX_SEQ + 1),
        ("seq", True),
        ("seq", 1.0),
        ("seq", "1"),
        ("seq", None),
        ("lane", -1),
        ("lane", 64),
        ("lane", False),
        ("lane", "secret"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_field_and_not_repeated(name: str, value: object) -> None:
    error = _refusal({**LANE, name: value})
    assert error.context == {"field": name}
    assert f"field {name};" in error.message
    assert "secret" not in error.message
    assert len(error.message) < 120
    assert error.__suppress_context__


@pytest.mark.parametrize("name", ["migration", "run", "seq", "lane"])
def test_a_missing_field_is_named(name: str) -> None:
    error = _refusal({key: value for key, value in LANE.items() if key != name})
    assert error.context == {"field": name}


@pytest.mark.parametrize(
    "payload",
    [
        {**VERIFY, "secret": 1},
        {**COORDINATOR, "lane": 1},
        {**LANE, "uri": "mongodb://u:secret@h"},
        {**LANE, "filter": {}},
        {**LANE, 5: 5},
    ],
)
def test_an_unknown_field_is_refused_and_stays_unnamed(payload: dict[Any, Any]) -> None:
    error = _refusal(payload)
    assert "not one of ours" in error.message
    assert error.context == {}
    assert not re.search("secret|uri|filter|lane", error.message)


@pytest.mark.parametrize("version", [2, 0, None, "1", True, 1.0, 10**400])
def test_another_version_is_refused_before_anything_else(version: object) -> None:
    assert _refusal({**LANE, "v": version, "new": 1}).context == {"field": "v"}


@pytest.mark.parametrize("kind", ["up", "", None, 5, [], {"a": 1}, "secret" * 2_000_000])
def test_an_unknown_kind_is_refused(kind: object) -> None:
    error = _refusal({**LANE, "kind": kind})
    assert error.context == {"field": "kind"}
    assert "secret" not in error.message


@pytest.mark.parametrize("payload", [None, 1, "x" * 10_000_000, [], [LANE], b"{}"])
def test_what_is_no_object_is_refused(payload: object) -> None:
    assert "not an object" in _refusal(payload).message


def test_the_error_has_the_exit_code_of_an_invalid_job() -> None:
    error = _refusal({})
    assert (error.code, error.exit_code) == ("queue-job-invalid", 25)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(_json)
def test_arbitrary_json_raises_nothing_else(payload: object) -> None:
    with pytest.raises(QueueJobInvalidError):
        parse_payload(payload)


@given(st.fixed_dictionaries({name: st.just(value) | _json for name, value in LANE.items()}), st.booleans())
def test_a_payload_with_some_fields_broken_is_read_exactly_or_refused(payload: dict[str, Any], extra: bool) -> None:
    if extra:
        payload["more"] = 1
    refused: QueueJobInvalidError | None = None
    try:
        body = Hint(id="x", payload=parse_payload(payload)).body()
    except QueueJobInvalidError as error:
        refused = error
    if refused is None:
        assert body == payload
    else:
        assert refused.context.get("field") in {*LANE, None}


_names = st.text(min_size=1, max_size=20)
_keys = st.tuples(_names, st.sampled_from(["r1", "r-1", "r_1"]), st.none() | st.integers(0, 63), st.integers(0, 9))


@given(_keys, _keys, st.integers(0, 3), st.integers(0, 3))
def test_different_hints_never_share_a_queue_side_id(one: Any, other: Any, sends: int, others: int) -> None:
    ids = [
        queue_id(name, run, lane=lane, seq=seq, sends=count)
        for (name, run, lane, seq), count in [(one, sends), (other, others)]
    ]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", id_) for id_ in ids)
    assert (ids[0] == ids[1]) == ((one, sends) == (other, others))


@pytest.mark.parametrize(("one", "other"), [("a.b", "a_b"), ("a b", "a-b"), ("é", "e\u0301"), ("a\ud800", "a\ud801")])
def test_names_that_differ_only_in_odd_characters_have_ids_of_their_own(one: str, other: str) -> None:
    assert queue_id(one, "r", lane=None, seq=0, sends=0) != queue_id(other, "r", lane=None, seq=0, sends=0)
