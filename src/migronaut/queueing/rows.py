"""The lines and numbers shown on a job. Showing them is best effort: it never fails a job."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from attrs import asdict

from migronaut.core.lane import SliceResult
from migronaut.core.ports import QueuePort
from migronaut.errors import describe, redact

MAX_ROWS = 50
"""Rows kept on a job: the last ones."""

Job = TypeVar("Job", contravariant=True)

_LOGGER = logging.getLogger("migronaut.queueing")


def row(text: object) -> str:
    """One line of at most 300 characters without credentials and quoted values, for any store and terminal."""
    return "".join(filter(str.isprintable, redact(text).encode("utf-8", "replace").decode("utf-8")))


class Rows(Generic[Job]):
    """What the processor says about its jobs."""

    def __init__(self, port: QueuePort[Job]) -> None:
        self._port = port

    def note(self, job: Job, text: str) -> None:
        """Show one line on the job."""
        self._annotate(job, log=row(text))

    def slice(self, job: Job, lane: int | None, result: SliceResult) -> None:
        """Show how a slice ended, and its counters as progress."""
        counters = result.counters
        text = f"lane {lane}: {result.outcome}, {counters.migrated} of {counters.scanned} migrated"
        self.note(job, f"{text}; {result.reason}" if result.reason else text)
        self._annotate(job, progress=asdict(counters))
        if result.error is not None:
            self.trouble(job, f"lane {lane}", result.error)

    def trouble(self, job: Job, what: str, error: BaseException) -> None:
        """Show an error on the job and log it."""
        text = row(f"{what} failed: {describe(error)}")
        _LOGGER.warning("%s", text)
        self._annotate(job, log=text)

    def _annotate(self, job: Job, *, log: str | None = None, progress: Mapping[str, Any] | None = None) -> None:
        try:
            self._port.annotate(job, log=log, progress=progress)
        except Exception as error:  # a row that is not shown is no reason to stop
            _LOGGER.debug("A job was not annotated (%s).", type(error).__name__)
