"""``python -m migronaut``."""

from migronaut.cli import main

main()
