"""What the memory ports promise beyond the contract: atomic steps, crash points, the same run for the same seed."""

from __future__ import annotations

import threading
from random import Random

import bson
import pytest
from attrs import evolve

from migronaut.core.ports import Busy, Checkpoint, Exhausted, Owner, Pass, Write, WriteRefusedError
from migronaut.core.state import BackgroundState, Cursor, Partition, PartitionStatus, Scope, Spec, Status
from migronaut.core.tickets import Role, Ticket, TicketStatus
from migronaut.errors import LeaseLostError, TransactionsUnsupportedError
from migronaut.memory import MemoryDocuments, MemoryLocks, MemoryServer, MemoryStore, MemoryTickets

WORK = Pass(background="m.py", generation=1, plan="p")
OWNER = Owner(name="lane", host="here", pid=1)


def _partition(seq: int, *, estimate: int = 0, status: PartitionStatus = PartitionStatus.PENDING) -> Partition:
    return Partition(
        id=f"m.py:{seq}",
        background=WORK.background,
        generation=WORK.generation,
        plan=WORK.plan,
        seq=seq,
        scope=Scope(bracket="number"),
        estimate=estimate,
        status=status,
    )


def _claim(store: MemoryStore, *, slots: int = 8, ttl: float = 60) -> Partition:
    claimed = store.claim(WORK, owner=OWNER, slots=slots, ttl=ttl)
    assert isinstance(claimed, Partition)
    return claimed


def test_the_same_seed_gives_the_same_tokens_slots_and_samples() -> None:
    def run(seed: int) -> tuple[object, ...]:
        server = MemoryServer(random=Random(seed))
        server.collection("c").insert(*({"_id": number} for number in range(50)))
        store = MemoryStore(server)
        store.add_partitions([_partition(0)])
        drawn = MemoryDocuments(server, "c").sample({}, size=5, collection_first=True, timeout=1)
        return _claim(store).lease, drawn, MemoryTickets(server).open("m.py", Role.COORDINATOR)

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_threads_that_claim_at_once_never_share_a_partition_or_a_slot() -> None:
    store = MemoryStore(MemoryServer())
    store.add_partitions([_partition(seq) for seq in range(20)])
    results: list[object] = []
    start = threading.Barrier(16)

    def claim() -> None:
        start.wait()
        results.append(store.claim(WORK, owner=OWNER, slots=8, ttl=60))

    threads = [threading.Thread(target=claim) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    claimed = [result for result in results if isinstance(result, Partition)]
    assert results.count(Busy(30.0)) == 8
    assert Exhausted() not in results
    assert len({partition.seq for partition in claimed}) == 8
    assert {partition.lease.slot for partition in claimed if partition.lease} == set(range(8))


def test_started_work_is_claimed_first_then_the_largest() -> None:
    store = MemoryStore(MemoryServer())
    running = _partition(2, status=PartitionStatus.RUNNING)
    store.add_partitions([_partition(0, estimate=5), _partition(1, estimate=9), running])
    assert [_claim(store).seq for _ in range(3)] == [2, 1, 0]
    assert store.claim(WORK, owner=OWNER, slots=8, ttl=60) == Exhausted()


def test_an_expired_lease_is_taken_over_and_its_holder_fenced_off() -> None:
    server = MemoryServer()
    store = MemoryStore(server)
    store.add_partitions([_partition(0)])
    late = _claim(store, ttl=60)
    server.clock.advance(60)
    assert store.leases("m.py") == ()
    taken = _claim(store, ttl=60)
    assert (taken.claims, taken.counters.reclaims) == (2, 1)
    assert not store.renew(late)
    with pytest.raises(LeaseLostError):
        store.checkpoint(late, Checkpoint(cursor=Cursor(last_id=1)))
    assert store.partitions(WORK) == (taken,)


def test_slices_fail_a_partition_only_in_a_row() -> None:
    store = MemoryStore(MemoryServer())
    store.add_partitions([_partition(0)])
    assert not store.fail_slice(_claim(store), error="it raised", limit=2)
    claimed = _claim(store)
    store.checkpoint(claimed, Checkpoint())
    assert not store.fail_slice(claimed, error="it raised", limit=2)
    assert store.fail_slice(_claim(store), error="it raised", limit=2)
    assert store.claim(WORK, owner=OWNER, slots=1, ttl=60) == Exhausted()


def test_a_retry_forgets_bad_documents_everywhere_and_reopens_what_failed() -> None:
    store = MemoryStore(MemoryServer())
    store.add_partitions([_partition(0), _partition(1)])
    first, second = _claim(store), _claim(store)
    store.checkpoint(first, Checkpoint(bad_ids=(1,), done=True))
    assert store.fail_slice(second, error="it raised", limit=1)
    assert store.reset_partitions(WORK) == 1
    done, again = store.partitions(WORK)
    assert (done.status, done.bad_ids) == (PartitionStatus.DONE, ())
    assert (again.status, again.failures, again.last_error) == (PartitionStatus.PENDING, 0, None)


def test_an_interrupted_call_changes_nothing() -> None:
    server = MemoryServer()
    store, tickets, locks = MemoryStore(server), MemoryTickets(server), MemoryLocks(server)
    store.add_partitions([_partition(0)])
    reached: list[str] = []

    def crash(point: str) -> None:
        reached.append(point)
        raise KeyboardInterrupt

    server.interrupt = crash
    for call in (
        lambda: store.claim(WORK, owner=OWNER, slots=1, ttl=60),
        lambda: tickets.open("m.py", Role.COORDINATOR),
        lambda: locks.acquire("l", owner=OWNER, ttl=60),
    ):
        with pytest.raises(KeyboardInterrupt):
            call()
    server.interrupt = None
    assert reached == ["store.claim", "tickets.open", "locks.acquire"]
    assert store.partitions(WORK) == (_partition(0),)
    assert tickets.of("m.py") == ()
    assert locks.acquire("l", owner=OWNER, ttl=60) is not None


def test_a_lock_is_free_again_once_it_expired_and_the_nonce_decides() -> None:
    server = MemoryServer()
    locks = MemoryLocks(server)
    first = locks.acquire("l", owner=OWNER, ttl=10)
    assert first is not None
    assert locks.acquire("l", owner=OWNER, ttl=10) is None
    server.clock.advance(9)
    assert locks.renew("l", first)
    server.clock.advance(9)
    assert locks.acquire("l", owner=OWNER, ttl=10) is None
    server.clock.advance(1)
    second = locks.acquire("l", owner=OWNER, ttl=10)
    assert second not in {None, first}
    assert not locks.renew("l", first)
    assert not locks.release("l", first)
    assert locks.release("l", second or "")


def test_only_the_newest_hint_of_a_ticket_does_anything() -> None:
    server = MemoryServer()
    tickets = MemoryTickets(server)
    opened, fresh = tickets.open("m.py", Role.COORDINATOR)
    assert (fresh, tickets.open("m.py", Role.COORDINATOR)) == (True, (opened, False))

    def claim(ticket: Ticket, owner: str) -> Ticket | None:
        return tickets.claim(ticket.id, run=ticket.run, seq=ticket.seq, owner=owner, ttl=60)

    mine = claim(opened, "a")
    assert mine is not None
    assert claim(opened, "b") is None
    server.clock.advance(60)
    theirs = claim(opened, "b")
    assert theirs is not None
    assert (tickets.again(mine, delay=0), tickets.close(mine)) == (None, False)
    later = tickets.again(theirs, delay=10)
    assert later is not None
    assert claim(opened, "c") is None
    assert tickets.wake("m.py") is not None
    assert tickets.wake("m.py") is None
    assert claim(later, "c") is not None


def test_grace_grows_with_every_send() -> None:
    server = MemoryServer()
    tickets = MemoryTickets(server)
    tickets.open("m.py", Role.LANE, lane=1)
    server.clock.advance(30)
    assert tickets.overdue() == ()
    server.clock.advance(0.001)
    (late,) = tickets.overdue()
    sent = tickets.resend(late)
    assert sent is not None
    assert (sent.sends, sent.losses, sent.due) == (1, 0, server.now())
    assert tickets.resend(late) is None
    assert not tickets.drop(late)
    server.clock.advance(60.001)
    assert tickets.overdue() == (sent,)
    assert tickets.drop(sent)


def test_a_working_ticket_that_is_sent_again_is_nobodys_and_counts_a_loss() -> None:
    server = MemoryServer()
    tickets = MemoryTickets(server)
    opened, _ = tickets.open("m.py", Role.LANE, lane=1)
    working = tickets.claim(opened.id, run=opened.run, seq=0, owner="a", ttl=60)
    assert working is not None
    sent = tickets.resend(working)
    assert sent is not None
    assert (sent.status, sent.owner, sent.losses) == (TicketStatus.WAITING, None, 1)
    assert not tickets.extend(working, ttl=60)
    tickets.sent(working, "an older hint")
    tickets.sent(sent, "ref")
    assert [ticket.ref for ticket in tickets.of("m.py")] == ["ref"]


def test_of_two_writers_of_a_state_one_wins() -> None:
    server = MemoryServer()
    store = MemoryStore(server)
    start = server.now()
    state = BackgroundState(
        name="m.py",
        registration="r",
        status=Status.PENDING,
        checksum="c",
        spec=Spec(collection="orders"),
        registered_at=start,
        updated_at=start,
    )
    assert store.insert(state)
    assert not store.insert(evolve(state, status=Status.FAILED))
    server.clock.advance(1)
    saved = store.save(evolve(state, status=Status.PAUSED))
    assert saved == evolve(state, status=Status.PAUSED, revision=1, updated_at=server.now())
    assert store.save(evolve(state, status=Status.CANCELLED)) is None
    assert store.states() == (saved,)


def test_one_caller_an_interval_may_beat() -> None:
    server = MemoryServer()
    store = MemoryStore(server)
    assert [store.tick("heal", interval=30), store.tick("heal", interval=30)] == [True, False]
    server.clock.advance(29.999)
    assert not store.tick("heal", interval=30)
    server.clock.advance(0.001)
    assert store.tick("heal", interval=30)


def test_a_standalone_server_has_no_transactions() -> None:
    server = MemoryServer(transactions=False)
    documents = MemoryDocuments(server, "c")
    assert not documents.transactions()
    with pytest.raises(TransactionsUnsupportedError):
        documents.write_same(_partition(0), [], checkpoint=lambda left_out: Checkpoint())


def test_a_statement_larger_than_a_document_may_be_is_named() -> None:
    server = MemoryServer()
    server.collection("c").insert({"_id": 1}, {"_id": 2})
    server.max_document_size = 1000
    store, documents = MemoryStore(server), MemoryDocuments(server, "c")
    store.add_partitions([_partition(0)])
    claimed = _claim(store)
    writes = [
        Write(id=id_, before=bson.encode({"_id": id_}), statement=bson.encode({"q": {"_id": id_}, "u": update}))
        for id_, update in ((1, {"$set": {"v": 1}}), (2, {"$set": {"v": b"x" * 1000}}))
    ]
    with pytest.raises(WriteRefusedError) as refused:
        documents.write_same(claimed, writes, checkpoint=lambda left_out: Checkpoint())
    assert (refused.value.code, refused.value.index, refused.value.kind) == (10334, 1, "too-large")
    assert server.collection("c").get(1) == {"_id": 1}
