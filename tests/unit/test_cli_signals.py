"""Ctrl-C in the command line: a stop, told by somebody who is not in the middle of a write."""

from __future__ import annotations

import signal
import threading

import pytest

from migronaut.cli.signals import stopping


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_sets_the_stop_and_is_told_outside_the_handler(number: signal.Signals) -> None:
    told = threading.Event()
    teller: list[threading.Thread] = []

    def say(text: str) -> None:
        teller.append(threading.current_thread())
        told.set()

    before = signal.getsignal(number)
    with stopping(say) as stop:
        signal.raise_signal(number)
        assert stop.reason == number.name
        assert told.wait(10)
    assert teller != [threading.main_thread()]
    assert signal.getsignal(number) is before
