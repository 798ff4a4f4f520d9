"""Many seeds hold, the same seed does the same again, and everything that can go wrong did."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from migronaut.core.state import Status
from migronaut.testing.simulate import main
from migronaut.testing.simulation import simulate
from migronaut.testing.simulation.decisions import to_text

SEEDS = int(os.environ.get("MIGRONAUT_TEST_SEEDS", "2000"))
"""How many; a nightly run takes more."""
FAULTS = (
    "advance",
    "call repeated",
    "counted conflicts",
    "counted reclaims",
    "counted retried",
    "counted skipped",
    "counted txn_retries",
    "crash",
    "failed after its effect",
    "failed beat",
    "failed before its effect",
    "failed inside its effect",
    "freeze",
    "hint answer lost",
    "hint late",
    "hint lost",
    "hint refused",
    "hint twice",
    "interference",
    "job redelivered",
    "lost by heartbeat",
    "lost compare-and-set",
    "outage",
    "queue restart",
    "stale hint",
    "stop",
)
ENDS = ("end cancelled", "end completed", "end completed with documents left out", "end failed")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_seed_violates_an_invariant(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--seeds", str(SEEDS), "--jobs", "2"])
    assert code == 0, capsys.readouterr().out


@pytest.mark.slow
def test_every_fault_every_status_and_every_end_occurs() -> None:
    seen: Counter[str] = Counter()
    for seed in range(300):
        seen += simulate(seed).seen
    statuses = [f"status {status}" for status in Status]
    missing = [what for what in (*FAULTS, *ENDS, *statuses) if not seen[what]]
    assert not missing


@pytest.mark.parametrize("seed", [1, 13, 46])
def test_a_seed_does_the_same_twice(seed: int) -> None:
    first, again = (simulate(seed, keep_trace=True) for _ in range(2))
    assert first.trace == again.trace
    assert first.schedule == again.schedule
    assert len(first.trace) == first.steps > 50


@pytest.mark.parametrize("seed", [2, 17])
def test_its_schedule_replays_a_seed(seed: int) -> None:
    first = simulate(seed, keep_trace=True)
    again = simulate(seed, schedule=first.schedule, keep_trace=True)
    assert again.trace == first.trace


def test_a_schedule_may_be_shorter_than_the_run() -> None:
    """What is not decided is dull: no fault, and everybody in turn."""
    result = simulate(3, schedule=())
    assert result.violation is None
    assert not any(result.schedule)


def test_the_command_line_replays(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--replay", to_text(simulate(3).schedule)]) == 0
    assert "no violation" in capsys.readouterr().out
