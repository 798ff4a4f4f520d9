"""``python -m benchmarks.profile [DOCUMENTS]``: where the time of one lane goes.

Two runs: one that listens to the driver (what it waits for), one under cProfile (what its own process does). The
profiler makes every call dearer, so the shares of the second are to be read as shares.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import sys

from benchmarks.commands import measure_commands
from benchmarks.orders import Orders
from benchmarks.ours import FILE, Settings, registered
from benchmarks.server import measured_server

_LINES = 45


def main(documents: int) -> None:
    """Print both."""
    with measured_server() as (_, client):
        orders = Orders(client, documents)
        measure_commands(orders)  # the first run of a process warms up
        print(json.dumps(measure_commands(orders).as_json(), indent=2))
        orders.fresh()
        profile = cProfile.Profile()
        with registered(orders, Settings()) as migrator:
            profile.runcall(migrator.background.run, FILE)
        orders.verify()
    pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(_LINES)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
