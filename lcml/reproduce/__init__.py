"""The experiments of Liang & Van den Broeck, *Learning Logistic Circuits*, AAAI 2019, run again beside its claims.

Test images are used for nothing but the final accuracy of each row.
"""

from lcml.reproduce.experiments import TABLES, Row, rows_of
from lcml.reproduce.results import RowResult, check_same, load_row, row_path, save_row
from lcml.reproduce.runner import (
    EXPERIMENT,
    Setup,
    measure,
    prepare_circuit,
    row_settings,
    run_baseline,
    run_circuit,
    trained_model,
)
from lcml.reproduce.tables import write_picture, write_tables

__all__ = [
    "EXPERIMENT",
    "TABLES",
    "Row",
    "RowResult",
    "Setup",
    "check_same",
    "load_row",
    "measure",
    "prepare_circuit",
    "row_path",
    "row_settings",
    "rows_of",
    "run_baseline",
    "run_circuit",
    "save_row",
    "trained_model",
    "write_picture",
    "write_tables",
]
