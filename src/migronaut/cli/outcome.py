"""How a ``background run`` ended: a line for each migration, and the error where not all that was asked for is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migronaut.background import Worked
from migronaut.cli.session import Session
from migronaut.core.advice import failure_text, mending, taking_up
from migronaut.core.order import Awaited, waiting_text
from migronaut.core.state import Status
from migronaut.core.wording import sentence
from migronaut.display import panels, words
from migronaut.engine.drive import Own
from migronaut.engine.operator.status import BackgroundStatus
from migronaut.errors import (
    BackgroundConflictError,
    BackgroundFailedError,
    BackgroundPendingError,
    InvalidMigrationError,
    NotRegisteredError,
    RunAbortedError,
)
from migronaut.migrator import Migrator

_AT_WORK = (Status.BLOCKED, Status.PENDING, Status.RUNNING)
_TO_TAKE_UP = (Status.PAUSED, Status.CANCELLED)
_MOST_NAMED = 5
Before = Mapping[str, BackgroundStatus]


def tell(session: Session, worked: Worked, before: Before) -> None:
    """A line of how each ended that no error tells."""
    error = worked.file_error()
    untold = {row["name"] for row in error.context["halted"]} if error else set()
    for each in worked.statuses:
        if each.name not in untold and each.status != Status.FAILED:
            _tell_one(session, each, before.get(each.name), worked.own.get(each.name, Own()))


def _tell_one(session: Session, status: BackgroundStatus, before: BackgroundStatus | None, own: Own) -> None:
    if before and before.status not in _AT_WORK and status.status == before.status:
        session.say(f"{status.name}: {status.status} already; possible now: {panels.buttons(status)}")
        return
    if status.awaited and not own.migrated:
        session.say(f"{status.name}: {status.status}, {waiting_text(status.awaited)}")
        return
    pace = f" ({words.number(round(own.migrated / own.seconds))} docs/s)" if own.migrated and own.seconds else ""
    alone = own.migrated == status.totals.migrated
    done = f"{words.plural(own.migrated, 'document')} migrated{'' if alone else ' here'}"
    others = "" if alone else f", {words.number(status.totals.migrated)} in all"
    session.say(f"{status.name}: {status.status}, {done} in {words.duration(own.seconds)}{pace}{others}")
    for warning in panels.warnings(status):
        session.say(f"  {warning}")
    if status.left_out:
        session.say(f"  {words.number(status.left_out)} left out; `migronaut background status {status.name}` says why")


def judge(session: Session, worked: Worked, before: Before, *, named: bool, stopped: bool) -> None:
    """See that all that was begun is completed.

    Args:
        before: How each stood; what is not there was begun by this call.
        named: The migrations were named, so that each of them was asked for.
        stopped: Somebody stopped the run.

    Raises:
        BackgroundFailedError, RunAbortedError, ChecksumMismatchError, BackgroundPendingError,
        BackgroundConflictError: The first of these that is true of one of them.
    """
    found = worked.statuses
    # People have read a line of each.
    results = [_outcome(each) for each in found] if session.options.as_json else []
    waiting = [each for each in found if any(one.stuck for one in each.awaited)]
    of_file = worked.file_error()
    failed = _failure(session.migrator, found, waiting)
    if failed:
        raise BackgroundFailedError(failed, results=results, **(of_file.context if of_file else {}))
    if stopped:
        raise RunAbortedError("Stopped on request; nothing is lost, run it again to go on.", results=results)
    if of_file:
        raise type(of_file)(of_file.message, results=results, **of_file.context)
    if waiting:
        raise BackgroundPendingError(" ".join(map(_waits, waiting)), results=results)
    for each in found:
        if named and each.status == Status.PAUSED and before[each.name].status == Status.PAUSED:
            raise BackgroundConflictError(_not_worked(each), results=results)
    for each in found:
        begun = each.name not in before or before[each.name].status in _AT_WORK
        if begun and each.status != Status.COMPLETED:
            raise RunAbortedError(_halted(each), results=results)


def nothing_active(session: Session) -> None:
    """Nothing can be worked; what somebody would have to do first is named.

    Raises:
        BackgroundFailedError, BackgroundConflictError, NotRegisteredError: There is something.
    """
    statuses = session.migrator.background.statuses()
    halted = [each for status in (Status.PAUSED, Status.FAILED) for each in statuses if each.status == status]
    rows = [_row(each.name, each.status) for each in halted]
    failed = _failure(session.migrator, halted, ())
    if failed:
        for each in halted:
            if each.status == Status.PAUSED:
                session.say(_not_worked(each))
        raise BackgroundFailedError(f"Nothing was worked. {failed}", halted=rows)
    if halted:
        raise BackgroundConflictError(" ".join(map(_not_worked, halted)), halted=rows)
    _refuse_before_up(session.migrator)
    session.say("No background migration has work to do.")
    session.answer({"background": [], "halted": []})


def _refuse_before_up(migrator: Migrator) -> None:
    lost = migrator.lost()
    if lost:
        raise NotRegisteredError(" ".join(sentence(each.warning) for each in lost), lost=[each.name for each in lost])
    pending = [name for name in migrator.pending() if _is_background(migrator, name)]
    if pending:
        raise NotRegisteredError(
            f"Nothing was worked: {', '.join(pending[:_MOST_NAMED])}{'…' if len(pending) > _MOST_NAMED else ''} "
            f"{'is' if len(pending) == 1 else 'are'} not registered yet; run `migronaut up` first.",
            pending=pending,
        )


def _is_background(migrator: Migrator, name: str) -> bool:
    try:
        return migrator.catalog.find(name) is not None
    except InvalidMigrationError:  # `up` says what is wrong with it
        return True


def _failure(migrator: Migrator, found: Sequence[BackgroundStatus], waiting: Sequence[BackgroundStatus]) -> str | None:
    """Why each of them failed, and the way on with the first; also one that was not asked for, but is waited for."""
    broken = [each for each in found if each.status == Status.FAILED]
    known = {each.name for each in found}
    held = {each.name: [one.name for one in _failed(each) if one.name not in known] for each in waiting}
    held = {name: roots for name, roots in held.items() if roots}
    if not broken and not held:
        return None
    told = [failure_text(each.name, each.last_error, each.errors) for each in broken]
    told += [f"{each.name} {sentence(waiting_text(_failed(each)))}" for each in waiting if each.name in held]
    first = broken[0] if broken else migrator.background.status(next(iter(held.values()))[0])
    then = " ".join([first.name] if broken else [first.name, *held])
    return f"{' '.join(told)} To go on, {mending(first.name, first.last_error)} and `migronaut background run {then}`."


def _failed(status: BackgroundStatus) -> list[Awaited]:
    return [each for each in status.awaited if each.status is Status.FAILED]


def _waits(status: BackgroundStatus) -> str:
    stuck = [each for each in status.awaited if each.stuck]
    ways = [taking_up(each.name, each.status) for each in stuck if each.status in _TO_TAKE_UP]
    return f"{status.name} {waiting_text(stuck)}{'; ' if ways else ''}{', '.join(ways)}."


def _not_worked(status: BackgroundStatus) -> str:
    return f"{status.name} is {status.status} and was not worked; {taking_up(status.name, Status(status.status))}."


def _halted(status: BackgroundStatus) -> str:
    return (
        f"{status.name} is not completed: somebody stepped in, it is {status.status} now. Nothing is lost; "
        f"possible now: {panels.buttons(status)}."
    )


def _outcome(status: BackgroundStatus) -> dict[str, str]:
    waiting = waiting_text(status.awaited) if status.awaited else None
    told = {"error": status.last_error, "notice": status.notice, "waiting": waiting}
    return _row(status.name, status.status) | {key: text for key, text in told.items() if text}


def _row(name: str, outcome: str) -> dict[str, str]:
    return {"name": name, "outcome": outcome}
