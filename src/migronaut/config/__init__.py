"""Resolved settings, each with where it came from."""

from migronaut.config.resolving import read_environment, resolve
from migronaut.config.settings import Config

__all__ = ["Config", "read_environment", "resolve"]
