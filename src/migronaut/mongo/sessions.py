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
from weakref import WeakValueDictionary

from bson import Binary
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.errors import PyMongoError

from migronaut.core.state import Lease

_logger = logging.getLogger("migronaut.background")


class LaneSessions:
    """One session for each thread that claims, kept for as long as it works; whoever writes for it finds it by name."""

    def __init__(self, client: MongoClient[Any]) -> None:
        self._client = client
        self._of_thread = threading.local()
        self._by_name: WeakValueDictionary[str, ClientSession] = WeakValueDictionary()

    def current(self) -> ClientSession:
        """The session of the calling thread."""
        session: ClientSession | None = getattr(self._of_thread, "session", None)
        if session is None:
            session = self._of_thread.session = self._client.start_session(causal_consistency=False)
        return session

    def current_name(self) -> str:
        """What others know the session of the calling thread by."""
        session = self.current()
        name = str(session.session_id["id"].as_uuid())
        self._by_name[name] = session
        return name

    def of(self, lease: Lease | None) -> ClientSession:
        """The session that a lease of this process names; else that of the calling thread."""
        named = self._by_name.get(lease.session or "") if lease is not None else None
        return named or self.current()

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
