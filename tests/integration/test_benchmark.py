"""What the benchmark says of an application's lost writes is right, whoever lost them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from benchmarks.application import move
from benchmarks.beside import WAYS, Written, lost_writes, run_beside
from benchmarks.orders import Orders, order_id
from benchmarks.peers import Job
from benchmarks.server import measured_server
from benchmarks.throughput import Peer
from pymongo import MongoClient

WITHIN = 30.0
ENOUGH = 20
"""Lost writes of so many orders are not all hidden by later ones."""


@pytest.fixture(scope="module")
def server() -> Iterator[MongoClient[Any]]:
    """A server for this file: a benchmark's database has one name."""
    with measured_server() as (_, client):
        yield client


@pytest.fixture
def orders(server: MongoClient[Any]) -> Orders:
    laid_out = Orders(server, 500)
    laid_out.fresh()
    return laid_out


def write(orders: Orders, number: int, street: str) -> Written:
    """One write of an application, as it will tell it."""
    made = move(orders.collection, order_id(number), street)
    return Written(number=number, street=street, seconds=0.001, made=made)


def to_new_shape(orders: Orders, read: dict[str, Any]) -> None:
    change = {"$set": {"shipping": {"address": read["address"]}, "schema_version": 2}, "$unset": {"address": ""}}
    orders.collection.update_one({"_id": read["_id"]}, change)


def as_peer(job: Callable[[Orders], None]) -> Peer:
    @contextmanager
    def make(orders: Orders) -> Iterator[Job]:
        yield lambda: job(orders)

    return Peer(name="way", label="a way", make=make)


def careless(orders: Orders) -> None:
    """Read all orders, and write them when the application has written some in between."""
    read, deadline = list(orders.collection.find()), time.monotonic() + WITHIN
    while sum(one != other for one, other in zip(orders.collection.find(), read, strict=True)) < ENOUGH:
        assert time.monotonic() < deadline, "the application does not write"
        time.sleep(0.01)
    for each in read:
        to_new_shape(orders, each)


def test_writes_before_and_after_the_migration_of_an_order_are_found(orders: Orders) -> None:
    told = [write(orders, 7, "written 0"), write(orders, 7, "written 1")]
    to_new_shape(orders, orders.collection.find_one({"_id": order_id(7)}) or {})
    told += [write(orders, 7, "written 2"), write(orders, 8, "written 3")]
    assert all(each.made for each in told)
    assert lost_writes(orders, told) == 0


def test_a_write_of_the_migrated_field_that_was_overwritten_is_lost(orders: Orders) -> None:
    read = orders.collection.find_one({"_id": order_id(7)}) or {}
    told = [write(orders, 7, "written 0"), write(orders, 8, "written 1")]
    to_new_shape(orders, read)
    assert lost_writes(orders, told) == 1


def test_all_writes_of_an_order_that_was_replaced_as_it_was_read_are_lost(orders: Orders) -> None:
    read = orders.collection.find_one({"_id": order_id(7)}) or {}
    told = [write(orders, 7, "written 0"), write(orders, 7, "written 1")]
    orders.collection.replace_one({"_id": order_id(7)}, read)
    assert lost_writes(orders, told) == 2


def test_all_writes_of_an_order_that_is_gone_are_lost(orders: Orders) -> None:
    told = [write(orders, 7, "written 0"), write(orders, 7, "written 1")]
    orders.collection.delete_one({"_id": order_id(7)})
    assert lost_writes(orders, told) == 2
    assert not write(orders, 7, "written 2").made


def test_an_order_with_a_write_of_which_nobody_knows_says_nothing(orders: Orders) -> None:
    told = [write(orders, 7, "written 0"), Written(number=7, street="written 1", seconds=1, made=False)]
    write(orders, 7, "written 1")
    assert lost_writes(orders, told) == 0


def test_a_careless_way_is_seen_to_lose_writes(server: MongoClient[Any]) -> None:
    seen = run_beside(Orders(server, 200), as_peer(careless))
    assert seen.lost >= 1
    assert (seen.errors, seen.failed, seen.left) == (0, 0, 0)


def test_a_way_that_fails_is_started_again(server: MongoClient[Any]) -> None:
    runs: list[int] = []

    def second_time(orders: Orders) -> None:
        runs.append(len(runs))
        if len(runs) == 1:
            raise RuntimeError("a write conflict")
        careless(orders)

    seen = run_beside(Orders(server, 200), as_peer(second_time))
    assert seen.failed == 1
    assert runs == [0, 1]
    assert seen.left == 0


@pytest.mark.parametrize("name", ["hand", "migrate", "pipeline"])
def test_a_careful_way_loses_nothing(server: MongoClient[Any], name: str) -> None:
    [way] = [way for way in WAYS if way.name == name]
    seen = run_beside(Orders(server, 1000), way)
    assert (seen.lost, seen.errors, seen.failed, seen.left) == (0, 0, 0, 0)
