"""What the contract suites share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract.documents_fixture import World, opened


@pytest.fixture(params=["memory", "mongo"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """An empty collection with its ``Documents`` port, in memory and on MongoDB."""
    with opened(request.param, request) as opened_world:
        yield opened_world
