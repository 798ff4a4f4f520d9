"""Whatever stands in a configuration is settled or refused, by an error that repeats no value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fuzz_kit import JSON, MARK, TEXTS, assert_silent
from migronaut.config import Config, resolve
from migronaut.config.settings import CHECKS, CODE_ONLY, LATER, NUMBERS
from migronaut.errors import ConfigInvalidError

VALID: dict[str, Any] = {
    "uri": "mongodb://localhost",
    "db": "shop",
    "migrations_dir": "migrations",
    "project_dir": "project",
    "migrations_collection": "a",
    "lock_collection": "b",
    "background_collection": "c",
    "lock_ttl": 60,
    "lease_ttl": 61.5,
    "slice_length": 30,
    "heal_interval": 30,
    "heal_grace": 30,
    "verify_interval": 600,
    "on_lock_held": "wait",
    "background_on_drift": "report",
    "environment": "prod",
}
NAMES = st.sampled_from([*CHECKS, *CHECKS, *LATER, "dbb", "", "{key}", "lock ttl", "Db", "ä"])
VALUES = st.one_of(
    JSON,
    st.sampled_from([60, 1.5, "60", "nan", "1e2", "0x10", "error", "shop", timedelta(1), timedelta(seconds=2), b"x"]),
    TEXTS.map(lambda text: f"mongodb://u:{text}@h"),
)
TEXT_VALUES = TEXTS | st.sampled_from(["60", "1e400", "nan", "-0", "٣", "1_0", "error", "shop", "mongodb://h", " "])
MANY = settings(deadline=None)
FEW = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture(scope="module")
def cwd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("empty")


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    return tmp_path


def settled(cwd: Path, **places: Any) -> Config | None:
    """A configuration, or None when it was refused as it must be."""
    try:
        return resolve(**{"flags": {}, "env": {}, "cwd": cwd, **places})
    except ConfigInvalidError as error:
        assert_silent(error, chain=False)
        return None


def assert_usable(config: Config, given_: Mapping[str, Any]) -> None:
    """What was accepted is one of ours, can be stored and sent, and is settled to the same once more."""
    assert not set(given_) - set(CHECKS)
    values = {name: getattr(config, name) for name in CHECKS}
    for value in values.values():
        if isinstance(value, str):
            assert value.encode()
    again = resolve(flags=values, env={}, cwd=Path("/elsewhere"))
    assert {name: getattr(again, name) for name in CHECKS} == values
    assert MARK not in repr(config.uri and config).replace(str(values["migrations_dir"]), "").partition("db=")[0]


@MANY
@given(flags=st.dictionaries(NAMES, VALUES, max_size=4), base=st.sampled_from([{}, VALID]))
@example(flags={"db": "a\ud800"}, base=VALID)
@example(flags={"lock_ttl": 10**400}, base=VALID)
def test_flags(cwd: Path, flags: dict[str, Any], base: dict[str, Any]) -> None:
    whole = {**base, **flags}
    config = settled(cwd, flags=whole)
    if config is not None:
        assert_usable(config, {name: value for name, value in whole.items() if value is not None})


@MANY
@given(env=st.dictionaries(NAMES, TEXT_VALUES, max_size=4), base=st.sampled_from([{}, VALID]))
@example(env={"db": "a\udcff"}, base=VALID)
def test_variables(cwd: Path, env: dict[str, str], base: dict[str, Any]) -> None:
    variables = {f"MIGRONAUT_{name.upper()}": str(value) for name, value in {**base, **env}.items()}
    config = settled(cwd, env=variables)
    if config is not None:
        told = {name for name in {**base, **env} if variables[f"MIGRONAUT_{name.upper()}"]}
        assert_usable(config, {name.lower(): "" for name in told})
        assert all(isinstance(getattr(config, name), float | None) for name in NUMBERS)


TOML = st.one_of(
    st.lists(
        st.tuples(
            st.sampled_from([*VALID, "dbb", "hooks", "tool", "a.b", '""', '"x y"', "[tool.migronaut]", "[[uri]]"]),
            st.sampled_from(
                [
                    f"'{MARK}'",
                    f'"mongodb://u:{MARK}@h"',
                    f"mongodb://u:{MARK}@h",
                    "60",
                    "nan",
                    "1979-05-27T07:32:00Z",
                    "2026-13-45",
                    "9" * 5000,
                    "[" * 3000,
                    "{" * 2,
                    f"{{ a = '{MARK}' }}",
                    f"['{MARK}']",
                    '"\\ud800"',
                    "0xZZ",
                    "'''\n",
                    "",
                ]
            ),
        ),
        max_size=4,
    ).map(lambda lines: "\n".join(f"{name} = {value}" if name[:1] != "[" else name for name, value in lines).encode()),
    st.binary(max_size=40),
    st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace")),
)


@FEW
@given(content=TOML, name=st.sampled_from(["migronaut.toml", "pyproject.toml"]))
@example(content=b"lock_ttl = " + b"9" * 5000, name="migronaut.toml")
@example(content=b"db = " + b"[" * 5000, name="migronaut.toml")
@example(content=b"a" + b".a" * 2000 + b" = 1", name="migronaut.toml")
def test_toml(here: Path, content: bytes, name: str) -> None:
    (here / name).write_bytes(content)
    config = settled(here, flags={"uri": "mongodb://h", "db": "d"}, config_file=Path(name))
    assert config is None or config.db == "d"


@FEW
@given(
    content=st.binary(max_size=40) | TOML | TEXTS.map(lambda text: f"MIGRONAUT_DB={text}".encode("utf-8", "replace"))
)
def test_env_file(here: Path, content: bytes) -> None:
    (here / ".env").write_bytes(content)
    config = settled(here, flags={"uri": "mongodb://h"})
    assert config is None or config.db


@FEW
@given(
    config=st.dictionaries(NAMES, VALUES, max_size=4) | VALUES.filter(lambda value: not isinstance(value, dict)),
    shape=st.sampled_from(
        ["config = {}", "def config(): return {}", "def config(x): return {}", "raise ValueError({})"]
    ),
)
def test_python_file(here: Path, config: Any, shape: str) -> None:
    text = "import datetime\nfrom math import inf, nan\n" + shape.replace("{}", repr(config)) + "\n"
    (here / "migronaut_config.py").write_text(text, encoding="utf-8")
    found = settled(here, env={"MIGRONAUT_URI": "mongodb://h"})
    if found is not None:
        assert isinstance(config, dict)
        assert not set(config) - set(CHECKS)


def test_every_setting_is_tried() -> None:
    assert set(VALID) == set(CHECKS) - CODE_ONLY
