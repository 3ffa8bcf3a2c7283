"""What is recorded of a training run: plain records, free of any tracking library."""

import json
import math
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Literal

from lcml.errors import TrackingError

Status = Literal["FINISHED", "FAILED", "KILLED"]

DEFAULT_URI = "sqlite:///mlruns/mlflow.db"
DEFAULT_EXPERIMENT = "lcml"

FINAL, MODEL = "final/", "model/"
"""What the names of the figures of the model kept begin with: what it reaches, and what it is."""

# MLflow's own limits, in characters (mlflow.utils.validation).
MAX_NAME = 250
MAX_PARAM = 6000
MAX_TAG = 8000
MAX_DIGEST = 36

_UNNAMEABLE = re.compile(r"[^\w\-./ ]")


@dataclass(frozen=True)
class DatasetRecord:
    """The data a run learned from: `digest` identifies its content, the counts are of examples after splitting."""

    name: str
    digest: str
    source: str
    n_train: int
    n_valid: int
    n_test: int
    n_variables: int
    n_classes: int
    feature_names: Sequence[str] = ()

    def profile(self) -> str:
        """The counts and the whole digest as a JSON object."""
        counts = ("n_train", "n_valid", "n_test", "n_variables", "n_classes")
        return json.dumps({**{key: getattr(self, key) for key in counts}, "fingerprint": self.digest})


@dataclass(frozen=True)
class RunSummary:
    """One run as the store knows it: the latest value of each metric; `seconds` is None while it runs."""

    run_id: str
    name: str
    experiment: str
    status: str
    started: datetime
    seconds: float | None
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]


@dataclass(frozen=True)
class RunStart:
    """The opening of a run. `key` is lcml's own name of it (tag lcml.key): known before any server answers."""

    key: str
    name: str
    experiment: str
    artifact_location: str | None
    params: Mapping[str, str]
    tags: Mapping[str, str]
    dataset: DatasetRecord
    time: int  # milliseconds since 1970, as every time here
    run_id: str | None


@dataclass(frozen=True)
class Metrics:
    """Values measured at one step."""

    time: int
    step: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class Artifact:
    """A file of the run: its content, or where the content lies. loader: the module by which MLflow loads it, for a
    model, which is then logged as such too."""

    name: str
    content: bytes | Path
    loader: str | None = None


@dataclass(frozen=True)
class Finish:
    """The end of a run."""

    time: int
    status: Status


Event = RunStart | Metrics | Artifact | Finish


def clean_name(name: str) -> str:
    """`name` made acceptable as the name of a parameter, metric or tag."""
    name = _UNNAMEABLE.sub("_", name)
    if name.startswith((".", "/")) or posixpath.normpath(name) != name:
        name = name.replace("/", "_").lstrip(".") or "_"
    return name[:MAX_NAME]


def cut(value: str, limit: int) -> str:
    """`value`, its end replaced by three dots where it is longer than `limit`."""
    return value if len(value) <= limit else value[: limit - 3] + "..."


def check_artifact_name(name: str) -> str:
    """`name`, if it is a relative path that stays inside its directory; TrackingError if not."""
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name or str(path) != name:
        raise TrackingError(f"artifact name {name!r}: expected a plain relative path such as 'plots/curve.png'")
    return name


def finite_or_inf(value: float) -> float:
    """`value` with the largest float read as infinity, which is how MLflow's databases keep infinity."""
    return math.copysign(math.inf, value) if abs(value) >= 1.797693e308 else value
