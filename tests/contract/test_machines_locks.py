"""The memory locks answer as those on MongoDB do, whatever is done to them in whatever order."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pymongo.database import Database

from contract.machine_kit import DURATIONS, MOST_WAITS, WAITS, Twins, budget
from migronaut.core.ports import Owner

NAMES = st.sampled_from(["migronaut", "$nonce", "background:0001_ä.py"])
OWNERS = st.builds(Owner, name=st.sampled_from(["ann", "$$NOW", "$nonce"]), host=st.just("box"), pid=st.integers(0, 2))


class LockMachine(RuleBasedStateMachine):
    """Named locks in two places."""

    nonces = Bundle("nonces")

    def __init__(self, db: Database[Any]) -> None:
        super().__init__()
        self.twins = Twins.of(db)
        self.memory, self.mongo = self.twins.memory.locks, self.twins.mongo.locks

    @rule(target=nonces, name=NAMES, owner=OWNERS, ttl=DURATIONS)
    def acquire(self, name: str, owner: Owner, ttl: float) -> Any:
        memory, mongo = (locks.acquire(name, owner=owner, ttl=ttl) for locks in (self.memory, self.mongo))
        assert (memory is None) == (mongo is None)
        return multiple() if memory is None else (name, memory, mongo)

    @rule(held=nonces)
    def renew(self, held: Any) -> None:
        name, memory, mongo = held
        assert self.memory.renew(name, memory) == self.mongo.renew(name, mongo)

    @rule(held=nonces)
    def release(self, held: Any) -> None:
        name, memory, mongo = held
        assert self.memory.release(name, memory) == self.mongo.release(name, mongo)

    @rule(held=nonces, other=NAMES, nonce=st.sampled_from(["", "$nonce"]))
    def nothing_of_somebody_else_is_touched(self, held: Any, other: str, nonce: str) -> None:
        name, memory, mongo = held
        for act in ("renew", "release"):
            assert getattr(self.memory, act)(name, nonce) == getattr(self.mongo, act)(name, nonce) is False
            if other != name:
                assert getattr(self.memory, act)(other, memory) == getattr(self.mongo, act)(other, mongo) is False

    @precondition(lambda self: len(self.twins.waited) < MOST_WAITS)
    @rule(seconds=WAITS)
    def wait(self, seconds: float) -> None:
        self.twins.wait(seconds)

    @invariant()
    def both_have_one_time(self) -> None:
        self.twins.keep_time()


def test_locks(db: Database[Any]) -> None:
    run_state_machine_as_test(lambda: LockMachine(db), settings=budget(10, steps=25))
