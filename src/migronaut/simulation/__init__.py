"""The real engine and queueing over memory ports, with everything going wrong that can, repeatable from a seed.

Here lives the simulated world: actors, faults, invariants, and the kit for other queue adapters; ``python -m
migronaut.simulation`` runs it. Not here: the ports (``memory``), and anything that only a test of a user's migration
needs (``testing``).
"""

from migronaut.simulation.queue import QueueFactory, QueueUnderTest, SimulatedMemoryQueue
from migronaut.simulation.run import Result, simulate
from migronaut.simulation.violation import Violation

__all__ = ["QueueFactory", "QueueUnderTest", "Result", "SimulatedMemoryQueue", "Violation", "simulate"]
