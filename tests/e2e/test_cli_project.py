"""The project's directory can be imported from, whatever starts the work and wherever it runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from e2e.cli_kit import Cli
from migronaut import Migrator
from migronaut.embedded import EmbeddedValkey

NAME = "0001_orders.py"
FILE = """
from shop.rules import fix
from migronaut import Background

def migrate(doc):
    from shop.later import TAX
    return fix(doc, TAX)

background = Background(collection="orders", from_version=0, to_version=1, migrate=migrate, pause=0, slice_length=2)
"""
SCRIPT = str(Path(sys.executable).with_name("migronaut"))
MODULE = (sys.executable, "-m", "migronaut")
# Nobody's current directory is on the path by accident here.
SAFE = {"PYTHONSAFEPATH": "1"}
Db = Database[Any]


def write_project(directory: Path) -> None:
    (directory / "shop").mkdir(parents=True)
    (directory / "shop" / "rules.py").write_text("def fix(doc, tax):\n    doc['tax'] = tax\n    return doc\n")
    (directory / "shop" / "later.py").write_text("TAX = 19\n")
    (directory / "migrations").mkdir()
    (directory / "migrations" / NAME).write_text(FILE)


@pytest.fixture
def project(cli: Cli, db: Db) -> Cli:
    """Ten orders, and a migration that imports from beside its directory."""
    write_project(cli.cwd)
    db.orders.insert_many([{"_id": number} for number in range(10)])
    return cli


def call(cli: Cli, *command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cli.cwd, env=environment(cli) | settings, capture_output=True, text=True, timeout=60, check=False
    )


def environment(cli: Cli) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MIGRONAUT_", "PYTHON"))}
    return inherited | dict(cli.settings)


@contextmanager
def running(cli: Cli, *command: str, **settings: str) -> Iterator[subprocess.Popen[str]]:
    with (cli.cwd / "worker.log").open("w") as log:
        env = environment(cli) | settings
        process = subprocess.Popen(command, cwd=cli.cwd, env=env, stdout=log, stderr=log, text=True)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def wait_until_completed(cli: Cli, db: Db) -> None:
    background = Migrator(client=db.client, db=db.name).background
    pause = threading.Event()
    for _ in range(600):
        if background.status(NAME).status in ("completed", "failed"):
            break
        pause.wait(0.1)
    assert background.status(NAME).status == "completed", (cli.cwd / "worker.log").read_text()[-3000:]
    assert db.orders.count_documents({"tax": 19}) == 10


@pytest.mark.parametrize(
    ("command", "settings"), [((SCRIPT,), {}), (MODULE, {}), (MODULE, SAFE)], ids=["installed", "module", "safe path"]
)
def test_the_command_line_imports_from_the_working_directory(
    project: Cli, db: Db, command: tuple[str, ...], settings: dict[str, str]
) -> None:
    for rest in (("up",), ("background", "run")):
        done = call(project, *command, *rest, **settings)
        assert done.returncode == 0, done.stderr
    assert db.orders.count_documents({"tax": 19}) == 10


def test_a_configuration_file_elsewhere_brings_its_directory(cli: Cli, db: Db) -> None:
    write_project(cli.cwd / "conf")
    (cli.cwd / "conf" / "shop.toml").write_text("")
    db.orders.insert_many([{"_id": number} for number in range(10)])
    for rest in (("up",), ("background", "run")):
        done = call(cli, SCRIPT, "--config", "conf/shop.toml", *rest)
        assert done.returncode == 0, done.stderr
    assert db.orders.count_documents({"tax": 19}) == 10


def test_an_embedding_application_imports_from_there_too(project: Cli, db: Db, tmp_path_factory: Any) -> None:
    program = tmp_path_factory.mktemp("elsewhere") / "app.py"
    program.write_text(
        "import os\nfrom migronaut import Migrator\n"
        "shop = Migrator(uri=os.environ['MIGRONAUT_URI'], db=os.environ['MIGRONAUT_DB'])\n"
        "shop.up()\nshop.background.run()\n"
    )
    done = call(project, sys.executable, str(program))
    assert done.returncode == 0, done.stderr
    assert db.orders.count_documents({"tax": 19}) == 10


@pytest.mark.parametrize(
    ("queue", "processes", "place"),
    [("rq", "1", "."), ("rq", "2", "conf"), ("dramatiq", "1", "."), ("dramatiq", "2", "conf")],
)
def test_workers_import_from_there_too(
    cli: Cli, db: Db, valkey: EmbeddedValkey, queue: str, processes: str, place: str
) -> None:
    pytest.importorskip(queue, reason=f"needs the extra {queue}")
    write_project(cli.cwd / place)
    (cli.cwd / place / "shop.toml").write_text("")
    db.orders.insert_many([{"_id": number} for number in range(10)])
    config = ("--config", f"{place}/shop.toml")
    assert call(cli, SCRIPT, *config, "up").returncode == 0
    worker = ("worker", "--queue", queue, "--processes", processes, "--broker-url", valkey.url)
    enqueue = ("background", "enqueue", "--queue", queue, "--broker-url", valkey.url)
    with running(cli, SCRIPT, *config, *worker, **SAFE):
        assert call(cli, SCRIPT, *config, *enqueue).returncode == 0
        wait_until_completed(cli, db)


def test_a_factory_of_the_application_is_imported_from_there_too(project: Cli, db: Db, valkey: EmbeddedValkey) -> None:
    pytest.importorskip("rq", reason="needs the extra rq")
    (project.cwd / "shop" / "wiring.py").write_text(
        "import os\nfrom migronaut import Migrator\n"
        "def migrator():\n    return Migrator(uri=os.environ['MIGRONAUT_URI'], db=os.environ['MIGRONAUT_DB'])\n"
    )
    assert call(project, SCRIPT, "up").returncode == 0
    worker = (SCRIPT, "worker", "--queue", "rq", "--broker-url", valkey.url)
    with running(project, *worker, MIGRONAUT_APP="shop.wiring:migrator", **SAFE):
        enqueue = ("background", "enqueue", "--queue", "rq", "--broker-url", valkey.url)
        assert call(project, SCRIPT, *enqueue).returncode == 0
        wait_until_completed(project, db)


def test_an_import_that_leads_nowhere_says_where_it_was_looked_for(cli: Cli) -> None:
    cli.write(NAME, "import no_such_thing\n")
    refused = cli("up")
    assert refused.code == 20
    assert "project_dir" in refused.error
