"""What every queue port must do. A hint may be lost or doubled by a broker, but not by the port."""

from __future__ import annotations

import json
from typing import Any

import pytest

from migronaut.core.jobs import Hint, VerifyJob
from migronaut.core.ports import QueuePort
from migronaut.core.tickets import ContinueLater, Directive, Finish, WaitForLanes
from migronaut.errors import QueueJobInvalidError
from migronaut.testing.contracts.harness import QueueHarness, Recorder, coordinator_hint, lane_hint

Port = QueuePort[Any]


def _by_text(payloads: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(payload, sort_keys=True) for payload in payloads)


def _answers(recorder: Recorder, *directives: Directive) -> None:
    """Answer the first payloads with ``directives``, all later ones with Finish."""
    queue = list(directives)
    recorder.answer = lambda payload, job: queue.pop(0) if queue else Finish(result="end")


def _park(recorder: Recorder, *, poll: float, children: tuple[Hint, ...]) -> None:
    parked = WaitForLanes(children=children, hint=coordinator_hint(1), poll=poll, result="process")

    def answer(payload: dict[str, Any], job: Any) -> Directive:
        first = payload["kind"] == "background" and payload["seq"] == 0
        return parked if first else Finish(result="end")

    recorder.answer = answer


class QueueContract:
    """The suite of a ``QueuePort``: what every queue adapter must do.

    Override the fixture ``harness``; pytest collects the rest.

    >>> class TestMyQueue(QueueContract):
    ...     @pytest.fixture
    ...     def harness(self, redis_url):
    ...         with MyHarness(redis_url) as opened:  # a QueueHarness
    ...             yield opened
    """

    @pytest.fixture
    def harness(self) -> QueueHarness:
        """The port under test with its worker; overridden by whoever runs the suite."""
        raise NotImplementedError("override the fixture `harness` to return your QueueHarness")

    @pytest.fixture
    def recorder(self) -> Recorder:
        """What the port's worker gives its jobs to."""
        return Recorder()

    @pytest.fixture
    def port(self, harness: QueueHarness, recorder: Recorder) -> Port:
        """The port, on an empty queue."""
        return harness.make(recorder)

    def test_enqueue_delivers_each_payload(self, harness: QueueHarness, recorder: Recorder, port: Port) -> None:
        """All kinds of hints reach the worker, each once."""
        hints = [coordinator_hint(), lane_hint(0), lane_hint(63), Hint(id="beat-1", payload=VerifyJob())]
        port.enqueue(hints)
        harness.drain()
        assert _by_text(recorder.seen) == _by_text([hint.body() for hint in hints])

    def test_a_payload_arrives_as_plain_json_with_its_types(
        self, harness: QueueHarness, recorder: Recorder, port: Port
    ) -> None:
        """The strict door of the payloads lets nothing else in: not a tuple, not a float for a whole number."""
        hint = lane_hint(3, seq=2**53)
        port.enqueue(iter([hint]))
        harness.drain()
        (payload,) = recorder.seen
        assert json.loads(json.dumps(payload)) == payload == hint.body()
        assert {name: type(value) for name, value in payload.items()} == {
            name: type(value) for name, value in hint.body().items()
        }

    def test_enqueue_of_nothing_is_harmless(self, harness: QueueHarness, recorder: Recorder, port: Port) -> None:
        """A coordinator may have no lane to send."""
        port.enqueue([])
        harness.drain()
        assert recorder.seen == []

    def test_a_hint_sent_again_under_a_new_id_is_delivered_again(
        self, harness: QueueHarness, recorder: Recorder, port: Port
    ) -> None:
        """The heal sends the same payload again: a queue must not take it for a duplicate."""
        first, again = lane_hint(0, sends=0), lane_hint(0, sends=1)
        assert first.id != again.id
        assert first.body() == again.body()
        port.enqueue([first])
        harness.drain()
        port.enqueue([again])
        harness.drain()
        assert recorder.seen == [first.body(), first.body()]

    def test_two_hints_for_one_ticket_at_once_are_both_delivered(
        self, harness: QueueHarness, recorder: Recorder, port: Port
    ) -> None:
        """Which of them does something is decided by the ticket, not by the queue."""
        port.enqueue([lane_hint(0, sends=0), lane_hint(0, sends=1)])
        harness.drain()
        assert recorder.seen == [lane_hint(0).body()] * 2

    @pytest.mark.parametrize("delay", [2.0, 2.5])
    def test_continue_later_delivers_the_new_payload_after_the_delay_and_not_before(
        self, harness: QueueHarness, recorder: Recorder, port: Port, delay: float
    ) -> None:
        """A delay is back-off, or another's turn: too early is too often. And it comes once."""
        _answers(recorder, ContinueLater(delay=delay, hint=coordinator_hint(1), result="wait"))
        port.enqueue([coordinator_hint(0)])
        harness.drain()
        assert recorder.seen == [coordinator_hint(0).body()]
        harness.make_due(delay + 1)
        harness.drain()
        assert recorder.seen == [coordinator_hint(0).body(), coordinator_hint(1).body()]
        harness.make_due(delay + 1)
        harness.drain()
        assert len(recorder.seen) == 2

    def test_continue_later_without_delay_goes_on_at_once(
        self, harness: QueueHarness, recorder: Recorder, port: Port
    ) -> None:
        """Slices follow each other without a pause."""
        steps = [ContinueLater(delay=0.0, hint=lane_hint(0, seq), result="yielded") for seq in range(1, 6)]
        _answers(recorder, *steps)
        port.enqueue([lane_hint(0, 0)])
        harness.drain()
        assert [payload["seq"] for payload in recorder.seen] == [0, 1, 2, 3, 4, 5]

    def test_a_job_that_continues_after_an_error_is_delivered_again(
        self, harness: QueueHarness, recorder: Recorder, port: Port
    ) -> None:
        """An error of a slice is counted already; the directive alone says what follows."""
        directive = ContinueLater(delay=0.0, hint=lane_hint(0, 1), result="raised", error=ValueError("transform broke"))
        _answers(recorder, directive)
        port.enqueue([lane_hint(0, 0)])
        harness.drain()
        assert [payload["seq"] for payload in recorder.seen] == [0, 1]

    def test_a_job_that_ends_with_an_error_is_not_delivered_again(
        self, harness: QueueHarness, recorder: Recorder, port: Port
    ) -> None:
        """The library must not retry what the engine gave up."""
        _answers(recorder, Finish(result="gave-up", error=ValueError("transform broke")))
        port.enqueue([lane_hint(0, 0)])
        harness.drain()
        harness.make_due(1.0)
        harness.drain()
        assert recorder.seen == [lane_hint(0).body()]

    def test_wait_for_lanes_delivers_the_children_now_and_the_parent_after_the_poll(
        self, harness: QueueHarness, recorder: Recorder, port: Port
    ) -> None:
        """The poll is what remains when every wake is lost."""
        children = (lane_hint(0), lane_hint(1), lane_hint(2))
        _park(recorder, poll=3.0, children=children)
        port.enqueue([coordinator_hint(0)])
        harness.drain()
        assert recorder.seen[0] == coordinator_hint(0).body()
        assert _by_text(recorder.seen[1:]) == _by_text([child.body() for child in children])
        harness.make_due(4.0)
        harness.drain()
        assert recorder.seen[4:] == [coordinator_hint(1).body()]

    def test_wait_for_lanes_without_children_still_wakes_the_parent(
        self, harness: QueueHarness, recorder: Recorder, port: Port
    ) -> None:
        """All its lanes may be at work already."""
        _park(recorder, poll=2.0, children=())
        port.enqueue([coordinator_hint(0)])
        harness.drain()
        harness.make_due(3.0)
        harness.drain()
        assert recorder.seen == [coordinator_hint(0).body(), coordinator_hint(1).body()]

    def test_wake_makes_a_waiting_parent_due_now(self, harness: QueueHarness, recorder: Recorder, port: Port) -> None:
        """The last lane out does not let its coordinator sleep until the poll."""
        _park(recorder, poll=300.0, children=(lane_hint(0),))
        port.enqueue([coordinator_hint(0)])
        harness.drain()
        assert len(recorder.seen) == 2
        port.wake(coordinator_hint(1), coordinator_hint(0).id)
        harness.drain()
        assert recorder.seen[2:] == [coordinator_hint(1).body()]

    def test_wake_from_inside_the_last_lane_reaches_the_parent(
        self, harness: QueueHarness, recorder: Recorder, port: Port
    ) -> None:
        """Whether it comes early, or a lane was faster than its parent."""

        def answer(payload: dict[str, Any], job: Any) -> Directive:
            if payload["kind"] == "background-lane":
                port.wake(coordinator_hint(1), coordinator_hint(0).id)
                return Finish(result="exhausted")
            if payload["seq"]:
                return Finish(result="done")
            return WaitForLanes(children=(lane_hint(0),), hint=coordinator_hint(1), poll=2.0, result="process")

        recorder.answer = answer
        port.enqueue([coordinator_hint(0)])
        harness.drain()
        # A lane may end before its parent is parked; then it is the poll that wakes it.
        harness.make_due(3.0)
        harness.drain()
        assert coordinator_hint(1).body() in recorder.seen

    @pytest.mark.parametrize("ref", [None, "migronaut-0000000000000000-gone-c-0-0"])
    def test_wake_of_a_job_that_the_queue_does_not_know_raises_nothing(
        self, harness: QueueHarness, recorder: Recorder, port: Port, ref: str | None
    ) -> None:
        """The broker may have lost it; a wake is best effort."""
        port.wake(coordinator_hint(7), ref)
        harness.drain()
        assert recorder.seen in ([], [coordinator_hint(7).body()])

    def test_a_refused_job_runs_once_and_does_not_stop_the_others(
        self, harness: QueueHarness, recorder: Recorder, port: Port
    ) -> None:
        """A payload that is refused now will be refused for ever."""

        def answer(payload: dict[str, Any], job: Any) -> Directive:
            if payload["kind"] == "background":
                raise QueueJobInvalidError("The job's payload has an unknown kind; nothing was run.", field="kind")
            return Finish(result="end")

        recorder.answer = answer
        port.enqueue([coordinator_hint(0), lane_hint(0), lane_hint(1)])
        harness.drain()
        harness.make_due(1.0)
        harness.drain()
        assert _by_text(recorder.seen) == _by_text(
            [coordinator_hint(0).body(), lane_hint(0).body(), lane_hint(1).body()]
        )

    def test_log_rows_and_progress_are_visible(self, harness: QueueHarness, recorder: Recorder, port: Port) -> None:
        """An operator sees what a job did, where this library shows such things."""

        def answer(payload: dict[str, Any], job: Any) -> Directive:
            port.annotate(job, log="lane 0: yielded, 1234567 migrated")
            port.annotate(job, progress={"migrated": 7654321})
            return Finish(result="end")

        recorder.answer = answer
        port.enqueue([lane_hint(0)])
        harness.drain()
        assert "lane 0: yielded, 1234567 migrated" in harness.visible()
        assert "7654321" in harness.visible()

    def test_annotate_never_fails_a_job(self, harness: QueueHarness, recorder: Recorder, port: Port) -> None:
        """Whatever a row holds, the work goes on."""

        def answer(payload: dict[str, Any], job: Any) -> Directive:
            for row in range(60):
                port.annotate(job, log=f"row {row} " + "x" * 10_000)
            port.annotate(job, log="unusual: \x00 \ud800 \U0001f680")
            port.annotate(job, progress={"odd": object()})
            port.annotate(object(), log="no job of ours")
            return (
                ContinueLater(delay=0.0, hint=lane_hint(0, 1), result="yielded")
                if not payload["seq"]
                else Finish(result="end")
            )

        recorder.answer = answer
        port.enqueue([lane_hint(0)])
        harness.drain()
        assert [payload["seq"] for payload in recorder.seen] == [0, 1]

    def test_rows_have_at_most_three_hundred_characters_and_a_job_keeps_fifty(
        self, harness: QueueHarness, recorder: Recorder, port: Port
    ) -> None:
        """A job of a migration that runs for weeks must not grow."""

        def answer(payload: dict[str, Any], job: Any) -> Directive:
            for row in range(60):
                port.annotate(job, log=f"row-{row:03} " + "x" * 1000)
            return Finish(result="end")

        recorder.answer = answer
        port.enqueue([lane_hint(0)])
        harness.drain()
        visible = harness.visible()
        assert "row-059" in visible
        assert "x" * 301 not in visible
        assert ("row-009" in visible) is not harness.keeps_rows

    def test_a_worker_that_runs_is_not_stopping(self, port: Port) -> None:
        """Otherwise each slice would end with its first batch."""
        assert not port.stopping.is_set()
        assert port.stopping.reason is None
