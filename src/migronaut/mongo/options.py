"""The options of a connection string, checked one by one: the driver itself only warns, and goes on without them."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Mapping

from pymongo.common import URI_OPTIONS_VALIDATOR_MAP
from pymongo.errors import PyMongoError
from pymongo.uri_parser import split_options, validate_options

from migronaut.errors import ConfigInvalidError

_KNOWN = {name.lower() for name in URI_OPTIONS_VALIDATOR_MAP}


def require_options(uri: str) -> None:
    """Refuse a URI of which the driver would leave something out.

    Raises:
        ConfigInvalidError: An option does not exist, or its value cannot be used. Neither is quoted: both can hold a
            piece of a password.
    """
    for name, value in _options(uri).items():
        try:
            with warnings.catch_warnings(action="ignore"):  # of compressors that are not installed
                validate_options({name: value}, warn=False)
        except OSError as error:
            raise _refused(f"the file of its option {name.lower()} cannot be read ({error.strerror})") from None
        except (PyMongoError, TypeError, ValueError):
            known = name.lower() in _KNOWN
            raise _refused(f"its option {name.lower()} cannot have this value" if known else _unknown(name)) from None


def _options(uri: str) -> Mapping[str, str]:
    """As they are written; what cannot be taken apart at all, the driver refuses by itself."""
    _, _, query = uri.partition("?")
    try:
        with warnings.catch_warnings(action="ignore"):
            return split_options(query, validate=False, normalize=False) if query else {}
    except (PyMongoError, TypeError, ValueError):
        return {}


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name.lower(), sorted(_KNOWN), n=1)
    return "one of its options does not exist" + (f" (did you mean {close[0]}?)" if close else "")


def _refused(why: str) -> ConfigInvalidError:
    return ConfigInvalidError(f"The MongoDB URI cannot be used: {why}; correct it.", setting="uri")
