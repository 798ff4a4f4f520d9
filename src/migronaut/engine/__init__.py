"""The engine: drives the pure core over the ports.

Here lives what turns decisions of ``core`` into calls of ports, one sub-room for each who acts: ``lane`` (rewrites
documents), ``coordinator`` (plans, counts and closes passes), ``operator`` (registers, controls, shows). Beside them
stands what they share. Not here: decisions (``core``), drivers (``mongo``, ``memory``), queues (``queueing``), files
and configuration.
"""

from migronaut.engine.engine import Engine
from migronaut.engine.ports import Catalog, Ports, Source

__all__ = ["Catalog", "Engine", "Ports", "Source"]
