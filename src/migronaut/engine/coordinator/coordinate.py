"""The coordinator: gather facts, ask the core, perform the step, until lanes or time are needed.

Every step is idempotent, holds the lock ``background:<name>`` for itself only, and changes the state
by compare-and-set; a coordinator too many is harmless.
"""

from __future__ import annotations

import logging
from datetime import datetime

from attrs import evolve

from migronaut.core.coordinator import (
    Done,
    Drain,
    Facts,
    FileFact,
    Finalize,
    GiveUp,
    MakePlan,
    Process,
    Start,
    Step,
    Tally,
    Unblock,
    Wait,
    next_step,
)
from migronaut.core.lane import backoff
from migronaut.core.lifecycle import Action
from migronaut.core.ports import Owner, PortError, Stop
from migronaut.core.state import OPEN_PARTITIONS, SCHEMA, TERMINAL, BackgroundState, PartitionStatus, Phase, Status
from migronaut.engine.coordinator.closing import finalize
from migronaut.engine.coordinator.planning import plan_pass
from migronaut.engine.coordinator.requirements import unended, unmet
from migronaut.engine.failing import failed
from migronaut.engine.fitness import missing_text, require_fit
from migronaut.engine.ports import Ports
from migronaut.engine.sources import find_source
from migronaut.engine.speaking import lasting
from migronaut.engine.states import acted, change
from migronaut.engine.work import current_pass, match_of
from migronaut.errors import InvalidMigrationError, TransactionsUnsupportedError

_logger = logging.getLogger("migronaut.background")
_MOST_REFUSALS = 3
_LOCKED = Wait(reason="another coordinator is at work", retry_after=1.0)

Answer = Process | Wait | Done


def coordinate(ports: Ports, name: str, *, owner: Owner, stop: Stop) -> Answer:
    """Do all that can be done at once for a migration; what the server refuses again and again fails it."""
    refusals = 0
    while True:
        try:
            answer = _one_step(ports, name, owner)
            refusals = 0
        except PortError as error:
            if not lasting(error):
                raise
            answer, refusals = None, refusals + 1
            if refusals < _MOST_REFUSALS:
                ports.clock.sleep(backoff(refusals), stop)
            else:
                _refused(ports, name, error)
        if answer is not None:
            return answer
        if stop.is_set():
            return Wait(reason="this worker is stopping", retry_after=0.0)


def _one_step(ports: Ports, name: str, owner: Owner) -> Answer | None:
    lock = f"background:{name}"
    nonce = ports.locks.acquire(lock, owner=owner, ttl=ports.lock_ttl)
    if nonce is None:
        return _LOCKED
    try:
        with ports.heartbeat.beating(lambda: ports.locks.renew(lock, nonce), ttl=ports.lock_ttl):
            facts = gather(ports, name)
            return _perform(ports, facts, next_step(facts))
    finally:
        ports.locks.release(lock, nonce)


def gather(ports: Ports, name: str) -> Facts:
    """Everything the decision rests on, as it is now."""
    state = ports.store.load(name)
    if state is None or state.schema > SCHEMA or state.status in TERMINAL or state.status is Status.PAUSED:
        return Facts(state=state, file=FileFact.OK, match="")
    leases = ports.store.fence_expired(name)
    partitions = ports.store.partitions(current_pass(state)) if state.plan else ()
    unclosed = [each for each in partitions if each.status in OPEN_PARTITIONS]
    held = {lease.partition for lease in leases if lease.generation == state.generation}
    tally = Tally(
        claimable=sum(each.seq not in held for each in unclosed),
        leased=sum(each.seq in held for each in unclosed),
        failed=sum(each.status is PartitionStatus.FAILED for each in partitions),
    )
    found = find_source(ports.catalog, state)
    state, problem = _looked_at(ports, state)
    return Facts(
        state=state,
        file=found.fact,
        file_problem=found.problem,
        match=match_of(state),
        tally=tally,
        live_leases=len(leases),
        unmet=unmet(ports, state) if state.status is Status.BLOCKED else unended(ports, state, partitions),
        problem=problem,
    )


def _looked_at(ports: Ports, state: BackgroundState) -> tuple[BackgroundState, str | None]:
    """The state with what is to be said of its collection, and why it can never be done as the collection is now.

    Registering saw to it, but a collection may be dropped, renamed or made a view since, and the server another one.
    """
    spec = state.spec
    try:
        condition = require_fit(ports.documents(spec), spec, state.direction)
    except (TransactionsUnsupportedError, InvalidMigrationError) as error:
        return state, error.message
    was_there = bool(state.totals.scanned or (state.plan and state.plan.estimate))
    return evolve(state, note=None if condition.exists else missing_text(spec, was_there=was_there)), None


def _perform(ports: Ports, facts: Facts, step: Step) -> Answer | None:
    """Carry out a step; None = look again."""
    state = facts.state
    match step:
        case Done(status=Status.COMPLETED):
            # Whoever completed it may have been killed before it could tidy up.
            completed = _present(state)
            ports.store.drop_before(completed.name, completed.generation + 1)
            return step
        case Process() | Done():
            return step
        case Wait():
            return _told(state, step)
        case Unblock():
            _act(ports, facts, Action.UNBLOCK)
        case Start():
            _act(ports, facts, Action.PLAN)
        case Drain():
            _supersede(ports, facts)
        case MakePlan(same_pass=same_pass):
            # Whoever is still at work by an older plan (or the other way round) writes nothing more: nobody would
            # count it.
            ports.store.drop_leases(_present(state).name)
            plan_pass(ports, _present(state), same_pass=same_pass)
        case Finalize():
            waiting = finalize(ports, _present(state))
            return waiting and _told(state, waiting)
        case GiveUp(reason=reason):
            _give_up(ports, _present(state), reason)
    return None


def _told(state: BackgroundState | None, waiting: Wait) -> Wait:
    _logger.info("%s: waiting, %s", state.name if state else "?", waiting.reason)
    return waiting


def _give_up(ports: Ports, state: BackgroundState, reason: str) -> None:
    given_up = failed(state, reason, ports.store.now())
    if given_up is not None:
        ports.store.save(given_up)


def _refused(ports: Ports, name: str, error: PortError) -> None:
    state = ports.store.load(name)
    if state is not None and state.status not in (*TERMINAL, Status.PAUSED):
        _give_up(ports, state, f"MongoDB refused it: {error}")


def _present(state: BackgroundState | None) -> BackgroundState:
    if state is None:
        raise AssertionError("the core asked for work on a migration that is not registered")
    return state


def _act(ports: Ports, facts: Facts, action: Action) -> None:
    """One action on exactly the state that was decided on; a lost race is looked at again."""
    state = _present(facts.state)
    moved = acted(state, action, ports.store.now())
    if moved is not None:
        ports.store.save(evolve(moved, waits_for=()))


def _supersede(ports: Ports, facts: Facts) -> None:
    state = _present(facts.state)

    def replan(now: BackgroundState, at: datetime) -> BackgroundState | None:
        """Mark the plan as superseded, if it still is the one."""
        return evolve(now, phase=Phase.REPLAN) if now.generation == state.generation else None

    change(ports.store, state.name, replan)
