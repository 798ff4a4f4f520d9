"""The engine: drives the pure core over the ports."""

from migronaut.engine.engine import Engine
from migronaut.engine.ports import Catalog, Ports, Source

__all__ = ["Catalog", "Engine", "Ports", "Source"]
