"""The line of versioned migrations: which files, in which order, and running them."""

from migronaut.line.altered import Altered, Lost
from migronaut.line.catalog import FileCatalog
from migronaut.line.context import MigrationContext, RunDetails
from migronaut.line.run import Line, Row

__all__ = ["Altered", "FileCatalog", "Line", "Lost", "MigrationContext", "Row", "RunDetails"]
