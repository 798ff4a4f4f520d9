"""The states in memory are written and compared as those on MongoDB are."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule, run_state_machine_as_test
from pymongo.database import Database

from contract.machine_kit import IDS, TEXTS, Twins, budget, outcome, plain
from migronaut.core.state import Phase, Spec, Status
from migronaut.testing.contracts.records import state

NAMES = ("0001_a.py", "0002_$b.py")
FILTERS = st.sampled_from(
    [
        None,
        {},
        {"a.b": {"$exists": False}, "$or": [{"x": 1}, {"x": None}]},
        {"$expr": {"$gt": ["$a", "$$NOW"]}},
        {"at": datetime(2026, 1, 1), "n": float("nan"), "list": [[1], {"$set": "$a"}]},
    ]
)


class StateMachine(RuleBasedStateMachine):
    """States in two places; what was saved is kept, to be saved once more when it is stale."""

    saved = Bundle("saved")

    def __init__(self, db: Database[Any]) -> None:
        super().__init__()
        self.twins = Twins.of(db)
        self.memory, self.mongo = self.twins.memory.store, self.twins.mongo.store

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

    @invariant()
    def both_hold_the_same(self) -> None:
        self.twins.keep_time()
        memory, mongo = self.memory.states(), self.mongo.states()
        assert [plain(each) for each in memory] == [plain(each) for each in mongo]


def test_states(db: Database[Any]) -> None:
    run_state_machine_as_test(lambda: StateMachine(db), settings=budget(10, steps=20))
