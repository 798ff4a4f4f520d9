"""``python -m benchmarks.variants [DOCUMENTS [REPETITIONS]]``: one lane as it is, and with one thing changed.

What a change gives is the median over the repetitions of its neighbour's time, as between peers.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from statistics import median
from unittest.mock import patch

from attrs import field, frozen

from benchmarks.orders import Orders
from benchmarks.ours import FILE, Settings, registered
from benchmarks.server import measured_server

AS_IT_IS = "as it is"


@frozen(kw_only=True)
class Variant:
    """One lane that differs in one thing."""

    settings: Settings = field(factory=Settings)
    changed: Callable[[], AbstractContextManager[object]] = nullcontext


@contextmanager
def _without_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _never(*_: object) -> bool:
    return False


VARIANTS: Mapping[str, Variant] = {
    AS_IT_IS: Variant(),
    "without reading ahead": Variant(changed=lambda: patch("migronaut.engine.lane.slice._Slice._goes_on", _never)),
    "reading ahead while the writer still computes": Variant(
        changed=lambda: patch("migronaut.engine.lane.ahead._wait_until_under_way", _never)
    ),
    "containers compared as BSON only": Variant(
        changed=lambda: patch("migronaut.versioning.equality._same_plain", _never)
    ),
    "batches of 250": Variant(settings=Settings(batch_size=250)),
    "batches of 1000": Variant(settings=Settings(batch_size=1000)),
    "batches of 2000": Variant(settings=Settings(batch_size=2000)),
    "Python's garbage collector off": Variant(changed=_without_collector),
    "pipeline": Variant(settings=Settings(pipeline=True)),
    "pipeline without reading ahead": Variant(
        settings=Settings(pipeline=True), changed=lambda: patch("migronaut.engine.lane.slice._Slice._goes_on", _never)
    ),
    "pipeline, its updates by themselves": Variant(settings=Settings(pipeline=True, guard="version")),
    "pipeline, batches of 1000": Variant(settings=Settings(pipeline=True, batch_size=1000)),
    "pipeline, batches of 20 000": Variant(settings=Settings(pipeline=True, batch_size=20_000)),
}


def main(documents: int, repetitions: int) -> None:
    """Print a table."""
    rates: dict[str, list[float]] = {name: [] for name in VARIANTS}
    with measured_server() as (_, client):
        orders = Orders(client, documents)
        _rate(orders, VARIANTS[AS_IT_IS])  # the first run of a process warms up
        for _ in range(repetitions):
            for name, variant in VARIANTS.items():
                rates[name].append(_rate(orders, variant))
                print(f"{name}: {rates[name][-1]:,.0f} documents/s", file=sys.stderr)
    print("| one lane | against as it is |\n| --- | --- |")
    for name, found in rates.items():
        ratio = median(one / base for one, base in zip(found, rates[AS_IT_IS], strict=True))
        print(f"| {name} | {ratio:.2f} |")


def _rate(orders: Orders, variant: Variant) -> float:
    orders.fresh()
    with registered(orders, variant.settings) as migrator, variant.changed():
        start = time.perf_counter()
        migrator.background.run(FILE)
        seconds = time.perf_counter() - start
    orders.verify()
    return orders.documents / seconds


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(given[0] if given else 100_000, given[1] if len(given) > 1 else 5)
