"""Beanie's iterative migration, run by its own runner; without Beanie there is no such peer."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from benchmarks.lane import uri_of
from benchmarks.orders import DB, Orders
from benchmarks.peers import Job

_LIFETIME = "transactionLifetimeLimitSeconds"

_MIGRATION = """
from datetime import datetime

from beanie import Document, iterative_migration
from pydantic import BaseModel


class Address(BaseModel):
    street: str
    city: str
    zip: str
    country: str


class Item(BaseModel):
    sku: str
    quantity: int
    price: float


class Shipping(BaseModel):
    address: Address


class Order(Document):
    schema_version: int
    revision: int
    customer: str
    email: str
    status: str
    items: list[Item]
    total: float
    created_at: datetime
    note: str

    class Settings:
        name = "orders"


class OldOrder(Order):
    address: Address

    class Settings:
        name = "orders"


class NewOrder(Order):
    shipping: Shipping

    class Settings:
        name = "orders"


class Forward:
    @iterative_migration()
    async def move_address(self, input_document: OldOrder, output_document: NewOrder):
        output_document.shipping.address = input_document.address
        output_document.schema_version = 2
"""


def has_beanie() -> bool:
    """Whether Beanie is installed, as ``tox -e bench`` does."""
    return find_spec("beanie") is not None


@contextmanager
def beanie(orders: Orders) -> Iterator[Job]:
    """As its documentation shows it: models before and after, batches of 10 000.

    One transaction around everything is its default, and from the second batch on its only way: without, its
    concurrent bulk writes get in each other's way in the session they share. MongoDB aborts a transaction after a
    minute; here it may take longer.
    """
    from beanie.executors.migrate import MigrationSettings, run_migrate

    with tempfile.TemporaryDirectory(prefix="migronaut-bench-") as directory, _long_transactions(orders):
        Path(directory, "20260101000000_orders_shipping.py").write_text(_MIGRATION, encoding="utf-8")
        settings = MigrationSettings(
            direction="FORWARD",
            connection_uri=uri_of(orders),
            database_name=DB,
            path=directory,
            use_transaction=True,
        )
        yield lambda: asyncio.run(run_migrate(settings))


@contextmanager
def _long_transactions(orders: Orders) -> Iterator[None]:
    admin = orders.client.admin
    usual = admin.command({"getParameter": 1, _LIFETIME: 1})[_LIFETIME]
    admin.command({"setParameter": 1, _LIFETIME: 3600})
    try:
        yield
    finally:
        admin.command({"setParameter": 1, _LIFETIME: usual})
