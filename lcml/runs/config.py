"""Everything that decides a training run: data, encoder, vtree, backend, learning, and where results go.

The keys of `TrainConfig.as_dict` are the names of the options of `lcml train`, and so the keys of its TOML files.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from lcml.backend import BackendName
from lcml.errors import SettingsError
from lcml.files import escaped
from lcml.inputs.augmentation import Augmentation
from lcml.inputs.channels import check_channels
from lcml.inputs.encoders import EncoderKind
from lcml.inputs.patches import PatchSpec
from lcml.learning.fields import AnyField, about, check_fields, setting
from lcml.learning.settings import COMPUTATION, LIMITS, SELECTION, STRUCTURE, WEIGHTS, LearnSettings
from lcml.model.missing import MissingPolicy
from lcml.runs.specs import Shape, ViewSpec, parse_augment, parse_patches, parse_shape, parse_view

PLACES = (
    "data_dir",
    "output",
    "checkpoint_dir",
    "cluster",
    "export",
    "report",
    "no_tracking",
    "tracking_uri",
    "experiment",
    "run_name",
)
"""Options that say where data and results are, on this machine or another, and nothing about the model."""

DATA, RESULTS, TRACKING = "Data", "Results", "Tracking"
_PANELS = (DATA, STRUCTURE, LIMITS, SELECTION, WEIGHTS, COMPUTATION, RESULTS, TRACKING)

NO_MINIBATCH = (
    "the solver minibatch takes a step for every chunk of examples, which workers would all wait for; choose lbfgs: a "
    "cluster has memory for more data"
)
"""Why that solver is refused on a cluster."""

VtreeKind = Literal["auto", "grid", "balanced", "right-linear", "random", "mutual-information"]


@dataclass(frozen=True)
class TrainConfig:
    """A training run. Raises SettingsError for a value of another type or out of range, and for options that contradict
    each other.

    What every field means is said beside it; docs/settings.md lists them. Views and augmentation: `lcml.runs.specs`.
    """

    data: str = setting(
        "digits",
        "A named set, a directory of IDX files or of features.npy and labels.npy, or an .npz, .csv or .parquet file.",
        DATA,
        is_path=True,
    )
    target: str | None = setting(None, "Column of a table that holds the labels.", DATA, metavar="COLUMN")
    data_dir: str | None = setting(
        None,
        "Where relative paths of data begin, and where the image sets are (IDX files; else the environment variable "
        "LCML_DATA_DIR, else OpenML).",
        DATA,
        metavar="DIR",
        is_path=True,
    )
    train_fraction: float = setting(1.0, "Share of the training examples that is used.", DATA, above=0, most=1)
    valid_fraction: float = setting(0.1, "Share of those set aside for validation.", DATA, least=0, below=1)
    test_fraction: float = setting(
        0.2, "Share of all set aside for the test, unless the set has its own.", DATA, least=0, below=1
    )
    encoder: EncoderKind = setting(
        "auto",
        "Raw values to [0, 1]. columns: knots and categories of a table's columns; scale, boolean (0 or 1), divide (by "
        "the divisor): one number each. auto: columns for tables that are no images, else scale.",
        DATA,
    )
    column: tuple[str, ...] = setting(
        (),
        "What a column of a table is where that is not what it looks like: NAME=number, category, date, ignore, or "
        "ordinal:low<mid<high.",
        DATA,
        metavar="NAME=KIND",
    )
    class_weight: Literal["balanced"] | None = setting(
        None, "balanced: examples count so much that every class counts the same in learning and choosing.", DATA
    )
    divisor: float | None = setting(None, "For the encoder divide: what raw values are divided by.", DATA, above=0)
    image_shape: str | None = setting(
        None,
        "Of images or, with one row, sequences, where the data do not say it; also CxROWSxCOLUMNS.",
        DATA,
        metavar="ROWSxCOLUMNS",
    )
    channels: tuple[str, ...] = setting(
        (),
        "Channels made of every image: grey, x+, x-, y+, y-, d+, d-, e+, e-, contrast+, contrast-, t25, t50, t75, "
        "root-grey, root-x+ and other roots of edges. Without any, the pixels alone.",
        DATA,
        metavar="NAME",
    )
    pool: int = setting(
        1,
        "Rows and columns of the blocks of pixels over which channels are averaged, before roots are taken: windows "
        "read fewer, larger pixels.",
        DATA,
        least=1,
    )
    patches: tuple[str, ...] = setting(
        (),
        "Filters drawn from the training images, for the view patches, beside channels: count=256,size=7x7,stride=1x1,"
        "grid=4x4,overlap=2x2. Once for each size.",
        DATA,
        metavar="SPEC",
    )
    augment: str | None = setting(
        None,
        "Train on distorted copies too: copies=4,shift=1,cross,flip,rotation=10,scale=0.1,shear=5,elastic=1. "
        "Training accuracies are then those of the images and all copies; of the images alone with average.",
        DATA,
        metavar="SPEC",
    )
    view: tuple[str, ...] = setting(
        (),
        "What each circuit reads: whole, whole,offset=1x1, patches, "
        "window=7x7,stride=1x1,padding=0x0,grid=4x4,overlap=0x0,root,offset=0x1,channels=0+2,apart. By default whole.",
        STRUCTURE,
        metavar="SPEC",
    )
    vtree: VtreeKind = setting(
        "auto",
        "auto: grid for images, mutual-information for tables of a few hundred columns, else balanced.",
        STRUCTURE,
    )
    vtree_offset: tuple[int, int] = setting(
        (0, 0), "Rows and columns by which the grid is shifted.", STRUCTURE, least=0
    )
    backend: BackendName = setting("auto", "auto: cupy where a CUDA device answers.", COMPUTATION)
    cluster: str | None = setting(
        None,
        "Train on the Dask workers of the scheduler tcp://HOST:PORT, or on local:N processes of this machine.",
        DATA,
        metavar="ADDRESS",
    )
    output: str | None = setting(
        None, "The model; else NAME.lcml.", RESULTS, metavar="FILE", flags=("--output", "-o"), is_path=True
    )
    checkpoint_dir: str | None = setting(
        None, "For checkpoints; else checkpoints/ beside the model.", RESULTS, metavar="DIR", is_path=True
    )
    prune_to: int | None = setting(
        None,
        "After learning drop the conditions that matter least, cell by cell of windows, down to N parameters, and fit "
        "the others again.",
        LIMITS,
        least=2,
        metavar="N",
    )
    missing: MissingPolicy = setting(
        "refuse",
        "What the model does where an input is missing that never was in training. prior: takes the mean of its "
        "variables; expected: the expected logits under a distribution over its circuit, of one over the whole "
        "example.",
        RESULTS,
    )
    export: bool = setting(False, "At the end write the model as ONNX beside it too, and log that to the run.", RESULTS)
    report: bool = setting(
        False, "At the end write a page about the model beside it too (.html), and log that to the run.", RESULTS
    )
    no_tracking: bool = setting(False, "Do not record the run in MLflow.", TRACKING, flags=("--no-tracking",))
    tracking_uri: str | None = setting(
        None,
        "MLflow's store; else as MLFLOW_TRACKING_URI says, else sqlite:///mlruns/mlflow.db.",
        TRACKING,
        metavar="URI",
    )
    experiment: str | None = setting(
        None,
        "MLflow's experiment; else as MLFLOW_EXPERIMENT_NAME or MLFLOW_EXPERIMENT_ID says, else lcml.",
        TRACKING,
        metavar="NAME",
    )
    run_name: str | None = setting(None, "Else the data's name and a number.", TRACKING, metavar="NAME")
    learn: LearnSettings = field(default_factory=LearnSettings)

    def __post_init__(self) -> None:
        check_fields(self)
        if (self.divisor is None) == (self.encoder == "divide"):
            raise SettingsError(
                f"divisor: belongs to the encoder divide and to no other, found encoder {self.encoder} and divisor "
                f"{self.divisor}"
            )
        if self.vtree_offset != (0, 0) and self.vtree not in ("auto", "grid"):
            raise SettingsError(f"vtree_offset belongs to the vtree grid, found vtree {self.vtree}; leave one out")
        check_channels(self.channels)
        _ = self.shape, self.augmentation, self.views, self.patch_specs, self.column_kinds  # what is wrong is said now
        if (self.vtree != "auto" or self.vtree_offset != (0, 0)) and not any(view.takes_vtree for view in self.views):
            raise SettingsError(
                f"vtree and vtree_offset are for the view 'whole', found the views {list(self.view)}; leave them out, "
                "and shift a window's vtree as in 'window=7,offset=1'"
            )
        named = [name for name in ("tracking_uri", "experiment", "run_name") if getattr(self, name) is not None]
        if self.cluster is not None and self.learn.solver == "minibatch":
            raise SettingsError(f"cluster: {NO_MINIBATCH}")
        if self.prune_to is not None:
            if self.learn.average:
                raise SettingsError("prune_to: fits once more, which undoes `average`; leave one out")
            if self.cluster is not None:
                raise SettingsError("prune_to: this is not done on a cluster; run `lcml compact` on the model")
            if self.learn.max_parameters is not None and self.learn.max_parameters < self.prune_to:
                most = f"max_parameters, {self.learn.max_parameters}, to which it grows before"
                raise SettingsError(f"prune_to: expected at most {most}, found {self.prune_to}")
        if self.export and self.missing == "expected":
            raise SettingsError("export: missing 'expected' has no ONNX graph; choose 'prior', or leave export out")
        if self.no_tracking and named:
            raise SettingsError(f"no_tracking and {named[0]} contradict each other; leave one out")

    @property
    def views(self) -> tuple[ViewSpec, ...]:
        return tuple(map(parse_view, self.view or ("whole",)))

    @property
    def column_kinds(self) -> dict[str, str]:
        """What `column` says, by name."""
        wrong = [text for text in self.column if "=" not in text[1:]]
        if wrong:
            raise SettingsError(f"column: expected NAME=KIND, such as age=number, found {wrong[0]!r}")
        return {name: kind for name, _, kind in (text.rpartition("=") for text in self.column)}

    @property
    def patch_specs(self) -> tuple[PatchSpec, ...]:
        return tuple(map(parse_patches, self.patches))

    @property
    def augmentation(self) -> Augmentation | None:
        return None if self.augment is None else parse_augment(self.augment)

    @property
    def shape(self) -> Shape | None:
        """The image shape that was given, channels first."""
        return None if self.image_shape is None else parse_shape(self.image_shape)

    @property
    def model_path(self) -> Path:
        return Path(f"{Path(self.data).resolve().stem}.lcml" if self.output is None else self.output)

    @property
    def checkpoint_directory(self) -> Path:
        return self.model_path.parent / "checkpoints" if self.checkpoint_dir is None else Path(self.checkpoint_dir)

    def as_dict(self) -> dict[str, Any]:
        """Every option by its name, as plain values, tuples as lists."""
        values = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "learn"}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return plain | self.learn.as_dict()

    def with_options(self, options: Mapping[str, Any]) -> "TrainConfig":
        """This configuration with some options changed. Raises SettingsError for an unknown one."""
        unknown = sorted(set(options) - set(self.as_dict()))
        if unknown:
            raise SettingsError(f"unknown setting {unknown[0]!r}")
        learn = {part.name for part in fields(LearnSettings)}
        of_learn = {name: value for name, value in options.items() if name in learn}
        others: dict[str, Any] = {name: value for name, value in options.items() if name not in learn}
        return dataclasses.replace(self, learn=dataclasses.replace(self.learn, **of_learn), **others)

    def settings(self) -> dict[str, Any]:
        """The options that decide what the model becomes, by name, as plain values."""
        return {name: value for name, value in self.as_dict().items() if name not in PLACES}

    def given(self) -> dict[str, Any]:
        """The settings that have a value."""
        return {name: value for name, value in self.settings().items() if value not in (None, [])}

    def as_toml(self) -> str:
        """The settings that have a value, as a file that `lcml train --config` reads."""
        values = {name: escaped(value) if isinstance(value, str) else value for name, value in self.given().items()}
        return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items())


def options() -> dict[str, AnyField]:
    """Every option of a run by its name, panel by panel."""
    parts = [part for record in (TrainConfig, LearnSettings) for part in fields(record) if part.metadata]
    return {part.name: part for part in sorted(parts, key=lambda part: _PANELS.index(about(part).panel or DATA))}
