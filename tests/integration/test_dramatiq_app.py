"""Brokers by URL, the ready ``boot`` entry, and what is said when something is missing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pytest
from dramatiq.brokers.redis import RedisBroker

from integration.dramatiq_scripted import coordinator
from migronaut.errors import ConfigInvalidError, ConnectionFailedError
from migronaut_dramatiq.app import work
from migronaut_dramatiq.brokers import broker_from_url, require_answer
from migronaut_dramatiq.declaring import declare

SECRET = "s3cret"
WRONG = [
    None,
    "",
    "localhost:6379",
    f"http://alice:{SECRET}@localhost",
    f"redis://:{SECRET}@",
    f"redis://alice:{SECRET}@localhost:port",
    f"amqp://alice:{SECRET}@localhost:99999",
    f"redis://alice:{SECRET}@localhost/0?socket_timeout={SECRET}",
    f"amqp://alice:{SECRET}@localhost/%2F?heartbeat={SECRET}",
]
DEAD = [f"redis://alice:{SECRET}@127.0.0.1:1/0", f"amqp://alice:{SECRET}@127.0.0.1:1/"]
_SOURCE = Path(__file__).parents[2] / "src"


def run(code: str, variables: Mapping[str, str], *, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        env=environment(variables),
        cwd=cwd,
        text=True,
        capture_output=True,
        timeout=60,
    )


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    bare = {name: value for name, value in os.environ.items() if not name.startswith("MIGRONAUT_")}
    return {**bare, "PYTHONPATH": str(_SOURCE), **variables}


@pytest.mark.parametrize("url", WRONG)
def test_a_missing_or_wrong_url_is_one_sentence_without_the_url(url: str | None) -> None:
    with pytest.raises(ConfigInvalidError, match="MIGRONAUT_BROKER_URL") as caught:
        work(url, processes=1, threads=1)
    assert caught.value.exit_code == 6
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("url", DEAD)
def test_a_broker_that_does_not_answer_is_named_without_credentials(url: str) -> None:
    with pytest.raises(ConnectionFailedError, match=r"127\.0\.0\.1:1 does not answer") as caught:
        work(url, processes=1, threads=1)
    assert caught.value.exit_code == 5
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("url", DEAD)
def test_a_message_that_the_broker_does_not_take_is_one_error_of_ours(url: str) -> None:
    queue = declare(broker_from_url(url), lambda queue: pytest.fail("nothing to do"))
    with pytest.raises(ConnectionFailedError, match=r"127\.0\.0\.1:1 does not answer") as caught:
        queue.enqueue([coordinator("orders")])
    assert SECRET not in str(caught.value)


def test_a_connection_to_redis_that_decodes_is_refused_wherever_it_is_given(redis_url: str) -> None:
    url = f"{redis_url}?decode_responses=false"

    def set_up(url: str) -> None:
        declare(RedisBroker(url=url), lambda queue: pytest.fail("nothing to do"))

    for use in (broker_from_url, require_answer, set_up):
        with pytest.raises(ConfigInvalidError, match="decode_responses") as caught:
            use(url)
        assert caught.value.exit_code == 6


def test_a_broker_that_answers_is_accepted(redis_url: str) -> None:
    require_answer(redis_url)


def test_wrong_credentials_are_refused_with_their_reason(amqp_url: str) -> None:
    wrong = re.sub(r"//[^@]*@", f"//nobody:{SECRET}@", amqp_url)
    with pytest.raises(ConnectionFailedError, match="RabbitMQ at") as caught:
        require_answer(wrong)
    assert SECRET not in str(caught.value)


def test_without_dramatiq_the_import_names_the_extra_in_one_line(tmp_path: Path) -> None:
    done = run("import sys; sys.modules['dramatiq'] = None; import migronaut_dramatiq", {}, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        'ImportError: migronaut_dramatiq needs Dramatiq, which is not installed: pip install "migronaut[dramatiq]"'
    )
    assert "During handling" not in done.stderr


def test_importing_the_app_connects_to_nothing_and_makes_no_broker(tmp_path: Path) -> None:
    code = (
        "import socket; socket.socket.connect = None\n"
        "import dramatiq.broker, migronaut_dramatiq.app\n"
        "assert dramatiq.broker.global_broker is None"
    )
    assert run(code, {}, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    "variables",
    [
        {"MIGRONAUT_URI": "mongodb://127.0.0.1:1", "MIGRONAUT_DB": "shop"},
        {"MIGRONAUT_BROKER_URL": DEAD[0]},
        {"MIGRONAUT_BROKER_URL": DEAD[0], "MIGRONAUT_APP": "nowhere:migrator"},
    ],
    ids=["no broker", "no database", "no application"],
)
def test_a_worker_without_configuration_says_so_in_one_line_and_exits_with_6(
    variables: dict[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "dramatiq", "migronaut_dramatiq.app:boot", "--processes=1", "--threads=1"]
    done = subprocess.run(
        command, check=False, env=environment(variables), cwd=tmp_path, text=True, capture_output=True, timeout=60
    )
    assert done.returncode == 6
    assert len([line for line in done.stderr.splitlines() if "[migronaut.dramatiq]" in line]) == 1
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stderr


def test_work_becomes_a_worker_that_waits_for_a_database_and_ends_on_sigterm(redis_url: str, tmp_path: Path) -> None:
    variables = {
        "MIGRONAUT_URI": f"mongodb://alice:{SECRET}@127.0.0.1:1/?serverSelectionTimeoutMS=100",
        "MIGRONAUT_DB": "shop",
        "MIGRONAUT_QUEUE": f"app-{uuid4().hex}",
    }
    code = f"from migronaut_dramatiq.app import work; work({redis_url!r}, processes=1, threads=2)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment(variables), cwd=tmp_path, text=True, stderr=subprocess.PIPE
    )
    killer = threading.Timer(60, process.kill)
    killer.start()
    assert process.stderr is not None
    said = []
    try:
        for line in process.stderr:
            said.append(line)
            if "The search for lost work failed" in line:
                process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0, "".join(said)
    finally:
        killer.cancel()
        process.kill()
        process.wait()
    assert any("127.0.0.1:1" in line for line in said)
    assert SECRET not in "".join(said)
