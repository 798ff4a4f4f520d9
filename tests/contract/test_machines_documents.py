"""The memory documents answer as those on MongoDB do, while an application writes between and inside the calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from attrs import evolve, frozen
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from pymongo.database import Database
from pymongo.errors import BulkWriteError, PyMongoError

from contract.documents_fixture import InMemory, OnMongo, opened
from contract.machine_kit import IDS, budget, outcome, plain
from migronaut.core.ports import Checkpoint, Documents, GuardedResult, Rewriting, Write, WriteRefusedError
from migronaut.core.state import Counters, Cursor, Direction, Guard, Partition, Scope, Spec
from migronaut.memory.server.order import Key, as_stored, bracket_of, sort_key
from migronaut.mongo.documents import MongoDocuments
from migronaut.mongo.raw import replies, split
from migronaut.mongo.store import MongoStore
from migronaut.testing.contracts.world import COLLECTION, WORK, World, bare, decoded
from migronaut.versioning import DocumentInvalidError, UpdateBuilder, encode_statement, guard_filter

COMPARED = "documents.write_same.compared"
TAKEN_AWAY = ("LeaseLostError", "WriteConflictError", "WriteRefusedError")
"""What a lane may be told first when its lease is lost in a transaction; nothing was written."""
VERSIONS = st.sampled_from([None, 0, 1, 1, 1.0, Int64(1), -0.0, 2, "1", float("nan"), [1], {"a": 1}, Decimal128("1")])
REVISIONS = st.sampled_from([None, 0, 1, Int64(3), 2.0, "1", 2**31 - 1])
ODD = st.sampled_from(
    [None, 0, 5, 5.0, Int64(5), float("nan"), "", "$n", [], [[1, [2]], None], {}, {"a": {"b": 1}}, IDS[-2], True]
)
FIELDS = st.fixed_dictionaries(
    {}, optional={"v": VERSIONS, "r": REVISIONS, "n": ODD, "m": ODD, "u": st.integers(0, 3), "bad": st.just(1)}
)
VALID = FIELDS.map(lambda fields: {name: value for name, value in fields.items() if name != "bad"})
DOCUMENTS = VALID.map(lambda fields: {name: value for name, value in fields.items() if name != "u"})
"""Most are not refused: a number of their own is added."""
PICKS = st.lists(st.integers(0, 9), min_size=1, max_size=4)
"""Documents to write, by their number among those that are there, and those that were read before."""
STEPS = st.dictionaries(st.sampled_from(["r", "n"]), st.sampled_from([1, Int64(2)]), min_size=1)
CHANGES = st.one_of(
    st.fixed_dictionaries({"$set": FIELDS.filter(bool)}),
    st.fixed_dictionaries({"$unset": st.dictionaries(st.sampled_from(["v", "r", "n", "u"]), st.just(""), min_size=1)}),
    st.fixed_dictionaries(
        {"$inc": st.dictionaries(st.sampled_from(["r", "n"]), st.sampled_from([1, Int64(2)]), min_size=1)}
    ),
)
MATCHES = st.sampled_from(
    [
        {},
        {"v": 1},
        {"v": {"$in": [None, 0]}},
        {"$and": [{"v": 1}, {"n": {"$exists": True}}]},
        {"n": {"$exists": False}},
        {"$or": [{"n": None}, {"m.a.b": 1}, {"n": {"$gte": 5}}]},
        {"n": {"$ne": 5}, "v": {"$nin": [2, "1"]}},
    ]
)
SPEC = Spec(collection=COLLECTION, from_version=1, to_version=2, version_field="v", revision_field="r")
SPECS = st.sampled_from(
    [
        SPEC,
        evolve(SPEC, from_version=0, to_version=1),
        evolve(SPEC, revision_field=None),
        evolve(SPEC, from_version=None, to_version=None, filter={"n": {"$exists": False}}),
    ]
)
GUARDS = st.sampled_from([Guard.SNAPSHOT, Guard.REVISION, Guard.VERSION])
STAGES = st.sampled_from(
    [
        [{"$set": {"v": 2}}],
        [{"$set": {"s": {"$add": ["$r", 1]}, "v": 2}}, {"$unset": "n"}],
        [{"$set": {"c": "$n"}}, {"$set": {"v": 2, "r": {"$add": [{"$ifNull": ["$r", 0]}, 1]}}}],
        [{"$set": {"m.x": "$n"}}, {"$unset": ["v"]}],
        [{"$replaceWith": {"_id": "$_id", "v": 2, "n": "$n"}}],
        [{"$set": {"bad": {"$cond": [{"$eq": ["$n", 5]}, 1, "$$REMOVE"]}}}],
        [{"$set": {"u": 0}}],
    ]
)


def _by_bracket() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for id_ in IDS:
        found.setdefault(bracket_of(_key(id_)), []).append(id_)
    return found


def _key(id_: Any) -> Key:
    return sort_key(as_stored(id_))


WANTED = st.lists(st.sampled_from(IDS), max_size=12)
NUMBERS = _by_bracket()["number"]
SOME_IDS = st.lists(st.sampled_from(IDS), max_size=4)


@st.composite
def scopes(draw: st.DrawFn) -> tuple[Scope, Cursor | None]:
    """A range of one bracket, and a cursor in it."""
    bracket, ids = draw(st.sampled_from([*[("number", NUMBERS)] * 6, *_by_bracket().items()]))
    bound = st.none() | st.sampled_from(ids).map(lambda id_: (id_,))
    lower, upper, after = draw(bound), draw(bound), draw(bound)
    scope = Scope(
        bracket=bracket,
        lower=lower and lower[0],
        bounded_below=lower is not None,
        upper=upper and upper[0],
        bounded_above=upper is not None,
    )
    return scope, after and Cursor(last_id=after[0])


@frozen
class Side:
    """One of the two places: what the engine sees of it, and what an application does there."""

    world: World
    ports: Sequence[Documents]

    def act(self, action: str, id_: Any, change: Any) -> object:
        """What the application does; the server's code when it is refused."""
        application = self.world.application
        try:
            match action:
                case "insert":
                    application.insert({"_id": id_, **change})
                case "update":
                    application.update(id_, change)
                case "delete":
                    application.delete(id_)
        except WriteRefusedError as error:
            return error.code
        except BulkWriteError as error:
            return error.details["writeErrors"][0]["code"]
        except PyMongoError as error:
            return getattr(error, "code", None)
        return None

    def rows(self) -> list[bytes]:
        """All documents as they are stored."""
        if isinstance(self.world.application, InMemory):
            return [stored.raw for _, stored in self.world.application.collection.scan()]
        assert isinstance(self.world.application, OnMongo)
        with self.world.application.collection.find_raw_batches(sort=[("_id", 1)]) as cursor:
            return [document for reply in replies(cursor) for document in split(reply)]


def _told(result: GuardedResult) -> tuple[int, dict[int, tuple[int, str]]]:
    """A result by what a caller may rely on: errors are no values that could be compared."""
    return result.matched, {index: (why.code, why.kind) for index, why in result.refused.items()}


class DocumentMachine(RuleBasedStateMachine):
    """One collection in two places, and a partition of it under a lease."""

    def __init__(self, memory: Side, mongo: Side) -> None:
        super().__init__()
        self.sides = (memory, mongo)
        self.made = 0
        self.partitions: tuple[Partition, Partition] | None = None
        self.read_before: list[bytes] = []

    @initialize(
        ids=st.lists(st.sampled_from(IDS), min_size=3, max_size=6), fields=st.lists(DOCUMENTS, min_size=6, max_size=6)
    )
    def documents_are_there(self, ids: list[Any], fields: list[dict[str, Any]]) -> None:
        for id_, told in zip(ids, fields, strict=False):
            self.application_inserts(id_, told)

    # ------------------------------------------------------------------ the application

    @rule(id_=st.sampled_from(IDS), fields=st.one_of(DOCUMENTS, DOCUMENTS, FIELDS))
    def application_inserts(self, id_: Any, fields: dict[str, Any]) -> None:
        self.made += 1
        self._same(lambda side: side.act("insert", id_, {"u": 100 + self.made, **fields}))

    @rule(id_=st.sampled_from(IDS), change=CHANGES)
    def application_updates(self, id_: Any, change: dict[str, Any]) -> None:
        self._same(lambda side: side.act("update", id_, change))

    @rule(picks=PICKS, change=CHANGES)
    def application_updates_what_is_there(self, picks: list[int], change: dict[str, Any]) -> None:
        for raw in self._picked(picks):
            self._same(lambda side, raw=raw: side.act("update", decoded(raw)["_id"], change))

    @rule(id_=st.sampled_from(IDS))
    def application_deletes(self, id_: Any) -> None:
        self._same(lambda side: side.act("delete", id_, None))

    # ------------------------------------------------------------------ reading

    @rule(match=MATCHES, scope=scopes(), limit=st.sampled_from([1, 2, 100]), without=SOME_IDS)
    def read(self, match: Any, scope: Any, limit: int, without: list[Any]) -> None:
        within, after = scope
        for act in ("read_ids", "read"):
            self._every(
                lambda port, act=act: getattr(port, act)(match, within, after=after, limit=limit, without=without)
            )

    @rule(ids=SOME_IDS, match=st.none() | MATCHES)
    def fetch(self, ids: list[Any], match: Any) -> None:
        self._every(lambda port: port.fetch_ids(ids, match=match))
        self._every(lambda port: port.fetch(ids, match=match))

    @rule()
    def a_lane_reads(self) -> None:
        self.read_before = self.sides[1].rows()

    @rule(match=MATCHES, limit=st.sampled_from([1, 3, 100]), without=SOME_IDS)
    def count(self, match: Any, limit: int, without: list[Any]) -> None:
        self._every(lambda port: port.count(match, limit=limit, without=without))
        self._every(lambda port: port.count(match, limit=limit, without=without, since=port.settle()))
        self._every(lambda port: port.brackets())
        self._every(lambda port: port.total())

    @rule(match=MATCHES, collection_first=st.booleans())
    def sample(self, match: Any, collection_first: bool) -> None:
        self._every(
            lambda port: bare(dict(port.sample(match, size=1000, collection_first=collection_first, timeout=30)))
        )

    # ------------------------------------------------------------------ writing

    def _claimed(self) -> tuple[Partition, Partition]:
        """The partition, in both places."""
        if self.partitions is None:
            for side in self.sides:
                side.world.store.drop_plan(WORK)
            memory, mongo = (side.world.claim() for side in self.sides)
            self.partitions = (memory, mongo)
        return self.partitions

    def _picked(self, picks: Sequence[int]) -> list[bytes]:
        there = [*self.sides[1].rows(), *self.read_before]
        return [there[pick % len(there)] for pick in picks] if there else []

    @rule()
    def leases_are_taken_away(self) -> None:
        for side in self.sides:
            side.world.store.drop_leases(WORK.background)

    @rule(
        picks=PICKS,
        spec=SPECS,
        result=st.one_of(VALID, DOCUMENTS, DOCUMENTS, FIELDS),
        must_leave=st.none() | MATCHES,
        done=st.sampled_from([False, False, True]),
    )
    def write_same(self, picks: list[int], spec: Spec, result: Any, must_leave: Any, done: bool) -> None:
        self._write_same(picks, spec, result, must_leave=must_leave, done=done)

    @rule(
        picks=PICKS,
        spec=SPECS,
        result=st.one_of(VALID, DOCUMENTS, DOCUMENTS, FIELDS),
        id_=st.none() | st.sampled_from(IDS).map(lambda id_: (id_,)),
        act=st.sampled_from(["update", "update", "delete", "insert"]),
        change=CHANGES,
    )
    def write_same_while_the_application_writes(
        self, picks: list[int], spec: Spec, result: Any, id_: Any, act: str, change: Any
    ) -> None:
        picked = self._picked(picks[:1])
        meant = decoded(picked[0])["_id"] if picked and id_ is None else IDS[0] if id_ is None else id_[0]
        fields = {"u": 1000 + self.made} if act == "insert" else change
        self.made += 1
        self._write_same(picks, spec, result, during=lambda side: side.act(act, meant, fields))

    @rule(picks=PICKS, spec=SPECS, result=st.one_of(VALID, DOCUMENTS, DOCUMENTS, FIELDS))
    def write_same_while_the_lease_is_lost(self, picks: list[int], spec: Spec, result: Any) -> None:
        self._write_same(
            picks, spec, result, during=lambda side: side.world.store.drop_leases(WORK.background), lost=True
        )

    def _write_same(
        self,
        picks: list[int],
        spec: Spec,
        result: Any,
        *,
        must_leave: Any = None,
        done: bool = False,
        during: Callable[[Side], object] | None = None,
        lost: bool = False,
    ) -> None:
        writes = _writes(self._picked(picks), spec, Guard.SNAPSHOT, result)
        answers = []
        for side, held in zip(self.sides, self._claimed(), strict=True):
            said: list[object] = []
            if during is not None:
                side.world.at(COMPARED, lambda side=side, said=said: said.append(during(side)))
            seen: list[frozenset[int]] = []
            told = outcome(
                partial(
                    side.ports[0].write_same,
                    held,
                    writes,
                    checkpoint=lambda left_out, seen=seen: _checkpoint(left_out, writes, seen, done=done),
                    must_leave=must_leave,
                )
            )
            side.world.set_interrupt(lambda point: None)
            answers.append((told, seen, said))
        if lost:
            assert {told[1] for told, _, _ in answers if isinstance(told, tuple)} <= set(TAKEN_AWAY)
            answers = [((told[:1] if isinstance(told, tuple) else told), said) for told, _, said in answers]
        assert answers[0] == answers[1]
        if self.sides[1].world.stored_partition().lease is None:
            self.partitions = None

    @rule(picks=PICKS, spec=SPECS, guard=GUARDS, result=st.one_of(VALID, DOCUMENTS, DOCUMENTS, FIELDS))
    def write_guarded(self, picks: list[int], spec: Spec, guard: Guard, result: Any) -> None:
        writes = _writes(self._picked(picks), spec, guard, result)
        self._same(
            lambda side: outcome(lambda: _told(side.ports[0].write_guarded(writes, write_concern={"w": "majority"})))
        )

    @rule(match=MATCHES, stages=STAGES, scope=scopes(), only=st.none() | st.just(IDS) | WANTED, without=SOME_IDS)
    def rewrite(self, match: Any, stages: Any, scope: Any, only: Any, without: list[Any]) -> None:
        what = Rewriting(match=match, stages=stages, scope=scope[0], only=only, without=without)
        self._same(lambda side: outcome(lambda: side.ports[0].rewrite(what)))

    @rule(ids=WANTED, match=MATCHES, stages=STAGES)
    def still_matching(self, ids: list[Any], match: Any, stages: Any) -> None:
        self._every(lambda port: port.still_matching(match, stages, ids))
        self._every(lambda port: port.refusal_of(stages))

    # ------------------------------------------------------------------ what is compared

    @invariant()
    def both_hold_the_same(self) -> None:
        memory, mongo = (side.rows() for side in self.sides)
        assert [decoded(raw) for raw in memory if raw not in mongo] == [
            decoded(raw) for raw in mongo if raw not in memory
        ]
        assert memory == mongo
        stored = [[plain(each) for each in side.world.store.partitions(WORK)] for side in self.sides]
        assert stored[0] == stored[1]

    def _same(self, act: Callable[[Side], object]) -> None:
        memory, mongo = (act(side) for side in self.sides)
        assert memory == mongo

    def _every(self, act: Callable[[Documents], Any]) -> Any:
        """What all ports answer alike."""
        (first, *others) = [act(port) for side in self.sides for port in side.ports]
        assert [other for other in others if other != first] == []
        return first


def _writes(read: Sequence[bytes], spec: Spec, guard: Guard, result: Mapping[str, Any]) -> list[Write]:
    """What the engine writes for documents as they were read: those that can be written, once each, in order."""
    builder = UpdateBuilder.of(spec, Direction.FORWARD)
    found: dict[Key, Write] = {}
    for raw in read:
        before = decoded(raw)
        after = {name: value for name, value in before.items() if name != "n"} | result
        try:
            statement = encode_statement(
                guard_filter(before, spec=_guardable(spec, guard), guard=guard), builder.build(before, after)
            )
        except DocumentInvalidError:
            continue
        found.setdefault(_key(before["_id"]), Write(id=before["_id"], before=raw, statement=statement))
    return [found[key] for key in sorted(found)]


def _guardable(spec: Spec, guard: Guard) -> Spec:
    """The fields that a guard needs."""
    if guard is Guard.REVISION and spec.revision_field is None:
        return evolve(spec, revision_field="r")
    return spec if spec.versioned or guard is not Guard.VERSION else evolve(spec, from_version=1, to_version=2)


def _checkpoint(
    left_out: frozenset[int], writes: Sequence[Write], seen: list[frozenset[int]], *, done: bool
) -> Checkpoint:
    seen.append(left_out)
    return Checkpoint(
        cursor=Cursor(last_id=writes[-1].id) if writes else None,
        counters=Counters(migrated=len(writes) - len(left_out), batches=1),
        bad_ids=tuple(writes[index].id for index in sorted(left_out)),
        done=done,
    )


def test_documents(db: Database[Any], request: pytest.FixtureRequest) -> None:
    with opened("mongo", request) as real:
        assert isinstance(real.application, OnMongo)
        assert isinstance(real.store, MongoStore)
        collection = real.application.collection
        collection.create_index([("v", 1), ("_id", 1)])
        real.application.unique("u")
        real.application.forbid("bad")
        by_index = MongoDocuments(real.store, db, SPEC)
        assert by_index.indexed()

        def machine() -> DocumentMachine:
            collection.delete_many({})
            real.store.drop_before(WORK.background, WORK.generation + 1)
            with opened("memory", request) as memory:
                memory.application.unique("u")
                memory.application.forbid("bad")
                return DocumentMachine(Side(memory, [memory.documents]), Side(real, [real.documents, by_index]))

        run_state_machine_as_test(machine, settings=budget(40, steps=25))
