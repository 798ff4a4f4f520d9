"""What a type checker must accept from a user of ``migronaut.embedded``."""

from typing import assert_type

from migronaut.embedded import EmbeddedMongo, EmbeddedValkey

with EmbeddedMongo(replica_set=False, test_commands=True) as mongo:
    assert_type(mongo, EmbeddedMongo)
    assert_type(mongo.uri, str)
    assert_type(mongo.pid, int)
    mongo.kill()
    assert_type(mongo.restart(), EmbeddedMongo)

valkey = EmbeddedValkey().start()
assert_type(valkey, EmbeddedValkey)
assert_type(valkey.url, str)
assert_type(valkey.port, int)
assert_type(valkey.running, bool)
valkey.stop()
