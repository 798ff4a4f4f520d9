"""Where functions of the user's raised, in a log of its own that is off unless somebody asks for it."""

from __future__ import annotations

import logging

from migronaut.errors import frames

RAISED_LOG = "migronaut.background.raised"
"""At ``DEBUG`` it shows the frames of what ``migrate`` and its like raised, without values of documents."""
_logger = logging.getLogger(RAISED_LOG)


def log_frames(error: Exception) -> None:
    """Log the frames of an error, at ``DEBUG``."""
    if _logger.isEnabledFor(logging.DEBUG):
        _logger.debug("%s", frames(error))
