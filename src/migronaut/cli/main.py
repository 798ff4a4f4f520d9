"""The entry: global options, and how every error ends: one sentence, its exit code, no traceback."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import click

from migronaut import __version__
from migronaut.cli.background import background
from migronaut.cli.demo import demo
from migronaut.cli.grouping import Chapters, require_command
from migronaut.cli.line import create, init, up
from migronaut.cli.session import GlobalOptions, Session
from migronaut.cli.worker import worker
from migronaut.core.ports import PortError
from migronaut.display.words import plain
from migronaut.display.writing import OutputError, writing
from migronaut.engine.speaking import spoken
from migronaut.errors import (
    MigronautError,
    RunAbortedError,
    UsageError,
    redact,
    without_credentials,
)

_EPILOG = """
\b
A first migration:
  migronaut init
  migronaut create "orders shipping" --background
  migronaut up
  migronaut background run

\b
Settings come from flags, then MIGRONAUT_* variables, then .env, then the
first of migronaut.toml, pyproject.toml ([tool.migronaut]) and
migronaut_config.py. `migronaut demo` needs none.
"""


@click.group(
    cls=Chapters,
    chapters={
        "Start": (demo, init, create),
        "Migrate": (up, background),
        "Workers of a queue": (worker,),
    },
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="migronaut")
@click.option("--uri", help="MongoDB, e.g. mongodb://localhost:27017/?replicaSet=rs0 (MIGRONAUT_URI).")
@click.option("--db", help="The database (MIGRONAUT_DB).")
@click.option("--dir", "migrations_dir", help="Where the migration files are; default: migrations.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="A configuration file, .toml or .py.")
@click.option("--env-file", type=click.Path(path_type=Path), help="Read instead of .env.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output; never asks.")
@click.option("--verbose", is_flag=True, help="Tracebacks; where functions of migrations raise.")
@click.option("--quiet", is_flag=True, help="Only errors.")
@click.option("--no-color", is_flag=True, help="Plain text.")
@click.pass_context
def cli(context: click.Context, /, uri: str | None, db: str | None, migrations_dir: str | None, **options: Any) -> None:
    """Change the documents of a live MongoDB without stopping the application."""
    flags = {"uri": uri, "db": db, "migrations_dir": migrations_dir}
    given = {name: value for name, value in flags.items() if value is not None}
    session = Session(GlobalOptions(flags=given, **options))
    context.obj = session
    context.call_on_close(session.close)
    require_command(context, as_json=session.options.as_json)


def main() -> None:
    """Run the command line and leave with its exit code."""
    flags, rest = global_flags(sys.argv[1:])
    try:
        with writing():
            code = cli.main([*flags, *rest], prog_name="migronaut", standalone_mode=False)
    except Exception as error:
        sys.exit(_failed(error, flags))
    sys.exit(code if isinstance(code, int) else 0)


_ANYWHERE = ("--json", "--verbose", "--quiet", "--no-color")


def global_flags(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Global flags, which may also stand behind the command, where people type them; and the rest.

    What follows ``--`` is never a flag.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    flags = [flag for flag in _ANYWHERE if flag in arguments[:end]]
    return flags, [*(each for each in arguments[:end] if each not in flags), *arguments[end:]]


def _failed(error: Exception, flags: Collection[str]) -> int:
    """Say what went wrong, for people or machines; the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    try:
        with writing():
            return _told(error, flags)
    except OutputError as unwritable:
        return _told(unwritable, ())


def _told(error: Exception, flags: Collection[str]) -> int:
    shown = _for_users(error)
    if "--verbose" in flags:
        click.echo(redact_lines("".join(traceback.format_exception(error))), err=True)
    if "--json" in flags and not isinstance(error, OutputError):
        context = dict(shown.context)
        results = context.pop("results", [])
        failure = {"code": shown.code, "message": shown.message, "context": context}
        told = json.dumps(plain({"error": failure, "results": results}), ensure_ascii=False, indent=2)
        click.echo(without_credentials(told))
    else:
        for row in shown.context.get("results", ()):
            click.echo(f"{row['name']}: {row['outcome']}", err=True)
        # What was typed in the wrong place is quoted, and may be a URI.
        click.echo(f"error: {without_credentials(shown.message)}", err=True)
    return shown.exit_code


def _for_users(error: Exception) -> MigronautError:
    if isinstance(error, MigronautError):
        return error
    if isinstance(error, click.ClickException):
        return UsageError(" ".join(error.format_message().split()))  # click lists choices on lines of their own
    if isinstance(error, click.Abort):
        return RunAbortedError("Interrupted; what was done before stays done.")
    if isinstance(error, PortError):
        return spoken(error)
    return MigronautError(
        f"Something unexpected went wrong ({type(error).__name__}: {redact(error)}); --verbose shows where."
    )


def redact_lines(text: str) -> str:
    """A traceback without secrets, line by line."""
    return "\n".join(" " * (len(line) - len(line.lstrip())) + redact(line) for line in text.splitlines())
