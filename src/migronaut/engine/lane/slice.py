"""One slice of one lane: claim a partition, work its batches, go on or give it back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from attrs import frozen

from migronaut.core.coordinator import file_notice
from migronaut.core.lane import LaneFacts, Outcome, SliceResult, before_batch, control
from migronaut.core.ports import Busy, Claim, Documents, Exhausted, Owner, PortError, Stop
from migronaut.core.state import Counters, Cursor, Guard, Partition
from migronaut.engine.failing import check_budget
from migronaut.engine.fitness import require_fit
from migronaut.engine.lane.ahead import Ahead
from migronaut.engine.lane.batch import Lane
from migronaut.engine.lane.committing import BatchResult, Committing
from migronaut.engine.lane.guards import FieldGuard, GuardStrategy, SnapshotGuard
from migronaut.engine.lane.ranges import RangeByFilter, RangeInTransaction
from migronaut.engine.patience import patiently
from migronaut.engine.ports import Ports
from migronaut.engine.sources import find_source
from migronaut.engine.stopping import AnyStop, LeftToStopError
from migronaut.engine.work import Work, current_pass, work_of
from migronaut.errors import (
    InvalidMigrationError,
    LeaseLostError,
    MigronautError,
    TransactionsUnsupportedError,
    describe,
)
from migronaut.spec import Context, RunInfo

_WAIT = 5.0
_logger = logging.getLogger("migronaut.background")

T = TypeVar("T")


class _UnfitError(Exception):
    """The collection takes no writes of this migration any more."""


@frozen(kw_only=True)
class SliceRequest:
    """Who works, for how long, and what may end it early."""

    owner: Owner
    stop: Stop
    run: str
    attempt: int
    length: float | None


def run_slice(ports: Ports, name: str, request: SliceRequest) -> SliceResult:
    """Work as one lane until the slice is over or nothing is left; what raises is in the result."""
    try:
        return _open(ports, name, request)
    except Exception as error:
        return _raised(name, error, Counters())


def _raised(name: str, error: Exception, counters: Counters) -> SliceResult:
    _logger.warning("a slice of %s raised %s", name, describe(error))
    return SliceResult(outcome=Outcome.RAISED, counters=counters, error=error, reason=describe(error))


def _open(ports: Ports, name: str, request: SliceRequest) -> SliceResult:
    """See whether there is work for this process at all."""
    state = ports.store.load(name)
    if state is None:
        return SliceResult(outcome=Outcome.CANCELLED)
    this_pass = current_pass(state)
    outcome = control(state, generation=this_pass.generation, plan=this_pass.plan)
    if outcome is not None:
        return SliceResult(outcome=outcome)
    found = find_source(ports.catalog, state)
    if found.source is None:
        notice = file_notice(found.fact, name, found.problem)
        return SliceResult(outcome=Outcome.WAITING, retry_after=_WAIT, reason=notice)
    documents = ports.documents(state.spec)
    work = work_of(state, found.source, documents, on_raise=ports.on_raise)
    return _Slice(ports, work, documents, request).run()


class _Slice:
    """A slice on its way."""

    def __init__(self, ports: Ports, work: Work, documents: Documents, request: SliceRequest) -> None:
        self.ports = ports
        self.work = work
        self.documents = documents
        self.request = request
        self.counters = Counters()
        self.batches = 0
        self.deadline = ports.clock.monotonic() + (request.length or work.spec.slice_length)

    def run(self) -> SliceResult:
        """Work until the slice is over; what it did before something was raised counts."""
        try:
            return self._run()
        except Exception as error:
            return _raised(self.work.name, error, self.counters)

    def _run(self) -> SliceResult:
        """Claim partition after partition, until the time is over, nothing is left, or it has to stop."""
        while True:
            ended = self._ended() if self.batches else None
            if ended is not None:
                return self._result(ended)
            claim = self._patiently(self._claim, self.request.stop)
            if isinstance(claim, Busy):
                return self._result(Outcome.BUSY, retry_after=claim.retry_after)
            if isinstance(claim, Exhausted):
                return self._result(Outcome.EXHAUSTED)
            ended = self._work_on(claim)
            if ended is not None:
                return self._result(ended)

    def _claim(self) -> Claim:
        work = self.work
        return self.ports.store.claim(
            work.this_pass, owner=self.request.owner, slots=work.spec.max_parallel, ttl=self.ports.lease_ttl
        )

    def _work_on(self, partition: Partition) -> Outcome | None:
        """Work one partition; None when it is done."""
        store = self.ports.store
        try:
            with self.ports.heartbeat.beating(lambda: store.renew(partition), ttl=self.ports.lease_ttl) as lost:
                outcome = self._batches(partition, lost)
        except LeaseLostError:
            return Outcome.LOST
        except LeftToStopError:
            outcome = Outcome.STOPPED if self.request.stop.is_set() else Outcome.LOST
        except Exception as error:
            if self._is_unfit():
                store.release(partition)
                return Outcome.WAITING
            self._count_failure(partition, error)
            raise
        except BaseException:
            # Whatever ends this thread: nobody has to wait until the lease has run out.
            with suppress(PortError):
                store.release(partition)
            raise
        if outcome is not None:
            store.release(partition)
        return outcome

    def _count_failure(self, partition: Partition, error: Exception) -> None:
        """A raised slice counts on its partition, unless it only raised because it had to stop."""
        if self.request.stop.is_set():
            self.ports.store.release(partition)
            return
        text = describe(error)
        self.ports.store.fail_slice(partition, error=text, limit=self.work.spec.max_slice_failures)

    def _batches(self, partition: Partition, lost: Stop) -> Outcome | None:
        with self.ports.write_behind.open() as begin:
            return self._work_batches(partition, lost, Ahead(begin, self._goes_on))

    def _goes_on(self) -> bool:
        """Whether another batch will follow at once; what is read before a pause would only grow stale in it."""
        out_of_time = self.ports.clock.monotonic() >= self.deadline
        return not (self.work.spec.pause or out_of_time or self.request.stop.is_set())

    def _work_batches(self, partition: Partition, lost: Stop, ahead: Ahead) -> Outcome | None:
        lane = self._lane(partition, lost, ahead)
        cursor = partition.cursor
        while True:
            if self.batches:
                # Also past the end of the slice: the pace of a lane is what was asked for, and it holds its partition
                # meanwhile, so that no other lane goes on with it at once.
                self.ports.clock.sleep(self.work.spec.pause, lane.committing.stop)
            ended = self._ended(lost)
            if ended is not None:
                return ended
            result = self._batch(lane, partition, cursor)
            cursor = result.cursor
            self.batches += 1
            self.counters += result.counters
            if result.counters.failed and check_budget(self.ports.store, self.work.name) and not result.done:
                return Outcome.FAILED
            if result.done:
                return None

    def _lane(self, partition: Partition, lost: Stop, ahead: Ahead) -> Lane:
        stop = AnyStop(self.request.stop, lost)
        info = RunInfo(
            name=self.work.name,
            generation=partition.generation,
            partition=partition.id,
            run=self.request.run,
            attempt=self.request.attempt + 1,
        )
        committing = Committing(
            work=self.work,
            store=self.ports.store,
            clock=self.ports.clock,
            stop=stop,
            random=self.ports.random,
            strategy=self._strategy(),
        )
        context = Context(stop=stop, logger=_logger, direction=self.work.direction, background=info)
        return Lane(documents=self.documents, context=context, ahead=ahead, committing=committing)

    def _strategy(self) -> GuardStrategy:
        """How this lane commits: by its guard, and by who rewrites the documents."""
        work, documents, store, clock = self.work, self.documents, self.ports.store, self.ports.clock
        in_transactions = work.guard is Guard.SNAPSHOT
        if work.stages:
            ranging = RangeInTransaction if in_transactions else RangeByFilter
            return ranging(work=work, documents=documents, store=store, clock=clock)
        writing = SnapshotGuard if in_transactions else FieldGuard
        return writing(work=work, documents=documents, store=store)

    def _batch(self, lane: Lane, partition: Partition, cursor: Cursor | None) -> BatchResult:
        """Run one batch; the guards make its repetition after an outage safe.

        What looks like an outage, or like bad documents, may be a collection that takes no writes any more. And an
        outage may be a failover that has undone the batch before, with its checkpoint: what is stored says where to
        go on.
        """
        attempts = 0

        def attempt() -> BatchResult:
            """Run the batch once, from where the partition stands."""
            nonlocal attempts
            attempts += 1
            if attempts > 1 and self._is_unfit():
                raise _UnfitError
            at = self.ports.store.place(partition) if attempts > 1 else cursor
            result = lane.run(partition, at, check_left=at is None)
            if result.counters.failed and self._is_unfit():
                raise _UnfitError
            return result

        return self._patiently(attempt, lane.committing.stop)

    def _is_unfit(self) -> bool:
        """Whether the collection takes no writes of this migration any more; the coordinator says so, and fails it."""
        try:
            require_fit(self.documents, self.work.spec, self.work.direction)
        except (InvalidMigrationError, TransactionsUnsupportedError):
            return True
        except (PortError, MigronautError):  # whatever it was, it can be asked again
            return False
        return False

    def _patiently(self, work: Callable[[], T], stop: Stop) -> T:
        return patiently(work, name=self.work.name, clock=self.ports.clock, stop=stop)

    def _ended(self, lost: Stop | None = None) -> Outcome | None:
        """Why to stop here, asked between batches and between partitions."""
        state = self._patiently(lambda: self.ports.store.load(self.work.name), self.request.stop)
        facts = LaneFacts(
            stopping=self.request.stop.is_set(),
            lease_lost=lost is not None and lost.is_set(),
            batches=self.batches,
            out_of_time=self.ports.clock.monotonic() >= self.deadline,
            state=state,
            repinned=state is not None and state.checksum != self.work.checksum,
            generation=self.work.this_pass.generation,
            plan=self.work.this_pass.plan,
        )
        return before_batch(facts)

    def _result(self, outcome: Outcome, *, retry_after: float = 0.0) -> SliceResult:
        if outcome is Outcome.WAITING:
            retry_after = _WAIT
        return SliceResult(outcome=outcome, counters=self.counters, retry_after=retry_after)
