"""What a seed stands for: the migration, the documents, who takes part, and how bad the weather is."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from attrs import evolve, frozen

from migronaut.core.state import Guard
from migronaut.simulation.faults import Weights, weights_of

FIRST, SECOND = "first.py", "second.py"
_PIPELINES = 0.2
"""The share of the seeds whose migration is a pipeline."""


@frozen(kw_only=True)
class FileVersion:
    """One text of the migration file.

    Args:
        narrow: It asks for one kind of documents only, so that a plan for the other text is void.
    """

    checksum: str
    batch_size: int
    max_parallel: int
    narrow: bool = False


@frozen(kw_only=True)
class Trouble:
    """What is wrong with one document.

    Args:
        times: How often its transform raises; -1 = until somebody corrects the application.
        slice: The raise takes the whole slice down (only with ``migrate_many``).
        refused: It is not the transform that fails: the server refuses the result.
    """

    times: int
    slice: bool = False
    refused: bool = False


@frozen(kw_only=True)
class Scenario:
    """Everything about a run that is not a decision of the scheduler.

    Args:
        files: The text that is registered, and the one of the deploy.
        guard: As the migration declares it; the server has transactions only where it needs them.
        versioned: Documents are chosen by version, not by predicate.
        pipeline: The server rewrites the documents itself.
        revisions: There is a revision field; with the revision guard every write bumps it.
        troubles: By ``_id``.
        corrected: In the end the documents in trouble can be migrated, and what failed is tried again.
        dependent: A second migration requires the first.
        beat_by_queue: The beat is a job (as with RQ), not a thread (as with Dramatiq).
        writes: Of the application.
        orders: Of the operator.
        deploys: Changes of files, each on one process.
    """

    seed: int
    weights: Weights
    files: tuple[FileVersion, FileVersion]
    guard: Guard
    versioned: bool
    revisions: bool
    batched: bool
    pipeline: bool
    max_document_errors: int
    max_passes: int
    max_slice_failures: int
    max_conflict_retries: int
    slice_length: float
    lane_poll: float
    pause: float
    documents: tuple[Mapping[str, Any], ...]
    troubles: Mapping[Any, Trouble]
    corrected: bool
    dependent: bool
    workers: int
    runners: int
    beat_by_queue: bool
    writes: int
    orders: int
    deploys: int

    @property
    def transactions(self) -> bool:
        """Whether the server has transactions."""
        return self.guard is Guard.SNAPSHOT


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed."""
    random = Random(f"scenario {seed}")
    guard = random.choice((Guard.SNAPSHOT, Guard.SNAPSHOT, Guard.REVISION, Guard.VERSION))
    versioned = guard is Guard.VERSION or random.random() < 0.6
    revisions = guard is Guard.REVISION or random.random() < 0.5
    ids = _ids(random)
    batched = random.random() < 0.4
    pipeline = Random(f"pipeline {seed}").random() < _PIPELINES
    first = FileVersion(
        checksum="text 1", batch_size=random.choice((1, 2, 3, 5, 8)), max_parallel=random.choice((1, 1, 2, 3, 4))
    )
    return Scenario(
        seed=seed,
        weights=weights_of(random),
        files=(first, _changed(random, first, versioned=versioned)),
        guard=guard,
        versioned=versioned,
        revisions=revisions,
        batched=batched,
        pipeline=pipeline,
        max_document_errors=random.choice((0, 0, 1, 3)),
        max_passes=random.choice((10, 10, 2)),
        max_slice_failures=random.choice((1, 3, 3)),
        max_conflict_retries=random.choice((0, 1, 3)),
        slice_length=random.choice((1.0, 5.0, 20.0)),
        lane_poll=random.choice((5.0, 10.0, 30.0)),
        pause=random.choice((0.0, 0.1, 2.0)),
        documents=tuple(_old(random, id_, revisions=revisions, versioned=versioned) for id_ in ids),
        troubles=_troubles(random, ids, batched=batched, pipeline=pipeline),
        corrected=random.random() < 0.5,
        dependent=random.random() < 0.2,
        workers=random.choice((1, 2, 3, 3)),
        runners=random.choice((0, 0, 1, 2)),
        beat_by_queue=random.random() < 0.5,
        writes=random.choice((0, 20, 50, 120)),
        orders=random.choice((0, 0, 2, 5, 12)),
        deploys=random.choice((0, 0, 0, 2, 6)),
    )


def _ids(random: Random) -> list[Any]:
    numbers: list[Any] = list(range(random.choice((0, 2, 5, 9, 14, 20))))
    texts = [f"t{number}" for number in range(random.choice((0, 0, 3, 6)))]
    return numbers + texts


def _old(random: Random, id_: Any, *, revisions: bool, versioned: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "_id": id_,
        "kind": random.choice("xy"),
        "hits": 0,
        "done": 0,
        "old": random.randrange(9),
    }
    if versioned:
        document["schema_version"] = 1
    if revisions:
        document["rev"] = random.randrange(3)
    return document


def _troubles(random: Random, ids: list[Any], *, batched: bool, pipeline: bool) -> dict[Any, Trouble]:
    if not ids or random.random() < 0.6:
        return {}
    troubles = {random.choice(ids): _trouble(random, batched=batched) for _ in range(random.choice((1, 1, 2, 3)))}
    # A pipeline calls no function that could raise: it is the server that refuses.
    return {id_: evolve(each, refused=True, slice=False) if pipeline else each for id_, each in troubles.items()}


def _trouble(random: Random, *, batched: bool) -> Trouble:
    refused = random.random() < 0.3
    return Trouble(
        times=random.choice((-1, 1, 2, 4)),
        slice=batched and not refused and random.random() < 0.5,
        refused=refused,
    )


def _changed(random: Random, first: FileVersion, *, versioned: bool) -> FileVersion:
    changed = evolve(first, checksum="text 2", batch_size=random.choice((1, 2, 4)))
    if random.random() < 0.5:
        changed = evolve(changed, max_parallel=random.choice((1, 2, 3)))
    return evolve(changed, narrow=versioned and random.random() < 0.2)
