"""The budget of document errors, and how a migration fails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import bson
from attrs import evolve

from migronaut.core.coordinator import over_budget
from migronaut.core.lifecycle import Action
from migronaut.core.ports import Store
from migronaut.core.state import MAX_BAD_BYTES, MAX_BAD_IDS, MAX_ERRORS, TERMINAL, BackgroundState, Partition, Status
from migronaut.engine.states import acted, change
from migronaut.engine.work import current_pass
from migronaut.versioning import CODEC


def remembered(ids: Sequence[Any]) -> list[Any]:
    """Those of the ids, from the first on, that one record can remember; one that is larger than all may be is none."""
    kept: list[Any] = []
    size = 0
    for id_ in ids[:MAX_BAD_IDS]:
        size += len(_encoded(id_))
        if size > MAX_BAD_BYTES:
            break
        kept.append(id_)
    return kept


def _encoded(id_: Any) -> bytes:
    return bson.encode({"_id": id_}, codec_options=CODEC)


def with_bad(state: BackgroundState, partitions: Sequence[Partition]) -> BackgroundState:
    """The state with the documents that failed in this pass named in it, each once."""
    ids = _distinct([*state.bad_ids, *(id_ for partition in partitions for id_ in partition.bad_ids)])
    known = set(state.errors)
    fresh = [error for partition in partitions for error in partition.errors if error not in known]
    errors = sorted([*state.errors, *fresh], key=lambda error: error.at)
    return evolve(
        state,
        bad_ids=tuple(remembered(ids)),
        left_out=max(len(ids), state.left_out),
        errors=tuple(errors[-MAX_ERRORS:]),
    )


def _distinct(ids: Iterable[Any]) -> list[Any]:
    return list({_encoded(id_): id_ for id_ in ids}.values())


def check_budget(store: Store, name: str) -> bool:
    """Fail the migration if more documents failed than it allows; True when it did."""

    def decide(state: BackgroundState, at: datetime) -> BackgroundState | None:
        """Fail it if it is over the budget now."""
        named = with_bad(state, store.partitions(current_pass(state)))
        reason = over_budget(named)
        return failed(named, reason, at) if reason and state.status is Status.RUNNING else None

    return change(store, name, decide).status in TERMINAL


def failed(state: BackgroundState, reason: str, at: datetime) -> BackgroundState | None:
    """The state as failed, with the reason."""
    return acted(evolve(state, last_error=reason), Action.FAIL, at)
