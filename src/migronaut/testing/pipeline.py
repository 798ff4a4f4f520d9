"""Pipelines in memory: not known yet."""

from __future__ import annotations

from collections.abc import Callable

from migronaut.core.ports import Stages
from migronaut.testing.query import QueryUnsupportedError


def compile_pipeline(stages: Stages) -> Callable[[bytes], bytes]:
    """Refuse.

    Raises:
        QueryUnsupportedError: Always.
    """
    raise QueryUnsupportedError(f"a pipeline of {len(stages)} stages")
