"""Ways to choose the conditions that a pruned model keeps, by the test log-loss of the same number of them:

    python -m tests.bench.pruning MODEL DATA [CONDITIONS ...]

cost: what `lcml compact` does, the second order of the loss, step by step. contribution: the same steps by the mean
distance of a condition's contribution from its mean. group: a group penalty (Yuan & Lin, 2006), a group per condition
over classes and cells, minimised by FISTA (Beck & Teboulle, 2009) on a path of penalties, the largest with at least so
many conditions; weights are then fitted as those of the others.
"""

import sys
from collections.abc import Callable
from functools import partial
from time import monotonic

import numpy as np

from lcml.arrays import FloatArray
from lcml.backend import get_backend
from lcml.data import Examples, load_splits
from lcml.explain.contributions import feature_values
from lcml.formats import load_model
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoding import encoded
from lcml.learning.pruning import KEPT, NEAR, Penalty, conditions_of, costs, objective_of, refitted
from lcml.learning.pruning import with_conditions as kept_in
from lcml.learning.state import EncodedSet
from lcml.model.head import HEADS
from lcml.model.metrics import quality
from lcml.model.model import LogisticCircuit

BACKEND = get_backend("numpy")
PATH, STEPS = np.geomspace(0.3, 1e-4, 24), 200


def fitted(model: LogisticCircuit, train: EncodedSet, penalty: Penalty) -> LogisticCircuit:
    return refitted(model, train, penalty, BACKEND)[0]


def by_steps(
    model: LogisticCircuit,
    train: EncodedSet,
    *,
    penalty: Penalty,
    most: int,
    rank: Callable[[LogisticCircuit], FloatArray],
) -> LogisticCircuit:
    model = fitted(model, train, penalty)
    while (n := len(conditions_of(model))) > most:
        kept = np.argsort(-rank(model), kind="stable")[: max(most, int(KEPT * n))]
        model = fitted(kept_in(model, np.isin(np.arange(n), kept)), train, penalty)
    return model


def contributions(model: LogisticCircuit, train: Examples) -> FloatArray:
    values = feature_values(model, train.features)
    spread = np.abs(values - values.mean(axis=0)).mean(axis=0)
    return by_condition(model, np.abs(model.weights).sum(axis=0) * spread)


def by_condition(model: LogisticCircuit, by_feature: FloatArray) -> FloatArray:
    return np.array([by_feature[features].sum() for features in conditions_of(model)])


def group_path(model: LogisticCircuit, train: Examples) -> list[np.ndarray]:
    """The conditions (n_conditions,) that have weights, by penalty, the largest first."""
    x = feature_values(model, train.features)
    centred = x - x.mean(axis=0)
    head = HEADS[model.link]
    targets = (train.labels[:, None] == head.class_codes(len(model.bias))).astype(float)
    step = 1 / (0.25 * np.linalg.norm(centred, 2) ** 2 / len(x))
    groups = conditions_of(model)
    group_of = np.empty(x.shape[1], int)
    for number, features in enumerate(groups):
        group_of[features] = number
    weights, bias, found = np.zeros_like(model.weights), np.zeros(len(model.bias)), []
    for l1 in PATH:
        moved, momentum = weights, 1.0
        for _ in range(STEPS):
            residual = head.residual(np, (centred @ moved.T + bias).T, targets.T) / len(x)
            trial = moved - step * (residual @ centred)
            norms = np.sqrt(np.bincount(group_of, (trial**2).sum(axis=0)))
            trial = trial * np.maximum(0, 1 - step * l1 / np.maximum(norms, 1e-12))[group_of]
            bias = bias - 4 * residual.sum(axis=1)
            after = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            moved, weights, momentum = trial + (momentum - 1) / after * (trial - weights), trial, after
        found.append(np.array([bool(np.any(weights[:, features])) for features in groups]))
    return found


def main(path: str, data: str, *numbers: str) -> None:
    model = load_model(path)
    known = model.provenance["data"]
    splits = load_splits(data, target=known["target"], seed=known["seed"])
    train = splits.train
    fits = EncodedSet(encoded(model.encoder, train.features), train.labels)
    near = isinstance(model.encoder, ColumnsEncoder)
    penalties = {"near": Penalty(NEAR, True), "plain": Penalty(model.provenance["training"]["l2"])}
    penalty = penalties["near" if near else "plain"]

    def measured(found: LogisticCircuit) -> str:
        logits = found.logits(splits.test.features)
        one = quality(logits, splits.test.labels, len(model.classes), model.link)
        return f"{len(conditions_of(found))} conditions: log-loss {one.log_loss:.4f}, accuracy {one.accuracy:.4f}"

    print(f"{data}, as trained: {measured(model)}")
    group = group_path(model, train)
    for n in map(int, numbers or ("32", "16", "8")):
        chosen = next((mask for mask in group if mask.sum() >= n), group[-1])
        by_cost = partial(
            by_steps, model, fits, most=n, rank=lambda m: by_condition(m, costs(m, objective_of(m, fits, BACKEND)))
        )
        ways: dict[str, Callable[[], LogisticCircuit]] = {
            "cost": partial(by_cost, penalty=penalty),
            "contribution": partial(
                by_steps, model, fits, penalty=penalty, most=n, rank=lambda m: contributions(m, train)
            ),
            "group": partial(fitted, kept_in(model, chosen), fits, penalty),
            "cost, other penalty": partial(by_cost, penalty=penalties["plain" if near else "near"]),
        }
        for name, make in ways.items():
            started = monotonic()
            print(f"  {name:20} {measured(make())}  ({monotonic() - started:.1f} s)", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
