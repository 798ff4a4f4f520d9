"""The status table, written out once more: every action on every status."""

from __future__ import annotations

import pytest

from migronaut.core.lifecycle import Action, transition
from migronaut.core.state import TERMINAL, Status
from migronaut.errors import BackgroundConflictError

STATUSES = ["blocked", "pending", "running", "paused", "completed", "failed", "cancelled"]
# One column a status, in the order above: where it leads, "=" for "was done already", "-" for refused.
EXPECTED = {
    "block": ["=", "blocked", "blocked", "-", "-", "-", "-"],
    "unblock": ["pending", "=", "=", "=", "-", "-", "-"],
    "plan": ["-", "running", "=", "-", "-", "-", "-"],
    "complete": ["-", "-", "completed", "-", "=", "-", "-"],
    "fail": ["failed", "failed", "failed", "-", "-", "=", "-"],
    "pause": ["paused", "paused", "paused", "=", "-", "-", "-"],
    "resume": ["=", "=", "=", "pending", "-", "-", "-"],
    "cancel": ["cancelled", "cancelled", "cancelled", "cancelled", "-", "-", "="],
    "retry": ["-", "=", "-", "-", "-", "pending", "pending"],
    "reopen": ["-", "-", "=", "-", "running", "-", "-"],
}
CELLS = [
    (action, status, cell) for action, cells in EXPECTED.items() for status, cell in zip(STATUSES, cells, strict=True)
]


def test_the_table_of_this_test_is_complete() -> None:
    assert set(EXPECTED) == {str(action) for action in Action}
    assert set(STATUSES) == {str(status) for status in Status}


@pytest.mark.parametrize(("action", "status", "cell"), CELLS)
def test_an_action_leads_where_the_table_says(action: str, status: str, cell: str) -> None:
    if cell == "-":
        with pytest.raises(BackgroundConflictError) as caught:
            transition(Status(status), Action(action))
        assert caught.value.context == {"status": status, "action": action}
        assert status in caught.value.message
        return
    result = transition(Status(status), Action(action))
    assert (str(result.status), result.changed) == ((status, False) if cell == "=" else (cell, True))


@pytest.mark.parametrize(("action", "status"), [(action, status) for action, status, cell in CELLS if cell != "-"])
def test_doing_the_same_again_is_harmless(action: str, status: str) -> None:
    first = transition(Status(status), Action(action))
    second = transition(first.status, Action(action))
    assert (second.status, second.changed) == (first.status, False)


def test_what_has_ended_only_starts_again_by_retry_or_reopen() -> None:
    leaving = {action for action, status, cell in CELLS if Status(status) in TERMINAL and cell not in ("-", "=")}
    assert leaving == {"retry", "reopen"}
