"""Everything that decides a training run: data, encoder, vtree, backend, learning, and where results go.

The keys of `TrainConfig.as_dict` are the names of the options of `lcml train`, and so the keys of its TOML files.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from lcml.backend import BackendName
from lcml.errors import SettingsError
from lcml.inputs.augmentation import Augmentation
from lcml.inputs.channels import check_channels
from lcml.inputs.encoders import EncoderKind
from lcml.learning.settings import LearnSettings
from lcml.runs.specs import Shape, ViewSpec, parse_augment, parse_shape, parse_view

PLACES = ("data_dir", "output", "checkpoint_dir", "export", "no_tracking", "tracking_uri", "experiment", "run_name")
"""Options that say where data and results are, on this machine or another, and nothing about the model."""

VtreeKind = Literal["auto", "grid", "balanced", "right-linear", "random", "mutual-information"]


@dataclass(frozen=True)
class TrainConfig:
    """A training run. Raises SettingsError for a value out of range or options that contradict each other.

    data, target, data_dir, train_fraction, valid_fraction, test_fraction: as lcml.data.load_splits takes them
    image_shape: "ROWSxCOLUMNS" or "CHANNELSxROWSxCOLUMNS" of the features, None for what the data know of it
    encoder, divisor: as lcml.inputs.encoders.fit_encoder takes them; channels: made of its images, see
    lcml.inputs.channels augment: how training images are distorted, view: what every part of the model reads, see
    lcml.runs.specs; without views the whole example
    vtree: `auto` is grid for images, mutual-information for up to a few hundred variables, else balanced; vtree_offset
    (rows, columns) shifts the pairing of the grid
    output: the model file, None for NAME.lcml in the working directory; checkpoint_dir: None for checkpoints/ beside it
    export: whether the model is also written, and logged to the run, as ONNX
    no_tracking, tracking_uri, experiment, run_name: where the run is recorded; None for the default
    """

    data: str = "digits"
    target: str | None = None
    data_dir: str | None = None
    train_fraction: float = 1.0
    valid_fraction: float = 0.1
    test_fraction: float = 0.2
    encoder: EncoderKind = "scale"
    divisor: float | None = None
    image_shape: str | None = None
    channels: tuple[str, ...] = ()
    augment: str | None = None
    view: tuple[str, ...] = ()
    vtree: VtreeKind = "auto"
    vtree_offset: tuple[int, int] = (0, 0)
    backend: BackendName = "auto"
    output: str | None = None
    checkpoint_dir: str | None = None
    export: bool = False
    no_tracking: bool = False
    tracking_uri: str | None = None
    experiment: str | None = None
    run_name: str | None = None
    learn: LearnSettings = field(default_factory=LearnSettings)

    def __post_init__(self) -> None:
        for part in fields(self):
            value = getattr(self, part.name)
            if get_origin(part.type) is Literal and value not in get_args(part.type):
                raise SettingsError(f"{part.name}: expected one of {', '.join(get_args(part.type))}, found {value!r}")
        if (self.divisor is None) == (self.encoder == "divide"):
            raise SettingsError(
                f"divisor: belongs to the encoder divide and to no other, found encoder {self.encoder} and divisor "
                f"{self.divisor}"
            )
        if self.vtree_offset != (0, 0) and self.vtree not in ("auto", "grid"):
            raise SettingsError(f"vtree_offset belongs to the vtree grid, found vtree {self.vtree}; leave one out")
        if min(self.vtree_offset) < 0:
            raise SettingsError(f"vtree_offset: expected rows and columns of at least 0, found {self.vtree_offset}")
        check_channels(self.channels)
        _ = self.shape, self.augmentation, self.views  # so that what is wrong with them is said now
        if (self.vtree != "auto" or self.vtree_offset != (0, 0)) and not any(view.takes_vtree for view in self.views):
            raise SettingsError(
                f"vtree and vtree_offset are for the view 'whole', found the views {list(self.view)}; leave them out, "
                "and shift a window's vtree as in 'window=7,offset=1'"
            )
        named = [name for name in ("tracking_uri", "experiment", "run_name") if getattr(self, name) is not None]
        if self.no_tracking and named:
            raise SettingsError(f"no_tracking and {named[0]} contradict each other; leave one out")

    @property
    def views(self) -> tuple[ViewSpec, ...]:
        """What the parts of the model read."""
        return tuple(map(parse_view, self.view or ("whole",)))

    @property
    def augmentation(self) -> Augmentation | None:
        """How training images are distorted, if they are."""
        return None if self.augment is None else parse_augment(self.augment)

    @property
    def shape(self) -> Shape | None:
        """The image shape that was given, channels first."""
        return None if self.image_shape is None else parse_shape(self.image_shape)

    @property
    def model_path(self) -> Path:
        """Where the model goes."""
        return Path(f"{Path(self.data).resolve().stem}.lcml" if self.output is None else self.output)

    @property
    def checkpoint_directory(self) -> Path:
        """Where checkpoints go."""
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
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in options.items()
        }
        learn: dict[str, Any] = {
            part.name: values.pop(part.name) for part in fields(LearnSettings) if part.name in values
        }
        return dataclasses.replace(self, learn=dataclasses.replace(self.learn, **learn), **values)

    def settings(self) -> dict[str, Any]:
        """The options that decide what the model becomes, by name, as plain values."""
        return {name: value for name, value in self.as_dict().items() if name not in PLACES}

    def as_toml(self) -> str:
        """The settings that have a value, as a file that `lcml train --config` reads."""
        values = {name: value for name, value in self.settings().items() if value not in (None, [])}
        return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items())
