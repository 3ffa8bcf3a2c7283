"""`lcml train`."""

from typing import Annotated

import typer

from lcml.backend import BackendName, FeaturePrecision
from lcml.cli.common import DataDirOption, JsonOption, TargetOption, print_json
from lcml.cli.config_file import given_options
from lcml.errors import SettingsError
from lcml.inputs.encoders import EncoderKind
from lcml.learning.scoring import Criterion
from lcml.learning.settings import LearnSettings, Metric, SolverName
from lcml.model.head import Link
from lcml.runs.config import TrainConfig, VtreeKind
from lcml.runs.recipes import recipe_names

_RUN = TrainConfig()
_LEARN = LearnSettings()
_L2_PATH = list(_LEARN.l2_path)
_NONE: list[str] = []

_DATA, _SHAPE, _LIMITS, _CHOICE = "Data", "Structure", "Limits", "Model selection"
_WEIGHTS, _MACHINE, _RESULTS, _RECORD = "Weights", "Computation", "Results", "Tracking"

_NOT_IN_FILE = ("recipe", "config", "resume")
_FOR_TRACKING = ("tracking_uri", "experiment", "run_name")
_INTERRUPTED = 130
_NOT_OF_RUN = ("recipe", "config", "resume", "json", "quiet", "profile")


def train(
    ctx: typer.Context,
    data: Annotated[
        str,
        typer.Argument(
            help="A named set, a directory of IDX files or of features.npy and labels.npy, or an .npz, .csv or "
            ".parquet file."
        ),
    ] = _RUN.data,
    target: TargetOption = None,
    data_dir: DataDirOption = None,
    train_fraction: Annotated[
        float, typer.Option(help="Share of the training examples that is used.", rich_help_panel=_DATA)
    ] = _RUN.train_fraction,
    valid_fraction: Annotated[
        float, typer.Option(help="Share of those set aside for validation.", rich_help_panel=_DATA)
    ] = _RUN.valid_fraction,
    test_fraction: Annotated[
        float,
        typer.Option(help="Share of all set aside for the test, unless the set has its own.", rich_help_panel=_DATA),
    ] = _RUN.test_fraction,
    encoder: Annotated[
        EncoderKind,
        typer.Option(help="Raw values to [0, 1]: scaled, 0 or 1, or divided by --divisor.", rich_help_panel=_DATA),
    ] = _RUN.encoder,
    divisor: Annotated[
        float | None,
        typer.Option(help="For the encoder divide: what raw values are divided by.", rich_help_panel=_DATA),
    ] = None,
    image_shape: Annotated[
        str | None,
        typer.Option(
            metavar="ROWSxCOLUMNS",
            help="Of images or, with one row, sequences, where the data do not say it; also CxROWSxCOLUMNS.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    channels: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="A channel made of every image: grey, x+, x-, y+, y-, d+, d-, e+, e-, contrast+, contrast-, t25, t50, "
            "t75, root-grey, root-x+ and other roots of edges; repeat the option. Without any, the pixels alone.",
            rich_help_panel=_DATA,
        ),
    ] = _NONE,
    augment: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="Train on distorted copies too: copies=4,shift=1,cross,flip,rotation=10,scale=0.1,shear=5,elastic=1. "
            "Training accuracies are then those of the images and all copies.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    view: Annotated[
        list[str],
        typer.Option(
            metavar="SPEC",
            help="What a circuit reads; repeat it for several circuits: whole, whole,offset=1x1, "
            "window=7x7,stride=1x1,padding=0x0,grid=4x4,root,offset=0x1,channels=0+2,apart. By default whole.",
            rich_help_panel=_SHAPE,
        ),
    ] = _NONE,
    vtree: Annotated[
        VtreeKind,
        typer.Option(
            help="auto: grid for images, mutual-information for tables of a few hundred columns, else balanced.",
            rich_help_panel=_SHAPE,
        ),
    ] = _RUN.vtree,
    vtree_offset: Annotated[
        tuple[int, int], typer.Option(help="Rows and columns by which the grid is shifted.", rich_help_panel=_SHAPE)
    ] = _RUN.vtree_offset,
    criterion: Annotated[
        Criterion, typer.Option(help="What scores splits; variance is the paper's.", rich_help_panel=_SHAPE)
    ] = _LEARN.criterion,
    depth: Annotated[
        int, typer.Option(help="Levels that a split copies beside its path.", rich_help_panel=_SHAPE)
    ] = _LEARN.depth,
    growth: Annotated[
        float, typer.Option(help="Elements added per round, as a share of those present.", rich_help_panel=_SHAPE)
    ] = _LEARN.growth,
    minimum_support: Annotated[
        float, typer.Option(help="Least flow, in examples, of either half of a split.", rich_help_panel=_SHAPE)
    ] = _LEARN.minimum_support,
    score_examples: Annotated[
        int, typer.Option(help="Training examples that scoring reads per round.", rich_help_panel=_SHAPE)
    ] = _LEARN.score_examples,
    rounds: Annotated[int, typer.Option(help="Most rounds of splits.", rich_help_panel=_LIMITS)] = _LEARN.rounds,
    max_elements: Annotated[
        int | None, typer.Option(help="Most elements of the circuit.", rich_help_panel=_LIMITS)
    ] = _LEARN.max_elements,
    max_parameters: Annotated[
        int | None, typer.Option(help="Most parameters, over all classes.", rich_help_panel=_LIMITS)
    ] = _LEARN.max_parameters,
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Most seconds of learning.", rich_help_panel=_LIMITS)
    ] = _LEARN.time_limit,
    patience: Annotated[
        int, typer.Option(help="Rounds without improvement on validation that end growth.", rich_help_panel=_LIMITS)
    ] = _LEARN.patience,
    metric: Annotated[
        Metric, typer.Option(help="What the validation examples measure.", rich_help_panel=_CHOICE)
    ] = _LEARN.metric,
    l2: Annotated[float, typer.Option(help="Penalty while the circuit grows.", rich_help_panel=_CHOICE)] = _LEARN.l2,
    l2_path: Annotated[
        list[float],
        typer.Option(help="Penalty tried at the end, to convergence; repeat the option.", rich_help_panel=_CHOICE),
    ] = _L2_PATH,
    refit: Annotated[
        bool,
        typer.Option(help="Fit what did best once more, to training and validation examples.", rich_help_panel=_CHOICE),
    ] = _LEARN.refit,
    link: Annotated[
        Link, typer.Option(help="One-vs-rest sigmoid (the paper's) or softmax.", rich_help_panel=_WEIGHTS)
    ] = _LEARN.link,
    literal_weights: Annotated[
        bool, typer.Option(help="Whether literals carry weights as elements do.", rich_help_panel=_WEIGHTS)
    ] = _LEARN.literal_weights,
    solver: Annotated[
        SolverName, typer.Option(help="minibatch is for data larger than memory.", rich_help_panel=_WEIGHTS)
    ] = _LEARN.solver,
    round_iterations: Annotated[
        int, typer.Option(help="Most iterations of a fit while the circuit grows.", rich_help_panel=_WEIGHTS)
    ] = _LEARN.round_iterations,
    final_iterations: Annotated[
        int, typer.Option(help="Most iterations of a fit at the end.", rich_help_panel=_WEIGHTS)
    ] = _LEARN.final_iterations,
    tolerance: Annotated[
        float, typer.Option(help="Gradient at which a fit has converged.", rich_help_panel=_WEIGHTS)
    ] = _LEARN.tolerance,
    backend: Annotated[
        BackendName, typer.Option(help="auto: cupy where a CUDA device answers.", rich_help_panel=_MACHINE)
    ] = _RUN.backend,
    precision: Annotated[
        FeaturePrecision,
        typer.Option(
            help="Of features kept: 16-bit fixed point computed with in float32, or floats.", rich_help_panel=_MACHINE
        ),
    ] = _LEARN.precision,
    memory_budget: Annotated[
        int | None,
        typer.Option(
            metavar="MB",
            help="For features kept in memory; else most of it. Data of more than a quarter of it stay on disk.",
            rich_help_panel=_MACHINE,
        ),
    ] = _LEARN.memory_budget,
    seed: Annotated[
        int, typer.Option(help="The same seed gives the same model.", rich_help_panel=_MACHINE)
    ] = _LEARN.seed,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="The model; else NAME.lcml.", rich_help_panel=_RESULTS),
    ] = None,
    checkpoint_dir: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="For checkpoints; else checkpoints/ beside the model.", rich_help_panel=_RESULTS
        ),
    ] = None,
    export: Annotated[
        bool,
        typer.Option(
            help="At the end write the model as ONNX beside it too, and log that to the run.", rich_help_panel=_RESULTS
        ),
    ] = _RUN.export,
    no_tracking: Annotated[
        bool, typer.Option("--no-tracking", help="Do not record the run in MLflow.", rich_help_panel=_RECORD)
    ] = False,
    tracking_uri: Annotated[
        str | None,
        typer.Option(metavar="URI", help="MLflow's store; else sqlite:///mlruns/mlflow.db.", rich_help_panel=_RECORD),
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(metavar="NAME", help="MLflow's experiment; else lcml.", rich_help_panel=_RECORD)
    ] = None,
    run_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Else the data's name and a number.", rich_help_panel=_RECORD)
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Options chosen for a data set: {', '.join(recipe_names())}. --config and the command line win.",
        ),
    ] = None,
    config: Annotated[
        str | None, typer.Option(metavar="FILE.toml", help="Options, by their names; the command line wins.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN|PATH", help="Go on from the checkpoint of an MLflow run, or from a file.")
    ] = None,
    json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Print the seconds of every phase at the end.")] = False,
) -> None:
    """Learn a logistic circuit from DATA, save it, and record the run.

    DATA: digits, breast-cancer, wine, iris, mnist, fashion-mnist, or a path. Ctrl-C stops after the step at hand and
    saves the best model so far.
    """
    if recipe and resume:
        raise SettingsError("--recipe cannot change in a run that goes on; leave it out, or start a new run")
    given = given_options(ctx, train, not_in_file=_NOT_IN_FILE)
    options = {name: value for name, value in given.items() if name not in _NOT_OF_RUN}
    if no_tracking:  # typed, so it wins over what a file says of tracking
        options = {name: value for name, value in options.items() if name not in _FOR_TRACKING or ctx.params[name]}
    try:
        from lcml.cli import run_training

        prepared = run_training.prepare_run(options, resume)
        outcome, tracker, exit_code = run_training.run(prepared, quiet=given.get("quiet", quiet))
        exported = run_training.export_onnx(prepared, outcome, tracker)
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    if given.get("json", json):
        print_json(run_training.result(prepared, outcome, tracker, exported))
    else:
        run_training.print_summary(prepared, outcome, tracker, exported)
        if given.get("profile", profile):
            run_training.print_profile(outcome)
    if exit_code:
        raise typer.Exit(exit_code)
