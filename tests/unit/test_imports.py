"""What can be imported where the libraries of queues, or of tests, are not installed."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = '''
import sys

class Absent:
    """As if they were not installed."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import migronaut
import migronaut.cli
import migronaut.testing
import migronaut.queueing.memory
'''

WITHOUT_QUEUES = f"""
absent = ("rq", "dramatiq", "redis", "pika")
{WITHOUT}
for adapter in ("migronaut_rq", "migronaut_dramatiq"):
    try:
        __import__(adapter)
    except ImportError as error:
        print(error)
"""

WITHOUT_PYTEST = f"""
absent = ("pytest", "_pytest")
{WITHOUT}
try:
    import migronaut.testing.contracts
except ImportError as error:
    print(error)
"""

CONTRACTS = f"""
absent = ("rq", "dramatiq", "redis", "pika", "hypothesis", "pytest_timeout", "xdist")
{WITHOUT}
import migronaut.testing.contracts
"""


def in_fresh_process(code: str) -> list[str]:
    """What a program prints; in this process everything is loaded already."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_without_a_queue_all_but_the_adapters_can_be_imported_and_these_name_their_extra() -> None:
    rq, dramatiq = in_fresh_process(WITHOUT_QUEUES)
    assert 'pip install "migronaut[rq]"' in rq
    assert 'pip install "migronaut[dramatiq]"' in dramatiq


def test_without_pytest_all_but_the_contracts_can_be_imported_and_these_say_so() -> None:
    (told,) = in_fresh_process(WITHOUT_PYTEST)
    assert "pip install pytest" in told


def test_the_contracts_need_pytest_only() -> None:
    assert in_fresh_process(CONTRACTS) == []
