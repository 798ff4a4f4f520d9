"""The command line: ``migronaut``."""

from migronaut.cli.main import main

__all__ = ["main"]
