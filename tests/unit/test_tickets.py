"""Tickets: names that are never shared, hints that say what the ticket says, a grace that grows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from migronaut.core.jobs import CoordinatorJob, LaneJob, parse_payload
from migronaut.core.tickets import ContinueLater, Finish, Role, Ticket, TicketStatus, WaitForLanes, grace, ticket_id

NAME = "20261004_orders.py"


def _ticket(**changes: Any) -> Ticket:
    ticket = Ticket(
        id=NAME,
        migration=NAME,
        role=Role.COORDINATOR,
        run="r1",
        seq=4,
        status=TicketStatus.WAITING,
        due=datetime(2026, 1, 1),
    )
    return evolve(ticket, **changes)


@pytest.mark.parametrize(("sends", "seconds"), [(0, 30), (1, 60), (2, 120), (4, 480), (5, 900), (9, 900), (10**9, 900)])
def test_the_grace_doubles_with_every_send_up_to_a_quarter_of_an_hour(sends: int, seconds: float) -> None:
    assert grace(sends) == seconds


@given(st.integers(0, 10_000))
def test_the_grace_never_shrinks(sends: int) -> None:
    assert 30 <= grace(sends) <= grace(sends + 1) <= 900


def test_a_hint_says_what_its_ticket_says() -> None:
    assert _ticket().payload == CoordinatorJob(migration=NAME, run="r1", seq=4)
    lane = _ticket(role=Role.LANE, lane=0)
    assert lane.payload == LaneJob(migration=NAME, run="r1", seq=4, lane=0)
    assert parse_payload(lane.hint.body()) == lane.payload


@pytest.mark.parametrize("change", [{"seq": 5}, {"sends": 1}, {"run": "r2"}, {"migration": "x.py"}, {"lane": 0}])
def test_a_hint_that_differs_in_anything_has_an_id_of_its_own(change: dict[str, Any]) -> None:
    assert _ticket(**change).hint.id != _ticket().hint.id


@pytest.mark.parametrize("change", [{"ref": "x"}, {"owner": "w"}, {"status": TicketStatus.WORKING}, {"losses": 3}])
def test_a_hint_does_not_depend_on_who_works_for_its_ticket(change: dict[str, Any]) -> None:
    assert _ticket(**change).hint == _ticket().hint


def test_each_lane_and_the_coordinator_have_a_ticket_of_their_own() -> None:
    ids = [ticket_id(NAME, Role.COORDINATOR), *(ticket_id(NAME, Role.LANE, lane=lane) for lane in range(64))]
    assert len(set(ids)) == 65


@pytest.mark.parametrize(("one", "other"), [("a.b.py", "a_b.py"), ("a b.py", "a-b.py"), ("é.py", "e\u0301.py")])
def test_names_that_differ_only_in_odd_characters_never_share_a_ticket(one: str, other: str) -> None:
    assert ticket_id(one, Role.LANE, lane=1) != ticket_id(other, Role.LANE, lane=1)
    assert ticket_id(one, Role.COORDINATOR) != ticket_id(other, Role.COORDINATOR)


def test_directives_carry_no_error_unless_a_slice_raised() -> None:
    hint = _ticket().hint
    assert Finish(result="x").error is None
    assert ContinueLater(delay=0.0, hint=hint, result="x").error is None
    assert WaitForLanes(children=(), hint=hint, poll=10.0, result="x").error is None
