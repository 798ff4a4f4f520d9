"""One table says what a code of the server means, on every path."""

from __future__ import annotations

import pytest
from pymongo.errors import AutoReconnect, OperationFailure

from migronaut.core.ports import (
    PortError,
    UnavailableError,
    WriteConflictError,
    WriteTooLargeError,
    WriteTooSlowError,
)
from migronaut.errors import ConnectionFailedError
from migronaut.mongo.codes import Meaning, meaning_of, meaning_of_pipeline_error, refusal
from migronaut.mongo.connection import translating
from migronaut.mongo.hints import refused

TRANSIENT = {"errorLabels": ["TransientTransactionError"]}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (6, UnavailableError),
        (64, UnavailableError),
        (133, UnavailableError),
        (189, UnavailableError),
        (246, UnavailableError),
        (11601, UnavailableError),
        (14031, UnavailableError),
        (50, WriteTooSlowError),
        (290, WriteTooSlowError),
        (257, WriteTooLargeError),
        (388, WriteTooLargeError),
        (10334, WriteTooLargeError),
        (112, WriteConflictError),
        (251, WriteConflictError),
        (13, ConnectionFailedError),
        (18, ConnectionFailedError),
        (2, PortError),
        (263, PortError),
        (999_999, PortError),
    ],
)
def test_what_leaves_a_port_for_a_code(code: int, error: type[Exception]) -> None:
    with pytest.raises(Exception) as raised, translating():  # noqa: PT011 - its exact class is what is asserted
        raise OperationFailure("SECRET", code)
    assert type(raised.value) is error
    assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize(
    ("code", "error"),
    [(246, UnavailableError), (50, WriteTooSlowError), (112, WriteConflictError), (999_999, UnavailableError)],
)
def test_a_transient_label_decides_only_about_codes_that_are_not_named(code: int, error: type[Exception]) -> None:
    """SnapshotUnavailable bears it for ever on a capped collection: only an outage ends as a failure."""
    with pytest.raises(Exception) as raised, translating():  # noqa: PT011 - its exact class is what is asserted
        raise OperationFailure("labelled", code, TRANSIENT)
    assert type(raised.value) is error


def test_a_network_error_is_an_outage_whatever_it_says() -> None:
    with pytest.raises(UnavailableError), translating():
        raise AutoReconnect("gone")


def test_an_unknown_code_speaks_of_a_document_only_where_a_pipeline_stopped_at_one() -> None:
    assert meaning_of(40_000) is Meaning.OTHER
    assert meaning_of(None) is Meaning.OTHER
    assert meaning_of_pipeline_error(40_000) is Meaning.DOCUMENT
    assert meaning_of_pipeline_error(241) is Meaning.DOCUMENT
    assert meaning_of_pipeline_error(11601) is Meaning.OUTAGE


def test_a_refused_hint_is_no_fault_of_a_document() -> None:
    assert refused(2, "planner returned error :: hint provided does not correspond to an existing index")
    assert not refused(2, "$slice needs a number")
    assert meaning_of_pipeline_error(2) is Meaning.DOCUMENT


@pytest.mark.parametrize(
    ("code", "kind"),
    [(11000, "refused"), (121, "refused"), (17419, "too-large"), (283, "shard-key"), (31025, "shard-key")],
)
def test_a_refusal_has_a_name(code: int, kind: str) -> None:
    assert refusal(code, "").kind == kind


_KEY = 'dup key: { email: "ann@example.org index: x dup key: y" }'


@pytest.mark.parametrize(
    ("code", "text", "by"),
    [
        (
            11000,
            f"E11000 duplicate key error collection: shop.users index: email_1 {_KEY}",
            "the unique index 'email_1'",
        ),
        (
            11000,
            f'E11000 duplicate key error collection: shop.users index: by mail collation: {{ locale: "en" }} {_KEY}',
            "the unique index 'by mail'",
        ),
        (11000, "duplicate key", "a unique index"),
        (121, "Document failed validation", "the validator of the collection"),
        (16755, "Can't extract geo keys: { _id: 7, at: 5 }", "an index of the collection"),
        (66, "would modify the immutable field '_id'", None),
    ],
)
def test_a_refusal_names_the_index_or_the_validator_and_no_value(code: int, text: str, by: str | None) -> None:
    assert refusal(code, text).by == by
