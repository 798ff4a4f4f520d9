"""Who can write to Redis can wake work, and have nothing else run, called or imported by our workers."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from rq import Callback, Queue
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer
from rq.webhook import Webhook

from contract.rq_queue import emptied, in_test_database
from integration.rq_processes import environment, told
from migronaut.testing.contracts import lane_hint
from migronaut_rq import MigronautWorker, RqQueue
from migronaut_rq.queue import FUNCTION, QUEUE_NAME

PAYLOAD = lane_hint(0).body()
TRAP = "import pathlib\npathlib.Path(__file__).with_name('sprung').touch()\ndef call(*args, **kwargs): pass\n"
"""A module that leaves a trace when it is imported."""


@pytest.fixture
def connection(redis_url: str) -> Iterator[Redis]:
    with emptied(redis_url) as opened:
        yield opened


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """Where the trace of an import would be; the module ``trap`` can be imported by workers."""
    (tmp_path / "trap.py").write_text(TRAP)
    return tmp_path / "sprung"


@pytest.fixture
def queue(connection: Redis) -> Queue:
    """Our queue in the hands of somebody who can write to Redis."""
    return Queue(QUEUE_NAME, connection=connection, serializer="json")


def run_worker(redis_url: str, trap: Path) -> str:
    """One real worker until the queue is empty; what it wrote."""
    command = [sys.executable, "-m", "rq.cli", "worker", "-w", "rq_scripted.MigronautWorker", "--burst"]
    env = environment()
    done = subprocess.run(
        [*command, "-u", in_test_database(redis_url), QUEUE_NAME],
        env={**env, "PYTHONPATH": os.pathsep.join([env["PYTHONPATH"], str(trap.parent)])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def forged(queue: Queue, *, data: object, dumps: Callable[[object], bytes], **fields: Any) -> Job:
    """A job with whatever somebody writes into its record."""
    job = queue.enqueue(FUNCTION, kwargs=PAYLOAD)
    record = {"data": zlib.compress(dumps(data)), **fields}
    queue.connection.hset(job.key, mapping=record)
    return job


class _Bomb:
    """Unpickled, it imports the trap."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("import trap",))


FORGERIES: dict[str, Callable[[Queue], Job]] = {
    "another function": lambda queue: queue.enqueue("trap.call"),
    "a command of the system": lambda queue: queue.enqueue("os.system", "true"),
    "on success": lambda queue: queue.enqueue(FUNCTION, kwargs=PAYLOAD, on_success=Callback("trap.call")),
    "on failure": lambda queue: queue.enqueue(FUNCTION, kwargs=PAYLOAD, on_failure=Callback("trap.call")),
    "on stopped": lambda queue: queue.enqueue(FUNCTION, kwargs=PAYLOAD, on_stopped=Callback("trap.call")),
    "pickled data": lambda queue: forged(queue, data=(FUNCTION, None, (), _Bomb()), dumps=pickle.dumps),
    "pickled meta": lambda queue: forged(queue, data=_Bomb(), dumps=pickle.dumps, meta=pickle.dumps(_Bomb())),
    "a method of a text": lambda queue: forged(
        queue, data=("format", "{0.__class__}", [1], {}), dumps=JSONSerializer.dumps
    ),
    "arguments": lambda queue: queue.enqueue(FUNCTION, args=("more",), kwargs=PAYLOAD),
    "a payload of another kind": lambda queue: queue.enqueue(FUNCTION, kwargs={"v": 1, "kind": "trap"}),
    "a newer payload": lambda queue: queue.enqueue(FUNCTION, kwargs={**PAYLOAD, "v": 2}),
    "no payload": lambda queue: forged(queue, data=(FUNCTION, None, [], ["trap"]), dumps=JSONSerializer.dumps),
    "a record that RQ cannot read": lambda queue: forged(
        queue, data=(FUNCTION, None, [], PAYLOAD), dumps=JSONSerializer.dumps, status="trap"
    ),
    "one that is long": lambda queue: forged(
        queue,
        data=("trap.call", None, [], {}),
        dumps=JSONSerializer.dumps,
        retries_left="9",
        description="x" * 3_000_000,
    ),
}


def test_jobs_that_are_not_ours_fail_in_one_line_each_and_nothing_of_them_is_imported(
    redis_url: str, connection: Redis, queue: Queue, trap: Path
) -> None:
    jobs = {name: forge(queue) for name, forge in FORGERIES.items()}
    out = run_worker(redis_url, trap)
    assert not trap.exists()
    assert [each["payload"]["kind"] for each in told(connection)] == ["background-verify"]
    lines = {name: len(re.findall(rf"^.*{job.id}.*refused.*$", out, flags=re.MULTILINE)) for name, job in jobs.items()}
    assert lines == dict.fromkeys(FORGERIES, 1), out
    assert "Traceback" not in out
    assert max(map(len, out.splitlines())) < 1000
    status = {name: connection.hget(job.key, "status") for name, job in jobs.items()}
    assert status == dict.fromkeys(FORGERIES, JobStatus.FAILED.value.encode())
    assert set(queue.failed_job_registry.get_job_ids()) == {job.id for job in jobs.values()}
    assert connection.lrange(queue.intermediate_queue_key, 0, -1) == []


def test_a_webhook_is_not_called(redis_url: str, queue: Queue, trap: Path) -> None:
    called = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        """Whoever the worker must not talk to."""

        def do_GET(self) -> None:
            called.set()

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        hooks = [Webhook(url, "finished", timeout=1), Webhook(url, "failed", timeout=1)]
        queue.enqueue(FUNCTION, kwargs=PAYLOAD, webhooks=hooks)
        out = run_worker(redis_url, trap)
    assert "refused" in out
    assert not called.is_set()


def test_the_callback_of_an_abandoned_job_is_not_imported_by_the_maintenance(
    redis_url: str, connection: Redis, queue: Queue, trap: Path
) -> None:
    job = queue.enqueue(FUNCTION, kwargs=PAYLOAD, on_failure=Callback("trap.call"))
    queue.remove(job)
    job.set_status(JobStatus.STARTED)
    connection.zadd(queue.started_job_registry.key, {f"{job.id}:execution": 1})
    run_worker(redis_url, trap)
    assert connection.zcard(queue.started_job_registry.key) == 0
    assert not trap.exists()


def test_what_is_no_job_at_all_does_not_end_a_worker(
    redis_url: str, connection: Redis, queue: Queue, trap: Path
) -> None:
    connection.set("rq:job:text", "no hash")
    connection.hset("rq:job:hash", "no", "data")
    connection.rpush(queue.key, "not an id!", "text", "hash", "gone")
    hint = lane_hint(0, run="finish")
    RqQueue(connection).enqueue([hint])
    out = run_worker(redis_url, trap)
    assert hint.body() in [each["payload"] for each in told(connection)], out
    assert "Traceback" not in out


def test_a_job_that_was_given_to_a_worker_without_being_looked_at_is_refused(connection: Redis, queue: Queue) -> None:
    job = queue.enqueue("trap.call")
    MigronautWorker(QUEUE_NAME, connection=connection).execute_job(job, queue)
    assert job.get_status(refresh=True) == JobStatus.FAILED


def test_a_job_of_ours_may_be_requeued_by_its_operator(redis_url: str, connection: Redis, trap: Path) -> None:
    port, hint = RqQueue(connection), lane_hint(0, run="finish")
    port.enqueue([hint])
    port.queue.remove(hint.id)
    port.queue.failed_job_registry.add(Job.fetch(hint.id, connection=connection, serializer="json"))
    port.queue.failed_job_registry.requeue(hint.id)
    run_worker(redis_url, trap)
    assert hint.body() in [each["payload"] for each in told(connection)]


def test_the_record_of_a_refused_job_is_kept_as_it_was(connection: Redis, queue: Queue) -> None:
    """It may be another application's, sent to the wrong queue."""
    job = queue.enqueue("other.work", {"a": 1}, on_success=Callback("other.done"), meta={"who": "they"})
    before = connection.hgetall(job.key)
    worker = MigronautWorker(QUEUE_NAME, connection=connection)
    worker.execute_job(worker.job_class.fetch(job.id, connection=connection, serializer="json"), queue)
    after = connection.hgetall(job.key)
    kept = (b"data", b"meta", b"success_callback_name", b"origin", b"created_at")
    assert {name: zlib.decompress(after[name]) if name == b"data" else after[name] for name in kept} == {
        name: zlib.decompress(before[name]) if name == b"data" else before[name] for name in kept
    }
    assert json.loads(zlib.decompress(after[b"data"]))[0] == "other.work"
    assert connection.ttl(job.key) > 24 * 3600
