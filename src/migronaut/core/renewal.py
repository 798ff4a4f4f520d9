"""Taking a migration up again (``retry``) and giving it another file (``repin``): one decision, and all that follows.

Both may be asked for at once, and what they do depends on the status. So there is one transition: from the state and
what is asked for to an explicit list of effects, which ``engine.operator.renewing`` carries out in its order.
"""

from __future__ import annotations

from attrs import frozen

from migronaut.core.coordinator import closed
from migronaut.core.lifecycle import Action, transition
from migronaut.core.state import BackgroundState, Status
from migronaut.errors import BackgroundConflictError


@frozen(kw_only=True)
class Difference:
    """What is different in the file on disk from the registered one, beside its text.

    Args:
        match: Which documents it matches.
        cut: That, or what partitions were cut by.
        requires: What it requires.
    """

    match: bool = False
    cut: bool = False
    requires: bool = False


@frozen(kw_only=True)
class Asked:
    """What an operator asks for, and what has to be known to answer.

    Args:
        retry: Take it up again.
        from_start: With a new plan and empty totals.
        file: What is different in the file that is to be registered; None = no other file is.
        nothing_left: Of a completed one: no document matches, and none was left out.
    """

    retry: bool = False
    from_start: bool = False
    file: Difference | None = None
    nothing_left: bool = False


@frozen(kw_only=True)
class Effects:
    """What follows, in this order. Without any, all stays as it is.

    Args:
        fence: No lane that works now may commit any more.
        reopen: Partitions that failed are to be worked again, from where they stand.
        action: What happens to the status.
        repin: The file on disk becomes the registered one.
        forget: Bad documents, errors and passes; what failed may lie behind a cursor, so that it takes one more pass.
        from_start: The plan and the totals go as well.
        replan: The pass is cut anew.
        look: Whether what it requires is through has to be looked at again.
    """

    fence: bool = False
    reopen: bool = False
    action: Action | None = None
    repin: bool = False
    forget: bool = False
    from_start: bool = False
    replan: bool = False
    look: bool = False


def effects_of(state: BackgroundState, asked: Asked) -> Effects:
    """Decide what a retry, a repin or both do to a migration.

    Raises:
        BackgroundConflictError: The status does not allow it.
    """
    action = _action(state, asked) if asked.retry else None
    file = asked.file
    if file is not None and not asked.retry and state.status is Status.COMPLETED and (file.match or file.requires):
        raise _never_ran(state, file)
    again, from_start = action is not None, action is not None and asked.from_start
    has_plan = state.plan is not None and not closed(state) and not from_start
    return Effects(
        fence=file is not None or from_start,
        reopen=again and has_plan,
        action=action,
        repin=file is not None,
        forget=again,
        from_start=from_start,
        replan=file is not None and file.cut and has_plan,
        look=again or (file is not None and file.requires and state.status in (Status.PENDING, Status.RUNNING)),
    )


def _action(state: BackgroundState, asked: Asked) -> Action | None:
    completed = state.status is Status.COMPLETED
    action = Action.REOPEN if completed else Action.RETRY
    if not transition(state.status, action).changed:
        return None
    return None if completed and asked.nothing_left and not asked.from_start else action


def _never_ran(state: BackgroundState, file: Difference) -> BackgroundConflictError:
    what = "matches other documents" if file.match else "requires other migrations"
    return BackgroundConflictError(
        f"{state.name} is completed, and the file as it is now {what} than the one that ran: "
        f"`migronaut background retry {state.name} --repin` runs it again with this file.",
        status=str(state.status),
        action="repin",
    )
