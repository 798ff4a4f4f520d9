"""What a connection string, or a client, says by itself about the database."""

from __future__ import annotations

import re
from urllib.parse import unquote_plus

from pymongo import MongoClient
from pymongo.errors import ConfigurationError

_PATH = re.compile(r"mongodb(?:\+srv)?://[^/?]*/(?P<database>[^/?.]*)")


def database_in(given: object) -> str | None:
    """The default database of a client or of a URI, as the driver has it: the one in the path; None without one."""
    if isinstance(given, MongoClient):
        try:
            return given.get_default_database().name
        except ConfigurationError:
            return None
    found = _PATH.match(given) if isinstance(given, str) else None
    return unquote_plus(found["database"]) or None if found else None
