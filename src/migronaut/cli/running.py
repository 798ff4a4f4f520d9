"""Working migrations in this process while an operator watches."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from migronaut.background import BackgroundMigrations, Worked
from migronaut.cli.session import Session
from migronaut.core.progress import Rate
from migronaut.display.live import LiveProgress
from migronaut.engine.engine import WAITING_LOG
from migronaut.engine.frames import RAISED_LOG
from migronaut.engine.operator.status import BackgroundStatus
from migronaut.engine.stopping import StopEvent
from migronaut.errors import ConnectionFailedError

_LOOK = 0.5


class Looker:
    """Looks at migrations again and again, and knows their pace."""

    def __init__(self, migrations: BackgroundMigrations, names: Sequence[str], *, attended: bool = False) -> None:
        self._migrations = migrations
        self._attended = attended
        self._rates: dict[str, Rate] = {}
        self.names = tuple(names)

    def follow(self, names: Iterable[str]) -> tuple[str, ...]:
        """Look at these too, from now on; they are returned."""
        found = tuple(names)
        self.names = tuple(dict.fromkeys([*self.names, *found]))
        return found

    def look(self) -> tuple[BackgroundStatus, ...]:
        """All of them as they are now."""
        return tuple(self._one(name) for name in self.names)

    def _one(self, name: str) -> BackgroundStatus:
        before = self._rates.get(name)
        rate = before.per_second if before else None
        status = self._migrations.status(name, rate=rate, attended=self._attended)
        now, done = time.monotonic(), status.progress.done
        self._rates[name] = before.observe(done, now) if before else Rate(done=done, at=now)
        return status


def work_and_show(
    session: Session,
    looker: Looker,
    migrations: BackgroundMigrations,
    concurrency: int,
    stop: StopEvent,
    *,
    named: bool,
) -> Worked:
    """Work in a thread, draw in this one; what the work raises is raised when the last view is drawn.

    Args:
        named: Work no others than those, not even when they become active meanwhile.
    """
    done: list[Worked] = []
    raised: list[BaseException] = []

    def others() -> tuple[str, ...]:
        """Migrations that have become active meanwhile, where none was named."""
        return () if named else looker.follow(migrations.active())

    def work() -> None:
        """Work in this thread, and keep what is raised."""
        try:
            done.append(migrations.work(looker.names, concurrency=concurrency, stop=stop, more=others))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work, name="migronaut-run")
    with _warnings(session), LiveProgress(session.console) as live:
        thread.start()
        try:
            while thread.is_alive():
                with suppress(ConnectionFailedError):  # lanes sit out a failover; the view may be late meanwhile
                    live.update(*looker.look())
                thread.join(_LOOK)
        finally:
            if thread.is_alive():
                stop.set("the display ended")
                thread.join()
        with suppress(ConnectionFailedError):
            live.update(*looker.look())
        if raised:
            raise raised[0]
        return done[0]


@contextmanager
def _warnings(session: Session) -> Iterator[None]:
    """The engine's warnings as lines of this call, each once; the display itself shows why a migration waits.

    With ``--verbose`` also the frames of what functions of migrations raise.
    """
    handler = _Teller(session)
    logger, raised = logging.getLogger("migronaut"), logging.getLogger(RAISED_LOG)
    before = raised.level
    logger.addHandler(handler)
    if session.options.verbose:
        raised.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        raised.setLevel(before)
        logger.removeHandler(handler)


class _Teller(logging.Handler):
    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Show a warning of the engine above the view."""
        text = record.getMessage()
        told = record.levelno >= logging.WARNING or record.name == RAISED_LOG
        if told and record.name != WAITING_LOG and text not in self._told:
            self._told.add(text)
            self._session.say(f"{'raised' if record.name == RAISED_LOG else 'warning'}: {text}")
