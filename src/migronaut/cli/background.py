"""``background``: run, look at, verify; the controls are in ``controls``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from migronaut.cli.controls import CONTROLS, HEALING
from migronaut.cli.grouping import Chapters, examples, require_command
from migronaut.cli.hints import enqueue, heal
from migronaut.cli.outcome import judge, nothing_active, tell
from migronaut.cli.running import Looker, work_and_show
from migronaut.cli.session import Session, pass_session
from migronaut.cli.signals import stopping
from migronaut.core.state import TERMINAL
from migronaut.display import panels
from migronaut.display.live import LiveProgress
from migronaut.errors import DriftFoundError

_WATCH = 1.0


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
    for lost in session.migrator.lost():
        session.say(f"warning: {lost.warning}")
    if not found:
        session.say("No background migration is registered; `migronaut up` registers pending ones.")
    elif name:
        session.show(panels.details(found[0]))
    else:
        session.show(panels.table(found))
    session.answer({"background": found, "passed_over": () if name else session.say_passed_over()})


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

    Any number of processes may do this at once, beside workers of a queue. One that waits for another
    one (`requires` in its file, or by its versions) says so, and is given up where that will not come.
    Ctrl-C stops at the next batch; run it again to go on.
    """
    migrations = session.migrator.background
    chosen = tuple(session.registered(name) for name in names) or migrations.active()
    if not chosen:
        nothing_active(session)
        return
    looker = Looker(migrations, chosen, attended=True)
    before = {each.name: each for each in looker.look()}
    with stopping(session.say) as stop:
        worked = work_and_show(session, looker, migrations, concurrency, stop, named=bool(names))
    tell(session, worked, before)
    judge(session, worked, before, named=bool(names), stopped=stop.is_set())
    session.answer({"background": worked.statuses})


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
            results=[
                {"name": each.migration, "outcome": "reopened" if each.reopened else "drift"} for each in found.drift
            ],
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
