"""Every setting of learning, with its default and where it comes from."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args, get_origin

from lcml.backend import FeaturePrecision
from lcml.circuits.splits import MAX_DEPTH
from lcml.errors import SettingsError
from lcml.learning.scoring import Criterion
from lcml.model.head import Link

SolverName = Literal["lbfgs", "minibatch"]
Metric = Literal["accuracy", "f1-macro", "log-loss"]


@dataclass(frozen=True)
class LearnSettings:
    """How structure and weights are learned. Raises SettingsError for a value out of range.

    link: one-vs-rest sigmoid (the paper's) or softmax; literal_weights: whether literals carry weights too
    criterion: what scores splits; depth: levels that a split copies beside its path; growth: elements added per round
    as a share of those present; minimum_support: the least flow, in examples, of either half of a split;
    score_examples: training examples that scoring reads per round, divided by the cells of the view that has most
    rounds, max_elements, max_parameters, time_limit (seconds): limits, None for none
    metric, patience: what the validation set measures, and how many rounds without improvement end growth
    l2: penalty while the structure grows; l2_path: penalties tried at the end, each to convergence
    refit: whether the circuit and penalty that did best are fitted once more, to training and validation examples
    solver, round_iterations, final_iterations, tolerance: how weights are fitted
    precision, memory_budget (MB for kept features; None: most of what is free), seed
    """

    link: Link = "sigmoid"
    literal_weights: bool = True
    criterion: Criterion = "gain"
    depth: int = 0
    growth: float = 0.35
    minimum_support: float = 10.0
    score_examples: int = 32768
    rounds: int = 20
    max_elements: int | None = None
    max_parameters: int | None = None
    time_limit: float | None = None
    metric: Metric = "accuracy"
    patience: int = 3
    l2: float = 1e-4
    l2_path: tuple[float, ...] = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
    refit: bool = False
    solver: SolverName = "lbfgs"
    round_iterations: int = 20
    final_iterations: int = 60
    tolerance: float = 1e-5
    precision: FeaturePrecision = "fixed16"
    memory_budget: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if get_origin(field.type) is Literal and value not in get_args(field.type):
                raise SettingsError(f"{field.name}: expected one of {', '.join(get_args(field.type))}, found {value!r}")
        least = {
            "depth": 0,
            "growth": 1e-6,
            "minimum_support": 0.0,
            "score_examples": 1,
            "rounds": 0,
            "max_elements": 0,
            "max_parameters": 1,
            "time_limit": 0.0,
            "patience": 1,
            "l2": 0.0,
            "round_iterations": 1,
            "final_iterations": 1,
            "tolerance": 0.0,
            "memory_budget": 0,
            "seed": 0,
        }
        for name, bound in least.items():
            value = getattr(self, name)
            if value is not None and not bound <= value < float("inf"):
                raise SettingsError(f"{name}: expected a finite number of at least {bound:g}, found {value}")
        if self.depth > MAX_DEPTH:
            raise SettingsError(f"depth: expected at most {MAX_DEPTH}, found {self.depth}")
        if not self.l2_path or not all(0 <= l2 < float("inf") for l2 in self.l2_path):
            raise SettingsError(f"l2_path: expected one or more penalties of 0 or more, found {self.l2_path}")

    def as_dict(self) -> dict[str, Any]:
        """The settings as plain values, tuples as lists."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
