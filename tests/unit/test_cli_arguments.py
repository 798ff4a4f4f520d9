"""What the command line makes of arguments, names and errors, without any server."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from migronaut.cli.main import cli, global_flags, main
from migronaut.cli.session import meant
from migronaut.cli.worker import installed
from migronaut.errors import UsageError

NAMES = ("0001_orders.py", "0002_orders_again.py", "0003_users.py")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("URI", "DB", "MIGRATIONS_DIR"):
        monkeypatch.delenv(f"MIGRONAUT_{name}", raising=False)
    return tmp_path


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the entry point; its exit code."""
    monkeypatch.setattr("sys.argv", ["migronaut", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    assert isinstance(left.value.code, int)
    return left.value.code


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("0001_orders.py", "0001_orders.py"),
        ("0001_orders", "0001_orders.py"),
        ("users", "0003_users.py"),
        ("again", "0002_orders_again.py"),
        ("nothing", None),
    ],
)
def test_a_part_of_a_name_is_enough_when_it_means_one(given: str, found: str | None) -> None:
    assert meant(given, NAMES) == found


def test_a_part_that_means_several_is_refused_with_their_names() -> None:
    with pytest.raises(UsageError, match=r"0001_orders\.py, 0002_orders_again\.py"):
        meant("orders", NAMES)


def test_an_exact_name_wins_over_longer_ones_that_hold_it() -> None:
    assert meant("a", ("a.py", "aa.py")) == "a.py"


@pytest.mark.parametrize(
    ("arguments", "flags", "rest"),
    [
        (["up", "--json"], ["--json"], ["up"]),
        (["--verbose", "background", "run", "--json"], ["--json", "--verbose"], ["background", "run"]),
        (["up", "--", "--json"], [], ["up", "--", "--json"]),
    ],
)
def test_global_flags_may_stand_behind_the_command(arguments: list[str], flags: list[str], rest: list[str]) -> None:
    assert global_flags(arguments) == (flags, rest)


@pytest.mark.parametrize("arguments", [(), ("background",)])
def test_without_a_command_people_get_the_help_and_no_error(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, *arguments) == 2
    said = capsys.readouterr()
    assert said.err.startswith("Usage: migronaut")
    assert said.out == ""


@pytest.mark.parametrize("arguments", [("--json",), ("--json", "background"), ("up", "--bogus", "--json")])
def test_a_wrong_call_is_json_for_machines(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, *arguments) == 2
    failure = json.loads(capsys.readouterr().out)
    assert (failure["error"]["code"], failure["results"]) == ("usage", [])
    assert "\n" not in failure["error"]["message"]


def walk(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    below = command.commands.items() if isinstance(command, click.Group) else ()
    return [path, *(found for name, each in below for found in walk(each, (*path, name)))]


@pytest.mark.parametrize("path", walk(cli), ids=" ".join)
def test_the_help_of_every_command_has_examples_and_fits_eighty_columns(path: tuple[str, ...]) -> None:
    shown: Result = CliRunner().invoke(cli, [*path, "--help"], prog_name="migronaut", terminal_width=80)
    assert shown.exit_code == 0
    assert f"  {' '.join(('migronaut', *path[:1]))}" in shown.output
    assert "Examples:" in shown.output or path == ()
    assert max(map(len, shown.output.splitlines())) <= 80
    assert "..." not in shown.output.partition("Options:")[2].partition("Examples:")[0], "a short help is cut off"


@pytest.mark.parametrize(
    ("flags", "directory", "written"),
    [
        ((), "migrations", "migrations"),
        (("--config", "conf/shop.toml"), "conf/migrations", "migrations"),
        (("--config", "conf/shop.toml", "--dir", "db/steps"), "db/steps", "../db/steps"),
        (("--dir", 'od"d'), 'od"d', 'od"d'),
    ],
)
def test_init_makes_the_directory_that_its_own_settings_lead_to(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
    directory: str,
    written: str,
) -> None:
    assert call(monkeypatch, *flags, "init") == 0
    settings = here / (flags[1] if "--config" in flags else "migronaut.toml")
    assert tomllib.loads(settings.read_text())["migrations_dir"] == written
    again = ("--config", str(settings.relative_to(here)))
    capsys.readouterr()
    assert call(monkeypatch, *again, "--json", "create", "first") == 0
    created = Path(json.loads(capsys.readouterr().out)["path"])
    assert created.parent.resolve() == (here / directory).resolve()


def test_init_never_overwrites(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "migronaut.toml").write_text("# mine")
    assert call(monkeypatch, "init") == 16
    assert [path.name for path in here.iterdir()] == ["migronaut.toml"]
    assert (here / "migronaut.toml").read_text() == "# mine"


def test_init_where_a_file_is_in_the_way_says_so(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "migrations").write_text("")
    assert call(monkeypatch, "init") == 2
    assert "migrations cannot be made" in capsys.readouterr().err
    assert not (here / "migronaut.toml").exists()


def test_an_error_nobody_expected_is_one_sentence_without_secrets(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "migronaut_config.py").write_text('raise SystemError("mongodb://bob:hunter2@db is odd")\n')
    code = call(monkeypatch, "up")
    said = capsys.readouterr()
    assert code == 6
    assert len(said.err.splitlines()) == 1
    assert "hunter2" not in said.err
    assert call(monkeypatch, "up", "--verbose") == 6
    verbose = capsys.readouterr().err
    assert "Traceback" in verbose
    assert "hunter2" not in verbose


@pytest.mark.parametrize("queue", ["rq", "dramatiq"])
@pytest.mark.parametrize("command", [("worker",), ("background", "enqueue"), ("background", "heal")])
def test_a_missing_library_is_told_before_anything_else(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
    queue: str,
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == f"migronaut_{queue}"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, queue, None)
    assert call(monkeypatch, *command, "--queue", queue) == 6
    assert f'pip install "migronaut[{queue}]"' in capsys.readouterr().err


def test_threads_of_a_worker_of_rq_are_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "worker", "--queue", "rq", "--threads", "3") == 2
    assert capsys.readouterr().err == "error: Workers of RQ have no threads; for 3 lanes use --processes 3.\n"


@pytest.mark.parametrize("command", ["status", "run", "pause", "retry", "heal"])
def test_a_command_of_a_group_is_pointed_to(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, command) == 2
    assert capsys.readouterr().err.endswith(f"Did you mean `migronaut background {command}`?\n")
    assert call(monkeypatch, "nonsense") == 2
    assert "background" not in capsys.readouterr().err


@pytest.mark.parametrize("here_are", [(), ("dramatiq",), ("rq", "dramatiq")])
def test_only_queues_whose_library_is_here_count_as_installed(
    here_are: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("migronaut.cli.worker.find_spec", lambda name: name if name in here_are else None)
    assert installed() == here_are


def test_a_missing_option_with_choices_is_told_on_one_line(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "background", "enqueue") == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert "--queue" in said
    assert "\t" not in said
