"""The contract of ``Store``: compare-and-set on states, fenced leases, clocks of the cluster."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
from attrs import evolve

from migronaut.core.ports import Busy, Checkpoint, Exhausted, PortError, Store
from migronaut.core.state import Counters, Cursor, DocumentError, Partition, PartitionStatus, Status
from migronaut.errors import LeaseLostError
from migronaut.testing.contracts.records import ANN, NAME, THREADS, WORK, Records, RecordsContract, partition, state


def _claimed(store: Store, *, slots: int = 4, ttl: float = 60) -> Partition:
    found = store.claim(WORK, owner=ANN, slots=slots, ttl=ttl)
    assert isinstance(found, Partition)
    return found


def _stored(store: Store, seq: int = 0) -> Partition:
    return store.partitions(WORK)[seq]


class StoreContract(RecordsContract):
    """The suite of a ``Store``; override the fixture ``records``."""

    # ------------------------------------------------------------------ states

    def test_a_state_comes_back_as_it_was_stored(self, records: Records) -> None:
        """Every field, and filters with names that a server would read as operators."""
        assert records.store.insert(state())
        found = records.store.load(NAME)
        assert found == state()
        assert records.store.load("0002_other.py") is None

    def test_a_name_is_registered_once(self, records: Records) -> None:
        """Two deploys at once register one migration."""
        assert records.store.insert(state())
        assert not records.store.insert(state(registration="another"))
        assert [each.registration for each in records.store.states()] == ["r"]

    def test_the_same_value_is_registered_once_too(self, records: Records) -> None:
        """An insert is no upsert."""
        told = state()
        assert [records.store.insert(told) for _ in range(2)] == [True, False]

    def test_of_savers_of_one_revision_one_wins(self, records: Records) -> None:
        """Two coordinators that decided differently are not mixed."""
        records.store.insert(state())
        wanted = [evolve(state(), description=str(number)) for number in range(THREADS)]
        with ThreadPoolExecutor(THREADS) as pool:
            saved = [each for each in pool.map(records.store.save, wanted) if each is not None]
        assert len(saved) == 1
        found = records.store.load(NAME)
        assert found is not None
        assert (found.description, found.revision) == (saved[0].description, 1)

    def test_a_late_save_changes_nothing(self, records: Records) -> None:
        """A pause is not undone by a coordinator that read before it."""
        records.store.insert(state())
        paused = records.store.save(evolve(state(), status=Status.PAUSED))
        assert paused is not None
        assert records.store.save(evolve(state(), status=Status.RUNNING)) is None
        found = records.store.load(NAME)
        assert found is not None
        assert found.status is Status.PAUSED

    # ------------------------------------------------------------------ claims

    def test_started_work_comes_before_new_work_and_large_before_small(self, records: Records) -> None:
        """So that no partition is left half done, and the longest does not come last."""
        records.store.add_partitions([partition(0, estimate=5), partition(1, estimate=50), partition(2, estimate=20)])
        first = _claimed(records.store)
        assert first.seq == 1
        assert records.store.release(first)
        assert [_claimed(records.store).seq for _ in range(3)] == [1, 2, 0]

    def test_a_claim_counts_itself_and_its_slice(self, records: Records) -> None:
        """With the claim, not after it: a worker that dies at once was there."""
        records.store.add_partitions([partition(0)])
        found = _claimed(records.store)
        assert (found.claims, found.counters.slices, found.status) == (1, 1, PartitionStatus.RUNNING)

    def test_as_many_leases_as_slots_and_no_more_whoever_claims(self, records: Records) -> None:
        """The promise of ``max_parallel``, under a race."""
        records.store.add_partitions([partition(seq) for seq in range(THREADS)])
        with ThreadPoolExecutor(THREADS) as pool:
            claims = list(pool.map(lambda _: records.store.claim(WORK, owner=ANN, slots=4, ttl=60), range(THREADS)))
        held = [claim for claim in claims if isinstance(claim, Partition)]
        assert len(held) == 4
        assert {each.lease.slot for each in held if each.lease} == {0, 1, 2, 3}
        assert len({each.id for each in held}) == 4
        assert all(claim == Busy(30) for claim in claims if not isinstance(claim, Partition))
        assert len(records.store.leases(NAME)) == 4

    def test_nothing_left_to_claim_is_exhausted(self, records: Records) -> None:
        """Which is not the same as busy: a lane goes home."""
        assert records.store.claim(WORK, owner=ANN, slots=4, ttl=60) == Exhausted()
        records.store.add_partitions([partition(0)])
        _claimed(records.store)
        assert records.store.claim(WORK, owner=ANN, slots=4, ttl=60) == Exhausted()

    def test_an_expired_lease_is_anybodys_and_its_holder_is_fenced_off(self, records: Records) -> None:
        """A worker that froze and wakes up changes nothing any more."""
        records.store.add_partitions([partition(0)])
        frozen = _claimed(records.store, slots=1, ttl=10)
        records.pass_time(11)
        assert records.store.leases(NAME) == ()
        other = _claimed(records.store, slots=1, ttl=10)
        assert other.counters.reclaims == 1
        with pytest.raises(LeaseLostError):
            records.store.checkpoint(frozen, Checkpoint(cursor=Cursor(last_id=99), counters=Counters(migrated=5)))
        assert not records.store.renew(frozen)
        assert not records.store.release(frozen)
        assert not records.store.fail_slice(frozen, error="late", limit=1)
        found = _stored(records.store)
        assert (found.cursor, found.counters.migrated, found.failures) == (None, 0, 0)
        assert found.lease is not None

    def test_fencing_takes_expired_leases_away_and_tells_those_that_are_left(self, records: Records) -> None:
        records.store.add_partitions([partition(0), partition(1)])
        frozen = _claimed(records.store, ttl=10)
        alive = _claimed(records.store, ttl=1000)
        records.pass_time(11)
        (left,) = records.store.fence_expired(NAME)
        assert alive.lease is not None
        assert (left.partition, left.slot, left.owner) == (alive.seq, alive.lease.slot, ANN.name)
        assert (_stored(records.store, frozen.seq).lease, _stored(records.store, frozen.seq).counters.reclaims) == (
            None,
            1,
        )
        with pytest.raises(LeaseLostError):
            records.store.checkpoint(frozen, Checkpoint(counters=Counters(migrated=5)))
        assert records.store.renew(alive)
        assert records.store.fence_expired("0002_other.py") == ()

    def test_looking_at_leases_takes_none_away(self, records: Records) -> None:
        """It may have expired, and yet it is good for a commit until somebody fences it."""
        records.store.add_partitions([partition(0)])
        late = _claimed(records.store, ttl=10)
        records.pass_time(11)
        assert records.store.leases(NAME) == ()
        records.store.checkpoint(late, Checkpoint(counters=Counters(migrated=5)))
        assert [lease.partition for lease in records.store.fence_expired(NAME)] == [0]
        assert _stored(records.store).counters.reclaims == 0

    def test_the_place_of_a_partition_is_told_to_the_holder_of_its_lease(self, records: Records) -> None:
        records.store.add_partitions([partition(0)])
        held = _claimed(records.store)
        assert records.store.place(held) is None
        records.store.checkpoint(held, Checkpoint(cursor=Cursor(last_id=7)))
        assert records.store.place(held) == Cursor(last_id=7)
        records.store.drop_leases(NAME)
        with pytest.raises(LeaseLostError):
            records.store.place(held)

    def test_a_renewed_lease_lives_on(self, records: Records) -> None:
        """Each renewal starts the time to live again."""
        records.store.add_partitions([partition(0)])
        held = _claimed(records.store, slots=1, ttl=10)
        records.pass_time(8)
        assert records.store.renew(held)
        records.pass_time(8)
        assert len(records.store.leases(NAME)) == 1

    def test_unlocking_takes_every_lease(self, records: Records) -> None:
        """And who held one is fenced off."""
        records.store.add_partitions([partition(0), partition(1)])
        held = _claimed(records.store)
        _claimed(records.store)
        assert records.store.drop_leases(NAME) == 2
        with pytest.raises(LeaseLostError):
            records.store.checkpoint(held, Checkpoint())

    # ------------------------------------------------------------------ checkpoints

    def test_checkpoints_add_up_and_done_frees_the_slot(self, records: Records) -> None:
        """Counters are added, never set; what is done cannot be checkpointed again."""
        records.store.add_partitions([partition(0)])
        held = _claimed(records.store, slots=1)
        error = DocumentError(at=datetime(2026, 1, 1), kind="refused", message="why")
        first = Checkpoint(cursor=Cursor(last_id=3), counters=Counters(scanned=3, migrated=2, failed=1), bad_ids=(2,))
        records.store.checkpoint(held, evolve(first, errors=(error,)))
        records.store.checkpoint(held, Checkpoint(counters=Counters(retried=1)))
        found = _stored(records.store)
        assert found.cursor == Cursor(last_id=3)
        assert (found.counters.scanned, found.counters.migrated, found.counters.retried) == (3, 2, 1)
        assert (found.bad_ids, found.errors) == ((2,), (error,))
        records.store.checkpoint(held, Checkpoint(cursor=Cursor(last_id=None), done=True))
        found = _stored(records.store)
        assert (found.status, found.lease, found.cursor) == (PartitionStatus.DONE, None, Cursor(last_id=None))
        with pytest.raises(LeaseLostError):
            records.store.checkpoint(held, Checkpoint())

    def test_only_the_latest_errors_are_kept(self, records: Records) -> None:
        """The ids of all bad documents are, since ``retry`` needs them."""
        records.store.add_partitions([partition(0)])
        held = _claimed(records.store)
        for number in range(25):
            error = DocumentError(at=datetime(2026, 1, 1), kind=str(number), message="")
            records.store.checkpoint(held, Checkpoint(errors=(error,), bad_ids=(number,)))
        found = _stored(records.store)
        assert [error.kind for error in found.errors] == [str(number) for number in range(5, 25)]
        assert len(found.bad_ids) == 25

    def test_a_bad_document_that_is_named_twice_is_kept_twice(self, records: Records) -> None:
        """Ids that are equal to Python may be two to a server."""
        records.store.add_partitions([partition(0)])
        held = _claimed(records.store)
        for _ in range(2):
            records.store.checkpoint(held, Checkpoint(bad_ids=(1, 1.0)))
        assert _stored(records.store).bad_ids == (1, 1.0, 1, 1.0)

    def test_a_partition_is_planned_once_and_stays_as_it_is(self, records: Records) -> None:
        """A planner that repeats itself does not take a lane's lease away."""
        records.store.add_partitions([partition(0)])
        held = _claimed(records.store)
        with pytest.raises(PortError):
            records.store.add_partitions([partition(0), partition(1)])
        assert [each.seq for each in records.store.partitions(WORK)] == [0, 1]
        assert records.store.renew(held)

    def test_slices_that_raise_in_a_row_fail_a_partition(self, records: Records) -> None:
        """In a row: one batch that succeeds starts the count again."""
        records.store.add_partitions([partition(0)])
        for _ in range(2):
            assert not records.store.fail_slice(_claimed(records.store), error="boom", limit=3)
        held = _claimed(records.store)
        records.store.checkpoint(held, Checkpoint())  # a batch that succeeds starts the count again
        assert not records.store.fail_slice(held, error="boom", limit=2)
        assert records.store.fail_slice(_claimed(records.store), error="boom again", limit=2)
        found = _stored(records.store)
        assert (found.status, found.last_error, found.lease) == (PartitionStatus.FAILED, "boom again", None)
        assert records.store.claim(WORK, owner=ANN, slots=4, ttl=60) == Exhausted()

    def test_a_reset_opens_failed_partitions_and_forgets_bad_documents_of_all(self, records: Records) -> None:
        """What ``retry`` does."""
        records.store.add_partitions([partition(0, estimate=20), partition(1)])
        done = _claimed(records.store)
        records.store.checkpoint(done, Checkpoint(bad_ids=(1,), done=True))
        records.store.fail_slice(_claimed(records.store), error="boom", limit=1)
        assert records.store.reset_partitions(WORK) == 1
        first, second = records.store.partitions(WORK)
        assert (first.status, first.bad_ids) == (PartitionStatus.DONE, ())
        assert (second.status, second.failures, second.last_error) == (PartitionStatus.PENDING, 0, None)

    def test_plans_are_dropped_by_token_and_by_generation(self, records: Records) -> None:
        """A planner that lost the race takes nothing but its own away."""
        other = evolve(partition(0), id="q0", plan="other")
        later = evolve(partition(0), id="r0", generation=2)
        records.store.add_partitions([partition(0), other, later])
        records.store.drop_plan(evolve(WORK, plan="other"))
        assert records.store.partitions(evolve(WORK, plan="other")) == ()
        records.store.drop_before(NAME, 2)
        assert records.store.partitions(WORK) == ()
        assert len(records.store.partitions(evolve(WORK, generation=2))) == 1

    # ------------------------------------------------------------------ clocks

    def test_one_caller_an_interval_gets_through(self, records: Records) -> None:
        """However many workers beat."""
        with ThreadPoolExecutor(THREADS) as pool:
            through = list(pool.map(lambda _: records.store.tick("heal", interval=30), range(THREADS)))
        assert through.count(True) == 1
        assert not records.store.tick("heal", interval=30)
        assert records.store.tick("verify", interval=30)
        records.pass_time(31)
        assert records.store.tick("heal", interval=30)
