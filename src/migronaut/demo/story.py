"""What the demo prints, but for the live progress."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table

from migronaut.core.wording import times
from migronaut.demo.options import IMPATIENT, QueueKind
from migronaut.demo.processes import WorkerCommand
from migronaut.demo.project import NAME, Pace
from migronaut.demo.proof import Proof
from migronaut.demo.servers import Place
from migronaut.demo.watching import Kill, Watched
from migronaut.display.words import number
from migronaut.engine.operator.status import BackgroundStatus

_THEME = "ansi_dark"
_QUEUE_NAMES = {QueueKind.RQ: "RQ", QueueKind.DRAMATIQ: "Dramatiq"}


class Story:
    """The lines of a demo, in their order."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str, style: str | None = None) -> None:
        """One paragraph as it is: no markup is read from it; only a terminal breaks it into lines."""
        soft_wrap = not self._console.is_terminal
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=soft_wrap)

    def _head(self, text: str) -> None:
        self.say("")
        self.say(text, "bold")

    def seeded(self, documents: int, seconds: float, place: Place, *, embedded: bool) -> None:
        """The servers are there, and the orders in them."""
        where = "MongoDB from the wheel" if embedded else "your MongoDB server"
        broker = ", Valkey from the wheel" if place.broker_url else ""
        self._head(f"1. A shop with {number(documents)} orders")
        self.say(f"Seeded in {seconds:.1f} s into the database {place.db} ({where}{broker}).")

    def registered(self, source: str, pace: Pace) -> None:
        """The migration file, and what `up` did with it."""
        self._head(f"2. A migration file: {NAME}")
        code = Syntax(source, "python", theme=_THEME, background_color="default", word_wrap=True)
        self._console.print(Padding(code, (0, 0, 0, 2)))
        self.say("migronaut up has registered it; no order is changed yet.")
        self.say(
            f"Batches of {pace.batch_size} orders, and a pause of {pace.pause:g} s after each: "
            "slower than need be, so that there is something to watch."
        )

    def started(self, queue: QueueKind, command: WorkerCommand, workers: int) -> None:
        """The workers, and what makes them notice soon that one is gone."""
        by = f" of {_QUEUE_NAMES[queue]}" if queue in _QUEUE_NAMES else ""
        self._head(f"3. {workers} worker processes{by}, beside an application that goes on writing orders")
        self.say(f"Each is: {command.shown}")
        self.say(
            f"In this demo a lane counts as lost after {IMPATIENT['lease_ttl']:g} s without a sign of life "
            "(lease_ttl; usually 60)."
        )

    def ended(self, watched: Watched, proof: Proof, application_error: str | None) -> None:
        """Totals and proofs."""
        self._head("4. What is in the collection now")
        self._totals(watched.status)
        self._recovery(watched.kill)
        once, expected = number(proof.migrated_once), number(proof.expected)
        self._check(
            f"{once} of {expected} orders migrated exactly once, as their revisions say.",
            good=proof.migrated_once == proof.expected == proof.present,
        )
        there, writes = number(proof.writes - proof.lost_writes), number(proof.writes)
        self._check(
            f"{there} of {writes} writes of the application are there; {number(proof.lost_writes)} lost.",
            good=not proof.lost_writes and application_error is None,
        )

    def _totals(self, status: BackgroundStatus) -> None:
        totals = status.totals
        seconds = self._seconds(status)
        pace = number(round(totals.migrated / max(seconds, 0.001)))
        self.say(
            f"  {number(totals.migrated)} orders in {seconds:.1f} s, {pace} a second, pauses included; "
            f"{number(totals.batches)} batches."
        )
        if totals.retried:
            self.say(
                f"  {times(totals.retried).capitalize()} the application wrote an order that was just being migrated: "
                "nothing was overwritten, the order was read again."
            )

    @staticmethod
    def _seconds(status: BackgroundStatus) -> float:
        if status.started_at is None or status.finished_at is None:
            return 0.0
        return (status.finished_at - status.started_at).total_seconds()

    def _recovery(self, kill: Kill | None) -> None:
        if kill is None:
            self.say("  No worker was killed: the work was through before one could be. Take more --documents.")
            return
        back = f", its lost hint after {kill.hint_back:.1f} s" if kill.hint_back is not None else ""
        taken = f"after {kill.recovered:.1f} s" if kill.recovered is not None else "at the end"
        self.say(f"  Worker {kill.worker} was killed half way: its work was taken over {taken}{back}.")

    def _check(self, text: str, *, good: bool) -> None:
        mark, style = ("✔", "green") if good else ("✘", "bold red")
        self.say(f"  {mark} {text}", style)

    def compare(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """One order, before and after."""
        self._head("5. One order, before and after")
        table = Table.grid(padding=(0, 2), expand=False)
        table.add_column(ratio=1)
        table.add_column(ratio=1)
        table.add_row(_document(before), _document(after))
        self._console.print(Padding(table, (0, 0, 0, 2)))

    def where_next(self) -> None:
        """What to do with all this."""
        self._head("Where to go next")
        for command, what in _NEXT:
            self.say(f"  {command:<46} {what}")

    def kept(self, place: Place, *, shown_uri: str | None) -> None:
        """How to look around."""
        self._head("Kept")
        if shown_uri is None:
            self.say(f"The database {place.db} stays on your server; drop it when you are through with it.")
        else:
            self.say(f"MongoDB answers at {shown_uri} (database {place.db}) until you press Ctrl-C.")


def _document(document: Mapping[str, Any]) -> Syntax:
    text = json.dumps(document, indent=2, default=str, ensure_ascii=False)
    return Syntax(text, "json", theme=_THEME, background_color="default", word_wrap=True)


_NEXT = (
    ("migronaut create move_address --background", "a migration file of your own"),
    ("migronaut up; migronaut background run", "register it, do the work"),
    ("migronaut background status", "see how far it is; pause, resume, retry"),
    ("migronaut demo --queue rq, or dramatiq", "the same with the workers of your queue"),
    ("README.md", "embedding it in an application, operating it, what is guaranteed"),
)
