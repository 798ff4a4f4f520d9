from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient, MongoClient

from migronaut import Migrator
from migronaut.config import Config, locate, read_environment, resolve
from migronaut.config.settings import NUMBERS
from migronaut.errors import ConfigInvalidError, UsageError

REQUIRED = {"uri": "mongodb://localhost", "db": "shop"}


def unconnected(uri: str = "mongodb://localhost") -> MongoClient[Any]:
    return MongoClient(uri, connect=False)


@pytest.fixture
def settle(tmp_path: Path) -> Callable[..., Config]:
    def run(flags: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None, **options: Any) -> Config:
        return resolve(flags=REQUIRED if flags is None else flags, env=env or {}, cwd=tmp_path, **options)

    return run


Settle = Callable[..., Config]


def problems(settle: Settle, *args: Any, **options: Any) -> dict[str, str]:
    with pytest.raises(ConfigInvalidError) as caught:
        settle(*args, **options)
    error = caught.value
    assert error.exit_code == 6
    found = {each["path"]: each["problem"] for each in error.context["problems"]}
    assert all(f"{path} {problem}" in error.message for path, problem in found.items())
    return found


def test_defaults(settle: Settle, tmp_path: Path) -> None:
    config = settle()
    assert config == Config(
        uri="mongodb://localhost",
        db="shop",
        migrations_dir=tmp_path / "migrations",
        project_dir=tmp_path,
        migrations_collection="_migronaut_migrations",
        lock_collection="_migronaut_locks",
        lock_ttl=60.0,
        lease_ttl=60.0,
        on_lock_held="error",
        background_collection="_migronaut_background",
        background_on_drift="reopen",
        environment=None,
        client=None,
        logger=None,
        origins=config.origins,
    )
    assert {name for name, origin in config.origins.items() if origin == "default"} == set(config.origins) - {
        "uri",
        "db",
    }


def test_flags_win_over_environment_over_env_file_over_file_over_default(settle: Settle, tmp_path: Path) -> None:
    (tmp_path / "migronaut.toml").write_text(
        "lock_ttl = 1\nlease_ttl = 1\ndb = 'd1'\nuri = 'mongodb://1'\nenvironment = 'e1'"
    )
    (tmp_path / ".env").write_text("MIGRONAUT_LEASE_TTL=2\nMIGRONAUT_DB=d2\nMIGRONAUT_URI=mongodb://2\n")
    env = {"MIGRONAUT_DB": "d3", "MIGRONAUT_URI": "mongodb://3"}
    config = settle({"uri": "mongodb://4", "db": None}, env)
    assert (config.uri, config.db, config.lease_ttl, config.lock_ttl) == ("mongodb://4", "d3", 2.0, 1.0)
    assert config.origins == {
        **dict.fromkeys(config.origins, "default"),
        "uri": "flag",
        "db": "environment MIGRONAUT_DB",
        "lease_ttl": ".env MIGRONAUT_LEASE_TTL",
        "lock_ttl": "file migronaut.toml",
        "environment": "file migronaut.toml",
    }


def test_every_setting_can_come_from_the_environment_but_objects(settle: Settle, tmp_path: Path) -> None:
    given = {
        "uri": "mongodb+srv://host/?w=1",
        "db": "d",
        "migrations_dir": "m",
        "project_dir": "p",
        "migrations_collection": "a",
        "lock_collection": "b",
        "lock_ttl": "1.5",
        "lease_ttl": "3600",
        "on_lock_held": "wait",
        "background_collection": "c",
        "background_on_drift": "report",
        "slice_length": "2.5",
        "heal_interval": "5",
        "heal_grace": "10",
        "verify_interval": "86400",
        "environment": "prod",
    }
    numbers = {name: float(given[name]) for name in NUMBERS}
    config = settle({}, {f"MIGRONAUT_{name.upper()}": value for name, value in given.items()})
    expected = {**given, **numbers, "migrations_dir": tmp_path / "m", "project_dir": tmp_path / "p"}
    assert {name: getattr(config, name) for name in given} == expected
    assert set(config.origins) - set(given) == {"client", "logger"}


SERVICE = {
    "SERVICE_HOST": "10.0.0.11",
    "SERVICE_PORT": "27017",
    "SERVICE_PORT_MONGO_TLS": "27018",
    "PORT": "tcp://10.0.0.11:27017",
    "PORT_27017_TCP": "tcp://10.0.0.11:27017",
    "PORT_27017_TCP_PROTO": "tcp",
    "PORT_27017_TCP_PORT": "27017",
    "PORT_27017_TCP_ADDR": "10.0.0.11",
    "PORT_53_UDP": "udp://10.0.0.11:53",
}


@pytest.mark.parametrize("service", ["MIGRONAUT_", "MIGRONAUT_WORKER_"])
def test_what_kubernetes_tells_of_a_service_that_is_called_like_us_is_no_setting(settle: Settle, service: str) -> None:
    assert settle(env={service + name: value for name, value in SERVICE.items()}) == settle()


@pytest.mark.parametrize("name", ["PORT", "SERVICE", "SERVICE_HOSTS", "PORT_27017", "PORT_27017_TCP_ADDRESS", "HOST"])
def test_what_only_resembles_a_variable_of_kubernetes_is_told(settle: Settle, name: str) -> None:
    assert problems(settle, env={f"MIGRONAUT_{name}": "27017"}) == {
        f"environment MIGRONAUT_{name}": "is not a setting",
    }


@pytest.mark.parametrize("quote", ["'", '"', ""])
def test_a_value_of_an_env_file_is_taken_as_it_is_written(settle: Settle, tmp_path: Path, quote: str) -> None:
    (tmp_path / ".env").write_text(
        f"x=oops\nMIGRONAUT_MIGRATIONS_DIR={quote}mig${{x}}rations{quote}\n"
        f"MIGRONAUT_URI={quote}mongodb://u:p${{x:-y}}$x@h/{quote}\n"
    )
    config = settle({}, {"x": "oops", "MIGRONAUT_DB": "d"})
    assert (config.migrations_dir, config.uri) == (tmp_path / "mig${x}rations", "mongodb://u:p${x:-y}$x@h/")


@pytest.mark.parametrize(
    ("uri", "db"),
    [
        ("mongodb://host/shop", "shop"),
        ("mongodb://host:1,other:2/shop?replicaSet=rs0", "shop"),
        ("mongodb+srv://u:p%40q@host/sh%C3%B6p?w=majority", "shöp"),
        ("mongodb://%2Ftmp%2Fmongodb-1.sock/shop", "shop"),
        ("mongodb://host/shop.orders", "shop"),
    ],
)
def test_the_database_in_the_path_of_the_uri_is_the_default_as_in_the_driver(settle: Settle, uri: str, db: str) -> None:
    config = settle({"uri": uri})
    assert (config.db, config.origins["db"]) == (db, "flag")
    if "+srv" not in uri:
        assert unconnected(uri).get_default_database().name == db
    assert settle({"uri": uri}, {"MIGRONAUT_DB": "other"}).db == "other"
    assert Migrator(uri=uri).config.db == db


@pytest.mark.parametrize(
    "uri", ["mongodb://host", "mongodb://host/", "mongodb://host/?authSource=a@b/c", "mongodb://h?x=/y"]
)
def test_a_uri_without_a_database_leaves_it_required(settle: Settle, uri: str) -> None:
    assert list(problems(settle, {"uri": uri})) == ["db"]


def test_a_database_in_the_path_is_checked_like_any(settle: Settle) -> None:
    (path,) = problems(settle, {"uri": "mongodb://u:secret@host/sh%20op"})
    assert path == "flag uri: the database in it"


def test_the_default_database_of_a_client_is_ours(settle: Settle) -> None:
    assert Migrator(client=unconnected("mongodb://host/shop")).config.db == "shop"
    with pytest.raises(ConfigInvalidError, match="db is required; pass it"):
        Migrator(client=unconnected())


class Wrapper:
    """What an instrumentation may put around a client."""

    def get_database(self, _: str) -> None: ...


@pytest.mark.parametrize("client", [AsyncMongoClient("mongodb://host", connect=False), Wrapper(), object(), "x"])
def test_whatever_is_no_client_of_ours_is_refused_at_once(client: object) -> None:
    with pytest.raises(ConfigInvalidError, match=f"must be a pymongo.MongoClient, not {type(client).__name__}"):
        Migrator(client=client, db="d")


def test_a_migrator_of_code_reads_nothing_but_its_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("MIGRONAUT_URI=mongodb://wrong\nMIGRONAUT_DB=wrong\n")
    (tmp_path / "migronaut.toml").write_text("db = 'wrong'\nuri = 'mongodb://wrong'\nenvironment = 'wrong'\n")
    monkeypatch.setenv("MIGRONAUT_DB", "wrong")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigInvalidError) as caught:
        Migrator(client=unconnected())
    assert "Migrator.from_environment()" in caught.value.message
    config = Migrator(client=unconnected(), db="shop").config
    assert (config.uri, config.db, config.environment) == (None, "shop", None)
    asked = Migrator.from_environment({}).config
    assert (asked.uri, asked.db, asked.environment) == ("mongodb://wrong", "wrong", "wrong")


def test_a_config_that_is_made_by_hand_is_checked_too() -> None:
    with pytest.raises(ConfigInvalidError) as caught:
        Config(db="a b", lock_ttl=0, lock_collection="_migronaut_background_clock")
    assert [each["path"] for each in caught.value.context["problems"]] == ["db", "lock_ttl", "lock_collection", "uri"]


def test_a_project_is_found_without_a_database(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "shop.toml").write_text("migrations_dir = 'steps'\n")
    given = locate(flags={}, env={}, cwd=tmp_path, config_file=Path("conf/shop.toml"))
    assert (given.migrations_dir, given.project_dir) == (tmp_path / "conf" / "steps", tmp_path / "conf")
    alone = locate(flags={}, env={}, cwd=tmp_path)
    assert (alone.migrations_dir, alone.project_dir) == (tmp_path / "migrations", tmp_path)
    with pytest.raises(ConfigInvalidError, match="flag dbb"):
        locate(flags={"dbb": 1}, env={}, cwd=tmp_path)


def test_variables_of_adapters_tests_and_others_are_left_alone(settle: Settle) -> None:
    others = ("APP", "REDIS_URL", "BROKER_URL", "QUEUE", "TEST_MONGODB_URI", "TEST_X")
    settle(env={**{f"MIGRONAUT_{name}": "x" for name in others}, "PATH": "/bin", "URI": "x"})


def test_an_empty_variable_counts_as_not_given(settle: Settle, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("MIGRONAUT_ENVIRONMENT=prod\nMIGRONAUT_LOCK_TTL=\nMIGRONAUT_DB\n")
    config = settle(env={"MIGRONAUT_ENVIRONMENT": "", "MIGRONAUT_LEASE_TTL": ""})
    assert (config.environment, config.lock_ttl, config.lease_ttl) == ("prod", 60.0, 60.0)


UNUSABLE_SECONDS: list[Any] = [0.5, 3601, True, "60", float("nan"), []]
UNUSABLE: list[tuple[str, Any]] = [
    ("uri", "localhost:27017"),
    ("uri", "mongodb://"),
    ("uri", "mongodb://host\n"),
    ("uri", 5),
    ("db", ""),
    ("db", "a.b"),
    ("db", "a b"),
    ("db", "a\0"),
    ("db", "x" * 64),
    ("migrations_dir", ""),
    ("migrations_dir", 1),
    ("migrations_dir", "a\0b"),
    ("project_dir", ""),
    ("migrations_collection", ""),
    ("migrations_collection", "system.x"),
    ("lock_collection", "a$b"),
    ("lock_collection", "a..b"),
    ("background_collection", ".a"),
    ("background_collection", "a."),
    ("background_collection", "x" * 121),
    *(("lock_ttl", value) for value in UNUSABLE_SECONDS),
    *((name, value) for name in ("lease_ttl", "slice_length", "heal_interval") for value in UNUSABLE_SECONDS),
    ("heal_grace", 901),
    ("verify_interval", 0),
    ("on_lock_held", "Wait"),
    ("on_lock_held", []),
    ("background_on_drift", "ignore"),
    ("environment", ""),
    ("environment", "a\nb"),
    ("environment", "x" * 101),
    ("client", "mongodb://host"),
    ("client", AsyncMongoClient("mongodb://host", connect=False)),
    ("logger", "migronaut"),
]


@pytest.mark.parametrize(("name", "value"), UNUSABLE, ids=lambda value: ascii(value)[:30])
def test_an_unusable_value_is_refused_by_name(settle: Settle, name: str, value: Any) -> None:
    assert list(problems(settle, {**REQUIRED, name: value})) == [f"flag {name}"]


@pytest.mark.parametrize("value", ["sixty", "nan", "inf", "0", "-1"])
def test_a_number_in_the_environment_is_checked_like_any(settle: Settle, value: str) -> None:
    found = problems(settle, env={"MIGRONAUT_LOCK_TTL": value})
    assert found == {"environment MIGRONAUT_LOCK_TTL": "must be a number of seconds from 1 to 3600"}


def test_durations_can_be_a_timedelta(settle: Settle) -> None:
    assert settle({**REQUIRED, "lock_ttl": timedelta(minutes=2)}).lock_ttl == 120.0


def test_all_problems_of_all_places_are_told_at_once(settle: Settle, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.migronaut]\nlock_tll = 5\nhooks = 1\n[tool.migronaut.sub]\na = 1\n")
    (tmp_path / ".env").write_text("MIGRONAUT_STRICT=1\n")
    found = problems(settle, {"lock_ttl": 0, "client": None, "dbb": "x"}, {"MIGRONAUT_URL": "mongodb://x"})
    assert found == {
        "flag dbb": "is not a setting (did you mean db?)",
        "environment MIGRONAUT_URL": "is not a setting (did you mean MIGRONAUT_URI?)",
        ".env MIGRONAUT_STRICT": "is not supported yet; leave it out",
        "pyproject.toml: tool.migronaut.lock_tll": "is not a setting (did you mean lock_ttl?)",
        "pyproject.toml: tool.migronaut.hooks": "is not supported yet; leave it out",
        "pyproject.toml: tool.migronaut.sub": "is not a setting",
        "uri": "is required; set MIGRONAUT_URI, --uri or uri in the configuration file",
        "db": "is required; set MIGRONAUT_DB, --db or db in the configuration file",
        "flag lock_ttl": "must be a number of seconds from 1 to 3600",
    }


def test_only_what_can_be_given_is_suggested(settle: Settle) -> None:
    assert "background_inline" not in problems(settle, {**REQUIRED, "background": 1})["flag background"]
    assert problems(settle, {**REQUIRED, "hook": 1}) == {"flag hook": "is not a setting"}
    assert problems(settle, env={"MIGRONAUT_CLINT": "x"})["environment MIGRONAUT_CLINT"] == "is not a setting"
    assert "client" in problems(settle, {**REQUIRED, "clint": 1})["flag clint"]


def test_an_argument_of_a_call_is_no_flag() -> None:
    with pytest.raises(ConfigInvalidError, match="setting nope is not a setting"):
        Migrator(uri="mongodb://x", db="d", nope=1)


def test_a_client_and_a_uri_together_are_refused() -> None:
    with pytest.raises(UsageError, match="not both"):
        Migrator(client=unconnected(), uri="mongodb://x", db="d")


LATER = [
    "strict",
    "use_transaction",
    "timeout",
    "on_lock_lost",
    "on_out_of_order",
    "background_inline",
    "template",
    "hooks",
    "client_options",
    "generate_id",
    "tracer",
    "meter",
]


@pytest.mark.parametrize("name", LATER)
def test_a_setting_of_a_later_release_is_refused_and_not_ignored(settle: Settle, name: str) -> None:
    assert problems(settle, {**REQUIRED, name: False}) == {f"flag {name}": "is not supported yet; leave it out"}


@pytest.mark.parametrize(
    "same",
    [
        {"lock_collection": "_migronaut_migrations"},
        {"lock_collection": "_migronaut_background"},
        {"lock_collection": "_migronaut_background_tickets"},
        {"migrations_collection": "_migronaut_background_clock"},
        {"background_collection": "_migronaut_locks"},
        {"migrations_collection": "x_partitions", "background_collection": "x"},
    ],
)
def test_two_purposes_never_share_a_collection(settle: Settle, same: dict[str, str]) -> None:
    (problem,) = problems(settle, {**REQUIRED, **same}).values()
    assert "each needs its own" in problem


def test_a_client_replaces_the_uri_and_objects_are_kept(settle: Settle) -> None:
    client, logger = unconnected(), logging.getLogger("mine")
    config = settle({"db": "d", "client": client, "logger": logger})
    assert (config.uri, config.client, config.logger) == (None, client, logger)


def test_objects_cannot_be_written_as_text(settle: Settle) -> None:
    found = problems(settle, env={"MIGRONAUT_CLIENT": "x"})
    assert found["environment MIGRONAUT_CLIENT"].startswith("is an object")


@pytest.mark.parametrize(
    "uri",
    [
        "mongodb://user:secret@host/db",
        "mongodb://user:sec/secret@x@host/db",
        "mongodb+srv://secret:p@host/?authMechanismProperties=AWS_SESSION_TOKEN:secret",
        "mongodb://host/?tlsCertificateKeyFilePassword=secret",
        "mongodb://user:secret?secret@host/db",
        "mongodb://user:sec\nsecret@host/db",
    ],
)
def test_a_config_never_shows_a_secret(settle: Settle, uri: str) -> None:
    config = settle({**REQUIRED, "uri": uri, "client": unconnected()})
    assert config.uri == uri
    assert "secret" not in repr(config) + str(config)
    assert "shop" in repr(config)


def test_no_list_of_problems_ends_in_two_marks(settle: Settle) -> None:
    with pytest.raises(ConfigInvalidError) as caught:
        settle(env={"MIGRONAUT_LEASE_TL": "5"})
    assert str(caught.value).endswith("(did you mean MIGRONAUT_LEASE_TTL?).")


def test_a_refused_value_is_never_quoted(settle: Settle) -> None:
    with pytest.raises(ConfigInvalidError) as caught:
        settle(
            {"uri": "mongo://u:secret@h", "db": "mongodb://secret@h", "environment": "secret\n", "lock_ttl": "secret"}
        )
    assert "secret" not in str(caught.value) + repr(caught.value.context)


def test_the_merged_environment_is_there_for_adapters(tmp_path: Path) -> None:
    (tmp_path / "my.env").write_text("MIGRONAUT_REDIS_URL=a\nMIGRONAUT_APP=b\nX\n")
    env = {"MIGRONAUT_APP": "c", "MIGRONAUT_REDIS_URL": ""}
    merged = read_environment(env, cwd=tmp_path, env_file=Path("my.env"))
    assert merged == {"MIGRONAUT_REDIS_URL": "a", "MIGRONAUT_APP": "c"}
