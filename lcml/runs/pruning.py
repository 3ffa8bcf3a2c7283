"""Pruning as training goes: how far, what the validation examples say of it, the last fit."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from lcml.backend import Backend
from lcml.inputs.columns import ColumnsEncoder
from lcml.learning.pruning import NEAR, Penalty, PrunedStep, prune, refitted
from lcml.learning.solver import never
from lcml.learning.state import EncodedSet
from lcml.model.metrics import Quality
from lcml.model.model import LogisticCircuit

_PATIENCE = 3  # steps beyond the tolerance, after which no fewer conditions are tried


@dataclass(frozen=True)
class Limits:
    """At most so many conditions, or parameters, or the fewest conditions with which the log-loss of the validation
    examples is no more than `tolerance` above what it is with all. One of them is given."""

    max_conditions: int | None = None
    max_parameters: int | None = None
    tolerance: float | None = None

    def given(self) -> dict[str, float]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, eq=False)
class Pruned:
    """The model, whose provenance has `record` as "pruning", how good it is on what it was fitted to, the steps to it,
    and which of them it is."""

    model: LogisticCircuit
    train: Quality
    steps: tuple[PrunedStep, ...]
    chosen: PrunedStep
    record: Mapping[str, Any]


def prune_on(
    model: LogisticCircuit,
    train: EncodedSet,
    valid: EncodedSet,
    everything: Callable[[], EncodedSet] | None,
    backend: Backend,
    limits: Limits,
    *,
    on_step: Callable[[PrunedStep], None] = lambda step: None,
    should_stop: Callable[[], bool] = never,
) -> Pruned:
    """The model within the limits, fitted to `train` as training was and, unless it is None, to `everything` in the
    end. The penalty is that of training, of a table's weights on the distance from those learned.

    Once should_stop() is true, with what there is by then.
    """
    near = isinstance(model.encoder, ColumnsEncoder)
    penalty = Penalty(NEAR if near else float(model.facts("training").get("l2") or 0.0), near)
    steps, worse = list[PrunedStep](), 0
    for step in prune(
        model,
        train,
        valid,
        penalty,
        backend,
        most_conditions=limits.max_conditions or 1,
        most_parameters=limits.max_parameters,
        every=limits.max_parameters is None,
        should_stop=should_stop,
    ):
        steps.append(step)
        on_step(step)
        if limits.tolerance is not None:
            worse = worse + 1 if step.valid.log_loss > steps[0].valid.log_loss + limits.tolerance else 0
        if worse == _PATIENCE or should_stop():
            break
    chosen = steps[-1]
    if limits.tolerance is not None:
        chosen = [step for step in steps if step.valid.log_loss <= steps[0].valid.log_loss + limits.tolerance][-1]
    fitted, train_quality = chosen.model, chosen.train
    if everything is not None and not should_stop():
        fitted, train_quality = refitted(fitted, everything(), penalty, backend, should_stop)
    record = {
        **limits.given(),
        "n_conditions_before": steps[0].n_conditions,
        "n_conditions": chosen.n_conditions,
        "valid_log_loss_before": steps[0].valid.log_loss,
        "valid_log_loss": chosen.valid.log_loss,
        "valid_accuracy": chosen.valid.accuracy,
    }
    fitted = replace(fitted, provenance={**model.provenance, "pruning": record})
    return Pruned(fitted, train_quality, tuple(steps), chosen, record)
