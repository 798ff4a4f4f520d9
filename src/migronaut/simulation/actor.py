"""An actor: one thread of control, and the process it lives in."""

from __future__ import annotations

import threading
from collections.abc import Callable

from attrs import define, field

from migronaut.core.ports import Stop
from migronaut.memory.durability import Mark


class Crash(BaseException):
    """The process of an actor is gone; no code of the engine may catch it."""


@define(eq=False)
class Actor:
    """One thread of control, and the process it lives in.

    Args:
        body: What it does; a crash ends it anywhere.
        mortal: It may crash and freeze.
        eager: It may be called upon at any time to interfere.
        respawn: Its successor after a crash.
        ready_when: While set, it has nothing to do before the time this gives (None = it does not know).
        on_crash: What others do about it, e.g. a broker that delivers its job again.
        term: Of the primary that its call was sent to.
        committed: Where that call has committed a transaction.
    """

    name: str
    body: Callable[[], None]
    mortal: bool = True
    eager: bool = False
    respawn: Callable[[], Actor] | None = None
    ready_when: Callable[[], float | None] | None = None
    on_crash: Callable[[], None] | None = None
    on_stop: Callable[[], None] | None = None
    wake_at: float = 0.0
    asleep: Stop | None = None
    frozen_until: float = 0.0
    crashed: bool = False
    done: bool = False
    turn: int = 0
    term: int = 0
    committed: Mark | None = None
    baton: threading.Lock = field(factory=threading.Lock)
