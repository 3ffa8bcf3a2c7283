"""A training run: learn, keep checkpoints, save the model, and record it all. Nothing here prints."""

import itertools
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import Any

import lcml
from lcml.arrays import FloatArray
from lcml.backend import evaluation_precision
from lcml.explain.names import variable_names
from lcml.files import remove_unfinished, write_atomically
from lcml.formats import save_model
from lcml.inputs.columns import ColumnsEncoder
from lcml.learning.learner import Learner
from lcml.learning.pruning import PrunedStep
from lcml.learning.selection import ChosenSplit
from lcml.learning.solver import never
from lcml.learning.state import Best, RoundReport
from lcml.learning.table_learner import TableLearner
from lcml.model.metrics import Quality, confusion_matrix, quality
from lcml.model.model import LogisticCircuit
from lcml.runs.checkpoint import save_checkpoint
from lcml.runs.figures import class_lines, class_metrics, final_metrics
from lcml.runs.preparation import Prepared
from lcml.runs.pruning import Limits, Pruned, prune_on
from lcml.runs.records import CHECKPOINT_TAG, MODEL_ARTIFACT, RoundRecord, dataset_record, history, split_lines
from lcml.runs.reference import with_reference
from lcml.runs.specs import Shape
from lcml.tracking import Status, Tracker

OnRound = Callable[[RoundRecord], None]


@dataclass(frozen=True, eq=False)
class Outcome:
    """A training's end. rounds: of splits; test: None without test examples; seconds: wall clock, those before a resume
    included; stopped: whether it was told to stop; profile: seconds of this process by phase; report: the page about
    the model, where one was asked for."""

    model: LogisticCircuit
    rounds: int
    train_accuracy: float
    valid: Quality
    test: Quality | None
    seconds: float
    stopped: bool
    profile: Mapping[str, float]
    report: Path | None = None


def make_learner(prepared: Prepared, should_stop: Callable[[], bool] = never) -> Learner | TableLearner:
    """The learner, at the beginning or, of splits, where the checkpoint stands. Raises what Learner raises."""
    if isinstance(prepared.encoder, ColumnsEncoder) and prepared.with_trees:
        return TableLearner(
            prepared.encoder,
            prepared.everything(),
            len(prepared.splits.train),
            len(prepared.splits.classes),
            prepared.config.learn,
            prepared.backend,
            should_stop=should_stop,
            engine=prepared.engine,
        )
    return Learner(
        prepared.checkpoint.places,
        prepared.train,
        prepared.valid,
        len(prepared.splits.classes),
        prepared.config.learn,
        prepared.backend,
        state=prepared.checkpoint.state,
        should_stop=should_stop,
        engine=prepared.engine,
    )


def train(
    prepared: Prepared,
    learner: Learner | TableLearner,
    tracker: Tracker,
    *,
    on_round: OnRound = lambda record: None,
    should_stop: Callable[[], bool] = never,
) -> Outcome:
    """Learn, save the model, and record the run; once should_stop() is true, with what there is by then.

    The run ends as `finishing` says. A checkpoint is written before the first fit and after every round of splits. The
    final path of penalties begins again after a resume. `learner` is that of make_learner, with the same should_stop.
    """
    run = _Run(prepared, tracker, learner)
    with finishing(tracker, should_stop):
        run.start()
        run.learn(on_round, should_stop)
        run.prune(on_round)
        return run.conclude(should_stop())


@contextmanager
def finishing(tracker: Tracker, is_stopped: Callable[[], bool]) -> Iterator[None]:
    """End the run FINISHED, KILLED (stopped, or KeyboardInterrupt) or FAILED."""
    status: Status = "FAILED"
    try:
        yield
        status = "KILLED" if is_stopped() else "FINISHED"
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        tracker.finish(status)


class _Run:
    """A training under way: the learner, and the record of its rounds."""

    def __init__(self, prepared: Prepared, tracker: Tracker, learner: Learner | TableLearner) -> None:
        self.prepared, self.tracker, self.learner = prepared, tracker, learner
        self.log: list[tuple[ChosenSplit, ...]] = list(prepared.checkpoint.log)
        self.rounds: list[RoundRecord] = list(prepared.checkpoint.rounds)
        self.profile = {"prepare": monotonic() - prepared.started}
        self._learned = monotonic()
        self._best: LogisticCircuit | None = None
        self._pruned: Pruned | None = None

    def start(self) -> None:
        """Open the run in the tracking store, the same one again after a resume; tidy up after killed ones."""
        prepared, checkpoint = self.prepared, self.prepared.checkpoint
        for directory in {prepared.config.model_path.parent, prepared.checkpoint_path.parent}:
            remove_unfinished(directory)
        backend = prepared.backend
        tags = {CHECKPOINT_TAG: str(prepared.checkpoint_path.resolve()), "lcml.data": prepared.splits.name}
        tags |= {"lcml.backend": backend.name, "lcml.device": backend.device}
        self.tracker.start(
            checkpoint.run_name,
            prepared.config.given(),
            tags,
            dataset_record(prepared.splits),
            run_id=checkpoint.run_id,
        )

    def learn(self, on_round: OnRound, should_stop: Callable[[], bool]) -> None:
        """Every round and the final path of penalties, with their records and checkpoints."""
        self._save_checkpoint()
        for report in self.learner.grow():
            if report.splits:
                self.log.append(report.splits)
            self._record(report, report.round, on_round)
            if report.round > 0 or not should_stop():  # a first fit cut short is no place to go on from
                self._save_checkpoint()
        for step, report in enumerate(self.learner.refine()):
            self._record(report, step, on_round)
        prepared = self.prepared
        if prepared.config.learn.refit and isinstance(self.learner, Learner) and not self._is_to_prune():
            as_they_are = prepared.config.augmentation is None and prepared.engine is None
            for report in self.learner.refit(None if as_they_are else prepared.everything()):
                self._record(report, report.round, on_round)
        self._learned = monotonic()

    def prune(self, on_round: OnRound) -> None:
        """Where the best model has more parameters than prune_to: one with fewer, unless it is stopped meanwhile."""
        prepared, learner = self.prepared, self.learner
        if not isinstance(learner, Learner) or learner.is_stopping() or not self._is_to_prune():
            return
        assert learner.state is not None
        began, best, n_steps = monotonic(), learner.state.best, itertools.count(learner.state.round + 1)
        self._best = self._best_model()
        learner.release()

        def on_step(step: PrunedStep) -> None:
            self._record(_report_of(step, best), next(n_steps), on_round)

        found = prune_on(
            self._best,
            prepared.train,
            prepared.valid,
            prepared.everything if prepared.config.learn.refit else None,
            prepared.backend,
            Limits(max_parameters=prepared.config.prune_to),
            on_step=on_step,
            should_stop=learner.is_stopping,
        )
        if not learner.is_stopping():
            self._pruned = found
        self._learned = monotonic()
        self.profile["prune"] = self._learned - began

    def _is_to_prune(self) -> bool:
        """Whether the best model has more parameters than it may have; pruning fits it once more itself."""
        most, learner = self.prepared.config.prune_to, self.learner
        return most is not None and isinstance(learner, Learner) and learner.n_parameters_of_best() > most

    def conclude(self, stopped: bool) -> Outcome:
        """Save the best model, then test it and record what came out."""
        config, splits, backend = self.prepared.config, self.prepared.splits, self.prepared.backend
        model = self._model(stopped).with_missing(config.missing, splits.train.features, backend)
        model = with_reference(model, splits.train.features, backend)
        save_model(model, config.model_path)

        examples = splits.test if len(splits.test) else splits.valid
        logits = model.logits(examples.features, backend, evaluation_precision(config.learn.precision))
        measured = quality(logits, examples.labels, len(splits.classes), model.link, threshold=model.threshold)
        assert self.learner.state is not None
        train_accuracy, valid = self._reached()
        outcome = Outcome(
            model=model,
            rounds=max(self.learner.state.round, self.learner.state.best.round),
            train_accuracy=train_accuracy,
            valid=valid,
            test=measured if len(splits.test) else None,
            seconds=self._seconds(),
            stopped=stopped,
            profile=self.profile,
        )
        self.profile["save and test"] = monotonic() - self._learned
        if self.tracker.uri is not None:
            self._record_model(outcome, logits)
        return replace(outcome, report=self._write_report(model)) if config.report else outcome

    def _reached(self) -> tuple[float, Quality]:
        """Accuracy on the training examples, and what the validation examples say, of the model kept."""
        assert self.learner.state is not None
        if self._pruned is not None:
            return self._pruned.train.accuracy, self._pruned.chosen.valid
        return self.learner.state.best.train_accuracy, self.learner.state.best.valid

    def _model(self, stopped: bool) -> LogisticCircuit:
        """The model kept, and where it comes from."""
        model = self._best or self._best_model()
        assert self.learner.state is not None
        best, (train_accuracy, valid) = self.learner.state.best, self._reached()
        learned = {
            "rounds": max(self.learner.state.round, best.round),
            "best_round": best.round,
            "l2": best.l2,
            **({} if best.l2_squares is None else {"l2_squares": best.l2_squares, "squares_scale": best.scale}),
            "train_accuracy": train_accuracy,
            "valid_accuracy": valid.accuracy,
            "valid_f1_macro": valid.f1_macro,
            "valid_ece": valid.ece,
            "seconds": self._seconds(),
            "stopped": stopped,
        }
        told = provenance(self.prepared, learned) | {"history": history(self.rounds)}
        if self._pruned is not None:
            model, told["pruning"] = self._pruned.model, dict(self._pruned.record)
        return replace(model, provenance=told)

    def _best_model(self) -> LogisticCircuit:
        """What learning did best, so far without provenance but what says how it was fitted."""
        learner, splits = self.learner, self.prepared.splits
        parts, fitted = learner.best()
        assert learner.state is not None
        return LogisticCircuit(
            encoder=self.prepared.encoder if isinstance(learner, Learner) else learner.encoder,
            parts=parts,
            classes=splits.classes,  # type: ignore[arg-type]  # of one type, as lcml.data makes them
            weights=fitted.weights,
            bias=fitted.bias,
            link=learner.link,
            threshold=learner.threshold,
            provenance={"settings": self.prepared.config.settings(), "training": {"l2": learner.state.best.l2}},
        )

    def _write_report(self, model: LogisticCircuit) -> Path:
        """The page about the model on the test rows, or those of validation, beside it and among the run's files."""
        from lcml.explain.report.measured import Measured
        from lcml.explain.report.report import report_page

        splits, path = self.prepared.splits, self.prepared.config.model_path.with_suffix(".html")
        rows, examples = ("test", splits.test) if len(splits.test) else ("valid", splits.valid)
        found = Measured(model, examples.features, examples.labels, rows, splits.name, self.prepared.backend)
        content = report_page(found).encode()
        write_atomically(path, content)
        self.tracker.artifact("report.html", content)
        return path

    def _seconds(self) -> float:
        state = self.prepared.checkpoint.state
        return monotonic() - self.prepared.started + (0.0 if state is None else state.seconds)

    def _record(self, report: RoundReport, step: int, on_round: OnRound) -> None:
        record = RoundRecord.of(report)
        if record.phase in ("grow", "trees"):
            self.rounds.append(record)
        for phase, seconds in record.seconds.items():
            self.profile[phase] = self.profile.get(phase, 0.0) + seconds
        self.tracker.metrics(record.metrics(), step)
        on_round(record)

    def _save_checkpoint(self) -> None:
        before = self.prepared.checkpoint
        checkpoint = replace(
            before,
            config=self.prepared.config,
            run_id=self.tracker.run_id or before.run_id,
            state=self.learner.state,
            log=tuple(self.log),
            rounds=tuple(self.rounds),
        )
        save_checkpoint(checkpoint, self.prepared.checkpoint_path)

    def _record_model(self, outcome: Outcome, logits: FloatArray) -> None:
        """The figures, files and pictures of the model kept; logits: of the test rows, or those of validation."""
        from lcml.runs import plots
        from lcml.runs.quality_plots import quality_pictures

        config, splits, tracker = self.prepared.config, self.prepared.splits, self.tracker
        assert self.learner.state is not None
        best, classes = self.learner.state.best, splits.classes
        rows, examples = ("test", splits.test) if len(splits.test) else ("validation", splits.valid)
        counts = confusion_matrix(outcome.model.codes(logits), examples.labels, len(classes))
        reached = outcome.train_accuracy, outcome.valid, outcome.test
        tracker.metrics(final_metrics(outcome.model, best.round, *reached, outcome.seconds), 0)
        tracker.metrics(class_metrics(counts, classes), 0)
        views = [view for view, _ in self.prepared.checkpoint.places]
        names = [variable_names(self.prepared.encoder, view, splits.feature_names) for view in views]
        tracker.artifact("settings.toml", config.as_toml().encode())
        tracker.artifact("splits.jsonl", "".join(split_lines(self.log, names)).encode())
        tracker.artifact("classes.jsonl", class_lines(counts, classes).encode())
        tracker.artifact(MODEL_ARTIFACT, config.model_path, loader="lcml.runs.pyfunc")
        tracker.artifact("plots/learning_curves.png", plots.learning_curves(self.rounds, best.round))
        tracker.artifact("plots/confusion_matrix.png", plots.confusion_matrix(counts, classes, rows))
        probabilities = outcome.model.head.probabilities(logits)
        for name, picture in quality_pictures(probabilities, examples.labels, classes, rows):
            tracker.artifact(f"plots/{name}.png", picture)


def _report_of(step: PrunedStep, best: Best) -> RoundReport:
    """A step of pruning as a round is told."""
    return RoundReport(
        phase="prune",
        round=best.round,
        n_elements=step.model.n_elements,
        n_or_gates=step.model.n_or_gates,
        n_parameters=step.model.n_parameters,
        l2=best.l2,
        train_loss=step.train.log_loss,
        train_log_loss=step.train.log_loss,
        train_accuracy=step.train.accuracy,
        valid=step.valid,
        n_iterations=step.n_iterations,
        converged=False,
        improved=False,
        splits=(),
        seconds={},
    )


def provenance(prepared: Prepared, learned: dict[str, Any]) -> dict[str, Any]:
    """Where a model comes from: its data and their division, settings, what learning reached, versions, machine."""
    config, splits = prepared.config, prepared.splits
    return {
        "data": {
            "name": splits.name,
            "source": config.data,
            "target": config.target,
            "fingerprint": splits.fingerprint,
            "train_fraction": config.train_fraction,
            "valid_fraction": config.valid_fraction,
            "test_fraction": config.test_fraction,
            "seed": config.learn.seed,
            **splits.sizes,
            "image_shape": _shape(prepared.image_shape),
            "feature_names": list(prepared.encoder.names or splits.feature_names),
        },
        "settings": config.settings(),
        "seed": config.learn.seed,
        "training": learned,
        "versions": versions() | {"scipy": version("scipy")},
        "machine": {"n_cores": os.cpu_count(), "backend": prepared.backend.name, "device": prepared.backend.device},
    }


def versions() -> dict[str, str]:
    """Of lcml and what every model is learned with."""
    return {"lcml": lcml.__version__, "python": platform.python_version(), "numpy": version("numpy")}


def _shape(image_shape: Shape | None) -> list[int] | None:
    """As it is known of most images, without their one channel."""
    return None if image_shape is None else list(image_shape[1:] if image_shape[0] == 1 else image_shape)
