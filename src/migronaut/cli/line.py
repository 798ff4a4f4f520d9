"""``init``, ``create``, ``up``."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import click

from migronaut.cli.grouping import examples
from migronaut.cli.session import Session, pass_session, whoami
from migronaut.cli.signals import stopping
from migronaut.cli.worker import installed
from migronaut.display.words import duration
from migronaut.errors import MigrationExistsError, UsageError
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


@click.command(epilog=examples("migronaut init", "migronaut --dir db/migrations init"))
@pass_session
def init(session: Session) -> None:
    """Make the migrations directory and a commented migronaut.toml."""
    settings = session.options.config_file or Path("migronaut.toml")
    directory = Path(session.options.flags.get("migrations_dir", settings.parent / "migrations"))
    if settings.suffix != ".toml":
        raise UsageError(f"{settings} cannot be made: --config of init must name a .toml file.")
    if settings.exists():
        raise MigrationExistsError(f"{settings} exists already and was left alone; edit it, or remove it first.")
    try:
        settings.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(parents=True, exist_ok=True)
        with settings.open("x", encoding="utf-8") as file:
            file.write(_settings(directory, seen_from=settings.parent))
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be made ({error.strerror}); give another place.") from error
    session.say(f"Made {directory}/ and {settings}.")
    session.say(
        "next: set MIGRONAUT_URI and MIGRONAUT_DB (or edit the file), then `migronaut create NAME --background`"
    )
    session.answer({"migrations_dir": str(directory), "config": str(settings)})


def _settings(directory: Path, *, seen_from: Path) -> str:
    """The text of the file; a relative directory in it counts from where the file is."""
    place = directory if directory.is_absolute() else Path(os.path.relpath(directory, seen_from))
    quoted = json.dumps(place.as_posix(), ensure_ascii=False)  # what JSON escapes, TOML does alike
    return _SETTINGS.replace('"migrations"', quoted)


@click.command(
    short_help="Create a migration file from a template.",
    epilog=examples('migronaut create "add email index"', 'migronaut create "orders shipping" --background'),
)
@click.argument("name")
@click.option("--background", is_flag=True, help="One that rewrites documents beside the application.")
@pass_session
def create(session: Session, name: str, *, background: bool) -> None:
    """Create a migration file called NAME from a template that explains itself.

    Beside its body or its `background`, a file may have `requires = ["an_earlier_background_file.py"]`:
    what must be through first.
    """
    path = create_file(session.project.migrations_dir, name, background=background, now=datetime.now(UTC))
    session.say(f"Created {path}.")
    session.say("next: edit it, then run `migronaut up`")
    session.answer({"path": str(path)})


@click.command(
    epilog=examples("migronaut up", 'migronaut up orders_shipping --reason "release 12"', "migronaut --json up")
)
@click.argument("name", required=False)
@click.option("--by", default=None, help="Who asks; kept in the changelog. Default: user@host.")
@click.option("--reason", default=None, help="Why; kept in the changelog.")
@click.option("--yes", is_flag=True, help="Register again what was registered, and whose state is lost.")
@pass_session
def up(session: Session, name: str | None, by: str | None, reason: str | None, *, yes: bool) -> None:
    """Apply pending migrations in order, or the file NAME alone.

    Ordinary files run here and now. Background files are registered: `migronaut background run`, a
    worker or a thread of your application does their work. Ctrl-C stops after the current file.

    What a file names in `requires = ["an_earlier_background_file.py"]` must be through first: an
    ordinary file is not run before, a background one waits. Those that follow each other by their
    versions on one collection wait without it.
    """
    chosen = session.file(name) if name else None
    lost = session.migrator.lost()
    for gone in () if yes else lost:
        session.say(f"warning: {gone.warning}")
    with stopping(session.say) as stop:
        rows = session.migrator.up(chosen, stop=stop, requested_by=by or whoami(), reason=reason, restore=yes)
    for row in rows:
        session.say(f"{row.name}: {row.outcome} ({duration(row.duration)})")
        if row.advice:
            session.say(f"  hint: {row.advice}")
    if not rows:
        session.say("Nothing is pending.")
    if any(row.outcome == "registered" for row in rows):
        workers = " or ".join(f"`migronaut worker --queue {queue}`" for queue in installed())
        session.say("next: `migronaut background run`" + (f", or start workers: {workers}" if workers else ""))
    altered = session.migrator.altered()
    for each in altered:
        session.say(f"warning: {each.warning}")
    passed_over = session.say_passed_over()
    session.answer({"results": rows, "altered": altered, "lost": () if yes else lost, "passed_over": passed_over})
