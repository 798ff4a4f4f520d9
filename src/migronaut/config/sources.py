"""Reading the places that settings come from. Each gives one ``Source``; nothing is checked here."""

from __future__ import annotations

import re
import runpy
import tomllib
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen
from dotenv import dotenv_values

from migronaut.errors import ConfigInvalidError, redact

PREFIX = "MIGRONAUT_"
_PYTHON = "migronaut_config.py"
_PYPROJECT = "pyproject.toml"
_CANDIDATES = ("migronaut.toml", _PYPROJECT, _PYTHON)
_ADAPTERS = frozenset(PREFIX + name for name in ("APP", "REDIS_URL", "BROKER_URL", "QUEUE"))
_TESTS = PREFIX + "TEST_"

# What Kubernetes puts into each container for a service whose name begins with "migronaut".
_SERVICE = re.compile(
    rf"{PREFIX}(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)", re.ASCII
)
_SERVICE_PORT = re.compile(rf"{PREFIX}(\w+_)?PORT=(tcp|udp|sctp)://.*", re.ASCII | re.DOTALL)


@frozen(kw_only=True)
class Source:
    """Settings from one place.

    Args:
        values: By setting name.
        origin: How the place is called, e.g. ``"file migronaut.toml"``; ``{key}`` stands for the setting.
        path: How a setting in it is called when it has a problem, with ``{key}``.
        base: What relative paths are relative to.
        is_text: Environment variables: named in capitals, and every value is text, numbers too.
        is_code: Objects can be given.
        is_call: The arguments of a call, beside which no other place counts.
    """

    values: Mapping[str, Any]
    origin: str
    path: str
    base: Path
    is_text: bool = False
    is_code: bool = False
    is_call: bool = False

    def origin_of(self, setting: str) -> str:
        """Say where a setting came from."""
        return self.origin.replace("{key}", self.name_of(setting))

    def path_of(self, setting: str) -> str:
        """Name a setting together with its place."""
        return self.path.replace("{key}", self.name_of(setting))

    def name_of(self, setting: str) -> str:
        """Name a setting as it is written in this place."""
        return PREFIX + setting.upper() if self.is_text else setting


def from_flags(flags: Mapping[str, Any], base: Path) -> Source:
    """Take the flags of the command line; those that are None were not given."""
    return Source(values=_given(flags), origin="flag", path="flag {key}", base=base, is_code=True)


def from_call(settings: Mapping[str, Any], base: Path) -> Source:
    """Take the arguments of a call; those that are None were not given."""
    return Source(values=_given(settings), origin="call", path="setting {key}", base=base, is_code=True, is_call=True)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def from_variables(variables: Mapping[str, str], place: str, base: Path) -> Source:
    """Take the ``MIGRONAUT_*`` variables that have a value; those of adapters, tests and Kubernetes are no settings."""
    values = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in variables.items()
        if name.startswith(PREFIX) and value and not _is_foreign(name, value)
    }
    label = f"{place} {{key}}"
    return Source(values=values, origin=label, path=label, base=base, is_text=True)


def _is_foreign(name: str, value: str) -> bool:
    if name in _ADAPTERS or name.startswith(_TESTS):
        return True
    return bool(_SERVICE.fullmatch(name) or _SERVICE_PORT.fullmatch(f"{name}={value}"))


def read_env_file(env_file: Path | None, cwd: Path) -> dict[str, str]:
    """Read ``.env`` in the working directory, or the given file, which then must exist. Values are as they are written.

    Returns:
        The variables that have a value; none when there is no ``.env``.

    Raises:
        ConfigInvalidError: The given file does not exist, or the file cannot be read.
    """
    path = cwd / (env_file or ".env")
    if not path.is_file():
        if env_file is not None:
            raise ConfigInvalidError(f"The env file {str(path)!r} does not exist; check --env-file.")
        return {}
    try:
        found = dotenv_values(path, encoding="utf-8-sig", interpolate=False)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalidError(f"{path.name} cannot be read ({type(error).__name__}); check the file.") from error
    return {name: value for name, value in found.items() if value is not None}


def from_file(config_file: Path | None, cwd: Path) -> Source | None:
    """Read the configuration file.

    Args:
        config_file: Relative to ``cwd``; None = the first there is of migronaut.toml, pyproject.toml with
            ``[tool.migronaut]`` and migronaut_config.py.
        cwd: The working directory.

    Returns:
        Its settings, unchecked; None when no file was given and there is none.

    Raises:
        ConfigInvalidError: The given file does not exist or has no settings, or the file cannot be read.
    """
    if config_file is not None:
        path = cwd / config_file
        if not path.is_file():
            raise ConfigInvalidError(f"The configuration file {str(path)!r} does not exist; check --config.")
        source = _read(path)
        if source is None:
            raise ConfigInvalidError(f"{path.name} has no table [tool.migronaut]; add it, or name another file.")
        return source
    found = (_read(cwd / name) for name in _CANDIDATES if (cwd / name).is_file())
    return next((source for source in found if source is not None), None)


def _read(path: Path) -> Source | None:
    if path.suffix == ".toml":
        return _from_toml(path)
    if path.suffix == ".py":
        return _source(path, _python_values(path), is_code=True)
    raise ConfigInvalidError(f"{path.name} is no configuration file; it must end in .toml or .py.")


def _from_toml(path: Path) -> Source | None:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    # Python refuses numbers of thousands of digits by a plain ValueError, and gives up on deep nesting.
    except (ValueError, RecursionError, OSError) as error:
        said = f": {redact(error)}" if isinstance(error, tomllib.TOMLDecodeError) else f" ({type(error).__name__})"
        raise ConfigInvalidError(f"{path.name} cannot be read as TOML{said}; correct it.") from error
    if path.name != _PYPROJECT:
        return _source(path, content)
    tools = content.get("tool")
    table = tools.get("migronaut") if isinstance(tools, Mapping) else None
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise ConfigInvalidError(f"{_PYPROJECT}: tool.migronaut must be a table; write [tool.migronaut].")
    return _source(path, table, prefix="tool.migronaut.")


def _source(path: Path, values: Mapping[str, Any], *, prefix: str = "", is_code: bool = False) -> Source:
    return Source(
        values=values,
        origin=f"file {path.name}",
        path=f"{path.name}: {prefix}{{key}}",
        base=path.parent,
        is_code=is_code,
    )


def _python_values(path: Path) -> Mapping[str, Any]:
    """Execute a configuration file; what it raises is named by type and line only, it may hold secrets."""
    try:
        declared = runpy.run_path(str(path), run_name="_migronaut_config").get("config")
        values = declared() if callable(declared) else declared
    except SyntaxError as error:
        raise ConfigInvalidError(f"{path.name}, line {error.lineno}: {error.msg}; correct the syntax.") from error
    except (Exception, SystemExit) as error:
        lines = [
            line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == str(path)
        ]
        place = f"{path.name}, line {lines[-1]}" if lines else path.name
        raise ConfigInvalidError(f"{place}: {type(error).__name__} was raised; correct the file.") from error
    if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
        raise ConfigInvalidError(f"{path.name} must define config: a dict of settings, or a function that returns one.")
    return _given(values)
