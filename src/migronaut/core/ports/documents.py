"""The collection that is being rewritten: raw documents in, guarded writes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import frozen

from migronaut.core.ports.faults import WriteRefusedError
from migronaut.core.ports.running import UnderWay, alone
from migronaut.core.ports.storing import Checkpoint
from migronaut.core.state import Cursor, Partition, Scope


@frozen(kw_only=True)
class Condition:
    """What a collection is, as far as a migration depends on it.

    Args:
        exists: There is such a collection.
        kind: ``collection``, ``view`` or ``timeseries``.
        capped: It takes no writes in transactions.
        sharded: It is on a sharded cluster.
    """

    exists: bool = True
    kind: str = "collection"
    capped: bool = False
    sharded: bool = False


@frozen(kw_only=True)
class Batch:
    """Raw documents in ``_id`` order; ``end`` when nothing follows in the scope."""

    documents: tuple[bytes, ...]
    end: bool


@frozen(kw_only=True)
class Write:
    """One document to write.

    Args:
        id: Its ``_id``, decoded.
        before: The BSON it had when it was transformed.
        statement: BSON of ``{"q": filter, "u": update}``, as an update command takes it.
    """

    id: Any
    before: bytes
    statement: bytes


@frozen(kw_only=True)
class GuardedResult:
    """What an unordered guarded update did: how many filters matched, and what the server refused, by index."""

    matched: int
    refused: Mapping[int, WriteRefusedError]


@frozen
class Settled:
    """A moment: no failover can undo what was written before it. What it holds is the implementation's own."""


Stages = Sequence[Mapping[str, Any]]
"""A pipeline of an update."""


@frozen(kw_only=True)
class Rewriting:
    """What the server is to rewrite itself, and how.

    Args:
        match: Query for the documents that are still to do.
        stages: The whole pipeline.
        scope: Where they lie.
        only: No other documents than these; None = all of the scope.
        without: Ids to leave alone.
    """

    match: Mapping[str, Any]
    stages: Stages
    scope: Scope
    only: Sequence[Any] | None = None
    without: Sequence[Any] = ()


CheckpointFor = Callable[[frozenset[int]], Checkpoint]
"""From the indexes of the writes that were left out to the checkpoint of that commit."""

CheckpointForCount = Callable[[int], Checkpoint]
"""From the number of documents that were changed to the checkpoint of that commit."""


class Documents(Protocol):
    """The collection that is being rewritten. ``match`` is a query; reads go to the primary."""

    def transactions(self) -> bool:
        """True when the server can do multi-document transactions."""

    def condition(self) -> Condition:
        """What the server has under the collection's name now."""

    def acknowledges(self) -> bool:
        """Whether the migration's write concern could be met here at all; asked with a write that touches nothing."""

    def indexed(self) -> bool:
        """True when finding what is left needs no scan: an index on version and ``_id`` exists."""

    def settle(self) -> Settled:
        """Wait until no failover can undo what was written so far, by whomever.

        Raises:
            UnavailableError: A majority of the members did not answer in time.
        """

    def count(
        self,
        match: Mapping[str, Any],
        *,
        limit: int,
        without: Sequence[Any] = (),
        timeout: float | None = None,
        since: Settled | None = None,
    ) -> int:
        """Matching documents, at most ``limit``, leaving out the ids ``without``.

        Args:
            since: Count what no failover can undo, of this moment or a later one; None = as the primary has it now.

        Raises:
            TookTooLongError: It took longer than ``timeout`` seconds.
        """

    def total(self) -> int:
        """Documents in the collection, from its metadata."""

    def average_size(self) -> int:
        """Bytes of a document of the collection on average, from its metadata; 0 when there is none."""

    def brackets(self) -> tuple[str, ...]:
        """Type brackets of ``_id`` that hold any document, in BSON order; whether one matches would take a scan."""

    def sample(
        self, match: Mapping[str, Any], *, size: int, collection_first: bool, timeout: float
    ) -> Mapping[str, Sequence[Any]]:
        """Random ``_id`` values by bracket, each list in server order.

        Raises:
            TookTooLongError: It took longer than ``timeout`` seconds.
        """

    def read(
        self, match: Mapping[str, Any], scope: Scope, *, after: Cursor | None, limit: int, without: Sequence[Any] = ()
    ) -> Batch:
        """The next documents of a scope. A batch cut by size is not an end."""

    def read_ids(
        self, match: Mapping[str, Any], scope: Scope, *, after: Cursor | None, limit: int, without: Sequence[Any] = ()
    ) -> Batch:
        """Like ``read``, but of each document only its ``_id``."""

    def fetch(self, ids: Sequence[Any], *, match: Mapping[str, Any] | None = None) -> tuple[bytes, ...]:
        """Documents by ``_id``, those that match."""

    def fetch_ids(self, ids: Sequence[Any], *, match: Mapping[str, Any] | None = None) -> tuple[bytes, ...]:
        """Like ``fetch``, but of each document only its ``_id``."""

    def write_same(
        self,
        partition: Partition,
        writes: Sequence[Write],
        *,
        checkpoint: CheckpointFor,
        under_way: UnderWay = alone,
        must_leave: Mapping[str, Any] | None = None,
    ) -> frozenset[int]:
        """One short snapshot transaction: compare bytes, update by ``_id``, checkpoint under the lease, commit.

        Args:
            under_way: Called when all bytes are compared.
            must_leave: A query that no written document may match afterwards.

        Returns:
            Indexes of writes left out because the document is gone or is no longer the one transformed.

        Raises:
            LeaseLostError, WriteConflictError, WriteRefusedError, WriteTooLargeError, WriteTooSlowError,
            UnavailableError:
                Nothing was written.
        """

    def write_guarded(self, writes: Sequence[Write], *, write_concern: Mapping[str, Any]) -> GuardedResult:
        """One unordered update in which each statement's own filter is the guard.

        Raises:
            WriteTooLargeError, UnavailableError: Part of it may have been written.
            PortError: A statement does not fit its document any more, e.g. counts up what is no number; the others
                were written.
        """

    def rewrite_fenced(
        self,
        partition: Partition,
        rewriting: Rewriting,
        *,
        checkpoint: CheckpointForCount,
        timeout: float | None = None,
    ) -> int:
        """One transaction: run a pipeline on each matching document, checkpoint under the lease, commit.

        Args:
            timeout: Seconds that the update may take.

        Returns:
            How many were changed.

        Raises:
            LeaseLostError, WriteConflictError, WriteRefusedError, WriteTooLargeError, WriteTooSlowError,
            UnavailableError:
                Nothing was written. Nobody says which document is refused.
        """

    def rewrite(self, rewriting: Rewriting) -> int:
        """Let the server run a pipeline on each matching document, one after the other.

        Returns:
            How many were changed.

        Raises:
            WriteRefusedError: One of the documents is refused, nobody says which; those before it were changed.
            WriteTooSlowError, WriteTooLargeError, UnavailableError: Part of them may have been changed.
        """

    def still_matching(self, match: Mapping[str, Any], stages: Stages, ids: Sequence[Any]) -> tuple[bytes, ...]:
        """Those of ``ids`` that match and would still do so after a pipeline, as ``fetch_ids``; nothing is written."""

    def refusal_of(self, stages: Stages) -> str | None:
        """Why the server does not accept a pipeline, in its words, which quote the pipeline only; None when it does."""
