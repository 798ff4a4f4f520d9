"""Whether a migration can be done at all: what its collection is, and what the server can. Asked again and again."""

from __future__ import annotations

from migronaut.core.ports import Condition, Documents
from migronaut.core.state import Direction, Guard, Spec
from migronaut.engine.work import resolve_guard
from migronaut.errors import InvalidMigrationError

SHARDED = (
    "This is a sharded cluster: the values of _id must be unique in the whole collection, not only on each shard, and "
    "a migration must leave the fields of the shard key alone."
)
_WITHOUT_TRANSACTIONS = 'use guard="revision" with a revision_field, or a pipeline with guard="version"'


def require_fit(documents: Documents, spec: Spec, direction: Direction) -> Condition:
    """See that the collection, as it is now, can take the writes of a migration.

    Raises:
        TransactionsUnsupportedError, InvalidMigrationError: It never will.
    """
    guard = resolve_guard(spec, direction, transactions=documents.transactions())
    condition = documents.condition()
    problem = _problem(condition, spec.collection, guard)
    if problem is not None:
        raise InvalidMigrationError(f"The migration cannot be done here: {problem}.", collection=spec.collection)
    return condition


def _problem(condition: Condition, name: str, guard: Guard) -> str | None:
    if condition.kind != "collection":
        return f"{name} is a {condition.kind}: give the name of a collection"
    if condition.capped and guard is Guard.SNAPSHOT:
        return f"{name} is a capped collection, which takes no writes in transactions: {_WITHOUT_TRANSACTIONS}"
    return None


def missing_text(spec: Spec, *, was_there: bool) -> str:
    """What to say of a collection that does not exist.

    Args:
        was_there: The migration has found documents in it.
    """
    if was_there:
        return f"the collection {spec.collection} is gone: it was dropped or renamed before the migration was through"
    return f"the collection {spec.collection} does not exist (yet); is its name right?"
