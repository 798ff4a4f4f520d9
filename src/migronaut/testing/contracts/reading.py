"""What every ``Documents`` port must do when it reads: order, ends, limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import bson
import pytest
from bson.binary import Binary
from bson.code import Code
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from migronaut.core.ports import Condition
from migronaut.core.state import Cursor, Scope
from migronaut.testing.contracts.world import ANYTHING, DocumentsContract, World, bare, decoded, progress, write

IDS: dict[str, Sequence[Any]] = {
    "minKey": [MinKey()],
    "null": [None],
    "number": [math.nan, -1.5, 0, Decimal128("0.5"), 1, 2.5, Int64(2**40)],
    "string": ["", "a", "a\0", "b", "é"],
    "object": [{}, {"a": 1}, {"a": 2}, {"b": 1}, {"a": "1"}],
    "binData": [b"", b"zz", Binary(b"aa", 128), UUID(int=1), UUID(int=2)],
    "objectId": [ObjectId("0" * 24), ObjectId("f" * 24)],
    "bool": [False, True],
    "date": [datetime(1969, 1, 1), datetime(2026, 1, 1)],
    "timestamp": [Timestamp(1, 1), Timestamp(1, 2)],
    "javascript": [Code("a"), Code("b")],
    "javascriptWithScope": [Code("a", {"a": 1}), Code("a", {"a": 2}), Code("b", {"a": 1})],
    "maxKey": [MaxKey()],
}
"""Ids of every bracket, each list in the order of the server."""

NUMBERS = Scope(bracket="number")


def _ids(documents: Sequence[bytes]) -> list[Any]:
    return [decoded(raw)["_id"] for raw in documents]


def _pages(world: World, scope: Scope, *, limit: int) -> list[Any]:
    ids: list[Any] = []
    cursor = None
    while True:
        batch = world.documents.read(ANYTHING, scope, after=cursor, limit=limit)
        ids += _ids(batch.documents)
        if batch.end:
            return ids
        cursor = Cursor(last_id=ids[-1])


class DocumentsReadingContract(DocumentsContract):
    """The suite of ``Documents`` that are read; override the fixture ``world``."""

    @pytest.fixture
    def mixed(self, world: World) -> World:
        """Holds documents with ids of all types, inserted in the wrong order."""
        world.application.insert(*({"_id": id_} for ids in reversed(IDS.values()) for id_ in reversed(ids)))
        return world

    @pytest.mark.parametrize("bracket", IDS)
    @pytest.mark.parametrize("limit", [1, 2, 100])
    def test_pages_of_a_bracket_hold_its_ids_in_server_order(self, mixed: World, bracket: str, limit: int) -> None:
        """Nothing twice, nothing left out, whatever the types of the ids."""
        assert bare(_pages(mixed, Scope(bracket=bracket), limit=limit)) == bare(IDS[bracket])

    def test_a_range_leaves_out_its_lower_bound_and_holds_its_upper_bound(self, world: World) -> None:
        """So that neighbours share no document."""
        world.application.insert(*({"_id": number} for number in range(6)))
        scope = Scope(bracket="number", lower=1, upper=3.0, bounded_below=True, bounded_above=True)
        assert _ids(world.documents.read(ANYTHING, scope, after=None, limit=9).documents) == [2, 3]

    def test_a_cursor_goes_on_behind_the_last_id(self, world: World) -> None:
        """Also when that document is gone."""
        world.application.insert(*({"_id": number} for number in range(6)))
        scope = Scope(bracket="number", lower=1, upper=4, bounded_below=True, bounded_above=True)
        batch = world.documents.read(ANYTHING, scope, after=Cursor(last_id=2.5), limit=9)
        assert _ids(batch.documents) == [3, 4]

    @pytest.mark.parametrize(("limit", "end"), [(3, False), (4, True)])
    def test_a_full_batch_is_no_end_and_a_short_one_is(self, world: World, limit: int, end: bool) -> None:
        """An end costs no query of its own."""
        world.application.insert({"_id": 1}, {"_id": 2}, {"_id": 3}, {"_id": None})
        batch = world.documents.read(ANYTHING, NUMBERS, after=None, limit=limit)
        assert (len(batch.documents), batch.end) == (3, end)

    def test_an_empty_scope_is_an_end(self, world: World) -> None:
        """At once."""
        batch = world.documents.read(ANYTHING, NUMBERS, after=None, limit=1)
        assert (batch.documents, batch.end) == ((), True)

    def test_a_batch_cut_by_size_is_no_end(self, world: World) -> None:
        """A short batch of large documents has more behind it."""
        for number in range(6):
            world.application.insert({"_id": number, "body": b"x" * (6 * 1024 * 1024)})
        first = world.documents.read(ANYTHING, NUMBERS, after=None, limit=10)
        assert 0 < len(first.documents) < 6
        assert not first.end
        assert _pages(world, NUMBERS, limit=10) == [0, 1, 2, 3, 4, 5]

    def test_only_matching_documents_are_read_and_those_without_are_not(self, world: World) -> None:
        """Bad documents are left out by their ids."""
        world.application.insert(*({"_id": number, "v": number % 2} for number in range(6)))
        batch = world.documents.read({"v": 1}, NUMBERS, after=None, limit=9, without=[3.0, "3"])
        assert _ids(batch.documents) == [1, 5]

    def test_bytes_come_as_they_are_stored(self, world: World) -> None:
        """They are what the guard compares."""
        document = {"_id": 1, "long": Int64(1), "double": 1.0, "inner": {"b": 1, "a": [None, -0.0]}}
        world.application.insert(document)
        assert world.read_all() == [bson.encode(document)]

    def test_a_count_stops_at_its_limit(self, world: World) -> None:
        """Counting a collection to its end is slow."""
        world.application.insert(*({"_id": number, "v": number % 2} for number in range(6)))
        counts = [world.documents.count({"v": 1}, limit=limit) for limit in (2, 3, 4)]
        assert counts == [2, 3, 3]

    def test_a_count_leaves_out_ids_before_it_is_limited(self, world: World) -> None:
        """Otherwise bad documents could hide the others."""
        world.application.insert(*({"_id": number} for number in range(4)))
        assert world.documents.count(ANYTHING, limit=4, without=[1, 2.0, "3"]) == 2
        assert world.documents.count(ANYTHING, limit=1, without=[0, 1, 2]) == 1

    def test_what_was_written_before_a_barrier_is_counted_behind_it(self, world: World) -> None:
        """Whoever wrote it; and nothing that a failover could undo."""
        world.application.insert(*({"_id": number, "v": number % 2} for number in range(6)))
        settled = world.documents.settle()
        assert world.documents.count({"v": 1}, limit=10, since=settled) == 3
        assert world.documents.count({"v": 1}, limit=2, since=settled) == 2
        assert world.documents.count({"v": 1}, limit=10, without=[1, 3], since=settled) == 1
        assert world.documents.count({"v": 1}, limit=10, timeout=60, since=settled) == 3
        world.application.insert({"_id": 7, "v": 1})
        assert world.documents.count({"v": 1}, limit=10, since=world.documents.settle()) == 4

    def test_a_barrier_needs_no_document(self, world: World) -> None:
        """There is none in a collection that has not begun."""
        assert world.documents.count(ANYTHING, limit=10, since=world.documents.settle()) == 0

    def test_the_total_counts_documents_that_do_not_match_too(self, mixed: World) -> None:
        """It is about the collection."""
        assert mixed.documents.total() == sum(len(ids) for ids in IDS.values())

    def test_brackets_are_those_present_in_bson_order(self, mixed: World) -> None:
        """Ids of every type are found."""
        assert mixed.documents.brackets() == tuple(IDS)

    def test_a_collection_is_what_it_is_now(self, world: World) -> None:
        assert world.documents.condition() == Condition()
        for condition in (Condition(kind="view"), Condition(kind="timeseries"), Condition(capped=True), Condition()):
            world.application.become(condition)
            assert world.documents.condition() == condition

    def test_a_collection_that_is_gone_is_empty_and_comes_again(self, world: World) -> None:
        world.application.insert({"_id": 1})
        world.application.drop()
        assert world.documents.condition() == Condition(exists=False)
        assert (world.documents.count(ANYTHING, limit=1), world.documents.total(), world.read_all()) == (0, 0, [])
        world.application.insert({"_id": 2})
        assert world.documents.condition() == Condition()

    def test_what_a_lane_has_read_cannot_be_written_after_a_drop(self, world: World) -> None:
        world.application.insert({"_id": 1})
        partition = world.claim()
        (raw,) = world.read_all()
        world.application.drop()
        left_out = world.documents.write_same(
            partition, [write(raw, {"$set": {"a": 1}})], checkpoint=lambda left_out: progress(1)
        )
        assert left_out == {0}
        assert not world.documents.condition().exists

    def test_the_write_concern_can_be_met(self, world: World) -> None:
        assert world.documents.acknowledges()

    def test_an_empty_collection_has_no_brackets(self, world: World) -> None:
        """There is nothing to plan."""
        assert world.documents.brackets() == ()

    @pytest.mark.parametrize("collection_first", [True, False])
    def test_a_sample_is_sorted_inside_each_bracket(self, mixed: World, collection_first: bool) -> None:
        """Partitions are cut along it."""
        drawn = mixed.documents.sample(ANYTHING, size=1000, collection_first=collection_first, timeout=30)
        assert bare(dict(drawn)) == bare(dict(IDS))

    @pytest.mark.parametrize("collection_first", [True, False])
    def test_a_sample_holds_matching_documents_only_and_no_more_than_asked_for(
        self, world: World, collection_first: bool
    ) -> None:
        """Whichever way it is drawn."""
        world.application.insert(*({"_id": number, "v": number % 2} for number in range(40)))
        drawn = world.documents.sample({"v": 1}, size=10, collection_first=collection_first, timeout=30)
        ids = list(drawn.get("number", ()))
        assert len(ids) <= 10
        assert all(number % 2 for number in ids)
        assert ids == sorted(set(ids))
        if not collection_first:
            assert len(ids) == 10

    def test_fetch_finds_documents_by_id_in_order(self, mixed: World) -> None:
        """What is missing is left out."""
        found = mixed.documents.fetch(["b", {"a": 1}, None, 1.0, "missing", {"a": 1}])
        assert _ids(found) == [None, 1, "b", {"a": 1}]

    def test_fetch_leaves_out_what_does_not_match(self, world: World) -> None:
        """The filter counts for known ids too."""
        world.application.insert({"_id": 1, "v": 1}, {"_id": 2, "v": 2})
        assert _ids(world.documents.fetch([1, 2], match={"v": 2})) == [2]

    def test_the_world_of_the_contract_has_transactions(self, world: World) -> None:
        """The rest of the suite relies on them."""
        assert world.documents.transactions()
