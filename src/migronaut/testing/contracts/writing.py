"""What every ``Documents`` port must do when it writes: no write of the application is ever lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from migronaut.core.ports import Checkpoint, PortError, WriteConflictError, WriteRefusedError, WriteTooLargeError
from migronaut.core.state import Partition, PartitionStatus
from migronaut.errors import LeaseLostError
from migronaut.testing.contracts.world import DocumentsContract, World, bare, progress, write

DONE = {"$set": {"v": 2}}
INDEX, VALIDATOR = "the unique index 'n_1'", "the validator of the collection"
COMPARED = "documents.write_same.compared"


class _CrashError(Exception):
    """A process that dies."""


def _crash() -> None:
    raise _CrashError


def _versions(world: World) -> list[Any]:
    found = [world.application.get(number) for number in range(4)]
    return [document and document["v"] for document in found]


def _at_3(left_out: frozenset[int]) -> Checkpoint:
    return progress(3)


def _assert_nothing_written(world: World, partition: Partition) -> None:
    assert _versions(world) == [1, 1, 1, 1]
    assert world.stored_partition().cursor is None
    assert world.stored_partition().counters == partition.counters


class DocumentsWritingContract(DocumentsContract):
    """The suite of ``Documents`` that are written; override the fixture ``world``."""

    @pytest.fixture
    def four(self, world: World) -> World:
        """It holds four documents."""
        world.application.insert(*({"_id": number, "v": 1, "n": number} for number in range(4)))
        return world

    @pytest.fixture
    def partition(self, four: World) -> Partition:
        """A partition under a lease."""
        return four.claim()

    # --------------------------------------------------------------------------- write_same

    def test_writes_and_their_checkpoint_land_together(self, four: World, partition: Partition) -> None:
        """One commit for both."""
        seen: list[frozenset[int]] = []

        def checkpoint(left_out: frozenset[int]) -> Checkpoint:
            seen.append(left_out)
            return progress(3)

        writes = [write(raw, DONE) for raw in four.read_all()]
        assert four.documents.write_same(partition, writes, checkpoint=checkpoint) == frozenset()
        assert seen == [frozenset()]
        assert _versions(four) == [2, 2, 2, 2]
        stored = four.stored_partition()
        assert stored.cursor is not None
        assert (stored.cursor.last_id, stored.counters.batches, stored.status) == (3, 1, PartitionStatus.RUNNING)

    def test_the_last_checkpoint_closes_the_partition(self, four: World, partition: Partition) -> None:
        """And frees its slot."""
        writes = [write(raw, DONE) for raw in four.read_all()]
        four.documents.write_same(partition, writes, checkpoint=lambda left_out: progress(3, done=True))
        assert four.stored_partition().status is PartitionStatus.DONE
        assert four.stored_partition().lease is None

    def test_a_batch_without_writes_is_a_checkpoint(self, four: World, partition: Partition) -> None:
        """The cursor goes on over documents that needed nothing."""
        assert four.documents.write_same(partition, [], checkpoint=_at_3) == frozenset()
        assert four.stored_partition().counters.batches == 1

    def test_fields_that_an_update_does_not_name_keep_their_place_and_type(
        self, four: World, partition: Partition
    ) -> None:
        """A migration changes what it names."""
        four.application.insert({"_id": 9, "z": 1.0, "v": 1, "old": 1, "a": None})
        raw = next(raw for raw in four.read_all() if b"old" in raw)
        update = {"$set": {"v": 2, "new": 1, "another": 2}, "$unset": {"old": ""}, "$inc": {"revision": 1}}
        four.documents.write_same(partition, [write(raw, update)], checkpoint=_at_3)
        expected = {"_id": 9, "z": 1.0, "v": 2, "a": None, "another": 2, "new": 1, "revision": 1}
        assert bare(four.application.get(9)) == bare(expected)

    def test_documents_that_were_changed_or_deleted_are_left_out(self, four: World, partition: Partition) -> None:
        """By their bytes: ``1`` and ``1.0`` are a change."""
        writes = [write(raw, DONE) for raw in four.read_all()]
        four.application.update(1, {"$set": {"n": 1.0}})
        four.application.delete(2)
        seen: list[frozenset[int]] = []

        def checkpoint(left_out: frozenset[int]) -> Checkpoint:
            seen.append(left_out)
            return progress(3)

        assert four.documents.write_same(partition, writes, checkpoint=checkpoint) == frozenset({1, 2})
        assert seen == [frozenset({1, 2})]
        assert _versions(four) == [2, 1, None, 2]

    def test_a_lane_without_its_lease_writes_nothing(self, four: World, partition: Partition) -> None:
        """Neither documents nor progress."""
        writes = [write(raw, DONE) for raw in four.read_all()]
        four.store.drop_leases(partition.background)
        with pytest.raises(LeaseLostError):
            four.documents.write_same(partition, writes, checkpoint=_at_3)
        _assert_nothing_written(four, partition)

    def test_a_lease_lost_inside_the_transaction_writes_nothing(self, four: World, partition: Partition) -> None:
        """The fence holds until the commit."""
        writes = [write(raw, DONE) for raw in four.read_all()]
        four.at(COMPARED, lambda: four.store.drop_leases(partition.background))
        with pytest.raises((LeaseLostError, WriteConflictError)):
            four.documents.write_same(partition, writes, checkpoint=_at_3)
        _assert_nothing_written(four, partition)

    @pytest.mark.parametrize(
        "act",
        [
            pytest.param(lambda world: world.application.update(2, {"$set": {"n": "theirs"}}), id="update"),
            pytest.param(lambda world: world.application.delete(2), id="delete"),
        ],
    )
    def test_a_write_of_the_application_inside_the_transaction_wins(
        self, four: World, partition: Partition, act: Callable[[World], object]
    ) -> None:
        """Between comparing and writing."""
        writes = [write(raw, DONE) for raw in four.read_all()]
        four.at(COMPARED, lambda: act(four))
        with pytest.raises(WriteConflictError):
            four.documents.write_same(partition, writes, checkpoint=_at_3)
        assert _versions(four)[:2] == [1, 1]
        assert (four.application.get(2) or {}).get("n") in {None, "theirs"}
        assert four.stored_partition().cursor is None

    def test_a_change_that_was_taken_back_inside_the_transaction_conflicts_too(
        self, four: World, partition: Partition
    ) -> None:
        """The same bytes again are no proof that nothing happened."""

        def there_and_back() -> None:
            four.application.update(2, {"$set": {"n": 7}})
            four.application.update(2, {"$set": {"n": 2}})

        writes = [write(raw, DONE) for raw in four.read_all()]
        four.at(COMPARED, there_and_back)
        with pytest.raises(WriteConflictError):
            four.documents.write_same(partition, writes, checkpoint=_at_3)
        _assert_nothing_written(four, partition)

    def test_a_write_of_the_application_to_another_document_does_not_disturb(
        self, four: World, partition: Partition
    ) -> None:
        """A conflict costs the whole batch."""
        writes = [write(raw, DONE) for raw in four.read_all()[:3]]

        def elsewhere() -> None:
            four.application.update(3, {"$set": {"n": "theirs"}})
            four.application.insert({"_id": 10})

        four.at(COMPARED, elsewhere)
        four.documents.write_same(partition, writes, checkpoint=_at_3)
        assert _versions(four) == [2, 2, 2, 1]
        assert (four.application.get(3) or {})["n"] == "theirs"

    @pytest.mark.parametrize("point", [COMPARED, "documents.write_same.before-commit"])
    def test_a_crash_before_the_commit_writes_nothing(self, four: World, partition: Partition, point: str) -> None:
        """All or nothing."""
        writes = [write(raw, DONE) for raw in four.read_all()]
        four.at(point, _crash)
        with pytest.raises(_CrashError):
            four.documents.write_same(partition, writes, checkpoint=_at_3)
        _assert_nothing_written(four, partition)

    def test_a_crash_after_the_commit_has_written_everything(self, four: World, partition: Partition) -> None:
        """Nothing is left to do after it."""
        writes = [write(raw, DONE) for raw in four.read_all()]
        four.at("documents.write_same.committed", _crash)
        with pytest.raises(_CrashError):
            four.documents.write_same(partition, writes, checkpoint=_at_3)
        assert _versions(four) == [2, 2, 2, 2]
        assert four.stored_partition().counters.batches == 1

    def test_a_conflict_is_met_where_the_document_is_written(self, four: World, partition: Partition) -> None:
        """It comes before what a later document is refused for."""
        four.application.forbid("bad")
        raws = four.read_all()
        writes = [write(raws[0], DONE), write(raws[1], {"$set": {"bad": 1}})]
        four.at(COMPARED, lambda: four.application.update(0, {"$set": {"n": "theirs"}}))
        with pytest.raises(WriteConflictError):
            four.documents.write_same(partition, writes, checkpoint=_at_3)
        assert _versions(four) == [1, 1, 1, 1]

    def test_a_result_that_breaks_a_unique_index_is_named(self, four: World, partition: Partition) -> None:
        """By its place in the batch."""
        four.application.unique("n")
        raws = four.read_all()
        writes = [write(raws[0], DONE), write(raws[1], DONE), write(raws[2], {"$set": {"v": 2, "n": 3}})]
        with pytest.raises(WriteRefusedError) as refused:
            four.documents.write_same(partition, writes, checkpoint=_at_3)
        assert (refused.value.code, refused.value.index) == (11000, 2)
        assert refused.value.by == INDEX
        _assert_nothing_written(four, partition)

    def test_a_unique_value_may_move_inside_a_batch(self, four: World, partition: Partition) -> None:
        """In the order of the batch."""
        four.application.unique("n")
        raws = four.read_all()
        writes = [write(raws[0], {"$set": {"v": 2, "n": "free"}}), write(raws[1], {"$set": {"v": 2, "n": 0}})]
        four.documents.write_same(partition, writes, checkpoint=_at_3)
        assert _versions(four) == [2, 2, 1, 1]

    def test_a_result_that_fails_validation_is_named(self, four: World, partition: Partition) -> None:
        """The first of several."""
        four.application.forbid("bad")
        raws = four.read_all()
        writes = [write(raws[0], DONE), write(raws[1], {"$set": {"bad": 1}}), write(raws[2], {"$set": {"bad": 1}})]
        with pytest.raises(WriteRefusedError) as refused:
            four.documents.write_same(partition, writes, checkpoint=_at_3)
        assert (refused.value.code, refused.value.index) == (121, 1)
        assert refused.value.by == VALIDATOR
        _assert_nothing_written(four, partition)

    def test_a_result_that_still_matches_is_named(self, four: World, partition: Partition) -> None:
        """It would be migrated again for ever."""
        raws = four.read_all()
        writes = [write(raws[0], DONE), write(raws[1], DONE), write(raws[2], {"$set": {"n": 7}})]
        with pytest.raises(WriteRefusedError) as refused:
            four.documents.write_same(partition, writes, checkpoint=_at_3, must_leave={"v": 1})
        assert (refused.value.code, refused.value.index, refused.value.kind) == (0, 2, "still-matches")
        _assert_nothing_written(four, partition)

    def test_results_that_no_longer_match_are_written(self, four: World, partition: Partition) -> None:
        """And documents that were left out are not asked."""
        writes = [write(raw, DONE) for raw in four.read_all()[:2]]
        four.application.update(0, {"$set": {"n": "theirs"}})
        left_out = four.documents.write_same(partition, writes, checkpoint=_at_3, must_leave={"v": 1})
        assert left_out == frozenset({0})
        assert _versions(four) == [1, 2, 1, 1]

    def test_a_result_larger_than_a_document_may_be_is_refused(self, four: World, partition: Partition) -> None:
        """It is named, or the batch is to be split."""
        raws = four.read_all()
        half = b"x" * (9 * 1024 * 1024)
        four.application.update(1, {"$set": {"body": half}})
        (large,) = four.documents.fetch([1])
        writes = [write(raws[0], DONE), write(large, {"$set": {"more": half}})]
        with pytest.raises((WriteRefusedError, WriteTooLargeError)) as refused:
            four.documents.write_same(partition, writes, checkpoint=_at_3)
        if isinstance(refused.value, WriteRefusedError):
            assert refused.value.index == 1
        _assert_nothing_written(four, partition)

    # --------------------------------------------------------------------------- write_guarded

    def test_guarded_writes_count_those_whose_filter_matched(self, four: World) -> None:
        """Without a transaction the filter is the guard."""
        writes = [write(raw, DONE, v=1) for raw in four.read_all()]
        four.application.update(1, {"$set": {"v": 5}})
        four.application.delete(2)
        result = four.documents.write_guarded(writes, write_concern={"w": "majority"})
        assert (result.matched, dict(result.refused)) == (2, {})
        assert _versions(four) == [2, 5, None, 2]

    def test_a_refused_guarded_write_does_not_keep_the_others_back(self, four: World) -> None:
        """Each is told by its place, its code, and what refuses it."""
        four.application.unique("n")
        four.application.forbid("bad")
        raws = four.read_all()
        writes = [
            write(raws[0], {"$set": {"v": 2, "bad": 1}}),
            write(raws[1], {"$set": {"v": 2, "n": 3}}),
            write(raws[2], DONE),
            write(raws[3], DONE),
        ]
        result = four.documents.write_guarded(writes, write_concern={"w": "majority"})
        told = {index: (each.code, each.by) for index, each in result.refused.items()}
        assert (result.matched, told) == (2, {0: (121, VALIDATOR), 1: (11000, INDEX)})
        assert _versions(four) == [1, 1, 2, 2]

    def test_a_revision_that_is_no_number_any_more_is_told_after_the_others_were_written(self, four: World) -> None:
        """It is nobody's fault in the batch."""
        writes = [write(raw, {"$set": {"v": 2}, "$inc": {"n": 1}}, v=1) for raw in four.read_all()]
        four.application.update(1, {"$set": {"n": None}})
        with pytest.raises(PortError) as raised:
            four.documents.write_guarded(writes, write_concern={"w": "majority"})
        assert type(raised.value) is PortError
        assert _versions(four) == [2, 1, 2, 2]

    def test_a_repeated_guarded_batch_changes_nothing(self, four: World) -> None:
        """A driver may send it twice."""
        writes = [write(raw, {"$set": {"v": 2}, "$inc": {"n": 10}}, v=1) for raw in four.read_all()]
        matched = [four.documents.write_guarded(writes, write_concern={"w": 1}).matched for _ in range(2)]
        assert matched == [4, 0]
        assert [(four.application.get(number) or {})["n"] for number in range(4)] == [10, 11, 12, 13]
