"""A queue of the user's own is simulated like ours: the one of the documentation holds, broken ones are noticed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from migronaut.simulation import simulate

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "simulation.md"


@pytest.fixture(scope="module")
def documented() -> Any:
    """The class of the example."""
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENTATION.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    return names["ListQueue"]


def test_the_queue_of_the_documentation_holds(documented: Any) -> None:
    results = [simulate(seed, queue=documented) for seed in range(60)]
    assert [result for result in results if result.violation is not None] == []
    assert sum(result.seen["end completed"] for result in results) > 30


def test_a_queue_that_delivers_nothing_is_noticed(documented: Any) -> None:
    class Silent(documented):
        def send(self, hint: Any, delay: float) -> None:
            pass

    found = [result.violation for seed in range(10) if (result := simulate(seed, queue=Silent)).violation]
    assert {violation.invariant for violation in found} == {"termination"}


def test_a_queue_that_changes_a_payload_is_noticed(documented: Any) -> None:
    class Careless(documented):
        def send(self, hint: Any, delay: float) -> None:
            super().send(hint, delay)
            self.jobs[-1][2]["priority"] = 1

    found = simulate(1, queue=Careless).violation
    assert found is not None
    assert found.invariant == "raised"
    assert "QueueJobInvalidError" in found.text
