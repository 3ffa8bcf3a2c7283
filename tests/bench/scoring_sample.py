"""What scoring splits on a sample of the examples, in one stage or two, loses against scoring on all of them.

    LCML_DATA_DIR=... python -m tests.bench.scoring_sample [--circuit flat|windows] [--train-fraction 0.5]

For growing samples: the share of the gain, as all examples measure it, that the splits chosen by the sample have of the
gain of those chosen by all; the processor time relative to scoring on all. Circuits of MNIST after some rounds.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from lcml.backend import get_backend
from lcml.circuits import vtree as vtrees
from lcml.circuits.views import IdentityView, WindowView, window_vtree
from lcml.data import load_splits
from lcml.inputs.encoders import fit_encoder
from lcml.learning.learner import Learner
from lcml.learning.objective import Objective
from lcml.learning.parameters import Parametrisation
from lcml.learning.scoring import Candidates, race_splits, score_splits
from lcml.learning.selection import choose_splits
from lcml.learning.settings import LearnSettings
from lcml.learning.state import EncodedSet
from lcml.passes.feature_store import FeatureStore

SAMPLES = {"flat": (1_024, 2_048, 4_096, 8_192, 16_384, 27_000), "windows": (512, 1_024, 2_048, 4_096)}


def scores_of(candidates: Candidates) -> dict[tuple[int, int], float]:
    pairs = zip(candidates.element.tolist(), candidates.variable.tolist(), strict=True)
    return dict(zip(pairs, candidates.score.tolist(), strict=True))


def timed(function: Callable[[], Candidates]) -> tuple[Candidates, float]:
    began = time.process_time()
    return function(), time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--circuit", choices=list(SAMPLES), default="flat")
    parser.add_argument("--train-fraction", type=float, default=0.5)
    arguments = parser.parse_args()
    splits = load_splits("mnist", train_fraction=arguments.train_fraction)
    encoder = fit_encoder("scale", splits.train.features[:], shared=True)
    train, valid = (EncodedSet(encoder.encode(p.features[:]), p.labels) for p in (splits.train, splits.valid))
    backend = get_backend("auto")
    view = WindowView((1, 28, 28), (7, 7), grid=(4, 4), root=True)
    place, settings = (
        ((IdentityView(784), vtrees.grid(28, 28)), LearnSettings(rounds=3, l2=3e-5))
        if arguments.circuit == "flat"
        else ((view, window_vtree(view)), LearnSettings(rounds=4, l2=1e-4, growth=0.7, round_iterations=10))
    )
    learner = Learner([place], train, valid, 10, settings, backend)
    for _ in learner.grow():
        pass
    assert learner.state is not None
    store = FeatureStore(learner.parts, train.values, backend, precision="fixed16")
    parametrisation = Parametrisation(learner.parts, literals=True)
    objective = Objective(store, train.labels, 10, l2=settings.l2, parametrisation=parametrisation)
    theta, everything, support = learner.state.parameters, 10**6, settings.minimum_support
    present = sum(part.view.n_cells * part.circuit.n_elements for part in learner.parts)

    def gain_of(candidates: Candidates) -> float:
        chosen = choose_splits(learner.parts, candidates, round(settings.growth * present))
        return sum(truth.get((choice.split.element, choice.split.variable), 0.0) for choice in chosen)

    truth = scores_of(score_splits(objective, theta, minimum_support=support, per_element=everything))
    best, seconds = timed(lambda: score_splits(objective, theta, minimum_support=support))
    ideal = gain_of(best)
    order = np.random.default_rng(0).permutation(store.n_chunks)
    print(f"{len(train.labels)} examples, {learner.parts[0].circuit.n_elements} elements, {len(truth)} possible splits")
    for size in SAMPLES[arguments.circuit]:
        chunks = order[: -(-size // backend.chunk_examples)].tolist()
        for name, scoring in (("one stage", score_splits), ("two stages", race_splits)):
            found, spent = timed(lambda: scoring(objective, theta, minimum_support=support, chunks=chunks))  # noqa: B023
            gained = gain_of(found) / ideal
            print(f"{size:7} examples, {name}: {gained:6.1%} of the gain, {spent / seconds:5.1%} of the time")


if __name__ == "__main__":
    main()
