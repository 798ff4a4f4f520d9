"""Cutting a pass: how much there is, which ids lie where, and the partitions that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from attrs import evolve, frozen

from migronaut.core.lifecycle import Action
from migronaut.core.partitioning import Cut, cut, open_cuts, parts_for, sample_size, target_parts
from migronaut.core.ports import Documents, Store, TookTooLongError
from migronaut.core.state import BackgroundState, Partition, Phase, Plan, Status
from migronaut.engine.coordinator.closing import rolled
from migronaut.engine.ports import Ports
from migronaut.engine.states import acted
from migronaut.engine.work import current_pass, match_of
from migronaut.versioning import match_filter

_SAMPLE_TIMEOUT = 30.0


def plan_pass(ports: Ports, state: BackgroundState, *, same_pass: bool) -> None:
    """Cut what is left and commit the plan; whoever loses the compare-and-set deletes its partitions."""
    store, token = ports.store, uuid4().hex
    drawn = _draw(ports.documents(state.spec), state)
    planned = _planned(store, state, drawn, token, same_pass=same_pass)
    work = current_pass(planned)
    store.add_partitions(
        [
            Partition(
                id=f"{token}-{seq}",
                background=state.name,
                generation=work.generation,
                plan=token,
                seq=seq,
                scope=each.scope,
                estimate=each.estimate,
            )
            for seq, each in enumerate(drawn.cuts)
        ]
    )
    if store.save(planned) is None:
        store.drop_plan(work)
        return
    store.drop_before(state.name, work.generation)


@frozen(kw_only=True)
class _Drawn:
    cuts: Sequence[Cut]
    method: str
    estimate: int
    at_least: bool = False
    degraded: str | None = None


def _planned(store: Store, state: BackgroundState, drawn: _Drawn, token: str, *, same_pass: bool) -> BackgroundState:
    """The state with the new plan; what the superseded one counted goes to the totals."""
    at = store.now()
    before = rolled(state, store.partitions(current_pass(state))) if state.plan else state
    if before.status is Status.PENDING:
        before = acted(before, Action.PLAN, at) or before
    plan = Plan(
        token=token,
        method=drawn.method,
        estimate=drawn.estimate,
        match=match_of(state),
        made_at=at,
        at_least=drawn.at_least,
        degraded=drawn.degraded,
    )
    return evolve(
        before,
        plan=plan,
        phase=Phase.PROCESS,
        generation=state.generation + 1,
        pass_number=state.pass_number if same_pass else state.pass_number + 1,
        started_at=state.started_at or at,
    )


def _draw(documents: Documents, state: BackgroundState) -> _Drawn:
    """Look at the collection and cut it."""
    spec = state.spec
    match = match_filter(spec, state.direction)
    limit = target_parts(spec) * spec.min_documents
    count = documents.count(match, limit=limit, without=state.bad_ids)
    if not count:
        return _Drawn(cuts=(), method="empty", estimate=0)
    present = documents.brackets()
    parts = parts_for(count, spec)
    large = count >= limit
    total = documents.total() if large else None
    if parts == 1 and not large:
        return _Drawn(cuts=open_cuts(present, count), method="single", estimate=count)
    size = sample_size(spec, parts, count=count, collection_count=total, large=large)
    try:
        samples = documents.sample(match, size=size, collection_first=large, timeout=_SAMPLE_TIMEOUT)
    except TookTooLongError:
        cuts = open_cuts(present, count)
        return _Drawn(cuts=cuts, method="single", estimate=count, at_least=large, degraded="sample-timeout")
    estimate = max(count, _extrapolated(samples, size, total)) if total is not None else count
    return _Drawn(cuts=cut(samples, present, parts, estimate), method="sampled", estimate=estimate)


def _extrapolated(samples: Mapping[str, Sequence[Any]], size: int, total: int) -> int:
    """A count that hit its limit says little: the matching share of the sample says how many there are."""
    return total * sum(len(ids) for ids in samples.values()) // size
