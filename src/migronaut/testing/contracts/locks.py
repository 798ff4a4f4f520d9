"""The contract of ``Locks``: one holder, by nonce and by the server's clock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from migronaut.testing.contracts.records import ANN, THREADS, Records, RecordsContract


class LocksContract(RecordsContract):
    """The suite of ``Locks``; override the fixture ``records``."""

    def test_of_many_on_an_empty_place_one_gets_the_lock(self, records: Records) -> None:
        """Also where not even the collection exists yet."""
        with ThreadPoolExecutor(THREADS) as pool:
            nonces = list(pool.map(lambda _: records.locks.acquire("migronaut", owner=ANN, ttl=60), range(THREADS)))
        assert len([nonce for nonce in nonces if nonce is not None]) == 1

    def test_equal_owners_are_told_apart_by_the_nonce(self, records: Records) -> None:
        """Two threads of one process have the same name."""
        nonce = records.locks.acquire("migronaut", owner=ANN, ttl=60)
        assert nonce is not None
        assert records.locks.acquire("migronaut", owner=ANN, ttl=60) is None
        assert not records.locks.release("migronaut", "another")
        assert not records.locks.renew("migronaut", "another")
        assert records.locks.release("migronaut", nonce)
        assert records.locks.acquire("migronaut", owner=ANN, ttl=60) is not None

    def test_a_killed_holder_blocks_nobody_longer_than_its_own_ttl(self, records: Records) -> None:
        """Its own, not that of whoever asks."""
        killed = records.locks.acquire("migronaut", owner=ANN, ttl=10)
        assert killed is not None
        records.pass_time(9)
        assert records.locks.acquire("migronaut", owner=ANN, ttl=1) is None
        records.pass_time(2)
        assert records.locks.acquire("migronaut", owner=ANN, ttl=10) is not None
        assert not records.locks.renew("migronaut", killed)
        assert not records.locks.release("migronaut", killed)

    def test_a_renewed_lock_outlives_its_ttl(self, records: Records) -> None:
        """For as long as it is renewed."""
        nonce = records.locks.acquire("migronaut", owner=ANN, ttl=10)
        assert nonce is not None
        for _ in range(3):
            records.pass_time(8)
            assert records.locks.renew("migronaut", nonce)
        assert records.locks.acquire("migronaut", owner=ANN, ttl=10) is None

    def test_locks_of_other_names_are_free(self, records: Records) -> None:
        """A migration's coordinator does not keep the others out."""
        assert records.locks.acquire("migronaut", owner=ANN, ttl=60) is not None
        assert records.locks.acquire("background:0001_orders.py", owner=ANN, ttl=60) is not None
