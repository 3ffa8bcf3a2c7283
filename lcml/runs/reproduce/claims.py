"""What the paper claims: Liang & Van den Broeck, *Learning Logistic Circuits*, AAAI 2019.

Tables 1 and 3 are test accuracy in percent, Table 2 numbers of parameters.
"""

from collections.abc import Mapping

_LARGE = (("mnist", 1.0), ("fashion-mnist", 1.0))
_ALL = tuple((data, fraction) for data in ("mnist", "fashion-mnist") for fraction in (1.0, 0.1, 0.02))

Setting = tuple[str, float]

ACCURACY: Mapping[str, Mapping[Setting, float]] = {
    "logistic regression": dict(zip(_LARGE, (85.3, 79.3), strict=True)),
    "kernel logistic regression": dict(zip(_LARGE, (97.7, 88.3), strict=True)),
    "random forest": dict(zip(_LARGE, (97.3, 81.6), strict=True)),
    "3-layer MLP": dict(zip(_LARGE, (97.5, 84.8), strict=True)),
    "RAT-SPN": dict(zip(_LARGE, (98.1, 89.5), strict=True)),
    "SVM with RBF kernel": dict(zip(_LARGE, (98.5, 87.8), strict=True)),
    "5-layer MLP": dict(zip(_ALL, (99.3, 98.2, 94.3, 89.8, 86.5, 80.9), strict=True)),
    "CNN": dict(zip(_ALL, (99.1, 98.1, 95.3, 90.7, 87.6, 83.8), strict=True)),
    "ResNet": dict(zip(_LARGE, (99.5, 93.6), strict=True)),
    "logistic circuit (binary)": dict(zip(_ALL, (97.4, 96.9, 94.1, 87.6, 86.7, 83.2), strict=True)),
    "logistic circuit (real-valued)": dict(zip(_ALL, (99.4, 97.8, 96.1, 91.3, 87.8, 86.0), strict=True)),
}
"""Percent of the test images, by the paper's name of the model and (data, share of the training images)."""

PARAMETERS: Mapping[str, Mapping[Setting, int | str]] = {
    "logistic regression": dict.fromkeys(_LARGE, "<1K"),
    "kernel logistic regression": dict(zip(_LARGE, (1_521_000, 3_930_000), strict=True)),
    "3-layer MLP": dict.fromkeys(_LARGE, 1_411_000),
    "RAT-SPN": dict(zip(_LARGE, (8_500_000, 650_000), strict=True)),
    "5-layer MLP": dict.fromkeys(_LARGE, 2_411_000),
    "CNN": dict.fromkeys(_LARGE, 2_196_000),
    "ResNet": dict.fromkeys(_LARGE, 4_838_000),
    "logistic circuit (binary)": dict(zip(_LARGE, (268_000, 614_000), strict=True)),
    "logistic circuit (real-valued)": dict(zip(_LARGE, (182_000, 467_000), strict=True)),
}
"""Parameters, to the thousand; as a text where the paper prints no number."""
