"""Many seeds hold, the same seed does the same again, and everything that can go wrong did."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from migronaut.core.ports import Owner
from migronaut.core.state import Status
from migronaut.engine import Ports
from migronaut.memory import MemoryLocks
from migronaut.simulation import simulate
from migronaut.simulation.command import main
from migronaut.simulation.decisions import to_text

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
    "plan superseded",
    "plan superseded under a lane",
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
@pytest.mark.timeout(600)
def test_every_fault_every_status_and_every_end_occurs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "300", "--jobs", "2"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    seen = {line.rsplit(maxsplit=2)[0].strip() for line in rows}
    statuses = [f"status {status}" for status in Status]
    assert {*FAULTS, *ENDS, *statuses} - seen == set()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_coordinator_too_many_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock only saves work: with one that anybody gets at any time the same invariants hold."""
    acquire = MemoryLocks.acquire

    def take(self: MemoryLocks, name: str, *, owner: Owner, ttl: float) -> str | None:
        vars(self)["_server"].locks.pop(name, None)
        return acquire(self, name, owner=owner, ttl=ttl)

    monkeypatch.setattr(MemoryLocks, "acquire", take)
    assert [seed for seed in range(150) if simulate(seed).violation is not None] == []


@pytest.mark.parametrize("seed", [1, 13, 46])
def test_a_seed_does_the_same_twice(seed: int) -> None:
    first, again = (simulate(seed, keep_trace=True) for _ in range(2))
    assert first.trace == again.trace
    assert first.schedule == again.schedule
    assert len(first.trace) == first.steps > 50


def test_another_process_does_the_same() -> None:
    """Nothing depends on the order of sets, on the time, or on where objects lie."""
    code = (
        "from migronaut.simulation import simulate\n"
        "for seed in range(8): print(repr(simulate(seed, keep_trace=True).trace))"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": str(number), "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for number in (1, 2)
    ]
    assert told[0] == told[1]
    assert len(told[0].splitlines()) == 8


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


def test_somebody_who_never_rests_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that asks the database without a pause gives nobody else a turn; it must not hang the simulation."""

    def ask_for_ever(ports: Ports, name: str, *_: object, **__: object) -> None:
        while True:
            ports.store.load(name)

    monkeypatch.setattr("migronaut.engine.operator.controls.renew", ask_for_ever)
    result = simulate(0, schedule=(), max_steps=2000)
    assert result.violation is not None
    assert result.violation.invariant == "termination"


def test_the_command_line_replays(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--replay", to_text(simulate(3).schedule)]) == 0
    assert "no violation" in capsys.readouterr().out
