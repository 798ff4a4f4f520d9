"""The contract of ``Tickets``: one right to be woken, and every change a compare-and-set."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from migronaut.core.tickets import Role, Ticket, TicketStatus
from migronaut.testing.contracts.records import NAME, THREADS, Records, RecordsContract


def _claim(records: Records, ticket: Ticket, *, ttl: float = 60, owner: str = "w") -> Ticket | None:
    return records.tickets.claim(ticket.id, run=ticket.run, seq=ticket.seq, owner=owner, ttl=ttl)


class TicketsContract(RecordsContract):
    """The suite of ``Tickets``; override the fixture ``records``."""

    @pytest.fixture
    def ticket(self, records: Records) -> Ticket:
        """A fresh coordinator ticket."""
        opened, fresh = records.tickets.open(NAME, Role.COORDINATOR)
        assert fresh
        return opened

    def test_of_many_that_open_one_ticket_one_is_told_it_is_fresh(self, records: Records) -> None:
        """So a migration that is enqueued by many is sent once."""
        with ThreadPoolExecutor(THREADS) as pool:
            opened = list(pool.map(lambda _: records.tickets.open(NAME, Role.LANE, lane=3), range(THREADS)))
        assert [fresh for _, fresh in opened].count(True) == 1
        assert len({ticket.run for ticket, _ in opened}) == 1
        assert [ticket.lane for ticket in records.tickets.of(NAME)] == [3]

    def test_a_hint_that_arrives_many_times_works_once(self, records: Records, ticket: Ticket) -> None:
        """Queues deliver twice."""
        with ThreadPoolExecutor(THREADS) as pool:
            claims = list(pool.map(lambda n: _claim(records, ticket, owner=str(n)), range(THREADS)))
        assert len([each for each in claims if each is not None]) == 1

    def test_hints_of_another_run_or_number_are_stale(self, records: Records, ticket: Ticket) -> None:
        """Queues deliver late."""
        assert records.tickets.claim(ticket.id, run="other", seq=0, owner="w", ttl=60) is None
        assert records.tickets.claim(ticket.id, run=ticket.run, seq=1, owner="w", ttl=60) is None
        assert records.tickets.claim("0002_other.py", run=ticket.run, seq=0, owner="w", ttl=60) is None

    def test_a_working_ticket_is_taken_over_only_after_its_time(self, records: Records, ticket: Ticket) -> None:
        """And then its first holder is nobody any more."""
        first = _claim(records, ticket, ttl=10)
        assert first is not None
        assert _claim(records, ticket, owner="second") is None
        records.pass_time(8)
        assert records.tickets.extend(first, ttl=10)
        records.pass_time(8)
        assert _claim(records, ticket, owner="second") is None
        records.pass_time(3)
        assert _claim(records, ticket, owner="second") is not None
        assert not records.tickets.extend(first, ttl=10)
        assert records.tickets.again(first, delay=0) is None
        assert not records.tickets.close(first)

    def test_a_continuation_has_the_next_number_and_keeps_the_run(self, records: Records, ticket: Ticket) -> None:
        """So that a copy of the hint before it is stale."""
        held = _claim(records, ticket)
        assert held is not None
        again = records.tickets.again(held, delay=20, failures=2)
        assert again is not None
        assert (again.run, again.seq, again.status, again.failures) == (ticket.run, 1, TicketStatus.WAITING, 2)
        assert _claim(records, ticket) is None
        assert _claim(records, again) is not None

    def test_a_closed_ticket_blocks_nobody(self, records: Records, ticket: Ticket) -> None:
        """A migration can be enqueued again the moment it has ended."""
        held = _claim(records, ticket)
        assert held is not None
        assert records.tickets.close(held)
        reopened, fresh = records.tickets.open(NAME, Role.COORDINATOR)
        assert fresh
        assert reopened.run != ticket.run

    def test_one_of_many_wakes_a_sleeping_coordinator(self, records: Records, ticket: Ticket) -> None:
        """Lanes that are last at once send one hint."""
        assert records.tickets.wake(NAME) is None  # due already
        held = _claim(records, ticket)
        assert held is not None
        assert records.tickets.wake(NAME) is None  # at work
        assert records.tickets.again(held, delay=60) is not None
        with ThreadPoolExecutor(THREADS) as pool:
            woken = [
                each for each in pool.map(lambda _: records.tickets.wake(NAME), range(THREADS)) if each is not None
            ]
        assert [each.seq for each in woken] == [1]

    def test_lost_hints_are_overdue_after_a_grace_that_doubles(self, records: Records, ticket: Ticket) -> None:
        """A backlog breeds no duplicates."""
        records.pass_time(29)
        assert records.tickets.overdue() == ()
        records.pass_time(2)
        (lost,) = records.tickets.overdue()
        sent = records.tickets.resend(lost)
        assert sent is not None
        assert (sent.sends, sent.losses, sent.seq, sent.run) == (1, 0, 0, ticket.run)
        assert sent.hint.id != ticket.hint.id
        records.pass_time(31)
        assert records.tickets.overdue() == ()
        records.pass_time(31)
        assert len(records.tickets.overdue()) == 1

    def test_the_hint_of_a_vanished_worker_counts_as_a_loss(self, records: Records, ticket: Ticket) -> None:
        """And only who read the latest ticket may send or drop it."""
        assert _claim(records, ticket, ttl=10) is not None
        records.pass_time(41)
        (lost,) = records.tickets.overdue()
        sent = records.tickets.resend(lost)
        assert sent is not None
        assert (sent.losses, sent.status) == (1, TicketStatus.WAITING)
        assert records.tickets.resend(lost) is None  # somebody was faster
        assert not records.tickets.drop(lost)
        assert records.tickets.drop(sent)
        assert records.tickets.of(NAME) == ()

    def test_the_queue_side_id_of_a_hint_is_remembered(self, records: Records, ticket: Ticket) -> None:
        """By it a waiting job is woken early."""
        records.tickets.sent(ticket, "job-1")
        assert [each.ref for each in records.tickets.of(NAME)] == ["job-1"]
