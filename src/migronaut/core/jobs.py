"""The payloads that travel through a queue, and the strict door they come in by.

A payload is a hint and untrusted input: it names a ticket, nothing else. No URI, filter or code
ever travels, and an error names the field, never its value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Literal

import cattrs
from attrs import asdict, field, fields, frozen
from attrs.validators import and_, ge, le, matches_re, max_len
from cattrs.errors import ClassValidationError
from cattrs.gen import make_dict_structure_fn

from migronaut.core.names import name_problem
from migronaut.errors import QueueJobInvalidError

PAYLOAD_VERSION = 1
MAX_SEQ = 2**53
MAX_LANES = 64


class _WrongFieldError(ValueError):
    """A value out of range; knows the field, not the value."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _checked(*validators: Callable[[Any, Any, Any], None]) -> Callable[[Any, Any, Any], None]:
    """All ``validators``, with an error that names nothing but the field."""

    def check(instance: Any, attribute: Any, value: Any) -> None:
        """Validate one field."""
        try:
            and_(*validators)(instance, attribute, value)
        except (ValueError, TypeError):
            raise _WrongFieldError(attribute.name) from None

    return check


def _is_name(_instance: Any, _attribute: Any, value: str) -> None:
    if name_problem(value):
        raise ValueError("not the name of a migration")


_NAME = _checked(_is_name)
_RUN = _checked(max_len(128), matches_re(r"[A-Za-z0-9_-]+"))
_SEQ = _checked(ge(0), le(MAX_SEQ))
_LANE = _checked(ge(0), le(MAX_LANES - 1))


@frozen(kw_only=True)
class CoordinatorJob:
    """Look at one migration and decide what comes next."""

    migration: str = field(validator=_NAME)
    run: str = field(validator=_RUN)
    seq: int = field(validator=_SEQ)
    kind: Literal["background"] = "background"
    v: int = PAYLOAD_VERSION


@frozen(kw_only=True)
class LaneJob:
    """Work one slice in one lane slot."""

    migration: str = field(validator=_NAME)
    run: str = field(validator=_RUN)
    seq: int = field(validator=_SEQ)
    lane: int = field(validator=_LANE)
    kind: Literal["background-lane"] = "background-lane"
    v: int = PAYLOAD_VERSION


@frozen(kw_only=True)
class VerifyJob:
    """Heal overdue tickets and look for drift."""

    kind: Literal["background-verify"] = "background-verify"
    v: int = PAYLOAD_VERSION


Payload = CoordinatorJob | LaneJob | VerifyJob


@frozen(kw_only=True)
class Hint:
    """A payload and the queue-side id it is sent under; ids are ``[A-Za-z0-9_-]`` and never used twice."""

    id: str
    payload: Payload

    def body(self) -> dict[str, Any]:
        """The payload as plain JSON."""
        return asdict(self.payload)


def queue_id(migration: str, run: str, *, lane: int | None, seq: int, sends: int) -> str:
    """A queue-side id: two names that differ in any character never share one."""
    digest = hashlib.sha256(migration.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    role = "c" if lane is None else f"l{lane}"
    return f"migronaut-{digest}-{run}-{role}-{seq}-{sends}"


def _strict_int(value: object, _: type) -> int:
    if type(value) is not int:
        raise TypeError("not a whole number")
    return value


def _strict_str(value: object, _: type) -> str:
    if type(value) is not str:
        raise TypeError("not a text")
    return value


_converter = cattrs.Converter(forbid_extra_keys=True)
_converter.register_structure_hook(int, _strict_int)
_converter.register_structure_hook(str, _strict_str)
_KINDS: dict[str, type[CoordinatorJob | LaneJob | VerifyJob]] = {
    "background": CoordinatorJob,
    "background-lane": LaneJob,
    "background-verify": VerifyJob,
}
for _kind in _KINDS.values():
    _converter.register_structure_hook(_kind, make_dict_structure_fn(_kind, _converter))


def parse_payload(payload: object) -> Payload:
    """Structure what arrived, strictly.

    Raises:
        QueueJobInvalidError: Not an object, an unknown kind or field, a newer version, a value out of
            range. Names the field, never the value.
    """
    if not isinstance(payload, Mapping):
        raise QueueJobInvalidError("The job's payload is not an object; nothing was run.")
    if type(payload.get("v")) is not int or payload["v"] != PAYLOAD_VERSION:
        raise QueueJobInvalidError(
            "The job's payload has another version (field v); nothing was run. "
            "Run workers and producers of the same release.",
            field="v",
        )
    kind = payload.get("kind")
    target = _KINDS.get(kind) if isinstance(kind, str) else None
    if target is None:
        raise QueueJobInvalidError("The job's payload has an unknown kind; nothing was run.", field="kind")
    try:
        return _converter.structure(dict(payload), target)
    except ClassValidationError as error:
        raise _refused(error, target) from None
    except Exception:
        raise QueueJobInvalidError("The job's payload is not one of ours; nothing was run.") from None


def _refused(error: ClassValidationError, target: type) -> QueueJobInvalidError:
    name = _field_of(error, target)
    if name is None:
        return QueueJobInvalidError("The job's payload has a field that is not one of ours; nothing was run.")
    return QueueJobInvalidError(f"The job's payload is wrong at field {name}; nothing was run.", field=name)


def _field_of(error: ClassValidationError, target: type) -> str | None:
    """The first field of ours that an error is about; None = a foreign one, which stays unnamed."""
    known = {attribute.name for attribute in fields(target)}
    for cause in error.exceptions:
        note = next(iter(getattr(cause, "__notes__", ())), None)
        name = getattr(cause if isinstance(cause, _WrongFieldError) else note, "name", None)
        if name in known:
            return str(name)
    return None
