"""`lcml evaluate`."""

from time import monotonic
from typing import TYPE_CHECKING

import typer

from lcml.backend.machine import peak_memory_mb
from lcml.cli.common import (
    BackendOption,
    DataArgument,
    DataDirOption,
    JsonOption,
    ModelArgument,
    RowsOption,
    TargetOption,
    note,
    open_backend,
    print_json,
    print_table,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_CLASSES = 50  # a table with a line per class is printed for up to so many


def evaluate(
    model: ModelArgument,
    data: DataArgument,
    target: TargetOption = None,
    data_dir: DataDirOption = None,
    rows: RowsOption = None,
    json: JsonOption = False,
    backend: BackendOption = "auto",
) -> None:
    """Measure a model: accuracy, macro F1, log-loss and expected calibration error on the test rows of the data trained
    on, or on other data."""
    from lcml.cli.inputs import rows_to_measure
    from lcml.formats import load_model
    from lcml.model.metrics import confusion_matrix, quality

    started = monotonic()
    device = open_backend(backend)
    loaded = load_model(model)
    found = rows_to_measure(loaded, data, rows, target=target, data_dir=data_dir)
    examples = found.examples
    part = "test" if found.which == "all" and found.new else found.which
    note(found.warning)
    logits = loaded.logits(examples.features, device)
    measured = quality(logits, examples.labels, len(loaded.classes), loaded.link, threshold=loaded.threshold)
    seconds = monotonic() - started
    if json:
        return print_json(
            {
                "data": data,
                "rows": found.which,
                "warning": found.warning,
                f"n_{part}": len(examples),
                "n_variables": loaded.encoder.n_outputs,
                "n_classes": len(loaded.classes),
                "n_elements": loaded.n_elements,
                "n_or_gates": loaded.n_or_gates,
                "n_parameters": loaded.n_parameters,
                f"{part}_accuracy": measured.accuracy,
                f"{part}_f1_macro": measured.f1_macro,
                f"{part}_log_loss": measured.log_loss,
                f"{part}_ece": measured.ece,
                "seconds": seconds,
                "peak_memory_mb": peak_memory_mb(),
                "backend": device.name,
                "device": device.device,
                "seed": loaded.provenance.get("seed"),
                "model_path": model,
            }
        )
    typer.echo(
        f"{model} on {data}: {measured.accuracy:.2%} of {len(examples)} examples right ({found.which} rows), "
        f"macro F1 {measured.f1_macro:.4f}, log-loss {measured.log_loss:.4f}, "
        f"calibration error {measured.ece:.4f}, {seconds:.1f} s on {device.device}"
    )
    if len(loaded.classes) <= _MOST_CLASSES:
        counts = confusion_matrix(loaded.codes(logits), examples.labels, len(loaded.classes))
        _print_classes(loaded.classes, counts)
    return None


def _print_classes(classes: tuple[int | str, ...], counts: "NDArray[np.int64]") -> None:
    """A line per class: precision TP / predicted, recall TP / examples; empty where there is none."""
    rows = []
    for k, name in enumerate(classes):
        right, predicted, present = int(counts[k, k]), int(counts[:, k].sum()), int(counts[k].sum())
        precision, recall = (right / total if total else None for total in (predicted, present))
        rows.append((str(name), precision, recall, present))
    print_table(("class", "precision", "recall", "examples"), rows)
