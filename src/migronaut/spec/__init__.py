"""What a background migration file declares, checked when it is built."""

from migronaut.spec.background import Background, Settings
from migronaut.spec.callables import callable_problem, takes_context
from migronaut.spec.pipelines import Pipeline
from migronaut.spec.transform import Context, RunInfo, Transform

__all__ = [
    "Background",
    "Context",
    "Pipeline",
    "RunInfo",
    "Settings",
    "Transform",
    "callable_problem",
    "takes_context",
]
