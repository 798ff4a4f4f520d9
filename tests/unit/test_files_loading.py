from __future__ import annotations

import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from migronaut.errors import InvalidMigrationError
from migronaut.files import Migration, MigrationsDir

NAME = "0002_b.py"
BACKGROUND = """
from migronaut.spec import Background
background = Background(collection="c", from_version=0, to_version=1, migrate=lambda doc: doc{more})
"""


@pytest.fixture
def directory(tmp_path: Path) -> MigrationsDir:
    (tmp_path / "0001_a.py").write_text("def up(ctx): pass\n")
    (tmp_path / "0003_c.py").write_text("def up(ctx): pass\n")
    return MigrationsDir(tmp_path)


def load(directory: MigrationsDir, text: str | bytes) -> Migration:
    (directory.path / NAME).write_bytes(text if isinstance(text, bytes) else text.encode())
    return directory.load(NAME)


def refused(directory: MigrationsDir, text: str | bytes) -> InvalidMigrationError:
    with pytest.raises(InvalidMigrationError) as caught:
        load(directory, text)
    assert caught.value.message.startswith(NAME)
    assert caught.value.context["name"] == NAME
    assert caught.value.exit_code == 20
    return caught.value


def test_an_ordinary_file(directory: MigrationsDir) -> None:
    migration = load(
        directory,
        '"""\n\n  Add an index. \n\nMore.\n"""\nimport datetime\nuse_transaction = True\n'
        "timeout = datetime.timedelta(seconds=30)\nrequires = ['0001_a.py', '0001_a.py']\n"
        "def up(ctx): return ctx + 1\ndef down(ctx): return ctx - 1\n",
    )
    assert migration.up is not None
    assert migration.down is not None
    assert (migration.up(1), migration.down(1)) == (2, 0)
    assert migration == Migration(
        name=NAME,
        checksum=directory.checksum(NAME),
        description="Add an index.",
        up=migration.up,
        down=migration.down,
        requires=("0001_a.py",),
        use_transaction=True,
        timeout=30.0,
    )


def test_a_plain_file_has_no_extras(directory: MigrationsDir) -> None:
    migration = load(directory, "def up(ctx): pass\ndown = None\nbackground = None\n")
    assert migration.up is not None
    assert (migration.down, migration.background, migration.description) == (None, None, "")
    assert (migration.requires, migration.use_transaction, migration.timeout) == ((), False, None)


def test_a_background_file(directory: MigrationsDir) -> None:
    migration = load(directory, '"""First line."""\n' + BACKGROUND.format(more=""))
    assert migration.background is not None
    assert migration.background.spec.collection == "c"
    assert (migration.up, migration.description) == (None, "First line.")


def test_the_description_of_the_background_wins_over_the_docstring(directory: MigrationsDir) -> None:
    assert load(directory, '"""No."""\n' + BACKGROUND.format(more=", description='Yes.'")).description == "Yes."


UP = "def up(ctx): pass\n"
PROBLEMS: list[tuple[str, list[str]]] = [
    ("", ["up"]),
    ("def down(ctx): pass", ["up"]),
    (UP + BACKGROUND.format(more=""), ["background"]),
    ("def down(ctx): pass" + BACKGROUND.format(more=""), ["background"]),
    ("background = {}", ["background"]),
    ("up = 1", ["up"]),
    ("async def up(ctx): pass", ["up"]),
    ("def up(): pass", ["up"]),
    ("def up(ctx, db): pass", ["up"]),
    ("def up(ctx): yield", ["up"]),
    (UP + "async def down(ctx): pass", ["down"]),
    (UP + "use_transaction = 1", ["use_transaction"]),
    *((UP + f"timeout = {value}", ["timeout"]) for value in ("0", "-1", "True", "'30'", "float('nan')", "1e9")),
    (BACKGROUND.format(more="") + "use_transaction = True\ntimeout = 5", ["use_transaction", "timeout"]),
    (UP + "requires = '0001_a.py'", ["requires"]),
    (UP + "requires = [1]", ["requires"]),
    (UP + "requires = None", ["requires"]),
    (UP + "requires = ['0002_b.py']", ["requires"]),
    (UP + "requires = ['0003_c.py']", ["requires"]),
    (UP + "requires = ['0000_missing.py', '../0001_a.py']", ["requires", "requires"]),
    ("async def up(ctx): pass\nrequires = 5\ntimeout = 0", ["up", "requires", "timeout"]),
]


@pytest.mark.parametrize(("text", "settings"), PROBLEMS)
def test_what_cannot_be_used_is_told_all_at_once(directory: MigrationsDir, text: str, settings: list[str]) -> None:
    error = refused(directory, text)
    assert [problem["setting"] for problem in error.context["problems"]] == settings
    assert all(problem["problem"] in error.message for problem in error.context["problems"])


def test_problems_of_a_background_are_kept_with_file_and_line(directory: MigrationsDir) -> None:
    error = refused(directory, BACKGROUND.format(more=", batch_size=0"))
    assert error.message.startswith(f"{NAME}, line 3: ")
    assert [problem["setting"] for problem in error.context["problems"]] == ["batch_size"]


@pytest.mark.parametrize(
    ("text", "line"),
    [("x = 1\ndef up(ctx:\n", 2), ("x = 1\n\n  y = 2\n", 3), ("x = '\0'\n", None), (b"x = '\xff'\n", None)],
)
def test_source_that_does_not_compile_is_one_sentence(
    directory: MigrationsDir, text: str | bytes, line: int | None
) -> None:
    error = refused(directory, text)
    if line:
        assert error.message.startswith(f"{NAME}, line {line}: ")
        assert error.context["line"] == line
    assert "\n" not in error.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\nraise ValueError('secret')\n", f"{NAME}, line 2: ValueError was raised"),
        ("def inner():\n    raise KeyError('secret')\ninner()\n", f"{NAME}, line 2: KeyError was raised"),
        ("import sys\n\nsys.exit('secret')\n", f"{NAME}, line 3: SystemExit was raised"),
        ("raise KeyboardInterrupt('secret')\n", f"{NAME}, line 1: KeyboardInterrupt was raised"),
        ("import json\njson.loads('secret')\n", f"{NAME}, line 2: JSONDecodeError was raised"),
        (
            "import no_such_module\n",
            "(No module named 'no_such_module'); it is neither installed here nor",
        ),
        ("prnt()\n", "name 'prnt' is not defined"),
    ],
)
def test_what_a_file_raises_is_named_by_type_and_line(directory: MigrationsDir, text: str, words: str) -> None:
    error = refused(directory, text)
    assert words in error.message
    assert "secret" not in error.message + repr(error.context)


def test_an_interrupt_while_loading_stays_one_and_leaves_nothing_behind(directory: MigrationsDir) -> None:
    before = set(sys.modules)
    with pytest.raises(KeyboardInterrupt):
        load(directory, "import signal\nsignal.raise_signal(signal.SIGINT)\n")
    refused(directory, "raise ValueError\n")
    assert set(sys.modules) == before


def test_an_edit_is_seen_at_once_also_within_the_same_second_and_size(directory: MigrationsDir) -> None:
    first = load(directory, "def up(ctx): return 1\n")
    second = load(directory, "def up(ctx): return 2\n")
    assert first.up is not None
    assert second.up is not None
    assert (first.up(None), second.up(None)) == (1, 2)
    assert first.checksum != second.checksum


def test_the_checksum_is_that_of_the_text_that_was_executed(directory: MigrationsDir) -> None:
    edits_itself = "import pathlib\npathlib.Path(__file__).write_text('x = 1')\ndef up(ctx): pass\n"
    migration = load(directory, edits_itself)
    assert migration.checksum != directory.checksum(NAME)


def test_loading_leaves_no_bytecode_and_no_search_path(directory: MigrationsDir) -> None:
    path = list(sys.path)
    load(directory, "def up(ctx): pass\n")
    assert sorted(each.name for each in directory.path.iterdir()) == ["0001_a.py", NAME, "0003_c.py"]
    assert sys.path == path
    assert "0002_b" not in sys.modules


def test_dataclasses_pickle_and_late_annotations_work_inside_a_file(directory: MigrationsDir) -> None:
    migration = load(
        directory,
        "from __future__ import annotations\nimport typing\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Price:\n    amount: typing.ClassVar[int] = 1\n    currency: str = 'EUR'\n"
        "def up(ctx): return Price(), typing.get_type_hints(Price)\n",
    )
    assert migration.up is not None
    made: Any = migration.up(None)
    price, hints = made
    assert pickle.loads(pickle.dumps(price)) == price
    assert hints["currency"] is str


def test_two_files_of_one_name_in_two_directories_stay_apart(directory: MigrationsDir, tmp_path: Path) -> None:
    other = MigrationsDir(tmp_path / "other")
    other.path.mkdir()
    first, second = (
        load(each, f"class Thing: value = {value}\ndef up(ctx): return Thing()\n")
        for value, each in enumerate((directory, other))
    )
    assert first.up is not None
    assert second.up is not None
    assert pickle.loads(pickle.dumps(first.up(None))).value == 0
    assert pickle.loads(pickle.dumps(second.up(None))).value == 1


def test_a_bom_crlf_and_another_encoding_load(directory: MigrationsDir) -> None:
    assert load(directory, b'\xef\xbb\xbf"""Title."""\r\ndef up(ctx): pass\r\n').description == "Title."
    assert load(directory, b'# coding: latin-1\n"""\xe4."""\ndef up(ctx): pass\n').description == "ä."


def test_threads_can_load_the_same_file_at_once(directory: MigrationsDir) -> None:
    text = "import dataclasses\n@dataclasses.dataclass\nclass A:\n    a: 'int' = 1\ndef up(ctx): return A().a\n"
    (directory.path / NAME).write_text(text)
    results: list[Any] = []
    start = threading.Barrier(8)

    def lane() -> None:
        start.wait()
        up = directory.load(NAME).up
        results.append(up and up(None))

    threads = [threading.Thread(target=lane) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [1] * 8
