"""Executing one migration file and checking what it declares."""

from __future__ import annotations

import hashlib
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from attrs import frozen

from migronaut.errors import InvalidMigrationError, MigronautError, redact
from migronaut.files.declared import Problems, problems_of, requires_of, timeout_of
from migronaut.spec import Background
from migronaut.spec.raising import is_own

_CHECKSUM_ALGORITHM = "sha256-1"
_BOM = b"\xef\xbb\xbf"
_SAFE_TO_QUOTE = (ImportError, NameError, SyntaxError)
"""Their texts quote code. Others may quote values, a password among them."""

_executing = threading.RLock()


@frozen(kw_only=True)
class Migration:
    """A loaded migration file: either ``up`` (and ``down``) or ``background``.

    Args:
        name: File name.
        checksum: ``"sha256-1:<hex>"`` of the text that was executed.
        description: One line; may be empty.
        up: Takes the context.
        down: The way back, or None.
        background: The declaration of a background migration.
        requires: Names of earlier migrations that must be done first.
        use_transaction: The file asks for a transaction around its body.
        timeout: Seconds the body may take; None = as configured.
    """

    name: str
    checksum: str
    description: str
    up: Callable[..., object] | None = None
    down: Callable[..., object] | None = None
    background: Background | None = None
    requires: tuple[str, ...] = ()
    use_transaction: bool = False
    timeout: float | None = None


def checksum_of(source: bytes) -> str:
    """Hash the text of a migration, the same for every line ending and with or without a BOM.

    The algorithm is part of the result, so that a later release can tell a changed file from a
    changed algorithm.
    """
    text = source.removeprefix(_BOM).replace(b"\r\n", b"\n")
    return f"{_CHECKSUM_ALGORITHM}:{hashlib.sha256(text).hexdigest()}"


def load_file(path: Path, source: bytes, *, sequence: tuple[str, ...]) -> Migration:
    """Execute ``source`` as the file ``path`` and return what it declares.

    Args:
        path: Where the source was read; its name is the migration's name.
        source: The bytes of the file.
        sequence: The names of all migrations in order, to check ``requires``.

    Raises:
        InvalidMigrationError: The source does not compile, raises, or declares something unusable.
    """
    module = _execute(path, _compile(path, source))
    declared = vars(module)
    problems = problems_of(declared)
    requires = requires_of(declared, path.name, sequence, problems)
    timeout = timeout_of(declared, problems)
    if problems:
        raise _unusable(path.name, problems)
    background = declared.get("background")
    return Migration(
        name=path.name,
        checksum=checksum_of(source),
        description=(background and background.description) or _first_line(module.__doc__),
        up=declared.get("up"),
        down=declared.get("down"),
        background=background,
        requires=requires,
        use_transaction=bool(declared.get("use_transaction")),
        timeout=timeout,
    )


def _compile(path: Path, source: bytes) -> CodeType:
    try:
        return compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise InvalidMigrationError(
            f"{path.name}, line {error.lineno or 1}: {redact(error.msg)}; correct the syntax.",
            name=path.name,
            line=error.lineno,
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise InvalidMigrationError(f"{path.name} is not Python source; write it again.", name=path.name) from error


def _execute(path: Path, code: CodeType) -> ModuleType:
    """Run the code as a module of its own.

    The module stays in ``sys.modules`` under a private name, where dataclasses, pickle and
    ``typing.get_type_hints`` look for it, also later when its functions run.
    """
    private = f"_migronaut_file_{hashlib.sha256(str(path.resolve()).encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
    module = ModuleType(private)
    module.__file__ = str(path)
    with _executing:
        previous = sys.modules.get(private)
        sys.modules[private] = module
        try:
            exec(code, vars(module))
        except BaseException as error:
            _restore(private, previous)
            if is_own(error):
                raise _failed(path, error) from error
            raise
    return module


def _restore(private: str, previous: ModuleType | None) -> None:
    if previous is None:
        sys.modules.pop(private, None)
    else:
        sys.modules[private] = previous


def _failed(path: Path, error: BaseException) -> InvalidMigrationError:
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == str(path)]
    place = f"{path.name}, line {lines[-1]}" if lines else path.name
    context: dict[str, Any] = {"name": path.name, "line": lines[-1] if lines else None}
    if isinstance(error, MigronautError):
        return InvalidMigrationError(f"{place}: {error.message}", **{**error.context, **context})
    kind = type(error).__name__
    said = f" ({redact(error)})" if isinstance(error, _SAFE_TO_QUOTE) else ""
    what = (
        "it is neither installed here nor in the project's directory (project_dir); install it, or correct the import."
        if isinstance(error, ModuleNotFoundError)
        else "outside of its functions a migration file should only declare things."
    )
    return InvalidMigrationError(
        f"{place}: {kind} was raised while the file was loaded{said}; {what}",
        **context,
        exception=kind,
    )


def _first_line(docstring: str | None) -> str:
    return next((line.strip() for line in (docstring or "").splitlines() if line.strip()), "")


def _unusable(name: str, problems: Problems) -> InvalidMigrationError:
    listed = "; ".join(f"{setting} {problem}" for setting, problem in problems)
    return InvalidMigrationError(
        f"{name}: {listed}.",
        name=name,
        problems=[{"setting": setting, "problem": problem} for setting, problem in problems],
    )
