"""The generative start: the posterior by Bayes' rule before any fit."""

import numpy as np
import pytest

from lcml import LogisticCircuitClassifier
from lcml.backend import get_backend
from lcml.circuits import vtree as vtrees
from lcml.circuits.parts import initial_part
from lcml.circuits.views import IdentityView
from lcml.errors import SettingsError
from lcml.inputs.encoders import ScaleEncoder
from lcml.learning.generative import generative_start
from lcml.learning.parameters import Parametrisation
from lcml.learning.state import EncodedSet
from lcml.model.distribution import ProbabilisticCircuit
from lcml.model.head import Link
from lcml.model.model import LogisticCircuit
from tests.worlds import all_worlds


@pytest.mark.parametrize("n_variables", [1, 5])
@pytest.mark.parametrize("literal_weights", [True, False])
@pytest.mark.parametrize(("n_classes", "link"), [(2, "sigmoid"), (3, "sigmoid"), (3, "softmax")])
def test_the_start_is_the_posterior(n_variables: int, literal_weights: bool, n_classes: int, link: Link) -> None:
    generator = np.random.default_rng(0)
    x = generator.integers(0, 2, (60, n_variables)).astype(np.float32)
    labels, weights = generator.integers(0, n_classes, 60), generator.random(60)
    part = initial_part(IdentityView(n_variables), vtrees.balanced(n_variables))
    n_sets = 1 if n_classes == 2 else n_classes
    train = EncodedSet(x, labels, weights)
    start = generative_start(part, train, n_sets, link, literal_weights, get_backend("numpy"))
    fitted = Parametrisation([part], literal_weights).to_features(start)
    encoder = ScaleEncoder(np.zeros(n_variables), np.ones(n_variables))
    model = LogisticCircuit(encoder, (part,), tuple(range(n_classes)), fitted.weights, fitted.bias, link)
    worlds = all_worlds(n_variables)

    def joint(rows: np.ndarray) -> np.ndarray:
        likelihood = ProbabilisticCircuit.fit(part.circuit, x, weights * rows).log_likelihood(worlds)
        return np.asarray(np.log(weights @ rows + 1) + likelihood)

    of_class = np.array([joint(labels == k) for k in range(n_classes)]).T
    logits = model.logits(worlds, precision="float64")
    if link == "softmax":
        expected = np.exp(of_class) / np.exp(of_class).sum(axis=1, keepdims=True)
        assert model.predict_proba(worlds, precision="float64") == pytest.approx(expected)
    elif n_sets == 1:
        assert logits[:, 0] == pytest.approx(of_class[:, 1] - of_class[:, 0])
    else:
        others = np.array([joint(labels != k) for k in range(n_classes)]).T
        assert logits == pytest.approx(of_class - others)


def test_learning_starts_there_and_says_where_it_cannot() -> None:
    """The fit is convex: both starts end at one loss; the generative one is nearer to it."""
    generator = np.random.default_rng(1)
    x = generator.integers(0, 2, (300, 6)).astype(float)
    y = (x[:, 0] + x[:, 1] + generator.random(300) > 1.5).astype(int)
    losses = {}
    for init in ("zero", "generative"):
        for iterations in (1, 200):
            model = LogisticCircuitClassifier(
                init=init, rounds=0, round_iterations=iterations, l2=1e-4, l2_path=(1e-4,), valid_fraction=0
            )
            losses[init, iterations] = model.fit(x, y).history_[0].train_loss
    assert losses["generative", 200] == pytest.approx(losses["zero", 200], rel=1e-3)
    assert losses["generative", 1] < losses["zero", 1]
    with pytest.raises(SettingsError, match="init: generative is for one circuit"):
        LogisticCircuitClassifier(init="generative", view=["window=2x1"], image_shape=(6, 1)).fit(x, y)
