"""`lcml bench`."""

from typing import Annotated

import typer

from lcml.cli.common import DataDirOption, JsonOption, ModelArgument, option, print_json, print_table

_SEED = 0

_RATIOS = "to numpy", "to scipy"
_COLUMNS = "batch", "backend", "features/s", "G elements/s", *_RATIOS, "predictions/s", *_RATIOS
_MOST_EXAMPLES = 2**20  # larger batches are no faster, and inputs for them fill the memory


def bench(
    model: ModelArgument,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]",
            help="What to predict, named as in evaluate; by default random inputs in the range that the model encodes.",
        ),
    ] = None,
    batch_size: Annotated[
        list[int] | None,
        option(
            "Examples per call; again for more. [default: 1, 32, 1024, 8192]", metavar="N", min=1, max=_MOST_EXAMPLES
        ),
    ] = None,
    rounds: Annotated[int, option("Measurements of each; their median counts.", metavar="N", min=1)] = 3,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Measure how fast a model is on this machine: every backend, beside plain numpy and sparse matrices of scipy.

    features/s: examples per second whose features are computed; predictions/s: examples per second that are predicted.
    """
    from dataclasses import asdict

    from lcml.cli.inputs import read_examples
    from lcml.formats import load_model
    from lcml.inputs.rows import Matrix
    from lcml.runs.reproduce import benchmark

    loaded = load_model(model)
    sizes = tuple(batch_size or benchmark.BATCH_SIZES)
    inputs: Matrix
    if data is None:
        inputs = benchmark.random_inputs(loaded.encoder, max(sizes), _SEED)
    else:
        inputs = read_examples(loaded, data, data_dir=data_dir, require_labels=False).features
    backends = benchmark.available_backends()
    speeds = benchmark.measure(loaded, inputs, backends, sizes, rounds)
    facts = {
        "model_path": model,
        "inputs": "random" if data is None else data,
        "n_elements": loaded.n_elements,
        "n_features": sum(part.n_features for part in loaded.parts),
        "n_element_evaluations": benchmark.element_evaluations(loaded),
        "devices": {backend.name: backend.device for backend in backends},
    }
    if json:
        return print_json({**facts, "speeds": [asdict(speed) for speed in speeds]})
    typer.echo(
        f"{facts['n_features']} features; {facts['n_element_evaluations']} element evaluations per example; "
        f"{facts['inputs']} inputs"
    )
    rows = []
    for speed in speeds:
        features = round(speed.features_per_second), speed.element_evaluations_per_second / 1e9
        feature_ratios = speed.features_to_numpy, speed.features_to_scipy_sparse
        ratios = speed.predictions_to_numpy, speed.predictions_to_scipy_sparse
        predictions = round(speed.predictions_per_second), *ratios
        rows.append((speed.batch_size, speed.backend, *features, *feature_ratios, *predictions))
    print_table(_COLUMNS, rows)
    return None
