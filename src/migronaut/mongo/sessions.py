"""The server sessions of lanes: known by name, so that whoever takes over from a dead lane can end what it left open.

A client that dies inside a transaction leaves it open, and the documents in it locked for everybody,
until the server's own limit (transactionLifetimeLimitSeconds, 60 s).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from bson import Binary
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.errors import PyMongoError

_logger = logging.getLogger("migronaut.background")


class LaneSessions:
    """One session for each thread, kept for as long as it works."""

    def __init__(self, client: MongoClient[Any]) -> None:
        self._client = client
        self._of_thread = threading.local()

    def current(self) -> ClientSession:
        """The session of the calling thread."""
        session: ClientSession | None = getattr(self._of_thread, "session", None)
        if session is None:
            session = self._of_thread.session = self._client.start_session(causal_consistency=False)
        return session

    def current_name(self) -> str:
        """What others know the session of the calling thread by."""
        return str(self.current().session_id["id"].as_uuid())

    def end(self, names: Iterable[str | None]) -> None:
        """Abort what dead lanes left open. Best effort: without it the server's own limit does the same, later."""
        try:
            ids = [{"id": Binary.from_uuid(UUID(name))} for name in names if name]
        except ValueError:
            _logger.warning("a lease names something that is no session; its transaction ends by the server's limit")
            return
        if not ids:
            return
        try:
            self._client.admin.command("killSessions", ids)
        except PyMongoError as error:
            _logger.debug("the sessions of lost lanes could not be ended (%s)", type(error).__name__)
