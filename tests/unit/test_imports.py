"""What can be imported where no library of a queue is installed."""

from __future__ import annotations

import subprocess
import sys

WITHOUT_QUEUES = '''
import sys

class Absent:
    """As if they were not installed."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("rq", "dramatiq", "redis", "pika"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import migronaut
import migronaut.cli
import migronaut.testing
import migronaut.queueing.memory
for adapter in ("migronaut_rq", "migronaut_dramatiq"):
    try:
        __import__(adapter)
    except ImportError as error:
        print(error)
'''


def test_without_a_queue_all_but_the_adapters_can_be_imported_and_these_name_their_extra() -> None:
    # In a fresh process: in this one the libraries are loaded already.
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_QUEUES], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    rq, dramatiq = done.stdout.splitlines()
    assert 'pip install "migronaut[rq]"' in rq
    assert 'pip install "migronaut[dramatiq]"' in dramatiq
