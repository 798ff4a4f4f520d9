"""How far a background migration is, how fast, and when it may end.

Time comes in as an argument, in seconds of any clock that only moves on.
"""

from __future__ import annotations

from math import exp

from attrs import evolve, frozen

from migronaut.core.state import Status

_TIME_CONSTANT = 20.0
_CAP = 99.0
_MIN_PERCENT = 1.0
_MIN_ELAPSED = 10.0
_MARGIN = 0.1

UNATTENDED = "no lane is at work"
_NOTES = {
    Status.BLOCKED: "waits for another migration",
    Status.PENDING: "not started yet",
    Status.PAUSED: "paused",
    Status.FAILED: "failed",
    Status.CANCELLED: "cancelled",
    Status.COMPLETED: None,
}


@frozen(kw_only=True)
class Rate:
    """Documents per second as an exponential moving average over samples at any distance in time.

    An interval of ``dt`` seconds weighs ``alpha = 1 - exp(-dt / tau)``, which is exact for a rate that
    is constant between samples; so it does not matter how often one looks. Source: A. Eckner,
    "Algorithms for Unevenly Spaced Time Series: Moving Averages and Other Rolling Operators" (the
    EMA with next-point interpolation). Dividing by the weight seen so far takes out the bias of the
    start, as in D. Kingma and J. Ba, "Adam" (2015), section 3.

    Args:
        done: Documents done at the last sample.
        at: When that was, in seconds.
        weighted: Weighted sum of the rates seen.
        weight: Sum of their weights, 0 to 1.
        tau: Time constant in seconds: after it a change shows to 63 %.
    """

    done: int
    at: float
    weighted: float = 0.0
    weight: float = 0.0
    tau: float = _TIME_CONSTANT

    @property
    def per_second(self) -> float | None:
        """Documents per second, or ``None`` before the second sample."""
        return self.weighted / self.weight if self.weight else None

    def observe(self, done: int, at_seconds: float) -> Rate:
        """The rate after one more sample.

        A sample that is not later is left out. A count that fell (it starts again with a retry from
        the start) is a new starting point: it says nothing about speed.
        """
        passed = at_seconds - self.at
        if passed <= 0:
            return self
        if done < self.done:
            return evolve(self, done=done, at=at_seconds)
        keep = exp(-passed / self.tau)
        alpha = 1 - keep
        speed = (done - self.done) / passed
        return evolve(
            self,
            done=done,
            at=at_seconds,
            weighted=keep * self.weighted + alpha * speed,
            weight=keep * self.weight + alpha,
        )


@frozen(kw_only=True)
class Progress:
    """What an operator sees: of the whole migration, whatever pass it is in.

    Args:
        done: Documents migrated so far.
        estimate: Documents that will have been migrated in the end, as far as is known; ``None`` before it is
            planned. Once completed it is what was done.
        at_least: The estimate is a lower bound.
        percent: 0 to 99, and 100 once completed.
        rate: Documents per second now; ``None`` when nothing runs or it is not known yet.
        eta_low: Seconds left at the least; ``None`` when no time can be told.
        eta_high: Seconds left at the most; ``None`` also when the estimate is a lower bound.
        note: Why there is no time left to tell.
    """

    done: int
    estimate: int | None
    at_least: bool = False
    percent: float = 0.0
    rate: float | None = None
    eta_low: float | None = None
    eta_high: float | None = None
    note: str | None = None


def progress_of(
    *,
    status: Status,
    done: int,
    left: int | None,
    at_least: bool = False,
    rate: float | None = None,
    average: float | None = None,
    elapsed: float = 0.0,
    attended: bool = True,
) -> Progress:
    """Judge the progress of one migration.

    Args:
        status: Only a running one has a rate and a time left.
        done: Documents migrated so far.
        left: Documents that the plan holds and nobody has looked at yet, negative where there were more than planned;
            ``None`` before there is a plan.
        at_least: There may be more left than that.
        rate: Documents per second lately, from ``Rate``; ``None`` = take the average.
        average: Documents per second since the plan was made.
        elapsed: Seconds since then.
        attended: Somebody works it; otherwise there is no pace to tell.
    """
    completed = status is Status.COMPLETED
    estimate = done if completed else None if left is None else done + max(0, left)
    plain = Progress(
        done=done,
        estimate=estimate,
        at_least=at_least and not completed,
        percent=_percent(status, done, estimate),
    )
    if status is not Status.RUNNING:
        return evolve(plain, note=_NOTES[status])
    if not attended:
        return evolve(plain, note=UNATTENDED)
    running = evolve(plain, rate=average if rate is None else rate)
    why_not = _why_no_eta(running, left, elapsed)
    if why_not is not None or left is None or not running.rate or not average:
        return evolve(running, note=why_not)
    low, high = sorted((left / running.rate, left / average))
    return evolve(
        running,
        eta_low=low * (1 - _MARGIN),
        eta_high=None if at_least else high * (1 + _MARGIN),
        note="there may be more documents than estimated" if at_least else None,
    )


def _percent(status: Status, done: int, estimate: int | None) -> float:
    if status is Status.COMPLETED:
        return 100.0
    if not done or estimate is None:
        return 0.0
    return min(_CAP, 100 * done / estimate)


def _why_no_eta(running: Progress, left: int | None, elapsed: float) -> str | None:
    if left is None:
        return "planning"
    if elapsed < _MIN_ELAPSED or (running.percent < _MIN_PERCENT and running.rate):
        return "too early to tell"
    if not running.rate:
        return "no document was done lately"
    if left <= 0:
        return "there are more documents than estimated" if left else "last checks"
    return None
