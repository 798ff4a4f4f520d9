"""The in-memory port under the contract suite."""

from __future__ import annotations

from migronaut.memory import FakeClock
from migronaut.queueing.memory import MemoryQueue, MemoryStop
from migronaut.testing.contracts import Recorder


class MemoryHarness:
    """Runs jobs one by one on a clock that only moves when told to."""

    keeps_rows = True

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.queue = MemoryQueue(self.clock)

    def make(self, recorder: Recorder) -> MemoryQueue:
        recorder.port = self.queue
        self.queue.bind(recorder)
        return self.queue

    def drain(self, timeout: float = 10.0) -> None:
        self.queue.run_due()

    def make_due(self, seconds: float) -> None:
        self.clock.sleep(seconds, MemoryStop())

    def visible(self) -> str:
        return "\n".join(f"{job.log} {job.progress}" for job in self.queue.jobs)
