"""The status table: which action leads where. The only place that knows it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from attrs import frozen

from migronaut.core.state import Status
from migronaut.errors import BackgroundConflictError


class Action(StrEnum):
    """What can be done to a background migration."""

    BLOCK = "block"
    UNBLOCK = "unblock"
    PLAN = "plan"
    COMPLETE = "complete"
    FAIL = "fail"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY = "retry"
    REOPEN = "reopen"


@frozen
class _Row:
    sources: frozenset[Status]
    target: Status
    already: frozenset[Status]


def _row(sources: str, target: Status, already: str) -> _Row:
    return _Row(
        frozenset(Status(word) for word in sources.split()), target, frozenset(Status(word) for word in already.split())
    )


TABLE: Mapping[Action, _Row] = {
    Action.BLOCK: _row("pending running", Status.BLOCKED, "blocked"),
    Action.UNBLOCK: _row("blocked", Status.PENDING, "pending running paused"),
    Action.PLAN: _row("pending", Status.RUNNING, "running"),
    Action.COMPLETE: _row("running", Status.COMPLETED, "completed"),
    Action.FAIL: _row("blocked pending running", Status.FAILED, "failed"),
    Action.PAUSE: _row("blocked pending running", Status.PAUSED, "paused"),
    Action.RESUME: _row("paused", Status.PENDING, "blocked pending running"),
    Action.CANCEL: _row("blocked pending running paused", Status.CANCELLED, "cancelled"),
    Action.RETRY: _row("failed cancelled", Status.PENDING, "pending"),
    Action.REOPEN: _row("completed", Status.RUNNING, "running"),
}

_HINTS: Mapping[Action, str] = {
    Action.PAUSE: "Only work that is blocked, pending or running can be paused.",
    Action.RESUME: "Only paused work can be resumed; failed or cancelled work takes `retry`.",
    Action.CANCEL: "Only work that has not ended can be cancelled.",
    Action.RETRY: "Only failed, cancelled or completed work can be retried; pause or cancel it first.",
}


@frozen
class Transition:
    """Where an action leads; ``changed`` is False when it was done already."""

    status: Status
    changed: bool


def transition(status: Status, action: Action) -> Transition:
    """Apply an action to a status.

    Raises:
        BackgroundConflictError: The status does not allow the action.
    """
    row = TABLE[action]
    if status in row.sources:
        return Transition(row.target, changed=True)
    if status in row.already:
        return Transition(status, changed=False)
    hint = _HINTS.get(action, "")
    raise BackgroundConflictError(
        f"Cannot {action} a background migration that is {status}. {hint}".strip(),
        status=str(status),
        action=str(action),
    )
