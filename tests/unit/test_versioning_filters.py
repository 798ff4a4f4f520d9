"""Which documents are to do, what hashes into a plan, and what a guarded write insists on."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from bson import Decimal128, Int64

from migronaut.core.state import Direction, Guard, Spec
from migronaut.errors import InvalidMigrationError
from migronaut.versioning import DocumentInvalidError, guard_filter, match_filter, match_hash, read_version

FORWARD, REVERT = Direction.FORWARD, Direction.REVERT
VERSIONED = Spec(collection="orders", from_version=1, to_version=2, revision_field="rev")
PREDICATE = Spec(collection="orders", filter={"b": None}, revert_filter={"b": 1}, revision_field="rev")


@pytest.mark.parametrize(
    ("spec", "direction", "expected"),
    [
        (VERSIONED, FORWARD, {"schema_version": 1}),
        (VERSIONED, REVERT, {"schema_version": 2}),
        (evolve(VERSIONED, from_version=0), FORWARD, {"schema_version": {"$in": [None, 0]}}),
        (evolve(VERSIONED, version_field="v"), FORWARD, {"v": 1}),
        (evolve(VERSIONED, filter={"a": 1}), FORWARD, {"$and": [{"schema_version": 1}, {"a": 1}]}),
        (evolve(VERSIONED, filter={"a": 1}), REVERT, {"schema_version": 2}),
        (evolve(VERSIONED, revert_filter={"b": 1}), REVERT, {"$and": [{"schema_version": 2}, {"b": 1}]}),
        (PREDICATE, FORWARD, {"b": None}),
        (PREDICATE, REVERT, {"b": 1}),
    ],
)
def test_match_filter_finds_the_documents_still_to_do(spec: Spec, direction: Direction, expected: object) -> None:
    assert match_filter(spec, direction) == expected


def test_a_predicate_migration_without_a_way_back_has_nothing_to_match_by() -> None:
    with pytest.raises(InvalidMigrationError, match="revert_filter"):
        match_filter(evolve(PREDICATE, revert_filter=None), REVERT)


def test_match_hash_is_stable_and_sees_all_that_decides_what_matches() -> None:
    variants = [
        (VERSIONED, FORWARD),
        (VERSIONED, REVERT),
        (evolve(VERSIONED, collection="carts"), FORWARD),
        (evolve(VERSIONED, to_version=3), FORWARD),
        (evolve(VERSIONED, filter={"a": 1}), FORWARD),
        (evolve(VERSIONED, filter={"a": 1.0}), FORWARD),
        (evolve(VERSIONED, version_field="v"), FORWARD),
        (evolve(VERSIONED, revision_field="r"), FORWARD),
        (PREDICATE, FORWARD),
    ]
    hashes = [match_hash(spec, direction) for spec, direction in variants]
    assert len(set(hashes)) == len(variants)
    assert all(len(one) == 64 for one in hashes)
    assert match_hash(evolve(VERSIONED, batch_size=7, max_parallel=9), FORWARD) == hashes[0]


@pytest.mark.parametrize(
    ("doc", "version"),
    [
        ({}, 0),
        ({"v": None}, 0),
        ({"v": 0}, 0),
        ({"v": 3}, 3),
        ({"v": Int64(2**40)}, 2**40),
        ({"v": 1.0}, 1),
        ({"v": -0.0}, 0),
    ],
)
def test_read_version_takes_whole_numbers_and_reads_nothing_as_0(doc: dict[str, Any], version: int) -> None:
    assert read_version(doc, "v") == version
    assert type(read_version(doc, "v")) is int


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        -1,
        Int64(-1),
        1.5,
        -1.0,
        1e300,
        float("nan"),
        float("inf"),
        "98761",
        [98761],
        Decimal128("1"),
        Int64(2**63 - 1),
    ],
)
def test_read_version_refuses_anything_else_without_quoting_it(value: object) -> None:
    with pytest.raises(DocumentInvalidError) as caught:
        read_version({"v": value}, "v")
    assert caught.value.kind == "invalid-version"
    assert "98761" not in str(caught.value)


DOC = {"_id": 5, "schema_version": 1, "rev": Int64(4), "a": 1}


@pytest.mark.parametrize(
    ("spec", "guard", "expected"),
    [
        (VERSIONED, Guard.SNAPSHOT, {"_id": 5}),
        (VERSIONED, Guard.REVISION, {"_id": 5, "schema_version": 1, "rev": 4}),
        (VERSIONED, Guard.VERSION, {"_id": 5, "schema_version": 1}),
        (PREDICATE, Guard.SNAPSHOT, {"_id": 5}),
        (PREDICATE, Guard.REVISION, {"_id": 5, "rev": 4}),
    ],
)
def test_guard_filter_insists_on_what_was_read(spec: Spec, guard: Guard, expected: object) -> None:
    assert guard_filter(DOC, spec=spec, guard=guard) == expected


@pytest.mark.parametrize(
    ("doc", "expected"),
    [({}, None), ({"rev": None}, None), ({"rev": 0}, 0)],
    ids=["missing", "null", "zero"],
)
def test_a_missing_revision_is_guarded_as_missing_not_as_0(doc: dict[str, Any], expected: object) -> None:
    filter_ = guard_filter({"_id": 5} | doc, spec=PREDICATE, guard=Guard.REVISION)
    assert filter_["rev"] is expected or filter_["rev"] == expected == 0


@pytest.mark.parametrize(
    ("spec", "guard"),
    [
        (PREDICATE, Guard.VERSION),
        (evolve(VERSIONED, revision_field=None), Guard.REVISION),
        (VERSIONED, Guard.AUTO),
    ],
)
def test_a_guard_without_its_field_never_becomes_an_unguarded_write(spec: Spec, guard: Guard) -> None:
    with pytest.raises(InvalidMigrationError, match=guard.value):
        guard_filter(DOC, spec=spec, guard=guard)


def test_guard_filter_refuses_a_revision_that_is_no_number() -> None:
    with pytest.raises(DocumentInvalidError, match="rev"):
        guard_filter(DOC | {"rev": "x"}, spec=VERSIONED, guard=Guard.REVISION)
