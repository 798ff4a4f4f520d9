"""``migronaut demo``: a background migration on real servers, with real workers, one of which is killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from migronaut.demo.options import DEFAULT_DOCUMENTS, MAX_DOCUMENTS, DemoOptions, QueueKind

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["DEFAULT_DOCUMENTS", "MAX_DOCUMENTS", "DemoOptions", "QueueKind", "run_demo"]


def run_demo(options: DemoOptions, console: Console) -> int:
    """Run the demo.

    Args:
        options: How many documents, which queue, which server.
        console: Where it is told.

    Returns:
        Exit code: 0 when every document was migrated exactly once and no write of the application was lost,
        1 otherwise, 130 when it was interrupted. Nothing is left running in any case.

    Raises:
        MigronautError: A library or a server is not here, or the user's server does not answer.
    """
    # Here, because the workers import this package too, and need neither the command line nor its display.
    from migronaut.demo.run import run

    return run(options, console)
