"""What scoring splits on a sample of the examples loses against scoring on all of them.

    LCML_DATA_DIR=... python -m tests.bench.scoring_sample [--train-fraction 0.5]

For growing samples: the share of the gain, as all examples measure it, that the splits chosen by the sample have of the
gain of those chosen by all; the seconds relative to scoring on all. Flat circuit of MNIST after three rounds.
"""

import argparse
import time

import numpy as np

from lcml import vtree as vtrees
from lcml.backend import get_backend
from lcml.data import load_splits
from lcml.encoder import fit_encoder
from lcml.features import FeatureStore
from lcml.learner import EncodedSet, Learner
from lcml.objective import Objective
from lcml.parameters import Layout
from lcml.scoring import Candidates, score_splits
from lcml.selection import choose_splits
from lcml.settings import LearnSettings
from lcml.views import IdentityView

SAMPLES = (512, 1_024, 2_048, 4_096, 8_192, 16_384)


def scores_of(candidates: Candidates) -> dict[tuple[int, int], float]:
    pairs = zip(candidates.element.tolist(), candidates.variable.tolist(), strict=True)
    return dict(zip(pairs, candidates.score.tolist(), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train-fraction", type=float, default=0.5)
    arguments = parser.parse_args()
    splits = load_splits("mnist", train_fraction=arguments.train_fraction)
    encoder = fit_encoder("scale", splits.train.features[:], shared=True)
    train, valid = (EncodedSet(encoder.encode(p.features[:]), p.labels) for p in (splits.train, splits.valid))
    backend = get_backend("auto")
    learner = Learner(
        [(IdentityView(784), vtrees.grid(28, 28))], train, valid, 10, LearnSettings(rounds=3, l2=3e-5), backend
    )
    for _ in learner.grow():
        pass
    assert learner.state is not None
    store = FeatureStore(learner.parts, train.values, backend, precision="fixed16")
    layout = Layout.lifted(learner.parts, literals=True)
    objective = Objective(store, train.labels, 10, l2=3e-5, layout=layout)
    theta, everything = learner.state.parameters, 10**6
    room = round(0.35 * learner.parts[0].circuit.n_elements)
    began = time.perf_counter()
    full = score_splits(objective, theta, minimum_support=10, per_element=everything)
    seconds = time.perf_counter() - began
    truth = scores_of(full)
    best = score_splits(objective, theta, minimum_support=10)
    ideal = sum(truth[c.split.element, c.split.variable] for c in choose_splits(learner.parts, best, room))
    order = np.random.default_rng(0).permutation(store.n_chunks)
    print(f"{len(train.labels)} examples, {learner.parts[0].circuit.n_elements} elements, {len(truth)} possible splits")
    for size in SAMPLES:
        chunks = order[: size // backend.chunk_examples].tolist()
        began = time.perf_counter()
        sample = score_splits(objective, theta, minimum_support=10, chunks=chunks)
        spent = time.perf_counter() - began
        chosen = choose_splits(learner.parts, sample, room)
        gained = sum(truth.get((choice.split.element, choice.split.variable), 0.0) for choice in chosen)
        print(f"{size:7} examples: {gained / ideal:6.1%} of the gain, {spent / seconds:5.1%} of the time")


if __name__ == "__main__":
    main()
