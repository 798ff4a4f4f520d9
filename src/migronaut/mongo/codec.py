"""Values of the core as BSON documents and back, strictly: a field that is not ours is an error.

A document has the names of the value's fields, except for the one that is its ``_id``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar, cast, get_args, get_origin

import cattrs
from attrs import NOTHING, fields
from bson.int64 import Int64
from cattrs.errors import ClassValidationError

from migronaut.core.state import SCHEMA, BackgroundState, DocumentError, Partition, Status
from migronaut.core.tickets import Ticket
from migronaut.errors import StateInvalidError

Value = TypeVar("Value")
Doc = dict[str, Any]

_ID_FIELDS: Mapping[type, str] = {BackgroundState: "name", Partition: "id", Ticket: "id"}


def _exactly(*kinds: type, make: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def structure(value: Any, _: Any) -> Any:
        """Take a value of exactly these types."""
        if type(value) not in kinds:
            raise TypeError(f"not of type {kinds[0].__name__}")
        return make(value)

    return structure


def _same(value: Any, _: Any = None) -> Any:
    return value


def _text(value: Any, kind: type[str]) -> str:
    """Also asked for our enums: they are texts, and cattrs looks for hooks of base classes first."""
    if not isinstance(value, str):
        raise TypeError("not of type str")
    return value if kind is str else kind(value)


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("not an array")
    return value


def _mapping(value: Any, _: Any) -> Doc:
    if not isinstance(value, Mapping):
        raise TypeError("not a document")
    return dict(value)


def converter(*, strict: bool) -> cattrs.Converter:
    """A converter for our records; user values (``Any``) pass through it as they are."""
    made = cattrs.Converter(forbid_extra_keys=strict)
    made.register_structure_hook(int, _exactly(int, Int64, make=int))
    made.register_structure_hook(float, _exactly(float, int, Int64, make=float))
    made.register_structure_hook(str, _text)
    made.register_structure_hook(bool, _exactly(bool, make=_same))
    made.register_structure_hook(datetime, _exactly(datetime, make=_same))
    made.register_structure_hook_func(lambda kind: kind is Any, _same)
    made.register_structure_hook_func(
        lambda kind: cast(object, get_origin(kind)) is tuple,
        lambda value, kind: tuple(made.structure(item, get_args(kind)[0]) for item in _array(value)),
    )
    made.register_structure_hook_func(lambda kind: kind == Mapping[str, Any], _mapping)
    made.register_unstructure_hook_func(lambda kind: kind is Any, _same)
    made.register_unstructure_hook_func(lambda kind: kind == Mapping[str, Any], dict)
    made.register_unstructure_hook_func(lambda kind: kind == tuple[Any, ...], list)
    return made


_strict = converter(strict=True)
_lenient = converter(strict=False)


def to_document(value: BackgroundState | Partition | Ticket) -> Doc:
    """One record as a document; a partition without a lease has no ``lease`` field, as its unique index asks."""
    doc = cast(Doc, _strict.unstructure(value))
    id_ = doc.pop(_ID_FIELDS[type(value)])
    if isinstance(value, Partition) and value.lease is None:
        del doc["lease"]
    return {"_id": id_, **doc}


def errors_to_documents(errors: tuple[DocumentError, ...]) -> list[Doc]:
    """Document errors as they stand inside a record."""
    return [{"at": error.at, "kind": error.kind, "message": error.message} for error in errors]


def partition_from(doc: Mapping[str, Any]) -> Partition:
    """A stored partition.

    Raises:
        StateInvalidError: It is not what this release writes.
    """
    return _structure(doc, Partition)


def ticket_from(doc: Mapping[str, Any]) -> Ticket:
    """A stored ticket.

    Raises:
        StateInvalidError: It is not what this release writes.
    """
    return _structure(doc, Ticket)


def state_from(doc: Mapping[str, Any]) -> BackgroundState:
    """A stored state. Of one that a newer release wrote, only what this one understands.

    Raises:
        StateInvalidError: It is not what this release writes.
    """
    schema = doc.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        return _structure(_understood(doc), BackgroundState, using=_lenient)
    return _structure(doc, BackgroundState)


def _understood(doc: Mapping[str, Any]) -> Doc:
    """The fields of a newer state that structure; the others stand at their defaults."""
    known = {"_id": doc.get("_id")}
    for attribute in fields(BackgroundState):
        if attribute.name not in doc:
            continue
        try:
            _lenient.structure(doc[attribute.name], cast(Any, attribute.type))
        except Exception:
            if attribute.default is NOTHING and attribute.name == "status":
                # Lanes of this release stop at a paused one, and nothing of it is written back.
                known["status"] = Status.PAUSED
        else:
            known[attribute.name] = doc[attribute.name]
    return known


def _structure(doc: Mapping[str, Any], kind: type[Value], *, using: cattrs.Converter = _strict) -> Value:
    plain = dict(doc)
    plain[_ID_FIELDS[kind]] = plain.pop("_id", None)
    try:
        return using.structure(plain, kind)
    # The cause quotes the stored values, so it is cut off.
    except Exception as error:
        name = field_of(error)
        raise StateInvalidError(
            f"A stored {kind.__name__} cannot be read: {name} is not as this release writes it. "
            "Restore the record, or use the release that wrote it.",
            field=name,
        ) from None


def field_of(error: Exception) -> str:
    """The field of ours that a structuring error is about; what others put into the record stays unnamed."""
    if isinstance(error, ClassValidationError):
        for cause in error.exceptions:
            name = getattr(next(iter(getattr(cause, "__notes__", ())), None), "name", None)
            if name is not None:
                return f"the field {name}"
        return "an unknown field"
    return "the record"
