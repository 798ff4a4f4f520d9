"""The first signal stops cleanly, the second one kills."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from migronaut.engine.stopping import StopEvent

_STOPPING = "Stopping after the current step; a second signal kills."


@contextmanager
def stopping(say: Callable[[str], None]) -> Iterator[StopEvent]:
    """A stop that SIGINT and SIGTERM set; outside the block signals do what they did before."""
    stop = StopEvent()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, _: FrameType | None) -> None:
        """Ask to stop; the second time, at once."""
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        stop.set(signal.Signals(number).name)
        # In a thread: the signal may have come in the middle of a write to that stream, which cannot be entered twice.
        threading.Thread(target=say, args=(_STOPPING,), daemon=True).start()

    for number in before:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
