"""A process that forks after it made a ``Migrator``, as servers do that load the application first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

FILE = """
import time
from pathlib import Path

from migronaut import Background

def migrate(doc):
    while not Path(__file__).with_name("go").exists():
        time.sleep(0.01)
    return doc

background = Background(collection="things", from_version=0, to_version=1, migrate=migrate)
"""

PROGRAM = """
import os, sys, time
from pathlib import Path
from migronaut import Migrator

uri, db, directory = sys.argv[1:]
migrator = Migrator(uri=uri, db=db, migrations_dir=directory)
migrator.up()
early, parent = migrator.background, migrator.client
assert migrator.owner.pid == os.getpid()
child = os.fork()
if child == 0:
    assert migrator.owner.pid == os.getpid()
    assert migrator.client is not parent, "a connection crossed the fork"
    early.run("0001_things.py")
    migrator.background.verify()
    migrator.close()
    os._exit(0)
deadline = time.monotonic() + 60
while not (leases := early.status("0001_things.py").leases) and time.monotonic() < deadline:
    time.sleep(0.05)
print([lease.pid == child for lease in leases])
Path(directory, "go").touch()
assert os.waitpid(child, 0)[1] == 0
print(early.status("0001_things.py").status)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_the_leases_of_a_forked_process_name_it_and_not_its_parent(
    db: Database[Any], mongo_uri: str, tmp_path: Path
) -> None:
    (tmp_path / "0001_things.py").write_text(FILE)
    db.things.insert_many([{"_id": number} for number in range(10)])
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, mongo_uri, db.name, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[True]", "completed"]
