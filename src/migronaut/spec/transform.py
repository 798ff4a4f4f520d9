"""One call shape for ``migrate`` and ``migrate_many``: a list of documents in, a list of results out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import frozen

from migronaut.core.state import Direction
from migronaut.errors import TransformError
from migronaut.spec.callables import takes_context
from migronaut.spec.raising import as_error, is_own

if TYPE_CHECKING:
    from migronaut.core.ports import Stop

Document = dict[str, Any]


@frozen(kw_only=True)
class RunInfo:
    """Which piece of work a transform is called for.

    Args:
        name: File name of the migration.
        generation: Counts the plans of this migration.
        partition: Id of the partition whose documents are given.
        run: Id of the lane's run, for logs.
        attempt: 1 for the first try of this partition, 2 after one failure, and so on.
    """

    name: str
    generation: int
    partition: str
    run: str
    attempt: int = 1


@frozen(kw_only=True)
class Context:
    """What a function that takes a second parameter is given.

    Args:
        stop: Set when the lane should end. Look at it in long loops, and raise whatever you like once ``is_set()``: the
            batch is left as it was, and nothing counts as failed.
        logger: Messages of the migration; never log documents or ids.
        direction: ``"forward"`` or ``"revert"``.
        background: The piece of work at hand.
        dry_run: True when nothing will be written.
    """

    stop: Stop
    logger: logging.Logger
    direction: Direction
    background: RunInfo
    dry_run: bool = False


@frozen
class Transform:
    """Turns copies of documents into their new shape, whichever way the file declared it.

    Args:
        call: Takes a list of documents and the context, returns one object per document, in order.
            An exception *object* in a slot fails that document; a raise fails the slice.
    """

    call: Callable[[list[Document], Context], list[object]]


def transform_one_by_one(function: Callable[..., object]) -> Transform:
    """Wrap a ``migrate`` or ``revert``: what it raises for a document takes the document's slot."""
    with_context = takes_context(function)

    def slot(document: Document, context: Context) -> object:
        """The new document, or what the function raised for it."""
        try:
            return function(document, context) if with_context else function(document)
        except BaseException as error:
            if not is_own(error):
                raise  # a time limit, say: nothing that this document did
            return as_error(error)

    return Transform(lambda documents, context: [slot(document, context) for document in documents])


def transform_many(function: Callable[..., object]) -> Transform:
    """Wrap a ``migrate_many`` or ``revert_many``; it must return a list as long as the one it got."""
    with_context = takes_context(function)

    def call(documents: list[Document], context: Context) -> list[object]:
        """The new documents, one for each."""
        count = len(documents)
        try:
            results = function(documents, context) if with_context else function(documents)
        except Exception:
            raise
        except BaseException as error:
            if not is_own(error):
                raise
            raise as_error(error) from error
        if not isinstance(results, list | tuple):
            raise TransformError(
                f"The function for many documents returned {type(results).__name__}; "
                "it must return a list with one result per document."
            )
        if len(results) != count:
            raise TransformError(
                f"The function for many documents returned {len(results)} results for {count} documents; "
                "it must return one per document, in order.",
                documents=count,
                results=len(results),
            )
        return list(results)

    return Transform(call)
