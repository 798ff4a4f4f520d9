"""The RQ port against a real server, with RQ's own worker inside the test's process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis
from rq.job import Job, JobStatus

from contract.rq_queue import RqHarness, rq
from migronaut.core.jobs import Hint, VerifyJob
from migronaut.core.tickets import ContinueLater, Directive, Finish, WaitForLanes
from migronaut.errors import ConfigInvalidError, ConnectionFailedError, QueueJobInvalidError, UsageError
from migronaut.testing.contracts import Recorder, coordinator_hint, lane_hint
from migronaut_rq import RqQueue, jobs
from migronaut_rq.queue import JOB_TIMEOUT


@pytest.fixture
def harness(redis_url: str) -> Iterator[RqHarness]:
    with rq(redis_url) as opened:
        yield opened


@pytest.fixture
def recorder(harness: RqHarness) -> Recorder:
    recorder = Recorder()
    harness.make(recorder)
    return recorder


@pytest.fixture
def port(harness: RqHarness) -> RqQueue:
    return harness.port


def _job(port: RqQueue, hint: Hint) -> Job:
    return Job.fetch(hint.id, connection=port.queue.connection, serializer="json")


def _continue(hint: Hint, *, delay: float = 0.0) -> ContinueLater:
    return ContinueLater(delay=delay, hint=hint, result="again")


def test_a_continued_job_keeps_its_id_and_carries_the_new_payload(
    harness: RqHarness, recorder: Recorder, port: RqQueue
) -> None:
    recorder.answer = lambda payload, job: _continue(coordinator_hint(1), delay=60)
    port.enqueue([coordinator_hint(0)])
    harness.drain()
    job = _job(port, coordinator_hint(0))
    assert job.kwargs == coordinator_hint(1).body()
    assert job.get_status() == JobStatus.SCHEDULED
    assert port.queue.scheduled_job_registry.get_job_ids() == [coordinator_hint(0).id]


@pytest.mark.parametrize(("delay", "seconds"), [(60.0, 60), (60.01, 61), (300.0, 300)])
def test_a_delay_is_kept_in_whole_seconds_rounded_up(
    harness: RqHarness, recorder: Recorder, port: RqQueue, delay: float, seconds: int
) -> None:
    recorder.answer = lambda payload, job: _continue(coordinator_hint(1), delay=delay)
    port.enqueue([coordinator_hint(0)])
    harness.drain()
    job = _job(port, coordinator_hint(0))
    scheduled = port.queue.scheduled_job_registry.get_scheduled_time(job)
    assert job.ended_at is not None
    # RQ keeps whole seconds of the clock, and its own work takes a moment.
    assert seconds - 1 <= (scheduled - job.ended_at).total_seconds() <= seconds + 1


def test_a_job_continues_for_longer_than_any_limit_of_retries(
    harness: RqHarness, recorder: Recorder, port: RqQueue
) -> None:
    recorder.answer = lambda payload, job: (
        _continue(lane_hint(0, payload["seq"] + 1)) if payload["seq"] < 40 else Finish(result="exhausted")
    )
    port.enqueue([lane_hint(0)])
    harness.drain()
    assert len(recorder.seen) == 41
    assert _job(port, lane_hint(0)).return_value() == "exhausted"


@pytest.mark.parametrize("gone", ["cancelled", "deleted"])
def test_a_job_that_was_taken_away_while_it_ran_is_not_revived(
    harness: RqHarness, recorder: Recorder, port: RqQueue, gone: str
) -> None:
    def answer(payload: dict[str, Any], job: Any) -> Directive:
        elsewhere = _job(port, coordinator_hint(0))
        if gone == "cancelled":
            elsewhere.cancel()
        else:
            elsewhere.delete()
        return _continue(coordinator_hint(1), delay=300)

    recorder.answer = answer
    port.enqueue([coordinator_hint(0)])
    harness.drain()
    harness.make_due(400)
    harness.drain()
    assert recorder.seen == [coordinator_hint(0).body()]


def test_each_continuation_makes_the_losses_that_rq_repairs_start_again(
    harness: RqHarness, recorder: Recorder, port: RqQueue
) -> None:
    def answer(payload: dict[str, Any], job: Job) -> Directive:
        job.retries_left = 1
        return _continue(lane_hint(0, 1), delay=60)

    recorder.answer = answer
    port.enqueue([lane_hint(0)])
    harness.drain()
    assert _job(port, lane_hint(0)).retries_left == 3


def test_children_inherit_queue_and_time_limit_of_their_parent(
    harness: RqHarness, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports: list[RqQueue] = []

    class Parent:
        def handle(self, payload: Any, job: Any) -> Directive:
            if payload["kind"] == "background":
                return WaitForLanes(children=(lane_hint(5),), hint=coordinator_hint(1), poll=60, result="process")
            return Finish(result="end")

    monkeypatch.setattr(jobs, "handler", lambda port: ports.append(port) or Parent())
    parent = RqQueue(harness.port.queue.connection, job_timeout=77)
    parent.enqueue([coordinator_hint(0)])
    harness.drain()
    assert [each.queue.name for each in ports] == ["migronaut-background"] * 2
    assert _job(parent, lane_hint(5)).timeout == 77


def test_hints_are_sent_all_or_none(port: RqQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    unserialisable = Hint(id="migronaut-odd", payload=VerifyJob())
    monkeypatch.setattr(Hint, "body", lambda hint: {"odd": object()} if hint is unserialisable else {})
    with pytest.raises(TypeError):
        port.enqueue([lane_hint(0), lane_hint(1), unserialisable])
    assert port.queue.count == 0
    assert not Job.exists(lane_hint(0).id, connection=port.queue.connection)


def test_a_beat_is_taken_before_a_backlog_of_slices(harness: RqHarness, recorder: Recorder, port: RqQueue) -> None:
    port.enqueue([lane_hint(lane) for lane in range(5)])
    port.enqueue([Hint(id="migronaut-verify-1", payload=VerifyJob())])
    harness.drain()
    assert recorder.seen[0]["kind"] == "background-verify"


def test_wake_never_creates_a_job_that_is_not_scheduled(harness: RqHarness, recorder: Recorder, port: RqQueue) -> None:
    port.wake(coordinator_hint(1), coordinator_hint(0).id)
    assert port.queue.scheduled_job_registry.count == 0


def test_the_job_is_plain_json_and_names_our_function(port: RqQueue) -> None:
    port.enqueue([lane_hint(4, 7)])
    job = _job(port, lane_hint(4, 7))
    assert job.func_name == "migronaut_rq.jobs.run"
    assert job.description == "background-lane 20261004120000_orders.py lane 4"
    assert (job.timeout, job.retries_left, job.meta) == (JOB_TIMEOUT, 3, {})


def test_what_is_no_json_does_not_stay_on_the_job(harness: RqHarness, recorder: Recorder, port: RqQueue) -> None:
    def answer(payload: dict[str, Any], job: Job) -> Directive:
        port.annotate(job, log="good")
        port.annotate(job, progress={"odd": object()})
        return Finish(result="end") if payload["seq"] else _continue(lane_hint(0, 1))

    recorder.answer = answer
    port.enqueue([lane_hint(0)])
    harness.drain()
    job = _job(port, lane_hint(0))
    assert job.get_status() == JobStatus.FINISHED
    assert job.meta == {"log": ["good", "good"]}


def test_a_job_keeps_its_rows_when_it_continues(harness: RqHarness, recorder: Recorder, port: RqQueue) -> None:
    def answer(payload: dict[str, Any], job: Job) -> Directive:
        port.annotate(job, log=f"slice {payload['seq']}", progress={"migrated": payload["seq"]})
        return _continue(lane_hint(0, payload["seq"] + 1)) if payload["seq"] < 60 else Finish(result="end")

    recorder.answer = answer
    port.enqueue([lane_hint(0)])
    harness.drain()
    assert _job(port, lane_hint(0)).meta == {
        "log": [f"slice {seq}" for seq in range(11, 61)],
        "progress": {"migrated": 60},
    }


def test_a_refused_payload_fails_once_in_one_line(harness: RqHarness, recorder: Recorder, port: RqQueue) -> None:
    def refuse(payload: dict[str, Any], job: Job) -> Directive:
        raise QueueJobInvalidError("The job's payload has an unknown kind; nothing was run.", field="kind")

    recorder.answer = refuse
    port.enqueue([lane_hint(0)])
    harness.drain()
    job = _job(port, lane_hint(0))
    assert len(recorder.seen) == 1
    assert job.get_status() == JobStatus.FAILED
    result = job.latest_result()
    assert result is not None
    assert (result.exc_string or "").strip().endswith("unknown kind; nothing was run.")


def test_a_worker_without_configuration_fails_its_job_in_one_clear_line(
    harness: RqHarness, port: RqQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIGRONAUT_APP", "no_such_module:make")
    jobs.open_migrator.cache_clear()
    with pytest.raises(ConfigInvalidError, match="MIGRONAUT_APP") as raised:
        jobs.handler(port)
    assert "\n" not in str(raised.value)
    port.enqueue([lane_hint(0)])
    harness.drain()
    job = _job(port, lane_hint(0))
    assert job.get_status() == JobStatus.FAILED
    result = job.latest_result()
    assert result is not None
    assert "MIGRONAUT_APP" in (result.exc_string or "").strip().splitlines()[-1]
    assert len(job.results()) == 1


def test_the_job_function_says_that_it_belongs_to_a_worker() -> None:
    with pytest.raises(UsageError, match="RQ worker"):
        jobs.run(kind="background-verify", v=1)


def test_an_unreachable_broker_is_one_sentence_without_credentials() -> None:
    connection = Redis(host="127.0.0.1", port=1, username="me", password="hunter2", retry=None)
    port = RqQueue(connection)
    calls = [lambda: port.enqueue([lane_hint(0)]), lambda: port.wake(coordinator_hint(1), coordinator_hint(0).id)]
    for call in calls:
        with pytest.raises(ConnectionFailedError, match=r"redis://127\.0\.0\.1:1/0") as raised:
            call()
        assert raised.value.exit_code == 5
        assert "hunter2" not in str(raised.value)
        assert "\n" not in str(raised.value)
