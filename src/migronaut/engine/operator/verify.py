"""The drift poll: do documents of the old shape exist again after a migration completed?"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import StrEnum

from attrs import frozen

from migronaut.core.state import TERMINAL, BackgroundState, Direction, Status
from migronaut.engine.coordinator.requirements import has_old_shape, reopen
from migronaut.engine.indexes import create_index, wanted_index
from migronaut.engine.ports import Ports

_logger = logging.getLogger("migronaut.background")


class OnDrift(StrEnum):
    """What the poll does with what it finds."""

    REOPEN = "reopen"
    REPORT = "report"


@frozen(kw_only=True)
class Drift:
    """A completed migration whose collection holds old-shape documents again."""

    migration: str
    collection: str
    reopened: bool


@frozen(kw_only=True)
class Verified:
    """What a poll found: drift, what was looked at, and what could not be, with the reason."""

    drift: tuple[Drift, ...]
    checked: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]


def verify(ports: Ports, on_drift: OnDrift) -> Verified:
    """One bounded probe for every completed forward migration."""
    states = ports.store.states()
    busy = {state.spec.collection: state for state in states if state.status not in TERMINAL}
    drift, checked, skipped = [], [], []
    for state in states:
        if state.status is not Status.COMPLETED:
            continue
        # A planner that died, or stood still meanwhile, may have left the partitions of a plan that came to nothing.
        ports.store.drop_before(state.name, state.generation + 1)
        if state.direction is not Direction.FORWARD:
            continue
        reason = _why_not(ports, state, busy)
        if reason is not None:
            skipped.append((state.name, reason))
            continue
        found = has_old_shape(ports, state)
        if found is None:
            skipped.append((state.name, "the probe took longer than 5 seconds; it is made again at the next verify"))
            continue
        checked.append(state.name)
        if found:
            drift.append(_found(ports, state, on_drift))
    return Verified(drift=tuple(drift), checked=tuple(checked), skipped=tuple(skipped))


def _why_not(ports: Ports, state: BackgroundState, busy: Mapping[str, BackgroundState]) -> str | None:
    other = busy.get(state.spec.collection)
    if other is not None:
        return f"{other.name} of the same collection is {other.status}"
    if not ports.documents(state.spec).indexed():
        return f"no index {wanted_index(state.spec)}; create it with `{create_index(state.spec)}`"
    return None


def _found(ports: Ports, state: BackgroundState, on_drift: OnDrift) -> Drift:
    again = on_drift is OnDrift.REOPEN
    _logger.warning("%s: old-shape documents exist in %s again", state.name, state.spec.collection)
    if again:
        reopen(ports, state.name, reason="old-shape documents were found by the drift poll")
    return Drift(migration=state.name, collection=state.spec.collection, reopened=again)
