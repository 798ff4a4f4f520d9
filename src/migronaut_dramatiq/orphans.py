"""Worker processes that end when the process that started them is killed."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from multiprocessing.process import BaseProcess

_PR_SET_PDEATHSIG = 1
"""``prctl(2)`` of Linux: which signal a process gets when its parent dies."""


def die_with_parent() -> None:
    """Have this worker process killed when Dramatiq's main process dies; elsewhere than on Linux nothing.

    Dramatiq's workers log through a pipe to the main process and leave signals to it: when it is killed, they would
    wait for that pipe for ever, and ignore whoever asks them to end. To kill a lane at any point is safe.
    """
    parent = multiprocessing.parent_process()
    if sys.platform != "linux" or parent is None:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if _is_gone(parent):  # before the line above
        os.kill(os.getpid(), signal.SIGKILL)


def _is_gone(parent: BaseProcess) -> bool:
    """An orphan is adopted; a fork server, which ends with the one that it serves, stands between the two."""
    if multiprocessing.get_start_method() == "forkserver":
        return not parent.is_alive()
    return os.getppid() != parent.pid
