"""Who is compared on tables: every model with its defaults, given a frame in the encoding that it wants.

The peers are no dependencies of lcml:

    pip install lightgbm catboost interpret-core
"""

import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

import lcml

N_JOBS = 2
MAX_ITERATIONS = 1000
"""Of logistic regression, so that it converges: its default of 100 does not on every set."""


@dataclass(frozen=True)
class Contender:
    """encode: a frame as the model wants it, without looking at labels; make: the classifier, unfitted, for such a
    frame; size: how large it is when fitted, in `unit`."""

    title: str
    package: str
    unit: str
    encode: Callable[[Any], Any]
    make: Callable[[Any], Any]
    size: Callable[[Any], int]

    @property
    def version(self) -> str | None:
        """That of the package, None where it is not installed; of lcml, whose sources change, with their digest."""
        if self.package == "lcml":
            sources = sorted(Path(lcml.__file__).parent.rglob("*.py"))
            digest = blake2b(b"".join(path.read_bytes() for path in sources), digest_size=4)
            return f"{lcml.__version__}+{digest.hexdigest()}"
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None


def as_it_is(frame: Any) -> Any:
    return frame


def categories(frame: Any) -> Any:
    """Numbers as floats, the rest as pandas categories; gaps are NaN in both."""
    numbers = _numbers(frame)
    spelled = frame.astype({name: "float64" if name in numbers else object for name in frame})
    return spelled.where(spelled.notna(), np.nan).astype({name: "category" for name in frame if name not in numbers})


def texts(frame: Any) -> Any:
    """Numbers as floats, the rest as text, where a gap is empty."""
    numbers = _numbers(frame)
    filled = frame.fillna({name: "" for name in frame if name not in numbers})
    return filled.astype({name: "float64" if name in numbers else object for name in frame})


def _numbers(frame: Any) -> list[str]:
    return list(frame.select_dtypes("number"))


def _one_hot(frame: Any, *after: Any) -> Any:
    """Numbers with gaps filled by the median and marked, then `after`; categories one-hot, a gap as one of them."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    numbers = _numbers(frame)
    return make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median", add_indicator=True), *after), numbers),
        (OneHotEncoder(handle_unknown="ignore"), [name for name in frame if name not in numbers]),
    )


def _logistic(frame: Any) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(_one_hot(frame, StandardScaler()), LogisticRegression(max_iter=MAX_ITERATIONS))


def _forest(frame: Any) -> Any:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline

    return make_pipeline(_one_hot(frame), RandomForestClassifier(n_jobs=N_JOBS, random_state=0))


def _hist_gradient_boosting(frame: Any) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)


def _lightgbm(frame: Any) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=N_JOBS, random_state=0, verbose=-1)


def _catboost(frame: Any) -> Any:
    from catboost import CatBoostClassifier

    named = [name for name in frame if name not in _numbers(frame)]
    return CatBoostClassifier(
        cat_features=named, thread_count=N_JOBS, random_state=0, verbose=False, allow_writing_files=False
    )


def _ebm(frame: Any) -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier

    return ExplainableBoostingClassifier(n_jobs=N_JOBS, random_state=0)


def _lcml(frame: Any) -> Any:
    return lcml.LogisticCircuitClassifier(random_state=0)


CONTENDERS = {
    "logistic": Contender(
        "logistic regression", "scikit-learn", "parameters", categories, _logistic,
        lambda model: model[-1].coef_.size + model[-1].intercept_.size,
    ),
    "forest": Contender(
        "random forest", "scikit-learn", "leaves", categories, _forest,
        lambda model: sum(tree.get_n_leaves() for tree in model[-1].estimators_),
    ),
    "hgb": Contender(
        "HistGradientBoosting", "scikit-learn", "leaves", categories, _hist_gradient_boosting,
        lambda model: sum(tree.get_n_leaf_nodes() for round_ in model._predictors for tree in round_),
    ),
    "lightgbm": Contender(
        "LightGBM", "lightgbm", "leaves", categories, _lightgbm,
        lambda model: sum(tree["num_leaves"] for tree in model.booster_.dump_model()["tree_info"]),
    ),
    "catboost": Contender(
        "CatBoost", "catboost", "leaves", texts, _catboost, lambda model: int(model.get_tree_leaf_counts().sum())
    ),
    "ebm": Contender(
        "EBM", "interpret-core", "scores of bins", categories, _ebm,
        lambda model: sum(scores.size for scores in model.term_scores_),
    ),
    "lcml": Contender("lcml", "lcml", "parameters", as_it_is, _lcml, lambda model: model.model_.n_parameters),
}  # fmt: skip
