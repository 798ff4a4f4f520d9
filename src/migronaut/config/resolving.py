"""From the places to one ``Config``: flags > MIGRONAUT_* > file > defaults."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from migronaut.config.settings import (
    CHECKS,
    CODE_ONLY,
    DEFAULTS,
    DIRECTORIES,
    LATER,
    NUMBERS,
    Config,
    Problems,
    checked,
    combined_problems,
    invalid,
)
from migronaut.config.sources import PREFIX, Source, from_call, from_file, from_flags, from_variables, read_env_file
from migronaut.config.uris import database_in


@frozen(kw_only=True)
class Project:
    """Where the files of a project are.

    Args:
        migrations_dir: Absolute path of the migration files.
        project_dir: Absolute path of what they can import from.
    """

    migrations_dir: Path
    project_dir: Path


def resolve(
    *,
    flags: Mapping[str, Any],
    env: Mapping[str, str],
    cwd: Path,
    config_file: Path | None = None,
    env_file: Path | None = None,
) -> Config:
    """Find every setting in the place that counts most, and check them all.

    Flags win over ``MIGRONAUT_*`` variables, those over the configuration file, that over the
    defaults. ``.env`` fills in variables that the environment does not have. Without ``config_file``
    the working directory is searched, and only the first found counts: ``migronaut.toml``, then
    ``pyproject.toml`` if it has a table ``[tool.migronaut]``, then ``migronaut_config.py`` with
    ``config``, a dict or a function that returns one. A relative ``migrations_dir`` (also the
    default one) is relative to the configuration file if there is one; given as a flag or in the
    environment, to the working directory; ``project_dir`` likewise. Without a ``db``, the one in the path of
    the ``uri`` counts, or the default one of the ``client``. Empty variables count as not given.

    Args:
        flags: Settings by name, from the command line; None = not given.
        env: A copy of ``os.environ``.
        cwd: The working directory.
        config_file: ``.toml`` or ``.py``, relative to ``cwd``; must exist when given.
        env_file: Read instead of ``.env``; must exist when given.

    Raises:
        ConfigInvalidError: All problems, in the message and in ``context["problems"]`` as
            ``{"path", "problem"}``. No value is ever quoted.
    """
    return _settled(_places(flags, env, cwd, config_file, env_file), cwd).config()


def resolve_call(settings: Mapping[str, Any], *, cwd: Path) -> Config:
    """Check the arguments of a call; no variable and no file of the working directory counts.

    Args:
        settings: By name; None = not given.
        cwd: What relative paths are relative to.

    Raises:
        ConfigInvalidError: As of ``resolve``.
    """
    return _settled((from_call(settings, cwd),), cwd).config()


def locate(
    *,
    flags: Mapping[str, Any],
    env: Mapping[str, str],
    cwd: Path,
    config_file: Path | None = None,
    env_file: Path | None = None,
) -> Project:
    """Find the files of the project, for what needs no database: a missing ``uri`` or ``db`` is no problem.

    Args:
        flags: As of ``resolve``, like the others.

    Raises:
        ConfigInvalidError: As of ``resolve``.
    """
    found = _settled(_places(flags, env, cwd, config_file, env_file), cwd)
    if found.problems:
        raise invalid(found.problems)
    return Project(**{name: found.values[name] for name in DIRECTORIES})


def read_environment(env: Mapping[str, str], *, cwd: Path, env_file: Path | None = None) -> dict[str, str]:
    """Return the environment with ``.env`` filled in, for the adapters' own variables.

    Raises:
        ConfigInvalidError: The given ``env_file`` does not exist, or the file cannot be read.
    """
    return {**read_env_file(env_file, cwd), **{name: value for name, value in env.items() if value}}


@frozen(kw_only=True)
class _Settled:
    """What was found: the values that can be used, where they came from, and what is wrong with the others."""

    values: Mapping[str, Any]
    origins: Mapping[str, str]
    problems: Problems
    missing: Problems

    def config(self) -> Config:
        problems = [*self.problems, *self.missing]
        if problems:
            raise invalid(problems)
        return Config(**self.values, origins=self.origins)


def _places(
    flags: Mapping[str, Any], env: Mapping[str, str], cwd: Path, config_file: Path | None, env_file: Path | None
) -> tuple[Source, ...]:
    """Return the places, most important first."""
    in_file = from_file(config_file, cwd)
    written = (
        from_flags(flags, cwd),
        from_variables(env, "environment", cwd),
        from_variables(read_env_file(env_file, cwd), (env_file or Path(".env")).name, cwd),
    )
    return written if in_file is None else (*written, in_file)


def _settled(sources: tuple[Source, ...], cwd: Path) -> _Settled:
    winners = _winners(sources)
    given = {name: _plain(name, source) for name, source in winners.items()}
    named = {name: source.path_of(name) for name, source in winners.items()}
    origins = {name: winners[name].origin_of(name) if name in winners else "default" for name in CHECKS}
    for name in ("uri", "client"):
        database = database_in(given.get(name))
        if "db" not in winners and database is not None:
            given["db"], origins["db"], named["db"] = database, origins[name], f"{named[name]}: the database in it"
    values, problems = checked(given, called=named.__getitem__)
    values = {name: value for name, value in DEFAULTS.items() if name not in given} | values
    problems += [problem for source in sources for problem in _key_problems(source)] + combined_problems(values)
    for name in set(DIRECTORIES) & set(values):
        # The last place is the configuration file, where there is one; else all count from the working directory.
        values[name] = (cwd / winners.get(name, sources[-1]).base / values[name]).absolute()
    return _Settled(values=values, origins=origins, problems=problems, missing=_missing(given, sources[0]))


def _key_problems(source: Source) -> Problems:
    return [
        (source.path_of(name), problem) for name in source.values if (problem := _key_problem(name, source)) is not None
    ]


def _key_problem(name: str, source: Source) -> str | None:
    if name in LATER:
        return "is not supported yet; leave it out"
    if name not in CHECKS:
        possible = CHECKS if source.is_code else CHECKS.keys() - CODE_ONLY
        close = difflib.get_close_matches(name, sorted(possible), n=1)
        return "is not a setting" + (f" (did you mean {source.name_of(close[0])}?)" if close else "")
    if name in CODE_ONLY and not source.is_code:
        return "is an object; pass it in code or from migronaut_config.py"
    return None


def _winners(sources: tuple[Source, ...]) -> dict[str, Source]:
    """Return for each setting the first source that may give it and does."""
    return {
        name: source for source in reversed(sources) for name in source.values if _key_problem(name, source) is None
    }


def _plain(name: str, source: Source) -> object:
    value = source.values[name]
    if not (source.is_text and name in NUMBERS):
        return value
    try:
        return float(value)
    except ValueError:
        return value


def _missing(given: Mapping[str, object], first: Source) -> Problems:
    how = (
        "pass it, or let Migrator.from_environment() read what the command line reads"
        if first.is_call
        else "set {variable}, --{name} or {name} in the configuration file"
    )
    missing = [name for name in ("uri", "db") if name not in given and not (name == "uri" and "client" in given)]
    return [(name, f"is required; {how.format(name=name, variable=PREFIX + name.upper())}") for name in missing]
