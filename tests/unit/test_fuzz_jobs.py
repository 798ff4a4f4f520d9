"""Whatever arrives as a job is read exactly or refused, by an error that repeats nothing of it."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fuzz_kit import JSON, MARK, assert_silent, mutated
from migronaut.core.jobs import Hint, VerifyJob, parse_payload
from migronaut.core.ports import Owner
from migronaut.core.tickets import Finish, Role
from migronaut.errors import QueueJobInvalidError
from migronaut.queueing import BackgroundProcessor, MemoryQueue
from migronaut.testing import MemoryEngine

NAME = "20261004_orders.py"
COORDINATOR: dict[str, Any] = {"v": 1, "kind": "background", "migration": NAME, "run": "a-1", "seq": 0}
LANE: dict[str, Any] = {**COORDINATOR, "kind": "background-lane", "lane": 0}
VERIFY: dict[str, Any] = {"v": 1, "kind": "background-verify"}
PAYLOADS = st.one_of(
    st.sampled_from([COORDINATOR, LANE, VERIFY]).flatmap(mutated),
    st.sampled_from([COORDINATOR, LANE, VERIFY]),
    JSON,
    st.fixed_dictionaries({"v": JSON | st.just(1), "kind": JSON | st.sampled_from(["background", "background-lane"])}),
    st.sampled_from([[], (), b"", object(), {1: 1}, {"v": 1, "kind": "background", "s3cr3t": 1}]),
)


@settings(deadline=None)
@given(PAYLOADS)
@example({**LANE, "lane": True})
@example({**COORDINATOR, "seq": 10**400})
def test_a_payload_is_read_exactly_or_refused_without_a_word_of_it(payload: Any) -> None:
    try:
        parsed = parse_payload(payload)
    except QueueJobInvalidError as error:
        assert_silent(error)
    else:
        body = Hint(id="x", payload=parsed).body()
        assert {name: (type(value), value) for name, value in body.items()} == {
            name: (type(value), value) for name, value in {**payload, "kind": body["kind"], "v": 1}.items()
        }
        assert set(payload) == set(body)
        assert parse_payload(json.loads(json.dumps(body))) == parsed


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=PAYLOADS)
def test_a_processor_refuses_or_finishes_whatever_it_is_handed(payload: Any, caplog: pytest.LogCaptureFixture) -> None:
    memory = MemoryEngine(migrations={})
    queue = MemoryQueue(memory.clock)
    processor = BackgroundProcessor(memory.engine, queue, owner=Owner(name="w", host="h", pid=1))
    opened, _ = memory.engine.ports.tickets.open(NAME, Role.COORDINATOR)
    queue.enqueue([Hint(id="job", payload=VerifyJob())])
    (job,) = queue.jobs
    caplog.clear()
    with caplog.at_level(logging.INFO):
        try:
            directive = processor.handle(payload, job)
        except QueueJobInvalidError as error:
            assert_silent(error)
        else:
            assert isinstance(directive, Finish)
            assert directive.result == "stale" or payload["kind"] == "background-verify"
            assert MARK not in directive.result
    assert MARK not in caplog.text + "".join(job.log)
    assert memory.engine.ports.tickets.of(NAME) == (opened,)
