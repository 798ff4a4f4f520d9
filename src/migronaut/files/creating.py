"""Creating a new migration file from a template that teaches."""

from __future__ import annotations

import os
import re
import secrets
import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path

from migronaut.errors import InvalidNameError, MigrationExistsError, MigrationNotFoundError, UsageError
from migronaut.files.templates import BACKGROUND, ORDINARY

_MAX_SLUG_BYTES = 150
_STAMP = "%Y%m%d%H%M%S"
_STAMPED = re.compile(r"(\d{14})_.*\.py", re.DOTALL)


def create(directory: Path, name: str, *, background: bool = False, now: datetime, template: str | None = None) -> Path:
    """Write a new migration file ``YYYYmmddHHMMSS_<name>.py`` and return its path.

    Its time is later than that of every file there is, so that it comes last.

    Args:
        directory: The migrations directory; it must exist.
        name: What the migration does, in any characters; it becomes letters, digits and ``_``.
        background: Write a background migration instead of ``up`` and ``down``.
        now: The time for the file name; an aware one is turned into UTC.
        template: Text to use instead of ours; ``{title}`` in it stands for the description.

    Raises:
        InvalidNameError: Nothing is left of the name, or nothing can come after the newest file.
        MigrationNotFoundError: The directory does not exist.
        MigrationExistsError: The file is there already; it is left alone.
        UsageError: The directory cannot be written.
    """
    if not directory.is_dir():
        raise MigrationNotFoundError(
            f"There is no migrations directory {str(directory)!r}; create it with `migronaut init`.",
            directory=str(directory),
        )
    slug = _slug(name)
    moment = now.astimezone(UTC) if now.tzinfo else now
    path = directory / f"{_later(directory, f'{moment:{_STAMP}}')}_{slug}.py"
    text = template if template is not None else BACKGROUND if background else ORDINARY
    title = slug.replace("_", " ")
    _write_new(path, text.replace("{title}", title[0].upper() + title[1:]))
    return path


def _later(directory: Path, stamp: str) -> str:
    """The stamp, or the second after the newest one in the directory: two files of a second would have no order."""
    stamps = [found[1] for path in directory.iterdir() if (found := _STAMPED.fullmatch(path.name))]
    newest = max(stamps, default="")
    if newest < stamp:
        return stamp
    try:
        return f"{datetime.strptime(newest, _STAMP).replace(tzinfo=UTC) + timedelta(seconds=1):{_STAMP}}"
    except (ValueError, OverflowError):
        raise InvalidNameError(
            f"The newest file begins with {newest}, which is no time that another one can follow; rename that file."
        ) from None


def _slug(name: str) -> str:
    words = re.sub(r"[\W_]+", "_", unicodedata.normalize("NFKC", name.removesuffix(".py")).lower())
    slug = words.encode("utf-8", "ignore")[:_MAX_SLUG_BYTES].decode("utf-8", "ignore").strip("_")
    if not slug:
        raise InvalidNameError("A migration needs a name with a letter or a digit in it, such as add_email_index.")
    return slug


def _write_new(path: Path, text: str) -> None:
    """Write aside first, so that a crash leaves no half file and an existing one is never replaced."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        aside.write_text(text, encoding="utf-8", newline="\n")
        _publish(aside, path)
    except FileExistsError:
        raise MigrationExistsError(
            f"{path.name} exists already; give the migration another name.", name=path.name
        ) from None
    except OSError as error:
        raise UsageError(
            f"{path.name} cannot be written in {str(path.parent)!r} ({error.strerror}); check the permissions."
        ) from error
    finally:
        aside.unlink(missing_ok=True)


def _publish(aside: Path, path: Path) -> None:
    try:
        os.link(aside, path)
    except FileExistsError:
        raise
    except OSError:
        # Not every file system has hard links; there the check and the rename are two steps.
        if path.exists():
            raise FileExistsError from None
        aside.rename(path)
