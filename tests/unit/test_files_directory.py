from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from migronaut.errors import InvalidMigrationError, InvalidNameError, MigrationNotFoundError
from migronaut.files import MigrationsDir

UP = "def up(ctx):\n    pass\n"
COUNTED = ("0001_a.py", "0002-b c.1.py", "20261001120000_ä.py", "2_%s{x}'.py", "a..b.py")
NOT_COUNTED = ("__init__.py", "_private.py", ".hidden.py", "notes.txt", "a.pyc", "b.PY", "migronaut_config.py")


@pytest.fixture
def directory(tmp_path: Path) -> MigrationsDir:
    path = tmp_path / "migrations"
    path.mkdir()
    return MigrationsDir(path)


def write(directory: MigrationsDir, name: str, text: str | bytes = UP) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    (directory.path / name).write_bytes(data)
    return name


def test_migrations_are_the_python_files_sorted_by_name(directory: MigrationsDir) -> None:
    for name in (*reversed(COUNTED), *NOT_COUNTED):
        write(directory, name)
    (directory.path / "0003_folder.py").mkdir()
    assert directory.names() == tuple(sorted(COUNTED))


def test_a_missing_directory_is_named_with_the_way_out(directory: MigrationsDir) -> None:
    directory.path.rmdir()
    with pytest.raises(MigrationNotFoundError, match="migronaut init"):
        directory.names()


def test_a_directory_that_is_a_file_is_refused(directory: MigrationsDir) -> None:
    with pytest.raises(MigrationNotFoundError):
        MigrationsDir(directory.path / write(directory, "0001_a.py")).names()


@pytest.mark.skipif(sys.platform != "linux", reason="file names are always Unicode elsewhere")
def test_a_file_name_that_cannot_be_recorded_is_refused(directory: MigrationsDir) -> None:
    (directory.path / os.fsdecode(b"0001_\xff.py")).touch()
    with pytest.raises(InvalidNameError, match="rename the file"):
        directory.names()


BREAKING = ("0001\t.py", "0001_a\n.py", "\r0001.py", "0001\x1b[0m.py", "0001\x7f.py", "0001\x85.py", "0001\u2028.py")


@pytest.mark.skipif(sys.platform == "win32", reason="no such names there")
@pytest.mark.parametrize("name", [*BREAKING, "0001\\a.py"], ids=ascii)
def test_a_file_whose_name_would_break_a_line_is_refused_for_the_whole_directory(
    directory: MigrationsDir, name: str
) -> None:
    write(directory, "0002_good.py")
    write(directory, name)
    with pytest.raises(InvalidNameError, match="rename the file") as caught:
        directory.names()
    assert caught.value.message.isprintable()


def test_files_that_are_passed_over_are_named_with_the_reason(directory: MigrationsDir) -> None:
    for name in (*COUNTED, *NOT_COUNTED):
        write(directory, name)
    (directory.path / "old").mkdir()
    write(directory, "old/0001_a.py")
    write(directory, "old/rules.py")
    (directory.path / "0003_folder.py").mkdir()
    (directory.path / "0004_gone.py").symlink_to("nowhere")
    (directory.path / "0005_circle.py").symlink_to("0005_circle.py")
    assert {each.name: each.reason for each in directory.passed_over()} == {
        "0004_gone.py": "leads to no file",
        "0005_circle.py": "leads to no file",
        "_private.py": "begins with _, as helpers do",
        "b.PY": "does not end in .py, in small letters",
        "migronaut_config.py": "is the configuration",
        "old/0001_a.py": "is in a folder",
    }
    assert directory.names() == tuple(sorted(COUNTED))


BAD_NAMES: list[Any] = [
    *BREAKING,
    "",
    ".",
    "..",
    ".py",
    "../0001_a.py",
    "/etc/0001_a.py",
    "sub/0001_a.py",
    "sub\\0001_a.py",
    "0001_a.py\0",
    "0001\0_a.py",
    "__init__.py",
    "0001_a",
    "0001_a.PY",
    ".0001_a.py",
    "\ud800.py",
    "x" * 300 + ".py",
    "x" * 10_000_000,
    None,
    7,
    b"0001_a.py",
]


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: ascii(name)[:30])
def test_a_name_that_is_no_bare_file_name_is_refused(directory: MigrationsDir, name: Any) -> None:
    for method in (directory.path_of, directory.checksum, directory.load):
        with pytest.raises(InvalidNameError) as caught:
            method(name)
        assert len(caught.value.message) < 400
        assert caught.value.message.isprintable()


@pytest.mark.parametrize("name", COUNTED)
def test_any_listed_name_has_its_path(directory: MigrationsDir, name: str) -> None:
    write(directory, name)
    assert directory.path_of(name) == directory.path / name


def test_a_name_without_file_is_not_found(directory: MigrationsDir) -> None:
    with pytest.raises(MigrationNotFoundError, match=r"0009_z\.py"):
        directory.path_of("0009_z.py")


def test_a_link_out_of_the_directory_is_refused_and_one_inside_is_followed(directory: MigrationsDir) -> None:
    outside = directory.path.parent / "outside.py"
    outside.write_text(UP)
    (directory.path / "0001_out.py").symlink_to(outside)
    (directory.path / "..data").mkdir()
    (directory.path / "..data" / "0002_in.py").write_text(UP)
    (directory.path / "0002_in.py").symlink_to(Path("..data") / "0002_in.py")
    with pytest.raises(InvalidNameError, match="leads out"):
        directory.load("0001_out.py")
    assert directory.load("0002_in.py").name == "0002_in.py"


def test_a_directory_reached_by_a_link_is_fine(directory: MigrationsDir) -> None:
    write(directory, "0001_a.py")
    link = directory.path.parent / "link"
    link.symlink_to(directory.path)
    assert MigrationsDir(link).load("0001_a.py").name == "0001_a.py"


def test_a_link_in_a_circle_is_refused(directory: MigrationsDir) -> None:
    (directory.path / "0001_a.py").symlink_to("0001_a.py")
    with pytest.raises((InvalidNameError, MigrationNotFoundError)):
        directory.path_of("0001_a.py")


def test_the_checksum_is_pinned_so_that_no_release_changes_it_by_accident(directory: MigrationsDir) -> None:
    name = write(directory, "0001_a.py", "x = 1\n")
    assert directory.checksum(name) == "sha256-1:9e26bf369911c45c243c684147b23fc9e1dcfcf257d299a1c632016a6fcd33f4"


@pytest.mark.parametrize(
    "text", [b"x = 1\r\ny = 2\r\n", b"\xef\xbb\xbfx = 1\ny = 2\n", b"\xef\xbb\xbfx = 1\r\ny = 2\n"]
)
def test_line_ends_and_bom_do_not_change_the_checksum(directory: MigrationsDir, text: bytes) -> None:
    plain = directory.checksum(write(directory, "0001_a.py", b"x = 1\ny = 2\n"))
    assert directory.checksum(write(directory, "0001_a.py", text)) == plain


@pytest.mark.parametrize("text", [b"x = 2\ny = 2\n", b"x = 1\ny = 2", b"x = 1\n y = 2\n", b"x = 1\ry = 2\n"])
def test_any_other_change_does(directory: MigrationsDir, text: bytes) -> None:
    plain = directory.checksum(write(directory, "0001_a.py", b"x = 1\ny = 2\n"))
    assert directory.checksum(write(directory, "0001_a.py", text)) != plain


def test_a_file_that_cannot_be_read_is_one_sentence(directory: MigrationsDir, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    name = write(directory, "0001_a.py")
    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(InvalidMigrationError, match=r"0001_a\.py cannot be read \(Permission denied\)"):
        directory.load(name)
