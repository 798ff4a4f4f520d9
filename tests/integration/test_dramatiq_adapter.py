"""The actor, its middleware and its setup, on StubBroker with real Dramatiq workers in this process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dramatiq.broker
import pytest
from dramatiq import Broker, Message, Worker
from dramatiq.brokers.stub import StubBroker
from dramatiq.common import current_millis
from dramatiq.middleware import AgeLimit, Middleware, Retries, ShutdownNotifications, TimeLimit
from dramatiq.results import Results
from dramatiq.results.backends import StubBackend

from integration.dramatiq_scripted import coordinator, lane
from migronaut import Migrator
from migronaut.core.tickets import ContinueLater, Directive, Finish
from migronaut.errors import ConfigInvalidError
from migronaut_dramatiq import DramatiqQueue, setup
from migronaut_dramatiq.declaring import declare
from migronaut_dramatiq.ticker import Ticker

QUEUE = "migronaut-background"
SECRET = "alice@example.com"


class Handler:
    """Counts jobs and beats, and answers as told."""

    def __init__(self, answer: Callable[[Any], Directive] | None = None) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.beat = threading.Event()
        self._answer = answer or (lambda payload: Finish(result="done"))

    def handle(self, payload: Any, job: Message[Any]) -> Directive:
        if threading.current_thread().name == Ticker.NAME:
            self.beat.set()
            return Finish(result="beat")
        self.jobs.append(payload)
        return self._answer(payload)


@contextmanager
def working(broker: Broker, **options: Any) -> Iterator[Worker]:
    worker = Worker(broker, worker_timeout=20, worker_threads=2, **options)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop(timeout=5000)


def declared(broker: Broker, handler: Handler, **options: Any) -> DramatiqQueue:
    return declare(broker, lambda queue: handler, **options)


def waiting(broker: StubBroker, queue_name: str) -> list[Message[Any]]:
    return [Message.decode(data) for data in list(broker.queues[queue_name].queue)]


# --------------------------------------------------------------------------- messages


def test_a_message_carries_the_payload_as_keywords_and_the_hints_id_beside_it() -> None:
    broker = StubBroker()
    queue = declared(broker, Handler())
    queue.enqueue([lane("orders", 3)])
    (message,) = waiting(broker, QUEUE)
    assert (message.args, message.kwargs) == ((), lane("orders", 3).body())
    assert message.options == {"migronaut_hint": "orders-l3-0"}


@pytest.mark.parametrize(("delay", "milliseconds"), [(2.0005, 2001), (300.0, 300_000), (10_000.0, 300_000)])
def test_a_delay_is_rounded_up_and_at_most_five_minutes(delay: float, milliseconds: int) -> None:
    broker = StubBroker()
    queue = declared(broker, Handler())
    before = current_millis()
    directive = ContinueLater(delay=delay, hint=coordinator("orders", 1), result="wait")
    queue.continue_later(queue.message(coordinator("orders")), directive)
    (message,) = waiting(broker, f"{QUEUE}.DQ")
    assert before + milliseconds <= message.options["eta"] <= current_millis() + milliseconds


def test_a_stopping_worker_sends_its_work_away_for_two_seconds() -> None:
    broker = StubBroker()
    queue = declared(broker, Handler())
    before = current_millis()
    with working(broker):
        pass
    assert queue.stopping.is_set()
    queue.continue_later(
        queue.message(coordinator("orders")), ContinueLater(delay=0.0, hint=coordinator("orders", 1), result="stopped")
    )
    (message,) = waiting(broker, f"{QUEUE}.DQ")
    assert message.options["eta"] >= before + 2000
    assert waiting(broker, QUEUE) == []


def test_a_worker_that_boots_after_another_is_not_stopping() -> None:
    broker = StubBroker()
    queue = declared(broker, Handler())
    with working(broker):
        pass
    with working(broker):
        assert not queue.stopping.is_set()


# --------------------------------------------------------------------------- errors


def run_one(broker: StubBroker, queue: DramatiqQueue) -> None:
    with working(broker):
        queue.enqueue([lane("orders", 0)])
        broker.join(QUEUE, timeout=5000, fail_fast=False)


def break_on(document: str) -> None:
    raise ValueError(document)


def broken() -> Exception:
    try:
        break_on(SECRET)
    except ValueError as error:
        return error
    raise AssertionError


def test_the_error_of_a_slice_is_a_dead_letter_with_its_place_and_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = StubBroker()
    handler = Handler(lambda payload: Finish(result="gave-up", error=broken()))
    run_one(broker, declared(broker, handler))
    (letter,) = broker.dead_letters
    assert "break_on" in letter.options["traceback"]
    assert "ValueError" in letter.options["traceback"]
    everything = letter.options["traceback"] + caplog.text
    assert "break_on" in caplog.text
    assert SECRET not in everything
    assert len(handler.jobs) == 1


def test_what_the_handler_itself_raises_keeps_its_text_to_itself_too(caplog: pytest.LogCaptureFixture) -> None:
    def fail(payload: Any) -> Directive:
        raise broken()

    broker = StubBroker()
    run_one(broker, declared(broker, Handler(fail)))
    (letter,) = broker.dead_letters
    assert "ValueError" in letter.options["traceback"]
    assert SECRET not in letter.options["traceback"] + caplog.text


def test_an_error_of_ours_keeps_its_message_and_loses_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    def fail(payload: Any) -> Directive:
        raise ConfigInvalidError("The configuration has a problem.") from broken()

    broker = StubBroker()
    run_one(broker, declared(broker, Handler(fail)))
    (letter,) = broker.dead_letters
    assert "The configuration has a problem." in letter.options["traceback"]
    assert SECRET not in letter.options["traceback"] + caplog.text


def test_the_next_message_is_sent_before_the_error_goes_out() -> None:
    def fail_once(payload: Any) -> Directive:
        if payload["seq"]:
            return Finish(result="done")
        return ContinueLater(delay=0.0, hint=lane("orders", 0, 1), result="raised", error=broken())

    broker = StubBroker()
    handler = Handler(fail_once)
    run_one(broker, declared(broker, handler))
    assert [job["seq"] for job in handler.jobs] == [0, 1]
    assert len(broker.dead_letters) == 1


# --------------------------------------------------------------------------- options of the user's broker


def harsh() -> list[Middleware]:
    """Defaults of a broker under which none of our jobs could work."""
    return [
        AgeLimit(max_age=1),
        TimeLimit(time_limit=1, interval=1),
        ShutdownNotifications(notify_shutdown=True),
        Retries(retry_when=lambda retries, error: retries < 5, min_backoff=1, max_backoff=1),
        Results(  # type: ignore[no-untyped-call]
            backend=StubBackend(), store_results=True
        ),
    ]


def test_the_defaults_of_the_users_broker_do_not_apply_to_our_actor() -> None:
    broker = StubBroker(middleware=harsh())
    passed = threading.Event()

    def slow(payload: Any) -> Directive:
        passed.wait(0.1)
        return Finish(result="gave-up", error=broken())

    handler = Handler(slow)
    broker.emit_after("process_boot")
    run_one(broker, declared(broker, handler))
    assert len(handler.jobs) == 1
    (letter,) = broker.dead_letters
    assert "BackgroundFailedError" in letter.options["traceback"]


def test_a_broker_without_any_middleware_will_do() -> None:
    broker = StubBroker(middleware=[])
    handler = Handler()
    run_one(broker, declared(broker, handler))
    assert len(handler.jobs) == 1


def test_other_actors_of_the_broker_are_left_alone() -> None:
    broker = StubBroker()
    declared(broker, Handler())
    done = threading.Event()
    theirs = dramatiq.actor(broker=broker, actor_name="theirs")(done.set)
    with working(broker):
        theirs.send()
        assert done.wait(5)


def test_a_call_instead_of_a_message_is_refused() -> None:
    queue = declared(StubBroker(), Handler())
    with pytest.raises(LookupError, match="send it a message"):
        queue.actor(**lane("orders", 0).body())


# --------------------------------------------------------------------------- the beat


def test_a_worker_beats_when_it_is_up() -> None:
    broker = StubBroker()
    handler = Handler()
    declared(broker, handler)
    with working(broker):
        assert handler.beat.wait(5)
    assert handler.jobs == []


def test_a_worker_of_other_queues_does_not_beat() -> None:
    broker = StubBroker()
    ours, served = Handler(), Handler()
    declared(broker, ours)
    declared(broker, served, queue_name="served", prefix="other.")
    with working(broker, queues={"served"}):
        assert served.beat.wait(5)
    assert not ours.beat.is_set()


def test_a_ticker_outlives_its_beats_and_logs_them_without_credentials(caplog: pytest.LogCaptureFixture) -> None:
    beats = threading.Semaphore(0)

    def beat() -> None:
        beats.release()
        raise OSError("mongodb://alice:s3cret@db:27017 is gone")

    ticker = Ticker(beat, interval=0.01)
    with caplog.at_level(logging.WARNING, logger="migronaut.dramatiq"):
        ticker.start()
        assert all(beats.acquire(timeout=5) for _ in range(3))
        ticker.end()
        ticker.join(5)
    assert "mongodb://***@db:27017 is gone" in caplog.text
    assert "s3cret" not in caplog.text
    assert not any(thread.name == Ticker.NAME and thread.is_alive() for thread in threading.enumerate())


# --------------------------------------------------------------------------- setup


def test_a_second_setup_of_the_same_names_is_refused_and_another_prefix_accepted() -> None:
    broker = StubBroker()
    declared(broker, Handler())
    with pytest.raises(ConfigInvalidError, match=r"migronaut\.background already"):
        declared(broker, Handler())
    other = declared(broker, Handler(), prefix="shop.")
    assert other.actor.actor_name == "shop.background"


@pytest.mark.parametrize("names", [{"queue_name": "has blanks"}, {"queue_name": ""}, {"prefix": "1."}])
def test_names_that_dramatiq_does_not_accept_are_refused(names: dict[str, str]) -> None:
    broker = StubBroker()
    with pytest.raises(ConfigInvalidError, match="cannot use this name"):
        declared(broker, Handler(), **names)
    assert broker.actors == {}


def test_two_brokers_in_one_process_stay_apart_and_no_global_one_appears() -> None:
    before = dramatiq.broker.global_broker
    brokers, handlers = (StubBroker(), StubBroker()), (Handler(), Handler())
    queues = [declared(broker, handler) for broker, handler in zip(brokers, handlers, strict=True)]
    with working(brokers[1]):
        with working(brokers[0]):
            queues[0].enqueue([coordinator("orders")])
            brokers[0].join(QUEUE, timeout=5000)
        assert [queue.stopping.is_set() for queue in queues] == [True, False]
    assert [len(handler.jobs) for handler in handlers] == [1, 0]
    assert dramatiq.broker.global_broker is before


def test_setup_connects_to_nothing_and_makes_the_migrator_when_a_job_needs_it(tmp_path: Path) -> None:
    made = []

    def migrator() -> Migrator:
        made.append(threading.current_thread().name)
        raise ConfigInvalidError("The configuration has a problem.")

    broker = StubBroker()
    queue = setup(broker, migrator)
    queue.enqueue([coordinator("orders")])
    assert made == []
    with working(broker):
        broker.join(QUEUE, timeout=5000, fail_fast=False)
    assert made
