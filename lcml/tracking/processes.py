"""Which process records a run, as the run's tags say it, and whether that process still lives."""

import contextlib
import getpass
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

PID_TAG = "lcml.pid"
HOST_TAG = "lcml.host"
BIRTH_TAG = "lcml.birth"  # when the process began: another one of its number began at another time
HEARTBEAT_TAG = "lcml.heartbeat"  # when it was last heard of, in milliseconds since 1970

HEARTBEAT_SECONDS = 60.0
SILENT_SECONDS = 15 * 60.0
"""A run that has not been heard of for so long is taken for dead, wherever it was."""

_STAT_BIRTH = 19  # of the fields behind the name in /proc/PID/stat: field 22, in ticks since the machine began


def process_tags() -> dict[str, str]:
    """The tags that say which process, where, by whom."""
    import lcml

    pid = os.getpid()
    tags = {
        "lcml.version": lcml.__version__,
        PID_TAG: str(pid),
        HOST_TAG: socket.gethostname(),
        BIRTH_TAG: birth(pid),
        "mlflow.source.name": "lcml",
        "mlflow.source.type": "LOCAL",
    }
    with contextlib.suppress(KeyError, OSError, ImportError):  # a user without a name
        tags["mlflow.user"] = getpass.getuser()
    return tags


def birth(pid: int) -> str:
    """When a process began, on a scale of the machine's; empty where the system does not say."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[_STAT_BIRTH]
    except (OSError, IndexError):
        return ""


def lives(tags: Mapping[str, str]) -> bool | None:
    """Whether the process of a run lives; None where that cannot be told from this host."""
    pid = tags.get(PID_TAG, "")
    if tags.get(HOST_TAG) != socket.gethostname() or not pid.isdecimal():
        return None
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return None
    born = tags.get(BIRTH_TAG)
    return born == birth(int(pid)) if born else None


def is_silent(tags: Mapping[str, str], *, unless_known: bool) -> bool:
    """Whether nothing was heard of a run for SILENT_SECONDS; `unless_known` for one that says nothing of the kind."""
    heard = tags.get(HEARTBEAT_TAG, "")
    return time.time() - int(heard) / 1000 > SILENT_SECONDS if heard.isdecimal() else unless_known
