from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from migronaut.errors import (
    InvalidMigrationError,
    InvalidNameError,
    MigrationExistsError,
    MigrationNotFoundError,
    UsageError,
)
from migronaut.files import MigrationsDir, create
from migronaut.files.templates import BACKGROUND

NOW = datetime(2026, 10, 1, 12, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "file_name"),
    [
        ("add_email_index", "add_email_index"),
        ("Add e-mail  index!", "add_e_mail_index"),
        ("../../etc/passwd", "etc_passwd"),
        ("a.py", "a"),
        ("Größe", "größe"),
        ("注文", "注文"),
        ("a\n'\"\\{title}b", "a_title_b"),
        ("\ud800a", "a"),
        ("x" * 400, "x" * 150),
        ("ä" * 400, "ä" * 75),
    ],
)
def test_the_file_is_named_by_time_and_slug(tmp_path: Path, name: str, file_name: str) -> None:
    path = create(tmp_path, name, now=NOW)
    assert path == tmp_path / f"20261001120005_{file_name}.py"
    assert MigrationsDir(tmp_path).names() == (path.name,)
    assert MigrationsDir(tmp_path).load(path.name).up is not None


def test_the_time_in_the_name_is_utc(tmp_path: Path) -> None:
    now = NOW.astimezone(timezone(timedelta(hours=-7)))
    assert create(tmp_path, "a", now=now).name == "20261001120005_a.py"


@pytest.mark.parametrize("name", ["", "   ", "_", "../..", ".py", "!!", "\ud800"])
def test_a_name_without_letter_or_digit_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidNameError):
        create(tmp_path, name, now=NOW)
    assert list(tmp_path.iterdir()) == []


def test_the_template_says_what_it_is_and_refuses_to_run_unwritten(tmp_path: Path) -> None:
    migration = MigrationsDir(tmp_path).load(create(tmp_path, "add email index", now=NOW).name)
    assert migration.description == "Add email index."
    assert migration.up is not None
    with pytest.raises(NotImplementedError):
        migration.up(None)


def test_the_background_template_is_refused_until_a_collection_is_named(tmp_path: Path) -> None:
    path = create(tmp_path, "move address", background=True, now=NOW)
    directory = MigrationsDir(tmp_path)
    with pytest.raises(InvalidMigrationError, match="placeholder 'TODO'; put the name of your collection there"):
        directory.load(path.name)
    path.write_text(path.read_text().replace('"TODO"', '"orders"'))
    migration = directory.load(path.name)
    assert migration.background is not None
    assert migration.background.spec.versioned
    assert migration.description == "Move address."


def test_files_made_within_one_second_are_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    made = [create(tmp_path, name, now=NOW).name for name in "hgfedcba"]
    assert MigrationsDir(tmp_path).names() == tuple(made)
    assert made[-1] == "20261001120012_a.py"


def test_a_file_comes_after_the_newest_one_whatever_the_clock_says(tmp_path: Path) -> None:
    (tmp_path / "20270101235959_b.py").touch()
    (tmp_path / "9_not_a_stamp.py").touch()
    assert create(tmp_path, "a", now=NOW).name == "20270102000000_a.py"


@pytest.mark.parametrize("stamp", ["99991231235959", "20269999999999"])
def test_a_time_after_which_nothing_comes_is_refused(tmp_path: Path, stamp: str) -> None:
    (tmp_path / f"{stamp}_b.py").touch()
    with pytest.raises(InvalidNameError, match=stamp):
        create(tmp_path, "a", now=NOW)


def test_the_settings_in_the_template_are_the_defaults(tmp_path: Path) -> None:
    path = create(tmp_path, "a", background=True, now=NOW)
    plain = path.read_text().replace('"TODO"', '"orders"')
    written, count = re.subn(r"^    # (\w+=[\d.]+,)", r"    \1", plain, flags=re.MULTILINE)
    assert count == 4
    specs = []
    for text in (plain, written):
        path.write_text(text)
        background = MigrationsDir(tmp_path).load(path.name).background
        assert background is not None
        specs.append(background.spec)
    assert specs[0] == specs[1]


def test_the_ordinary_template_has_nothing_that_is_not_there_yet(tmp_path: Path) -> None:
    path = create(tmp_path, "a", now=NOW)
    assert "down" not in path.read_text()
    assert MigrationsDir(tmp_path).load(path.name).down is None


@pytest.mark.parametrize("background", [False, True])
def test_the_template_shows_how_to_require_another_one(tmp_path: Path, background: bool) -> None:
    first = create(tmp_path, "first", background=True, now=NOW)
    first.write_text(first.read_text().replace('"TODO"', '"orders"'))
    path = create(tmp_path, "second", background=background, now=NOW.replace(year=NOW.year + 1))
    shown = '# requires = ["20261001120000_an_earlier_one.py"]'
    text = path.read_text().replace('"TODO"', '"orders"')
    assert shown in text
    path.write_text(text.replace(shown, f'requires = ["{first.name}"]'))
    assert MigrationsDir(tmp_path).load(path.name).requires == (first.name,)


def test_the_background_template_compiles() -> None:
    compile(BACKGROUND, "template", "exec")


def test_a_template_of_ones_own_is_used(tmp_path: Path) -> None:
    path = create(tmp_path, "a b", background=True, now=NOW, template='"""{title}."""\nup = {"$set": 1}\n')
    assert path.read_text() == '"""A b."""\nup = {"$set": 1}\n'


def test_an_existing_file_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = create(tmp_path, "a", now=NOW)
    path.write_text("mine")
    with monkeypatch.context() as patched:  # the other one was made since the directory was looked at
        patched.setattr(Path, "iterdir", lambda _: iter(()))
        with pytest.raises(MigrationExistsError):
            create(tmp_path, "a", now=NOW, background=True)
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_directory_is_not_made_up(tmp_path: Path) -> None:
    with pytest.raises(MigrationNotFoundError, match="migronaut init"):
        create(tmp_path / "migrtions", "a", now=NOW)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_half_way_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        create(tmp_path, "a", now=NOW, template="x" * 100_000 + "\ud800")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_args: object, **_options: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", denied)
    with pytest.raises(UsageError, match="Permission denied"):
        create(tmp_path, "a", now=NOW)


def test_a_file_system_without_hard_links_works_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_args: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", unsupported)
    path = create(tmp_path, "a", now=NOW)
    assert list(tmp_path.iterdir()) == [path]
    with monkeypatch.context() as patched:
        patched.setattr(Path, "iterdir", lambda _: iter(()))
        with pytest.raises(MigrationExistsError):
            create(tmp_path, "a", now=NOW)
    assert list(tmp_path.iterdir()) == [path]
