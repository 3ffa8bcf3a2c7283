import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lcml.circuits import vtree
from lcml.data import load_splits
from lcml.errors import DataError, LcmlError, OutputError, SettingsError
from lcml.formats import load_model
from lcml.learning.settings import LearnSettings
from lcml.learning.state import EncodedSet
from lcml.model.model import LogisticCircuit
from lcml.runs.checkpoint import load_checkpoint
from lcml.runs.config import TrainConfig
from lcml.runs.places import choose_vtree
from lcml.runs.preparation import check_writable, prepare
from lcml.runs.records import RoundRecord
from lcml.runs.training import Outcome, make_learner, train
from lcml.tracking import DatasetRecord, NullTracker, Status, Tracker

LEARN = LearnSettings(rounds=4, round_iterations=5, final_iterations=8, l2_path=(1e-2, 1e-4), patience=2)
CONFIG = TrainConfig(learn=LEARN)


class Recorder:
    """A tracker that remembers."""

    run_id: str | None = None
    uri: str | None = "memory"

    def __init__(self) -> None:
        self.started: list[tuple[str, str | None]] = []
        self.params: Mapping[str, object] = {}
        self.tags: Mapping[str, str] = {}
        self.dataset: DatasetRecord | None = None
        self.points: list[tuple[int, Mapping[str, float]]] = []
        self.files: dict[str, bytes] = {}
        self.loaders: dict[str, str] = {}
        self.statuses: list[Status] = []

    def start(
        self,
        run_name: str,
        params: Mapping[str, object],
        tags: Mapping[str, str],
        dataset: DatasetRecord,
        *,
        run_id: str | None = None,
    ) -> None:
        self.run_id = run_id or "run-1"
        self.started.append((run_name, run_id))
        self.params, self.tags, self.dataset = params, tags, dataset

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        self.points.append((step, values))

    def artifact(self, name: str, content: bytes | Path, *, loader: str | None = None) -> None:
        self.files[name] = content if isinstance(content, bytes) else content.read_bytes()
        self.loaders |= {} if loader is None else {name: loader}

    def finish(self, status: Status) -> None:
        self.statuses.append(status)


@pytest.fixture(autouse=True)
def _in_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def trained(
    config: TrainConfig = CONFIG,
    tracker: Tracker | None = None,
    on_round: Callable[[RoundRecord], None] = lambda record: None,
    should_stop: Callable[[], bool] = lambda: False,
    resumed: Path | None = None,
) -> tuple[Outcome, Path]:
    """A training and the path of its checkpoint."""
    if resumed is None:
        prepared = prepare(config)
    else:
        checkpoint = load_checkpoint(resumed)
        changed = checkpoint.config.with_options({"rounds": config.learn.rounds})
        prepared = prepare(changed, replace(checkpoint, config=changed), resumed)
    learner = make_learner(prepared, should_stop)
    outcome = train(prepared, learner, tracker or NullTracker(), on_round=on_round, should_stop=should_stop)
    return outcome, prepared.checkpoint_path


def weights(model: LogisticCircuit) -> bytes:
    """Everything that decides what a model answers."""
    circuit = model.circuit
    arrays = (circuit.or_start, circuit.elem_prime, circuit.elem_sub, model.weights, model.bias)
    return b"".join(array.tobytes() for array in arrays)


def test_a_training_ends_with_a_model_that_is_what_it_says() -> None:
    outcome, checkpoint = trained()
    assert {path.name for path in Path.cwd().iterdir()} == {"checkpoints", "digits.lcml"}
    assert [path.name for path in Path("checkpoints").iterdir()] == [checkpoint.name]
    model = load_model("digits.lcml")
    assert weights(model) == weights(outcome.model)

    said = model.provenance["data"]
    splits = load_splits(
        said["source"], **{name: said[name] for name in ("train_fraction", "valid_fraction", "test_fraction", "seed")}
    )
    assert splits.fingerprint == said["fingerprint"]
    assert (len(splits.train), len(splits.test)) == (said["n_train"], said["n_test"])
    assert outcome.test is not None
    for examples, accuracy in (
        (splits.train, outcome.train_accuracy),
        (splits.valid, outcome.valid.accuracy),
        (splits.test, outcome.test.accuracy),
    ):
        classes = np.asarray(splits.classes)
        assert np.mean(model.predict(examples.features) == classes[examples.labels]) == pytest.approx(
            accuracy, abs=2e-3
        )
    assert outcome.test.accuracy > 0.9
    assert model.provenance["settings"] == CONFIG.settings()
    assert model.provenance["training"]["stopped"] is False


def test_a_report_is_written_beside_the_model_and_logged() -> None:
    tracker = Recorder()
    config = replace(CONFIG, data="iris", report=True, learn=replace(LEARN, rounds=1))
    outcome, _ = trained(config, tracker)
    assert outcome.report == Path("iris.html")
    page = outcome.report.read_text("utf-8")
    assert tracker.files["report.html"].decode() == page
    assert outcome.test is not None
    assert f"<b>{outcome.test.accuracy:.4f}</b><span>accuracy" in page
    history = load_model("iris.lcml").provenance["history"]
    rounds = [values for _, values in tracker.points if "circuit/n_elements" in values]
    assert history["round"] == list(range(len(rounds)))
    assert history["valid_accuracy"] == [values["valid/accuracy"] for values in rounds]
    assert f"accuracy over {len(rounds)} rounds" in page


def test_the_same_seed_gives_the_same_model_and_another_seed_another() -> None:
    first, second = trained()[0].model, trained()[0].model
    other = trained(replace(CONFIG, learn=replace(LEARN, seed=1)))[0].model
    assert weights(first) == weights(second)
    assert weights(first) != weights(other)


def test_every_checkpoint_resumes_to_the_model_of_an_uninterrupted_run() -> None:
    kept: list[Path] = []

    def keep(record: RoundRecord) -> None:
        """The checkpoint as it is before that of this round takes its place."""
        (checkpoint,) = Path("checkpoints").iterdir()
        kept.append(Path(f"kept-{len(kept)}"))
        kept[-1].write_bytes(checkpoint.read_bytes())

    whole, _ = trained(on_round=keep)
    rounds = [-1 if state is None else state.round for state in (load_checkpoint(path).state for path in kept)]
    assert rounds == [*range(-1, whole.rounds), whole.rounds, whole.rounds]
    logs: set[bytes] = set()
    for path in kept:
        tracker = Recorder()
        resumed, _ = trained(resumed=path, tracker=tracker)
        assert weights(resumed.model) == weights(whole.model)
        assert (resumed.train_accuracy, resumed.valid, resumed.test) == (whole.train_accuracy, whole.valid, whole.test)
        logs.add(tracker.files["splits.jsonl"])
    assert len(logs) == 1


def test_a_finished_run_goes_on_when_its_limit_is_raised() -> None:
    whole, _ = trained()
    short, checkpoint = trained(replace(CONFIG, learn=replace(LEARN, rounds=1)))
    assert short.rounds == 1
    longer, _ = trained(resumed=checkpoint)
    assert weights(longer.model) == weights(whole.model)


def stop_after(n_asked: int) -> Callable[[], bool]:
    """Says no `n_asked` times, then yes."""
    questions = iter(range(n_asked))
    return lambda: next(questions, None) is None


def test_a_stopped_run_saves_the_best_so_far_and_resumes() -> None:
    whole, _ = trained()
    for n_asked in (0, 3, 12, 25, 40):
        tracker, stop = Recorder(), stop_after(n_asked)
        outcome, checkpoint = trained(tracker=tracker, should_stop=stop)
        assert outcome.stopped
        assert tracker.statuses == ["KILLED"]
        assert weights(load_model("digits.lcml")) == weights(outcome.model)
        assert tracker.files["model.lcml"] == Path("digits.lcml").read_bytes()
        assert weights(trained(resumed=checkpoint)[0].model) == weights(whole.model)


@pytest.mark.parametrize(("error", "status"), [(ZeroDivisionError, "FAILED"), (KeyboardInterrupt, "KILLED")])
def test_a_run_that_dies_is_closed_and_can_go_on(error: type[BaseException], status: str) -> None:
    def die(record: RoundRecord) -> None:
        if record.round == 2:
            raise error

    tracker = Recorder()
    with pytest.raises(error):
        trained(tracker=tracker, on_round=die)
    assert tracker.statuses == [status]
    assert not Path("digits.lcml").exists()
    (checkpoint,) = Path("checkpoints").iterdir()
    tracker = Recorder()
    assert weights(trained(resumed=checkpoint, tracker=tracker)[0].model) == weights(trained()[0].model)
    assert tracker.started == [(checkpoint.stem, "run-1")]


def test_a_refit_reads_training_and_validation_examples_and_copies_of_both() -> None:
    learn = replace(CONFIG.learn, refit=True)
    config = replace(CONFIG, augment="copies=2,shift=1", learn=learn, output=CONFIG.output)
    prepared = prepare(config)
    everything = prepared.everything()
    n_train, n_valid = 1294, 144
    assert len(everything.values) == len(everything.labels) == 3 * (n_train + n_valid)
    first = everything.values[:n_train], everything.values[n_train : n_train + n_valid]
    np.testing.assert_array_equal(first[0], prepared.train.values[:n_train])
    np.testing.assert_array_equal(first[1], prepared.valid.values)
    np.testing.assert_array_equal(everything.labels[n_train : n_train + n_valid], prepared.valid.labels)

    tracker, records = Recorder(), list[RoundRecord]()
    outcome, _ = trained(replace(CONFIG, learn=learn), tracker=tracker, on_round=records.append)
    plain, _ = trained()
    assert [record.phase for record in records][-3:] == ["refine", "refine", "refit"]
    assert outcome.valid == plain.valid
    (refitted,) = [values for _, values in tracker.points if "final/train_accuracy" in values]
    assert refitted["final/train_accuracy"] == outcome.train_accuracy
    assert [list(values) for _, values in tracker.points[-3:-2]] == [["time/refit_seconds"]]
    x, labels = (
        np.concatenate([getattr(part, name) for part in (prepared.splits.train, prepared.splits.valid)])
        for name in ("features", "labels")
    )
    assert np.mean(outcome.model.predict(x) == labels) == pytest.approx(outcome.train_accuracy, abs=1e-3)
    assert weights(outcome.model) != weights(plain.model)


@pytest.mark.unabridged
def test_the_record_of_a_run() -> None:
    tracker, records = Recorder(), list[RoundRecord]()
    outcome, checkpoint = trained(tracker=tracker, on_round=records.append)
    assert tracker.statuses == ["FINISHED"]
    assert tracker.started == [(checkpoint.stem, None)]
    assert tracker.params["rounds"] == 4
    assert tracker.tags["lcml.checkpoint"] == str(checkpoint.resolve())
    splits = load_splits("digits")
    assert tracker.dataset == DatasetRecord(
        "digits", splits.fingerprint, "scikit-learn's digits", 1294, 144, 359, 64, 10, splits.feature_names
    )

    grown = [(step, values) for step, values in tracker.points if "circuit/n_elements" in values]
    assert [step for step, _ in grown] == list(range(outcome.rounds + 1))
    wanted = {"train/accuracy", "train/loss", "train/objective", "valid/accuracy", "valid/f1_macro", "valid/loss"}
    wanted |= {f"circuit/{name}" for name in ("n_elements", "n_or_gates", "n_parameters", "n_splits")}
    wanted |= {f"time/{phase}_seconds" for phase in ("score", "split", "features", "fit", "evaluate")}
    assert all(set(values) == wanted for _, values in grown[1:])
    assert all(values["train/loss"] < values["train/objective"] for _, values in grown)
    refined = [(step, values) for step, values in tracker.points if "penalty/l2" in values]
    assert [(step, values["penalty/l2"]) for step, values in refined] == [(0, 1e-2), (1, 1e-4)]
    assert all(name.startswith("penalty/") for _, values in refined for name in values)
    (last_step, last), (class_step, of_classes) = tracker.points[-2:]
    assert (last_step, class_step) == (0, 0)
    assert outcome.test is not None
    assert (last["final/test_accuracy"], last["final/valid_loss"]) == (outcome.test.accuracy, outcome.valid.log_loss)
    assert len(of_classes) == 30
    assert np.mean([of_classes[f"per class f1/{k}"] for k in range(10)]) == pytest.approx(outcome.test.f1_macro)

    names = {"model.lcml", "settings.toml", "splits.jsonl", "classes.jsonl"}
    pictures = ("learning_curves", "confusion_matrix", "roc", "precision_recall", "calibration")
    names |= {f"plots/{name}.png" for name in pictures}
    assert tracker.loaders == {"model.lcml": "lcml.runs.pyfunc"}
    assert set(tracker.files) == names
    assert TrainConfig().with_options(tomllib.loads(tracker.files["settings.toml"].decode())) == CONFIG
    assert all(tracker.files[name].startswith(b"\x89PNG") for name in names if name.startswith("plots/"))
    lines = [json.loads(line) for line in tracker.files["splits.jsonl"].splitlines()]
    assert len(lines) == sum(record.n_splits for record in records)
    assert [record.n_splits for record in records if record.phase == "grow"] == [
        sum(line["round"] == r for line in lines) for r in range(outcome.rounds + 1)
    ]
    row, column = divmod(lines[0]["variable"], 8)
    assert lines[0]["feature"] == f"pixel_{row}_{column}"


def test_two_classes_a_table_and_no_test_examples() -> None:
    outcome, _ = trained(replace(CONFIG, data="breast-cancer", test_fraction=0.0, output="deep/er/model.lcml"))
    assert outcome.test is None
    assert outcome.model.bias.shape == (1,)
    assert load_model("deep/er/model.lcml").classes == ("benign", "malignant")
    assert Path("deep/er/checkpoints").is_dir()


def test_without_literal_weights() -> None:
    outcome, checkpoint = trained(replace(CONFIG, data="iris", learn=replace(LEARN, literal_weights=False)))
    assert outcome.model.literal_weights is None
    assert weights(trained(resumed=checkpoint)[0].model) == weights(outcome.model)


def test_other_data_cannot_be_resumed_on() -> None:
    x = np.random.default_rng(0).random((60, 3))
    np.savez("set.npz", x=x, y=(x[:, 0] > 0.5).astype(int))
    _, checkpoint = trained(replace(CONFIG, data="set.npz"))
    x[17, 2] += 0.25
    np.savez("set.npz", x=x, y=(x[:, 0] > 0.5).astype(int))
    with pytest.raises(DataError, match=r"set\.npz is not what .* was learning from"):
        trained(resumed=checkpoint)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"output": "/dev/full"}, OutputError, "/dev/full: expected a regular file"),
        ({"output": "/dev/null/model.lcml"}, OutputError, "cannot write /dev/null/model.lcml"),
        ({"output": "/proc/model.lcml"}, OutputError, "cannot write /proc/model.lcml"),
        ({"output": "."}, OutputError, "expected a regular file"),
        ({"checkpoint_dir": "/proc/here"}, OutputError, "cannot write /proc/here/"),
        ({"data": "no-such-set"}, DataError, "no data set and no file 'no-such-set'"),
        ({"valid_fraction": 0.0}, DataError, "the validation set is empty"),
        ({"max_parameters": 100}, SettingsError, "max_parameters"),
        ({"max_elements": 10}, SettingsError, "max_elements"),
        ({"prune_to": 19}, SettingsError, "prune_to: expected 20 or more, a bias and a weight for each of 10 sets"),
        ({"data": "wine", "vtree": "grid"}, DataError, "no image shape"),
        ({"data": "wine", "vtree_offset": [1, 0]}, DataError, "no image shape"),
        ({"target": "label"}, DataError, "--target"),
        (
            {"data": "wine", "encoder": "columns", "prune_to": 50},
            SettingsError,
            "prune_to: for circuits that grow by splits",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    changes: dict[str, object], error: type[LcmlError], message: str
) -> None:
    tracker = Recorder()
    with pytest.raises(error, match=message):
        trained(CONFIG.with_options(changes), tracker)
    assert (tracker.started, tracker.statuses) == ([], [])
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"roundss": 3}, "unknown setting 'roundss'"),
        ({"backend": "tpu"}, "backend: expected one of auto, numpy, numba, cupy, found 'tpu'"),
        ({"divisor": 255.0}, "divisor: belongs to the encoder divide"),
        ({"encoder": "divide"}, "divisor: belongs to the encoder divide"),
        ({"vtree": "balanced", "vtree_offset": [1, 1]}, "vtree_offset belongs to the vtree grid"),
        ({"vtree_offset": [-1, 0]}, "vtree_offset: expected a list of 2, each a whole number of at least 0"),
        ({"no_tracking": True, "experiment": "a"}, "no_tracking and experiment contradict each other"),
        ({"max_parameters": 500, "prune_to": 501}, "prune_to: expected at most max_parameters, 500, to which it grows"),
        ({"cluster": "local:2", "prune_to": 500}, "prune_to: this is not done on a cluster"),
        ({"growth": -1.0}, "growth: expected a finite number of at least"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        TrainConfig().with_options(options)


def test_the_options_survive_a_file() -> None:
    config = replace(
        CONFIG, data='a "quoted"\tpath\\', encoder="divide", divisor=255.0, vtree_offset=(2, 1), target="é"
    )
    assert TrainConfig().with_options(tomllib.loads(config.as_toml())) == config
    assert config.model_path == Path('a "quoted"\tpath\\.lcml')


def test_a_place_below_directories_yet_to_be_made_is_writable(tmp_path: Path) -> None:
    check_writable(tmp_path / "a" / "b" / "c.lcml")
    check_writable(Path("c.lcml"))
    assert list(tmp_path.iterdir()) == []


def test_the_vtree_follows_its_kind() -> None:
    train = EncodedSet(np.random.default_rng(0).random((20, 6)), np.tile([0, 1], 10))
    assert choose_vtree("auto", (2, 3), train).same_as(vtree.grid(2, 3))
    assert choose_vtree("auto", (2, 3), train, offset=(1, 0)).same_as(vtree.grid(2, 3, (1, 0)))
    assert choose_vtree("auto", None, train).same_as(vtree.from_mutual_information(train.values[:], train.labels))
    assert choose_vtree("auto", None, EncodedSet(np.zeros((2, 600)), np.array([0, 1]))).same_as(vtree.balanced(600))
    assert choose_vtree("random", (2, 3), train, seed=4).same_as(vtree.random(6, 4))
    assert choose_vtree("balanced", (2, 3), train).same_as(vtree.balanced(6))
    assert choose_vtree("right-linear", None, train).same_as(vtree.right_linear(6))


def test_a_link_is_as_writable_as_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link.lcml").symlink_to(tmp_path / "file" / "model.lcml")
    with pytest.raises(OutputError, match=r"link\.lcml"):
        check_writable(tmp_path / "link.lcml")
