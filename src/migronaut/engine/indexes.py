"""The index that makes counting what is left cheap, and the command that creates it."""

from __future__ import annotations

import json
import re

from migronaut.core.state import Spec

_BARE = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


def wanted_index(spec: Spec) -> str:
    """The keys of the index, as mongosh reads them: ``{schema_version: 1, _id: 1}``."""
    field = spec.version_field
    return f"{{{field if _BARE.fullmatch(field) else json.dumps(field, ensure_ascii=False)}: 1, _id: 1}}"


def create_index(spec: Spec) -> str:
    """The command that creates it, for mongosh."""
    name = json.dumps(spec.collection, ensure_ascii=False)
    collection = f"db.{spec.collection}" if _BARE.fullmatch(spec.collection) else f"db.getCollection({name})"
    return f"{collection}.createIndex({wanted_index(spec)})"
