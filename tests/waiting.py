"""Waiting for what comes by itself, with a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pymongo.errors import PyMongoError

PATIENCE = 60.0
"""Seconds that anything may take on a busy machine."""

_LOOK = 0.05


def wait_until(condition: Callable[[], Any], *, what: Callable[[], str] | str, within: float = PATIENCE) -> Any:
    """What ``condition`` answers once it is true; where a server does not answer, there is none yet.

    Args:
        what: Told when it does not come.
    """
    end, pause = time.monotonic() + within, threading.Event()
    while True:
        with suppress(PyMongoError):
            if answer := condition():
                return answer
        if time.monotonic() > end:
            raise AssertionError(f"not within {within:g} s: {what if isinstance(what, str) else what()}")
        pause.wait(_LOOK)
