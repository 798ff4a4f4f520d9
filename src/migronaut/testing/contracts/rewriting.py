"""What every ``Documents`` port must do when the server rewrites the documents itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import bson
import pytest

from migronaut.core.ports import Checkpoint, Rewriting, Stages, WriteConflictError, WriteRefusedError
from migronaut.core.state import Counters, Cursor, Scope
from migronaut.errors import LeaseLostError
from migronaut.testing.contracts.world import ANYTHING, DocumentsContract, World

NUMBERS = Scope(bracket="number")
OLD: dict[str, Any] = {"v": 1}
STAGES: list[dict[str, Any]] = [{"$set": {"sum": {"$add": ["$n", 1]}, "v": 2}}, {"$unset": "n"}]


def _ids(raws: tuple[bytes, ...]) -> list[Any]:
    documents = [bson.decode(raw) for raw in raws]
    assert all(list(document) == ["_id"] for document in documents)
    return [document["_id"] for document in documents]


def _without_id(world: World, id_: Any) -> dict[str, Any]:
    found = world.application.get(id_)
    assert found is not None
    return {name: value for name, value in found.items() if name != "_id"}


def _counted(changed: int) -> Checkpoint:
    return Checkpoint(cursor=Cursor(last_id=6), counters=Counters(migrated=changed))


def _what(match: Mapping[str, Any], stages: Stages, scope: Scope, **chosen: Any) -> Rewriting:
    return Rewriting(match=match, stages=stages, scope=scope, **chosen)


class DocumentsRewritingContract(DocumentsContract):
    """The suite of ``Documents`` that the server rewrites itself; override the fixture ``world``."""

    @pytest.fixture
    def ten(self, world: World) -> World:
        """Documents 0-9 in the old shape, and two with other ids."""
        world.application.insert(*({"_id": number, "v": 1, "n": number} for number in range(10)))
        world.application.insert({"_id": "text", "v": 1, "n": 1}, {"_id": None, "v": 1, "n": 1})
        return world

    def test_ids_are_read_in_order_and_nothing_else_of_the_documents(self, ten: World) -> None:
        """No document crosses the wire."""
        first = ten.documents.read_ids(OLD, NUMBERS, after=None, limit=4)
        assert (_ids(first.documents), first.end) == ([0, 1, 2, 3], False)
        ten.application.update(5, {"$set": {"v": 2}})
        rest = ten.documents.read_ids(OLD, NUMBERS, after=Cursor(last_id=3), limit=100, without=[7])
        assert (_ids(rest.documents), rest.end) == ([4, 6, 8, 9], True)

    def test_ids_of_documents_that_are_there_and_match(self, ten: World) -> None:
        """In the order of the server."""
        ten.application.update(5, {"$set": {"v": 2}})
        assert _ids(ten.documents.fetch_ids([99, 5, 4])) == [4, 5]
        assert _ids(ten.documents.fetch_ids([99, 5, 4], match=OLD)) == [4]

    def test_a_scope_is_rewritten_up_to_its_bound(self, ten: World) -> None:
        """Once."""
        scope = Scope(bracket="number", lower=2, bounded_below=True, upper=6, bounded_above=True)
        assert ten.documents.rewrite(_what(OLD, STAGES, scope)) == 4
        assert ten.documents.rewrite(_what(OLD, STAGES, scope)) == 0
        assert [_without_id(ten, number) for number in (2, 3, 6, 7)] == [
            {"v": 1, "n": 2},
            {"v": 2, "sum": 4},
            {"v": 2, "sum": 7},
            {"v": 1, "n": 7},
        ]

    def test_nothing_but_what_was_named_is_rewritten(self, ten: World) -> None:
        """Also across brackets."""
        assert ten.documents.rewrite(_what(OLD, STAGES, NUMBERS, only=[3, 4, 99], without=[4])) == 1
        assert _without_id(ten, 3) == {"v": 2, "sum": 4}
        assert _without_id(ten, 4) == {"v": 1, "n": 4}
        assert ten.documents.rewrite(_what(OLD, STAGES, NUMBERS, without=[0, 1])) == 7
        assert ten.documents.rewrite(_what(OLD, STAGES, Scope(bracket="string"))) == 1
        assert _without_id(ten, None) == {"v": 1, "n": 1}

    def test_documents_are_chosen_by_ids_of_any_type(self, world: World) -> None:
        """UUIDs among them."""
        ids = [UUID(int=1), UUID(int=2), UUID(int=3)]
        world.application.insert(*({"_id": id_, "v": 1} for id_ in ids))
        stages = [{"$set": {"v": 2, "by": UUID(int=9)}}]
        assert world.documents.refusal_of(stages) is None
        assert world.documents.rewrite(_what(OLD, stages, NUMBERS, only=ids[:2], without=ids[:1])) == 1
        assert [_without_id(world, id_) for id_ in ids] == [{"v": 1}, {"v": 2, "by": UUID(int=9)}, {"v": 1}]

    def test_it_stops_at_a_document_that_is_refused_and_keeps_what_was_done_before(self, ten: World) -> None:
        """Outside of a transaction."""
        ten.application.update(4, {"$set": {"n": "text"}})
        with pytest.raises(WriteRefusedError) as refused:
            ten.documents.rewrite(_what(OLD, STAGES, NUMBERS))
        assert (refused.value.code, refused.value.index) == (16554, None)
        assert _without_id(ten, 3) == {"v": 2, "sum": 4}
        assert _without_id(ten, 4) == {"v": 1, "n": "text"}
        assert _without_id(ten, 5) == {"v": 1, "n": 5}

    @pytest.mark.parametrize(
        ("setting", "code", "by"),
        [("unique", 11000, "the unique index 'sum_1'"), ("forbid", 121, "the validator of the collection")],
    )
    def test_indexes_and_validators_refuse_single_documents(
        self, world: World, setting: str, code: int, by: str
    ) -> None:
        """By the server's own code, and named."""
        getattr(world.application, setting)("sum")
        world.application.insert({"_id": 1, "v": 1, "n": 1, **({"sum": 0} if setting == "unique" else {})})
        if setting == "unique":
            world.application.insert({"_id": 2, "v": 1, "n": 1, "sum": 5})
        with pytest.raises(WriteRefusedError) as refused:
            world.documents.rewrite(_what(OLD, STAGES, NUMBERS))
        assert (refused.value.code, refused.value.by) == (code, by)

    @pytest.mark.parametrize(
        ("stages", "matches"),
        [(STAGES, False), ([{"$set": {"other": 1}}], True), ([{"$set": {"v": {"$add": ["$n", "$v"]}}}], False)],
    )
    def test_whether_a_result_would_match_is_told_without_writing(
        self, ten: World, stages: list[dict[str, Any]], matches: bool
    ) -> None:
        """A pipeline that does not end is found before it runs."""
        before = ten.documents.fetch([3])
        assert _ids(ten.documents.still_matching(OLD, stages, [4, 3, 99])) == ([3, 4] if matches else [])
        assert ten.documents.fetch([3]) == before

    def test_a_document_that_the_stages_fail_on_does_not_count_as_matching(self, ten: World) -> None:
        """It is bad for another reason."""
        ten.application.update(3, {"$set": {"n": "text"}})
        assert ten.documents.still_matching(OLD, STAGES, [3]) == ()

    def test_a_field_that_is_built_from_another_counts_as_there(self, ten: World) -> None:
        """MongoDB 6.0 moves a $match before a $set that decides about it."""
        missing = {"shipping": {"$exists": False}}
        assert ten.documents.still_matching(missing, [{"$set": {"shipping": {"address": "$n"}}}], [3, 4]) == ()
        assert len(ten.documents.still_matching(missing, [{"$set": {"another": {"address": "$n"}}}], [3, 4])) == 2

    def test_stages_that_can_be_run_are_not_refused(self, ten: World) -> None:
        """And nothing is written to find out."""
        assert ten.documents.refusal_of(STAGES) is None
        assert ten.documents.fetch([3], match=ANYTHING) != ()

    def test_uuids_are_ids_filters_and_values_as_anything_else(self, world: World) -> None:
        """Whatever the client is set to."""
        first, second = UUID(int=1), UUID(int=2)
        world.application.insert({"_id": first, "v": 1, "of": second}, {"_id": second, "v": 1, "of": first})
        match = {"$and": [OLD, {"of": second}]}
        stages = [{"$set": {"v": 2, "by": second}}]
        scope = Scope(bracket="binData")
        assert world.documents.refusal_of(stages) is None
        assert world.documents.still_matching(match, stages, [first, second]) == ()
        assert world.documents.rewrite(_what(match, stages, scope, only=[first, second])) == 1
        assert _without_id(world, first) == {"v": 2, "of": second, "by": second}

    def test_nan_is_below_every_bound(self, world: World) -> None:
        """As the server sorts it."""
        world.application.insert(
            {"_id": math.nan, "v": 1, "n": 1}, {"_id": 1, "v": 1, "n": 1}, {"_id": 5, "v": 1, "n": 1}
        )
        scope = Scope(bracket="number", upper=3, bounded_above=True)
        read = world.documents.read_ids(OLD, scope, after=None, limit=10)
        assert len(read.documents) == 2
        assert world.documents.rewrite(_what(OLD, STAGES, scope)) == 2
        assert _without_id(world, 5) == {"v": 1, "n": 1}

    def test_a_range_and_its_checkpoint_are_one(self, ten: World) -> None:
        """Counted exactly."""
        partition = ten.claim()
        scope = Scope(bracket="number", lower=2, bounded_below=True, upper=6, bounded_above=True)
        assert ten.documents.rewrite_fenced(partition, _what(OLD, STAGES, scope, without=[5]), checkpoint=_counted) == 3
        assert [_without_id(ten, number)["v"] for number in range(2, 8)] == [1, 2, 2, 1, 2, 1]
        stored = ten.stored_partition()
        assert (stored.cursor, stored.counters.migrated) == (Cursor(last_id=6), 3)
        assert (
            ten.documents.rewrite_fenced(partition, _what(OLD, STAGES, NUMBERS, only=[0, 2, 5]), checkpoint=_counted)
            == 3
        )
        assert ten.stored_partition().counters.migrated == 6

    def test_without_the_lease_nothing_of_a_range_is_written(self, ten: World) -> None:
        """The fence of a pipeline."""
        partition = ten.claim()
        ten.store.drop_leases(partition.background)
        with pytest.raises(LeaseLostError):
            ten.documents.rewrite_fenced(partition, _what(OLD, STAGES, NUMBERS), checkpoint=_counted)
        assert ten.documents.count(OLD, limit=100) == 12
        assert ten.stored_partition().counters.migrated == 0

    def test_a_lease_that_is_lost_while_a_range_is_open_undoes_it(self, ten: World) -> None:
        """However long the statement took."""
        partition = ten.claim()
        ten.at("documents.rewrite_fenced.rewritten", lambda: ten.store.drop_leases(partition.background))
        with pytest.raises((LeaseLostError, WriteConflictError)):
            ten.documents.rewrite_fenced(partition, _what(OLD, STAGES, NUMBERS), checkpoint=_counted)
        assert ten.documents.count(OLD, limit=100) == 12

    def test_a_refused_document_undoes_its_whole_range(self, ten: World) -> None:
        """The lane looks for it in smaller ones."""
        ten.application.update(4, {"$set": {"n": "text"}})
        partition = ten.claim()
        with pytest.raises(WriteRefusedError) as refused:
            ten.documents.rewrite_fenced(partition, _what(OLD, STAGES, NUMBERS), checkpoint=_counted)
        assert (refused.value.code, refused.value.index) == (16554, None)
        assert ten.documents.count(OLD, limit=100) == 12
        assert ten.stored_partition().counters.migrated == 0

    def test_the_average_size_is_told_and_is_0_where_there_is_nothing(self, world: World) -> None:
        """Ranges are cut by it."""
        assert world.documents.average_size() == 0
        world.application.insert(*({"_id": number, "body": "x" * 1000} for number in range(10)))
        assert 1000 < world.documents.average_size() < 1100
