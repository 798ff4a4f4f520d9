"""Real ``dramatiq`` processes, on Valkey and on RabbitMQ."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from attrs import frozen

from integration.dramatiq_scripted import coordinator, lane
from migronaut.embedded import EmbeddedValkey
from migronaut_dramatiq import DramatiqQueue
from migronaut_dramatiq.brokers import broker_from_url
from migronaut_dramatiq.declaring import declare

_TESTS = Path(__file__).parents[1]
_PATH = os.pathsep.join([str(_TESTS.parent / "src"), str(_TESTS)])


def wait_for(condition: Callable[[], bool], what: str, *, timeout: float = 20.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}"
        time.sleep(0.02)


@frozen(kw_only=True)
class Site:
    """A broker's queue, its producer, and the diary of its workers."""

    url: str
    queue_name: str
    diary: Path
    queue: DramatiqQueue

    def lines(self) -> list[str]:
        return self.diary.read_text().splitlines() if self.diary.exists() else []

    def jobs(self) -> list[str]:
        return [line for line in self.lines() if line != "beat"]

    def wait_for_line(self, line: str, *, timeout: float = 20.0) -> None:
        wait_for(lambda: line in self.lines(), line, timeout=timeout)

    @contextmanager
    def worker(self, *, threads: int = 4) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "dramatiq", "integration.dramatiq_scripted:boot", "--processes=1"]
        command += [f"--threads={threads}", "--worker-shutdown-timeout=60000", f"--queues={self.queue_name}"]
        variables = {"BROKER_URL": self.url, "QUEUE": self.queue_name, "DIARY": str(self.diary), "PYTHONPATH": _PATH}
        process = subprocess.Popen(command, env={**os.environ, **variables}, stderr=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


def _never(queue: DramatiqQueue) -> object:
    raise AssertionError("a producer works no jobs")


@contextmanager
def _site(url: str, directory: Path) -> Iterator[Site]:
    name = f"worker-{uuid4().hex}"
    broker = broker_from_url(url)
    queue = declare(broker, _never, queue_name=name)  # type: ignore[arg-type]
    try:
        yield Site(url=url, queue_name=name, diary=directory / "diary", queue=queue)
    finally:
        channel = getattr(broker, "channel", None)
        for suffix in ("", ".DQ", ".XQ"):
            if channel is not None:
                channel.queue_delete(name + suffix)
        broker.close()


@pytest.fixture(params=["redis_url", "amqp_url"], ids=["valkey", "rabbitmq"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    with _site(request.getfixturevalue(request.param), tmp_path) as opened:
        yield opened


def test_a_job_continues_after_its_delay_in_order(site: Site) -> None:
    with site.worker():
        site.queue.enqueue([coordinator("chain")])
        site.wait_for_line("chain 2")
    assert site.jobs() == ["chain 0", "chain 1", "chain 2"]


def test_the_last_lane_wakes_its_parent_long_before_the_poll(site: Site) -> None:
    with site.worker():
        site.queue.enqueue([coordinator("family")])
        site.wait_for_line("parent 1")
    assert site.jobs()[0] == "parent 0"
    assert sorted(site.jobs()[1:3]) == ["lane 0", "lane 1"]
    assert site.jobs()[3:] == ["parent 1"]


def test_sigterm_in_the_middle_of_a_job_ends_the_worker_in_seconds_and_another_goes_on(site: Site) -> None:
    with site.worker() as process:
        site.queue.enqueue([lane("long", 0)])
        site.wait_for_line("started")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    assert site.jobs() == ["started", "told to stop: the worker shuts down"]
    with site.worker():
        site.wait_for_line("resumed")
    assert site.jobs().count("started") == 1


def test_the_worker_beats_as_soon_as_it_is_up_and_goes_on(site: Site) -> None:
    with site.worker(threads=1):
        wait_for(lambda: site.lines().count("beat") >= 3, "three beats")
    assert site.jobs() == []


def test_the_beat_goes_on_while_the_broker_is_gone(valkey: EmbeddedValkey, tmp_path: Path) -> None:
    with _site(valkey.url, tmp_path) as site, site.worker(threads=1):
        site.wait_for_line("beat")
        valkey.kill()
        before = len(site.lines())
        wait_for(lambda: len(site.lines()) >= before + 3, "three more beats")
