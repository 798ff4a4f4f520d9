"""Who sends hints: the enqueue of a user, and the heal that makes lost ones good."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from attrs import frozen

from migronaut.core.advice import taking_up
from migronaut.core.ports import QueuePort
from migronaut.core.state import BackgroundState, Status
from migronaut.core.tickets import MAX_LOSSES, Role, Ticket
from migronaut.core.wording import did_you_mean
from migronaut.engine import Engine
from migronaut.engine.speaking import speaking
from migronaut.errors import BackgroundConflictError, ConnectionFailedError, NotRegisteredError, redact
from migronaut.queueing.sending import addressed, warn_unsent

ACTIVE = frozenset({Status.PENDING, Status.RUNNING, Status.BLOCKED})
"""Statuses in which a coordinator has something to do."""

_LOGGER = logging.getLogger("migronaut.queueing")


@frozen(kw_only=True)
class Enqueued:
    """One migration that will be worked on.

    Args:
        run: The run that is alive now.
        absorbed: It was alive already; nothing was sent.
    """

    migration: str
    run: str
    absorbed: bool


@frozen(kw_only=True)
class Healed:
    """What a heal found and did.

    Args:
        sent: Overdue tickets whose hint was sent again.
        dropped: Lane tickets given up; their coordinator opens new ones while work is left.
        reopened: Coordinators that start again under a new run.
        opened: Active migrations that had no coordinator.
    """

    sent: int = 0
    dropped: int = 0
    reopened: int = 0
    opened: int = 0

    def __add__(self, other: Healed) -> Healed:
        return Healed(
            sent=self.sent + other.sent,
            dropped=self.dropped + other.dropped,
            reopened=self.reopened + other.reopened,
            opened=self.opened + other.opened,
        )


class Producer:
    """Opens tickets and sends their hints: first written, then sent."""

    def __init__(self, engine: Engine, port: QueuePort[Any]) -> None:
        self._store = engine.ports.store
        self._tickets = engine.ports.tickets
        self._port = port

    def enqueue(self, name: str | None = None) -> tuple[Enqueued, ...]:
        """Have one migration worked on, or all active ones. One that is alive already is left alone.

        Raises:
            NotRegisteredError: No background migration of that name is registered.
            BackgroundConflictError: It is paused or has ended.
            ConnectionFailedError: The queue did not take the hint; its ticket is stored.
        """
        states = self._active() if name is None else (self._startable(name),)
        return tuple(self._enqueue(state.name) for state in states)

    def heal(self) -> Healed:
        """Send lost hints again, give up what is lost too often, and wake active migrations nobody works on.

        When the queue does not answer: one warning, and the next heal goes on.
        """
        healed = Healed()
        try:
            for ticket in self._tickets.overdue():
                healed += self._heal_ticket(ticket)
            for state in self._active():
                healed += Healed(opened=not self._enqueue(state.name).absorbed)
        except ConnectionFailedError as error:
            warn_unsent(error)
        return healed

    def _active(self) -> tuple[BackgroundState, ...]:
        return tuple(state for state in self._store.states() if state.status in ACTIVE)

    def _startable(self, name: str) -> BackgroundState:
        state = self._store.load(name)
        if state is None:
            raise NotRegisteredError(
                f"No background migration {redact(name)!r} is registered in this database; `migronaut up` registers it."
                f"{did_you_mean(name, (each.name for each in self._store.states()))}"
            )
        if state.status not in ACTIVE:
            raise BackgroundConflictError(
                f"{state.name} is {state.status} and was not enqueued; {taking_up(state.name, state.status)}.",
                migration=state.name,
                status=str(state.status),
            )
        return state

    def _enqueue(self, name: str) -> Enqueued:
        ticket, fresh = self._tickets.open(name, Role.COORDINATOR)
        if fresh:
            self._send(ticket)
        return Enqueued(migration=name, run=ticket.run, absorbed=not fresh)

    def _heal_ticket(self, ticket: Ticket) -> Healed:
        if ticket.losses > MAX_LOSSES:
            return self._give_up(ticket)
        again = self._tickets.resend(ticket)
        if again is None:
            return Healed()
        self._send(again)
        return Healed(sent=1)

    def _give_up(self, ticket: Ticket) -> Healed:
        if not self._tickets.drop(ticket):
            return Healed()
        if ticket.role is Role.LANE:
            _LOGGER.warning(
                "Lane %s of %s was lost %d times and is given up; its coordinator opens another while work is left.",
                ticket.lane,
                ticket.migration,
                ticket.losses,
            )
            return Healed(dropped=1)
        _LOGGER.warning("The coordinator of %s was lost %d times; it starts again.", ticket.migration, ticket.losses)
        return Healed(reopened=not self._enqueue(ticket.migration).absorbed)

    def _send(self, ticket: Ticket) -> None:
        hint = addressed(self._tickets, ticket)
        try:
            self._port.enqueue([hint])
        except Exception as error:  # each queue library has errors of its own
            raise ConnectionFailedError(
                f"The queue did not take the hint for {ticket.migration} ({type(error).__name__}: {redact(error)}). "
                "Its ticket is stored: `migronaut background heal`, or the next beat of a worker, sends it.",
                migration=ticket.migration,
            ) from None


class HasEngine(Protocol):
    """The background façade of a migrator, as far as a producer needs it."""

    @property
    def engine(self) -> Engine:
        """The engine that works on this migrator's database."""


class HasBackground(Protocol):
    """A migrator, as far as a producer needs it."""

    @property
    def background(self) -> HasEngine:
        """Its background migrations."""


def enqueue_background(port: QueuePort[Any], migrator: HasBackground, name: str | None = None) -> tuple[Enqueued, ...]:
    """Have one background migration worked on by the workers of ``port``, or all active ones.

    Raises:
        NotRegisteredError, BackgroundConflictError, ConnectionFailedError: See ``Producer.enqueue``.
    """
    with speaking():
        return Producer(migrator.background.engine, port).enqueue(name)


def heal(port: QueuePort[Any], migrator: HasBackground) -> Healed:
    """Make lost hints good; see ``Producer.heal``.

    Raises:
        ConnectionFailedError: MongoDB did not answer.
    """
    with speaking():
        return Producer(migrator.background.engine, port).heal()
