"""Closing a pass: counters into the totals, once; count what is left; complete, fail, or plan again."""

from __future__ import annotations

import logging

from attrs import evolve

from migronaut.core.coordinator import Complete, Fail, NextPass, Verdict, Wait, closed, verdict
from migronaut.core.lifecycle import Action
from migronaut.core.ports import UnavailableError
from migronaut.core.state import OPEN_PARTITIONS, BackgroundState, Partition, PartitionStatus, Phase
from migronaut.core.wording import plural
from migronaut.engine.coordinator.requirements import hand_on
from migronaut.engine.failing import failed, with_bad
from migronaut.engine.ports import Ports
from migronaut.engine.states import acted
from migronaut.engine.work import current_pass
from migronaut.versioning import match_filter

_logger = logging.getLogger("migronaut.background")


def rolled(state: BackgroundState, partitions: tuple[Partition, ...]) -> BackgroundState:
    """The state with the counters and bad documents of its generation in it; a generation is rolled once."""
    if closed(state):
        return state
    totals = sum((partition.counters for partition in partitions), state.totals)
    return evolve(with_bad(state, partitions), totals=totals, rolled_generation=state.generation)


def finalize(ports: Ports, state: BackgroundState) -> Wait | None:
    """Decide about a pass whose partitions are all closed; None = look again.

    Completion is decided by the count alone, of what no failover can undo: the primary that holds it all may be lost
    just now, and the next one hear of the verdict only.
    """
    store, documents = ports.store, ports.documents(state.spec)
    try:
        settled = documents.settle()
    except UnavailableError as error:
        return Wait(reason=f"a majority of the members has not confirmed yet what was written ({error})")
    partitions = store.partitions(current_pass(state))
    if any(partition.status in OPEN_PARTITIONS for partition in partitions):
        return None  # a failover has undone what closed it
    broken = [partition for partition in partitions if partition.status is PartitionStatus.FAILED]
    whole = rolled(state, partitions)
    match = match_filter(state.spec, state.direction)
    left = documents.count(match, limit=1, without=whole.bad_ids, since=settled)
    raised = next((partition.last_error for partition in broken if partition.last_error), None)
    decided = verdict(whole, failed_partitions=len(broken), remaining=left, last_error=raised)
    if isinstance(decided, Complete):
        hand_on(ports, state)
    # A pass with failed partitions stays open, so that a retry goes on at their cursors.
    wanted = _decided(evolve(state, errors=whole.errors) if broken else whole, decided, ports)
    if wanted is not None and store.save(wanted) is not None and isinstance(decided, Complete):
        store.drop_before(state.name, state.generation + 1)
        _tell(whole)
    return None


def _decided(state: BackgroundState, decided: Verdict, ports: Ports) -> BackgroundState | None:
    at = ports.store.now()
    match decided:
        case Complete():
            return acted(evolve(state, last_error=None), Action.COMPLETE, at)
        case Fail(reason=reason):
            return failed(state, reason, at)
        case NextPass():
            return evolve(state, phase=Phase.PARTITION)


def _tell(state: BackgroundState) -> None:
    if state.note:
        _logger.warning("%s completed; %s", state.name, state.note)
    if state.left_out:
        _logger.warning(
            "%s completed; left out: %s, see `migronaut background status`",
            state.name,
            plural(state.left_out, "document"),
        )
