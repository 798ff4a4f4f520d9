"""What the README shows, run as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from migronaut import Migrator
from migronaut.embedded import EmbeddedValkey

README = Path(__file__).parents[2] / "README.md"
MIGRATION = "20261004120000_orders_shipping.py"
Db = Database[dict[str, Any]]


def block(starting: str) -> str:
    """The Python block of the README that begins with a line."""
    for text in re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL):
        if text.startswith(starting):
            return str(text)
    raise AssertionError(f"the README has no Python block that starts with {starting!r}")


@pytest.fixture
def project(tmp_path: Path, db: Db) -> Path:
    """A project with the README's migration, and 300 orders in the old shape."""
    (tmp_path / "migrations").mkdir()
    (tmp_path / "migrations" / MIGRATION).write_text(block('"""Move address into shipping."""'))
    db.orders.insert_many(
        [{"_id": number, "schema_version": 1, "address": f"{number} Main St"} for number in range(300)]
    )
    return tmp_path


def importing(project: Path) -> dict[str, str]:
    """The environment, with the project's own modules importable."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(project), os.environ.get("PYTHONPATH", "")])}


def environment(project: Path, mongo_uri: str, redis_url: str) -> dict[str, str]:
    return {**importing(project), "SHOP_MONGODB_URI": mongo_uri, "SHOP_REDIS_URL": redis_url}


@contextmanager
def running(*command: str, cwd: Path, env: Mapping[str, str]) -> Iterator[None]:
    """A worker process, ended by SIGTERM."""
    with (cwd / "worker.log").open("w") as log:
        process = subprocess.Popen(command, cwd=cwd, env=dict(env), stdout=log, stderr=log, start_new_session=True)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def wait_until_completed(db: Db, project: Path) -> None:
    migrator = Migrator(client=db.client, db=db.name, migrations_dir=project / "migrations")
    pause = threading.Event()
    for _ in range(600):
        status = migrator.background.status(MIGRATION)
        if status.status in ("completed", "failed"):
            break
        pause.wait(0.1)
    assert status.status == "completed", (project / "worker.log").read_text()[-3000:]
    assert db.orders.count_documents({"schema_version": 2, "shipping.address": {"$exists": True}}) == 300


def bad_ids_by_the_readme(db: Db, collection: str) -> list[dict[str, Any]]:
    """What the README's line for the shell finds; every document of it as Python reads it."""
    line = rf'db\.getCollection\("{collection}"\)\.(find|findOne)\(\{{(\w+): "NAME"\}}, \{{(.*)\}}\)'
    found = re.search(line, README.read_text())
    assert found is not None, f"the README has no query of {collection}"
    fields = {name: int(one) for name, one in re.findall(r"(\w+): (\d)", found[3])}
    return list(db.get_collection(collection).find({found[2]: MIGRATION}, fields))


def test_the_queries_for_failed_documents_find_them_and_a_retry_takes_them_up(project: Path, db: Db) -> None:
    db.orders.insert_one({"_id": "without an address", "schema_version": 1})
    migrator = Migrator(client=db.client, db=db.name, migrations_dir=project / "migrations")
    migrator.up()
    assert migrator.background.run()[0].status == "failed"
    (state,) = bad_ids_by_the_readme(db, "_migronaut_background")
    assert state["bad_ids"] == ["without an address"]
    assert "max_document_errors" in state["last_error"]
    partitions = bad_ids_by_the_readme(db, "_migronaut_background_partitions")
    assert [id_ for partition in partitions for id_ in partition["bad_ids"]] == ["without an address"]
    db.orders.update_one({"_id": "without an address"}, {"$set": {"address": "1 Main St"}})
    migrator.background.retry(MIGRATION)
    ended = migrator.background.run()[0]
    assert (ended.status, ended.totals.migrated) == ("completed", 301)


def test_a_mended_file_is_used_after_a_retry_that_pins_it_anew(project: Path, db: Db) -> None:
    db.orders.insert_one({"_id": "without an address", "schema_version": 1})
    migrator = Migrator(client=db.client, db=db.name, migrations_dir=project / "migrations")
    migrator.up()
    assert migrator.background.run()[0].status == "failed"
    file = project / "migrations" / MIGRATION
    file.write_text(file.read_text().replace('doc.pop("address")', 'doc.pop("address", None)'))
    migrator.background.retry(MIGRATION, repin=True)
    assert migrator.background.run()[0].status == "completed"


def test_the_index_of_the_readme_is_the_one_that_verify_needs(project: Path, db: Db) -> None:
    assert "db.orders.createIndex({schema_version: 1, _id: 1})" in README.read_text()
    migrator = Migrator(client=db.client, db=db.name, migrations_dir=project / "migrations")
    migrator.up()
    migrator.background.run()
    assert migrator.background.verify().checked == ()
    db.orders.create_index([("schema_version", 1), ("_id", 1)])
    assert migrator.background.verify().checked == (MIGRATION,)


def installed(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def write_app(project: Path, file: str, db: Db) -> None:
    text = block(f"# {file}")
    assert 'db="shop"' in text
    (project / file).write_text(text.replace('db="shop"', f"db={db.name!r}"))


def test_the_rq_example_migrates(project: Path, db: Db, mongo_uri: str, valkey: EmbeddedValkey) -> None:
    pytest.importorskip("rq", reason="needs the extra rq")
    write_app(project, "shop_migrations.py", db)
    env = environment(project, mongo_uri, valkey.url) | {"MIGRONAUT_APP": "shop_migrations:migrator"}
    subprocess.run([sys.executable, "shop_migrations.py"], cwd=project, env=env, check=True, timeout=60)
    worker = (installed("rq"), "worker", "--url", valkey.url, "-w", "migronaut_rq.MigronautWorker")
    with running(*worker, "migronaut-background", cwd=project, env=env):
        wait_until_completed(db, project)


def test_the_dramatiq_example_migrates(project: Path, db: Db, mongo_uri: str, valkey: EmbeddedValkey) -> None:
    pytest.importorskip("dramatiq", reason="needs the extra dramatiq")
    write_app(project, "shop_workers.py", db)
    env = environment(project, mongo_uri, valkey.url)
    subprocess.run([sys.executable, "shop_workers.py"], cwd=project, env=env, check=True, timeout=60)
    worker = (sys.executable, "-m", "dramatiq", "shop_workers", "--processes", "2", "--threads", "4")
    with running(*worker, "--worker-shutdown-timeout", "60000", cwd=project, env=env):
        wait_until_completed(db, project)


def test_the_unit_test_example_passes(project: Path) -> None:
    (project / "test_it.py").write_text(block("from importlib import import_module"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(
        command,
        cwd=project,
        env=importing(project),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
