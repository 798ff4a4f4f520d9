"""Who can write to the broker can wake work, and have nothing else run, called or logged by our workers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import dramatiq
import pytest
from dramatiq import Message
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker
from dramatiq.common import dq_name
from dramatiq.middleware import GroupCallbacks, default_middleware
from dramatiq.rate_limits.backends import StubBackend

import migronaut_dramatiq
from integration.dramatiq_scripted import lane
from integration.test_dramatiq_adapter import QUEUE, Handler, declared, waiting, working

LONG = "x" * 3_000_000
PAYLOAD = lane("orders", 0).body()
OPTIONS: dict[str, dict[str, Any]] = {
    "on success": {"on_success": "spy"},
    "on failure": {"on_failure": "spy"},
    "when retries are exhausted": {"on_retry_exhausted": "spy", "max_retries": 0},
    "a target": {"pipe_target": Message(queue_name=QUEUE, actor_name="spy", args=(), kwargs={}, options={}).asdict()},
    "retries without end": {"max_retries": 10**9, "min_backoff": 1, "max_backoff": 1},
    "what it throws": {"throws": "everything"},
    "a time limit": {"time_limit": 1},
    "a time limit that is none": {"time_limit": "soon"},
    "an age": {"max_age": 1},
    "a group": {"group_completion_uuid": "1", "group_completion_callbacks": [{"actor_name": "spy"}]},
}
MESSAGES: dict[str, dict[str, Any]] = {
    **{f"options: {name}": {"options": options} for name, options in OPTIONS.items()},
    "arguments": {"args": (LONG,)},
    "another kind": {"kwargs": {"v": 1, "kind": LONG}},
    "a newer payload": {"kwargs": {**PAYLOAD, "v": 2}},
    "a foreign field": {"kwargs": {**PAYLOAD, LONG: LONG}},
    "no payload": {"kwargs": [LONG]},
    "an option beside a wrong payload": {"kwargs": {}, "options": {"on_failure": "spy", "max_retries": 9}},
}


def forged(queue_name: str = QUEUE, **fields: Any) -> Message[Any]:
    told: dict[str, Any] = {"args": (), "kwargs": PAYLOAD, "options": {}, "actor_name": "migronaut.background"}
    return Message(queue_name=queue_name, **(told | fields))


def put(broker: StubBroker, message: Message[Any], *, into: str = QUEUE) -> None:
    """As somebody who writes to the broker without Dramatiq."""
    broker.queues[into].put(message.encode())


@pytest.fixture
def spied() -> list[object]:
    """What another actor on the broker was sent."""
    return []


@pytest.fixture
def broker(spied: list[object]) -> StubBroker:
    broker = StubBroker(middleware=[*(each() for each in default_middleware), GroupCallbacks(StubBackend())])
    dramatiq.actor(lambda *args: spied.append(args), broker=broker, actor_name="spy", queue_name=QUEUE)
    return broker


@pytest.mark.parametrize("what", MESSAGES)
def test_a_message_that_is_not_ours_is_a_dead_letter_in_one_short_line(
    broker: StubBroker, spied: list[object], caplog: pytest.LogCaptureFixture, what: str
) -> None:
    handler = Handler()
    declared(broker, handler)
    put(broker, forged(**MESSAGES[what]))
    with working(broker):
        broker.join(QUEUE, timeout=5000, fail_fast=False)
    assert (handler.jobs, spied) == ([], [])
    assert len(broker.dead_letters) == 1
    assert waiting(broker, dq_name(QUEUE)) == []
    (line,) = [record.getMessage() for record in caplog.records if record.levelname in {"WARNING", "ERROR", "CRITICAL"}]
    assert "refused" in line
    assert len(line) < 500


def test_ours_are_worked_beside_them_whatever_tracing_adds_to_their_options(broker: StubBroker) -> None:
    handler = Handler()
    queue = declared(broker, handler)
    put(broker, forged(options={"on_success": "spy"}))
    put(broker, forged(options={"trace_ctx": {"id": 1}, "migronaut_hint": "id", "retries": 1, "traceback": "..."}))
    queue.enqueue([lane("orders", 1)])
    with working(broker):
        broker.join(QUEUE, timeout=5000, fail_fast=False)
    assert sorted(job["lane"] for job in handler.jobs) == [0, 1]


def test_a_message_that_names_another_queue_does_not_end_the_thread_that_works_it(broker: StubBroker) -> None:
    handler = Handler()
    queue = declared(broker, handler)
    threads = 2  # of the worker
    with working(broker):
        for _ in range(2 * threads):
            put(broker, forged("nowhere"))
        broker.join(QUEUE, timeout=5000, fail_fast=False)
        queue.enqueue([lane("orders", 0)])
        broker.join(QUEUE, timeout=5000, fail_fast=False)
    assert len(handler.jobs) == 1
    assert len(broker.dead_letters) == 2 * threads


def test_the_name_of_a_hint_is_cut_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    queue = declared(StubBroker(), Handler())
    with caplog.at_level("INFO"):
        queue.annotate(forged(options={"migronaut_hint": LONG}), log="lane 0: yielded")
    assert len(caplog.text) < 1000


def test_our_worker_process_cuts_whatever_dramatiq_logs(redis_url: str, tmp_path: Path) -> None:
    queue_name = f"logs-{uuid4().hex}"
    broker = RedisBroker(url=redis_url)
    broker.declare_queue(queue_name)
    for message in (forged(queue_name, actor_name=LONG), forged(queue_name, options={"eta": LONG})):
        broker.do_enqueue(queue_name, str(uuid4()), message.copy(options={"redis_message_id": str(uuid4())}).encode())
    # Last: it closes the consumer, with all that it has fetched.
    broker.do_enqueue(queue_name, str(uuid4()), b"{" + LONG.encode())
    sources = Path(migronaut_dramatiq.__file__).parents[1]
    env = {name: value for name, value in os.environ.items() if not name.startswith("MIGRONAUT_")} | {
        "PYTHONPATH": str(sources),
        "MIGRONAUT_URI": "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100",
        "MIGRONAUT_DB": "shop",
        "MIGRONAUT_QUEUE": queue_name,
        "MIGRONAUT_BROKER_URL": redis_url,
    }
    wanted = {"undefined actor", "Failed to decode", "Invalid eta"}
    command = [sys.executable, "-m", "dramatiq", "migronaut_dramatiq.app:boot", "--processes=1", "--threads=1", "-v"]
    process = subprocess.Popen(command, env=env, cwd=tmp_path, text=True, stderr=subprocess.PIPE)
    killer = threading.Timer(60, process.kill)
    killer.start()
    lines = []
    try:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            wanted = {text for text in wanted if text not in line}
            if not wanted:
                break
        process.terminate()
        process.wait(30)
    finally:
        killer.cancel()
        process.kill()
        process.wait()
        process.stderr.close()
    assert not wanted, "".join(line[:300] for line in lines)
    assert max(map(len, lines)) < 1500
