"""A lane that vanishes inside its transaction: its locks must not outlive its lease."""

from __future__ import annotations

import threading
import time
from typing import Any

from pymongo.database import Database

from engine_kit import NAME, Rig, at, old, orders

PROMPT = 10.0
"""Seconds, far below the server's own limit for open transactions (60 s)."""


def _vanish(db: Database[Any]) -> tuple[threading.Event, threading.Thread]:
    """A lane that stops between its updates and its commit, without a sign of life; the event lets it go on."""
    inside, go_on = threading.Event(), threading.Event()

    def stop() -> None:
        inside.set()
        go_on.wait(60)

    rig = Rig(db=db, lease_ttl=1.0, interrupt=at("documents.write_same.before-commit", stop))
    rig.give(orders())
    rig.engine.ports.heartbeat.beating = _no_beat  # type: ignore[method-assign]
    thread = threading.Thread(target=rig.slice, daemon=True)
    thread.start()
    assert inside.wait(20)
    return go_on, thread


def _no_beat(renew: Any, *, ttl: float) -> Any:
    from contextlib import nullcontext

    from migronaut.engine.stopping import StopEvent

    return nullcontext(StopEvent())
