"""Jobs of background migrations: whatever happens to hints and workers, the tickets end right."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from migronaut.core.coordinator import Done, Process, Wait
from migronaut.core.jobs import CoordinatorJob, Hint, LaneJob, VerifyJob
from migronaut.core.lane import MAX_LANE_RETRIES, Outcome, SliceResult
from migronaut.core.ports import Owner, Stop, UnavailableError
from migronaut.core.state import BackgroundState, Counters, Spec, Status
from migronaut.core.tickets import MAX_LOSSES, ContinueLater, Finish, Role, Ticket, TicketStatus, WaitForLanes
from migronaut.engine import Engine, Ports, Source
from migronaut.engine.operator.verify import Drift, Verified
from migronaut.errors import (
    BackgroundConflictError,
    ConnectionFailedError,
    LockHeldError,
    NotRegisteredError,
    QueueJobInvalidError,
)
from migronaut.memory import FakeClock, MemoryDocuments, MemoryLocks, MemoryServer, MemoryStore, MemoryTickets
from migronaut.memory.running import LateWriteBehind
from migronaut.queueing import (
    BackgroundProcessor,
    Faults,
    Healed,
    MemoryJob,
    MemoryQueue,
    MemoryStop,
    Producer,
    QueueSettings,
    enqueue_background,
    every,
    heal,
)
from migronaut.queueing.memory import JobStatus

NAME = "20261004_orders.py"
OWNER = Owner(name="w1", host="h", pid=1)


class NoFiles:
    def names(self) -> tuple[str, ...]:
        return ()

    def find(self, name: str) -> Source | None:
        return None


class CountingHeartbeat:
    """Renews once at the start of each block."""

    def __init__(self) -> None:
        self.renewed: list[tuple[bool, float]] = []

    @contextmanager
    def beating(self, renew: Callable[[], bool], *, ttl: float) -> Iterator[Stop]:
        self.renewed.append((renew(), ttl))
        yield MemoryStop()


class ScriptedEngine(Engine):
    """Answers as a test says: a value is returned, an exception raised, a callable called."""

    def __init__(self, ports: Ports) -> None:
        super().__init__(ports)
        self.steps: list[Any] = []
        self.slices: list[Any] = []
        self.found = Verified(drift=(), checked=(), skipped=())
        self.calls: list[dict[str, Any]] = []

    def coordinate(self, name: str, *, owner: Owner, stop: Stop) -> Process | Wait | Done:
        answer: Process | Wait | Done = _answer(self.steps)
        return answer

    def run_slice(
        self, name: str, *, owner: Owner, stop: Stop, run: str = "", attempt: int = 0, slice_length: float | None = None
    ) -> SliceResult:
        self.calls.append({"name": name, "run": run, "attempt": attempt, "length": slice_length, "stop": stop})
        result: SliceResult = _answer(self.slices)
        return result

    def verify(self) -> Verified:
        return self.found


def _answer(script: list[Any]) -> Any:
    answer = script.pop(0)
    if callable(answer):
        answer = answer()
    if isinstance(answer, BaseException):
        raise answer
    return answer


class World:
    """One memory server, one memory queue, one worker."""

    def __init__(self, settings: QueueSettings | None = None) -> None:
        self.clock = FakeClock()
        self.server = MemoryServer(clock=self.clock)
        self.tickets = MemoryTickets(self.server)
        self.store = MemoryStore(self.server)
        self.heartbeat = CountingHeartbeat()
        ports = Ports(
            store=self.store,
            tickets=self.tickets,
            locks=MemoryLocks(self.server),
            documents=lambda spec: MemoryDocuments(self.server, spec.collection),
            catalog=NoFiles(),
            clock=self.clock,
            heartbeat=self.heartbeat,
            write_behind=LateWriteBehind(),
        )
        self.engine = ScriptedEngine(ports)
        self.queue = MemoryQueue(self.clock)
        self.processor = BackgroundProcessor(self.engine, self.queue, owner=OWNER, settings=settings)
        self.queue.bind(self.processor)
        self.producer = Producer(self.engine, self.queue)
        self.job = MemoryJob(id="j", payload={}, due=0.0, order=0)

    @property
    def background(self) -> World:
        return self

    def register(self, name: str = NAME, status: Status = Status.RUNNING) -> None:
        now = self.store.now()
        spec = Spec(collection="orders", from_version=1, to_version=2)
        state = BackgroundState(
            name=name, registration="r", status=status, checksum="c", spec=spec, registered_at=now, updated_at=now
        )
        assert self.store.insert(state)

    def handle(self, ticket: Ticket) -> Any:
        return self.processor.handle(ticket.hint.body(), self.job)

    def coordinator(self) -> Ticket:
        return self.tickets.open(NAME, Role.COORDINATOR)[0]

    def lane(self, lane: int = 0) -> Ticket:
        return self.tickets.open(NAME, Role.LANE, lane=lane)[0]

    def stored(self) -> dict[str, Ticket]:
        return dict(self.server.tickets)


@pytest.fixture
def world() -> World:
    return World()


def _slice(outcome: Outcome, **more: Any) -> SliceResult:
    return SliceResult(outcome=outcome, **more)


def _steal(world: World, ticket: Ticket) -> Callable[[], None]:
    """Another worker takes the ticket over after its time to live."""

    def steal() -> None:
        world.clock.advance(3600)
        claimed = world.tickets.claim(ticket.id, run=ticket.run, seq=ticket.seq, owner="other", ttl=60)
        assert claimed is not None

    return steal


# --------------------------------------------------------------------------- the door


@pytest.mark.parametrize(
    "payload", [None, {}, {"v": 2, "kind": "background"}, {"v": 1, "kind": "up"}, "x" * 10_000_000]
)
def test_a_payload_that_is_not_ours_runs_nothing(world: World, payload: object) -> None:
    before = world.stored()
    with pytest.raises(QueueJobInvalidError):
        world.processor.handle(payload, world.job)
    assert (world.stored(), world.engine.calls) == (before, [])


@pytest.mark.parametrize("change", [{"run": "other"}, {"seq": 1}, {"migration": "20261004_other.py"}])
def test_a_hint_for_a_ticket_that_is_not_there_any_more_does_nothing(world: World, change: dict[str, Any]) -> None:
    ticket = world.coordinator()
    assert world.processor.handle({**ticket.hint.body(), **change}, world.job) == Finish(result="stale")
    assert world.stored() == {NAME: ticket}


def test_a_hint_delivered_twice_works_once(world: World) -> None:
    ticket = world.lane()
    again: list[Any] = []

    def slice_with_a_duplicate_meanwhile() -> SliceResult:
        again.append(world.handle(ticket))
        return _slice(Outcome.YIELDED)

    world.engine.slices = [slice_with_a_duplicate_meanwhile]
    first = world.handle(ticket)
    assert isinstance(first, ContinueLater)
    assert again == [Finish(result="stale")]
    assert world.handle(ticket) == Finish(result="stale")
    assert len(world.engine.calls) == 1


def test_a_hint_whose_ticket_cannot_be_read_comes_back_unchanged(world: World) -> None:
    ticket = world.lane()
    world.server.interrupt = _raise_at("tickets.claim", UnavailableError("no primary"))
    directives = [world.handle(ticket), world.handle(ticket)]
    assert all(isinstance(directive, ContinueLater) and directive.delay > 0 for directive in directives)
    assert [directive.hint.body() for directive in directives] == [ticket.hint.body()] * 2
    assert len({ticket.hint.id, *(directive.hint.id for directive in directives)}) == 3
    world.server.interrupt = None
    world.engine.slices = [_slice(Outcome.YIELDED)]
    assert world.processor.handle(directives[0].hint.body(), world.job).result == "yielded"


def _raise_at(point: str, error: Exception) -> Callable[[str], None]:
    def interrupt(reached: str) -> None:
        if reached == point:
            raise error

    return interrupt


# --------------------------------------------------------------------------- coordinator


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED, Status.PAUSED, Status.CANCELLED, None])
def test_a_coordinator_that_is_done_leaves_no_ticket(world: World, status: Status | None) -> None:
    ticket = world.coordinator()
    world.engine.steps = [Done(status)]
    directive = world.handle(ticket)
    assert isinstance(directive, Finish)
    assert directive.result == f"done: {status or 'not registered'}"
    assert world.stored() == {}


def test_a_completed_migration_wakes_those_that_waited_for_it(world: World) -> None:
    world.register("20261005_next.py", Status.BLOCKED)
    ticket = world.coordinator()
    world.engine.steps = [Done(Status.COMPLETED)]
    world.handle(ticket)
    assert list(world.stored()) == ["20261005_next.py"]
    assert [job.payload["migration"] for job in world.queue.jobs] == ["20261005_next.py"]


def test_a_waiting_coordinator_comes_back_when_it_asked_to(world: World) -> None:
    ticket = world.coordinator()
    world.engine.steps = [Wait(reason="waits for 20261001_x.py", retry_after=7.0)]
    directive = world.handle(ticket)
    assert directive == ContinueLater(delay=7.0, hint=world.stored()[NAME].hint, result="wait")
    assert directive.hint.payload == CoordinatorJob(migration=NAME, run=ticket.run, seq=1)
    assert (world.stored()[NAME].due - world.store.now()).total_seconds() == 7.0
    assert world.job.log == ["coordinator waits: waits for 20261001_x.py"]


def test_a_stopping_worker_does_not_take_its_coordinator_back_at_once(world: World) -> None:
    ticket = world.coordinator()
    world.queue.stopping.set()
    world.engine.steps = [Wait(reason="stopping", retry_after=0.0)]
    assert world.handle(ticket).delay == 2.0


def test_process_opens_lanes_in_free_slots_only(world: World) -> None:
    ticket = world.coordinator()
    taken = world.lane(1)
    world.engine.steps = [Process(lanes=2, slots=5)]
    directive = world.handle(ticket)
    assert isinstance(directive, WaitForLanes)
    assert [child.payload.lane for child in directive.children if isinstance(child.payload, LaneJob)] == [0, 2]
    assert sorted(world.stored()) == [NAME, f"{NAME}#0", f"{NAME}#1", f"{NAME}#2"]
    assert world.stored()[f"{NAME}#1"] == taken
    assert world.stored()[f"{NAME}#2"].ref == directive.children[1].id
    parent = world.stored()[NAME]
    assert (parent.status, parent.seq, directive.hint, directive.poll) == (TicketStatus.WAITING, 1, parent.hint, 10.0)
    assert (parent.due - world.store.now()).total_seconds() == 10.0


def test_process_without_a_free_slot_waits_for_the_lanes_that_are(world: World) -> None:
    ticket = world.coordinator()
    world.lane(0)
    world.engine.steps = [Process(lanes=3, slots=1)]
    directive = world.handle(ticket)
    assert isinstance(directive, WaitForLanes)
    assert directive.children == ()


def test_a_coordinator_without_any_lane_looks_again_soon(world: World) -> None:
    """The last lane may have ended while the coordinator worked; nobody would wake it before its poll."""
    ticket = world.coordinator()
    world.engine.steps = [Process(lanes=0, slots=2)]
    directive = world.handle(ticket)
    assert isinstance(directive, ContinueLater)
    assert directive.delay == 2.0
    world.engine.steps = [Done(Status.COMPLETED)]
    assert world.processor.handle(directive.hint.body(), world.job).result == "done: completed"


def test_lanes_that_were_opened_before_the_database_went_away_are_sent(world: World) -> None:
    ticket = world.coordinator()
    opened: list[str] = []

    def interrupt(point: str) -> None:
        opened.append(point)
        if opened.count("tickets.open") == 2:
            raise UnavailableError("no primary")

    world.engine.steps = [Process(lanes=3, slots=3)]
    world.server.interrupt = interrupt
    directive = world.handle(ticket)
    assert isinstance(directive, WaitForLanes)
    assert len(directive.children) == 1


@pytest.mark.parametrize("step", [Done(Status.COMPLETED), Wait(reason="r"), Process(lanes=2, slots=2), ValueError("x")])
def test_a_coordinator_that_was_taken_over_changes_nothing(world: World, step: Any) -> None:
    ticket = world.coordinator()
    steal = _steal(world, ticket)

    def coordinate() -> Any:
        steal()
        return step

    world.engine.steps = [coordinate]
    assert world.handle(ticket).result == "superseded"
    assert list(world.stored()) == [NAME]
    assert world.stored()[NAME].owner == "other"


def test_a_held_lock_is_waited_for_without_counting_a_failure(world: World) -> None:
    ticket = world.coordinator()
    world.engine.steps = [LockHeldError("held")]
    directive = world.handle(ticket)
    assert (directive.result, directive.delay, directive.error) == ("wait", 5.0, None)
    assert world.stored()[NAME].failures == 0


def test_a_coordinator_that_raises_backs_off_and_gives_up_in_the_end(world: World) -> None:
    ticket = world.coordinator()
    delays = []
    for failure in range(MAX_LANE_RETRIES):
        bug = ValueError(f"bug {failure}")
        world.engine.steps = [bug]
        directive = world.processor.handle(ticket.hint.body(), world.job)
        assert isinstance(directive, ContinueLater)
        assert directive.error is bug
        delays.append(directive.delay)
        ticket = world.stored()[NAME]
        assert ticket.failures == failure + 1
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128]
    world.engine.steps = [ValueError("bug")]
    assert world.handle(ticket).result == "gave-up"
    assert world.stored() == {}


def test_a_coordinator_step_that_works_clears_the_failures(world: World) -> None:
    world.engine.steps = [ValueError("bug"), Wait(reason="r")]
    world.handle(world.coordinator())
    world.handle(world.stored()[NAME])
    assert world.stored()[NAME].failures == 0


def test_a_ticket_that_cannot_be_written_is_left_to_the_heal(world: World) -> None:
    ticket = world.coordinator()
    world.engine.steps = [Wait(reason="r")]
    world.server.interrupt = _raise_at("tickets.again", UnavailableError("no primary"))
    assert world.handle(ticket).result == "unavailable"
    world.server.interrupt = None
    world.clock.advance(3600)
    world.engine.steps = [Done(Status.PAUSED)]
    assert world.producer.heal() == Healed(sent=1)
    world.queue.run_due()
    assert world.stored() == {}


# --------------------------------------------------------------------------- lane


@pytest.mark.parametrize(
    ("outcome", "stopping", "delay"),
    [
        (Outcome.YIELDED, False, 0.0),
        (Outcome.LOST, False, 0.0),
        (Outcome.STOPPED, True, 2.0),
        (Outcome.YIELDED, True, 2.0),
    ],
)
def test_an_unfinished_slice_goes_on(world: World, outcome: Outcome, stopping: bool, delay: float) -> None:
    ticket = world.lane(3)
    if stopping:
        world.queue.stopping.set()
    world.engine.slices = [_slice(outcome)]
    directive = world.handle(ticket)
    assert directive == ContinueLater(delay=delay, hint=world.stored()[ticket.id].hint, result=str(outcome))
    assert directive.hint.payload == LaneJob(migration=NAME, run=ticket.run, seq=1, lane=3)


def test_a_busy_lane_comes_back_when_told(world: World) -> None:
    ticket = world.lane()
    world.engine.slices = [_slice(Outcome.BUSY, retry_after=30.0)]
    assert world.handle(ticket).delay == 30.0


ENDING = [Outcome.EXHAUSTED, Outcome.PAUSED, Outcome.CANCELLED, Outcome.FAILED, Outcome.COMPLETED, Outcome.STALE]


@pytest.mark.parametrize("outcome", ENDING)
def test_the_last_lane_out_wakes_the_coordinator_whatever_way_it_ended(world: World, outcome: Outcome) -> None:
    world.producer.enqueue(_registered(world))
    world.engine.steps = [Process(lanes=2, slots=2), Wait(reason="r")]
    world.engine.slices = [_slice(Outcome.YIELDED), _slice(outcome), _slice(outcome)]
    world.queue.run_due()
    assert world.engine.steps == []
    assert list(world.stored()) == [NAME]
    assert world.stored()[NAME].seq == 2
    assert world.clock.monotonic() == 0.0


def _registered(world: World) -> str:
    world.register()
    return NAME


def test_a_lane_that_ends_before_others_wakes_nobody(world: World) -> None:
    ticket = world.coordinator()
    world.engine.steps = [Process(lanes=2, slots=2)]
    first, _ = world.handle(ticket).children
    world.engine.slices = [_slice(Outcome.EXHAUSTED)]
    assert world.processor.handle(first.body(), world.job) == Finish(result="exhausted")
    assert world.queue.jobs == ()


def test_a_lane_that_ends_while_its_coordinator_works_wakes_nobody(world: World) -> None:
    ticket, lane = world.coordinator(), world.lane()

    def step() -> Wait:
        world.handle(lane)
        return Wait(reason="r")

    world.engine.steps, world.engine.slices = [step], [_slice(Outcome.EXHAUSTED)]
    assert world.handle(ticket).result == "wait"
    assert world.queue.jobs == ()


def test_a_raised_slice_is_shown_and_counted_and_given_up_in_the_end(world: World) -> None:
    ticket = world.lane()
    error = ValueError("mongodb://user:secret@host refused")
    for failure in range(MAX_LANE_RETRIES):
        world.engine.slices = [_slice(Outcome.RAISED, error=error)]
        directive = world.handle(ticket)
        assert isinstance(directive, ContinueLater)
        assert directive.error is error
        assert directive.delay == 2.0**failure
        ticket = world.stored()[ticket.id]
    world.engine.slices = [_slice(Outcome.RAISED, error=error)]
    assert world.handle(ticket) == Finish(result="gave-up", error=error)
    assert world.stored() == {}
    assert [call["attempt"] for call in world.engine.calls] == list(range(MAX_LANE_RETRIES + 1))
    assert world.job.log[-1] == "lane 0 failed: ValueError"  # what it says may quote a document
    assert "secret" not in str(world.job.log)


def test_a_slice_that_works_clears_the_failures(world: World) -> None:
    ticket = world.lane()
    world.engine.slices = [_slice(Outcome.RAISED, error=ValueError()), _slice(Outcome.YIELDED)]
    world.handle(ticket)
    world.handle(world.stored()[ticket.id])
    assert world.stored()[ticket.id].failures == 0


def test_a_time_limit_of_the_queue_library_is_a_raised_slice(world: World) -> None:
    class JobTimeoutError(Exception):
        pass

    ticket = world.lane()
    world.engine.slices = [JobTimeoutError("300 s")]
    directive = world.handle(ticket)
    assert (directive.result, directive.delay) == ("raised", 1.0)
    assert isinstance(directive.error, JobTimeoutError)


@pytest.mark.parametrize("outcome", [Outcome.YIELDED, Outcome.EXHAUSTED, Outcome.RAISED])
def test_a_lane_that_was_taken_over_changes_nothing(world: World, outcome: Outcome) -> None:
    ticket = world.lane()
    steal = _steal(world, ticket)

    def run() -> SliceResult:
        steal()
        return _slice(outcome)

    world.engine.slices = [run]
    assert world.handle(ticket).result == "superseded"
    assert world.stored()[ticket.id].owner == "other"


def test_a_lane_runs_its_slice_with_its_run_and_the_stop_of_its_worker() -> None:
    world = World(QueueSettings(slice_length=12.0))
    ticket = world.lane()
    world.engine.slices = [_slice(Outcome.YIELDED)]
    world.handle(ticket)
    assert world.engine.calls == [
        {"name": NAME, "run": ticket.run, "attempt": 0, "length": 12.0, "stop": world.queue.stopping}
    ]


def test_a_ticket_is_kept_while_its_slice_runs() -> None:
    world = World(QueueSettings(slice_length=12.0))
    ticket = world.lane()
    dues = []

    def run() -> SliceResult:
        dues.append((world.stored()[ticket.id].due - world.store.now()).total_seconds())
        return _slice(Outcome.YIELDED)

    world.engine.slices = [run]
    world.handle(ticket)
    assert dues == [72.0]
    assert world.heartbeat.renewed == [(True, 72.0)]


def test_the_counters_of_a_slice_are_its_progress(world: World) -> None:
    ticket = world.lane(2)
    counters = Counters(scanned=10, migrated=8, failed=1)
    world.engine.slices = [_slice(Outcome.YIELDED, counters=counters, reason="slow")]
    world.handle(ticket)
    assert world.job.progress["migrated"] == 8
    assert all(type(number) is int for number in world.job.progress.values())
    assert world.job.log == ["lane 2: yielded, 8 of 10 migrated; slow"]


def test_a_job_that_cannot_be_annotated_works_all_the_same(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise ConnectionError("no broker")

    monkeypatch.setattr(world.queue, "annotate", broken)
    ticket = world.lane()
    world.engine.slices = [_slice(Outcome.RAISED, error=ValueError("x"))]
    assert world.handle(ticket).result == "raised"


class BrokenQueue(MemoryQueue):
    """A queue whose broker is away while ``broken`` is set."""

    broken = False

    def enqueue(self, hints: Any) -> None:
        self._fail()
        super().enqueue(hints)

    def continue_later(self, job: MemoryJob, directive: ContinueLater) -> None:
        self._fail()
        super().continue_later(job, directive)

    def wake(self, hint: Hint, ref: str | None) -> None:
        self._fail()
        super().wake(hint, ref)

    def _fail(self) -> None:
        if self.broken:
            raise ConnectionError("redis://:secret@host:6379 is away")


@pytest.fixture
def outage() -> World:
    """A world whose broker is away."""
    world = World()
    world.queue = queue = BrokenQueue(world.clock)
    world.processor = BackgroundProcessor(world.engine, queue, owner=OWNER)
    world.producer = world.processor.producer
    queue.bind(world.processor)
    queue.broken = True
    return world


def test_a_failed_send_is_a_warning_and_the_heal_sends_it(outage: World, caplog: pytest.LogCaptureFixture) -> None:
    ticket = outage.lane()
    outage.engine.slices = [_slice(Outcome.YIELDED), _slice(Outcome.EXHAUSTED)]
    assert outage.processor.run(ticket.hint.body(), outage.job) is None
    assert "did not take a hint (ConnectionError" in caplog.text
    assert "secret" not in caplog.text
    outage.queue.broken = False  # type: ignore[attr-defined]
    outage.clock.advance(31)
    outage.producer.heal()
    outage.queue.run_due()
    assert outage.stored() == {}


def test_a_wake_that_cannot_be_sent_does_not_fail_the_lane(outage: World) -> None:
    parent = outage.coordinator()
    outage.engine.steps, outage.engine.slices = [Process(lanes=1, slots=1)], [_slice(Outcome.EXHAUSTED)]
    (child,) = outage.handle(parent).children
    assert outage.processor.handle(child.body(), outage.job) == Finish(result="exhausted")
    assert list(outage.stored()) == [NAME]


# --------------------------------------------------------------------------- producer


def test_a_second_enqueue_is_absorbed_while_one_is_alive_and_accepted_afterwards(world: World) -> None:
    world.register()
    (first,) = world.producer.enqueue(NAME)
    (second,) = world.producer.enqueue(NAME)
    assert (first.absorbed, second.absorbed, second.run) == (False, True, first.run)
    assert len(world.queue.jobs) == 1
    world.engine.steps = [Done(Status.PAUSED)]
    world.queue.run_due()
    (third,) = world.producer.enqueue(NAME)
    assert not third.absorbed
    assert third.run != first.run


def test_enqueue_without_a_name_takes_all_active_ones(world: World) -> None:
    for number, status in enumerate(Status):
        world.register(f"{number}_{status}.py", status)
    names = [enqueued.migration for enqueued in enqueue_background(world.queue, world)]
    assert names == ["0_blocked.py", "1_pending.py", "2_running.py"]


def test_an_unknown_migration_is_refused(world: World) -> None:
    with pytest.raises(NotRegisteredError, match="migronaut up"):
        enqueue_background(world.queue, world, NAME)
    assert (world.stored(), world.queue.jobs) == ({}, ())


@pytest.mark.parametrize(
    ("status", "step"),
    [
        (Status.PAUSED, "resume"),
        (Status.COMPLETED, "retry"),
        (Status.FAILED, "retry"),
        (Status.CANCELLED, "retry"),
    ],
)
def test_a_migration_with_nothing_to_do_is_refused_with_the_next_step(world: World, status: Status, step: str) -> None:
    world.register(status=status)
    with pytest.raises(BackgroundConflictError, match=f"is {status} .*background {step}"):
        world.producer.enqueue(NAME)
    assert world.stored() == {}


def test_an_enqueue_during_an_outage_says_that_the_ticket_is_stored(outage: World) -> None:
    outage.register()
    with pytest.raises(ConnectionFailedError, match="ticket is stored") as caught:
        outage.producer.enqueue(NAME)
    assert "secret" not in str(caught.value)
    assert list(outage.stored()) == [NAME]


def test_a_database_that_is_away_is_an_error_for_users(world: World) -> None:
    world.server.interrupt = _raise_at("store.states", UnavailableError("no primary"))
    with pytest.raises(ConnectionFailedError):
        enqueue_background(world.queue, world)
    with pytest.raises(ConnectionFailedError):
        heal(world.queue, world)


def test_heal_leaves_what_is_alive_alone(world: World) -> None:
    world.register()
    world.producer.enqueue(NAME)
    world.clock.advance(29)
    assert heal(world.queue, world) == Healed()


def test_heal_sends_a_lost_hint_again_under_a_new_id_and_ever_more_rarely(world: World) -> None:
    world.register()
    world.producer.enqueue(NAME)
    world.queue.restart_empty()
    sent_at = []
    for second in range(200):
        world.clock.advance(1)
        if world.producer.heal().sent:
            sent_at.append(second + 1)
    assert sent_at == [31, 31 + 61]
    ids = [job.id for job in world.queue.jobs]
    assert len(set(ids)) == 3
    assert world.stored()[NAME].ref == ids[-1]
    world.engine.steps = [Done(Status.PAUSED)]
    world.queue.run_due()
    assert [job.status for job in world.queue.jobs] == [JobStatus.LOST, JobStatus.FINISHED, JobStatus.FINISHED]
    assert [job.result for job in world.queue.jobs[1:]] == ["done: paused", "stale"]


def test_heal_wakes_active_migrations_that_nobody_works_on(world: World) -> None:
    for number, status in enumerate(Status):
        world.register(f"{number}_{status}.py", status)
    assert world.producer.heal() == Healed(opened=3)
    assert world.producer.heal() == Healed()


def _lose(world: World, ticket: Ticket) -> Ticket:
    """A worker claims the ticket and vanishes, again and again, until the ticket is over its limit."""
    while (current := world.stored()[ticket.id]).losses <= MAX_LOSSES:
        world.tickets.claim(ticket.id, run=current.run, seq=current.seq, owner="dead", ttl=60)
        world.clock.advance(3600)
        assert world.producer.heal().sent == 1
    world.clock.advance(3600)
    return world.stored()[ticket.id]


def test_a_lane_lost_too_often_is_dropped_and_its_coordinator_opens_another(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    lane = world.lane()
    _lose(world, lane)
    with caplog.at_level(logging.WARNING):
        assert world.producer.heal() == Healed(dropped=1)
    assert f"Lane 0 of {NAME} was lost 6 times" in caplog.text
    assert world.stored() == {}
    world.engine.steps = [Process(lanes=1, slots=1)]
    (child,) = world.handle(world.coordinator()).children
    assert child.payload == LaneJob(migration=NAME, run=world.stored()[lane.id].run, seq=0, lane=0)
    assert child.payload.run != lane.run


def test_a_coordinator_lost_too_often_starts_again_under_a_new_run(world: World) -> None:
    world.register()
    ticket = world.coordinator()
    _lose(world, ticket)
    assert world.producer.heal() == Healed(reopened=1)
    assert world.stored()[NAME].run != ticket.run
    assert world.stored()[NAME].losses == 0


def test_an_outage_while_healing_is_one_warning_and_the_next_beat_goes_on(
    outage: World, caplog: pytest.LogCaptureFixture
) -> None:
    lanes = [outage.lane(lane) for lane in range(3)]
    outage.register()
    outage.clock.advance(31)
    assert outage.producer.heal() == Healed()
    assert len(caplog.records) == 1
    assert "secret" not in caplog.text
    outage.queue.broken = False  # type: ignore[attr-defined]
    assert outage.producer.heal() == Healed(sent=len(lanes) - 1, opened=1)
    outage.clock.advance(61)
    assert outage.producer.heal().sent > 0


# --------------------------------------------------------------------------- the beat


def _beat(world: World) -> str | None:
    world.queue.beat()
    world.queue.run_due()
    return world.queue.jobs[-1].result


def test_each_part_of_a_beat_runs_once_per_interval(world: World) -> None:
    assert _beat(world) == ("heal: 0 sent, 0 dropped, 0 reopened, 0 opened; verify: 0 with documents of an old shape")
    assert _beat(world) == "not due"
    world.clock.advance(30)
    assert _beat(world) == "heal: 0 sent, 0 dropped, 0 reopened, 0 opened"
    world.clock.advance(570)
    assert "verify" in str(_beat(world))


def test_a_beat_has_drifted_migrations_worked_on_at_once(world: World) -> None:
    def verify() -> Verified:
        world.register()
        drift = Drift(migration=NAME, collection="orders", reopened=True)
        return Verified(drift=(drift,), checked=(NAME,), skipped=())

    world.engine.verify = verify  # type: ignore[method-assign]
    world.engine.steps = [Done(Status.PAUSED)]
    world.queue.beat()
    world.queue.run_one()
    assert list(world.stored()) == [NAME]


def test_a_beat_that_fails_does_not_fail_its_job(world: World) -> None:
    world.server.interrupt = _raise_at("store.tick", UnavailableError("no primary"))
    assert _beat(world) == "failed"
    assert isinstance(world.queue.jobs[-1].error, UnavailableError)
    assert world.queue.jobs[-1].status is JobStatus.FINISHED


def test_a_verify_payload_needs_no_ticket(world: World) -> None:
    payload = Hint(id="x", payload=VerifyJob()).body()
    assert isinstance(world.processor.handle(payload, world.job), Finish)


# --------------------------------------------------------------------------- the whole, under faults


class Lanes:
    """A migration of ``work`` slices, done by whichever lanes come."""

    def __init__(self, world: World, work: int, random: Random) -> None:
        self.left, self.done, self._random, self._world = work, 0, random, world
        self.kill = 0.0

    def coordinate(self, name: str, *, owner: Owner, stop: Stop) -> Process | Done:
        if self.left:
            return Process(lanes=3, slots=3)
        state = self._world.store.load(name)
        assert state is not None
        if state.status is Status.RUNNING:
            self._world.server.states[name] = _completed(state)
        return Done(Status.COMPLETED)

    def run_slice(self, name: str, **more: Any) -> SliceResult:
        if self._random.random() < self.kill:
            raise WorkerKilled
        if not self.left:
            return _slice(Outcome.EXHAUSTED)
        self.left, self.done = self.left - 1, self.done + 1
        outcome = self._random.choice([Outcome.YIELDED, Outcome.YIELDED, Outcome.EXHAUSTED, Outcome.RAISED])
        return _slice(outcome, error=ValueError("x") if outcome is Outcome.RAISED else None)


class WorkerKilled(BaseException):
    """kill -9, as far as a test in one process can."""


def _completed(state: BackgroundState) -> BackgroundState:
    from attrs import evolve

    return evolve(state, status=Status.COMPLETED)


def _faults(kind: str, random: Random) -> Faults:
    return {
        "none": Faults(),
        "every third hint dropped": Faults(drop=every(3)),
        "every hint twice": Faults(duplicate=lambda hint: True),
        "late": Faults(delay=lambda hint: random.choice([0.0, 1.0, 45.0])),
        "out of order": Faults(pick=lambda jobs: random.randrange(len(jobs))),
    }[kind]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("restart", [False, True], ids=["stays", "restarts-empty"])
@pytest.mark.parametrize("kill", [0.0, 0.2], ids=["alive", "killed"])
@pytest.mark.parametrize("kind", ["none", "every third hint dropped", "every hint twice", "late", "out of order"])
def test_a_migration_ends_without_a_ticket_left(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str, kill: float, restart: bool, seed: int
) -> None:
    print(f"seed {seed}")
    random = Random(seed)
    lanes = Lanes(world, work=25, random=random)
    lanes.kill = kill
    monkeypatch.setattr(world.engine, "coordinate", lanes.coordinate)
    monkeypatch.setattr(world.engine, "run_slice", lanes.run_slice)
    world.queue.faults = _faults(kind, random)
    world.register()
    world.producer.enqueue(NAME)
    for beat in range(2000):
        world.queue.beat()
        _run_all(world.queue)
        if restart and beat == 3:
            world.queue.restart_empty()
        if not world.stored() and not lanes.left:
            break
        world.clock.advance(10)
    assert (lanes.left, lanes.done) == (0, 25)
    assert world.stored() == {}
    state = world.store.load(NAME)
    assert state is not None
    assert state.status is Status.COMPLETED


def _run_all(queue: MemoryQueue) -> None:
    while True:
        try:
            if queue.run_one() is None:
                return
        except WorkerKilled:
            continue


def test_without_faults_the_clock_stands_still_but_for_back_off(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = Lanes(world, work=30, random=Random(1))
    monkeypatch.setattr(lanes._random, "choice", lambda options: options[0])
    monkeypatch.setattr(world.engine, "coordinate", lanes.coordinate)
    monkeypatch.setattr(world.engine, "run_slice", lanes.run_slice)
    world.register()
    world.producer.enqueue(NAME)
    world.queue.run_due()
    assert (lanes.done, world.stored(), world.clock.monotonic()) == (30, {}, 0.0)
    assert len(world.queue.jobs) == 4


def test_a_queue_that_never_comes_to_rest_says_so(world: World) -> None:
    world.producer.enqueue(_registered(world))
    world.engine.steps = [Wait(reason="r") for _ in range(20)]
    with pytest.raises(RuntimeError, match="10 jobs ran and the queue is still busy"):
        world.queue.run_until_idle(limit=10)
    assert world.clock.monotonic() >= 9 * 5.0
