"""Is the file on this process the one that was registered?"""

from __future__ import annotations

from attrs import frozen

from migronaut.core.coordinator import FileFact
from migronaut.core.state import BackgroundState
from migronaut.engine.ports import Catalog, Source
from migronaut.errors import InvalidMigrationError


@frozen(kw_only=True)
class Found:
    """What was found for a registered migration.

    Args:
        source: Only where the fact is ``ok``.
        problem: What makes it ``unusable``.
    """

    fact: FileFact
    source: Source | None = None
    problem: str | None = None


def find_source(catalog: Catalog, state: BackgroundState) -> Found:
    """Look for the file of a migration and compare it with the registered one."""
    try:
        source = catalog.find(state.name)
    except InvalidMigrationError as error:
        # It was fine where it was registered: this machine lacks what it imports, or another text lies here.
        return Found(fact=FileFact.UNUSABLE, problem=error.message)
    if source is None:
        return Found(fact=FileFact.MISSING)
    if source.checksum != state.checksum:
        return Found(fact=FileFact.CHANGED)
    return Found(fact=FileFact.OK, source=source)
