"""What the body of an ordinary migration is given."""

from __future__ import annotations

import logging
from typing import Any

from attrs import frozen
from pymongo import MongoClient
from pymongo.database import Database

from migronaut.core.ports import Stop


@frozen(kw_only=True)
class RunDetails:
    """The run a migration is part of."""

    id: str
    batch: int
    requested_by: str | None = None
    reason: str | None = None


@frozen(kw_only=True)
class MigrationContext:
    """The argument of ``up(ctx)``.

    Args:
        db: The database.
        client: Its client.
        logger: For the migration's own messages.
        stop: Set when the run should end; look at it in long loops.
        direction: ``"up"``.
        run: The run this is part of.
    """

    db: Database[Any]
    client: MongoClient[Any]
    logger: logging.Logger
    stop: Stop
    direction: str
    run: RunDetails
