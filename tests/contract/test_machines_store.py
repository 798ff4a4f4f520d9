"""The memory store answers as the one on MongoDB does, whatever is done to them in whatever order."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

import bson
from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pymongo.database import Database

from contract.machine_kit import DURATIONS, IDS, MOST_WAITS, WAITS, Twins, budget, outcome, plain
from contract.records_fixture import ANN, state
from migronaut.core.ports import Checkpoint, Pass, Store
from migronaut.core.state import (
    Counters,
    Cursor,
    DocumentError,
    Partition,
    Phase,
    Scope,
    Spec,
    Status,
)
from migronaut.versioning import CODEC

NAMES = ("0001_a.py", "0002_$b.py")
PASSES = [
    Pass(background=NAMES[0], generation=1, plan="p"),
    Pass(background=NAMES[0], generation=1, plan="q"),
    Pass(background=NAMES[0], generation=2, plan="q"),
    Pass(background=NAMES[1], generation=1, plan="p"),
]
TEXTS = st.sampled_from(["", "boom", "$status", "$$NOW", "ä\ud800".encode("utf-8", "replace").decode()])
FILTERS = st.sampled_from(
    [
        None,
        {},
        {"a.b": {"$exists": False}, "$or": [{"x": 1}, {"x": None}]},
        {"$expr": {"$gt": ["$a", "$$NOW"]}},
        {"at": datetime(2026, 1, 1), "n": float("nan"), "list": [[1], {"$set": "$a"}]},
    ]
)
COUNTERS = st.builds(
    Counters,
    scanned=st.integers(0, 5),
    migrated=st.sampled_from([0, 1, 2**31]),
    failed=st.integers(0, 2),
    txn_retries=st.integers(0, 1),
)
ERRORS = st.lists(
    st.builds(DocumentError, at=st.just(datetime(2026, 1, 1)), kind=st.sampled_from(["refused", "x"]), message=TEXTS),
    max_size=12,
)
CHECKPOINTS = st.builds(
    Checkpoint,
    cursor=st.none() | st.sampled_from(IDS).map(lambda id_: Cursor(last_id=id_)),
    counters=COUNTERS,
    bad_ids=st.lists(st.sampled_from(IDS), max_size=3).map(tuple),
    errors=ERRORS.map(tuple),
    done=st.sampled_from([False, False, False, True]),
)


class StoreMachine(RuleBasedStateMachine):
    """States, partitions, leases and clocks in two places."""

    held = Bundle("held")
    saved = Bundle("saved")

    def __init__(self, db: Database[Any]) -> None:
        super().__init__()
        self.twins = Twins.of(db)
        self.memory: Store = self.twins.memory.store
        self.mongo: Store = self.twins.mongo.store
        self.made = 0
        self.tokens: dict[str, str] = {}
        self.slots = 1

    @initialize(
        slots=st.integers(1, 3), work=st.sampled_from(PASSES), estimates=st.lists(st.integers(0, 2), max_size=4)
    )
    def plan(self, slots: int, work: Pass, estimates: list[int]) -> None:
        self.slots = slots
        self.partitions_are_added(work, estimates, again=False)

    # ------------------------------------------------------------------ states

    @rule(name=st.sampled_from((*NAMES, "0003_unknown.py")))
    def load(self, name: str) -> None:
        assert plain(self.memory.load(name)) == plain(self.mongo.load(name))

    @rule(target=saved, name=st.sampled_from(NAMES), schema=st.sampled_from([1, 1, 1, 2]), match=FILTERS, text=TEXTS)
    def insert(self, name: str, schema: int, match: Any, text: str) -> Any:
        told = state(name, schema=schema, spec=Spec(collection="orders", filter=match), description=text)
        assert self.memory.insert(told) == self.mongo.insert(told)
        return told

    @rule(before=saved)
    def insert_once_more(self, before: Any) -> None:
        assert self.memory.insert(before) == self.mongo.insert(before)

    @rule(
        target=saved,
        before=saved,
        status=st.sampled_from(Status),
        phase=st.sampled_from(Phase),
        match=FILTERS,
        text=TEXTS,
        ids=st.lists(st.sampled_from(IDS), max_size=2),
    )
    def save(self, before: Any, status: Status, phase: Phase, match: Any, text: str, ids: list[Any]) -> Any:
        wanted = evolve(
            before,
            status=status,
            phase=phase,
            spec=evolve(before.spec, filter=match),
            last_error=text,
            bad_ids=tuple(ids),
        )
        memory, mongo = (outcome(partial(store.save, wanted)) for store in (self.memory, self.mongo))
        if memory is None or isinstance(memory, tuple):
            assert memory == mongo
            return multiple()
        assert plain(memory) == plain(mongo)
        for store, stored in ((self.memory, memory), (self.mongo, mongo)):
            assert abs((stored.updated_at - store.now()).total_seconds()) < 8
        return memory

    # ------------------------------------------------------------------ plans

    @rule(work=st.sampled_from(PASSES), estimates=st.lists(st.integers(0, 2), max_size=3), again=st.booleans())
    def partitions_are_added(self, work: Pass, estimates: list[int], again: bool) -> None:
        added = []
        for estimate in estimates:
            self.made += 1
            scope = Scope(bracket="number", lower=IDS[self.made % len(IDS)], bounded_below=True)
            added.append(
                Partition(
                    id=f"p{self.made}",
                    background=work.background,
                    generation=work.generation,
                    plan=work.plan,
                    seq=self.made,
                    scope=scope,
                    estimate=estimate,
                )
            )
        self._both(lambda store: outcome(lambda: store.add_partitions(added)))
        if again:
            self._both(lambda store: outcome(lambda: store.add_partitions(added)))

    @rule(work=st.sampled_from(PASSES))
    def plan_is_dropped(self, work: Pass) -> None:
        self._both(lambda store: store.drop_plan(work))

    @rule(name=st.sampled_from(NAMES), generation=st.integers(1, 2))
    def old_generations_are_dropped(self, name: str, generation: int) -> None:
        self._both(lambda store: store.drop_before(name, generation))

    @rule(work=st.sampled_from(PASSES))
    def reset(self, work: Pass) -> None:
        self._both(lambda store: store.reset_partitions(work))

    # ------------------------------------------------------------------ leases

    @rule(target=held, work=st.sampled_from(PASSES), ttl=DURATIONS)
    def claim(self, work: Pass, ttl: float) -> Any:
        return self._claim(work, ttl)

    @rule(target=held, ttl=DURATIONS, data=st.data())
    def claim_what_there_is(self, ttl: float, data: st.DataObject) -> Any:
        planned = [work for work in PASSES if self.mongo.partitions(work)]
        return self._claim(data.draw(st.sampled_from(planned)), ttl) if planned else multiple()

    def _claim(self, work: Pass, ttl: float) -> Any:
        memory, mongo = (store.claim(work, owner=ANN, slots=self.slots, ttl=ttl) for store in (self.memory, self.mongo))
        if not (isinstance(memory, Partition) and isinstance(mongo, Partition)):
            assert memory == mongo
            return multiple()
        assert memory.lease is not None
        assert mongo.lease is not None
        assert plain(memory) == plain(mongo)
        assert {0 <= lease.slot < self.slots for lease in (memory.lease, mongo.lease)} == {True}
        self.tokens[memory.lease.token] = mongo.lease.token
        return memory, mongo

    @rule(pair=held)
    def renew(self, pair: Any) -> None:
        assert self.memory.renew(pair[0]) == self.mongo.renew(pair[1])

    @rule(pair=held)
    def release(self, pair: Any) -> None:
        assert self.memory.release(pair[0]) == self.mongo.release(pair[1])

    @rule(pair=held, checkpoint=CHECKPOINTS)
    def checkpoint(self, pair: Any, checkpoint: Checkpoint) -> None:
        memory = outcome(lambda: self.memory.checkpoint(pair[0], checkpoint))
        assert memory == outcome(lambda: self.mongo.checkpoint(pair[1], checkpoint))

    @rule(pair=held, error=TEXTS, limit=st.integers(1, 3))
    def fail_slice(self, pair: Any, error: str, limit: int) -> None:
        memory = self.memory.fail_slice(pair[0], error=error, limit=limit)
        assert memory == self.mongo.fail_slice(pair[1], error=error, limit=limit)

    @rule(work=st.sampled_from(PASSES))
    def nobody_writes_without_a_lease(self, work: Pass) -> None:
        for memory, mongo in zip(self.memory.partitions(work), self.mongo.partitions(work), strict=True):
            if memory.lease is None:
                assert self.memory.release(memory) == self.mongo.release(mongo) is False
                done = Checkpoint(done=True)
                told = outcome(partial(self.memory.checkpoint, memory, done))
                assert told == outcome(partial(self.mongo.checkpoint, mongo, done))

    @rule(name=st.sampled_from(NAMES))
    def drop_leases(self, name: str) -> None:
        self._both(lambda store: store.drop_leases(name))

    # ------------------------------------------------------------------ time

    @rule(clock=st.sampled_from(["heal", "verify"]), interval=DURATIONS)
    def tick(self, clock: str, interval: float) -> None:
        self._both(lambda store: store.tick(clock, interval=interval))

    @precondition(lambda self: len(self.twins.waited) < MOST_WAITS)
    @rule(seconds=WAITS)
    def wait(self, seconds: float) -> None:
        self.twins.wait(seconds)

    # ------------------------------------------------------------------ what is compared

    @invariant()
    def both_hold_the_same(self) -> None:
        self.twins.keep_time()
        self.check_states()
        self.check_partitions()
        self.check_leases()

    def check_states(self) -> None:
        memory, mongo = self.memory.states(), self.mongo.states()
        assert [plain(each) for each in memory] == [plain(each) for each in mongo]

    def check_partitions(self) -> None:
        for work in PASSES:
            memory, mongo = self.memory.partitions(work), self.mongo.partitions(work)
            assert [plain(each) for each in memory] == [plain(each) for each in mongo]
            for mine, theirs in zip(memory, mongo, strict=True):
                if mine.lease is not None and theirs.lease is not None:
                    assert self.tokens[mine.lease.token] == theirs.lease.token
                    assert self.twins.same_moment(mine.lease.renewed_at, theirs.lease.renewed_at)

    def check_leases(self) -> None:
        for name in NAMES:
            memory, mongo = (
                sorted(store.leases(name), key=lambda lease: (lease.generation, lease.partition))
                for store in (self.memory, self.mongo)
            )
            assert len({lease.slot for lease in mongo}) == len(mongo) <= self.slots
            for mine, theirs in zip(memory, mongo, strict=True):
                assert evolve(mine, slot=0, expires_at=theirs.expires_at) == evolve(theirs, slot=0)
                assert self.twins.same_moment(mine.expires_at, theirs.expires_at)

    def _both(self, act: Any) -> None:
        memory, mongo = act(self.memory), act(self.mongo)
        assert bson.encode({"": memory}, codec_options=CODEC) == bson.encode({"": mongo}, codec_options=CODEC)


def test_states_partitions_leases_and_clocks(db: Database[Any]) -> None:
    run_state_machine_as_test(lambda: StoreMachine(db), settings=budget(12, steps=25))
