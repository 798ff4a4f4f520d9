"""What an operator sees of background migrations: panels, tables, lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from migronaut.core.advice import mending
from migronaut.core.coordinator import FileFact
from migronaut.core.order import waiting_text
from migronaut.core.progress import UNATTENDED
from migronaut.core.state import TERMINAL, Status
from migronaut.display import words
from migronaut.engine.operator.status import BackgroundStatus

_COLOURS = {
    "blocked": "yellow",
    "pending": "cyan",
    "running": "blue",
    "paused": "yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "magenta",
}
_BUTTONS = {
    "blocked": ("pause", "cancel"),
    "pending": ("run", "enqueue", "pause", "cancel"),
    "running": ("run", "pause", "cancel", "unlock"),
    "paused": ("resume", "cancel"),
    "completed": ("verify", "retry"),
    "failed": ("retry", "retry --repin"),
    "cancelled": ("retry",),
}
_LAST_ACTIONS = 5


def panel(status: BackgroundStatus) -> RenderableType:
    """The short view of one migration: bar, how far, how fast, who works."""
    colour = _COLOURS[status.status]
    progress = status.progress
    bar = ProgressBar(total=100, completed=progress.percent, width=None, complete_style=colour, finished_style=colour)
    rows = Table.grid(padding=(0, 2))
    rows.add_row(
        Text(f"{progress.percent:5.1f} %", style="bold"),
        words.amount(progress),
        words.pace(progress),
        Text(_time_left(status), style="dim"),
    )
    whole_width = Table.grid(expand=True)
    whole_width.add_row(bar)
    parts: list[RenderableType] = [whole_width, rows]
    if status.leases:
        parts.append(_lanes(status))
    parts += [Text(warning, style="yellow") for warning in warnings(status)]
    this_pass = f"  pass {status.pass_number}" if status.pass_number else ""
    title = Text.assemble((status.name, "bold"), "  ", (status.status, colour), this_pass)
    return Panel(Group(*parts), title=title, title_align="left", subtitle=_subtitle(status), subtitle_align="left")


def _time_left(status: BackgroundStatus) -> str:
    """The time left, or why there is none where neither the status nor a warning says so already."""
    note = status.progress.note
    told = status.awaited or note in (status.status, UNATTENDED)
    return "" if told else words.time_left(status.progress)


def warnings(status: BackgroundStatus) -> list[str]:
    """What holds it up, or once did, and what to do about it."""
    told = [each for each in (status.notice, status.note) if each]
    if status.awaited:
        told.append(waiting_text(status.awaited))
    elif status.status == Status.RUNNING and status.progress.note == UNATTENDED:
        told.append(f"{UNATTENDED}; `migronaut background run {status.name}` or a worker goes on")
    return told


def _subtitle(status: BackgroundStatus) -> Text:
    totals = status.totals
    facts = [f"{words.number(totals.migrated)} migrated"]
    facts += [f"{words.number(totals.retried)} tried again"] if totals.retried else []
    facts += [f"{words.plural(totals.reclaims, 'lane')} lost"] if totals.reclaims else []
    facts += [f"{words.number(status.left_out)} left out"] if status.left_out else []
    return Text(", ".join(facts), style="dim")


def _lanes(status: BackgroundStatus) -> RenderableType:
    lanes = Text("lanes  ", style="dim")
    for lease in sorted(status.leases, key=lambda each: each.slot):
        lanes.append(f"#{lease.slot}", style="bold")
        lanes.append(f" pid {lease.pid}  ", style="dim")
    lanes.append(f"({len(status.leases)} of {status.max_parallel})", style="dim")
    return lanes


def details(status: BackgroundStatus) -> RenderableType:
    """The whole operator's view of one migration."""
    parts: list[RenderableType] = [panel(status), _facts(status)]
    if status.errors:
        parts.append(_document_errors(status))
    if status.partition_errors:
        parts.append(_partition_errors(status))
    history = Table("when", "action", "now", "by", "why", title="history (latest)", title_justify="left", box=None)
    for entry in status.history[-_LAST_ACTIONS:]:
        when = f"{entry.at:%Y-%m-%d %H:%M:%S}"
        history.add_row(when, str(entry.action), str(entry.to_status), Text(entry.by or ""), Text(entry.reason or ""))
    parts.append(history)
    parts.append(Text(f"now possible: {buttons(status)}", style="dim"))
    return Group(*parts)


def _document_errors(status: BackgroundStatus) -> RenderableType:
    """One row for all that failed alike, the latest last."""
    latest = f"documents that failed (latest {len(status.errors)})"
    errors = Table("documents", "last", "kind", "what", title=latest, title_justify="left", box=None)
    counts = Counter((error.kind, error.message) for error in status.errors)
    last = {(error.kind, error.message): error.at for error in status.errors}
    for (kind, message), at in sorted(last.items(), key=lambda each: each[1]):
        errors.add_row(str(counts[kind, message]), f"{at:%Y-%m-%d %H:%M:%S}", kind, Text(message))
    return errors


def _partition_errors(status: BackgroundStatus) -> RenderableType:
    raised = Table("partition", "slices that raised", "last error", title="partitions", title_justify="left", box=None)
    for error in status.partition_errors:
        how = f"{error.failures} in a row{', given up' if error.failed else ''}"
        raised.add_row(str(error.partition), how, Text(error.message))
    return raised


def buttons(status: BackgroundStatus) -> str:
    """The commands that make sense now."""
    first = ("repin",) if status.file == FileFact.CHANGED and status.status not in TERMINAL else ()
    return ", ".join(f"background {word}" for word in (*first, *_BUTTONS[status.status]))


def _facts(status: BackgroundStatus) -> RenderableType:
    facts = Table.grid(padding=(0, 2))
    facts.add_row("description", Text(status.description or "-"))
    how = "by a pipeline on the server" if status.by_pipeline else "by a function"
    facts.add_row("collection", f"{status.collection} ({status.direction}, {how})")
    counts = ", ".join(f"{count} {name}" for name, count in status.partitions.items() if count)
    if counts:
        facts.add_row("partitions", f"{counts} (plan {status.generation}, {status.plan_method})")
    if status.degraded:
        facts.add_row("plan is coarse", status.degraded)
    for lease in status.leases:
        facts.add_row(f"lane {lease.slot}", Text(f"{lease.owner} pid {lease.pid} on {lease.host}"))
    totals = status.totals
    facts.add_row(
        "documents",
        f"{words.number(totals.migrated)} migrated, {words.number(totals.skipped)} skipped, "
        # Not the counter of failures: it also counts those that a retry has put right since.
        f"{words.number(totals.conflicts)} in conflict, {words.number(status.left_out)} left out",
    )
    if status.last_error:
        facts.add_row(Text("last error", style="red"), Text(status.last_error))
    if status.status == Status.FAILED:
        facts.add_row("to go on", Text(mending(status.name, status.last_error)))
    return facts


def table(statuses: Sequence[BackgroundStatus]) -> RenderableType:
    """All migrations, two lines each: a long file name stays whole on a narrow terminal."""
    return Group(*(part for status in statuses for part in _two_lines(status)))


def _two_lines(status: BackgroundStatus) -> tuple[RenderableType, ...]:
    colour, progress = _COLOURS[status.status], status.progress
    name = Text.assemble((status.name, "bold"), "  ", (status.status, colour))
    if status.left_out:
        name.append(f"  {words.number(status.left_out)} left out", style="yellow")
    bar = ProgressBar(total=100, completed=progress.percent, width=12, complete_style=colour, finished_style=colour)
    left = _time_left(status)
    facts = [words.amount(progress), words.pace(progress), left]
    rows = Table.grid(padding=(0, 1))
    rows.add_row("", bar, Text(", ".join(fact for fact in facts if fact)))
    return name, rows, *(Text(f"  {warning}", style="yellow") for warning in warnings(status))


def line(status: BackgroundStatus) -> str:
    """One migration on one line, for logs."""
    progress = status.progress
    left = _time_left(status)
    known = [f"{progress.percent:.1f} %", words.amount(progress), words.pace(progress), left]
    lanes = words.plural(len(status.leases), "lane") if status.leases else ""
    return f"{status.name}: {status.status}, " + ", ".join(each for each in [*known, lanes] if each)
