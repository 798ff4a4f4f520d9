"""The simulation notices when a guard is taken away; a simulation that cannot fail proves nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import pytest

from migronaut.simulation import Result, simulate
from migronaut.simulation.command import main
from migronaut.simulation.mutations import MUTATIONS, mutation
from migronaut.simulation.shrink import shortened

WITHIN = 400
"""Seeds within which the loss of a guard must show."""
NOTICED = {
    "lease-token": {"fencing"},
    "byte-comparison": {"application writes", "once"},
    "version-in-filter": {"application writes", "once"},
    "revision-in-filter": {"application writes", "once"},
    "ticket-run-and-sequence": {"tickets"},
    "ticket-holder": {"tickets"},
    "unique-slot": {"max_parallel"},
    "state-revision": {"compare-and-set"},
    "rolled-generation": {"counters"},
    "final-count": {"completed"},
    "control": {"control"},
    "file-checksum": {"file"},
    "match-of-a-pipeline": {"once"},
    "heal": {"termination"},
}
"""By mutation: which invariants may be the first to break."""


def first_violation(name: str) -> Result:
    with mutation(name):
        for seed in range(WITHIN):
            result = simulate(seed)
            if result.violation is not None:
                return result
    pytest.fail(f"without {name} {WITHIN} seeds ran and none noticed")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_guard_that_is_missing_is_noticed(name: str) -> None:
    result = first_violation(name)
    assert result.violation is not None
    assert result.violation.invariant in NOTICED[name], result.violation
    assert simulate(result.seed).violation is None


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_line_shows_a_short_schedule_that_replays(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "200", "--mutate", "byte-comparison"]) == 1
    said = capsys.readouterr().out
    assert re.match(r"seed \d+: (application writes|once): ", said)
    replay = shlex.split(said.splitlines()[-1])
    assert replay[:3] == ["python", "-m", "migronaut.simulation"]
    assert replay[-1].count(":") <= 40
    assert main(replay[3:]) == 1
    without = [word for word in replay[3:] if word not in {"--mutate", "byte-comparison"}]
    assert main(without) == 0


def test_shortening_keeps_what_is_needed_and_nothing_else() -> None:
    def fails(schedule: Sequence[int]) -> bool:
        return len(schedule) > 40 and schedule[7] == 3 and schedule[40] == 2

    schedule = [1, 2, 3] * 100
    schedule[7], schedule[40] = 3, 2
    short = shortened(schedule, fails)
    assert short == [0] * 7 + [3] + [0] * 32 + [2]
