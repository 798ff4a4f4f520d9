"""The migration files of a simulation: what they declare, and which text of one lies on which disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen

from migronaut.core.state import Direction, Partitioning, Spec
from migronaut.engine import Source
from migronaut.simulation.invariants import Invariants
from migronaut.simulation.perils import Peril
from migronaut.simulation.scenario import COLLECTIONS, FIRST, SECOND, STEPS, FileVersion, Scenario
from migronaut.simulation.shapes import FIELDS, ends_of, migrate, pipeline
from migronaut.spec import Background

_OTHER_TEXT = FileVersion(checksum="text 1", batch_size=2, max_parallel=1)
"""Of all migrations but the first."""


class SimulatedTroubleError(Exception):
    """What the transform of a document in trouble raises."""


@define(eq=False)
class Files:
    """All that lies on the disks of an installation.

    Args:
        on_disk: By name of a process, which text of the first migration's file it finds.
        troubles: By ``_id``, how often the transform will still raise; -1 = always.
    """

    scenario: Scenario
    invariants: Invariants
    on_disk: dict[str, int] = field(factory=dict)
    troubles: dict[Any, int] = field(init=False)

    @troubles.default
    def _as_they_are(self) -> dict[Any, int]:
        return {id_: trouble.times for id_, trouble in self.scenario.troubles.items()}

    def name_of(self, spec: Spec) -> str:
        """The migration that a spec was declared by."""
        if spec.collection == COLLECTIONS[SECOND]:
            return SECOND
        return next((name for name, step in STEPS.items() if step + 1 == spec.from_version), FIRST)

    def text_of(self, name: str, disk: str) -> FileVersion:
        """What one process finds."""
        return self.scenario.files[self.on_disk.get(disk, 0)] if name == FIRST else _OTHER_TEXT

    def source(self, name: str, text: FileVersion) -> Source:
        """A file, loaded."""
        return Source(
            name=name,
            checksum=text.checksum,
            background=self.background(name, text),
            requires=(FIRST,) if name == SECOND else (),
        )

    def background(self, name: str, text: FileVersion) -> Background:
        """What a migration file declares."""
        scenario, step = self.scenario, STEPS[name]
        settings: dict[str, Any] = {
            "collection": COLLECTIONS[name],
            "batch_size": text.batch_size,
            "max_parallel": text.max_parallel,
            "pause": scenario.pause,
            "slice_length": scenario.slice_length,
            "max_document_errors": scenario.max_document_errors,
            "max_passes": scenario.max_passes,
            "max_slice_failures": scenario.max_slice_failures,
            "max_conflict_retries": scenario.max_conflict_retries,
            "guard": scenario.guard,
            "write_concern": scenario.write_concern,
            "partitions": Partitioning(over_partition=2, min_documents=2),
        }
        if scenario.versioned:
            narrowed = {"kind": "x"} if text.narrow else None
            settings |= {"from_version": step + 1, "to_version": step + 2, "filter": narrowed}
        else:
            settings["filter"] = {FIELDS[1]: {"$exists": False}}
        if scenario.revisions:
            settings["revision_field"] = "rev"
        if scenario.pipeline:
            # Nobody can come between the reading and the writing of a document, so there is nothing to guard or retry.
            del settings["guard"], settings["max_conflict_retries"]
        settings |= self._way(name, text, Direction.FORWARD)
        if Peril.REVERT in scenario.perils:
            settings |= self._way(name, text, Direction.REVERT)
            if not scenario.versioned:
                settings["revert_filter"] = {FIELDS[0]: {"$exists": False}}
        return Background(**settings)

    def _way(self, name: str, text: FileVersion, direction: Direction) -> dict[str, Any]:
        """What rewrites documents in one direction."""
        forward = direction is Direction.FORWARD
        if self.scenario.pipeline:
            stages = pipeline(*ends_of(STEPS[name], direction))
            return {"pipeline": stages} if forward else {"revert_pipeline": stages}
        transform = self._transform(name, text.checksum, direction)
        if self.scenario.batched:
            return {"migrate_many" if forward else "revert_many": self._many(transform)}
        return {"migrate" if forward else "revert": transform}

    def _transform(self, name: str, checksum: str, direction: Direction) -> Callable[[dict[str, Any]], dict[str, Any]]:
        source, target = ends_of(STEPS[name], direction)

        def transform(document: dict[str, Any]) -> dict[str, Any]:
            self.invariants.transforming(name, checksum)
            if name == FIRST and self.in_trouble(document["_id"], refused=False):
                raise SimulatedTroubleError("the simulation let a document fail")
            return migrate(document, source, target)

        return transform

    def in_trouble(self, id_: Any, *, refused: bool) -> bool:
        """Whether a document fails this time, in the transform or by the server's refusal."""
        times, trouble = self.troubles.get(id_, 0), self.scenario.troubles.get(id_)
        if not times or trouble is None or trouble.refused is not refused:
            return False
        self.troubles[id_] = max(times - 1, -1)
        self.invariants.counting.happened(FIRST, failed=1)
        return True

    def _many(self, transform: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[list[Any]], list[Any]]:
        def transform_many(documents: list[Any]) -> list[Any]:
            results: list[Any] = []
            for document in documents:
                trouble = self.scenario.troubles.get(document["_id"])
                try:
                    results.append(transform(document))
                except SimulatedTroubleError as error:
                    if trouble is not None and trouble.slice:
                        raise
                    results.append(error)
            return results

        return transform_many


@frozen
class Disk:
    """The files that one process finds.

    Args:
        found: Told of each that is looked at.
    """

    files: Files
    name: str
    found: Callable[[str, str], None]

    def names(self) -> tuple[str, ...]:
        """All files."""
        return self.files.scenario.names

    def find(self, name: str) -> Source | None:
        """A file as it lies there now."""
        text = self.files.text_of(name, self.name)
        self.found(name, text.checksum)
        return self.files.source(name, text)
