"""The arguments of the classifier, and an `__init__` that takes them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import update_wrapper
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias

import numpy as np
from sklearn.utils import check_random_state

from lcml.backend import BackendName
from lcml.backend.machine import cores
from lcml.circuits.vtree import Vtree
from lcml.errors import SettingsError
from lcml.inputs.encoders import EncoderKind
from lcml.learning.fields import about, expected, same_setting, setting
from lcml.learning.settings import LearnSettings
from lcml.model.missing import MissingPolicy
from lcml.runs.config import TrainConfig, VtreeKind

RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None


def most_threads(n_jobs: int | None) -> int | None:
    """None for as many as there are cores; below 0 counts from all of them. Raises SettingsError for 0."""
    if n_jobs == 0:
        raise SettingsError("n_jobs: expected a number of threads, or one below 0 that counts from all cores, found 0")
    return n_jobs if n_jobs is None or n_jobs > 0 else max(1, cores() + 1 + n_jobs)


@dataclass(frozen=True, kw_only=True)
class Parameters(LearnSettings):
    """The arguments of the classifier: the settings of learning, and those of a training run that concern an array."""

    encoder: EncoderKind = same_setting(TrainConfig, "encoder")
    columns: Mapping[str, str] | None = setting(
        None,
        "By column of a data frame, what it is where that is not what it looks like: 'number', 'category', "
        "'ordinal:low<mid<high', 'date' or 'ignore'.",
    )
    class_weight: Mapping[Any, float] | Literal["balanced"] | None = setting(
        None,
        "How much an example counts by its class, beside sample_weight: a number by class, 1 where none is given, or "
        "balanced, with which every class counts the same.",
    )
    divisor: float | None = same_setting(TrainConfig, "divisor")
    vtree: VtreeKind | Vtree = same_setting(TrainConfig, "vtree")
    image_shape: tuple[int, ...] | None = setting(
        None,
        "(rows, columns), or (channels, rows, columns), where the features are the pixels of an image, row by row, or "
        "with one row a sequence.",
        least=1,
    )
    channels: Sequence[str] = same_setting(TrainConfig, "channels")
    pool: int = same_setting(TrainConfig, "pool")
    patches: Sequence[str] = same_setting(TrainConfig, "patches")
    augment: str | None = same_setting(TrainConfig, "augment")
    view: Sequence[str] = same_setting(TrainConfig, "view")
    missing: MissingPolicy = same_setting(TrainConfig, "missing")
    valid_fraction: float = setting(
        TrainConfig.valid_fraction,
        "Share of each class set aside to choose the model by; 0: the training examples choose.",
        least=0,
        below=1,
    )
    backend: BackendName = same_setting(TrainConfig, "backend")
    n_jobs: int | None = setting(
        None, "Most threads, in fitting and predicting: None or -1 for all cores, -2 for all but one, and so on."
    )
    warm_start: bool = setting(
        False,
        "Whether fit begins with structure and weights of the last one: with more rounds it goes on. For splits alone: "
        "trees are chosen all together.",
    )
    random_state: RandomState = setting(
        LearnSettings.seed,
        "The same whole number gives the same model; None, or a generator, another each time.",
        least=0,
    )
    seed: RandomState = setting(LearnSettings.seed, "Another name for random_state.", least=0)  # type: ignore[assignment]
    verbose: int = setting(0, "Whether a line per round is printed.", least=0)

    def learning(self) -> LearnSettings:
        """The settings of learning, with a seed drawn where random_state is no number. Raises SettingsError where both
        its names are given, and differ."""
        states = [self.random_state, self.seed]
        given = [state for state in states if state is None or state != LearnSettings.seed]
        if len(given) == 2 and self.random_state is not self.seed and self.random_state != self.seed:
            raise SettingsError(f"random_state and seed are one setting, found {states[0]} and {states[1]}; give one")
        values = {part.name: getattr(self, part.name) for part in fields(LearnSettings)}
        return LearnSettings(**values | {"seed": _drawn(given[0] if given else LearnSettings.seed)})


def _drawn(state: RandomState) -> int:
    if isinstance(state, int):
        return state
    if isinstance(state, np.random.Generator):
        return int(state.integers(_MOST_DRAWN))
    return int(check_random_state(state).randint(_MOST_DRAWN))


_MOST_DRAWN = 2**31 - 1

P = ParamSpec("P")


def takes(record: Callable[P, object]) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """The `__init__` that takes the fields of a record, as scikit-learn wants it: it keeps them as they are."""
    signature = inspect.signature(record)

    def decorate(named: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        def init(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> None:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            vars(self).update(bound.arguments)

        shown = inspect.signature(named).parameters["self"], *signature.parameters.values()
        init.__signature__ = inspect.Signature(shown, return_annotation=None)  # type: ignore[attr-defined]
        return update_wrapper(init, named, assigned=("__module__", "__name__", "__qualname__"), updated=())

    return decorate


def described(record: type) -> str:
    """The fields of a record as the section of a docstring, in numpydoc's form, for one indented by four."""
    lines = ["Parameters", "----------"]
    for part in fields(record):
        lines += [f"{part.name} : {expected(part)}, default {part.default!r}", f"    {about(part).help}"]
    return "".join(f"    {line}\n" for line in lines)
