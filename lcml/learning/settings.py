"""Every setting of learning, with its default and where it comes from."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lcml.backend import FeaturePrecision
from lcml.circuits.parts import Part
from lcml.circuits.splits import MAX_DEPTH
from lcml.errors import SettingsError
from lcml.learning.fields import check_fields, setting
from lcml.learning.scoring import Criterion
from lcml.model.head import THRESHOLD, Link
from lcml.model.threshold import ThresholdMetric

SolverName = Literal["lbfgs", "minibatch"]
Metric = Literal["auto", "accuracy", "f1-macro", "log-loss"]
Structure = Literal["auto", "splits", "trees"]
Start = Literal["zero", "generative"]

STRUCTURE, LIMITS, SELECTION = "Structure", "Limits", "Model selection"
WEIGHTS, COMPUTATION = "Weights", "Computation"


@dataclass(frozen=True)
class LearnSettings:
    """How structure and weights are learned. Raises SettingsError for a value of another type or out of range.

    What every field means is said beside it, `lcml.learning.fields`; docs/settings.md lists them. None is no limit.
    """

    link: Link = setting("sigmoid", "One-vs-rest sigmoid (the paper's) or softmax.", WEIGHTS)
    literal_weights: bool = setting(True, "Whether literals carry weights as elements do.", WEIGHTS)
    structure: Structure = setting(
        "auto",
        "splits: of elements of one circuit, as in the paper; trees: small ones beside an additive part, for the "
        "encoder columns. auto: trees there, unless a vtree or view is given, else splits.",
        STRUCTURE,
    )
    trees: int = setting(500, "Most trees.", LIMITS, least=0)
    tree_depth: int | None = setting(
        None,
        "Questions on the way to a leaf of a tree; else 3 or 6, as held-out examples choose.",
        STRUCTURE,
        least=1,
        most=8,
    )
    learning_rate: float = setting(
        0.1, "Share of the best values of its leaves that a tree adds.", WEIGHTS, above=0, most=1
    )
    criterion: Criterion = setting("gain", "What scores splits; variance is the paper's.", STRUCTURE)
    depth: int = setting(0, "Levels that a split copies beside its path.", STRUCTURE, least=0, most=MAX_DEPTH)
    growth: float = setting(0.35, "Elements added per round, as a share of those present.", STRUCTURE, least=1e-6)
    minimum_support: float = setting(10.0, "Least flow, in examples, of either half of a split.", STRUCTURE, least=0)
    score_examples: int = setting(
        32768,
        "Training examples that scoring reads per round, divided by the cells of the view that has most.",
        STRUCTURE,
        least=1,
    )
    growth_examples: float | None = setting(
        None,
        "Training examples that a round of growth sees, per feature of the circuit; else all. The last fits see all.",
        STRUCTURE,
        above=0,
    )
    rounds: int = setting(20, "Most rounds of splits.", LIMITS, least=0)
    max_elements: int | None = setting(None, "Most elements of the circuit.", LIMITS, least=0)
    max_parameters: int | None = setting(None, "Most parameters, over all classes.", LIMITS, least=1)
    time_limit: float | None = setting(None, "Most seconds of learning.", LIMITS, least=0, metavar="SECONDS")
    metric: Metric = setting(
        "auto",
        "What the validation examples measure. auto: log-loss where the structure is trees, else accuracy.",
        SELECTION,
    )
    threshold: ThresholdMetric | float = setting(
        THRESHOLD,
        "Of two classes the second is predicted where its probability is above this: a number, or what is best for the "
        "accuracy, balanced-accuracy, f1 (of the second class) or f1-macro of the examples that choose.",
        SELECTION,
        above=0,
        below=1,
    )
    folds: int = setting(
        5,
        "Of the cross-validation that chooses penalty and trees, for tables of up to 30,000 rows.",
        SELECTION,
        least=2,
        most=100,
    )
    patience: int = setting(3, "Rounds without improvement on validation that end growth.", LIMITS, least=1)
    l2: float = setting(1e-4, "Penalty while the circuit grows.", SELECTION, least=0)
    l2_path: tuple[float, ...] = setting(
        (1e-3, 3e-4, 1e-4, 3e-5, 1e-5), "Penalties tried at the end, each to convergence.", SELECTION, least=0
    )
    refit: bool = setting(False, "Fit what did best once more, to training and validation examples.", SELECTION)
    average: bool = setting(
        False,
        "Fit by least squares too at the end, images without distorted copies, and keep the mean of both fits where "
        "the validation examples find it better; not for trees.",
        WEIGHTS,
    )
    solver: SolverName = setting("lbfgs", "How weights are fitted; minibatch is for data larger than memory.", WEIGHTS)
    init: Start = setting(
        "zero",
        "Weights of the first fit. generative: of the posterior under a distribution per class over the initial "
        "circuit, for one circuit over the whole example.",
        WEIGHTS,
    )
    round_iterations: int = setting(20, "Most iterations of a fit while the circuit grows.", WEIGHTS, least=1)
    final_iterations: int = setting(60, "Most iterations of a fit at the end.", WEIGHTS, least=1)
    tolerance: float = setting(1e-5, "Gradient at which a fit has converged.", WEIGHTS, least=0)
    precision: FeaturePrecision = setting(
        "fixed16", "Of features kept: fixed point of 8 or 16 bits, computed with in float32, or floats.", COMPUTATION
    )
    memory_budget: int | None = setting(
        None,
        "MB for features kept in memory; else most of it. Data of more than a quarter of it stay on disk.",
        COMPUTATION,
        least=0,
        metavar="MB",
    )
    seed: int = setting(0, "The same seed gives the same model.", COMPUTATION, least=0)

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.l2_path:
            raise SettingsError("l2_path: expected one or more penalties of 0 or more, found none")

    def first_threshold(self, n_classes: int) -> float:
        """Of a model that is being learned: the number given, 1/2 where it is to be chosen.

        Raises SettingsError for one of other than two classes.
        """
        if self.threshold != THRESHOLD and n_classes != 2:
            raise SettingsError(f"threshold: only two classes have one, these data have {n_classes}; leave it out")
        return self.threshold if isinstance(self.threshold, float) else THRESHOLD

    def most_features(self, parts: Sequence[Part], n_sets: int) -> int | None:
        """Features that max_parameters allows. Raises SettingsError where the initial `parts` exceed a limit."""
        n_elements = sum(part.circuit.n_elements for part in parts)
        n_parameters = n_sets * (sum(part.n_features for part in parts) + 1)
        for name, present in (("max_elements", n_elements), ("max_parameters", n_parameters)):
            if (limit := getattr(self, name)) is not None and limit < present:
                raise SettingsError(
                    f"the initial circuits have {n_elements} elements and {n_parameters} parameters, more than {name} "
                    f"{limit} allows; raise it"
                )
        return None if self.max_parameters is None else self.max_parameters // n_sets - 1

    def as_dict(self) -> dict[str, Any]:
        """The settings as plain values, tuples as lists."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
