"""The buttons: pause, resume, cancel, retry, repin, unlock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from migronaut.cli.grouping import examples
from migronaut.cli.session import Session, pass_session, whoami
from migronaut.core.coordinator import FileFact
from migronaut.core.wording import plural
from migronaut.engine.operator.controls import Controlled
from migronaut.engine.operator.status import BackgroundStatus

Function = Callable[..., Any]


def _asked(function: Function) -> Function:
    """Who asks and why, for the history."""
    function = click.option("--reason", default=None, help="Why; kept in the history.")(function)
    function = click.option("--by", default=None, help="Who asks; kept in the history. Default: user@host.")(function)
    return click.argument("name")(function)


_REPINNED = "the file on disk is the registered one now"
_wait = click.option("--wait", is_flag=True, help="Until no lane works any more, two minutes at most.")
_yes = click.option("--yes", is_flag=True, help="Do not ask.")


def _request(by: str | None, reason: str | None) -> dict[str, str | None]:
    return {"requested_by": by or whoami(), "reason": reason}


def _going_on(status: BackgroundStatus) -> str:
    """Who goes on with a migration that has work to do, and what comes before."""
    name = status.name
    first = f"`migronaut background repin {name}`, then " if status.file == FileFact.CHANGED else ""
    enqueue = f"`migronaut background enqueue {name} --queue rq|dramatiq`"
    return f"{first}`migronaut background run {name}`, or {enqueue}; workers find it by themselves within half a minute"


def _tell(
    session: Session, done: Controlled, what: str, next_step: Callable[[BackgroundStatus], str] | None = None
) -> None:
    state = done.state
    session.say(f"{state.name}: {_happened(done, what)}")
    if not done.stopped:
        session.say(f"  lanes are still at work; `migronaut background status {state.name}` shows them")
    status = session.migrator.background.status(state.name)
    if status.notice:
        session.say(f"  warning: {status.notice}")
    if next_step and (done.changed or done.repinned):
        session.say(f"next: {next_step(status)}")
    session.answer(
        {
            "name": state.name,
            "status": state.status,
            "changed": done.changed or done.repinned,
            "repinned": done.repinned,
            "stopped": done.stopped,
            "lanes": done.lanes,
            "notice": status.notice,
        }
    )


def _happened(done: Controlled, what: str) -> str:
    status = done.state.status
    if done.changed:
        if what == _REPINNED:
            return f"{what}; it is {status}."
        also = f"{_REPINNED}; " if done.repinned else ""
        return f"{also}{what}; it is {status} now."
    if done.repinned:
        return f"{_REPINNED}; it is {status}, so that it needed no retry."
    return f"nothing to change, it is {status}{f': {done.note}' if done.note else ''}."


@click.command(
    short_help="Stop the lanes at their next batch; nothing is lost.",
    epilog=examples('migronaut background pause orders_shipping --reason "backup" --wait'),
)
@_asked
@_wait
@pass_session
def pause(session: Session, name: str, by: str | None, reason: str | None, *, wait: bool) -> None:
    """Stop the lanes at their next batch; nothing is lost."""
    name = session.registered(name)
    done = session.migrator.background.pause(name, wait=wait, **_request(by, reason))
    resumed = f"`migronaut background resume {name}` goes on"
    _tell(session, done, "its lanes stop at their next batch", lambda _: resumed)


@click.command(epilog=examples("migronaut background resume orders_shipping"))
@_asked
@pass_session
def resume(session: Session, name: str, by: str | None, reason: str | None) -> None:
    """Go on with a paused migration."""
    name = session.registered(name)
    done = session.migrator.background.resume(name, **_request(by, reason))
    _tell(session, done, "goes on where it was", _going_on)


@click.command(epilog=examples("migronaut background cancel orders_shipping --yes"))
@_asked
@_wait
@_yes
@pass_session
def cancel(session: Session, name: str, by: str | None, reason: str | None, *, wait: bool, yes: bool) -> None:
    """End a migration where it is; what was migrated stays migrated."""
    name = session.registered(name)
    session.confirm(
        f"Cancel {name}?",
        "Its lanes stop, what was migrated stays migrated, and `migronaut background retry` can take it up again.",
        yes=yes,
    )
    done = session.migrator.background.cancel(name, wait=wait, **_request(by, reason))
    again = f"`migronaut background retry {name}` takes it up again"
    _tell(session, done, "its lanes stop at their next batch", lambda _: again)


@click.command(
    short_help="Try again what failed or was cancelled.",
    epilog=examples(
        "migronaut background retry orders_shipping",
        "migronaut background retry orders_shipping --repin    # the file was mended",
        "migronaut background retry orders_shipping --from-start --yes",
    ),
)
@_asked
@click.option("--from-start", is_flag=True, help="Plan again from the first pass, with empty totals.")
@click.option("--repin", is_flag=True, help="Use the file as it is on disk now.")
@_yes
@pass_session
def retry(
    session: Session, name: str, by: str | None, reason: str | None, *, from_start: bool, repin: bool, yes: bool
) -> None:
    """Try again what failed, was cancelled, or completed with documents left out."""
    name = session.registered(name)
    if from_start:
        session.confirm(
            f"Start {name} again from its first pass?",
            "Its counters and the list of documents that were left out are forgotten; documents are left as they are.",
            yes=yes,
        )
    request = _request(by, reason)
    done = session.migrator.background.retry(name, from_start=from_start, repin=repin, **request)
    _tell(session, done, "will be tried again", _going_on)


@click.command(epilog=examples("migronaut background repin orders_shipping"))
@_asked
@pass_session
def repin(session: Session, name: str, by: str | None, reason: str | None) -> None:
    """Make the file as it is on disk the registered one."""
    name = session.registered(name)
    done = session.migrator.background.repin(name, **_request(by, reason))
    _tell(session, done, _REPINNED)


@click.command(
    short_help="Take the leases of lanes that hang.",
    epilog=examples("migronaut background unlock orders_shipping --yes"),
)
@click.argument("name")
@_yes
@pass_session
def unlock(session: Session, name: str, *, yes: bool) -> None:
    """Take the leases of lanes that hang; whoever holds one is fenced off at its next write."""
    name = session.registered(name)
    session.confirm(
        f"Take the leases of all lanes of {name}?",
        "Lanes that are alive are fenced off at their next write and lose that batch, which others do again.",
        yes=yes,
    )
    done = session.migrator.background.unlock(name)
    _tell(session, done, f"{plural(done.lanes, 'lease')} taken")


CONTROLS = (pause, resume, cancel)
HEALING = (retry, repin, unlock)
