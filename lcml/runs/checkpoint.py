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
from numpy.typing import DTypeLike, NDArray

from lcml.circuits.splits import Split
from lcml.circuits.views import View, view_from_dict
from lcml.circuits.vtree import Vtree
from lcml.errors import FormatError, LcmlError
from lcml.formats.container import Arrays, read_container, write_container
from lcml.learning.fields import typed
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
    rows = [(each.split.part, each.split.element, each.split.variable, each.score, each.added) for each in choices]
    arrays: dict[str, NDArray[Any]] = {
        f"{number}/vtree/{name}": getattr(vtree, name)
        for number, (_, vtree) in enumerate(checkpoint.places)
        for name in _VTREE_ARRAYS
    }
    for place, (name, kind) in enumerate(_SPLIT_TYPES.items()):
        arrays[f"splits/{name}"] = np.array([row[place] for row in rows], kind)
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
    columns = [_array(arrays, f"splits/{name}", kind, 1).tolist() for name, kind in _SPLIT_TYPES.items()]
    choices = [
        ChosenSplit(Split(element, variable, part), score, added)
        for part, element, variable, score, added in zip(*columns, strict=True)
    ]
    start = _array(arrays, "splits/start", np.int32, 1).tolist()
    log = tuple(tuple(choices[first:stop]) for first, stop in pairwise(start))
    config = TrainConfig().with_options(content["config"])
    typed(config.learn)
    if not content["views"]:
        raise TypeError("views: found none")
    vtrees = (
        Vtree(*(_array(arrays, f"{number}/vtree/{name}", np.int32, 1) for name in _VTREE_ARRAYS))
        for number in range(len(content["views"]))
    )
    checkpoint = Checkpoint(
        config=typed(config),
        fingerprint=content["fingerprint"],
        places=tuple(zip(map(view_from_dict, content["views"]), vtrees, strict=True)),
        run_name=content["run_name"],
        run_id=content["run_id"],
        state=None if content["state"] is None else _state(content["state"], arrays, log),
        log=log,
        rounds=tuple(typed(RoundRecord(**record)) for record in content["rounds"]),
    )
    return typed(checkpoint)


def _array(arrays: Arrays, name: str, kind: DTypeLike, n_dimensions: int) -> NDArray[Any]:
    array = arrays[name]
    if array.dtype != kind or array.ndim != n_dimensions:
        raise TypeError(f"{name}: expected {n_dimensions}-d {np.dtype(kind)}, found {array.dtype} of {array.shape}")
    return array


def _state_content(state: FitState) -> dict[str, Any]:
    figures = {name: getattr(state.best, name) for name in ("round", "l2", "train_accuracy")}
    best = figures | {"valid": dataclasses.asdict(state.best.valid)}
    return {"stale_rounds": state.stale_rounds, "seconds": state.seconds, "best": best}


def _state(content: Mapping[str, Any], arrays: Arrays, log: SplitLog) -> FitState:
    history = tuple(tuple(choice.split for choice in splits) for splits in log)
    last, best = (
        Parameters(_array(arrays, f"{name}/weights", np.float64, 2), _array(arrays, f"{name}/bias", np.float64, 1))
        for name in ("last", "best")
    )
    figures = content["best"]
    valid = typed(Quality(**figures["valid"]))
    reached = Best(figures["round"], figures["l2"], best, figures["train_accuracy"], valid)
    return typed(FitState(history, last, typed(reached), content["stale_rounds"], content["seconds"]))
