"""Groups of commands whose help is in chapters, and what a group says when no command was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from migronaut.display.writing import writing
from migronaut.errors import UsageError


def examples(*lines: str) -> str:
    """An epilog of commands to type, left as they are written."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


class Chapters(click.Group):
    """A group that lists its commands under headings, in the order in which people need them.

    Args:
        chapters: Heading to commands.
    """

    def __init__(self, *arguments: Any, chapters: Mapping[str, Sequence[click.Command]], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        # The group itself says what is missing (``require_command``): click would call its whole help an error.
        self.invoke_without_command, self.no_args_is_help = True, False
        self.subcommand_metavar = "COMMAND [ARGS]..."
        self._chapters = chapters
        for commands in chapters.values():
            for command in commands:
                self.add_command(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; one that a group of this group has is pointed to."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            for group in self.commands.values():
                if isinstance(group, click.Group) and args[0] in group.commands:
                    meant = f"{ctx.command_path} {group.name} {args[0]}"
                    raise UsageError(f"{error.format_message()} Did you mean `{meant}`?") from error
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; of an output that cannot be written, a sentence tells (Click would be silent)."""
        with writing():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the chapters into the help."""
        longest = max(len(name) for name in self.commands)
        for heading, commands in self._chapters.items():
            with formatter.section(heading):
                limit = formatter.width - longest - 6
                formatter.write_dl([(f"{each.name:<{longest}}", each.get_short_help_str(limit)) for each in commands])


def require_command(context: click.Context, *, as_json: bool) -> None:
    """Show the help to whoever gave no command.

    Raises:
        UsageError: A machine gave none.
        click.exceptions.Exit: The help was shown.
    """
    if context.invoked_subcommand is not None:
        return
    if as_json:
        raise UsageError(f"No command was given; `{context.command_path} --help` lists them.")
    click.echo(context.get_help(), err=True)
    context.exit(UsageError.exit_code)
