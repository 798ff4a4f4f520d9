"""What a retry, a repin or both do to a migration, by its status: the whole table of effects."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from attrs import asdict, evolve

from migronaut.core.lifecycle import Action
from migronaut.core.renewal import Asked, Difference, effects_of
from migronaut.core.state import BackgroundState, Plan, Spec, Status
from migronaut.errors import BackgroundConflictError

AT = datetime(2026, 1, 1)
PLAN = Plan(token="t", method="single", estimate=1, match="m", made_at=AT)
SPEC = Spec(collection="orders", from_version=1, to_version=2)
STATE = BackgroundState(
    name="m.py",
    registration="r",
    status=Status.RUNNING,
    checksum="c",
    spec=SPEC,
    registered_at=AT,
    updated_at=AT,
    generation=1,
    plan=PLAN,
)
CLOSED = {"rolled_generation": 1}
TEXT, CUT = Difference(), Difference(cut=True)
MATCH, REQUIRES = Difference(match=True, cut=True), Difference(requires=True)

RETRY, REOPEN = {"action": Action.RETRY}, {"action": Action.REOPEN}
AGAIN = {"forget": True, "look": True}
PINNED = {"repin": True, "fence": True}


def effects(status: Status, *, closed: bool = False, **asked: Any) -> dict[str, Any]:
    """What follows, without what does not."""
    state = evolve(STATE, status=status, **(CLOSED if closed else {}))
    return {name: value for name, value in asdict(effects_of(state, Asked(**asked))).items() if value}


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED])
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"retry": True}, RETRY | AGAIN | {"reopen": True}),
        ({"retry": True, "closed": True}, RETRY | AGAIN),
        ({"retry": True, "from_start": True}, RETRY | AGAIN | {"from_start": True, "fence": True}),
        ({"retry": True, "file": TEXT}, RETRY | AGAIN | PINNED | {"reopen": True}),
        ({"retry": True, "file": CUT}, RETRY | AGAIN | PINNED | {"reopen": True, "replan": True}),
        ({"retry": True, "file": CUT, "closed": True}, RETRY | AGAIN | PINNED),
        ({"retry": True, "file": CUT, "from_start": True}, RETRY | AGAIN | PINNED | {"from_start": True}),
        ({"file": TEXT}, PINNED),
        ({"file": CUT}, PINNED | {"replan": True}),
        ({"file": REQUIRES}, PINNED),
        ({}, {}),
    ],
)
def test_what_failed_or_was_cancelled(status: Status, asked: dict[str, Any], expected: dict[str, Any]) -> None:
    assert effects(status, **asked) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"retry": True}, REOPEN | AGAIN),
        ({"retry": True, "nothing_left": True}, {}),
        ({"retry": True, "from_start": True}, REOPEN | AGAIN | {"from_start": True, "fence": True}),
        ({"retry": True, "file": MATCH}, REOPEN | AGAIN | PINNED),
        ({"retry": True, "file": MATCH, "nothing_left": True}, PINNED),
        ({"retry": True, "file": REQUIRES}, REOPEN | AGAIN | PINNED),
        ({"file": TEXT}, PINNED),
        ({"file": CUT}, PINNED),
    ],
)
def test_what_has_completed(asked: dict[str, Any], expected: dict[str, Any]) -> None:
    assert effects(Status.COMPLETED, closed=True, **asked) == expected


@pytest.mark.parametrize(("file", "what"), [(MATCH, "matches other documents"), (REQUIRES, "requires other")])
def test_a_file_that_never_ran_does_not_stand_for_a_completed_one(file: Difference, what: str) -> None:
    with pytest.raises(BackgroundConflictError) as refused:
        effects(Status.COMPLETED, closed=True, file=file)
    assert what in refused.value.message
    assert "`migronaut background retry m.py --repin`" in refused.value.message


@pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING])
@pytest.mark.parametrize(
    ("file", "expected"), [(TEXT, {}), (CUT, {"replan": True}), (MATCH, {"replan": True}), (REQUIRES, {"look": True})]
)
def test_a_file_that_is_pinned_under_lanes(status: Status, file: Difference, expected: dict[str, Any]) -> None:
    assert effects(status, file=file) == PINNED | expected


@pytest.mark.parametrize("status", [Status.BLOCKED, Status.PAUSED])
def test_a_file_that_is_pinned_while_nobody_works(status: Status) -> None:
    """What it requires is looked at before it goes on."""
    assert effects(status, file=REQUIRES) == PINNED


@pytest.mark.parametrize("status", [Status.BLOCKED, Status.RUNNING, Status.PAUSED])
@pytest.mark.parametrize("file", [None, TEXT])
def test_what_is_not_over_takes_no_retry_and_no_other_file_with_it(status: Status, file: Difference | None) -> None:
    with pytest.raises(BackgroundConflictError):
        effects(status, retry=True, file=file)


def test_a_retry_that_was_done_already_is_harmless() -> None:
    assert effects(Status.PENDING, retry=True) == {}
    assert effects(Status.PENDING, retry=True, file=TEXT) == PINNED
