"""The demo from its first line to its exit code."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from attrs import frozen
from rich.console import Console

from migronaut.config import resolve_call
from migronaut.demo import queues
from migronaut.demo.options import IMPATIENT, DemoOptions, QueueKind
from migronaut.demo.orders import COLLECTION, FIRST_ID, seed
from migronaut.demo.processes import WorkerCommand, Workers
from migronaut.demo.project import pace_of, write_migration
from migronaut.demo.proof import prove
from migronaut.demo.servers import Place, open_place
from migronaut.demo.story import Story
from migronaut.demo.traffic import Application
from migronaut.demo.watching import LiveDisplay, Watch, Watched
from migronaut.display.live import LiveProgress
from migronaut.migrator import Migrator
from migronaut.queueing import enqueue_background

_WORKERS = 2
_LINE_EVERY = 3.0
_INTERRUPTED = 130
_FAILED = 1


def run(options: DemoOptions, console: Console, *, display: LiveDisplay | None = None) -> int:
    """Do what ``migronaut.demo.run_demo`` promises.

    Args:
        options: See there.
        console: See there.
        display: Shows the progress; None = on the console.
    """
    story, display = Story(console), display or LiveProgress(console, every=_LINE_EVERY)
    queues.require(options.queue)
    try:
        with _ended_in_order(), open_place(options) as place, tempfile.TemporaryDirectory(prefix="migronaut-") as home:
            code = _Demo(options, story, display, place, Path(home)).run()
            if options.keep:
                _keep(options, story, place)
            return code
    except KeyboardInterrupt:
        story.say("Stopped; the servers and workers of the demo are ended, and its files are removed.")
        return _INTERRUPTED


@frozen
class _Demo:
    """One run, in a place that is there already."""

    options: DemoOptions
    story: Story
    display: LiveDisplay
    place: Place
    home: Path

    def run(self) -> int:
        """Seed, migrate with a worker killed on the way, and prove the result.

        Returns:
            The exit code: 0 when everything that the demo shows was so.
        """
        config = resolve_call(self._settings(), cwd=self.home)
        with Migrator(config) as migrator:
            self._seed(migrator)
            before = self._first(migrator)
            self._register(migrator)
            with Application(migrator.db, documents=self.options.documents) as application:
                watched = self._work(migrator)
                application.stop()
            proof = prove(migrator.db, expected=self.options.documents, writes=application.writes)
            self.story.ended(watched, proof, application.error)
            problem = watched.problem or proof.problem or _application_problem(application) or _ended_badly(watched)
            if problem is not None:
                self.story.say(f"The demo failed: {problem}.")
                return _FAILED
            self.story.compare(before, self._first(migrator))
            self.story.where_next()
            return 0

    def _settings(self) -> Mapping[str, Any]:
        place = self.place
        return {
            "uri": place.uri,
            "db": place.db,
            "migrations_dir": self.home / "migrations",
            **IMPATIENT,
        }

    def _seed(self, migrator: Migrator) -> None:
        began = time.monotonic()
        seed(migrator.db, self.options.documents)
        seconds = time.monotonic() - began
        self.story.seeded(self.options.documents, seconds, self.place, embedded=self.options.uri is None)

    def _register(self, migrator: Migrator) -> None:
        pace = pace_of(self.options.documents, self.options.queue)
        source = write_migration(self.home / "migrations", pace, pipeline=self.options.pipeline)
        migrator.up(requested_by="demo")
        self.story.registered(source, pace)

    def _first(self, migrator: Migrator) -> Mapping[str, Any]:
        found: Mapping[str, Any] = migrator.db[COLLECTION].find_one({"_id": FIRST_ID}) or {}
        return found

    def _work(self, migrator: Migrator) -> Watched:
        queue = self.options.queue
        command = WorkerCommand(
            arguments=queues.worker_arguments(queue), environment=self._environment(), directory=self.home
        )
        port = None
        if self.place.broker_url is not None:
            port = queues.open_port(queue, self.place.broker_url, migrator)
            enqueue_background(port, migrator)
        self.story.started(queue, command, _WORKERS)
        with Workers(_WORKERS, command) as workers, self.display as display:
            return Watch(migrator, workers, display=display, port=port, say=self.story.say).run()

    def _environment(self) -> Mapping[str, str]:
        """What the workers know: nothing of the user's own migronaut."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MIGRONAUT_")}
        if "PYTHONPATH" in inherited:  # the workers have another working directory
            parts = inherited["PYTHONPATH"].split(os.pathsep)
            inherited["PYTHONPATH"] = os.pathsep.join(str(Path(part).absolute()) for part in parts if part)
        own = {f"MIGRONAUT_{name.upper()}": str(value) for name, value in self._settings().items()}
        if self.place.broker_url is not None:
            variable = "MIGRONAUT_REDIS_URL" if self.options.queue is QueueKind.RQ else "MIGRONAUT_BROKER_URL"
            own[variable] = self.place.broker_url
        return inherited | own


def _application_problem(application: Application) -> str | None:
    return None if application.error is None else f"a write of the application failed ({application.error})"


def _ended_badly(watched: Watched) -> str | None:
    status = watched.status
    if status.status == "completed":
        return None
    return f"the migration ended as {status.status}" + (f" ({status.last_error})" if status.last_error else "")


def _keep(options: DemoOptions, story: Story, place: Place) -> None:
    with _interruptible():
        story.kept(place, shown_uri=None if options.uri else place.uri)
        if options.uri is None:
            threading.Event().wait()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends the block, and nothing more."""
    try:
        yield
    except KeyboardInterrupt:
        return


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Being terminated, or losing the terminal, is the same as Ctrl-C: all is cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {getattr(signal, name): signal.signal(getattr(signal, name), _interrupt) for name in names}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
