"""Where a pass is cut: how many partitions, how large a sample, and the boundaries it gives.

A range operator of MongoDB compares inside one BSON type bracket only, so no partition spans two.
Nothing rests on exactness: a gap is found by the final count, an overlap is kept apart by the guards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any

from attrs import frozen

from migronaut.core.state import Scope, Spec

_SAMPLES_PER_PART = 100
_MAX_SAMPLES = 10_000
_SAMPLED_PERCENT = 4


@frozen
class Bracket:
    """Values of ``_id`` that range operators compare with each other.

    Args:
        name: Stored in scopes.
        splittable: False where the bracket holds too few distinct values to be worth cutting.
    """

    name: str
    splittable: bool = False


BRACKETS = (
    Bracket("minKey"),
    Bracket("undefined"),
    Bracket("null"),
    Bracket("number", splittable=True),
    Bracket("symbol"),
    Bracket("string", splittable=True),
    Bracket("object"),
    Bracket("binData", splittable=True),
    Bracket("objectId", splittable=True),
    Bracket("bool"),
    Bracket("date", splittable=True),
    Bracket("timestamp", splittable=True),
    Bracket("dbPointer"),
    Bracket("javascript"),
    Bracket("javascriptWithScope"),
    Bracket("maxKey"),
)
"""All brackets in the order in which BSON sorts them; arrays and regular expressions cannot be an ``_id``."""


@frozen(kw_only=True)
class Cut:
    """One partition to be: its range and the documents expected in it."""

    scope: Scope
    estimate: int


def target_parts(spec: Spec) -> int:
    """How many partitions keep all lanes busy to the end; one lane needs one."""
    if spec.max_parallel == 1:
        return 1
    wanted = spec.partitions.over_partition * spec.max_parallel
    return max(1, min(wanted, spec.partitions.max_partitions))


def parts_for(count: int, spec: Spec) -> int:
    """How many partitions ``count`` documents are worth, none smaller than ``min_documents``."""
    worth = -(-count // spec.min_documents)
    return max(1, min(worth, target_parts(spec)))


def sample_size(spec: Spec, parts: int, *, count: int, collection_count: int | None, large: bool) -> int:
    """How many ids to sample for ``parts`` partitions, at least 1.

    Args:
        spec: May set the size itself.
        parts: Partitions wanted.
        count: Documents to do; a lower bound when ``large``.
        collection_count: Documents in the collection, if known.
        large: The count hit its limit, so the whole collection is sampled: at most 4 % of it,
            because from 5 % on the server scans and sorts everything.
    """
    wanted = spec.partitions.sample_size or min(_MAX_SAMPLES, _SAMPLES_PER_PART * parts)
    if large:
        population = count if collection_count is None else collection_count
        return max(1, min(wanted, population * _SAMPLED_PERCENT // 100))
    return max(1, min(wanted, count))


def open_cuts(present: Sequence[str], count: int) -> tuple[Cut, ...]:
    """One open partition per bracket; nothing is known of their sizes, so each gets an equal share.

    Args:
        present: Names of the brackets that hold documents.
        count: Documents to do.

    Raises:
        ValueError: A name is no bracket.
    """
    scopes = [Scope(bracket=bracket.name) for bracket in _in_order(present)]
    return _sized(scopes, [1] * len(scopes), count)


def cut(samples: Mapping[str, Sequence[Any]], present: Sequence[str], parts: int, count: int) -> tuple[Cut, ...]:
    """Cut at equal quantiles of the sample.

    The first range of a bracket is open below and the last one above, so every id of a present
    bracket is in exactly one range, sampled or not.

    Args:
        samples: Sampled ids per bracket, each as the server sorted them.
        present: Names of the brackets that hold documents, sampled or not.
        parts: Partitions wanted; there can be fewer, and one more for each further bracket.
        count: Documents to do, shared out in proportion to the samples.

    Returns:
        The cuts, largest first.

    Raises:
        ValueError: A name is no bracket.
    """
    total = sum(len(ids) for ids in samples.values())
    if not total:
        return open_cuts(present, count)
    ranks = [part * total // parts for part in range(1, parts)]
    scopes: list[Scope] = []
    weights: list[int] = []
    before = 0
    for bracket in _in_order([*present, *(name for name, ids in samples.items() if ids)]):
        ids = samples.get(bracket.name, ())
        inside = [rank - before for rank in ranks if before < rank <= before + len(ids)]
        ends = _ends(ids, inside) if bracket.splittable else []
        scopes += _scopes(bracket.name, [ids[end - 1] for end in ends])
        weights += [end - start for start, end in zip([0, *ends], [*ends, len(ids)], strict=True)]
        before += len(ids)
    return _sized(scopes, weights, count)


def _in_order(names: Sequence[str]) -> list[Bracket]:
    wanted = set(names)
    found = [bracket for bracket in BRACKETS if bracket.name in wanted]
    if len(found) != len(wanted):
        raise ValueError("unknown bracket: use the names in BRACKETS")
    return found


def _ends(ids: Sequence[Any], ranks: Sequence[int]) -> list[int]:
    """How many ids lie at or below each boundary; equal boundaries and one at the very end are dropped."""
    ends: list[int] = []
    for rank in ranks:
        end = rank
        while end < len(ids) and _equal(ids[end - 1], ids[end]):
            end += 1
        if end < len(ids) and (not ends or end > ends[-1]):
            ends.append(end)
    return ends


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float) and isnan(a):
        return isnan(b)  # one id to the server
    return isinstance(a, bool) is isinstance(b, bool) and bool(a == b)


def _scopes(bracket: str, boundaries: Sequence[Any]) -> Iterator[Scope]:
    last = len(boundaries)
    for index in range(last + 1):
        yield Scope(
            bracket=bracket,
            lower=boundaries[index - 1] if index > 0 else None,
            upper=boundaries[index] if index < last else None,
            bounded_below=index > 0,
            bounded_above=index < last,
        )


def _sized(scopes: Sequence[Scope], weights: Sequence[int], count: int) -> tuple[Cut, ...]:
    """Share ``count`` out by weight; rounding the running sum makes the shares add up to it."""
    total = sum(weights)
    cuts, upto = [], 0
    for scope, weight in zip(scopes, weights, strict=True):
        share = count * (upto + weight) // total - count * upto // total
        cuts.append(Cut(scope=scope, estimate=share))
        upto += weight
    return tuple(sorted(cuts, key=lambda one: -one.estimate))
