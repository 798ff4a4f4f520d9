"""The fake clock: time passes only when a test says so."""

from __future__ import annotations

from datetime import datetime

import pytest
from attrs import frozen

from migronaut.memory import FakeClock


@frozen
class _Stop:
    reason: str | None

    def is_set(self) -> bool:
        return self.reason is not None


def test_sleeping_lets_time_pass_at_once_for_worker_and_server() -> None:
    clock = FakeClock(start=datetime(2026, 1, 1))
    clock.sleep(1.5, _Stop(None))
    assert (clock.monotonic(), clock.server_now()) == (1.5, datetime(2026, 1, 1, 0, 0, 1, 500_000))


def test_a_stop_that_is_set_ends_a_sleep_before_time_passes() -> None:
    clock = FakeClock()
    clock.sleep(1.5, _Stop("enough"))
    assert clock.monotonic() == 0.0


def test_server_time_has_whole_milliseconds() -> None:
    clock = FakeClock(start=datetime(2026, 1, 1))
    clock.advance(0.0019)
    assert clock.server_now().microsecond == 1000


def test_time_never_goes_back() -> None:
    with pytest.raises(ValueError, match="never goes back"):
        FakeClock().advance(-1)
