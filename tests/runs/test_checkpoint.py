from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcml.circuits import vtree
from lcml.circuits.splits import Split
from lcml.circuits.views import IdentityView, WindowView
from lcml.errors import FormatError, OutputError
from lcml.formats.container import read_container, write_container
from lcml.learning.parameters import Parameters
from lcml.learning.selection import ChosenSplit
from lcml.learning.settings import LearnSettings
from lcml.learning.state import Best, FitState
from lcml.model.metrics import Quality
from lcml.runs.checkpoint import CHECKPOINT_KIND, CHECKPOINT_VERSION, Checkpoint, load_checkpoint, save_checkpoint
from lcml.runs.config import TrainConfig
from lcml.runs.records import RoundRecord

CONFIG = TrainConfig(
    data="somewhere/table.csv",
    target="kind",
    vtree="random",
    tracking_uri="http://127.0.0.1:1",
    learn=LearnSettings(rounds=7, l2_path=(0.1, 1 / 3), time_limit=12.5, link="softmax"),
)
LOG = (
    (ChosenSplit(Split(3, 1), 0.1 + 0.2, 1), ChosenSplit(Split(0, 2), 1 / 3, 5)),
    (),
    (ChosenSplit(Split(9, 0, 1), 7.0, 3),),
)
PLACES = (
    (IdentityView(4), vtree.random(4, 5)),
    (WindowView((1, 2, 2), (1, 2), grid=(2, 1), root=True), vtree.balanced(2)),
)
RECORD = RoundRecord("grow", 1, 0.1, 12, 5, 63, 2, 9, 1 / 3, 0.9, 2 / 3, 0.8, 0.7, True, {"fit": 0.1, "score": 1e-9})


def parameters(seed: int) -> Parameters:
    generator = np.random.default_rng(seed)
    return Parameters(generator.normal(size=(3, 11)), generator.normal(size=3))


def checkpoint() -> Checkpoint:
    history = tuple(tuple(choice.split for choice in splits) for splits in LOG)
    best = Best(2, 0.1, parameters(1), 0.9, Quality(1 / 3, 2 / 3, 1e-7))
    state = FitState(history, parameters(0), best, stale_rounds=1, seconds=1.25)
    return Checkpoint(CONFIG, "ab" * 32, PLACES, "a name", "run", state, LOG, (RECORD, replace(RECORD, round=2)))


def test_a_round_trip_is_exact_to_the_bit(tmp_path: Path) -> None:
    before = checkpoint()
    save_checkpoint(before, tmp_path / "c")
    after = load_checkpoint(tmp_path / "c")
    assert (after.config, after.fingerprint, after.run_name, after.run_id) == (CONFIG, "ab" * 32, "a name", "run")
    assert after.log == LOG
    assert after.rounds == before.rounds
    for (view, tree), (old_view, old_tree) in zip(after.places, PLACES, strict=True):
        assert view == old_view
        assert tree.same_as(old_tree)
    assert after.state is not None
    assert before.state is not None
    assert after.state.history == before.state.history
    assert (after.state.stale_rounds, after.state.seconds) == (1, 1.25)
    for old, new in (
        (before.state.parameters, after.state.parameters),
        (before.state.best.parameters, after.state.best.parameters),
    ):
        assert old.weights.tobytes() == new.weights.tobytes()
        assert old.bias.tobytes() == new.bias.tobytes()
    best = after.state.best
    assert (best.round, best.l2, best.train_accuracy, best.valid) == (2, 0.1, 0.9, Quality(1 / 3, 2 / 3, 1e-7))


def test_the_beginning_of_a_run_can_be_kept(tmp_path: Path) -> None:
    save_checkpoint(replace(checkpoint(), state=None, log=(), rounds=(), run_id=None), tmp_path / "c")
    after = load_checkpoint(tmp_path / "c")
    assert (after.state, after.log, after.rounds, after.run_id) == (None, (), (), None)
    assert after.config == CONFIG


def test_a_file_that_is_cut_or_changed_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    save_checkpoint(checkpoint(), path)
    whole = path.read_bytes()
    for size in (0, 3, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(FormatError, match="c: "):
            load_checkpoint(path)
    weights = checkpoint().state.parameters.weights.tobytes()  # type: ignore[union-attr]
    place = whole.index(weights) + 5
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with pytest.raises(FormatError, match="damaged"):
        load_checkpoint(path)


def test_foreign_and_newer_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with pytest.raises(FormatError, match="cannot be read"):
        load_checkpoint(path)
    write_container(path, "lcml model", 1, {}, {})
    with pytest.raises(FormatError, match="expected a lcml checkpoint file, found a 'lcml model'"):
        load_checkpoint(path)
    write_container(path, CHECKPOINT_KIND, CHECKPOINT_VERSION + 1, {}, {})
    with pytest.raises(FormatError, match=f"version {CHECKPOINT_VERSION + 1}, newer"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    "change",
    [
        {"config": {"no such option": 1}},
        {"config": {"rounds": "many"}},
        {"config": {"link": "cosine"}},
        {"state": {"stale_rounds": 1}},
        {"rounds": [{"phase": "grow"}]},
        {"rounds": None},
    ],
)
def test_a_sound_container_that_holds_no_checkpoint_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "c"
    save_checkpoint(checkpoint(), path)
    content, arrays = read_container(path, CHECKPOINT_KIND, CHECKPOINT_VERSION)
    write_container(path, CHECKPOINT_KIND, CHECKPOINT_VERSION, content | change, arrays)
    with pytest.raises(FormatError, match="holds no valid checkpoint"):
        load_checkpoint(path)
    del arrays["last/bias"]
    write_container(path, CHECKPOINT_KIND, CHECKPOINT_VERSION, content, arrays)
    with pytest.raises(FormatError, match="last/bias"):
        load_checkpoint(path)


def test_values_of_wrong_types_anywhere_are_refused(tmp_path: Path) -> None:
    """Every value of the header, replaced by one of every other type, under right checksums."""
    path = tmp_path / "c"
    save_checkpoint(checkpoint(), path)
    content, arrays = read_container(path, CHECKPOINT_KIND, CHECKPOINT_VERSION)

    def variants(value: Any) -> Iterator[Any]:
        """The value with one thing in it changed."""
        others: tuple[Any, ...] = ("text", 1.5, {}, [], [1], True)
        for other in others:
            if type(other) is not type(value) and not (isinstance(value, int) and other == 1.5):
                yield other
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            for changed in variants(inner):
                copy: Any = value.copy()
                copy[key] = changed
                yield copy

    n_refused = n_read = 0
    for changed in variants(content):
        write_container(path, CHECKPOINT_KIND, CHECKPOINT_VERSION, changed if isinstance(changed, dict) else {}, arrays)
        try:
            read = load_checkpoint(path)
        except FormatError:
            n_refused += 1
        else:  # what is read is sound: it can be written, and says the same again
            n_read += 1
            save_checkpoint(read, path)
    assert n_refused > 300
    assert n_read < 0.2 * n_refused
    for name, array in arrays.items():
        for damaged in (array.astype(np.float32), array.astype(np.uint8), array[None]):
            write_container(path, CHECKPOINT_KIND, CHECKPOINT_VERSION, content, {**arrays, name: damaged})
            with pytest.raises(FormatError):
                load_checkpoint(path)


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(tmp_path: Path) -> None:
    save_checkpoint(checkpoint(), tmp_path / "c")
    whole = (tmp_path / "c").read_bytes()
    with pytest.raises(FormatError):
        save_checkpoint(replace(checkpoint(), run_name=float("nan")), tmp_path / "c")  # type: ignore[arg-type]
    with pytest.raises(OutputError, match="cannot write"):
        save_checkpoint(checkpoint(), tmp_path / "c" / "below a file")
    assert (tmp_path / "c").read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
