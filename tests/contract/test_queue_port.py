"""The queues: each port under the suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract import dramatiq_queue, memory_queue, rq_queue
from migronaut.testing.contracts import QueueContract, QueueHarness

pytestmark = pytest.mark.timeout(60)


class TestMemory(QueueContract):
    @pytest.fixture
    def harness(self) -> QueueHarness:
        return memory_queue.MemoryHarness()


class TestRq(QueueContract):
    @pytest.fixture
    def harness(self, redis_url: str) -> Iterator[QueueHarness]:
        with rq_queue.rq(redis_url) as opened:
            yield opened


class TestDramatiqStub(QueueContract):
    @pytest.fixture
    def harness(self) -> Iterator[QueueHarness]:
        with dramatiq_queue.stub() as opened:
            yield opened


class TestDramatiqValkey(QueueContract):
    @pytest.fixture
    def harness(self, redis_url: str) -> Iterator[QueueHarness]:
        with dramatiq_queue.at(redis_url) as opened:
            yield opened


class TestDramatiqRabbitmq(QueueContract):
    @pytest.fixture
    def harness(self, amqp_url: str) -> Iterator[QueueHarness]:
        with dramatiq_queue.at(amqp_url) as opened:
            yield opened
