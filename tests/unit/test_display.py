"""What operators see: numbers, times, the panel, the lines of a log, and the same for machines."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from attrs import evolve
from rich.console import Console

from migronaut.core.coordinator import FileFact, file_notice
from migronaut.core.ports import LiveLease
from migronaut.core.progress import UNATTENDED, Progress, progress_of
from migronaut.core.state import Counters, DocumentError, Status
from migronaut.display import panels, words
from migronaut.display.live import LiveProgress
from migronaut.engine.operator.status import BackgroundStatus, PartitionError

AT = datetime(2026, 10, 4, 12, 0, 0, 123456, tzinfo=UTC)
NAME = "20261004120000_orders_shipping.py"
RUNNING = BackgroundStatus(
    name=NAME,
    description="Orders get [shipping].",
    collection="orders",
    status=Status.RUNNING,
    phase="partition",
    direction="forward",
    pass_number=2,
    generation=1,
    totals=Counters(scanned=41_000, migrated=40_000, retried=3, reclaims=1),
    left_out=2,
    partitions={"pending": 3, "running": 1, "completed": 8, "failed": 0},
    leases=(
        LiveLease(partition="p", generation=1, owner="ann", host="web-1", pid=4711, slot=1, expires_at=AT),
        LiveLease(partition="q", generation=1, owner="bob", host="web-2", pid=4712, slot=0, expires_at=AT),
    ),
    max_parallel=4,
    plan_method="sampled",
    registered_at=AT,
    errors=(DocumentError(at=AT, kind="transform", message="KeyError in migrate, line 5"),),
    progress=Progress(done=41_000, estimate=120_000, percent=34.2, rate=6571.0, eta_low=90.0, eta_high=110.0),
)


def shown(renderable: object, *, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(renderable)
    return out.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.4, "0 s"), (59.6, "1 min"), (200, "3 min 20 s"), (3600, "1 h"), (90_061, "1 d 1 h")],
)
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress(done=0, estimate=None), "not planned yet"),
        (Progress(done=1234, estimate=56_789), "1 234 of 56 789"),
        (Progress(done=5, estimate=9, at_least=True), "5 of at least 9"),
        (Progress(done=12, estimate=None), "12 migrated, more not planned yet"),
        (Progress(done=12, estimate=12, percent=99.0), "12 of 12"),
        (Progress(done=1234, estimate=1234, percent=100.0), "1 234 migrated"),
    ],
)
def test_an_amount_says_how_much_of_what(progress: Progress, text: str) -> None:
    assert words.amount(progress) == text


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress(done=1, estimate=9, note="too early to tell"), "too early to tell"),
        (Progress(done=1, estimate=9, eta_low=30.0), "at least 30 s left"),
        (Progress(done=1, estimate=9, eta_low=30.0, eta_high=30.2), "30 s left"),
        (Progress(done=1, estimate=9, eta_low=30.0, eta_high=50.0), "30 s to 50 s left"),
    ],
)
def test_the_time_left_is_a_range_or_the_reason_why_there_is_none(progress: Progress, text: str) -> None:
    assert words.time_left(progress) == text


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=2)), None])
def test_times_for_machines_are_utc_with_a_z(zone: timezone | None) -> None:
    moment = datetime(2026, 10, 4, 12, 0, tzinfo=zone)
    hour = 10 if zone not in (UTC, None) else 12
    assert words.plain(moment) == f"2026-10-04T{hour}:00:00.000Z"


def test_a_status_is_plain_json() -> None:
    plain = json.loads(json.dumps(words.plain(RUNNING)))
    assert plain["status"] == "running"
    assert plain["leases"][0]["pid"] == 4711
    assert plain["registered_at"] == "2026-10-04T12:00:00.123Z"
    assert plain["totals"]["migrated"] == 40_000


def test_the_panel_says_how_far_how_fast_and_who_works() -> None:
    text = shown(panels.panel(RUNNING))
    for fact in (NAME, "running", "pass 2", "34.2 %", "41 000 of 120 000", "6 571 docs/s", "1 min 30 s to 1 min 50 s"):
        assert fact in text
    assert text.index("#0 pid 4712") < text.index("#1 pid 4711")
    assert "(2 of 4)" in text
    assert "1 lane lost, 2 left out" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_whole_view_shows_what_failed_and_what_can_be_done() -> None:
    text = shown(panels.details(evolve(RUNNING, status=Status.FAILED, last_error="too many [bad] documents")))
    for fact in ("KeyError in migrate, line 5", "too many [bad] documents", "Orders get [shipping].", "web-1"):
        assert fact in text
    assert "8 completed" in text
    assert "background retry --repin" in text
    assert "0 failed (plan" not in text


def test_documents_that_failed_alike_are_one_row() -> None:
    key, value = "KeyError at line 5 of migrate()", "ValueError at line 6 of migrate()"
    errors = [
        DocumentError(at=AT + timedelta(seconds=second), kind="transform-raised", message=message)
        for second, message in enumerate([value, key, key, key, value])
    ]
    text = shown(panels.details(evolve(RUNNING, errors=errors)))
    rows = [line.split() for line in text.splitlines() if "transform-raised" in line]
    assert [row[:3] for row in rows] == [["3", "2026-10-04", "12:00:03"], ["2", "2026-10-04", "12:00:04"]]
    assert "documents that failed (latest 5)" in text


def test_what_is_left_out_is_told_without_what_failed_before_a_retry() -> None:
    text = " ".join(shown(panels.details(evolve(RUNNING, totals=Counters(failed=2), left_out=1)), width=200).split())
    assert "0 in conflict, 1 left out" in text
    assert "failed (plan" not in text
    assert "2 failed" not in text


def test_before_the_first_pass_no_pass_is_shown() -> None:
    assert "pass" not in shown(panels.panel(evolve(RUNNING, pass_number=0)))


def test_a_failure_shows_the_way_on_and_what_a_partition_raised() -> None:
    raised = PartitionError(partition=7, failures=3, failed=True, message="KeyError at line [5] of migrate()")
    text = shown(panels.details(evolve(RUNNING, status=Status.FAILED, partition_errors=(raised,))), width=200)
    assert "KeyError at line [5] of migrate()" in text
    assert "3 in a row, given up" in text
    assert f"background retry {NAME} --repin" in text


@pytest.mark.parametrize("view", [panels.panel, lambda each: panels.table([each]), panels.details])
def test_every_view_says_that_nobody_works_instead_of_a_pace(view: Callable[[BackgroundStatus], object]) -> None:
    idle = evolve(RUNNING, leases=(), progress=evolve(RUNNING.progress, rate=None, eta_low=None, note=UNATTENDED))
    text = " ".join(shown(view(idle), width=200).split())
    assert f"no lane is at work; `migronaut background run {NAME}` or a worker goes on" in text
    assert text.count("no lane is at work") == 1
    assert "docs/s" not in text


@pytest.mark.parametrize("view", [panels.panel, lambda each: panels.table([each]), panels.details])
def test_every_view_says_that_the_file_is_another_one(view: Callable[[BackgroundStatus], object]) -> None:
    notice = file_notice(FileFact.CHANGED, NAME)
    assert notice
    assert notice in " ".join(shown(view(evolve(RUNNING, notice=notice)), width=200).split())


@pytest.mark.parametrize("status", [Status.PENDING, Status.PAUSED, Status.FAILED, Status.CANCELLED])
def test_a_status_is_told_once_in_a_line(status: Status) -> None:
    each = evolve(RUNNING, status=status, leases=(), progress=progress_of(status=status, done=1, left=8))
    assert panels.line(each).count(status) == 1
    assert shown(panels.panel(each)).count(status) == 1


def test_a_changed_file_of_work_that_has_not_ended_can_be_pinned() -> None:
    changed = evolve(RUNNING, file="changed")
    assert panels.buttons(changed).startswith("background repin, ")
    assert "background repin" not in panels.buttons(evolve(changed, status=Status.COMPLETED))


@pytest.mark.parametrize("status", list(Status))
def test_every_status_has_a_colour_and_something_to_do(status: Status) -> None:
    each = evolve(RUNNING, status=status)
    assert shown(panels.table([each]))
    assert shown(panels.panel(each))
    assert panels.buttons(each).startswith("background ")


def test_the_list_fits_eighty_columns_and_keeps_whole_names() -> None:
    text = shown(panels.table([RUNNING, evolve(RUNNING, name="0001_short.py", left_out=0)]))
    assert max(map(len, text.splitlines())) <= 80
    first, facts, second, _ = text.splitlines()
    assert first.split("  ")[:3] == [NAME, "running", "2 left out"]
    assert facts.strip().endswith("41 000 of 120 000, 6 571 docs/s, 1 min 30 s to 1 min 50 s left")
    assert second.rstrip() == "0001_short.py  running"


def test_without_a_terminal_a_line_comes_from_time_to_time() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80)
    with LiveProgress(console, every=0) as live:
        live.update(RUNNING)
    (said,) = out.getvalue().splitlines()
    assert said.startswith(f"{NAME}: running, 34.2 %, 41 000 of 120 000, 6 571 docs/s, ")
    assert said.endswith("2 lanes")
    assert panels.line(evolve(RUNNING, leases=RUNNING.leases[:1])).endswith(", 1 lane")
    with LiveProgress(console, every=3600) as patient:
        patient.update(RUNNING)
    assert len(out.getvalue().splitlines()) == 1


def test_without_a_terminal_what_holds_it_up_is_told_at_once_and_once() -> None:
    out = io.StringIO()
    with LiveProgress(Console(file=out, width=80), every=3600) as live:
        live.update(RUNNING)
        for notice in ("mend me", "mend me", None, "mend me"):
            live.update(evolve(RUNNING, notice=notice))
    assert out.getvalue().splitlines() == [f"{NAME}: mend me"] * 2


def test_on_a_terminal_the_last_view_stays() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, height=24, force_terminal=True, color_system=None)
    with LiveProgress(console) as live:
        live.update(RUNNING)
        live.update(evolve(RUNNING, status=Status.COMPLETED))
    assert "completed" in out.getvalue()
