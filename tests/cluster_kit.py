"""Three servers as one replica set, and what happens to it: elections, members that are late, frozen or dead."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import define, field
from pymongo import MongoClient, WriteConcern
from pymongo.errors import PyMongoError
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from migronaut.embedded import EmbeddedMongo
from migronaut.embedded.mongo import REPLICA_SET
from waiting import PATIENCE, wait_until

_ANSWER_MS = 2000
_STEP_DOWN = {"replSetStepDown": 5, "secondaryCatchUpPeriodSecs": 4}
_PRODUCER = "stopReplProducer"
# Elections in about two seconds; what is decided quickly is known quickly.
_SETTINGS = {"electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500, "heartbeatTimeoutSecs": 2}

Client = MongoClient[dict[str, Any]]


class Member(EmbeddedMongo):
    """One of several servers; which of them is the primary is for them to settle."""

    def __init__(self) -> None:
        super().__init__(test_commands=True)
        self._own: Client | None = None

    @property
    def host(self) -> str:
        """As the others know it."""
        return f"127.0.0.1:{self.port}"

    @property
    def direct(self) -> Client:
        """A client of this member alone, whatever it is now."""
        if self._own is None:
            self._own = MongoClient(
                self.host, directConnection=True, serverSelectionTimeoutMS=_ANSWER_MS, socketTimeoutMS=5 * _ANSWER_MS
            )
        return self._own

    def hello(self) -> dict[str, Any]:
        """How it sees itself."""
        return self.direct.admin.command("hello")

    def fail(self, point: str, mode: Any, **data: Any) -> int:
        """Set a failpoint; how often it was reached before."""
        return int(self.direct.admin.command("configureFailPoint", point, mode=mode, data=data)["count"])

    def stop(self) -> None:
        """End it at once: its files are not needed any more."""
        if self._own is not None:
            self._own.close()
            self._own = None
        self.kill()
        super().stop()

    def _command(self, port: int, directory: Path) -> Sequence[str]:
        # Whoever comes back goes on from the last checkpoint of its storage, so that there is one every few seconds.
        return [*super()._command(port, directory), "--syncdelay", "3"]

    def _settle(self, deadline: float) -> None:
        """Ready with its first answer: alone it is nothing."""

    def told(self) -> str:
        """How it sees the set, for a test that failed."""
        if not self.running:
            return f"{self.host}: dead"
        try:
            seen = self.direct.admin.command("replSetGetStatus")["members"]
        except PyMongoError as error:
            return f"{self.host}: {error}"
        return f"{self.host}: " + ", ".join(f"{one['name']} {one['stateStr']} {one.get('optimeDate')}" for one in seen)


@define
class Cluster:
    """Three members. Whatever is done to them, ``heal`` makes a healthy set of them again."""

    members: tuple[Member, ...] = field(init=False, factory=lambda: tuple(Member() for _ in range(3)))
    _late: set[Member] = field(init=False, factory=set)
    _frozen: set[Member] = field(init=False, factory=set)

    @property
    def uri(self) -> str:
        """For clients of the whole set."""
        return f"mongodb://{','.join(member.host for member in self.members)}/?replicaSet={REPLICA_SET}"

    def start(self) -> None:
        """Start the members and let them elect."""
        for member in self.members:
            member.start()
        hosts = [{"_id": number, "host": member.host} for number, member in enumerate(self.members)]
        config = {"_id": REPLICA_SET, "members": hosts, "settings": _SETTINGS}
        self.members[0].direct.admin.command("replSetInitiate", config)
        self.heal()

    def stop(self) -> None:
        """End all of it."""
        for member in self.members:
            member.stop()

    def told(self) -> str:
        """How each sees the others."""
        return "\n".join(["", *(member.told() for member in self.members)])

    # ------------------------------------------------------------------ who is who

    def primary(self) -> Member:
        """The one that takes writes, once there is one."""
        found: Member = wait_until(self._elected, what=self.told)
        return found

    def secondaries(self) -> list[Member]:
        """The others."""
        primary = self.primary()
        return [member for member in self.members if member is not primary]

    def _elected(self) -> Member | None:
        terms = {}
        for member in self._awake():
            with suppress(PyMongoError):
                told = member.hello()
                if told["isWritablePrimary"]:
                    terms[told["electionId"]] = member
        return terms[max(terms)] if terms else None  # an old one may not know yet that it is none any more

    def _awake(self) -> list[Member]:
        return [member for member in self.members if member.running and member not in self._frozen]

    # ------------------------------------------------------------------ elections

    def step_down(self) -> Member:
        """The primary hands over to another, which is returned."""
        before = self.primary()
        wait_until(lambda: self._stepped_down(before), what=self.told)
        return self.primary()

    def _stepped_down(self, member: Member) -> bool:
        """It refuses when no other is near enough to take over; then later."""
        if not member.hello()["isWritablePrimary"]:
            return True
        member.direct.admin.command(_STEP_DOWN)
        return True

    def kill(self, member: Member) -> None:
        """``kill -9``."""
        member.kill()

    def kill_primary(self) -> Member:
        """The dead one, for ``restart``."""
        primary = self.primary()
        self.kill(primary)
        return primary

    def restart(self, member: Member) -> None:
        """Bring a dead one back until it has what the others have; what no majority had is undone in it."""
        member.restart()
        self.heal()

    # ------------------------------------------------------------------ late and frozen members

    def stop_replication(self, *members: Member) -> None:
        """Members that are alive, vote, and receive nothing new from here on."""
        before = {member: member.fail(_PRODUCER, "alwaysOn") for member in members}
        self._late |= set(members)
        for member, count in before.items():
            asked = {"waitForFailPoint": _PRODUCER, "timesEntered": count + 1, "maxTimeMS": int(PATIENCE * 1000)}
            wait_until(lambda member=member, asked=asked: member.direct.admin.command(asked), what=self.told)

    def resume_replication(self) -> None:
        """The late ones catch up."""
        for member in list(self._late):
            wait_until(lambda member=member: [member.fail(_PRODUCER, "off")], what=self.told)
            self._late.remove(member)

    def freeze(self, member: Member) -> None:
        """It stands still, its connections stay open."""
        os.kill(member.pid, signal.SIGSTOP)
        self._frozen.add(member)

    def thaw(self, member: Member) -> None:
        """It goes on where it was, and believes to be what it was."""
        os.kill(member.pid, signal.SIGCONT)
        self._frozen.remove(member)

    def lose_what_only_the_primary_has(self) -> Member:
        """Kill a primary from which nobody reads any more; the others elect without it. The dead one."""
        dead = self.kill_primary()
        self.resume_replication()
        self.primary()
        return dead

    def heal(self) -> None:
        """Everybody is there, and has everything."""
        for member in list(self._frozen):
            self.thaw(member)
        self.resume_replication()
        for member in self.members:
            if not member.running:
                member.restart()
        wait_until(lambda: all(_takes_part(member) for member in self.members), what=self.told)
        everywhere = WriteConcern(len(self.members), wtimeout=_ANSWER_MS)
        with MongoClient[dict[str, Any]](self.uri) as client:
            probes = client.get_database("cluster_kit", write_concern=everywhere).probes
            wait_until(lambda: probes.insert_one({}).acknowledged, what=self.told)


def _takes_part(member: Member) -> bool:
    told = member.hello()
    return bool(told["isWritablePrimary"] or told["secondary"])


@contextmanager
def cluster_of_three() -> Iterator[Cluster]:
    """A set that is there for the time of a block."""
    made = Cluster()
    try:
        made.start()
        yield made
    finally:
        made.stop()


class Waiting(CommandListener):
    """Knows what a client's commands wait for: those that have no answer yet."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}

    def started(self, event: CommandStartedEvent) -> None:
        """It is on its way."""
        self._since[event.request_id] = time.monotonic()

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """It is answered."""
        self._since.pop(event.request_id, None)

    def failed(self, event: CommandFailedEvent) -> None:
        """It is answered, too."""
        self._since.pop(event.request_id, None)

    def for_long(self, seconds: float = 1.0) -> bool:
        """Whether a command has been waiting for so long that it waits for other members."""
        return any(time.monotonic() - since >= seconds for since in list(self._since.values()))
