"""What a job does: a payload in, a directive out. The same for every queue.

The ticket is written first, the hint is sent second. Whatever happens in between, and to any hint, the
ticket says what is left to do, and the heal sends its hint again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Generic, TypeVar
from uuid import uuid4

from attrs import asdict, frozen

from migronaut.core.coordinator import POLL, Done, Process, Wait
from migronaut.core.jobs import CoordinatorJob, Hint, LaneJob, VerifyJob, parse_payload
from migronaut.core.lane import MAX_LANE_RETRIES, STOPPING_DELAY, Again, Outcome, SliceResult, after_slice, backoff
from migronaut.core.ports import Owner, PortError, QueuePort, Stop
from migronaut.core.state import Status
from migronaut.core.tickets import (
    MAX_DELAY,
    ContinueLater,
    Directive,
    Finish,
    Role,
    Ticket,
    WaitForLanes,
    ticket_id,
)
from migronaut.core.wording import plural
from migronaut.engine import Engine
from migronaut.errors import LockHeldError
from migronaut.queueing.producer import Producer
from migronaut.queueing.rows import Rows
from migronaut.queueing.sending import addressed, perform

Job = TypeVar("Job")

_LOGGER = logging.getLogger("migronaut.queueing")
_RETRY = 5.0
"""Seconds until a hint comes back whose ticket could not be read."""

_SLICE = 30.0
"""Seconds a slice is expected to take; the heartbeat covers longer ones."""

_SUPERSEDED = "superseded"
_UNAVAILABLE = "unavailable"


@frozen(kw_only=True)
class QueueSettings:
    """How often things are looked at; seconds.

    Args:
        lane_poll: A coordinator looks after its lanes at least this often; 1-300.
        heal_interval: Lost hints are looked for once per this time, in the whole cluster.
        verify_interval: The same for documents of an old shape in completed migrations.
        slice_length: How long a lane works before it gives its worker back; None = as the migration says.
    """

    lane_poll: float = 10.0
    heal_interval: float = 30.0
    verify_interval: float = 600.0
    slice_length: float | None = None


class BackgroundProcessor(Generic[Job]):
    """Does the jobs of background migrations; safe to share between the threads of a worker."""

    def __init__(
        self, engine: Engine, port: QueuePort[Job], *, owner: Owner, settings: QueueSettings | None = None
    ) -> None:
        self.engine = engine
        self.port = port
        self.owner = owner
        self.settings = settings or QueueSettings()
        self.producer = Producer(engine, port)
        self._tickets = engine.ports.tickets
        self._rows = Rows(port)

    def run(self, payload: object, job: Job) -> object:
        """Do a job and send what follows from it.

        Returns:
            What the job function must return to the library.

        Raises:
            QueueJobInvalidError: The payload is not one of ours; nothing was run.
        """
        return perform(self.port, job, self.handle(payload, job))

    def handle(self, payload: object, job: Job) -> Directive:
        """Do a job and say what it becomes. What a slice raised is in the directive's ``error``, already counted.

        Raises:
            QueueJobInvalidError: The payload is not one of ours; nothing was run.
        """
        parsed = parse_payload(payload)
        return self._verify(job) if isinstance(parsed, VerifyJob) else self._work(parsed, job)

    def beat(self) -> str:
        """Heal and look for drift, each if its time has come in the cluster; one line about what was done.

        Raises:
            PortError, MigronautError: MongoDB did not answer or refused; the next beat tries again.
        """
        store, settings = self.engine.ports.store, self.settings
        done = []
        if store.tick("heal", interval=settings.heal_interval):
            healed = self.producer.heal()
            done.append("heal: " + ", ".join(f"{number} {what}" for what, number in asdict(healed).items()))
        if store.tick("verify", interval=settings.verify_interval):
            drift = self.engine.verify().drift
            done.append(f"verify: {len(drift)} with documents of an old shape")
            if any(found.reopened for found in drift):
                self.producer.heal()
        return "; ".join(done) or "not due"

    def _verify(self, job: Job) -> Directive:
        try:
            done = self.beat()
        except Exception as error:  # a beat is best effort; the next one tries again
            self._rows.trouble(job, "verify", error)
            return Finish(result="failed", error=error)
        self._rows.note(job, done)
        return Finish(result=done)

    # ----------------------------------------------------------------- tickets

    def _work(self, parsed: CoordinatorJob | LaneJob, job: Job) -> Directive:
        try:
            ticket = self._claim(parsed)
        except Exception as error:  # the hint is all there is; it must come back
            self._rows.trouble(job, "ticket", error)
            hint = Hint(id=f"migronaut-retry-{uuid4().hex}", payload=parsed)
            return ContinueLater(delay=_RETRY, hint=hint, result=_UNAVAILABLE)
        if ticket is None:
            _LOGGER.debug("A hint for %s was stale: done already, or being done.", parsed.migration)
            return Finish(result="stale")
        try:
            return self._coordinator(ticket, job) if ticket.role is Role.COORDINATOR else self._lane(ticket, job)
        except Exception as error:  # the ticket stays claimed; the heal takes it up
            self._rows.trouble(job, "ticket", error)
            return Finish(result=_UNAVAILABLE, error=error)

    def _claim(self, parsed: CoordinatorJob | LaneJob) -> Ticket | None:
        lane = parsed.lane if isinstance(parsed, LaneJob) else None
        role = Role.COORDINATOR if lane is None else Role.LANE
        return self._tickets.claim(
            ticket_id(parsed.migration, role, lane=lane),
            run=parsed.run,
            seq=parsed.seq,
            owner=f"{self.owner.name}-{uuid4().hex}",
            ttl=self._ttl(role),
        )

    def _ttl(self, role: Role) -> float:
        ports = self.engine.ports
        if role is Role.COORDINATOR:
            return ports.lock_ttl + ports.lease_ttl
        return (self.settings.slice_length or _SLICE) + ports.lease_ttl

    def _kept(self, ticket: Ticket) -> AbstractContextManager[Stop]:
        """Keep a ticket ours while its work goes on, however long that takes."""
        ttl = self._ttl(ticket.role)
        return self.engine.ports.heartbeat.beating(lambda: self._tickets.extend(ticket, ttl=ttl), ttl=ttl)

    def _continue(
        self, ticket: Ticket, *, delay: float, result: str, failures: int = 0, error: BaseException | None = None
    ) -> Directive:
        again = self._tickets.again(ticket, delay=delay, failures=failures)
        if again is None:
            return Finish(result=_SUPERSEDED, error=error)
        return ContinueLater(delay=delay, hint=again.hint, result=result, error=error)

    # ----------------------------------------------------------------- coordinator

    def _coordinator(self, ticket: Ticket, job: Job) -> Directive:
        try:
            with self._kept(ticket):
                step = self.engine.coordinate(ticket.migration, owner=self.owner, stop=self.port.stopping)
        except LockHeldError:
            return self._coordinator_waits(ticket, job, Wait(reason="another coordinator is at work", retry_after=POLL))
        except Exception as error:  # also bugs and time limits: counted, then tried again
            return self._coordinator_raised(ticket, job, error)
        match step:
            case Done():
                return self._coordinator_done(ticket, job, step)
            case Wait():
                return self._coordinator_waits(ticket, job, step)
            case Process():
                return self._process(ticket, job, step)

    def _coordinator_done(self, ticket: Ticket, job: Job, step: Done) -> Directive:
        result = f"done: {step.status or 'not registered'}"
        self._rows.note(job, f"coordinator {result}")
        if not self._tickets.close(ticket):
            return Finish(result=_SUPERSEDED)
        if step.status is Status.COMPLETED:
            # Those that required it can start now; the beat would find them too, but later.
            self._best_effort(self.producer.heal)
        return Finish(result=result)

    def _coordinator_waits(self, ticket: Ticket, job: Job, step: Wait) -> Directive:
        self._rows.note(job, f"coordinator waits: {step.reason}")
        floor = STOPPING_DELAY if self.port.stopping.is_set() else 0.0
        return self._continue(ticket, delay=min(MAX_DELAY, max(floor, step.retry_after)), result="wait")

    def _coordinator_raised(self, ticket: Ticket, job: Job, error: Exception) -> Directive:
        self._rows.trouble(job, "coordinator", error)
        failures = ticket.failures + 1
        if failures <= MAX_LANE_RETRIES:
            return self._continue(ticket, delay=backoff(failures), result="raised", failures=failures, error=error)
        closed = self._tickets.close(ticket)
        return Finish(result="gave-up" if closed else _SUPERSEDED, error=error)

    def _process(self, ticket: Ticket, job: Job, step: Process) -> Directive:
        parked = self._tickets.again(ticket, delay=self.settings.lane_poll)
        if parked is None:
            return Finish(result=_SUPERSEDED)
        children, alive = self._open_lanes(ticket.migration, step)
        self._rows.note(job, f"coordinator sends {plural(len(children), 'lane')}, {alive} at work")
        if not children and not alive:
            # The last lane may have ended while we looked, too early to wake us: look again soon.
            return ContinueLater(delay=self.settings.lane_poll / 5, hint=parked.hint, result="process")
        return WaitForLanes(children=children, hint=parked.hint, poll=self.settings.lane_poll, result="process")

    def _open_lanes(self, migration: str, step: Process) -> tuple[tuple[Hint, ...], int]:
        """Open tickets for up to ``step.lanes`` free slots; their hints, and how many lanes are alive already."""
        children: list[Hint] = []
        alive: set[int | None] = set()
        try:
            alive = {ticket.lane for ticket in self._tickets.of(migration) if ticket.role is Role.LANE}
            for slot in range(step.slots):
                if slot not in alive and len(children) < step.lanes:
                    child, fresh = self._tickets.open(migration, Role.LANE, lane=slot)
                    children += [addressed(self._tickets, child)] if fresh else []
        except PortError as error:
            # Those that are open must be sent; the poll opens the others.
            _LOGGER.warning("Not all lanes of %s could be opened (%s).", migration, type(error).__name__)
        return tuple(children), len(alive)

    # ----------------------------------------------------------------- lane

    def _lane(self, ticket: Ticket, job: Job) -> Directive:
        result = self._slice(ticket)
        self._rows.slice(job, ticket.lane, result)
        decision = after_slice(result, failures=ticket.failures, stopping=self.port.stopping.is_set())
        if isinstance(decision, Again):
            return self._continue(
                ticket,
                delay=decision.delay,
                result=decision.result,
                failures=decision.failures,
                error=result.error,
            )
        if not self._tickets.close(ticket):
            return Finish(result=_SUPERSEDED, error=result.error)
        self._best_effort(lambda: self._wake_parent(ticket.migration))
        return Finish(result=decision.result, error=result.error)

    def _slice(self, ticket: Ticket) -> SliceResult:
        try:
            with self._kept(ticket):
                return self.engine.run_slice(
                    ticket.migration,
                    owner=self.owner,
                    stop=self.port.stopping,
                    run=ticket.run,
                    attempt=ticket.failures,
                    slice_length=self.settings.slice_length,
                )
        except Exception as error:  # e.g. the time limit of a queue library: a failed slice
            return SliceResult(outcome=Outcome.RAISED, error=error)

    def _wake_parent(self, migration: str) -> None:
        """The last lane out wakes the coordinator; of several that are last at once, one wins."""
        if any(ticket.role is Role.LANE for ticket in self._tickets.of(migration)):
            return
        parent = self._tickets.wake(migration)
        if parent is not None:
            self.port.wake(parent.hint, parent.ref)

    def _best_effort(self, follow_up: Callable[[], object]) -> None:
        try:
            follow_up()
        except Exception as error:  # the job is done; a poll or the heal makes this good
            _LOGGER.warning("What should follow a job at once must wait for a poll (%s).", type(error).__name__)
