"""The ``Store`` port on MongoDB."""

from __future__ import annotations

from migronaut.mongo.leases import Leases
from migronaut.mongo.partitions import Partitions
from migronaut.mongo.states import Clocks, States


class MongoStore(States, Partitions, Leases, Clocks):
    """States, partitions, leases and clocks of background migrations in one database.

    Nothing is read or created when it is built; the collections and their indexes come with the first write.
    All times are the server's.

    Args:
        db: Where the records live; its client may be set up in any way.
        background_collection: Name of the states; partitions and clocks add ``_partitions`` and ``_clock`` to it.
    """
