"""Background migrations over RQ: the port, the worker, and the producer's two functions."""

try:
    import rq as _rq  # noqa: F401
except ImportError:
    raise ImportError('migronaut_rq needs RQ, which is not installed: pip install "migronaut[rq]"') from None

from migronaut.queueing import enqueue_background, heal
from migronaut_rq.queue import QUEUE_NAME, RqQueue
from migronaut_rq.worker import MigronautWorker, open_queue, work

__all__ = ["QUEUE_NAME", "MigronautWorker", "RqQueue", "enqueue_background", "heal", "open_queue", "work"]
