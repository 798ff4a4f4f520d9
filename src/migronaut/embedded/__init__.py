"""MongoDB and Valkey from Python wheels, for the demo and for tests.

Nothing is installed on the system and no root rights are needed: the servers listen on the loopback
interface, keep their files in a temporary directory and end with the process that started them.

>>> from migronaut.embedded import EmbeddedMongo
>>> with EmbeddedMongo() as server:  # doctest: +SKIP
...     print(server.uri)
"""

from migronaut.embedded.mongo import EmbeddedMongo
from migronaut.embedded.valkey import EmbeddedValkey

__all__ = ["EmbeddedMongo", "EmbeddedValkey"]
