"""What the engine needs from the outside, as Protocols.

Each has a contract test-suite that every implementation passes. Ports speak in frozen values and in
the errors of ``faults``; no error of a driver leaves a port.
"""

from migronaut.core.ports.documents import (
    Batch,
    CheckpointFor,
    CheckpointForCount,
    Condition,
    Documents,
    GuardedResult,
    Rewriting,
    Settled,
    Stages,
    Write,
)
from migronaut.core.ports.faults import (
    ClosedError,
    PortError,
    TookTooLongError,
    UnavailableError,
    UnfitClientError,
    WriteConflictError,
    WriteRefusedError,
    WriteTooLargeError,
    WriteTooSlowError,
)
from migronaut.core.ports.running import Begin, Clock, Heartbeat, Stop, UnderWay, WriteBehind, alone
from migronaut.core.ports.storing import Busy, Checkpoint, Claim, Exhausted, LiveLease, Owner, Pass, Store
from migronaut.core.ports.waking import Locks, QueuePort, Tickets

__all__ = [
    "Batch",
    "Begin",
    "Busy",
    "Checkpoint",
    "CheckpointFor",
    "CheckpointForCount",
    "Claim",
    "Clock",
    "ClosedError",
    "Condition",
    "Documents",
    "Exhausted",
    "GuardedResult",
    "Heartbeat",
    "LiveLease",
    "Locks",
    "Owner",
    "Pass",
    "PortError",
    "QueuePort",
    "Rewriting",
    "Settled",
    "Stages",
    "Stop",
    "Store",
    "Tickets",
    "TookTooLongError",
    "UnavailableError",
    "UnderWay",
    "UnfitClientError",
    "Write",
    "WriteBehind",
    "WriteConflictError",
    "WriteRefusedError",
    "WriteTooLargeError",
    "WriteTooSlowError",
    "alone",
]
