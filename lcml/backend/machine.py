"""What this process may use of the machine: no more cores and memory than its control groups, its container, allow.

A group is bound by its own limits and by those of all groups above it, in version 2 (`memory.max`, `cpu.max`) as in
version 1. Inside a container the path that /proc/self/cgroup names may not be there: the container's group is then
where the hierarchy is mounted. Source: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1.
"""

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
_UNKNOWN_MEMORY = 4 << 30  # bytes taken for free where the machine does not say (it is no Linux)

_MEMORY_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Limit, usage, and the field of memory.stat for files that are given up first, in version 2 and in version 1."""


def cores(root: Path = _ROOT) -> int:
    """Cores that threads of this process can keep busy at once; a quota of one and a half counts as two."""
    present = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([present, *map(math.ceil, _quotas(root))]))


def available_memory(root: Path = _ROOT) -> int:
    """Bytes that this process can still take before the machine, or a group that it is in, runs out."""
    free = _fields(root / "proc/meminfo").get("MemAvailable:")
    return max(0, min([_UNKNOWN_MEMORY if free is None else free * 1024, *_rooms(root)]))


def peak_memory_mb() -> float:
    """The most memory this process has had in use, in MB."""
    peak = _fields(Path("/proc/self/status")).get("VmHWM:")
    if peak is not None:  # what getrusage says on Linux counts in the process that started this one
        return peak / 2**10
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 2**20 if sys.platform == "darwin" else most / 2**10


def _quotas(root: Path) -> Iterator[float]:
    """Cores that each group may keep busy."""
    for group in _groups(root, "cpu"):
        texts = _words(group / "cpu.max") or [*_words(group / "cpu.cfs_quota_us"), *_words(group / "cpu.cfs_period_us")]
        if len(texts) == 2 and texts[0] not in ("max", "-1"):
            yield int(texts[0]) / int(texts[1])


def _rooms(root: Path) -> Iterator[int]:
    """Bytes between what each group has in use, without files that it would give up first, and what it may."""
    for group in _groups(root, "memory"):
        for limit, usage, idle in _MEMORY_FILES:
            most, used = _words(group / limit), _words(group / usage)
            if most and used and most != ["max"]:
                yield int(most[0]) - int(used[0]) + _fields(group / "memory.stat").get(idle, 0)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The directories of the groups that this process is in, those above them included."""
    mounts = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        names = [name for name in path.split("/") if name not in ("", "..")]
        for depth in range(len(names) + 1):
            yield (mounts / controller if controllers else mounts).joinpath(*names[:depth])


def _fields(path: Path) -> dict[str, int]:
    """The numbers of a file whose lines are a name and a number."""
    return {words[0]: int(words[1]) for words in map(str.split, _lines(path)) if len(words) > 1 and words[1].isdigit()}


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:  # a controller that is off, a group that a container does not see, no Linux
        return []
