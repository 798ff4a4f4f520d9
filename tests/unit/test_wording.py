"""Words that are counted, ends of sentences, and names that were nearly right."""

from __future__ import annotations

import pytest

from migronaut.core.state import Spec
from migronaut.core.wording import did_you_mean, plural, sentence, times
from migronaut.engine.indexes import create_index

NAMES = ("20261004120000_orders_shipping.py", "20261005120000_orders_billing.py", "0003_users.py")


@pytest.mark.parametrize(("count", "text"), [(0, "0 lanes"), (1, "1 lane"), (2, "2 lanes"), (12345, "12 345 lanes")])
def test_only_one_is_singular(count: int, text: str) -> None:
    assert plural(count, "lane") == text


@pytest.mark.parametrize(("text", "whole"), [("it is", "it is."), ("is it?", "is it?"), ("it is.", "it is.")])
def test_a_sentence_has_one_mark_at_its_end(text: str, whole: str) -> None:
    assert sentence(text) == whole


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("orders_shiping", f" Did you mean {NAMES[0]!r}"),
        ("ordrs", f" Did you mean {NAMES[0]!r} or {NAMES[1]!r}"),
        ("shiping", f" Did you mean {NAMES[0]!r}"),
        ("Users.py", f" Did you mean {NAMES[2]!r}"),
        ("20261004_orders_shippin", f" Did you mean {NAMES[0]!r}"),
        ("orders_illing", f" Did you mean {NAMES[1]!r}"),
    ],
)
def test_a_name_that_is_nearly_right_leads_to_the_right_one(given: str, told: str) -> None:
    assert did_you_mean(given, NAMES).startswith(told)
    assert did_you_mean(given, NAMES).endswith("?")


@pytest.mark.parametrize("given", ["nothing", ""])
def test_a_name_like_no_other_leads_nowhere(given: str) -> None:
    assert did_you_mean(given, NAMES) == ""


@pytest.mark.parametrize(
    ("collection", "field", "command"),
    [
        ("orders", "schema_version", "db.orders.createIndex({schema_version: 1, _id: 1})"),
        ("a.b-c", "meta.v", 'db.getCollection("a.b-c").createIndex({"meta.v": 1, _id: 1})'),
    ],
)
def test_the_command_for_the_index_can_be_pasted_into_mongosh(collection: str, field: str, command: str) -> None:
    assert create_index(Spec(collection=collection, version_field=field)) == command


def test_one_time_is_once() -> None:
    assert [times(count) for count in (1, 2, 12_345)] == ["once", "2 times", "12 345 times"]
