"""The real engine and queueing over memory ports, with everything going wrong that can, repeatable from a seed."""

from migronaut.testing.simulation.queue import QueueFactory, QueueUnderTest, SimulatedMemoryQueue
from migronaut.testing.simulation.run import Result, simulate
from migronaut.testing.simulation.violation import Violation

__all__ = ["QueueFactory", "QueueUnderTest", "Result", "SimulatedMemoryQueue", "Violation", "simulate"]
