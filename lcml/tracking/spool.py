"""The spool: the journal of a run, every event in a file before it is sent, deleted when all has been.

One run is KEY.jsonl and, beside it, the directory KEY with the artifacts' content. Each line is a JSON object, handed
to the system by one write, whose `type` says what it is; times are milliseconds since 1970; NaN and the infinities are
the strings "nan", "inf" and "-inf":

    {"type": "run", "format": 2, "uri": ..., "key": ..., "name": ..., "experiment": ..., "artifact_location": ...,
     "params": {...}, "tags": {...}, "dataset": {...}, "time": ..., "run_id": null where the run is new}
    {"type": "metrics", "time": ..., "step": ..., "values": {name: number}}
    {"type": "artifact", "name": "plots/curve.png", "file": "0/curve.png",
     "loader": null but for models}
    {"type": "finish", "time": ..., "status": "FINISHED"}

The first line is the run. A last line without its newline was cut off when its writer died, and is ignored. The writer
holds a lock on the file.
"""

import contextlib
import errno
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, get_args

from lcml.errors import FormatError, OutputError, TrackingError
from lcml.files import try_lock
from lcml.learning.fields import typed
from lcml.tracking.records import Artifact, DatasetRecord, Event, Finish, Metrics, RunStart, Status, check_artifact_name

FORMAT = 2
_OF_DAMAGE = ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError


class SpoolWriter:
    """Appends events to the spool of one run. OSError where the disk does not take them."""

    def __init__(self, directory: Path, start: RunStart, uri: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / f"{start.key}.jsonl"
        self._file = self.path.open("ab", buffering=0)
        if not try_lock(self._file) or self._file.tell():
            self._file.close()
            raise OutputError(f"{self.path} is the spool of another run; remove it or choose another directory")
        self._files: list[Path] = []
        self._line({"type": "run", "format": FORMAT, "uri": uri, **asdict(start)})

    def write(self, event: Metrics | Artifact | Finish) -> Event:
        """Append one event; the event as it is kept: an artifact's content lies beside the spool."""
        match event:
            case Metrics(time, step, values):
                numbers = {name: value if math.isfinite(value) else str(value) for name, value in values.items()}
                self._line({"type": "metrics", "time": time, "step": step, "values": numbers})
            case Artifact(name, bytes(content), loader):
                file = self.path.with_suffix("") / str(len(self._files)) / PurePosixPath(name).name
                self._files.append(file)
                file.parent.mkdir(parents=True)
                file.write_bytes(content)
                place = f"{file.parent.name}/{file.name}"
                self._line({"type": "artifact", "name": name, "file": place, "loader": loader})
                return Artifact(name, file, loader)
            case Finish(time, status):
                self._line({"type": "finish", "time": time, "status": status})
        return event

    def close(self) -> None:
        """Free the file's lock."""
        self._file.close()

    def remove(self) -> None:
        """Delete the file and the artifacts beside it."""
        _remove(self.path, self._files)

    def _line(self, fields: Mapping[str, object]) -> None:
        line, end = json.dumps(fields, allow_nan=False).encode() + b"\n", self._file.tell()
        written = self._file.write(line)
        if written != len(line):  # a full disk takes a part: half a line would spoil the next one
            self._file.truncate(end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@dataclass(frozen=True)
class Spool:
    """A spool as read: the run's opening, what followed it, and the address it was meant for."""

    path: Path
    uri: str
    start: RunStart
    events: tuple[Metrics | Artifact | Finish, ...]

    @staticmethod
    def read(path: Path) -> "Spool":
        """Read `path`. FormatError names the line that is no part of a spool."""
        lines = path.read_bytes().split(b"\n")[:-1]
        uri, start, events = "", None, []
        for number, line in enumerate(lines, start=1):
            try:
                fields = json.loads(line)
                event = _event(fields, path.with_suffix(""))
            except (*_OF_DAMAGE, TrackingError) as error:
                raise FormatError(f"expected a line of an lcml spool; {error!r}", path, number) from error
            if isinstance(event, RunStart) != (number == 1):
                raise FormatError("expected the line of type 'run' to be the first and only one", path, number)
            if isinstance(event, RunStart):
                uri, start = fields["uri"], event
            else:
                events.append(event)
        if start is None:
            raise FormatError("expected a spool of lcml, found no whole line", path, 1)
        return Spool(path, uri, start, tuple(events))

    def remove(self) -> None:
        """Delete the file and the artifacts that it lists, and nothing else."""
        _remove(self.path, [event.content for event in self.events if isinstance(event, Artifact)])


def _remove(path: Path, files: Sequence[bytes | Path]) -> None:
    for file in files:
        if isinstance(file, Path):
            file.unlink(missing_ok=True)
            _remove_empty(file.parent)
    _remove_empty(path.with_suffix(""))
    path.unlink(missing_ok=True)


def _remove_empty(directory: Path) -> None:
    with contextlib.suppress(OSError):  # there was none, or something else lies in it
        directory.rmdir()


def _event(fields: dict[str, Any], files: Path) -> Event:
    match fields["type"]:
        case "run":
            if fields["format"] != FORMAT:
                raise ValueError(f"expected format {FORMAT}, found {fields['format']!r}: written by another lcml")
            if not isinstance(fields["uri"], str):
                raise TypeError(f"uri: found {fields['uri']!r}")
            rest = {key: value for key, value in fields.items() if key not in ("type", "format", "uri", "dataset")}
            return typed(RunStart(dataset=typed(DatasetRecord(**fields["dataset"])), **rest))
        case "metrics":
            values = {name: float(value) for name, value in fields["values"].items()}
            return Metrics(int(fields["time"]), int(fields["step"]), values)
        case "artifact":
            file = check_artifact_name(fields["file"])
            return typed(Artifact(check_artifact_name(fields["name"]), files / file, fields.get("loader")))
        case "finish" if fields["status"] in get_args(Status):
            return Finish(int(fields["time"]), fields["status"])
    raise ValueError(f"unknown type or status in {fields!r}")
