"""The document contract: which documents are still to do, and what a write of one looks like.

A document carries its shape in a version field and, where the application keeps one, a revision
field that every write counts up. A missing or null field reads as 0. Values are compared as BSON,
not as Python: what the transform left alone keeps its stored type to the byte.
"""

from migronaut.versioning.codec import CODEC, DocumentInvalidError, IdInvalidError, InvalidKind
from migronaut.versioning.contract import guard_filter, match_filter, match_hash, read_version
from migronaut.versioning.elements import document, elements
from migronaut.versioning.equality import same_bson
from migronaut.versioning.faithful import check_faithful, check_ids, fields_of_raw, id_of_raw
from migronaut.versioning.stages import closing_stages
from migronaut.versioning.updates import UpdateBuilder, encode_statement

__all__ = [
    "CODEC",
    "DocumentInvalidError",
    "IdInvalidError",
    "InvalidKind",
    "UpdateBuilder",
    "check_faithful",
    "check_ids",
    "closing_stages",
    "document",
    "elements",
    "encode_statement",
    "fields_of_raw",
    "guard_filter",
    "id_of_raw",
    "match_filter",
    "match_hash",
    "read_version",
    "same_bson",
]
