"""``background enqueue`` and ``background heal``: waking the workers of a queue."""

from __future__ import annotations

import click

from migronaut.cli.grouping import examples
from migronaut.cli.session import Session, pass_session
from migronaut.cli.worker import QUEUES, open_port
from migronaut.queueing import enqueue_background
from migronaut.queueing import heal as heal_hints

_queue = click.option("--queue", type=QUEUES, required=True, help="Which library's workers.")
_url = click.option("--broker-url", default=None, help="Default: MIGRONAUT_REDIS_URL or MIGRONAUT_BROKER_URL.")


@click.command(
    epilog=examples(
        "migronaut background enqueue --queue rq --broker-url redis://localhost/0",
        "migronaut background enqueue orders_shipping --queue dramatiq",
    )
)
@click.argument("name", required=False)
@_queue
@_url
@pass_session
def enqueue(session: Session, name: str | None, queue: str, broker_url: str | None) -> None:
    """Wake the workers for one migration, or for all active ones.

    One that was enqueued already, and is not through, absorbs this.
    """
    port = open_port(session, queue, broker_url)
    rows = enqueue_background(port, session.migrator, session.registered(name) if name else None)
    for row in rows:
        session.say(f"{row.migration}: {'enqueued already' if row.absorbed else 'enqueued'}")
    if not rows:
        session.say("No background migration has work to do.")
    session.answer({"enqueued": rows})


@click.command(epilog=examples("migronaut background heal --queue rq"))
@_queue
@_url
@pass_session
def heal(session: Session, queue: str, broker_url: str | None) -> None:
    """Send lost hints again. Workers do it by themselves; this is for cron, where none of ours runs."""
    healed = heal_hints(open_port(session, queue, broker_url), session.migrator)
    session.say(
        f"Sent again: {healed.sent}, given up: {healed.dropped}, started again: {healed.reopened}, "
        f"newly opened: {healed.opened}."
    )
    session.answer(healed)
