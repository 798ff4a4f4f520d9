"""``background``: run, look at, verify; the controls are in ``controls``."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

import click

from migronaut.background import BackgroundMigrations
from migronaut.cli.controls import CONTROLS, HEALING
from migronaut.cli.grouping import Chapters, examples, require_command
from migronaut.cli.hints import enqueue, heal
from migronaut.cli.running import Looker, work_and_show
from migronaut.cli.session import Session, pass_session
from migronaut.cli.signals import stopping
from migronaut.core.coordinator import failure_text, mending
from migronaut.core.state import TERMINAL, Status
from migronaut.display import panels, words
from migronaut.display.live import LiveProgress
from migronaut.engine.operator.status import BackgroundStatus
from migronaut.engine.stopping import StopEvent
from migronaut.errors import BackgroundFailedError, ChecksumMismatchError, DriftFoundError, RunAbortedError

_WATCH = 1.0
_AT_WORK = (Status.BLOCKED, Status.PENDING, Status.RUNNING)


@click.command(
    short_help="How far, how fast, who works, what failed.",
    epilog=examples(
        "migronaut background status",
        "migronaut background status orders_shipping --watch",
        "migronaut --json background status",
    ),
)
@click.argument("name", required=False)
@click.option("--watch", is_flag=True, help="Look again every second until it has ended.")
@pass_session
def status(session: Session, name: str | None, *, watch: bool) -> None:
    """Show one migration, or all of them: how far, how fast, who works, what failed."""
    migrations = session.migrator.background
    names = (session.registered(name),) if name else migrations.names()
    looker = Looker(migrations, names)
    if watch and names:
        _watch(session, looker)
    found = looker.look()
    if not found:
        session.say("No background migration is registered; `migronaut up` registers pending ones.")
    elif name:
        session.show(panels.details(found[0]))
    else:
        session.show(panels.table(found))
    session.answer({"background": found})


def _watch(session: Session, looker: Looker) -> None:
    with stopping(session.say) as stop, LiveProgress(session.console) as live:
        found = looker.look()
        while not stop.is_set() and any(each.status not in TERMINAL for each in found):
            live.update(*found)
            stop.wait(_WATCH)
            found = looker.look()


@click.command(
    short_help="Work migrations to their end here and now.",
    epilog=examples("migronaut background run", "migronaut background run orders_shipping --concurrency 4"),
)
@click.argument("names", nargs=-1)
@click.option("--concurrency", type=click.IntRange(1, 64), default=1, show_default=True, help="Lanes of this process.")
@pass_session
def run(session: Session, names: tuple[str, ...], concurrency: int) -> None:
    """Work migrations to their end here and now: those named, or all active ones.

    Any number of processes may do this at once, beside workers of a queue. Ctrl-C stops at the next
    batch; run it again to go on.
    """
    migrations = session.migrator.background
    chosen = tuple(session.registered(name) for name in names) or migrations.active()
    if not chosen:
        _nothing_active(session, migrations)
        return
    began = time.monotonic()
    looker = Looker(migrations, chosen, attended=True)
    before = {each.name: each for each in looker.look()}
    held: ChecksumMismatchError | None = None
    with stopping(session.say) as stop:
        try:
            work_and_show(session, looker, migrations, concurrency, stop)
        except ChecksumMismatchError as error:  # the others were worked; it is raised when they have been told
            held = error
    found = looker.look()
    untold = {row["name"] for row in held.context["halted"]} if held else set()
    for each in found:
        if each.name not in untold:
            _ended(session, each, before[each.name], time.monotonic() - began)
    begun = {name for name, each in before.items() if each.status in _AT_WORK}
    _judge(session, found, stop, begun=begun, held=held)
    session.answer({"background": found})


def _nothing_active(session: Session, migrations: BackgroundMigrations) -> None:
    """Nothing can be worked; what somebody would have to take up first is named.

    Raises:
        BackgroundFailedError: A migration has failed before.
    """
    statuses = migrations.statuses()
    paused = [each for each in statuses if each.status == Status.PAUSED]
    failed = [each for each in statuses if each.status == Status.FAILED]
    for each in paused:
        session.say(
            f"{each.name} was not worked: it is paused; `migronaut background resume {each.name}` goes on with it"
        )
    halted = [_row(each.name, each.status) for each in (*paused, *failed)]
    if failed:
        raise BackgroundFailedError(f"Nothing was worked. {_failure(failed)}", halted=halted)
    if not paused:
        session.say("No background migration has work to do.")
    session.answer({"background": [], "halted": halted})


def _ended(session: Session, status: BackgroundStatus, before: BackgroundStatus, seconds: float) -> None:
    if before.status not in _AT_WORK and status.status == before.status:
        session.say(f"{status.name}: {status.status} already; possible now: {panels.buttons(status)}")
        return
    if status.status == Status.FAILED:
        return  # the error of this call tells it, once
    migrated = status.totals.migrated - before.totals.migrated
    pace = f" ({words.number(round(migrated / seconds))} docs/s)" if migrated else ""
    session.say(
        f"{status.name}: {status.status}, {words.plural(migrated, 'document')} migrated in "
        f"{words.duration(seconds)}{pace}"
    )
    if status.left_out:
        session.say(f"  {words.number(status.left_out)} left out; `migronaut background status {status.name}` says why")


def _judge(
    session: Session,
    found: Sequence[BackgroundStatus],
    stop: StopEvent,
    *,
    begun: Collection[str],
    held: ChecksumMismatchError | None,
) -> None:
    """No error when all that was begun is completed."""
    # People have read a line of each.
    results = [_outcome(each) for each in found] if session.options.as_json else []
    broken = [each for each in found if each.status == "failed"]
    if broken:
        raise BackgroundFailedError(_failure(broken), results=results, **(held.context if held else {}))
    if stop.is_set():
        raise RunAbortedError("Stopped on request; nothing is lost, run it again to go on.", results=results)
    if held:
        raise ChecksumMismatchError(held.message, results=results, **held.context)
    halted = [each for each in found if each.name in begun and each.status != Status.COMPLETED]
    if halted:
        raise RunAbortedError(
            f"{halted[0].name} is not completed: somebody stepped in, it is {halted[0].status} now. Nothing is lost; "
            f"possible now: {panels.buttons(halted[0])}.",
            results=results,
        )


def _failure(broken: Sequence[BackgroundStatus]) -> str:
    """Why each of them failed, and the way on with the first."""
    first = broken[0]
    told = " ".join(failure_text(each.name, each.last_error, each.errors) for each in broken)
    way_on = mending(first.name, first.last_error)
    return f"{told} To go on, {way_on} and `migronaut background run {first.name}`."


def _outcome(status: BackgroundStatus) -> dict[str, str]:
    told = {"error": status.last_error, "notice": status.notice}
    return _row(status.name, status.status) | {key: text for key, text in told.items() if text}


def _row(name: str, outcome: str) -> dict[str, str]:
    return {"name": name, "outcome": outcome}


@click.command(
    short_help="Look for documents of the old shape.",
    epilog=examples("migronaut background verify    # exit code 31 when there are some"),
)
@pass_session
def verify(session: Session) -> None:
    """Look for documents of the old shape in collections whose migration completed."""
    found = session.migrator.background.verify()
    for name in found.checked:
        session.say(f"{name}: {_verdict(name, found.drift)}")
    for name, reason in found.skipped:
        session.say(f"{name}: not looked at: {reason}")
    if found.skipped and not found.checked:
        session.say("Nothing was looked at.")
    if not found.checked and not found.skipped:
        session.say("No completed background migration is there to verify.")
    if found.drift:
        names = ", ".join(each.migration for each in found.drift)
        next_step = "it was reopened" if found.drift[0].reopened else "`migronaut background retry` runs it again"
        raise DriftFoundError(
            f"Documents of the old shape exist again ({names}): {next_step}. Is an old release still writing?",
            results=[_row(each.migration, "reopened" if each.reopened else "drift") for each in found.drift],
        )
    session.answer(found)


def _verdict(name: str, drift: Sequence[Any]) -> str:
    return "old-shape documents exist" if any(each.migration == name for each in drift) else "clean"


@click.group(
    cls=Chapters,
    chapters={
        "Work and look": (run, status, verify),
        "Control": CONTROLS,
        "Put right": HEALING,
        "Workers of a queue": (enqueue, heal),
    },
    short_help="Look at, run and control background migrations.",
    epilog=examples(
        "migronaut background run --concurrency 4",
        "migronaut background status orders_shipping --watch",
        'migronaut background pause orders_shipping --reason "backup"',
        "migronaut background retry orders_shipping --repin",
    ),
)
@click.pass_context
def background(context: click.Context) -> None:
    """Background migrations: rewrite documents beside the running application.

    NAME is a file name, with or without .py, or any part of it that means one migration.
    """
    require_command(context, as_json=context.ensure_object(Session).options.as_json)
