"""The project's directory on the path of imports, the same for every way of starting."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def make_importable(directory: Path) -> None:
    """Let modules of a directory be imported, as ``python -m`` in it does; once on the path, it stays where it is."""
    wanted = os.path.realpath(directory)
    if all(os.path.realpath(entry) != wanted for entry in sys.path):
        sys.path.insert(0, wanted)
