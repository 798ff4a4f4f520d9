"""One call of the command line: its options, its configuration, and where its answers go."""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import click
from attrs import frozen
from rich.console import RenderableType

from migronaut.config import Config, Project, locate, read_environment, resolve
from migronaut.core.wording import did_you_mean
from migronaut.display.words import plain
from migronaut.display.writing import Lines
from migronaut.errors import MigrationNotFoundError, NotRegisteredError, UsageError
from migronaut.files import Passed
from migronaut.migrator import APP, Migrator, migrator_of

_MOST = 10
_PLACES = {"uri": "--uri", "db": "--db", "migrations_dir": "--dir"}


@frozen(kw_only=True)
class GlobalOptions:
    """What stands before the command."""

    flags: Mapping[str, Any]
    config_file: Path | None
    env_file: Path | None
    as_json: bool
    quiet: bool
    verbose: bool
    no_color: bool


class Session:
    """Options, configuration and output of one call. With ``--json`` people's text goes to standard error."""

    def __init__(self, options: GlobalOptions) -> None:
        self.options = options
        colour: dict[str, Any] = {"no_color": True} if options.no_color else {}
        # A machine's standard error gets plain lines, never panels that are redrawn.
        plain_lines: dict[str, Any] = {"force_terminal": False} if options.as_json else {}
        self.console = Lines(stderr=options.as_json, quiet=options.quiet, highlight=False, **colour, **plain_lines)

    @cached_property
    def config(self) -> Config:
        """The resolved configuration."""
        return resolve(**self._places())

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """The environment with ``.env`` filled in, for the variables of the queues."""
        return read_environment(dict(os.environ), cwd=Path.cwd(), env_file=self.options.env_file)

    @cached_property
    def migrator(self) -> Migrator:
        """The migrator of this call: the application's own, where ``MIGRONAUT_APP`` names one, as in its workers.

        Raises:
            UsageError: Flags that would be ignored beside that.
            ConfigInvalidError: The configuration, or the application's function, has a problem.
        """
        if not self.environment.get(APP):
            return Migrator(self.config)
        ignored = [flag for name, flag in _PLACES.items() if self.options.flags.get(name) is not None]
        ignored += ["--config"] if self.options.config_file is not None else []
        if ignored:
            raise UsageError(
                f"{APP} is set: the application says which database and which files, and {', '.join(ignored)} would be "
                f"ignored. Leave that out, or unset {APP}."
            )
        return migrator_of(self.environment)

    @cached_property
    def project(self) -> Project:
        """Where the files are, for what needs no database."""
        if self.environment.get(APP):
            config = self.migrator.config
            return Project(migrations_dir=config.migrations_dir, project_dir=config.project_dir)
        return locate(**self._places())

    def _places(self) -> dict[str, Any]:
        options = self.options
        return {
            "flags": options.flags,
            "env": dict(os.environ),
            "cwd": Path.cwd(),
            "config_file": options.config_file,
            "env_file": options.env_file,
        }

    def close(self) -> None:
        """Close the connection, if there is one."""
        if "migrator" in self.__dict__:
            self.migrator.close()

    def say(self, text: str) -> None:
        """One line for people."""
        self.console.print(text, markup=False, soft_wrap=True)

    def show(self, view: RenderableType) -> None:
        """A table or a panel for people; a machine has its document."""
        if not self.options.as_json:
            self.console.print(view)

    def answer(self, value: Any) -> None:
        """The one JSON document of a ``--json`` call; nothing otherwise."""
        if self.options.as_json:
            click.echo(json.dumps(plain(value), ensure_ascii=False, indent=2))

    def say_passed_over(self) -> tuple[Passed, ...]:
        """One line of the files that are no migrations, where somebody might think so; they are returned."""
        try:
            found = self.migrator.catalog.directory.passed_over()
        except MigrationNotFoundError:  # who only looks at states needs no files
            return ()
        told = [f"{each.name} ({each.reason})" for each in found]
        if told:
            self.say(
                f"passed over: {', '.join(told[:_MOST])}{f' and {len(told) - _MOST} more' if told[_MOST:] else ''}"
            )
        return found

    def confirm(self, question: str, consequence: str, *, yes: bool) -> None:
        """Ask before something that nobody should do by accident.

        Args:
            consequence: What it does, in a sentence.
            yes: The answer was given with the command.

        Raises:
            UsageError: The answer was no, or nobody can be asked and ``--yes`` was not given.
        """
        if yes:
            return
        if self.options.as_json or not os.isatty(0):
            raise UsageError(f"{question} {consequence} There is nobody to ask here: add --yes to do it.")
        if not click.confirm(f"{consequence}\n{question}", err=True):
            raise UsageError("Nothing was done.")

    def registered(self, given: str) -> str:
        """The one registered background migration that a name, or a part of one, means.

        Raises:
            NotRegisteredError, UsageError: None, or several.
        """
        names = self.migrator.background.names()
        name = meant(given, names)
        if name is not None:
            return name
        lost = {each.name: each for each in self.migrator.lost()}
        name = meant(given, tuple(lost))
        if name is not None:
            raise NotRegisteredError(f"{lost[name].warning}.", migration=name)
        raise NotRegisteredError(
            f"No background migration {given!r} is registered in this database; `migronaut background status` lists "
            f"them, `migronaut up` registers pending ones.{did_you_mean(given, names)}",
            migration=given,
        )

    def file(self, given: str) -> str:
        """The one migration file that a name, or a part of one, means.

        Raises:
            MigrationNotFoundError, UsageError: None, or several.
        """
        names = self.migrator.catalog.names()
        name = meant(given, names)
        if name is not None:
            return name
        raise MigrationNotFoundError(
            f"There is no migration {given!r} in {self.project.migrations_dir}; check the name, or --dir."
            f"{did_you_mean(given, names)}",
            name=given,
        )


def meant(given: str, names: Sequence[str]) -> str | None:
    """The name that is given exactly, without ``.py``, or by a part that no other one has.

    Raises:
        UsageError: Several have it.
    """
    for exact in (given, f"{given}.py"):
        if exact in names:
            return exact
    found = [name for name in names if given in name]
    if len(found) > 1:
        raise UsageError(f"{given!r} means several migrations ({', '.join(found[:5])}); give more of the name.")
    return found[0] if found else None


def whoami() -> str:
    """Who asks, unless ``--by`` says otherwise."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


pass_session = click.make_pass_decorator(Session)
