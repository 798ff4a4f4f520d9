"""What comes next for a migration, as a table of facts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from attrs import evolve

from migronaut.core.coordinator import (
    Complete,
    Done,
    Drain,
    Facts,
    Fail,
    FileFact,
    Finalize,
    MakePlan,
    NextPass,
    Process,
    Start,
    Step,
    Tally,
    Unblock,
    Verdict,
    Wait,
    next_step,
    verdict,
)
from migronaut.core.order import Awaited
from migronaut.core.state import SCHEMA, BackgroundState, Phase, Plan, Spec, Status

AT = datetime(2026, 1, 1)
SPEC = Spec(collection="orders", from_version=1, to_version=2, max_parallel=4)
STATE = BackgroundState(
    name="m.py",
    registration="r",
    status=Status.RUNNING,
    checksum="c",
    spec=SPEC,
    registered_at=AT,
    updated_at=AT,
    phase=Phase.PROCESS,
    pass_number=1,
    generation=1,
    plan=Plan(token="t", method="sampled", estimate=100, match="hash", made_at=AT),
)
FACTS = Facts(state=STATE, file=FileFact.OK, match="hash")


def _facts(**changes: Any) -> Facts:
    """The facts of a running migration; what is no fact changes its state."""
    names = {"file", "match", "tally", "live_leases", "unmet"}
    state = evolve(STATE, **{name: value for name, value in changes.items() if name not in names})
    return evolve(FACTS, state=state, **{name: value for name, value in changes.items() if name in names})


COMES = Awaited(name="a.py", why="which is running", status=Status.RUNNING, stuck=False)
STUCK = Awaited(name="b.py", why="which failed", status=Status.FAILED, stuck=True)
REPLAN = {"phase": Phase.REPLAN}


@pytest.mark.parametrize(
    ("facts", "step"),
    [
        pytest.param(evolve(FACTS, state=None), Done(None), id="unregistered"),
        *[
            pytest.param(_facts(status=status), Done(status), id=str(status))
            for status in (Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.PAUSED)
        ],
        pytest.param(
            _facts(status=Status.PAUSED, file=FileFact.CHANGED), Done(Status.PAUSED), id="paused, whatever the file is"
        ),
        pytest.param(_facts(status=Status.BLOCKED), Unblock(), id="blocked, all met"),
        pytest.param(_facts(status=Status.PENDING, plan=None, generation=0), MakePlan(), id="no plan"),
        pytest.param(_facts(status=Status.PENDING, rolled_generation=1), MakePlan(), id="its pass is closed"),
        pytest.param(_facts(rolled_generation=1, match="other"), MakePlan(), id="closed and another match"),
        pytest.param(_facts(status=Status.PENDING), Start(), id="pending with a good plan"),
        pytest.param(_facts(match="other"), Drain(), id="another match"),
        pytest.param(_facts(match="other", status=Status.PENDING), Drain(), id="pending, another match"),
        pytest.param(_facts(**REPLAN), MakePlan(same_pass=True), id="replan, nobody at work"),
        pytest.param(_facts(tally=Tally()), Finalize(), id="nothing open"),
        pytest.param(_facts(tally=Tally(failed=2)), Finalize(), id="only failed partitions"),
        pytest.param(_facts(tally=Tally(failed=1), unmet=(COMES,)), Finalize(), id="a failure is told at once"),
        pytest.param(_facts(**REPLAN, unmet=(COMES,)), MakePlan(same_pass=True), id="a pass under way is cut anew"),
        pytest.param(
            _facts(tally=Tally(claimable=1), unmet=(COMES,)), Process(lanes=1, slots=4), id="what is open is worked"
        ),
        pytest.param(_facts(tally=Tally(claimable=9)), Process(lanes=4, slots=4), id="more than slots"),
        pytest.param(_facts(tally=Tally(claimable=2)), Process(lanes=2, slots=4), id="fewer than slots"),
        pytest.param(
            _facts(tally=Tally(claimable=9, leased=3), live_leases=3), Process(lanes=1, slots=4), id="one slot free"
        ),
        pytest.param(
            _facts(tally=Tally(claimable=9), live_leases=4), Process(lanes=0, slots=4), id="old leases hold slots"
        ),
        pytest.param(
            _facts(tally=Tally(claimable=9, leased=6), live_leases=6), Process(lanes=0, slots=4), id="too many leases"
        ),
        pytest.param(
            _facts(tally=Tally(leased=1), live_leases=1), Process(lanes=0, slots=4), id="the last lane is at work"
        ),
    ],
)
def test_the_facts_decide_the_step(facts: Facts, step: Step) -> None:
    assert next_step(facts) == step


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (_facts(schema=SCHEMA + 1), "newer release"),
        (_facts(schema=SCHEMA + 1, status=Status.COMPLETED), "newer release"),
        (_facts(status=Status.BLOCKED, unmet=(COMES, STUCK)), "waits for a.py, which is running, and b.py, which fail"),
        (_facts(status=Status.PENDING, unmet=(COMES,)), "waits for a.py"),
        (_facts(status=Status.PENDING, plan=None, generation=0, unmet=(COMES,)), "waits for a.py"),
        (_facts(rolled_generation=1, unmet=(COMES,)), "waits for a.py"),
        (_facts(tally=Tally(), unmet=(COMES,)), "waits for a.py"),
        (_facts(file=FileFact.CHANGED), "differs from the registered one"),
        (_facts(file=FileFact.MISSING, status=Status.PENDING), "not on this machine"),
        (_facts(file=FileFact.UNUSABLE), "cannot be used on this machine"),
        (_facts(**REPLAN, live_leases=1), "old plan"),
        (_facts(tally=Tally(), live_leases=1), "old plan"),
    ],
)
def test_what_cannot_go_on_waits_and_says_why(facts: Facts, reason: str) -> None:
    step = next_step(facts)
    assert isinstance(step, Wait)
    assert reason in step.reason
    assert 0 < step.retry_after <= 5


@pytest.mark.parametrize(("unmet", "for_operator"), [((COMES,), False), ((COMES, STUCK), True)])
def test_what_will_not_come_by_itself_is_for_an_operator(unmet: tuple[Awaited, ...], for_operator: bool) -> None:
    step = next_step(_facts(status=Status.BLOCKED, unmet=unmet))
    assert isinstance(step, Wait)
    assert (step.for_operator, step.awaits) == (for_operator, unmet)


@pytest.mark.parametrize("tally", [Tally(), Tally(claimable=3), Tally(leased=1)])
@pytest.mark.parametrize("file", [FileFact.CHANGED, FileFact.MISSING, FileFact.UNUSABLE])
def test_a_worker_with_another_file_never_works(tally: Tally, file: FileFact) -> None:
    assert isinstance(next_step(_facts(file=file, tally=tally, match="other")), Wait)


@pytest.mark.parametrize(
    ("changes", "failed", "remaining", "expected"),
    [
        ({}, 0, 0, Complete()),
        ({}, 0, 1, NextPass()),
        ({"pass_number": SPEC.max_passes - 1}, 0, 1, NextPass()),
        ({"pass_number": SPEC.max_passes}, 0, 0, Complete()),
    ],
)
def test_a_closed_pass_is_judged_by_what_is_left(
    changes: dict[str, Any], failed: int, remaining: int, expected: Verdict
) -> None:
    assert verdict(evolve(STATE, **changes), failed_partitions=failed, remaining=remaining) == expected


@pytest.mark.parametrize(
    ("changes", "failed", "remaining", "reason"),
    [
        ({"left_out": 1}, 0, 0, "max_document_errors allows 0"),
        ({}, 2, 0, "2 partitions failed 3 times in a row: KeyError at line 5"),
        ({}, 1, 5, "1 partition failed 3 times in a row: KeyError at line 5"),
        ({"pass_number": SPEC.max_passes}, 0, 1, "keep appearing after 10 passes"),
    ],
)
def test_a_migration_that_cannot_end_well_fails_with_a_reason(
    changes: dict[str, Any], failed: int, remaining: int, reason: str
) -> None:
    judged = verdict(
        evolve(STATE, **changes), failed_partitions=failed, remaining=remaining, last_error="KeyError at line 5"
    )
    assert isinstance(judged, Fail)
    assert reason in judged.reason


@pytest.mark.parametrize(("left_out", "expected"), [(0, Complete), (3, Complete), (4, Fail)])
def test_documents_within_the_budget_do_not_fail_a_migration(left_out: int, expected: type) -> None:
    state = evolve(STATE, bad_ids=tuple(range(left_out)), left_out=left_out, spec=evolve(SPEC, max_document_errors=3))
    assert isinstance(verdict(state, failed_partitions=0, remaining=0), expected)


def test_ids_that_could_not_all_be_remembered_exceed_the_budget_too() -> None:
    state = evolve(STATE, bad_ids=(1, 2), left_out=3, spec=evolve(SPEC, max_document_errors=1000))
    judged = verdict(state, failed_partitions=0, remaining=0)
    assert isinstance(judged, Fail)
    assert "too large to be remembered" in judged.reason
