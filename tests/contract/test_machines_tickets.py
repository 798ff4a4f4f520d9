"""The memory tickets answer as those on MongoDB do, whatever is done to them in whatever order."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pymongo.database import Database

from contract.machine_kit import DURATIONS, MOST_WAITS, WAITS, Twins, budget, plain
from migronaut.core.tickets import Role, Ticket

NAMES = ("0001_a.py", "0002_$b.py")
OWNERS = st.sampled_from(["ann", "$owner", "$$NOW"])
DELAYS = st.sampled_from([0.0, 1000.0, 3000.0])


class TicketMachine(RuleBasedStateMachine):
    """Tickets in two places; what a rule holds is where a pair of tickets, as read, is kept."""

    held = Bundle("held")

    def __init__(self, db: Database[Any]) -> None:
        super().__init__()
        self.twins = Twins.of(db)
        self.memory, self.mongo = self.twins.memory.tickets, self.twins.mongo.tickets
        self.runs: dict[str, str] = {}
        self.pairs: list[tuple[Ticket, Ticket]] = []

    def _hold(self, memory: Ticket | None, mongo: Ticket | None) -> Any:
        """Compare two tickets; the place where they are kept."""
        assert plain(memory) == plain(mongo)
        if memory is None or mongo is None:
            return multiple()
        assert self.runs.setdefault(memory.run, mongo.run) == mongo.run
        assert self.twins.same_moment(memory.due, mongo.due)
        self.pairs.append((memory, mongo))
        return len(self.pairs) - 1

    @rule(target=held, name=st.sampled_from(NAMES), lane=st.sampled_from([None, None, 0, 63]))
    def open(self, name: str, lane: int | None) -> Any:
        role = Role.COORDINATOR if lane is None else Role.LANE
        (memory, fresh), (mongo, fresh_too) = (
            tickets.open(name, role, lane=lane) for tickets in (self.memory, self.mongo)
        )
        assert fresh == fresh_too
        return self._hold(memory, mongo)

    @rule(target=held, at=held, owner=OWNERS, ttl=DURATIONS, step=st.sampled_from([0, 0, 0, 0, 1]))
    def claim(self, at: int, owner: str, ttl: float, step: int) -> Any:
        claims = (
            tickets.claim(ticket.id, run=ticket.run, seq=ticket.seq + step, owner=owner, ttl=ttl)
            for tickets, ticket in zip((self.memory, self.mongo), self.pairs[at], strict=True)
        )
        return self._hold(*claims)

    @rule(at=held, owner=OWNERS, ttl=DURATIONS)
    def hints_of_another_run_are_stale(self, at: int, owner: str, ttl: float) -> None:
        for tickets, ticket in zip((self.memory, self.mongo), self.pairs[at], strict=True):
            assert tickets.claim(ticket.id, run="$run", seq=ticket.seq, owner=owner, ttl=ttl) is None

    @rule(at=held, ttl=DURATIONS)
    def extend(self, at: int, ttl: float) -> None:
        memory, mongo = self.pairs[at]
        assert self.memory.extend(memory, ttl=ttl) == self.mongo.extend(mongo, ttl=ttl)

    @rule(target=held, at=held, delay=DELAYS, failures=st.integers(0, 3))
    def again(self, at: int, delay: float, failures: int) -> Any:
        memory, mongo = self.pairs[at]
        return self._hold(
            self.memory.again(memory, delay=delay, failures=failures),
            self.mongo.again(mongo, delay=delay, failures=failures),
        )

    @rule(at=consumes(held))
    def close(self, at: int) -> None:
        memory, mongo = self.pairs[at]
        assert self.memory.close(memory) == self.mongo.close(mongo)

    @rule(target=held, name=st.sampled_from(NAMES))
    def wake(self, name: str) -> Any:
        return self._hold(self.memory.wake(name), self.mongo.wake(name))

    @rule(target=held, at=held)
    def resend(self, at: int) -> Any:
        memory, mongo = self.pairs[at]
        return self._hold(self.memory.resend(memory), self.mongo.resend(mongo))

    @rule(target=held)
    def resend_what_is_overdue(self) -> Any:
        memory, mongo = self._overdue()
        found = [self._hold(self.memory.resend(one), self.mongo.resend(mongo[id_])) for id_, one in memory.items()]
        return multiple(*(at for at in found if isinstance(at, int)))

    @rule(at=held)
    def drop(self, at: int) -> None:
        memory, mongo = self.pairs[at]
        assert self.memory.drop(memory) == self.mongo.drop(mongo)

    @rule(at=held, ref=st.sampled_from(["job-1", "$ref", ""]))
    def sent(self, at: int, ref: str) -> None:
        memory, mongo = self.pairs[at]
        self.memory.sent(memory, ref)
        self.mongo.sent(mongo, ref)

    @rule(target=held, name=st.sampled_from(NAMES))
    def read(self, name: str) -> Any:
        memory, mongo = self.memory.of(name), self.mongo.of(name)
        assert len(memory) == len(mongo)
        return multiple(*(self._hold(*pair) for pair in zip(memory, mongo, strict=True)))

    @precondition(lambda self: len(self.twins.waited) < MOST_WAITS)
    @rule(seconds=WAITS)
    def wait(self, seconds: float) -> None:
        self.twins.wait(seconds)
        earlier = timedelta(seconds=seconds)
        self.pairs = [(memory, evolve(mongo, due=mongo.due - earlier)) for memory, mongo in self.pairs]

    def _overdue(self) -> tuple[dict[str, Ticket], dict[str, Ticket]]:
        memory, mongo = self.memory.overdue(), self.mongo.overdue()
        for found in (memory, mongo):
            assert [ticket.due for ticket in found] == sorted(ticket.due for ticket in found)
        return {ticket.id: ticket for ticket in memory}, {ticket.id: ticket for ticket in mongo}

    @invariant()
    def both_hold_the_same(self) -> None:
        self.twins.keep_time()
        for name in NAMES:
            memory, mongo = self.memory.of(name), self.mongo.of(name)
            assert [plain(ticket) for ticket in memory] == [plain(ticket) for ticket in mongo]
            for mine, theirs in zip(memory, mongo, strict=True):
                assert self.runs[mine.run] == theirs.run
                assert self.twins.same_moment(mine.due, theirs.due)

    @invariant()
    def the_same_is_overdue(self) -> None:
        memory, mongo = self._overdue()
        assert memory.keys() == mongo.keys()


def test_tickets(db: Database[Any]) -> None:
    run_state_machine_as_test(lambda: TicketMachine(db), settings=budget(20, steps=25))
