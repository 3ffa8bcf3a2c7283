"""What an explanation says, as records: plain values, data frames, and what the package shap plots."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from lcml.errors import MissingDependencyError


class Pixel(NamedTuple):
    """A pixel of the image that a condition is on: what it is in, rows and columns from the image's corner, whether it
    is to be bright there or dark, and the side of the block that begins there (of channels averaged over blocks)."""

    channel: str
    row: int
    column: int
    bright: bool
    side: int = 1


@dataclass(frozen=True)
class Place:
    """Where in an image a condition holds, in pixels of the image: of a part with windows that window of the cell where
    it holds most (rows and columns may begin before the image, in the padding), else the whole."""

    part: int
    cell: int
    row: int
    column: int
    height: int
    width: int
    is_window: bool
    pixels: tuple[Pixel, ...]


@dataclass(frozen=True)
class Contribution:
    """What all features under one condition add to the baseline: contribution = (flow - average) * weight.

    flow: of a part with windows, the feature: the mean over the cell's windows, or its square root. average: the
    feature of the average example, 0 where none was given. place: of images alone.
    """

    condition: str
    flow: float
    weight: float
    contribution: float
    average: float = 0.0
    place: Place | None = None


@dataclass(frozen=True)
class Explanation:
    """Why an example got its label: logit = baseline + the contributions shown + rest, those of the predicted class;
    `against` a class, those of the difference of the two logits.

    baseline: the logit of the average example, bias + weights . average features; the bias where none was given.
    With one weight set for two classes, the first class has the logit of the second with the other sign.
    probabilities: by class, in the model's order.
    """

    label: int | str
    probabilities: tuple[float, ...]
    logit: float
    bias: float
    baseline: float
    contributions: tuple[Contribution, ...]
    rest: float
    against: int | str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as JSON has them; what only images have is left out of others."""
        values = asdict(self)
        for part in values["contributions"]:
            if (place := part.pop("place")) is not None:
                part["place"] = place | {"pixels": [pixel._asdict() for pixel in place["pixels"]]}
        return values

    def to_frame(self) -> Any:
        """A pandas data frame: a row per contribution shown, the largest first, then that of the rest."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingDependencyError("pandas", "tracking", "Explanation.to_frame") from error
        names = ("condition", "contribution", "flow", "average", "weight")
        rows = [[getattr(part, name) for name in names] for part in self.contributions]
        return pd.DataFrame([*rows, ["all else", self.rest, np.nan, np.nan, np.nan]], columns=list(names))

    def to_shap(self) -> Any:
        """A `shap.Explanation` for shap.plots.waterfall, bar and others: base value the baseline, values the
        contributions and the rest, data the flows. Raises MissingDependencyError without the package shap."""
        try:
            import shap
        except ImportError as error:
            raise MissingDependencyError("shap", None, "Explanation.to_shap") from error
        names: Sequence[str] = [*(part.condition for part in self.contributions), "all else"]
        return shap.Explanation(
            values=np.array([*(part.contribution for part in self.contributions), self.rest]),
            base_values=self.baseline,
            data=np.array([*(part.flow for part in self.contributions), np.nan]),
            feature_names=list(names),
        )
