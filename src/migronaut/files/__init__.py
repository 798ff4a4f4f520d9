"""Migration files: finding, loading, hashing and creating them."""

from migronaut.files.creating import create
from migronaut.files.directory import MigrationsDir
from migronaut.files.importing import make_importable
from migronaut.files.loading import Migration, checksum_of
from migronaut.files.passing import Passed

__all__ = ["Migration", "MigrationsDir", "Passed", "checksum_of", "create", "make_importable"]
