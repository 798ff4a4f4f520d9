"""A process that works the migration of ``engine_kit`` and may kill itself at a named point; its order is JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.database import Database

import migronaut
from engine_kit import Rig, at, orders
from migronaut.core.coordinator import Done

LEASE_TTL = 1.0
TESTS = Path(__file__).parent


def start(
    uri: str,
    database: str,
    settings: Mapping[str, Any],
    *,
    point: str | None = None,
    arrival: int = 1,
    lanes: int = 1,
) -> subprocess.Popen[bytes]:
    """Start such a process.

    Args:
        settings: Of the migration, beside those of ``orders()``.
        point: Where it dies by SIGKILL; it exits with 0 if it never comes there.
        arrival: At which arrival there.
        lanes: How many threads work, batch after batch, each in a slice of its own.
    """
    order = {
        "uri": uri,
        "database": database,
        "settings": dict(settings),
        "point": point,
        "arrival": arrival,
        "lanes": lanes,
    }
    source = Path(migronaut.__file__).parents[1]
    path = os.pathsep.join([str(TESTS), str(source), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "engine_lane", json.dumps(order)]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path})


def main(order: Mapping[str, Any]) -> None:
    with MongoClient[dict[str, Any]](order["uri"]) as client:
        rig = _rig(client[order["database"]], order)
        with ThreadPoolExecutor(order["lanes"]) as pool:
            for lane in [pool.submit(_work, rig) for _ in range(order["lanes"])]:
                lane.result()


def _work(rig: Rig) -> None:
    """Claim, one batch, release; so that claims of all lanes meet all the time."""
    while not isinstance(rig.coordinate(), Done):
        rig.slice(length=0.001)


def _rig(db: Database[Any], order: Mapping[str, Any]) -> Rig:
    rig = Rig(db=db, lease_ttl=LEASE_TTL)
    rig.give(orders(**order["settings"]))
    if order["point"]:
        rig.interrupt = at(order["point"], lambda: os.kill(os.getpid(), signal.SIGKILL), arrival=order["arrival"])
    return rig


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
