"""The suites that every implementation of a port passes, for whoever writes one: a queue adapter, another store.

A suite is a class: inherit from it in a test module, and override its one fixture. Importing this needs pytest. Here
lives what a port must do, whoever implements it. Not here: the implementations, and what is true of one of them only.

>>> class TestMyQueue(QueueContract):
...     @pytest.fixture
...     def harness(self): ...  # returns your QueueHarness
"""

try:
    import pytest

    # Before these are imported: otherwise a failure would not show the values that it compared.
    _SUITES = ("locks", "queue", "reading", "records", "rewriting", "store", "tickets", "world", "writing")
    pytest.register_assert_rewrite(*(f"{__name__}.{suite}" for suite in _SUITES))
except ImportError:
    raise ImportError("migronaut.testing.contracts needs pytest, which is not installed: pip install pytest") from None

from migronaut.testing.contracts.harness import QueueHarness, Recorder, coordinator_hint, lane_hint
from migronaut.testing.contracts.locks import LocksContract
from migronaut.testing.contracts.queue import QueueContract
from migronaut.testing.contracts.reading import DocumentsReadingContract
from migronaut.testing.contracts.records import Records
from migronaut.testing.contracts.rewriting import DocumentsRewritingContract
from migronaut.testing.contracts.store import StoreContract
from migronaut.testing.contracts.tickets import TicketsContract
from migronaut.testing.contracts.world import Application, World
from migronaut.testing.contracts.writing import DocumentsWritingContract

__all__ = [
    "Application",
    "DocumentsReadingContract",
    "DocumentsRewritingContract",
    "DocumentsWritingContract",
    "LocksContract",
    "QueueContract",
    "QueueHarness",
    "Recorder",
    "Records",
    "StoreContract",
    "TicketsContract",
    "World",
    "coordinator_hint",
    "lane_hint",
]
