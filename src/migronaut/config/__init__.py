"""Resolved settings, each with where it came from."""

from migronaut.config.resolving import Project, locate, read_environment, resolve, resolve_call
from migronaut.config.settings import Config

__all__ = ["Config", "Project", "locate", "read_environment", "resolve", "resolve_call"]
