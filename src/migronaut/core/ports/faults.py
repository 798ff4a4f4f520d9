"""The errors by which ports talk to the engine; none of them reaches a user."""

from __future__ import annotations


class PortError(Exception):
    """Base of the errors by which ports talk to the engine; none of them reaches a user."""

    shareable = True
    """Their texts hold no id and no content."""


class WriteConflictError(PortError):
    """Somebody else wrote one of the documents, or our own records, at the same time. Try again."""


class WriteRefusedError(PortError):
    """The server refuses the result of one document.

    Args:
        code: The server's error code.
        index: Which write it was; None when the server did not say.
        kind: A stable word.
        by: The index or the validator that does not allow it, named without any value; None when it is not known.
    """

    def __init__(self, code: int, index: int | None = None, *, kind: str = "refused", by: str | None = None) -> None:
        super().__init__(f"{kind} ({code})")
        self.code = code
        self.index = index
        self.kind = kind
        self.by = by


class WriteTooLargeError(PortError):
    """Too much, or too slow, for one command or transaction. Try with less."""


class WriteTooSlowError(PortError):
    """The server took too long. Try with less; a document alone is not to blame."""


class UnavailableError(PortError):
    """No primary answers for now (failover, restart, network)."""


class ClosedError(PortError):
    """The connection was closed on our side, so that nothing can be asked."""


class UnfitClientError(PortError):
    """The driver refuses it, because of how the client was made."""


class TookTooLongError(PortError):
    """A read was given up after its time limit."""
