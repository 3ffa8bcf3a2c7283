"""The checkpoint: one file from which a training goes on as if it had never stopped.

It holds the options, the vtree, the splits of every round with their scores, the weights, the best weights, and the
figures of the rounds. The circuit and its features are rebuilt by replaying the splits. See docs/file-formats.md.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.circuits.splits import Split
from lcml.circuits.views import View, view_from_dict
from lcml.circuits.vtree import Vtree
from lcml.errors import FormatError, LcmlError
from lcml.formats.container import Arrays, read_container, write_container
from lcml.learning.parameters import Parameters
from lcml.learning.selection import ChosenSplit
from lcml.learning.state import Best, FitState
from lcml.model.metrics import Quality
from lcml.runs.config import TrainConfig
from lcml.runs.records import RoundRecord, SplitLog

CHECKPOINT_KIND = "lcml checkpoint"
CHECKPOINT_VERSION = 2

_VTREE_ARRAYS = ("left", "right", "variable")
_SPLIT_TYPES = {"part": np.int32, "element": np.int32, "variable": np.int32, "score": np.float64, "added": np.int32}


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where a training stands.

    fingerprint: of the data; places: the view and vtree of every part; run_id: in the tracking store, None while it has
    none; state: None before the first fit; log: the splits of every round of state.history, with their scores; rounds:
    the figures of every fit so far.
    """

    config: TrainConfig
    fingerprint: str
    places: tuple[tuple[View, Vtree], ...]
    run_name: str
    run_id: str | None = None
    state: FitState | None = None
    log: SplitLog = ()
    rounds: tuple[RoundRecord, ...] = ()


def save_checkpoint(checkpoint: Checkpoint, path: str | Path) -> None:
    """Write `checkpoint`, whole or not at all. Raises OutputError where it cannot be written."""
    state = checkpoint.state
    content = {
        "config": checkpoint.config.as_dict(),
        "fingerprint": checkpoint.fingerprint,
        "run_name": checkpoint.run_name,
        "run_id": checkpoint.run_id,
        "rounds": [dataclasses.asdict(record) for record in checkpoint.rounds],
        "state": None if state is None else _state_content(state),
        "views": [view.as_dict() for view, _ in checkpoint.places],
    }
    choices = [choice for splits in checkpoint.log for choice in splits]
    columns = {
        "part": [choice.split.part for choice in choices],
        "element": [choice.split.element for choice in choices],
        "variable": [choice.split.variable for choice in choices],
        "score": [choice.score for choice in choices],
        "added": [choice.added for choice in choices],
    }
    arrays: dict[str, NDArray[Any]] = {
        f"{number}/vtree/{name}": getattr(vtree, name)
        for number, (_, vtree) in enumerate(checkpoint.places)
        for name in _VTREE_ARRAYS
    }
    arrays |= {f"splits/{name}": np.array(values, _SPLIT_TYPES[name]) for name, values in columns.items()}
    arrays["splits/start"] = np.cumsum([0, *map(len, checkpoint.log)], dtype=np.int32)
    if state is not None:
        for name, parameters in (("last", state.parameters), ("best", state.best.parameters)):
            arrays |= {f"{name}/weights": parameters.weights, f"{name}/bias": parameters.bias}
    write_container(path, CHECKPOINT_KIND, CHECKPOINT_VERSION, content, arrays)


def load_checkpoint(path: str | Path) -> Checkpoint:
    """The checkpoint that `save_checkpoint` wrote, exact to the bit.

    Raises FormatError for a file that is unreadable, foreign, newer, truncated or damaged, or holds no checkpoint.
    """
    content, arrays = read_container(path, CHECKPOINT_KIND, CHECKPOINT_VERSION)
    try:
        return _checkpoint(content, arrays)
    except (LcmlError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(
            f"holds no valid checkpoint ({type(error).__name__}: {error}); start a new run", path
        ) from error


def _checkpoint(content: Mapping[str, Any], arrays: Arrays) -> Checkpoint:
    columns = [arrays[f"splits/{name}"].tolist() for name in _SPLIT_TYPES]
    choices = [
        ChosenSplit(Split(element, variable, part), score, added)
        for part, element, variable, score, added in zip(*columns, strict=True)
    ]
    start = arrays["splits/start"].tolist()
    log = tuple(tuple(choices[first:stop]) for first, stop in pairwise(start))
    return Checkpoint(
        config=TrainConfig().with_options(content["config"]),
        fingerprint=content["fingerprint"],
        places=tuple(
            (view_from_dict(view), Vtree(*(arrays[f"{number}/vtree/{name}"] for name in _VTREE_ARRAYS)))
            for number, view in enumerate(content["views"])
        ),
        run_name=content["run_name"],
        run_id=content["run_id"],
        state=None if content["state"] is None else _state(content["state"], arrays, log),
        log=log,
        rounds=tuple(RoundRecord(**record) for record in content["rounds"]),
    )


def _state_content(state: FitState) -> dict[str, Any]:
    best = state.best
    return {
        "stale_rounds": state.stale_rounds,
        "seconds": state.seconds,
        "best": {
            "round": best.round,
            "l2": best.l2,
            "train_accuracy": best.train_accuracy,
            "valid": dataclasses.asdict(best.valid),
        },
    }


def _state(content: Mapping[str, Any], arrays: Arrays, log: SplitLog) -> FitState:
    last, best = (Parameters(arrays[f"{name}/weights"], arrays[f"{name}/bias"]) for name in ("last", "best"))
    figures = content["best"]
    return FitState(
        history=tuple(tuple(choice.split for choice in splits) for splits in log),
        parameters=last,
        best=Best(figures["round"], figures["l2"], best, figures["train_accuracy"], Quality(**figures["valid"])),
        stale_rounds=content["stale_rounds"],
        seconds=content["seconds"],
    )
