"""Passes over the data and seconds that variants of the solver need from the weights that a round of splits inherits.

    LCML_DATA_DIR=... python -m tests.bench.warm_starts [--train-fraction 0.2] [--repeats 2] [--problem flat]

Two problems: the flat circuit of MNIST, and windows of Fashion-MNIST with square roots, one circuit per channel. They
are grown for some rounds, then split once more. A variant is timed until its loss (penalty included) exceeds that of a
long run by less than a share. The variants run in one process, one after the other, all of them before any is repeated.
A pass that only new features need to be read for counts as their share of all.
"""

import argparse
import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from lcml.backend import get_backend
from lcml.circuits import vtree as vtrees
from lcml.circuits.parts import GrownPart
from lcml.circuits.views import IdentityView, View, WindowView, window_vtree
from lcml.circuits.vtree import Vtree
from lcml.data import load_splits
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoders import fit_encoder
from lcml.inputs.encoding import Encoder
from lcml.learning.learner import Learner
from lcml.learning.objective import Objective
from lcml.learning.parameters import Parameters, Parametrisation
from lcml.learning.preconditioner import Preconditioner
from lcml.learning.scoring import score_splits
from lcml.learning.selection import apply_to_parts, choose_splits
from lcml.learning.settings import LearnSettings
from lcml.learning.solver import SolverSettings, minimise
from lcml.learning.state import EncodedSet
from lcml.passes.feature_store import FeatureStore

from .solvers import SHARES, Counted, Enough

CHANNELS = ("grey", "x+", "x-", "y+", "y-")
HARD = SolverSettings(200, 1e-9)


def preconditioned(
    centred: bool, is_open: NDArray[np.bool_] | None, objective: Objective, start: Parameters
) -> Preconditioner:
    """The scale alone, with or without centring; the weights that are not open are held fast."""
    objective.terms = replace(objective.terms, has_roots=False)
    bound = objective.curvature_bound(start)
    mean = (bound.weights - objective.l2) / bound.bias[:, None] * centred
    diagonal = bound.weights - mean**2 * bound.bias[:, None]
    scale = 1 / np.sqrt(np.maximum(diagonal, 1e-3 * diagonal.mean(axis=1, keepdims=True)))
    if is_open is not None:
        scale = scale * is_open
    none = objective.features.backend.empty((len(scale), 0, scale.shape[1]), objective.features.dtype)
    return Preconditioner(objective, mean, scale, 1 / np.sqrt(bound.bias), none, np.zeros((len(scale), 0)))


def by_diagonal(objective: Counted, start: Parameters, centred: bool = False, memory: int = 10) -> None:
    with patch.object(Preconditioner, "at", functools.partial(preconditioned, centred, None)):
        minimise(objective, start, replace(HARD, memory=memory))


def by_exact_curvature(objective: Counted, start: Parameters) -> None:
    """As lcml, for roots too in the variables of linear features."""
    objective.terms = replace(objective.terms, has_roots=False)
    minimise(objective, start, HARD)


def new_first(objective: Counted, start: Parameters, is_new: NDArray[np.bool_], n_steps: int, full: bool) -> None:
    """Steps of the new features' weights and the bias alone, then of all."""
    share = float(is_new.mean())
    few = Counted(
        objective.features, objective.labels, 10, l2=objective.l2, parametrisation=objective.parametrisation
    ).start()
    with patch.object(Preconditioner, "at", functools.partial(preconditioned, True, is_new)):
        start = minimise(few, start, SolverSettings(n_steps, 1e-9)).parameters
    objective.passes, objective.began = few.passes * share, objective.began + few.spent() * (1 - share)
    if full:
        minimise(objective, start, HARD)
    else:
        by_diagonal(objective, start)


def new_weights(before: Learner, grown: Sequence[GrownPart]) -> NDArray[np.bool_]:
    """Of the plain parametrisation, which weights belong to features that the round of splits made."""
    marks = []
    for old, new in zip(before.parts, grown, strict=True):
        flows = new.part.flows
        stays = new.unchanged[flows] & old.weighted[new.origin[flows]]
        marks.append(np.tile(~stays, old.view.n_cells))
    return np.concatenate(marks)


def compare(
    name: str,
    places: list[tuple[View, Vtree]],
    encoder: Encoder,
    data: str,
    fraction: float,
    repeats: int,
    **options: Any,
) -> None:
    splits = load_splits(data, train_fraction=fraction)
    train, valid = (EncodedSet(encoder.encode(p.features[:]), p.labels) for p in (splits.train, splits.valid))
    backend = get_backend("auto")
    settings = LearnSettings(patience=99, **options)
    learner = Learner(places, train, valid, 10, settings, backend)
    for _ in learner.grow():
        pass
    assert learner.state is not None
    store = FeatureStore(learner.parts, train.values, backend, precision="fixed16")
    before = Parametrisation(learner.parts, literals=True)
    candidates = score_splits(
        Objective(store, train.labels, 10, l2=settings.l2, parametrisation=before),
        learner.state.parameters,
        minimum_support=10,
    )
    n_elements = sum(part.view.n_cells * part.circuit.n_elements for part in learner.parts)
    chosen = choose_splits(learner.parts, candidates, round(settings.growth * n_elements))
    grown = apply_to_parts(learner.parts, [choice.split for choice in chosen])
    start = before.inherit(grown, learner.state.parameters)
    store.grow(grown)
    parametrisation = Parametrisation(store.parts, literals=True)
    is_plain = start.weights.shape[1] == store.n_features

    def objective() -> Counted:
        return Counted(store, train.labels, 10, l2=settings.l2, parametrisation=parametrisation).start()

    plain = Objective(store, train.labels, 10, l2=settings.l2, parametrisation=parametrisation)
    best = minimise(plain, start, SolverSettings(1000, 1e-6, 40)).loss
    print(
        f"{name}: {len(train.labels)} examples, {start.weights.shape[1]} weights a class, optimum {best:.5f}",
        flush=True,
    )
    variants: dict[str, Callable[[Counted, Parameters], Any]] = {
        "diagonal": by_diagonal,
        "diagonal, 20 pairs": functools.partial(by_diagonal, memory=20),
        "diagonal, 40 pairs": functools.partial(by_diagonal, memory=40),
        "centred": functools.partial(by_diagonal, centred=True),
        "lcml": lambda o, start: minimise(o, start, HARD),
        "lcml, p (1 - p)": by_exact_curvature,
        "lcml, 40 pairs": lambda o, start: minimise(o, start, replace(HARD, memory=40)),
    }
    if is_plain:
        is_new = new_weights(learner, grown)
        print(f"{is_new.mean():.0%} of the features are new")
        for n_steps in (5, 15):
            for full in (False, True):
                variants[f"{n_steps} new first, {'lcml' if full else 'diagonal'}"] = functools.partial(
                    new_first, is_new=is_new, n_steps=n_steps, full=full
                )
    for repeat in range(repeats):
        for variant, run in variants.items():
            counted = objective()
            counted.goal = best * (1 + min(SHARES))
            with suppress(Enough):
                run(counted, start)
            cells = []
            for share in SHARES:
                reached = next(((t, n) for t, n, loss in counted.trace if loss <= best * (1 + share)), None)
                cells.append("   not reached" if reached is None else f"{reached[0]:5.1f} s {reached[1]:4.0f} passes")
            print(f"{repeat} {variant:24}" + " | ".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train-fraction", type=float, default=0.2)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--problem", choices=["flat", "windows"])
    arguments = parser.parse_args()
    grey = fit_encoder("scale", np.array([[0, 255]], dtype=np.uint8).repeat(392, axis=1), shared=True)
    common = arguments.train_fraction, arguments.repeats
    flat: list[tuple[View, Vtree]] = [(IdentityView(784), vtrees.grid(28, 28))]
    if arguments.problem != "windows":
        compare("flat", flat, grey, "mnist", *common, rounds=5, l2=3e-5)
    views = [WindowView((5, 28, 28), (5, 5), (1, 1), (2, 2), (4, 4), True, (channel,)) for channel in range(5)]
    apart: list[tuple[View, Vtree]] = [(view, window_vtree(view)) for view in views]
    encoder = ChannelEncoder(grey, (28, 28), CHANNELS)
    if arguments.problem != "flat":
        compare("windows", apart, encoder, "fashion-mnist", *common, rounds=3, growth=0.7, l2=2e-4)


if __name__ == "__main__":
    main()
