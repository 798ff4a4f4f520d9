"""Migration files: finding, loading, hashing and creating them."""

from migronaut.files.creating import create
from migronaut.files.directory import MigrationsDir
from migronaut.files.importing import make_importable
from migronaut.files.loading import Migration, checksum_of

__all__ = ["Migration", "MigrationsDir", "checksum_of", "create", "make_importable"]
