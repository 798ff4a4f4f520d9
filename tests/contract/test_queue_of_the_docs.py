"""The suite of the queue in the hands of somebody else: the example of the docs, as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def python_block(page: str) -> str:
    """The first Python block of a page."""
    found = re.search(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An adapter and its test, as the docs show them; nothing of ours configures pytest."""
    (tmp_path / "list_queue.py").write_text(python_block("simulation.md"))
    (tmp_path / "test_list_queue.py").write_text(python_block("contracts.md"))
    return tmp_path


def run_pytest(project: Path) -> str:
    plugins = ("-p", "no:timeout", "-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "--strict-markers", *plugins]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60, check=False).stdout


def test_the_queue_of_the_docs_passes_the_suite(project: Path) -> None:
    last = run_pytest(project).splitlines()[-1]
    assert re.fullmatch(r"2\d passed in .*", last), last


def test_a_queue_that_forgets_delays_fails_the_suite_and_the_values_are_shown(project: Path) -> None:
    adapter = project / "list_queue.py"
    adapter.write_text(
        adapter.read_text().replace("self.send(directive.hint, directive.delay)", "self.send(directive.hint, 0)")
    )
    out = run_pytest(project)
    failed = set(re.findall(r"^FAILED \S+::TestListQueue::(\w+)", out, flags=re.MULTILINE))
    assert failed == {"test_continue_later_delivers_the_new_payload_after_the_delay_and_not_before"}
    assert "Left contains one more item" in out
