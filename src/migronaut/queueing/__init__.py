"""Background migrations over a task queue: what a job does, and who sends jobs."""

from migronaut.queueing.memory import Faults, MemoryJob, MemoryQueue, MemoryStop, every
from migronaut.queueing.processor import BackgroundProcessor, QueueSettings
from migronaut.queueing.producer import Enqueued, Healed, Producer, enqueue_background, heal
from migronaut.queueing.rows import row
from migronaut.queueing.sending import Handler, perform

__all__ = [
    "BackgroundProcessor",
    "Enqueued",
    "Faults",
    "Handler",
    "Healed",
    "MemoryJob",
    "MemoryQueue",
    "MemoryStop",
    "Producer",
    "QueueSettings",
    "enqueue_background",
    "every",
    "heal",
    "perform",
    "row",
]
