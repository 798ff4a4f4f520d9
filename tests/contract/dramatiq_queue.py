"""The Dramatiq port under the contract suite: on StubBroker, Valkey and RabbitMQ."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import dramatiq.brokers.rabbitmq
import dramatiq.brokers.redis
import dramatiq.brokers.stub
import dramatiq.worker
import pytest
from dramatiq import Broker, Message, MessageProxy, Middleware, Worker
from dramatiq.brokers.stub import StubBroker

from migronaut.core.tickets import Directive, Finish
from migronaut.testing.contracts import Recorder
from migronaut_dramatiq import DramatiqQueue
from migronaut_dramatiq.brokers import broker_from_url
from migronaut_dramatiq.declaring import declare
from migronaut_dramatiq.ticker import Ticker

_THREADS = 4
_TELLING_TIME = (dramatiq.worker, dramatiq.brokers.stub, dramatiq.brokers.redis, dramatiq.brokers.rabbitmq)


class MovableTime:
    """Dramatiq's milliseconds, which a test can move ahead of the real ones."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> int:
        return int(1000 * (time.time() + self.ahead))


class Deliveries(Middleware):
    """Knows which messages are under way: sent and not acknowledged yet, or waiting for their time."""

    def __init__(self, now: MovableTime) -> None:
        self.changed = threading.Condition()
        self._now = now
        self._under_way: set[str] = set()
        self._delayed: dict[str, float] = {}

    def before_enqueue(self, broker: Broker, message: Message[Any], delay: int | None) -> None:
        with self.changed:
            if delay is None:
                self._delayed.pop(message.message_id, None)
                self._under_way.add(message.message_id)
            else:
                self._delayed[message.message_id] = message.options["eta"]

    def after_ack(self, broker: Broker, message: MessageProxy) -> None:
        with self.changed:
            if not message.queue_name.endswith(".DQ"):
                self._under_way.discard(message.message_id)
                self.changed.notify_all()

    after_nack = after_ack

    def idle(self) -> bool:
        return not self._under_way and all(eta > self._now() for eta in self._delayed.values())


class WithoutBeats:
    """The recorder, for jobs that came through the queue only."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def handle(self, payload: Any, job: Message[Any]) -> Directive:
        if threading.current_thread().name == Ticker.NAME:
            return Finish(result="beat")
        return self._recorder.handle(payload, job)


class LogLines(logging.Handler):
    """What the adapter logged."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class DramatiqHarness:
    """A worker of a real broker in this process, on a queue of its own."""

    keeps_rows = False

    def __init__(self, broker: Broker, now: MovableTime) -> None:
        self.broker = broker
        self.queue_name = f"contract-{uuid4().hex}"
        self.log = LogLines()
        self._now = now
        self._deliveries = Deliveries(now)
        self._worker = Worker(broker, worker_timeout=20, worker_threads=_THREADS)

    def make(self, recorder: Recorder) -> DramatiqQueue:
        self.broker.add_middleware(self._deliveries)
        queue = declare(self.broker, lambda queue: WithoutBeats(recorder), queue_name=self.queue_name)
        recorder.port = queue
        self._worker.start()
        return queue

    def drain(self, timeout: float = 10.0) -> None:
        with self._deliveries.changed:
            assert self._deliveries.changed.wait_for(self._deliveries.idle, timeout), "messages are under way still"

    def make_due(self, seconds: float) -> None:
        self._now.ahead += seconds

    def visible(self) -> str:
        return "\n".join(self.log.lines)

    def close(self) -> None:
        self._worker.stop(timeout=5000)
        self._forget_queue()
        self.broker.close()

    def _forget_queue(self) -> None:
        channel = getattr(self.broker, "channel", None)
        for suffix in ("", ".DQ", ".XQ"):
            if channel is not None:
                channel.queue_delete(self.queue_name + suffix)


@contextmanager
def _harness(broker: Broker) -> Iterator[DramatiqHarness]:
    now = MovableTime()
    logger = logging.getLogger("migronaut.dramatiq")
    level = logger.level
    with pytest.MonkeyPatch.context() as patch:
        for module in _TELLING_TIME:
            patch.setattr(module, "current_millis", now)
        harness = DramatiqHarness(broker, now)
        logger.addHandler(harness.log)
        logger.setLevel(logging.DEBUG)
        try:
            yield harness
        finally:
            harness.close()
            logger.setLevel(level)
            logger.removeHandler(harness.log)


@contextmanager
def stub() -> Iterator[DramatiqHarness]:
    """Dramatiq's own broker in memory."""
    with _harness(StubBroker()) as harness:
        yield harness


@contextmanager
def at(url: str) -> Iterator[DramatiqHarness]:
    """A real broker: Valkey or RabbitMQ."""
    with _harness(broker_from_url(url)) as harness:
        yield harness
