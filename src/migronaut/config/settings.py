"""The settings, their defaults, and the check of each value."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from attrs import NOTHING, field, fields, frozen
from pymongo import MongoClient

from migronaut.errors import ConfigInvalidError

Check = Callable[[Any], Any]

_SCHEMES = ("mongodb://", "mongodb+srv://")
_DATABASE_FORBIDDEN = '/\\. "$*<>:|?\0'


Problems = list[tuple[str, str]]
"""What is wrong, and where: the texts complete the sentence "<setting> …" and never quote a value."""


class RefusedError(ValueError):
    """A value cannot be used; the text completes the sentence "<setting> …" and never quotes it."""


def _without_secrets(uri: str | None) -> str:
    """Show a URI without credentials and options; both can hold secrets."""
    return "None" if uri is None else repr(re.sub(r"(?s)\?.*", "?…", re.sub(r"(?s)://.*@", "://***@", uri)))


@frozen(kw_only=True)
class Config:
    """All settings, checked. Durations are seconds.

    Args:
        uri: How to reach MongoDB; None only when ``client`` is given.
        db: The database.
        migrations_dir: Absolute path of the migration files.
        project_dir: Absolute path of what migration files can import from, wherever they are loaded.
        migrations_collection: The changelog.
        lock_collection: The locks.
        lock_ttl: After this long without a sign of life a lock may be taken over, 1-3600.
        lease_ttl: The same for the lease of a lane, 1-3600.
        on_lock_held: ``"error"``, or ``"wait"`` for the lock.
        background_collection: States of background migrations; their other collections are named after it.
        background_on_drift: ``"reopen"`` a migration when documents of the old shape turn up, or ``"report"`` them.
        slice_length: How long a lane in a queue's worker works before it gives way, 1-3600; None = as each migration
            says.
        heal_interval: Lost hints of a queue are looked for once per this time, in the whole cluster, 1-3600.
        heal_grace: After this long past its time a hint counts as lost and is sent again, 1-900; doubled by every send.
        verify_interval: Documents of the old shape are looked for once per this time, 1-86400.
        environment: Name of this environment, kept in the changelog.
        client: A ``MongoClient`` of the caller's; never closed by migronaut.
        logger: Where messages go; None = the logger ``migronaut``.
        origins: Where each setting came from: ``"flag"``, ``"environment MIGRONAUT_URI"``,
            ``".env MIGRONAUT_URI"``, ``"file migronaut.toml"``, ``"call"`` or ``"default"``.
    """

    uri: str | None = field(default=None, repr=_without_secrets)
    db: str
    migrations_dir: Path = Path("migrations")
    project_dir: Path = Path()
    migrations_collection: str = "_migronaut_migrations"
    lock_collection: str = "_migronaut_locks"
    lock_ttl: float = 60.0
    lease_ttl: float = 60.0
    on_lock_held: Literal["error", "wait"] = "error"
    background_collection: str = "_migronaut_background"
    background_on_drift: Literal["reopen", "report"] = "reopen"
    slice_length: float | None = None
    heal_interval: float = 30.0
    heal_grace: float = 30.0
    verify_interval: float = 600.0
    environment: str | None = None
    client: MongoClient[Any] | None = field(default=None, repr=False)
    logger: logging.Logger | None = field(default=None, repr=False)
    origins: Mapping[str, str] = field(factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        """Refuse what ``resolve`` would have refused, whoever makes one."""
        values = {name: value for name in CHECKS if (value := getattr(self, name)) is not None}
        problems = [*checked(values)[1], *combined_problems(values)]
        if not {"uri", "client"} & set(values):
            problems.append(("uri", "is required, or a client"))
        if problems:
            raise invalid(problems)


def _text(value: str) -> str:
    """Refuse what cannot be sent: where an environment is no UTF-8, Python fills in surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RefusedError("must be text in UTF-8") from None
    return value


def _uri(value: object) -> str:
    if not isinstance(value, str) or not value.startswith(_SCHEMES) or value in _SCHEMES:
        raise RefusedError("must begin with mongodb:// or mongodb+srv:// and name a host")
    if value != value.strip():
        raise RefusedError("has blanks or a line end around it; remove them")
    return _text(value)


def _database(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value.encode("utf-8", "replace")) <= 63:
        raise RefusedError("must be the name of a database, 1 to 63 bytes long")
    if any(character in value for character in _DATABASE_FORBIDDEN):
        raise RefusedError('must be the name of a database, without blanks and any of / \\ . " $ * < > : | ?')
    return _text(value)


def _collection(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value.encode("utf-8", "replace")) <= 120:
        raise RefusedError("must be the name of a collection, 1 to 120 bytes long")
    if value.startswith(("system.", ".")) or value.endswith(".") or ".." in value or set(value) & set("$\0"):
        raise RefusedError("is not a collection name that MongoDB accepts for this")
    return _text(value)


def _directory(value: object) -> Path:
    if isinstance(value, Path) or (isinstance(value, str) and value and "\0" not in value):
        return Path(value)
    raise RefusedError("must be the path of a directory")


def _seconds(low: float, high: float) -> Check:
    def check(value: object) -> float:
        """Accept seconds or a timedelta in the range."""
        plain = value.total_seconds() if isinstance(value, timedelta) else value
        if isinstance(plain, bool) or not isinstance(plain, int | float) or not low <= plain <= high:
            raise RefusedError(f"must be a number of seconds from {low:g} to {high:g}")
        return float(plain)

    return check


def _choice(*allowed: str) -> Check:
    def check(value: object) -> object:
        """Accept one of the words."""
        if not isinstance(value, str) or value not in allowed:
            raise RefusedError(f"must be {' or '.join(allowed)}")
        return value

    return check


def _label(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= 100 or not value.isprintable():
        raise RefusedError("must be one line of text, at most 100 characters")
    return value


def _client(value: object) -> MongoClient[Any]:
    if not isinstance(value, MongoClient):
        raise RefusedError(
            f"must be a pymongo.MongoClient, not {type(value).__name__}; beside an asynchronous client, or one in a "
            "wrapper, give migronaut a MongoClient of its own, or a uri"
        )
    return value


def _logger(value: object) -> logging.Logger:
    if not isinstance(value, logging.Logger):
        raise RefusedError("must be a logging.Logger")
    return value


CHECKS: Mapping[str, Check] = {
    "uri": _uri,
    "db": _database,
    "migrations_dir": _directory,
    "project_dir": _directory,
    "migrations_collection": _collection,
    "lock_collection": _collection,
    "lock_ttl": _seconds(1, 3600),
    "lease_ttl": _seconds(1, 3600),
    "on_lock_held": _choice("error", "wait"),
    "background_collection": _collection,
    "background_on_drift": _choice("reopen", "report"),
    "slice_length": _seconds(1, 3600),
    "heal_interval": _seconds(1, 3600),
    "heal_grace": _seconds(1, 900),
    "verify_interval": _seconds(1, 86_400),
    "environment": _label,
    "client": _client,
    "logger": _logger,
}

CODE_ONLY = frozenset({"client", "logger"})
"""Objects: they can be passed by code and by ``migronaut_config.py``, not written as text."""

NUMBERS = frozenset({"lock_ttl", "lease_ttl", "slice_length", "heal_interval", "heal_grace", "verify_interval"})
"""Given as text in the environment, as numbers everywhere else."""

LATER = (
    "strict",
    "use_transaction",
    "timeout",
    "on_lock_lost",
    "on_out_of_order",
    "background_inline",
    "template",
    "hooks",
    "client_options",
    "generate_id",
    "tracer",
    "meter",
)
"""Settings whose behaviour does not exist yet; asking for one is refused, never ignored."""

BACKGROUND_KINDS = ("partitions", "tickets", "clock")
"""What the other collections of background migrations add to ``background_collection``, after a ``_``."""

DEFAULTS: Mapping[str, Any] = {
    item.name: item.default for item in fields(Config) if item.name in CHECKS and item.default is not NOTHING
}


DIRECTORIES = ("migrations_dir", "project_dir")
"""Relative to where they were given."""


def checked(values: Mapping[str, Any], *, called: Callable[[str], str] = str) -> tuple[dict[str, Any], Problems]:
    """Check values one by one.

    Args:
        called: How a setting is called when it has a problem.

    Returns:
        Those that can be used, and what is wrong with the others.
    """
    usable: dict[str, Any] = {}
    problems: Problems = []
    for name, value in values.items():
        try:
            usable[name] = CHECKS[name](value)
        except RefusedError as refused:
            problems.append((called(name), str(refused)))
    return usable, problems


def combined_problems(values: Mapping[str, Any]) -> Problems:
    """Check what no single setting can tell: two of our collections are one.

    Args:
        values: The checked settings, defaults included; unusable ones are absent.
    """
    background = values.get("background_collection")
    collections = [
        ("migrations_collection", values.get("migrations_collection")),
        ("background_collection", background),
        *(("background_collection", background and f"{background}_{kind}") for kind in BACKGROUND_KINDS),
        ("lock_collection", values.get("lock_collection")),
    ]
    problems: Problems = []
    seen: dict[str, str] = {}
    for setting, name in collections:
        if name is not None and seen.setdefault(name, setting) != setting:
            problems.append((setting, f"uses the same collection as {seen[name]}; each needs its own"))
    return problems


def invalid(problems: Problems) -> ConfigInvalidError:
    """One error that tells all problems."""
    listed = "; ".join(f"{path} {problem}" for path, problem in problems)
    count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
    return ConfigInvalidError(
        f"The configuration has {count}: {listed}.",
        problems=[{"path": path, "problem": problem} for path, problem in problems],
    )
