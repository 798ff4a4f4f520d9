"""States of background migrations, and the clocks of the cluster, in memory."""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import evolve

from migronaut.core.state import SCHEMA, BackgroundState
from migronaut.errors import BackgroundConflictError
from migronaut.memory.records import StoreRecords


class States(StoreRecords):
    """Every write is a compare-and-set on the revision."""

    def now(self) -> datetime:
        """The server's time, UTC and naive, in milliseconds."""
        return self._server.now()

    def load(self, name: str) -> BackgroundState | None:
        """The state of one migration."""
        self._server.reach("store.load")
        return self._server.states.get(name)

    def states(self) -> tuple[BackgroundState, ...]:
        """All states, in the order of their names."""
        self._server.reach("store.states")
        with self._server.lock:
            return tuple(self._server.states[name] for name in sorted(self._server.states))

    def insert(self, state: BackgroundState) -> bool:
        """Store a new state; False when one of that name exists."""
        self._server.reach("store.insert")
        with self._server.lock:
            if state.name in self._server.states:
                return False
            self._server.states[state.name] = state
            return True

    def save(self, state: BackgroundState) -> BackgroundState | None:
        """Compare-and-set on ``state.revision``; ``updated_at`` becomes the server's time.

        Raises:
            BackgroundConflictError: The state belongs to a newer release.
        """
        self._server.reach("store.save")
        if state.schema > SCHEMA:
            raise BackgroundConflictError(
                "The background migration belongs to a newer release of migronaut: use that release to change it.",
                schema=state.schema,
            )
        with self._server.lock:
            stored = self._server.states.get(state.name)
            if stored is None or stored.revision != state.revision or stored.schema > SCHEMA:
                return None
            saved = evolve(state, revision=state.revision + 1, updated_at=self._server.now())
            self._server.states[state.name] = saved
            return saved


class Clocks(StoreRecords):
    """Who may beat: one caller an interval in the whole cluster."""

    def tick(self, clock: str, *, interval: float) -> bool:
        """True for one caller per ``interval`` seconds."""
        self._server.reach("store.tick")
        with self._server.lock:
            now, last = self._server.now(), self._server.ticks.get(clock)
            if last is not None and now < last + timedelta(seconds=interval):
                return False
            self._server.ticks[clock] = now
            return True
