"""What a seed stands for: the migration, the documents, who takes part, and how bad the weather is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from attrs import evolve, frozen

from migronaut.core.ports import PortError, UnavailableError, WriteConflictError, WriteTooSlowError
from migronaut.core.state import Guard
from migronaut.simulation.faults import Weights, weights_of, with_perils
from migronaut.simulation.perils import NONE, Peril, perils_of
from migronaut.simulation.shapes import advanced, original

FIRST, SECOND = "first.py", "second.py"
CHAIN = (FIRST, "next.py", "last.py")
"""Migrations that follow each other by version."""
STEPS = {name: step for step, name in enumerate(CHAIN)} | {SECOND: 0}
"""By name of a migration: the shape that it leads from."""
COLLECTIONS = dict.fromkeys(CHAIN, "documents") | {SECOND: "dependents"}
_PIPELINES = 0.2
"""The share of the seeds whose migration is a pipeline."""
_WRITES, _OTHERS = ("documents.write", "documents.rewrite"), ("documents.read", "documents.fetch", "store.checkpoint")
"""The beginnings of the names of calls that may always fail."""
_ORDERS = 5
"""What an operator does at least who has more than pauses to think of."""
_LAX = 0.4
"""The share of those with failovers whose migrations do not wait for a majority."""


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


@frozen
class Stubborn:
    """What always fails.

    Args:
        call: How the names of the calls of a port begin.
        error: What they raise.
    """

    call: str
    error: type[PortError]


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
        beat_by_queue: The beat is a job (as with RQ), not a thread (as with Dramatiq).
        names: The migrations that are registered.
        perils: What this world has beyond the usual.
        careless: The share of the application's writes that do not wait for a majority.
        write_concern: Of the migrations.
        stubborn: The call that always fails.
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
    workers: int
    runners: int
    beat_by_queue: bool
    names: tuple[str, ...]
    perils: frozenset[Peril]
    careless: float
    write_concern: Mapping[str, Any]
    stubborn: Stubborn | None
    writes: int
    orders: int
    deploys: int

    @property
    def transactions(self) -> bool:
        """Whether the server has transactions."""
        return self.guard is Guard.SNAPSHOT

    @property
    def shapes(self) -> int:
        """How many shapes documents may have."""
        return 1 + max(STEPS[name] + 1 for name in self.names)


def scenario_of(seed: int, perils: Iterable[Peril] = NONE) -> Scenario:
    """The scenario of a seed.

    Args:
        perils: Those that it may have; without one of them the rest stays as it is.
    """
    calm = _usual(seed)
    here = perils_of(seed, perils)
    random = Random(f"perils {seed}")
    careless, lax = random.choice((0.0, 0.3, 1.0)), random.random() < _LAX
    links, advance = random.choice((2, 2, 3)), random.random()
    changed = evolve(calm, perils=here, weights=with_perils(calm.weights, here, random))
    if Peril.FAILOVER in here:
        changed = evolve(changed, careless=careless, write_concern={"w": 1} if lax else calm.write_concern)
    if Peril.CHAIN in here and calm.versioned:
        documents = tuple(_further(random, each, links, share=advance) for each in calm.documents)
        changed = evolve(changed, names=(*CHAIN[:links], *calm.names[1:]), documents=documents)
    if Peril.STUBBORN in here:
        changed = evolve(changed, stubborn=_stubborn(random), corrected=False)
    if here & {Peril.REVERT, Peril.WAIT}:
        changed = evolve(changed, orders=max(_ORDERS, calm.orders))
    return changed


def _stubborn(random: Random) -> Stubborn:
    write = random.random() < 0.7
    errors = (PortError, UnavailableError, WriteConflictError, WriteTooSlowError) if write else (UnavailableError,)
    return Stubborn(random.choice(_WRITES if write else _OTHERS), random.choice(errors))


def _further(random: Random, document: Mapping[str, Any], links: int, *, share: float) -> Mapping[str, Any]:
    """A document that is in any of the shapes already."""
    return advanced(document, random.randrange(links + 1) if random.random() < share else 0)


def _usual(seed: int) -> Scenario:
    """What a seed stands for without any peril."""
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
        documents=tuple(original(random, id_, revisions=revisions, versioned=versioned) for id_ in ids),
        troubles=_troubles(random, ids, batched=batched, pipeline=pipeline),
        corrected=random.random() < 0.5,
        names=(FIRST, SECOND) if random.random() < 0.2 else (FIRST,),
        perils=NONE,
        careless=0.0,
        write_concern={"w": "majority"},
        stubborn=None,
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
