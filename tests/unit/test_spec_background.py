from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any

import attrs
import pytest

from migronaut.core.state import Guard, Partitioning, Spec
from migronaut.errors import InvalidMigrationError, IrreversibleMigrationError
from migronaut.spec import Background


def same(doc: dict[str, Any]) -> dict[str, Any]:
    return doc


def build(**changes: Any) -> Background:
    settings: dict[str, Any] = {"collection": "orders", "from_version": 1, "to_version": 2, "migrate": same}
    return Background(**{**settings, **changes})


def by_filter(**changes: Any) -> Background:
    return build(**{"from_version": None, "to_version": None, "filter": {"new": {"$exists": False}}, **changes})


def problems(function: Any, **changes: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidMigrationError) as caught:
        function(**changes)
    return [(each["setting"], each["problem"]) for each in caught.value.context["problems"]]


def settings_with_problems(function: Any, **changes: Any) -> list[str]:
    return [setting for setting, _ in problems(function, **changes)]


def test_defaults_are_those_of_the_stored_spec() -> None:
    background = Background(collection="orders", from_version=0, to_version=1, migrate=same)
    assert background.spec == Spec(collection="orders", from_version=0, to_version=1)
    assert background.description == ""


def test_every_setting_reaches_the_spec() -> None:
    given: dict[str, Any] = {
        "collection": "shop.orders",
        "from_version": 3,
        "to_version": 5,
        "filter": {"kind": "a"},
        "revert_filter": {"kind": "b"},
        "version_field": "v",
        "revision_field": "r",
        "guard": Guard.REVISION,
        "batch_size": 10_000,
        "pause": 0.0,
        "slice_length": 1.0,
        "write_concern": {"w": 2, "j": True, "wtimeout": 5},
        "max_document_errors": 1000,
        "max_passes": 1,
        "max_conflict_retries": 0,
        "max_slice_failures": 100,
        "max_parallel": 64,
        "partitions": Partitioning(over_partition=1, max_partitions=2, min_documents=3, sample_size=4),
    }
    background = Background(**given, migrate_many=lambda docs: docs, revert=same, description=" Words. ")
    assert background.spec == Spec(**given, batched=True, reversible=True)
    assert set(attrs.asdict(background.spec, recurse=False)) == {
        *given,
        *("batched", "reversible", "pipeline", "revert_pipeline"),
    }
    assert background.description == "Words."


def test_a_built_background_cannot_be_changed() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        build().spec = None  # type: ignore[misc,assignment]


OUT_OF_RANGE: list[tuple[str, Any]] = [
    ("batch_size", 0),
    ("batch_size", 10_001),
    ("batch_size", True),
    ("batch_size", 5.0),
    ("batch_size", None),
    ("batch_size", 10**400),
    ("pause", -0.1),
    ("pause", 3600.1),
    ("pause", float("nan")),
    ("pause", float("inf")),
    ("pause", True),
    ("pause", "1"),
    ("pause", timedelta(hours=2)),
    ("slice_length", 0.5),
    ("slice_length", 3601),
    ("max_document_errors", -1),
    ("max_document_errors", 1001),
    ("max_passes", 0),
    ("max_passes", 1001),
    ("max_conflict_retries", -1),
    ("max_conflict_retries", 101),
    ("max_slice_failures", 0),
    ("max_slice_failures", 101),
    ("max_parallel", 0),
    ("max_parallel", 65),
    ("from_version", -1),
    ("from_version", True),
    ("from_version", 1.0),
    ("to_version", 1),
    ("to_version", 0),
    ("to_version", 2**63),
    ("write_concern", {"w": 0}),
    ("write_concern", {"w": False}),
    ("write_concern", {"w": ""}),
    ("write_concern", {"w": 51}),
    ("write_concern", {"w": 1, "fsync": True}),
    ("write_concern", {"j": 1}),
    ("write_concern", {"wtimeout": -1}),
    ("write_concern", "majority"),
    ("partitions", {"over_partition": 1}),
    ("partitions", Partitioning(over_partition=0)),
    ("partitions", Partitioning(over_partition=65)),
    ("partitions", Partitioning(max_partitions=4097)),
    ("partitions", Partitioning(min_documents=0)),
    ("partitions", Partitioning(sample_size=100_001)),
    ("guard", "none"),
    ("guard", None),
    ("guard", []),
    ("guard", "revision"),
    ("version_field", ""),
    ("version_field", "v" * 65),
    ("version_field", "a.b"),
    ("version_field", "a$"),
    ("version_field", "a\0"),
    ("version_field", "\ud800"),
    ("version_field", "_id"),
    ("version_field", "__proto__"),
    ("version_field", None),
    ("revision_field", "a.b"),
    ("revision_field", "schema_version"),
    ("description", 5),
    ("collection", ""),
    ("collection", None),
    ("collection", "TODO"),
    ("collection", "system.users"),
    ("collection", "_migronaut_background"),
    ("collection", "a$b"),
    ("collection", "a\0b"),
    ("collection", "a..b"),
    ("collection", ".a"),
    ("collection", "a."),
    ("collection", "x" * 256),
    ("collection", "\ud800"),
    ("filter", [("a", 1)]),
    ("revert_filter", {"a": 1}),
    ("migrate", "same"),
    ("migrate", None),
]


@pytest.mark.parametrize(("setting", "value"), OUT_OF_RANGE, ids=lambda value: ascii(value)[:40])
def test_a_value_out_of_range_is_refused_alone_and_by_name(setting: str, value: Any) -> None:
    assert settings_with_problems(build, **{setting: value}) == [setting]


@pytest.mark.parametrize(("given", "seconds"), [(2, 2.0), (0.25, 0.25), (timedelta(milliseconds=1500), 1.5)])
def test_durations_are_seconds_or_a_timedelta(given: Any, seconds: float) -> None:
    spec = build(pause=given, slice_length=timedelta(minutes=1)).spec
    assert (spec.pause, spec.slice_length) == (seconds, 60.0)
    assert type(spec.pause) is float


def test_all_problems_are_reported_at_once() -> None:
    found = settings_with_problems(Background, batchsize=1, batch_size=0, pause=-1, from_version=1, guard="x")
    assert found == ["batchsize", "pause", "guard", "batch_size", "collection", "to_version", "migrate"]


def test_the_message_tells_every_problem_and_no_value_that_is_not_a_number() -> None:
    with pytest.raises(InvalidMigrationError) as caught:
        build(batch_size="secret-a", filter={"schema_version": "secret-b"}, pause=-1)
    message = str(caught.value)
    assert "batch_size must be a whole number from 1 to 10000, not str" in message
    assert "filter must not mention" in message
    assert "not -1" in message
    assert "secret" not in message + repr(caught.value.context)
    assert caught.value.exit_code == 20


@pytest.mark.parametrize(("name", "close"), [("batchsize", "batch_size"), ("migrate_manny", "migrate_many")])
def test_an_unknown_setting_is_refused_with_the_close_name(name: str, close: str) -> None:
    assert problems(build, **{name: 1}) == [(name, f"is not a setting; did you mean {close}?")]


def test_what_belongs_beside_it_is_told_where() -> None:
    told = 'belongs to the file: write `requires = ["an_earlier_background_file.py"]` beside background'
    assert problems(build, requires=["0001_a.py"]) == [("requires", told)]


def test_an_unknown_setting_without_a_close_name_is_refused() -> None:
    assert problems(build, zzz=None) == [("zzz", "is not a setting")]


LATER = ["step", "revert_step", "transaction", "adaptive", "throttle", "max_replication_lag"]


@pytest.mark.parametrize("name", LATER)
def test_a_setting_of_a_later_release_is_refused_and_not_ignored(name: str) -> None:
    assert problems(build, **{name: 10}) == [(name, "is not supported yet; leave it out")]


@pytest.mark.parametrize("off", [None, False])
@pytest.mark.parametrize("name", LATER)
def test_a_setting_of_a_later_release_may_be_switched_off(name: str, off: object) -> None:
    build(**{name: off})


def test_a_step_alone_is_reported_once() -> None:
    assert settings_with_problems(build, migrate=None, step=same) == ["step"]


@pytest.mark.parametrize(("given", "missing"), [("from_version", "to_version"), ("to_version", "from_version")])
def test_one_version_without_the_other_is_refused(given: str, missing: str) -> None:
    assert settings_with_problems(build, **{missing: None}) == [missing]


def test_by_predicate_needs_a_filter_that_excludes_something() -> None:
    assert settings_with_problems(by_filter, filter=None) == ["filter"]
    assert settings_with_problems(by_filter, filter={}) == ["filter"]
    assert settings_with_problems(by_filter, revert=same) == ["revert_filter"]
    assert settings_with_problems(by_filter, revert=same, revert_filter={}) == ["revert_filter"]
    spec = by_filter(revert=same, revert_filter={"new": {"$exists": True}}).spec
    assert not spec.versioned
    assert spec.reversible


def test_by_version_an_empty_filter_is_fine() -> None:
    assert build(filter={}).spec.filter == {}


@pytest.mark.parametrize(
    ("function", "changes"),
    [(by_filter, {"guard": "version"}), (by_filter, {"guard": "revision"}), (build, {"guard": Guard.REVISION})],
)
def test_a_guard_without_what_it_compares_is_refused(function: Any, changes: Any) -> None:
    assert settings_with_problems(function, **changes) == ["guard"]


@pytest.mark.parametrize("guard", ["auto", "snapshot", "version", Guard.SNAPSHOT])
def test_guards_can_be_named(guard: Any) -> None:
    assert build(guard=guard).spec.guard is Guard(guard)


def test_write_concern_is_majority_unless_w_is_given() -> None:
    assert build(write_concern={"j": True}).spec.write_concern == {"w": "majority", "j": True}
    assert build(write_concern={"w": 1}).spec.write_concern == {"w": 1}
    assert build(write_concern={"w": 50}).spec.write_concern == {"w": 50}


def test_two_ways_to_transform_are_refused() -> None:
    assert settings_with_problems(build, migrate_many=same) == ["migrate_many"]
    assert settings_with_problems(build, revert=same, revert_many=same) == ["revert_many"]


def test_without_a_way_back_asking_for_it_says_so() -> None:
    with pytest.raises(IrreversibleMigrationError) as caught:
        build().way("revert")
    assert caught.value.exit_code == 13


class Callable1:
    def __call__(self, doc: Any) -> Any:
        return doc


class AsyncCallable:
    async def __call__(self, doc: Any) -> Any:
        return doc


class Unreadable(Callable1):
    __signature__ = "none"


async def asynchronous(doc: Any) -> Any:
    return doc


def generator(doc: Any) -> Any:
    yield doc


ACCEPTED = [
    same,
    Callable1(),
    Callable1().__call__,
    functools.partial(lambda extra, doc: doc, 1),
    lambda doc, ctx: doc,
    lambda doc, ctx=None: doc,
    lambda doc, cache=(): doc,
    lambda doc, *rest, option=1: doc,
]
REFUSED = [
    (lambda: None, "must take"),
    (lambda a, b, c: a, "must take"),
    (lambda *args: args, "must take"),
    (lambda doc, *, option: doc, "must take"),
    (asynchronous, "asynchronous"),
    (functools.partial(asynchronous), "asynchronous"),
    (AsyncCallable(), "asynchronous"),
    (generator, "generator"),
    (Unreadable(), "cannot be read"),
    (42, "must be a function"),
]


@pytest.mark.parametrize("function", ACCEPTED)
def test_callables_with_one_or_two_parameters_are_accepted(function: Any) -> None:
    build(migrate=function)


@pytest.mark.parametrize(("function", "words"), REFUSED)
@pytest.mark.parametrize("setting", ["migrate", "revert", "revert_many"])
def test_other_callables_are_refused_when_the_spec_is_built(setting: str, function: Any, words: str) -> None:
    ((found, problem),) = problems(build, **{setting: function})
    assert found == setting
    assert words in problem
