"""migronaut changes the documents of a live MongoDB without stopping the application."""

from migronaut.core.state import Partitioning
from migronaut.errors import MigronautError
from migronaut.migrator import Migrator
from migronaut.runner import BackgroundRunner
from migronaut.spec import Background, Context

__all__ = ["Background", "BackgroundRunner", "Context", "Migrator", "MigronautError", "Partitioning", "__version__"]

__version__ = "0.1.0"
