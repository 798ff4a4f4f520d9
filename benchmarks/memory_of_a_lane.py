"""How much memory one lane needs for a large collection, and whether its progress tells the truth on the way.

``python benchmarks/memory_of_a_lane.py [DOCUMENTS]``: starts a MongoDB of its own, migrates so many small documents
(a million by default) with one lane, prints figures as JSON, and exits with 1 if memory grew by more than 30 MB or
if the time that was left had been told wrong by more than half.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread
from typing import Any

from attrs import asdict, frozen
from pymongo.collection import Collection

from migronaut import Migrator
from migronaut.embedded import EmbeddedMongo

MOST_GROWTH = 30e6
MOST_ERROR = 0.5
_LOOK = 0.5
_CHUNK = 20_000
_FILE = "20260101000000_orders_shipping.py"
_TEXT = '''"""Move address into shipping."""
from migronaut import Background


def migrate(doc):
    doc["shipping"] = {"address": doc.pop("address")}
    return doc


background = Background(collection="orders", from_version=1, to_version=2, migrate=migrate, pause=0)
'''


@frozen(kw_only=True)
class Look:
    """What was seen at one moment: seconds since the start, bytes held, documents done, seconds left as told."""

    at: float
    resident: int
    done: int
    percent: float
    eta: tuple[float, float] | None


def main(documents: int) -> int:
    with EmbeddedMongo() as server, tempfile.TemporaryDirectory() as directory:
        Path(directory, _FILE).write_text(_TEXT)
        with Migrator(uri=server.uri, db="shop", migrations_dir=directory) as migrator:
            _seed(migrator.db["orders"], documents)
            migrator.up()
            looks = _run(migrator)
            migrated = migrator.db["orders"].count_documents({"schema_version": 2})
    return _tell(looks, documents, migrated)


def _seed(orders: Collection[Any], documents: int) -> None:
    for start in range(0, documents, _CHUNK):
        numbers = range(start, min(start + _CHUNK, documents))
        orders.insert_many([{"_id": n, "address": f"street {n}", "schema_version": 1} for n in numbers], ordered=False)


def _run(migrator: Migrator) -> list[Look]:
    """Migrate, and look at it twice a second."""
    looks: list[Look] = []
    ended = Event()

    def watch() -> None:
        while not ended.wait(_LOOK):
            looks.append(_look(migrator, start))

    start = time.monotonic()
    watcher = Thread(target=watch)
    watcher.start()
    try:
        migrator.background.run(_FILE)
    finally:
        ended.set()
        watcher.join()
    looks.append(_look(migrator, start))
    return looks


def _look(migrator: Migrator, start: float) -> Look:
    progress = migrator.background.status(_FILE).progress
    low, high = progress.eta_low, progress.eta_high
    eta = None if low is None else (low, low if high is None else high)
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return Look(at=time.monotonic() - start, resident=resident, done=progress.done, percent=progress.percent, eta=eta)


def _tell(looks: list[Look], documents: int, migrated: int) -> int:
    """Print the figures; the exit code."""
    total = looks[-1].at
    # The first batches fill the caches of the interpreter and the driver: growth is what comes after 2 %.
    warm = next(look for look in looks if look.done >= documents / 50)
    growth = max(look.resident for look in looks) - warm.resident
    samples = [look for look in (_nearest(looks, share * total) for share in (0.25, 0.5, 0.75)) if look.eta]
    errors = [_error(look, total) for look in samples]
    told = {
        "documents": documents,
        "migrated": migrated,
        "seconds": round(total, 1),
        "documents_per_second": round(documents / total),
        "resident_mb_when_warm": round(warm.resident / 1e6, 1),
        "growth_mb": round(growth / 1e6, 1),
        "error_of_time_left": [round(error, 2) for error in errors],
        "looks": [asdict(look) for look in samples],
    }
    print(json.dumps(told, indent=2))
    steady = all(one.done <= other.done for one, other in pairwise(looks))
    good = migrated == documents and growth <= MOST_GROWTH and steady and all(error <= MOST_ERROR for error in errors)
    return 0 if good else 1


def _nearest(looks: list[Look], at: float) -> Look:
    return min(looks, key=lambda look: abs(look.at - at))


def _error(look: Look, total: float) -> float:
    """How far the middle of the told range was from the seconds that were left, as a share of them."""
    low, high = look.eta or (0.0, 0.0)
    left = total - look.at
    return abs((low + high) / 2 - left) / left


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
