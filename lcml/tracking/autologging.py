"""What `mlflow.sklearn.autolog()` does to scikit-learn's estimators, for ours."""

import sys
import threading
from typing import Any

_lock = threading.Lock()
_followed: dict[type, Any] = {}  # classes, and the settings of autologging by which they are recorded


def follow(estimator: type) -> bool:
    """Whether `mlflow.sklearn.autolog()` was called since this was asked last of `estimator`, whose methods MLflow has
    replaced then: call the one under way anew.

    MLflow records the estimators that scikit-learn lists, and has no way to add to that list. So its own function is
    called once more, with the same settings, while the list is longer.
    """
    sklearn: Any = sys.modules.get("mlflow.sklearn")
    if sklearn is None:
        return False
    from mlflow.utils.autologging_utils import AUTOLOGGING_INTEGRATIONS, autologging_is_disabled

    with _lock:
        settings = AUTOLOGGING_INTEGRATIONS[sklearn.FLAVOR_NAME]
        if autologging_is_disabled(sklearn.FLAVOR_NAME) or settings is _followed.get(estimator):
            return False
        listed, _followed[estimator] = sklearn._gen_estimators_to_patch, None
        sklearn._gen_estimators_to_patch = lambda: [*listed(), *_followed]
        try:
            sklearn.autolog(**settings)
        finally:
            sklearn._gen_estimators_to_patch = listed
        _followed.update(dict.fromkeys(_followed, AUTOLOGGING_INTEGRATIONS[sklearn.FLAVOR_NAME]))
    return True
