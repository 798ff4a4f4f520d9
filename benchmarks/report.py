"""Writes what a run found: JSON, a Markdown page and the chart, all in ``benchmarks/results``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.beside import WAYS
from benchmarks.chart import Bar, bar_chart
from benchmarks.machine import Machine
from benchmarks.results import Results, beside_as_json
from benchmarks.throughput import PEERS, Peer

RESULTS = Path(__file__).parent / "results"


def write(results: Results) -> None:
    """Write all files; those of the run before are replaced."""
    RESULTS.mkdir(exist_ok=True)
    texts = {"latest.json": json.dumps(results.as_json(), indent=2) + "\n", "latest.md": markdown(results)}
    if results.throughput.rates:
        texts["latest.svg"] = chart(results)
    for name, text in texts.items():
        (RESULTS / name).write_text(text, encoding="utf-8")


def chart(results: Results) -> str:
    """The peers as bars, slowest first, against the loop by hand where it ran."""
    bars = [
        Bar(
            label=peer.label,
            value=results.throughput.middle(peer.name) or 0.0,
            text=_rate(results, peer),
            ours=peer.label.startswith("migronaut"),
        )
        for peer in _ran(results)
    ]
    machine = results.machine
    note = f"Median of {results.repetitions}. {machine.cpu}, {machine.cores} cores, MongoDB {machine.mongodb}."
    title = f"Moving one field of {_spaced(results.documents)} documents: times as fast as a loop by hand"
    return bar_chart(bars, title=title, note=note)


def markdown(results: Results) -> str:
    """The tables, and the machine they were measured on."""
    return (
        "\n\n".join(filter(None, (_throughput(results), _beside(results), _others(results), _machine(results)))) + "\n"
    )


def _ran(results: Results) -> list[Peer]:
    return [peer for peer in PEERS if results.throughput.rates.get(peer.name)]


def _rate(results: Results, peer: Peer) -> str:
    ratio = results.throughput.ratio(peer.name, "hand")
    rate = f"{_spaced(results.throughput.middle(peer.name) or 0)}/s"
    return rate if ratio is None else f"{ratio:.2f} ×  ({rate})"


def _throughput(results: Results) -> str:
    ran = _ran(results)
    if not ran:
        return ""
    rows = []
    for peer in ran:
        ratio = results.throughput.ratio(peer.name, "hand")
        found = results.throughput.rates[peer.name]
        spread = f"{_spaced(min(found))} – {_spaced(max(found))}"
        middle = _spaced(results.throughput.middle(peer.name) or 0)
        rows.append((peer.label, "–" if ratio is None else f"{ratio:.2f}", middle, spread))
    return _table(("way", "times as fast as by hand", "documents/s (median)", "lowest – highest"), rows)


def _beside(results: Results) -> str:
    rows = []
    for way in WAYS:
        if found := results.beside.get(way.name):
            told = beside_as_json(found)
            counted = (told[name] for name in ("writes", "lost", "errors", "aborted", "failed"))
            left = f"{_spaced(told['left'])} of {_spaced(told['documents'])}"
            rows.append((way.label, *(_spaced(number) for number in counted), left, f"{told['p99_ms']} ms"))
    head = (
        "beside an application",
        "its writes",
        "lost",
        "errors it saw",
        "transactions aborted",
        "runs that failed",
        "documents left",
        "99th percentile of its writes",
    )
    return _table(head, rows) if rows else ""


def _others(results: Results) -> str:
    rows: list[tuple[str, str]] = []
    if results.small and results.large:
        few, many = (_spaced(each.documents) for each in (results.small, results.large))
        grown = f"{results.memory_growth_mb:+} MB (peak {results.large.peak / 1e6:.1f} MB)"
        rows.append((f"memory of a lane, {many} documents against {few}", grown))
    if results.planning:
        rows.append((f"planning {_spaced(results.large_documents)} documents for 4 lanes", f"{results.plan_seconds} s"))
    if results.typical:
        rows.append(("checkpoints, share of the whole time of a lane", f"{results.typical.checkpoint_share:.1%}"))
    if results.latency:
        told = results.latency.as_json()
        idle = told["idle"]["p99_ms"]
        for phase, name in (("default_pause", "default pause"), ("no_pause", "pauses off")):
            text = f"{results.latency.ratio(phase):.2f} × ({told[phase]['p99_ms']} ms; idle {idle} ms)"
            rows.append((f"99th percentile of an application's write meanwhile, {name}", text))
    if results.recoveries:
        name = f"after kill -9, first checkpoint of the next lane (`lease_ttl` {results.lease_ttl:g} s)"
        rows.append((name, f"{results.recovery_seconds} s"))
    return _table(("also", "measured"), rows) if rows else ""


def _machine(results: Results) -> str:
    machine: Machine = results.machine
    told = (
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB",
        machine.system,
        f"Python {machine.python}, PyMongo {machine.pymongo}",
        f"MongoDB {machine.mongodb} (one-member replica set on the same machine)",
        *([f"Beanie {machine.beanie}"] if machine.beanie else []),
        *([f"mongomig {machine.mongomig}"] if machine.mongomig else []),
    )
    return (
        f"Measured on {results.started[:10]}: {'; '.join(told)}. {_spaced(results.documents)} documents of about 500 "
        f"bytes, {results.repetitions} repetitions.{_shares(results)}{_disturbed(results)}"
    )


def _shares(results: Results) -> str:
    """Who got fewer documents than the others."""
    told = [f"`{peer.name}` got {_spaced(results.documents * peer.share)}" for peer in _ran(results) if peer.share < 1]
    return f" {', '.join(told)} of them; its cost per document does not depend on their number." if told else ""


def _disturbed(results: Results) -> str:
    share = results.neighbours
    return "" if share is None else f" Meanwhile other programs used {share:.0%} of the machine."


def _spaced(number: float) -> str:
    return f"{number:,.0f}".replace(",", " ")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
