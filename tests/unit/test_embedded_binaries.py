"""Finding the server programs, and saying what is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from migronaut.embedded.binaries import mongod_binary, mongod_environment, valkey_binary
from migronaut.errors import EmbeddedServerError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are shell scripts")


def program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("find", [mongod_binary, valkey_binary])
def test_without_the_wheels_the_extra_is_named(find: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])  # where installed distributions are looked for
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EmbeddedServerError, match=r'pip install "migronaut\[embedded\]"$'):
        find()


def test_without_the_wheels_a_server_on_the_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = program(tmp_path / "mongod", "exit 0")
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert mongod_binary() == installed


@pytest.mark.skipif(find_spec("pycurl") is None, reason="needs the pycurl wheel")
def test_libcurl_is_borrowed_where_the_system_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/elsewhere")
    # Fails as the dynamic loader does, until one of the directories holds the library.
    picky = program(
        tmp_path / "mongod",
        'IFS=:; for d in $LD_LIBRARY_PATH; do [ -e "$d/libcurl.so.4" ] && exit 0; done\n'
        'echo "error while loading shared libraries: libcurl.so.4: cannot open shared object file" >&2; exit 127',
    )
    directories = mongod_environment(picky, tmp_path)["LD_LIBRARY_PATH"].split(":")
    assert directories[0] == str(tmp_path)
    assert directories[-1] == "/elsewhere"


def test_a_program_that_loads_gets_the_environment_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert "LD_LIBRARY_PATH" not in mongod_environment(program(tmp_path / "mongod", "exit 0"), tmp_path)


def test_a_program_that_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    broken = program(tmp_path / "mongod", 'echo "libssl.so.3: cannot open shared object file" >&2; exit 127')
    with pytest.raises(EmbeddedServerError, match=r"libssl\.so\.3.*server of your own"):
        mongod_environment(broken, tmp_path)
