"""What must hold on a replica set of three members, whatever happens to the members."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_kit import Cluster
from e2e.chaos_kit import Chaos, Db, Library, chaos
from e2e.cluster_run import (
    DOCUMENTS,
    FILES,
    Application,
    Commands,
    assert_exact,
    when_migrated,
)
from waiting import wait_until

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds the processes of a worker in /proc"),
]


def _commands(request: pytest.FixtureRequest) -> Library:
    return Commands()


def _rq(request: pytest.FixtureRequest) -> Library:
    pytest.importorskip("rq", reason="needs the extra rq")
    from e2e.chaos_rq import Rq

    return Rq(request.getfixturevalue("valkey"))


def _dramatiq(request: pytest.FixtureRequest) -> Library:
    pytest.importorskip("dramatiq", reason="needs the extra dramatiq")
    from e2e.chaos_dramatiq import OnValkey

    return OnValkey(request.getfixturevalue("valkey"))


@pytest.fixture(params=[_commands, _rq, _dramatiq], ids=["commands", "rq", "dramatiq"])
def library(request: pytest.FixtureRequest) -> Library:
    return request.param(request)


@pytest.fixture(params=FILES)
def run(
    request: pytest.FixtureRequest, cluster: Cluster, cluster_db: Db, library: Library, tmp_path: Path
) -> Iterator[Chaos]:
    text = FILES[request.param]
    with chaos(cluster_db, cluster.uri, library, tmp_path, text=text, documents=DOCUMENTS) as made:
        yield made


def test_elections_cost_neither_a_document_nor_a_write_of_the_application(cluster: Cluster, run: Chaos) -> None:
    with Application(cluster.uri, run.db.name) as application:
        run.start()
        when_migrated(run, DOCUMENTS // 6)
        cluster.step_down()
        when_migrated(run, DOCUMENTS // 3)
        dead = cluster.kill_primary()
        when_migrated(run, DOCUMENTS // 2)  # two of three are a majority
        application.insert_no_more()
        dead.restart()
    run.ends("completed")
    assert_exact(run)
    application.assert_kept(run.db)


@pytest.mark.parametrize("library", [pytest.param(_commands, id="commands")], indirect=True)
@pytest.mark.parametrize("run", ["function"], indirect=True)
def test_a_primary_that_stands_still_costs_time_only(cluster: Cluster, run: Chaos) -> None:
    """Its connections stay open, so that nobody is told that nothing will come."""
    run.start()
    when_migrated(run, DOCUMENTS // 6)
    frozen = cluster.primary()
    cluster.freeze(frozen)
    others = cluster.primary().direct[run.db.name].orders
    wait_until(lambda: others.count_documents({"schema_version": 2}) >= DOCUMENTS // 2, what=run.told)
    cluster.thaw(frozen)
    run.ends("completed")
    assert_exact(run)
