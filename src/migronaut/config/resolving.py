"""From the places to one ``Config``: flags > MIGRONAUT_* > file > defaults."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from migronaut.config.settings import (
    CHECKS,
    CODE_ONLY,
    DEFAULTS,
    LATER,
    NUMBERS,
    Config,
    RefusedError,
    combined_problems,
)
from migronaut.config.sources import PREFIX, Source, from_file, from_flags, from_variables, read_env_file
from migronaut.errors import ConfigInvalidError

Problems = list[tuple[str, str]]


def resolve(
    *,
    flags: Mapping[str, Any],
    env: Mapping[str, str],
    cwd: Path,
    config_file: Path | None = None,
    env_file: Path | None = None,
    in_code: bool = False,
) -> Config:
    """Find every setting in the place that counts most, and check them all.

    Flags win over ``MIGRONAUT_*`` variables, those over the configuration file, that over the
    defaults. ``.env`` fills in variables that the environment does not have. Without ``config_file``
    the working directory is searched, and only the first found counts: ``migronaut.toml``, then
    ``pyproject.toml`` if it has a table ``[tool.migronaut]``, then ``migronaut_config.py`` with
    ``config``, a dict or a function that returns one. A relative ``migrations_dir`` (also the
    default one) is relative to the configuration file if there is one; given as a flag or in the
    environment, to the working directory. Empty variables count as not given.

    Args:
        flags: Settings by name, from a call or the command line; None = not given.
        env: A copy of ``os.environ``.
        cwd: The working directory.
        config_file: ``.toml`` or ``.py``, relative to ``cwd``; must exist when given.
        env_file: Read instead of ``.env``; must exist when given.
        in_code: The flags are arguments of a call: a problem names a setting, not a flag.

    Raises:
        ConfigInvalidError: All problems, in the message and in ``context["problems"]`` as
            ``{"path", "problem"}``. No value is ever quoted.
    """
    in_file = from_file(config_file, cwd)
    sources = (from_flags(flags, cwd, kind="setting" if in_code else "flag"), *_sources(env, cwd, env_file, in_file))
    winners = _winners(sources)
    problems = [problem for source in sources for problem in _key_problems(source)]
    problems += _missing(winners)
    checked = _checked(winners, problems)
    values = {name: value for name, value in DEFAULTS.items() if name not in winners} | checked
    problems += combined_problems(values)
    if problems:
        raise _invalid(problems)
    base = winners.get("migrations_dir", in_file or sources[0]).base
    values["migrations_dir"] = (cwd / base / values["migrations_dir"]).absolute()
    origins = {name: winners[name].origin_of(name) if name in winners else "default" for name in CHECKS}
    return Config(**values, origins=origins)


def _sources(env: Mapping[str, str], cwd: Path, env_file: Path | None, in_file: Source | None) -> tuple[Source, ...]:
    """Return the places behind the flags, most important first."""
    written = (
        from_variables(env, "environment", cwd),
        from_variables(read_env_file(env_file, cwd), (env_file or Path(".env")).name, cwd),
    )
    return written if in_file is None else (*written, in_file)


def read_environment(env: Mapping[str, str], *, cwd: Path, env_file: Path | None = None) -> dict[str, str]:
    """Return the environment with ``.env`` filled in, for the adapters' own variables.

    Raises:
        ConfigInvalidError: The given ``env_file`` does not exist, or the file cannot be read.
    """
    return {**read_env_file(env_file, cwd), **{name: value for name, value in env.items() if value}}


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
        return "is not a setting" + (f"; did you mean {source.name_of(close[0])}?" if close else "")
    if name in CODE_ONLY and not source.is_code:
        return "is an object; pass it in code or from migronaut_config.py"
    return None


def _winners(sources: tuple[Source, ...]) -> dict[str, Source]:
    """Return for each setting the first source that may give it and does."""
    return {
        name: source for source in reversed(sources) for name in source.values if _key_problem(name, source) is None
    }


def _checked(winners: Mapping[str, Source], problems: Problems) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, source in winners.items():
        try:
            values[name] = CHECKS[name](_plain(name, source))
        except RefusedError as refused:
            problems.append((source.path_of(name), str(refused)))
    return values


def _plain(name: str, source: Source) -> object:
    value = source.values[name]
    if not (source.is_text and name in NUMBERS):
        return value
    try:
        return float(value)
    except ValueError:
        return value


def _missing(winners: Mapping[str, Source]) -> Problems:
    missing = [name for name in ("uri", "db") if name not in winners and not (name == "uri" and "client" in winners)]
    return [
        (name, f"is required; set {PREFIX}{name.upper()}, --{name} or {name} in the configuration file")
        for name in missing
    ]


def _invalid(problems: Problems) -> ConfigInvalidError:
    listed = "; ".join(f"{path} {problem}" for path, problem in problems)
    count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
    return ConfigInvalidError(
        f"The configuration has {count}: {listed}.",
        problems=[{"path": path, "problem": problem} for path, problem in problems],
    )
