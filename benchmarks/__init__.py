"""How fast migronaut is, beside what else could be done: ``tox -e bench``, or ``python -m benchmarks --help``."""
