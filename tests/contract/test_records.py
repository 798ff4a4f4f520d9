"""Store, tickets and locks: each implementation under its suite."""

from __future__ import annotations

from contract.records_fixture import EachRecords
from migronaut.testing.contracts import LocksContract, StoreContract, TicketsContract


class TestStore(EachRecords, StoreContract):
    pass


class TestTickets(EachRecords, TicketsContract):
    pass


class TestLocks(EachRecords, LocksContract):
    pass
