"""``init``, ``create``, ``up``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from migronaut.cli.session import Session, pass_session, whoami
from migronaut.cli.signals import stopping
from migronaut.cli.words import duration
from migronaut.errors import MigrationExistsError
from migronaut.files import create as create_file

_SETTINGS = """\
# Settings of migronaut. Flags and MIGRONAUT_* variables win over this file. Keep secrets in the environment.

# uri = "mongodb://localhost:27017/?replicaSet=rs0"
# db = "shop"
migrations_dir = "migrations"
# environment = "production"      # kept in the changelog
# lock_ttl = 60                   # seconds without a sign of life until a lock may be taken over
# lease_ttl = 60                  # the same for the lease of a lane
# on_lock_held = "error"          # or "wait"
# background_on_drift = "reopen"  # or "report"
"""


@click.command()
@pass_session
def init(session: Session) -> None:
    """Make the migrations directory and a commented migronaut.toml."""
    directory = Path(session.options.flags.get("migrations_dir", "migrations"))
    settings = session.options.config_file or Path("migronaut.toml")
    if settings.exists():
        raise MigrationExistsError(f"{settings} exists already and was left alone; edit it, or remove it first.")
    directory.mkdir(parents=True, exist_ok=True)
    text = _SETTINGS.replace('migrations_dir = "migrations"', f'migrations_dir = "{directory.as_posix()}"')
    settings.write_text(text, encoding="utf-8")
    session.say(f"Made {directory}/ and {settings}.")
    session.say(
        "next: set MIGRONAUT_URI and MIGRONAUT_DB (or edit the file), then `migronaut create NAME --background`"
    )
    session.answer({"migrations_dir": str(directory), "config": str(settings)})


@click.command(short_help="Create a migration file from a template.")
@click.argument("name")
@click.option("--background", is_flag=True, help="One that rewrites documents beside the application.")
@pass_session
def create(session: Session, name: str, *, background: bool) -> None:
    """Create a migration file called NAME from a template that explains itself.

    \b
    Examples:
      migronaut create "add email index"
      migronaut create "orders shipping" --background
    """
    directory = _directory(session)
    path = create_file(directory, name, background=background, now=datetime.now(UTC))
    session.say(f"Created {path}.")
    session.say("next: edit it, then run `migronaut up`")
    session.answer({"path": str(path)})


def _directory(session: Session) -> Path:
    """Creating a file needs no database, so a missing uri or db is no problem here."""
    needed = {"uri": "mongodb://unused", "db": "unused"}
    unconnected = session.with_flags(needed | dict(session.options.flags))
    return unconnected.config.migrations_dir


@click.command()
@click.argument("name", required=False)
@click.option("--by", default=None, help="Who asks; kept in the changelog. Default: user@host.")
@click.option("--reason", default=None, help="Why; kept in the changelog.")
@pass_session
def up(session: Session, name: str | None, by: str | None, reason: str | None) -> None:
    """Apply pending migrations in order, or the file NAME alone.

    Ordinary files run here and now. Background files are registered: `migronaut background run`, a
    worker or a thread of your application does their work.
    """
    with stopping(session.say) as stop:
        rows = session.migrator.up(name, stop=stop, requested_by=by or whoami(), reason=reason)
    for row in rows:
        session.say(f"{row.name}: {row.outcome} ({duration(row.duration)})")
        if row.advice:
            session.say(f"  hint: {row.advice}")
    if not rows:
        session.say("Nothing is pending.")
    if any(row.outcome == "registered" for row in rows):
        session.say("next: `migronaut background run`, or start workers: `migronaut worker --queue rq`")
    session.answer({"results": _rows(rows)})


def _rows(rows: Any) -> list[dict[str, Any]]:
    return [{"name": row.name, "outcome": row.outcome, "duration": round(row.duration, 3)} for row in rows]
