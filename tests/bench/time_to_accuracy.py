"""Seconds from images to a classifier of MNIST: a flat circuit, LightGBM, and linear models, in one process.

    LCML_DATA_DIR=... python -m tests.bench.time_to_accuracy [--max-parameters 120000]

The circuit's time is that of `lcml train` with OPTIONS, chosen on validation images: encoding, growth on a sample, the
final fit of all, choosing by validation. All train on the same 54,000 images; the circuit must reach 97.75% of the test
images, which is what LightGBM reaches.
"""

import argparse
import time

from sklearn.linear_model import LogisticRegression, SGDClassifier

from lcml.runs.config import TrainConfig
from lcml.runs.preparation import prepare
from lcml.runs.recipes import recipe_options
from lcml.runs.training import make_learner, train
from lcml.tracking import NullTracker

GOAL = 0.9775

OPTIONS = {"growth_examples": 2, "round_iterations": 10, "l2_path": (2e-5,), "final_iterations": 12}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-parameters", type=int, default=120_000)
    parser.add_argument("--output", default="time-to-accuracy.lcml")
    arguments = parser.parse_args()
    own = {"max_parameters": arguments.max_parameters, "output": arguments.output}
    options = recipe_options("mnist-flat") | OPTIONS | own
    began = time.perf_counter()
    prepared = prepare(TrainConfig().with_options(options))
    outcome = train(prepared, make_learner(prepared), NullTracker())
    seconds = time.perf_counter() - began
    assert outcome.test is not None
    rows = [("lcml, flat circuit", outcome.test.accuracy, outcome.model.n_parameters, seconds)]

    splits = prepared.splits
    x, y = prepared.train.values[:], splits.train.labels
    tests, labels = prepared.encoder.encode(splits.test.features[:]), splits.test.labels
    for name, model in (
        ("scikit-learn logistic regression", LogisticRegression(C=0.1, max_iter=100, tol=1e-3)),
        ("scikit-learn SGD, 10 epochs", SGDClassifier(loss="log_loss", alpha=1e-5, max_iter=10, tol=None, n_jobs=2)),
    ):
        began = time.perf_counter()
        model.fit(x, y)
        rows.append((name, model.score(tests, labels), 7_850, time.perf_counter() - began))
    import lightgbm

    began = time.perf_counter()
    settings = {"objective": "multiclass", "num_class": 10, "verbose": -1, "seed": 0, "num_threads": 2}
    booster = lightgbm.train(settings, lightgbm.Dataset(x, y), 100)
    accuracy = float((booster.predict(tests).argmax(axis=1) == labels).mean())
    rows.append(("LightGBM, 100 rounds", accuracy, 100 * 10 * 31, time.perf_counter() - began))
    for name, accuracy, n_parameters, spent in rows:
        print(f"{name:34}{accuracy:8.2%}{n_parameters:10,}{spent:8.1f} s{spent / seconds:7.2f} x")
    assert outcome.test.accuracy >= GOAL, f"expected at least {GOAL:.1%} of the test images"


if __name__ == "__main__":
    main()
