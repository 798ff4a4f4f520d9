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

from contract.machine_kit import DURATIONS, IDS, MOST_WAITS, STEP, TEXTS, WAITS, Twins, budget, outcome, plain
from migronaut.core.ports import Checkpoint, LiveLease, Pass, Store
from migronaut.core.state import (
    Counters,
    Cursor,
    DocumentError,
    Partition,
    Scope,
)
from migronaut.testing.contracts.records import ANN
from migronaut.versioning import CODEC

NAMES = ("0001_a.py", "0002_$b.py")
PASSES = [
    Pass(background=NAMES[0], generation=1, plan="p"),
    Pass(background=NAMES[0], generation=1, plan="q"),
    Pass(background=NAMES[0], generation=2, plan="q"),
    Pass(background=NAMES[1], generation=1, plan="p"),
]
COUNTERS = st.builds(
    Counters,
    scanned=st.integers(0, 5),
    migrated=st.sampled_from([0, 1, 2**31]),
    failed=st.integers(0, 2),
    txn_retries=st.integers(0, 1),
)
ERROR = st.builds(
    DocumentError, at=st.just(datetime(2026, 1, 1)), kind=st.sampled_from(["refused", "x"]), message=TEXTS
)
ERRORS = st.sampled_from([0, 1, 12]).flatmap(lambda size: st.lists(ERROR, min_size=size, max_size=size))
CHECKPOINTS = st.builds(
    Checkpoint,
    cursor=st.none() | st.sampled_from(IDS).map(lambda id_: Cursor(last_id=id_)),
    counters=COUNTERS,
    bad_ids=st.lists(st.sampled_from(IDS), max_size=3).map(tuple),
    errors=ERRORS.map(tuple),
    done=st.sampled_from([False] * 7 + [True]),
)
SLICES = st.tuples(
    DURATIONS, st.lists(CHECKPOINTS, max_size=2), st.sampled_from(["release", "fail", "fail", "vanish", "expire"])
)
"""How long a lease lives, what is done under it, and how it ends."""


class StoreMachine(RuleBasedStateMachine):
    """Partitions, leases and clocks in two places."""

    held = Bundle("held")

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

    @rule(target=held, ttl=DURATIONS, data=st.data())
    def claim_what_there_is(self, ttl: float, data: st.DataObject) -> Any:
        return self._claim_any(ttl, data)

    def _claim_any(self, ttl: float, data: st.DataObject) -> Any:
        """Claim a piece of a pass, mostly of one that has any."""
        planned = [work for work in PASSES if self.mongo.partitions(work)]
        return self._claim(data.draw(st.sampled_from([*planned, *planned, *PASSES])), ttl)

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

    @rule(data=st.data(), slices=st.lists(SLICES, min_size=1, max_size=3))
    def lanes_work(self, data: st.DataObject, slices: Any) -> None:
        for ttl, checkpoints, end in slices:
            pair = self._claim_any(ttl, data)
            if not isinstance(pair, tuple):
                continue
            for checkpoint in checkpoints:
                self._checkpoint(pair, checkpoint)
            if end == "release":
                self._release(pair)
            elif end == "fail":
                self._fail(pair, "boom", 3)
            elif end == "expire" and len(self.twins.waited) < MOST_WAITS:
                self.twins.wait(ttl + STEP)

    @rule(pair=held)
    def renew(self, pair: Any) -> None:
        assert self.memory.renew(pair[0]) == self.mongo.renew(pair[1])

    @rule(pair=held)
    def release(self, pair: Any) -> None:
        self._release(pair)

    def _release(self, pair: Any) -> None:
        assert self.memory.release(pair[0]) == self.mongo.release(pair[1])

    @rule(pair=held, checkpoint=CHECKPOINTS)
    def checkpoint(self, pair: Any, checkpoint: Checkpoint) -> None:
        self._checkpoint(pair, checkpoint)

    def _checkpoint(self, pair: Any, checkpoint: Checkpoint) -> None:
        memory = outcome(lambda: self.memory.checkpoint(pair[0], checkpoint))
        assert memory == outcome(lambda: self.mongo.checkpoint(pair[1], checkpoint))

    @rule(pair=held, error=TEXTS, limit=st.integers(1, 3))
    def fail_slice(self, pair: Any, error: str, limit: int) -> None:
        self._fail(pair, error, limit)

    def _fail(self, pair: Any, error: str, limit: int) -> None:
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

    @rule(name=st.sampled_from(NAMES))
    def fence_expired(self, name: str) -> None:
        self._compare_leases(*(store.fence_expired(name) for store in (self.memory, self.mongo)))

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
        self.check_partitions()
        self.check_leases()

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
            self._compare_leases(*(store.leases(name) for store in (self.memory, self.mongo)))

    def _compare_leases(self, *told: tuple[LiveLease, ...]) -> None:
        memory, mongo = (sorted(leases, key=lambda lease: (lease.generation, lease.partition)) for leases in told)
        assert len({lease.slot for lease in mongo}) == len(mongo) <= self.slots
        for mine, theirs in zip(memory, mongo, strict=True):
            assert evolve(mine, slot=0, expires_at=theirs.expires_at) == evolve(theirs, slot=0)
            assert self.twins.same_moment(mine.expires_at, theirs.expires_at)

    def _both(self, act: Any) -> None:
        memory, mongo = act(self.memory), act(self.mongo)
        assert bson.encode({"": memory}, codec_options=CODEC) == bson.encode({"": mongo}, codec_options=CODEC)


def test_partitions_leases_and_clocks(db: Database[Any]) -> None:
    run_state_machine_as_test(lambda: StoreMachine(db), settings=budget(25, steps=25))
