"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from attrs import frozen
from pymongo import MongoClient


@frozen(kw_only=True)
class Machine:
    """One machine and what runs on it."""

    cpu: str
    cores: int
    memory_gib: float
    system: str
    python: str
    pymongo: str
    mongodb: str
    migronaut: str
    beanie: str | None
    mongomig: str | None


def describe_machine(client: MongoClient[Any]) -> Machine:
    """This machine, and the server behind a client."""
    return Machine(
        cpu=_cpu(),
        cores=cores(),
        memory_gib=round(memory_bytes() / 2**30, 1),
        system=_system(),
        python=platform.python_version(),
        pymongo=version("pymongo"),
        mongodb=client.server_info()["version"],
        migronaut=version("migronaut"),
        beanie=_version("beanie"),
        mongomig=_version("mongomig"),
    )


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def memory_bytes() -> int:
    """The memory of the machine, or what a container may have of it."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _read("/sys/fs/cgroup/memory.max")
    return min(whole, int(limit)) if limit.isdigit() else whole


def peak_memory() -> int:
    """The most bytes that this process held at once.

    On Linux not by ``getrusage``: its figure starts at what the parent held when it forked.
    """
    for line in _read("/proc/self/status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _cpu() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _system() -> str:
    named = [line.partition("=")[2].strip('"') for line in _read("/etc/os-release").splitlines() if "PRETTY_" in line]
    kernel = f"{platform.system()} {platform.release()}"
    return f"{named[0]} ({kernel})" if named else kernel


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
