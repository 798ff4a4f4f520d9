"""Which migrations come first: those that a file requires, and those that make the versions it begins with.

Migrations on one collection with one version field, in one direction, follow each other by their versions: one that
makes a version comes before all that begin at it or behind it. ``requires`` decides what it says: an order by version
that would close a circle does not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen

from migronaut.core.state import TERMINAL, BackgroundState, Direction, Status
from migronaut.core.wording import plural

States = Mapping[str, BackgroundState]
_MOST_TOLD = 3


@frozen(kw_only=True)
class Earlier:
    """A migration that another one has to wait for.

    Args:
        state: None where it is not registered.
        required: By the file; otherwise it comes earlier by its versions alone.
    """

    name: str
    state: BackgroundState | None
    required: bool

    @property
    def through(self) -> bool:
        """As far as its state says: it holds nobody up."""
        state = self.state
        if state is None:
            return False
        if self.required:
            return state.status is Status.COMPLETED and state.direction is Direction.FORWARD
        return state.status in (Status.COMPLETED, Status.CANCELLED)


@frozen(kw_only=True)
class Awaited:
    """What holds a migration up.

    Args:
        why: Stands behind the name, as in ``0001_x.py, which makes version 2``.
        status: None where it is not registered.
        stuck: It will not come by itself: somebody has to do something first.
    """

    name: str
    why: str
    status: Status | None
    stuck: bool


def earlier(state: BackgroundState, states: States) -> tuple[Earlier, ...]:
    """All that must be through before a migration begins."""
    return (*earlier_by_file(state.requires, states), *earlier_by_version(state, states))


def earlier_by_file(names: Iterable[str], states: States) -> tuple[Earlier, ...]:
    """Those that a file names."""
    return tuple(Earlier(name=name, state=states.get(name), required=True) for name in names)


def earlier_by_version(state: BackgroundState, states: States) -> tuple[Earlier, ...]:
    """Those that still make documents for it: they must be through before it completes, too."""
    return tuple(
        Earlier(name=each.name, state=each, required=False)
        for each in states.values()
        if _comes_before(each, state) and each.name not in state.requires and not _waits_for(each, state, states)
    )


def later_by_version(state: BackgroundState, states: States) -> tuple[BackgroundState, ...]:
    """Those that have to go through what it makes."""
    return tuple(each for each in states.values() if _comes_before(state, each) and not _waits_for(state, each, states))


def awaited(first: Iterable[Earlier], states: States) -> tuple[Awaited, ...]:
    """What holds up.

    One that waits itself for something that will not come stands behind it: that is the one to be named.
    """
    found: dict[str, Awaited] = {}
    for each in first:
        if not each.through:
            found |= {one.name: one for one in _stuck_behind(each, states) or [_told(each)]}
    return tuple(sorted(found.values(), key=lambda one: not one.stuck))


def waiting_text(found: Iterable[Awaited]) -> str:
    """``waits for 0001_x.py, which makes version 2``."""
    told = [f"{each.name}, {each.why}" for each in found]
    more = len(told) - _MOST_TOLD
    rest = [f"{plural(more, 'other')}"] if more > 0 else []
    return "waits for " + ", and ".join([*told[:_MOST_TOLD], *rest])


def _stuck_behind(first: Earlier, states: States) -> list[Awaited]:
    state = first.state
    if state is None or state.status in TERMINAL or state.status is Status.PAUSED:
        return []
    return [each for each in awaited(earlier(state, states), states) if each.stuck]


def _told(first: Earlier) -> Awaited:
    state = first.state
    status = state.status if state else None
    stuck = status in (None, Status.PAUSED, Status.FAILED, Status.CANCELLED)
    reverted = first.required and state is not None and state.direction is Direction.REVERT
    return Awaited(name=first.name, why=_why(first), status=status, stuck=stuck or reverted)


def _why(first: Earlier) -> str:
    state = first.state
    if state is None:
        return "which is not registered (`migronaut up` does it)"
    if first.required and state.direction is Direction.REVERT:
        return "which was reverted"
    if state.status is Status.FAILED:
        return f"which failed: {(state.last_error or 'no reason was kept').rstrip('.')}"
    if first.required:
        return f"which {'was' if state.status is Status.CANCELLED else 'is'} {state.status}"
    paused = " and is paused" if state.status is Status.PAUSED else ""
    return f"which makes version {_versions(state)[1]}{paused}"


def _comes_before(one: BackgroundState, other: BackgroundState) -> bool:
    """Whether ``one`` makes what ``other`` begins with, or what comes before that."""
    alike = ("collection", "version_field")
    if one.name == other.name or one.direction is not other.direction:
        return False
    if not (one.spec.versioned and other.spec.versioned):
        return False
    if any(getattr(one.spec, name) != getattr(other.spec, name) for name in alike):
        return False
    made, needed = _versions(one)[1], _versions(other)[0]
    return made <= needed if one.direction is Direction.FORWARD else made >= needed


def _versions(state: BackgroundState) -> tuple[int, int]:
    """What it begins with and what it makes."""
    low, high = state.spec.from_version or 0, state.spec.to_version or 0
    return (low, high) if state.direction is Direction.FORWARD else (high, low)


def _waits_for(one: BackgroundState, other: BackgroundState, states: States) -> bool:
    """Whether ``one`` has to wait for ``other``, over any number of others that are not through."""
    seen, to_see = {one.name}, [one]
    while to_see:
        each = to_see.pop()
        for first in _any_earlier(each, states):
            if first.name == other.name:
                return True
            if first.state is not None and not first.through and first.name not in seen:
                seen.add(first.name)
                to_see.append(first.state)
    return False


def _any_earlier(state: BackgroundState, states: States) -> tuple[Earlier, ...]:
    """Also those by version that would close a circle."""
    by_version = (each for each in states.values() if _comes_before(each, state))
    implied = (Earlier(name=each.name, state=each, required=False) for each in by_version)
    return (*earlier_by_file(state.requires, states), *implied)
