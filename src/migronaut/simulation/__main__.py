"""Run the command of the simulation (the processes that it starts import ``command`` by name)."""

import sys

from migronaut.simulation.command import main

if __name__ == "__main__":
    sys.exit(main())
