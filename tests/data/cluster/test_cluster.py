"""Training on two Dask workers against training in one process, also when workers die of signals meanwhile."""

import importlib
import json
import logging
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster, WorkerPlugin
from numpy.typing import NDArray
from typer.testing import CliRunner

from lcml import LogisticCircuitClassifier, load_model
from lcml.cli import app
from lcml.data.cluster import engine, shards
from lcml.errors import ClusterError, DataError, SettingsError
from tests import forked

N = 2600
FLAT: dict[str, Any] = {
    "rounds": 2,
    "round_iterations": 5,
    "final_iterations": 10,
    "l2_path": (1e-3,),
    "backend": "numpy",
}
TABLE: dict[str, Any] = {"folds": 2, "trees": 2, "tree_depth": 2, "backend": "numpy"}
AT_SOLVER = 1e-6 * 1e-5  # of the solver's tolerance
AT_ADDITIVE = 1e-6 * 1e-3
HELD_BY_PENALTY = 1e-7  # all weights of a category's column can move against the bias: rounding there is far from 0


def bits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    q = (rng.random((N, 9)) < 0.5).astype(np.float32)
    score = q[:, 0] * q[:, 5] + q[:, 3] * (1 - q[:, 8]) + 0.3 * rng.normal(size=N)
    return q, np.digitize(score, [0.5, 1.2])


def table() -> tuple[pd.DataFrame, NDArray[np.str_]]:
    """Numbers, one with gaps, and texts that come up in another order in every part of the rows."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, 2))
    frame = pd.DataFrame(x, columns=["a", "b"])
    frame["c"] = np.where(np.arange(N) < 900, rng.choice(["u", "v"], N), rng.choice(["w", "v", "u"], N))
    frame.loc[::7, "b"] = np.nan
    return frame, np.where(((x[:, 0] > 0) & (frame["c"] == "u")) | (x[:, 1] > 1), "yes", "no")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    forked.context()
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),  # a dead worker is soon replaced
        LocalCluster(
            2, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1", silence_logs=logging.CRITICAL
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def flat() -> LogisticCircuitClassifier:
    return LogisticCircuitClassifier(**FLAT).fit(*bits())


def check_same(
    found: LogisticCircuitClassifier, expected: LogisticCircuitClassifier, weights_within: float = AT_SOLVER
) -> None:
    assert [record.line().split("  ")[0] for record in found.history_] == [
        record.line().split("  ")[0] for record in expected.history_
    ]
    assert len(found.model_.parts) == len(expected.model_.parts)
    for part, other in zip(found.model_.parts, expected.model_.parts, strict=True):
        np.testing.assert_array_equal(part.circuit.elem_prime, other.circuit.elem_prime)
        np.testing.assert_array_equal(part.circuit.elem_sub, other.circuit.elem_sub)
    np.testing.assert_allclose(found.model_.weights, expected.model_.weights, rtol=0, atol=weights_within)
    np.testing.assert_allclose(found.model_.bias, expected.model_.bias, rtol=0, atol=weights_within)


def fit_flat() -> LogisticCircuitClassifier:
    q, labels = bits()
    return LogisticCircuitClassifier(**FLAT).fit(da.from_array(q, chunks=(700, 5)), da.from_array(labels, chunks=900))


def fit_table() -> LogisticCircuitClassifier:
    frame, labels = table()
    return LogisticCircuitClassifier(**TABLE).fit(dd.from_pandas(frame, npartitions=3), labels)


class Killer(WorkerPlugin):  # type: ignore[misc]  # distributed has no types here
    """Ends the process that is the first to call a function of lcml."""

    def __init__(self, where: str, marker: Path) -> None:
        self.module, self.holder, self.function = where.split(":")
        self.name, self.marker = f"kills in {where}", str(marker)

    def setup(self, worker: Any) -> None:
        holder = getattr(importlib.import_module(self.module), self.holder)
        before, marker = getattr(holder, self.function), self.marker

        def kills(*args: Any, **kwargs: Any) -> Any:
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return before(*args, **kwargs)
            return os.kill(os.getpid(), signal.SIGKILL)

        setattr(holder, self.function, kills)


def test_a_flat_model_of_a_dask_array_is_that_of_one_process(client: Client, flat: LogisticCircuitClassifier) -> None:
    assert flat.model_.n_elements > 18  # there are splits to agree on
    check_same(fit_flat(), flat)


@pytest.mark.parametrize(
    "where",
    [
        (
            "lcml.passes.feature_store:FeatureStore:grow",
            "lcml.passes.feature_store:Chunk:correlation",
            "lcml.learning.pairs:PairSums:sums",
        ),
        ("lcml.learning.table_rows:TableRows:add",),
    ],
    ids=["in features, a pass and scoring", "while a tree of a table grows"],
)
def test_workers_that_are_killed_change_nothing(
    where: Sequence[str], client: Client, flat: LogisticCircuitClassifier, tmp_path: Path
) -> None:
    plugins = [Killer(one, tmp_path / str(number)) for number, one in enumerate(where)]
    for plugin in plugins:
        client.register_plugin(plugin)
    try:
        if len(where) > 1:
            check_same(fit_flat(), flat)
        else:
            expected, found = LogisticCircuitClassifier(**TABLE).fit(*table()), fit_table()
            assert len(expected.model_.parts) == 2  # literals and trees
            check_same(found, expected, HELD_BY_PENALTY)
            logits, of_one = (fitted.decision_function(table()[0]) for fitted in (found, expected))
            np.testing.assert_allclose(logits, of_one, rtol=0, atol=AT_ADDITIVE)
            assert found.feature_names_in_.tolist() == ["a", "b", "c"]
            np.testing.assert_allclose(found.feature_importances_, expected.feature_importances_, atol=1e-9)
    finally:
        for plugin in plugins:
            client.unregister_worker_plugin(plugin.name)
    assert all((tmp_path / str(number)).exists() for number in range(len(where)))


def test_the_parts_of_a_parquet_table_are_read_by_workers_and_a_run_goes_on_there(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("parts").mkdir()
    frame, labels = table()
    for number in range(3):
        own = slice(900 * number, 900 * (number + 1))
        frame[own].assign(label=labels[own]).to_parquet(f"parts/{number}.parquet")
    splits = [
        "--structure",
        "splits",
        "--l2-path",
        "1e-3",
        "--backend",
        "numpy",
        "--no-tracking",
        "--json",
        "--final-iterations",
        "10",
    ]
    on_cluster = ["--cluster", client.scheduler.address]

    def run(*arguments: str) -> Any:
        result = CliRunner().invoke(app, ["train", *arguments])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    one = run("parts", *splits, "--rounds", "2", "-o", "one.lcml")
    with monkeypatch.context() as here:
        here.setattr("lcml.data.load.read_table", lambda *_: pytest.fail("the client reads"))
        half = run("parts", *splits, "--rounds", "1", "-o", "two.lcml", *on_cluster)
        two = run("--resume", half["checkpoint_path"], "--rounds", "2", "--json", *on_cluster)
    assert (two["n_elements"], two["test_accuracy"]) == (one["n_elements"], one["test_accuracy"])
    found, expected = (load_model(name).weights for name in ("two.lcml", "one.lcml"))
    np.testing.assert_allclose(found, expected, rtol=0, atol=AT_SOLVER)


def test_a_cluster_without_workers_is_given_up_with_a_sentence(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "WAIT_SECONDS", 0.0)
    of_rows = engine.ClusterEngine(client).spread(np.asarray, np.arange(4.0))
    monkeypatch.setattr(shards, "working", lambda _: set())
    monkeypatch.setattr(shards, "LOOK_SECONDS", 0.0)
    with pytest.raises(ClusterError, match="no worker is left at tcp://"):
        of_rows.ask(np.sum)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("local:0", "expected tcp://HOST:PORT, or local:N"),
        ("tcp://127.0.0.1:1", "no scheduler answers at tcp://127.0.0.1:1"),
    ],
)
def test_what_is_no_cluster_is_refused(address: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CONNECT_SECONDS", 0.2)
    result = CliRunner().invoke(app, ["train", "iris", "--no-tracking", "--cluster", address])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_what_a_cluster_cannot_do_is_refused(client: Client) -> None:
    result = CliRunner().invoke(app, ["train", "iris", "--solver", "minibatch", "--cluster", "local:2"])
    assert result.exit_code == 2
    assert "minibatch" in result.output
    x = da.from_array(bits()[0], chunks=1300)
    with pytest.raises(SettingsError, match="minibatch"):
        LogisticCircuitClassifier(solver="minibatch").fit(x, bits()[1])
    with pytest.raises(DataError, match="leave it out"):
        LogisticCircuitClassifier().fit(x, bits()[1], eval_set=bits())
    mixed = dd.from_map(lambda i: pd.DataFrame({"a": [["x", "y"], [1.0, 2.0]][i]}), [0, 1], meta={"a": "object"})
    with pytest.raises(DataError, match="column 'a' holds number and text; give all pieces one type"):
        LogisticCircuitClassifier().fit(mixed, [0, 1, 0, 1])
