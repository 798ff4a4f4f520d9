"""Log records that are no longer than what they are about deserves."""

from __future__ import annotations

import logging

_MESSAGE = 1000
_LINE = 300


class ShortRecords(logging.Filter):
    """Cuts what Dramatiq logs of a message that somebody sent, which may be megabytes; for handlers."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Cut the record; True, for it is always logged."""
        message = record.getMessage()
        if len(message) > _MESSAGE:
            record.msg, record.args = _cut(message, _MESSAGE), ()
        if record.exc_info and not record.exc_text:
            trace = logging.Formatter().formatException(record.exc_info)
            # What a formatter finds here it does not make itself.
            record.exc_text = "\n".join(_cut(line, _LINE) for line in trace.splitlines())
        return True


def shorten_logs() -> None:
    """Cut what the handlers of this process log from now on."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(ShortRecords())


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
