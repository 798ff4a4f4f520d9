from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from migronaut.config import Config, resolve
from migronaut.errors import ConfigInvalidError

BOTH = "uri = 'mongodb://file'\ndb = 'shop'\n"
NAMES = ("migronaut.toml", "pyproject.toml", "migronaut_config.py")
TEXTS = {
    "migronaut.toml": BOTH + "environment = 'migronaut.toml'\n",
    "pyproject.toml": "[tool.migronaut]\n" + BOTH + "environment = 'pyproject.toml'\n",
    "migronaut_config.py": "config = dict(uri='mongodb://file', db='shop', environment='migronaut_config.py')\n",
}


def settle(cwd: Path, **options: Any) -> Config:
    return resolve(**{"flags": {}, "env": {}, "cwd": cwd, **options})


def refusal(cwd: Path, **options: Any) -> str:
    with pytest.raises(ConfigInvalidError) as caught:
        settle(cwd, **options)
    assert "secret" not in caught.value.message + repr(caught.value.context)
    return caught.value.message


@pytest.mark.parametrize("name", NAMES)
def test_each_kind_of_file_is_found_and_named_as_the_origin(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TEXTS[name])
    config = settle(tmp_path)
    assert (config.environment, config.db) == (name, "shop")
    assert config.origins["db"] == f"file {name}"


def test_the_first_file_of_the_list_is_the_only_one_read(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_text(TEXTS[name])
    for name in NAMES:
        assert settle(tmp_path).environment == name
        (tmp_path / name).unlink()


def test_a_pyproject_of_something_else_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 120\n")
    (tmp_path / "migronaut_config.py").write_text(TEXTS["migronaut_config.py"])
    assert settle(tmp_path).environment == "migronaut_config.py"


def test_a_function_can_fetch_the_settings(tmp_path: Path) -> None:
    (tmp_path / "migronaut_config.py").write_text(
        "SECRET = 'pw'\ndef fetch(): return SECRET\n"
        "def config(): return {'uri': f'mongodb://u:{fetch()}@h', 'db': 'd', 'environment': None}\n"
    )
    config = settle(tmp_path)
    assert (config.uri, config.environment) == ("mongodb://u:pw@h", None)
    assert [each.name for each in tmp_path.iterdir()] == ["migronaut_config.py"]


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    deploy = tmp_path / "deploy"
    deploy.mkdir()
    (deploy / "prod.toml").write_text(BOTH + "migrations_dir = '../migs'\n")
    (deploy / "plain.toml").write_text(BOTH)
    named = settle(tmp_path, config_file=Path("deploy/prod.toml"))
    assert named.migrations_dir.resolve() == tmp_path / "migs"
    assert settle(tmp_path, config_file=deploy / "plain.toml").migrations_dir == deploy / "migrations"
    flag = settle(tmp_path, config_file=deploy / "prod.toml", flags={"migrations_dir": "here"})
    assert flag.migrations_dir == tmp_path / "here"
    variable = settle(tmp_path, config_file=deploy / "prod.toml", env={"MIGRONAUT_MIGRATIONS_DIR": "/abs"})
    assert variable.migrations_dir == Path("/abs")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("migronaut.toml", "a = \n", "line 1"),
        ("pyproject.toml", "[tool\n", "line 1"),
        ("pyproject.toml", "[tool]\nmigronaut = 5\n", "must be a table"),
        ("migronaut.toml", b"\xff", "cannot be read as TOML"),
        ("migronaut_config.py", "x = (\n", "migronaut_config.py, line 1: '(' was never closed"),
        ("migronaut_config.py", "\nraise ValueError('secret')\n", "migronaut_config.py, line 2: ValueError was raised"),
        ("migronaut_config.py", "def config():\n  raise KeyError('secret')\n", "line 2: KeyError was raised"),
        ("migronaut_config.py", "raise SystemExit('secret')\n", "line 1: SystemExit was raised"),
        ("migronaut_config.py", "x = 1\n", "must define config"),
        ("migronaut_config.py", "def config(): return 'secret'\n", "must define config"),
        ("migronaut_config.py", "config = {1: 'secret'}\n", "must define config"),
        ("migronaut_config.py", "def config(path): return {}\n", "TypeError was raised"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path: Path, name: str, text: str | bytes, words: str) -> None:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    message = refusal(tmp_path)
    assert name in message
    assert words in message


@pytest.mark.parametrize("option", ["config_file", "env_file"])
def test_a_file_that_was_asked_for_must_exist(tmp_path: Path, option: str) -> None:
    assert "does not exist" in refusal(tmp_path, **{option: Path("nowhere.toml")})


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("")
    assert "must end in .toml or .py" in refusal(tmp_path, config_file=Path("settings.yaml"))


def test_a_named_pyproject_without_our_table_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\n")
    assert "[tool.migronaut]" in refusal(tmp_path, config_file=Path("pyproject.toml"))


def test_an_env_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"MIGRONAUT_DB=\xff\n")
    assert ".env cannot be read" in refusal(tmp_path)


def test_an_env_file_of_another_name_is_the_origin(tmp_path: Path) -> None:
    (tmp_path / "prod.env").write_text("export MIGRONAUT_URI='mongodb://u:p$x@h' # main\nMIGRONAUT_DB=d\n")
    config = settle(tmp_path, env_file=Path("prod.env"))
    assert config.uri == "mongodb://u:p$x@h"
    assert config.origins["uri"] == "prod.env MIGRONAUT_URI"
