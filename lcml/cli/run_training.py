"""What `lcml train` does once its options are known. Heavy to import: the command does so when it runs."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from typing import Any

import typer

from lcml.backend.machine import peak_memory_mb
from lcml.cli import run_export
from lcml.cli.common import note, open_backend, print_table, require_packages
from lcml.cli.progress import TrainProgress
from lcml.cli.resume import resume
from lcml.cli.run_export import Exported
from lcml.cli.signals import StopSignals
from lcml.data.raw import listed
from lcml.errors import MissingDependencyError, TrackingError
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoding import Encoder
from lcml.learning.learner import Learner
from lcml.learning.table_learner import TableLearner
from lcml.model.head import THRESHOLD
from lcml.runs.config import TrainConfig
from lcml.runs.preparation import Prepared, prepare
from lcml.runs.records import RoundRecord
from lcml.runs.training import Outcome, make_learner, train
from lcml.tracking import MlflowTracker, NullTracker, Tracker, store_uri, ui_hint
from lcml.tracking.courier import AnySender, sender_for

_UI = "http://127.0.0.1:5000"  # where `mlflow ui` serves its pages by default


@contextmanager
def prepared_run(options: Mapping[str, Any], resumed: str | None) -> Iterator[tuple[Prepared, AnySender | None]]:
    """Everything in memory, or on the cluster, for the run of these `options`, or the one resumed with them changed;
    and what will send its record, None without tracking.
    """
    checkpoint, path = (None, None) if resumed is None else resume(resumed, options)
    config = TrainConfig().with_options(options) if checkpoint is None else checkpoint.config
    if config.export:
        run_export.require_exporter()
    with ExitStack() as stack:
        sender = None
        if not config.no_tracking:
            require_packages("matplotlib", extra="tracking", purpose="tracking (--no-tracking does without it)")
            sender = stack.enter_context(closing(sender_for(store_uri(config.tracking_uri))))
        open_backend(config.backend)
        engine = None if config.cluster is None else stack.enter_context(_connected(config.cluster))
        prepared = prepare(config, checkpoint, path, engine)
        for sentence in prepared.splits.notes:
            note(sentence)
        yield prepared, sender


def _connected(address: str) -> AbstractContextManager[Any]:
    try:
        from lcml.data.cluster.engine import connected
    except ImportError as error:
        raise MissingDependencyError("dask[distributed]", "dask", "training on a cluster") from error
    return connected(address)


def run(prepared: Prepared, sender: AnySender | None, *, quiet: bool) -> tuple[Outcome, Tracker, int]:
    """Train under the eyes of the user; what came out, where it is recorded, and the exit code."""
    config = prepared.config
    with watched(prepared, quiet=quiet) as (progress, signals, should_stop):
        learner = make_learner(prepared, should_stop)
        tracker: Tracker = NullTracker()
        if sender is not None:
            tracker = MlflowTracker(config.tracking_uri, config.experiment, notify=progress.say, sender=sender)
        on_round = progress.round if quiet else _told(progress, learner)
        outcome = train(prepared, learner, tracker, on_round=on_round, should_stop=should_stop)
    return outcome, tracker, signals.exit_code


def _told(progress: TrainProgress, learner: Learner | TableLearner) -> Callable[[RoundRecord], None]:
    """What shows a round, and says once where features do not fit the memory."""
    said: list[int] = []

    def on_round(record: RoundRecord) -> None:
        progress.round(record)
        if record.phase == "grow" and isinstance(learner, Learner) and not said and (size := learner.bytes_not_kept()):
            said.append(size)
            progress.say(
                f"features would take {size / 2**20:,.0f} MB, more than there is for them: from here on every pass "
                "computes them again, which takes longer; --precision fixed8, a larger --memory-budget or a smaller "
                "--max-parameters keep them"
            )

    return on_round


@contextmanager
def watched(prepared: Prepared, *, quiet: bool) -> Iterator[tuple[TrainProgress, StopSignals, Callable[[], bool]]]:
    """The progress of a training as the user sees it, the signals that stop it, and its should_stop."""
    state = prepared.checkpoint.state
    first_round = 0 if state is None else state.round + 1
    prunes, averages = prepared.config.prune_to is not None, prepared.config.learn.average
    shown = TrainProgress(prepared.config.learn, first_round, quiet=quiet, prunes=prunes, averages=averages)
    with shown as progress, StopSignals() as signals:

        def should_stop() -> bool:
            progress.tick()
            return signals.requested

        yield progress, signals, should_stop


def export_onnx(prepared: Prepared, outcome: Outcome, tracker: Tracker) -> Exported | None:
    """With --export, unless it was stopped: write the model as ONNX beside itself and log that to the run.

    Where the store does not take it, the user is told how to send it later.
    """
    config = prepared.config
    if not config.export or outcome.stopped:
        return None
    output = config.model_path.with_suffix(".onnx")
    exported = run_export.export_file(config.model_path, output)
    if tracker.uri is None:
        return exported
    uri = store_uri(config.tracking_uri)
    try:
        if tracker.run_id is None:
            raise TrackingError(f"no run has been recorded at {tracker.uri} yet")
        return run_export.log_exported(exported, tracker.run_id, uri)
    except TrackingError as error:
        typer.echo(f"{output} is not logged: {error}. Do so later with `lcml export --run RUN`", err=True)
    return exported


def result(prepared: Prepared, outcome: Outcome, tracker: Tracker, exported: Exported | None) -> dict[str, Any]:
    """What --json prints."""
    config, splits, model, test = prepared.config, prepared.splits, outcome.model, outcome.test
    return {
        "data": config.data,
        **splits.sizes,
        "columns": _by_kind(model.encoder),
        "n_variables": model.encoder.n_outputs,
        "n_classes": len(splits.classes),
        "n_parts": len(model.parts),
        "n_elements": model.n_elements,
        "n_or_gates": model.n_or_gates,
        "n_parameters": model.n_parameters,
        "rounds": outcome.rounds,
        "train_accuracy": outcome.train_accuracy,
        "valid_accuracy": outcome.valid.accuracy,
        "valid_f1_macro": outcome.valid.f1_macro,
        "test_accuracy": None if test is None else test.accuracy,
        "test_f1_macro": None if test is None else test.f1_macro,
        "valid_ece": outcome.valid.ece,
        "test_ece": None if test is None else test.ece,
        "threshold": model.threshold,
        "seconds": outcome.seconds,
        "profile": dict(outcome.profile),
        "peak_memory_mb": peak_memory_mb(),
        "backend": prepared.backend.name,
        "device": prepared.backend.device,
        "seed": config.learn.seed,
        "stopped": outcome.stopped,
        "model_path": str(config.model_path),
        "checkpoint_path": str(prepared.checkpoint_path),
        "run_id": tracker.run_id,
        "tracking_uri": tracker.uri,
        "report_path": None if outcome.report is None else str(outcome.report),
        "onnx_path": None if exported is None else str(exported.report.path),
        "onnx_model_id": None if exported is None else exported.model_id,
    }


def _by_kind(encoder: Encoder) -> dict[str, list[str]]:
    """The names of a table's columns under their kinds; none where it is no table."""
    found: dict[str, list[str]] = {}
    for column in encoder.columns if isinstance(encoder, ColumnsEncoder) else ():
        found.setdefault(column.kind, []).append(column.name)
    return found


def print_summary(prepared: Prepared, outcome: Outcome, tracker: Tracker, exported: Exported | None) -> None:
    """What came out and what to do next."""
    values = result(prepared, outcome, tracker, exported)
    accuracy = {name: values[f"{name}_accuracy"] for name in ("test", "valid", "train")}
    figures = ", ".join(f"{name} {share:.2%}" for name, share in accuracy.items() if share is not None)
    errors = {name: values[f"{name}_ece"] for name in ("test", "valid")}
    calibration = ", ".join(f"{name} {error:.4f}" for name, error in errors.items() if error is not None)
    typer.echo(
        f"{'Stopped' if outcome.stopped else 'Trained'} on {values['data']}: accuracy {figures}; "
        f"{values['n_elements']:,} elements, {values['n_parameters']:,} parameters, {values['rounds']} rounds, "
        f"{values['seconds']:.1f} s"
    )
    if calibration:  # an older checkpoint does not know it
        typer.echo(f"Calibration error {calibration}")
    if values["threshold"] != THRESHOLD:
        typer.echo(
            f"Threshold  {values['threshold']:.4g}: {outcome.model.classes[1]} where its probability is above it"
        )
    for kind, names in values["columns"].items():
        typer.echo(f"{kind.capitalize():10} {listed(names)}")
    typer.echo(f"Model      {values['model_path']}")
    if outcome.report is not None:
        typer.echo(f"Report     {outcome.report}")
    if exported is not None:
        logged = "" if exported.model_id is None else f", logged as models:/{exported.model_id}"
        typer.echo(f"ONNX       {values['onnx_path']}{logged}")
    typer.echo(f"Checkpoint {values['checkpoint_path']}")
    if tracker.uri is not None:
        typer.echo(f"Run        {tracker.run_id or 'not recorded yet'} at {tracker.uri}")
    typer.echo("\nNext:")
    for line in _next_steps(prepared, outcome, tracker, exported):
        typer.echo(f"  {line}")


def print_profile(outcome: Outcome) -> None:
    """Seconds of every phase, and their share of all."""
    total = sum(outcome.profile.values())
    rows = [(phase, f"{seconds:.2f}", f"{seconds / total:.0%}") for phase, seconds in outcome.profile.items()]
    print_table(("phase", "seconds", "share"), [*rows, ("all", f"{total:.2f}", "100%")])


def _next_steps(prepared: Prepared, outcome: Outcome, tracker: Tracker, exported: Exported | None) -> list[str]:
    config, model = prepared.config, shlex.quote(str(prepared.config.model_path))
    data = shlex.quote(config.data)
    if config.data_dir is not None:
        data += f" --data-dir {shlex.quote(config.data_dir)}"
    steps = []
    if outcome.stopped:
        steps.append(f"lcml train --resume {shlex.quote(str(prepared.checkpoint_path))}")
    if isinstance(tracker, MlflowTracker):
        uri = store_uri(config.tracking_uri)
        steps.append(ui_hint(uri, tracker.experiment_id))
        if not uri.startswith("http"):
            steps.append(f"open {ui_hint(_UI, tracker.experiment_id)}")
    onnx = shlex.quote(str(config.model_path.with_suffix(".onnx")))
    steps += [
        f"lcml evaluate {model} {data}",
        f"lcml inspect {model}",
        f"lcml explain {model} {data}",
    ]
    if exported is not None:
        steps.append(f"lcml serve {onnx}")
    elif config.missing != "expected":
        steps.append(f"lcml export {model} -o {onnx}")
    if exported is not None and exported.model_id is not None:
        steps.append(f"lcml register {exported.run_id} --name NAME --alias champion")
    return steps
