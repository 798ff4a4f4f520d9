"""What the tests of the command line share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from e2e.cli_kit import BACKGROUND, NAME, Cli


@pytest.fixture
def cli(tmp_path: Path, mongo_uri: str, db: Database[Any]) -> Cli:
    """The command line in an empty directory, on a database of its own."""
    return Cli(tmp_path, {"MIGRONAUT_URI": mongo_uri, "MIGRONAUT_DB": db.name})


@pytest.fixture
def orders(cli: Cli, db: Database[Any]) -> Cli:
    """A project with a pending background migration over 200 orders."""
    cli.write(NAME, BACKGROUND)
    db.orders.insert_many([{"_id": number, "address": "x", "schema_version": 1} for number in range(200)])
    return cli
