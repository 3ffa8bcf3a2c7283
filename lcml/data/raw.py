"""A data set as its source gives it, before labels are coded and examples are divided."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from lcml.errors import DataError
from lcml.inputs.rows import Matrix, check_features
from lcml.inputs.table import Table

LISTED = 12
"""An error message lists so many names of a longer list."""


@dataclass(frozen=True, eq=False)
class RawSet:
    """Features (n, d), an array or rows in a file, and labels (n,) as read; `test_features` and `test_labels` where the
    source divides them itself.

    `image_shape` is (height, width) with d = height * width, pixels row by row; `notes` say what a user should know of
    how the source was read. Raises DataError where there are no features, values are no numbers (in no table), or the
    sizes disagree.
    """

    name: str
    source: str
    features: Matrix
    labels: NDArray[Any] | None
    feature_names: tuple[str, ...]
    image_shape: tuple[int, int] | None = None
    test_features: Matrix | None = None
    test_labels: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        width = len(self.feature_names)
        if width == 0:
            raise DataError(f"{self.source} has no feature; give at least one column besides the target")
        own = "examples", self.features, self.labels
        for part, features, labels in own, ("test examples", self.test_features, self.test_labels):
            if features is None:
                continue
            try:
                if not isinstance(features, Table):
                    check_features(features, width, self.feature_names, gaps=True)
            except DataError as error:
                raise DataError(f"{self.source}, {part}: {error}") from error
            if len(features) == 0:
                raise DataError(f"{self.source} holds no {part}; give at least one")
            if labels is not None and labels.shape != (len(features),):
                raise unlabelled(self.source, len(features), part, labels.shape)

    def check_finite(self, *, tables: bool = False) -> None:
        """DataError where an array, or with `tables` a table, holds anything but finite numbers."""
        for part, features in ("examples", self.features), ("test examples", self.test_features):
            try:
                if features is not None and (tables or not isinstance(features, Table)):
                    check_features(features, None, self.feature_names)
            except DataError as error:
                raise DataError(f"{self.source}, {part}: {error}") from error


def unlabelled(source: str, n_examples: int, what: str, shape: Sequence[int]) -> DataError:
    """The error for labels of that shape for so many examples."""
    found = f"{n_examples} {what} but labels of shape {shape}"
    return DataError(f"{source} has {found}; give one label per example, in one dimension")


def check_size(shape: Sequence[int], source: str) -> None:
    """DataError where an array of that shape has no examples or no features: said before anything is made for them."""
    if shape[0] == 0:
        raise DataError(f"{source} holds no examples; give at least one")
    if 0 in shape[1:]:
        raise DataError(f"{source} has no feature; give at least one column besides the target")


def default_names(n_features: int, image_shape: tuple[int, int] | None = None) -> tuple[str, ...]:
    """Names for columns that have none: pixel_ROW_COLUMN in images, else x0, x1, ..."""
    if image_shape is None:
        return tuple(f"x{j}" for j in range(n_features))
    return tuple(f"pixel_{i}_{j}" for i in range(image_shape[0]) for j in range(image_shape[1]))


def is_pixel(name: str) -> bool:
    """Whether `default_names` made the name, which is the first one of its set, for an image."""
    return name == "pixel_0_0"


def rows_of_pixels(images: NDArray[Any], source: str) -> tuple[NDArray[Any], tuple[int, int] | None]:
    """Images (n, height, width) as a matrix (n, height * width) and their shape; a matrix stays as it is."""
    if images.ndim == 3:
        height, width = images.shape[1:]
        return images.reshape(len(images), height * width), (height, width)
    if images.ndim == 2:
        return images, None
    raise DataError(f"{source}: expected a matrix (n, d) or images (n, height, width), found shape {images.shape}")


def listed(names: Sequence[object]) -> str:
    """The names, comma-separated; a long list is cut."""
    more = f", ... ({len(names)} in all)" if len(names) > LISTED else ""
    return ", ".join(str(name) for name in names[:LISTED]) + more
