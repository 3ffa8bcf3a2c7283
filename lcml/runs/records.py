"""What a run keeps of every round, and what the tracker gets of it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from lcml.data import DataSplits
from lcml.learning.selection import ChosenSplit
from lcml.learning.state import RoundReport
from lcml.tracking import DatasetRecord

CHECKPOINT_TAG = "lcml.checkpoint"
"""The tag of a run that says where its checkpoint is."""

MODEL_ARTIFACT = "model.lcml"
"""The name of the model file among the files of a run."""


@dataclass(frozen=True)
class RoundRecord:
    """The figures of one RoundReport, flat; n_splits: splits made in the round; train_loss: with the penalty,
    train_log_loss: without it, None in checkpoints that did not keep it."""

    phase: str
    round: int
    l2: float
    n_elements: int
    n_or_gates: int
    n_parameters: int
    n_splits: int
    n_iterations: int
    train_loss: float
    train_accuracy: float
    valid_loss: float
    valid_accuracy: float
    valid_f1_macro: float
    improved: bool
    seconds: Mapping[str, float]
    train_log_loss: float | None = None

    @classmethod
    def of(cls, report: RoundReport) -> "RoundRecord":
        same = {field.name: getattr(report, field.name) for field in fields(cls) if hasattr(report, field.name)}
        return cls(
            **same,
            n_splits=len(report.splits),
            valid_loss=report.valid.log_loss,
            valid_accuracy=report.valid.accuracy,
            valid_f1_macro=report.valid.f1_macro,
        )

    def line(self) -> str:
        """The figures that say how it went, in one line."""
        return (
            f"{self.phase} {self.round}: {self.n_elements:,} elements, {self.n_parameters:,} parameters, "
            f"loss {self.train_loss:.4f}, validation accuracy {self.valid_accuracy:.2%}"
        )

    def metrics(self) -> dict[str, float]:
        """The figures by the names they have in the tracking store, each part of the run under a heading of its own:
        train/, valid/, circuit/ and time/ over the rounds or trees, penalty/ over a path of penalties."""
        seconds = sum(self.seconds.values())
        if self.phase == "refit":  # what it reached is the model kept
            return {"time/refit_seconds": seconds}
        reached = {
            "train/accuracy": self.train_accuracy,
            "train/objective": self.train_loss,
            "valid/accuracy": self.valid_accuracy,
            "valid/f1_macro": self.valid_f1_macro,
            "valid/loss": self.valid_loss,
        }
        if self.train_log_loss is not None:
            reached["train/loss"] = self.train_log_loss
        if self.phase in ("refine", "average", "additive"):
            path = {f"penalty/{name.replace('/', '_')}": value for name, value in reached.items()}
            return path | {"penalty/l2": self.l2, "penalty/seconds": seconds}
        sizes = ("n_elements", "n_or_gates", "n_parameters", "n_splits")
        return {
            **reached,
            **{f"circuit/{name}": float(getattr(self, name)) for name in sizes},
            **{f"time/{phase}_seconds": value for phase, value in self.seconds.items()},
        }


_HISTORY = ("round", "n_parameters", "train_log_loss", "valid_loss", "train_accuracy", "valid_accuracy")


def history(rounds: Sequence[RoundRecord]) -> dict[str, list[float | None]]:
    """The figures of all rounds that a model keeps in its provenance, by name."""
    return {name: [getattr(record, name) for record in rounds] for name in _HISTORY}


SplitLog = Sequence[tuple[ChosenSplit, ...]]
"""The splits of every round after the first fit."""


def split_lines(log: SplitLog, variable_names: Sequence[Sequence[str]]) -> Iterator[str]:
    """One JSON object per split: the round (from 1), the part, the element of its circuit before that round, and the
    variable.

    variable_names: of every part. With several parts the variable's name begins with that of the part.
    """
    several = "part {}: " if len(variable_names) > 1 else ""
    for round, splits in enumerate(log, start=1):
        for choice in splits:
            split = choice.split
            record = {
                "round": round,
                "part": split.part,
                "element": split.element,
                "variable": split.variable,
                "feature": several.format(split.part) + variable_names[split.part][split.variable],
                "score": choice.score,
                "added": choice.added,
            }
            yield json.dumps(record) + "\n"


def dataset_record(splits: DataSplits) -> DatasetRecord:
    return DatasetRecord(
        name=splits.name,
        digest=splits.fingerprint,
        source=splits.source,
        **splits.sizes,
        n_variables=len(splits.feature_names),
        n_classes=len(splits.classes),
        feature_names=tuple(splits.feature_names),
    )
