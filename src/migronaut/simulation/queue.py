"""The queue under test: what a user's own adapter plugs in, the memory queue as one, and what goes wrong with hints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, Protocol

from attrs import evolve

from migronaut.core.jobs import Hint, parse_payload
from migronaut.core.ports import Clock, QueuePort
from migronaut.core.tickets import ContinueLater, Directive, Finish, WaitForLanes
from migronaut.engine.stopping import StopEvent
from migronaut.queueing.memory import Faults, JobStatus, MemoryJob, MemoryQueue
from migronaut.simulation.faults import DELAYS, Fate
from migronaut.simulation.scheduler import Scheduler

Work = Callable[[object, Any], object]
"""From the payload of a job and the job to what the job function must return to the library."""


class QueueUnderTest(Protocol):
    """A queue with its broker, in this process, on the clock it was given."""

    @property
    def port(self) -> QueuePort[Any]:
        """How hints are sent. The simulation has a ``stopping`` of its own for each worker."""

    def run_one(self, work: Work) -> bool:
        """Take the next job that is due and have ``work`` do it; False when none is due.

        Called again by other workers while ``work`` runs. Whatever ``work`` raises is raised: the worker is gone.
        """

    def next_due(self) -> float | None:
        """When the next job is due, by the clock's ``monotonic``; None when none is waiting."""

    def restart_empty(self) -> None:
        """Lose every waiting job, as a broker without persistence does."""


QueueFactory = Callable[[Clock, Callable[[int], int]], QueueUnderTest]
"""From the clock, and a choice among that many jobs that are due, to an empty queue."""


class SimulatedMemoryQueue:
    """The queue of ``migronaut.queueing.memory``, with as many workers as run it."""

    def __init__(self, clock: Clock, choose: Callable[[int], int]) -> None:
        self.port = MemoryQueue(clock, faults=Faults(pick=lambda jobs: choose(len(jobs))))

    def run_one(self, work: Work) -> bool:
        """Have ``work`` do one of the jobs that are due."""
        self.port.bind(_Handler(work))
        return self.port.run_one() is not None

    def next_due(self) -> float | None:
        """When the first waiting job is due."""
        return min((job.due for job in self.port.jobs if job.status is JobStatus.WAITING), default=None)

    def restart_empty(self) -> None:
        """Forget the waiting jobs."""
        self.port.restart_empty()


class _Handler:
    """Does what follows from a job too, so that it meets the faults of the process that did the job."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def handle(self, payload: object, job: MemoryJob) -> Directive:
        """Work one message."""
        self._work(payload, job)
        return Finish(result="done")


class RefusedByBrokerError(ConnectionError):
    """What a queue library raises when its broker does not answer."""


class FaultyQueue:
    """A ``QueuePort`` as one worker has it: hints get lost, come twice, late, or cannot be sent.

    Attributes:
        tried: What was sent, whatever became of it.
    """

    def __init__(self, queue: QueueUnderTest, scheduler: Scheduler) -> None:
        self.stopping = StopEvent()
        self.tried: list[Hint] = []
        self._port = queue.port
        self._scheduler = scheduler
        self._copies = count(1)

    def enqueue(self, hints: Iterable[Hint]) -> None:
        """Send each hint, or not."""
        for hint in hints:
            self._send(hint, lambda hint=hint: self._port.enqueue([hint]))  # type: ignore[misc]

    def continue_later(self, job: Any, directive: ContinueLater) -> object:
        """The same job again, or not."""
        return self._send(directive.hint, lambda: self._port.continue_later(job, directive))

    def wait_for_lanes(self, job: Any, directive: WaitForLanes) -> object:
        """Send the children, each with a fate of its own, then park the job."""
        self.enqueue(directive.children)
        alone = evolve(directive, children=())
        return self._send(directive.hint, lambda: self._port.wait_for_lanes(job, alone))

    def wake(self, hint: Hint, ref: str | None) -> None:
        """Wake the coordinator, or not."""
        self._send(hint, lambda: self._port.wake(hint, ref))

    def annotate(self, job: Any, *, log: str | None = None, progress: Mapping[str, Any] | None = None) -> None:
        """Show it on the job."""
        self._port.annotate(job, log=log, progress=progress)

    def redeliver(self, payload: Any) -> None:
        """What a broker does with the job of a worker that is gone."""
        self._copy(Hint(id="migronaut-redelivered", payload=parse_payload(payload)))

    def _send(self, hint: Hint, send: Callable[[], object]) -> object:
        scheduler = self._scheduler
        self.tried.append(hint)
        scheduler.point("queue.send?")
        fate = Fate(scheduler.decisions.draw(scheduler.weights.at_hints))
        if fate is not Fate.DELIVERED:
            scheduler.seen[f"hint {fate.name.lower().replace('_', ' ')}"] += 1
        if fate is Fate.REFUSED:
            raise RefusedByBrokerError("the simulation let the broker refuse a hint")
        if fate is Fate.LATE:
            scheduler.timeline.at(DELAYS[scheduler.decisions.choose(len(DELAYS))], lambda: self._copy(hint))
        result = send() if fate not in {Fate.LOST, Fate.LATE} else None
        if fate is Fate.TWICE:
            self._copy(hint)
        if fate is Fate.ANSWER_LOST:
            raise RefusedByBrokerError("the simulation lost the broker's answer")
        scheduler.point("queue.send!")
        return result

    def _copy(self, hint: Hint) -> None:
        self._port.enqueue([evolve(hint, id=f"{hint.id}-again-{next(self._copies)}")])
