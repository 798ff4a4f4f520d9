"""MigronautWorker in real worker processes on a real server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from rq import Queue
from rq.job import Job, JobStatus

from contract.rq_queue import emptied, in_test_database
from integration.rq_processes import STOP_LIMIT, arrived, environment, process, told, until, worker
from migronaut.core.jobs import Hint
from migronaut.embedded import EmbeddedValkey
from migronaut.errors import ConfigInvalidError, ConnectionFailedError, UsageError
from migronaut.testing.contracts import coordinator_hint, lane_hint
from migronaut_rq import MigronautWorker, RqQueue, work
from migronaut_rq.worker import beat


@pytest.fixture
def connection(redis_url: str) -> Iterator[Redis]:
    with emptied(redis_url) as opened:
        yield opened


@pytest.fixture
def port(connection: Redis) -> RqQueue:
    return RqQueue(connection)


def _job(port: RqQueue, hint: Hint) -> Job:
    return Job.fetch(hint.id, connection=port.queue.connection, serializer="json")


def test_sigterm_ends_a_worker_in_the_middle_of_a_job_and_the_job_goes_on_later(
    redis_url: str, connection: Redis, port: RqQueue
) -> None:
    hint = lane_hint(0, run="until-stopped")
    port.enqueue([hint])
    with worker(redis_url) as started:
        arrived(connection, hint)
        started.terminate()
        started.wait(STOP_LIMIT)
    assert port.queue.scheduled_job_registry.get_job_ids() == [hint.id]
    job = _job(port, hint)
    assert job.kwargs == lane_hint(0, 1, run="until-stopped").body()
    assert job.get_status() == JobStatus.SCHEDULED


def test_sigterm_at_the_process_of_the_job_does_not_kill_it(redis_url: str, connection: Redis, port: RqQueue) -> None:
    hint = lane_hint(0, run="until-stopped")
    port.enqueue([hint])
    with worker(redis_url):
        os.kill(arrived(connection, hint)["pid"], signal.SIGTERM)
        until(lambda: port.queue.scheduled_job_registry.count, seconds=STOP_LIMIT)
    assert _job(port, hint).kwargs == lane_hint(0, 1, run="until-stopped").body()


def test_wake_brings_a_parked_job_within_a_moment(redis_url: str, connection: Redis, port: RqQueue) -> None:
    hint = coordinator_hint(0, run="park")
    port.enqueue([hint])
    with worker(redis_url):
        until(lambda: port.queue.scheduled_job_registry.count)
        port.wake(coordinator_hint(1, run="park"), hint.id)
        woken = time.monotonic()
        until(lambda: _job(port, hint).get_status() == JobStatus.FINISHED)
        # Usually within a second; its poll would be five minutes away.
        assert time.monotonic() - woken < 60
    assert [each["payload"]["seq"] for each in told(connection) if each["job"] == hint.id] == [0, 1]


def test_a_job_over_its_time_is_interrupted_by_an_ordinary_exception_and_goes_on(
    redis_url: str, connection: Redis
) -> None:
    port = RqQueue(connection, job_timeout=1)
    hint = lane_hint(0, run="overtime")
    port.enqueue([hint])
    with worker(redis_url):
        until(lambda: _job(port, hint).get_status() == JobStatus.FINISHED)
    assert _job(port, hint).return_value() == "finished"


def _kill_with_its_job(started: subprocess.Popen[bytes], horse: int) -> None:
    started.kill()
    started.wait()
    os.kill(horse, signal.SIGKILL)


def test_the_job_of_a_killed_worker_is_taken_up_by_the_next_one(
    redis_url: str, connection: Redis, port: RqQueue
) -> None:
    hint = lane_hint(0, run="hang")
    port.enqueue([hint])
    with worker(redis_url) as started:
        _kill_with_its_job(started, arrived(connection, hint)["pid"])
    started = port.queue.started_job_registry.key
    until(lambda: connection.zcard(started))
    for execution in connection.zrange(started, 0, -1):
        # Instead of a minute without heartbeats.
        connection.zadd(started, {execution: 1})
    with worker(redis_url):
        until(lambda: _job(port, hint).get_status() == JobStatus.FINISHED)
    assert _job(port, hint).retries_left == 2


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_job_of_a_killed_worker_is_back_within_two_minutes(
    redis_url: str, connection: Redis, port: RqQueue
) -> None:
    hint = lane_hint(0, run="hang")
    port.enqueue([hint])
    with worker(redis_url) as first, worker(redis_url):
        horse = arrived(connection, hint)["pid"]
        parent = int(Path(f"/proc/{horse}/stat").read_text().rpartition(")")[2].split()[1])
        killed = time.monotonic()
        os.kill(parent, signal.SIGKILL)
        os.kill(horse, signal.SIGKILL)
        first.poll()
        until(lambda: _job(port, hint).get_status() == JobStatus.FINISHED, seconds=150)
        assert time.monotonic() - killed < 120


def test_a_worker_beats_when_it_starts(redis_url: str, connection: Redis) -> None:
    with worker(redis_url, "--burst") as started:
        started.wait(20)
    assert [each["payload"] for each in told(connection)] == [{"kind": "background-verify", "v": 1}]


def test_several_workers_beat_once_per_interval(connection: Redis, port: RqQueue) -> None:
    sent = [beat(connection, queue_name="migronaut-background", interval=60) for worker in range(3)]
    assert sent == [True, False, False]
    assert port.queue.count == 1
    assert 0 < connection.ttl("migronaut:beat:migronaut-background") <= 60
    connection.flushdb()  # a broker that came back empty
    assert beat(connection, queue_name="migronaut-background", interval=60)


def test_a_beat_without_broker_is_no_reason_to_end() -> None:
    unreachable = Redis(host="127.0.0.1", port=1, retry=None)
    assert beat(unreachable, queue_name="migronaut-background", interval=60) is False


def test_a_worker_takes_one_queue_only(connection: Redis) -> None:
    with pytest.raises(UsageError, match="one queue"):
        MigronautWorker(["a", "b"], connection=connection)


def test_a_worker_is_quick_to_notice_losses_and_speaks_json_whatever_it_is_given(connection: Redis) -> None:
    pickled = Queue("migronaut-background", connection=connection)
    worker = MigronautWorker(
        [pickled], worker_ttl=420, maintenance_interval=600, job_monitoring_interval=30, serializer="pickle"
    )
    assert (worker.worker_ttl, worker.maintenance_interval, worker.job_monitoring_interval) == (30, 15, 10)
    assert worker.serializer.dumps({"v": 1}) == b'{"v": 1}'
    assert worker.queues[0].serializer.dumps({"v": 1}) == b'{"v": 1}'


def test_a_worker_keeps_shorter_times_as_given(connection: Redis) -> None:
    worker = MigronautWorker("q", connection=connection, worker_ttl=20, maintenance_interval=5)
    assert (worker.worker_ttl, worker.maintenance_interval) == (20, 5)


def test_other_tools_can_list_workers(connection: Redis) -> None:
    worker = MigronautWorker(["q"], connection=connection)
    worker.register_birth()
    assert [each.name for each in MigronautWorker.all(connection=connection)] == [worker.name]


def test_work_in_a_burst_ends_with_success(redis_url: str, connection: Redis) -> None:
    url = in_test_database(redis_url)
    code = f"import rq_scripted, migronaut_rq; raise SystemExit(migronaut_rq.work({url!r}, burst=True))"
    assert subprocess.run([sys.executable, "-c", code], env=environment(), timeout=30, check=False).returncode == 0
    assert len(told(connection)) == 1


@pytest.mark.parametrize("end", ["asked", "broker lost"])
def test_the_exit_code_of_work_says_whether_the_end_was_asked_for(valkey: EmbeddedValkey, end: str) -> None:
    code = (
        "import sys, rq_scripted, migronaut_rq\n"
        "from migronaut.errors import MigronautError\n"
        "try: sys.exit(migronaut_rq.work(sys.argv[1]))\n"
        "except MigronautError as error: sys.exit(error.exit_code)\n"
    )
    with Redis.from_url(valkey.url) as connection:
        port = RqQueue(connection)
        hint = lane_hint(0, run="until-stopped")
        port.enqueue([hint])
        with process([sys.executable, "-c", code, valkey.url]) as started:
            horse = arrived(connection, hint)["pid"]
            if end == "asked":
                started.terminate()
                assert started.wait(STOP_LIMIT) == 0
            else:
                valkey.stop()
                os.kill(horse, signal.SIGKILL)
                assert started.wait(60) in (1, 5)


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("redis://me:hunter2@127.0.0.1:1/0", ConnectionFailedError),
        ("http://me:hunter2@127.0.0.1/0", ConfigInvalidError),
        ("redis://me:hunter2@127.0.0.1:port/0", ConfigInvalidError),
    ],
)
def test_a_wrong_url_is_one_line_without_credentials(url: str, error: type[Exception]) -> None:
    started = time.monotonic()
    with pytest.raises(error) as raised:
        work(url)
    assert time.monotonic() - started < 5
    assert "hunter2" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("option", ["decode_responses=true", "decode_responses=false", "encoding=utf-16", "foo=bar"])
def test_a_url_with_an_option_that_rq_cannot_work_with_is_refused_in_one_sentence(redis_url: str, option: str) -> None:
    with pytest.raises(ConfigInvalidError, match=r"leave .* out") as raised:
        work(f"{redis_url}?{option}")
    assert raised.value.exit_code == 6
    assert "\n" not in str(raised.value)


def test_a_connection_that_decodes_is_refused_wherever_it_is_given(redis_url: str) -> None:
    with Redis.from_url(redis_url, decode_responses=True) as decoding:
        for use in (RqQueue, lambda connection: MigronautWorker("q", connection=connection)):
            with pytest.raises(ConfigInvalidError, match="decode_responses"):
                use(decoding)


def test_without_rq_the_import_names_the_extra_in_one_line() -> None:
    code = "import sys; sys.modules['rq'] = None; import migronaut_rq"
    failed = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=30, check=False
    )
    assert failed.returncode == 1
    assert failed.stderr.strip().splitlines()[-1].endswith('pip install "migronaut[rq]"')
    assert "During handling" not in failed.stderr
