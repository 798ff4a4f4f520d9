"""``Locks`` in memory."""

from __future__ import annotations

from attrs import evolve

from migronaut.core.ports import Owner
from migronaut.memory.database import HeldLock, MemoryServer


class MemoryLocks:
    """The named locks of a ``MemoryServer``."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    def acquire(self, name: str, *, owner: Owner, ttl: float) -> str | None:
        """The nonce of a lock that is now ours, or None when somebody holds it."""
        self._server.reach("locks.acquire")
        with self._server.lock:
            held = self._server.locks.get(name)
            if held is not None and held.expires_at > self._server.now():
                return None
            lock = HeldLock(nonce=self._server.token(), ttl=ttl, expires_at=self._server.after(ttl))
            self._server.locks[name] = lock
            return lock.nonce

    def renew(self, name: str, nonce: str) -> bool:
        """Extend by the lock's time to live; a late renewal counts while nobody has taken the lock."""
        self._server.reach("locks.renew")
        with self._server.lock:
            held = self._server.locks.get(name)
            if held is None or held.nonce != nonce:
                return False
            self._server.locks[name] = evolve(held, expires_at=self._server.after(held.ttl))
            return True

    def release(self, name: str, nonce: str) -> bool:
        """Give back; False when the lock was no longer ours."""
        self._server.reach("locks.release")
        with self._server.lock:
            held = self._server.locks.get(name)
            if held is None or held.nonce != nonce:
                return False
            del self._server.locks[name]
            return True
