"""What is run: models, data sets, shares of the training images, and which of them each table of the paper shows."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["baseline", "circuit", "quoted"]

DATA = {"mnist": "MNIST", "fashion-mnist": "Fashion"}
"""The data sets, as lcml and as the paper call them."""

FRACTIONS = (1.0, 0.1, 0.02)
"""Shares of the training images that the paper's Table 3 compares."""

TABLES = {1: FRACTIONS[:1], 2: FRACTIONS[:1], 3: FRACTIONS}
"""The shares of the training images that each table shows: 1 accuracy, 2 parameters, 3 accuracy with fewer images."""


@dataclass(frozen=True)
class Model:
    """A line of the tables.

    kind: a baseline of another library, a circuit, or one whose figures are only quoted; claim: the paper's model that
    it stands beside; boolean: whether pixels are made 0 or 1; sized: whether its number of parameters is defined
    """

    label: str
    kind: Kind
    claim: str
    boolean: bool = False
    sized: bool = True


MODELS = {
    "logistic-regression": Model("logistic regression", "baseline", "logistic regression"),
    "kernel-logistic-regression": Model("kernel logistic regression", "quoted", "kernel logistic regression"),
    "forest": Model("random forest, 500 trees", "baseline", "random forest", sized=False),
    "mlp-3": Model("MLP 784-1000-500-250-10", "baseline", "3-layer MLP"),
    "rat-spn": Model("RAT-SPN", "quoted", "RAT-SPN"),
    "svm": Model("SVM, RBF kernel", "baseline", "SVM with RBF kernel", sized=False),
    "mlp-5": Model("MLP 784-1000-500-250-2000-250-10", "baseline", "5-layer MLP"),
    "cnn": Model("CNN, 3 convolutions", "baseline", "CNN"),
    "resnet": Model("ResNet", "quoted", "ResNet"),
    "flat-boolean": Model("logistic circuit, flat, Boolean", "circuit", "logistic circuit (binary)", boolean=True),
    "flat": Model("logistic circuit, flat", "circuit", "logistic circuit (real-valued)"),
    "164k": Model("logistic circuit, at most 164k parameters", "circuit", "logistic circuit (real-valued)"),
    "best": Model("logistic circuit, best recipe", "circuit", "logistic circuit (real-valued)"),
}
"""In the order of the tables."""

_RECIPES = {
    1.0: {"flat": "{}-flat", "164k": "{}-164k", "best": "{}-best"},
    0.1: {"flat": "flat-few", "best": "{}-10pct"},
    0.02: {"flat": "flat-few", "best": "{}-2pct"},
}
"""By the share of the training images, the recipes of circuits, Boolean ones too; {} is mnist or fashion."""

_ORDER = ("logistic-regression", "forest", "flat", "flat-boolean", "164k", "mlp-3", "svm", "cnn", "mlp-5", "best")
"""Models by the time that they take with all training images."""


@dataclass(frozen=True)
class Row:
    """One thing to run: a model (a key of MODELS) on a share of a set's training images; recipe: a circuit's."""

    data: str
    fraction: float
    model: str
    recipe: str | None = None

    @property
    def name(self) -> str:
        """Such as mnist-10-flat-boolean."""
        return f"{_short(self.data)}-{round(100 * self.fraction)}-{self.model}"


def rows_of(tables: Collection[int], recipes: Sequence[str]) -> tuple[Row, ...]:
    """What those tables need, each once, the quick ones first; circuits where `recipes` has theirs.

    Table 2 needs no model without a size.
    """
    fractions = [fraction for fraction in FRACTIONS if any(fraction in TABLES[table] for table in tables)]
    rows = []
    for fraction in fractions:
        for data in DATA:
            for key, model in MODELS.items():
                recipe = _RECIPES[fraction].get(key.removesuffix("-boolean"), "").format(_short(data))
                if model.kind == "quoted" or (model.kind == "circuit" and recipe not in recipes):
                    continue
                if model.sized or set(tables) != {2}:
                    rows.append(Row(data, fraction, key, recipe or None))
    return tuple(sorted(rows, key=lambda row: (row.fraction, _ORDER.index(row.model))))


def _short(data: str) -> str:
    return data.removesuffix("-mnist")
