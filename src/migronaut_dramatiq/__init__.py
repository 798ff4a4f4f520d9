"""Background migrations by Dramatiq workers: Redis, Valkey, RabbitMQ.

>>> import dramatiq
>>> from dramatiq.brokers.redis import RedisBroker
>>> from migronaut import Migrator
>>> from migronaut_dramatiq import enqueue_background, setup
>>> broker = RedisBroker(url="redis://localhost")  # doctest: +SKIP
>>> queue = setup(broker, Migrator.from_environment)  # doctest: +SKIP
>>> enqueue_background(queue, Migrator.from_environment())  # doctest: +SKIP
"""

try:
    import dramatiq as _dramatiq  # noqa: F401 - looked for, not used
except ModuleNotFoundError as _error:
    if _error.name != "dramatiq":
        raise
    raise ImportError(
        'migronaut_dramatiq needs Dramatiq, which is not installed: pip install "migronaut[dramatiq]"'
    ) from None

from migronaut.queueing import enqueue_background, heal
from migronaut_dramatiq.queue import DramatiqQueue
from migronaut_dramatiq.wiring import open_queue, setup

__all__ = ["DramatiqQueue", "enqueue_background", "heal", "open_queue", "setup"]
