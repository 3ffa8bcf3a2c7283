"""A whole file of every format that a command reads, and the commands that read it."""

import gzip
import json
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv, parquet

from lcml.circuits.circuit import initial_circuit
from lcml.formats import read_vtree, write_psdd
from lcml.model.distribution import ProbabilisticCircuit
from lcml.tracking import DatasetRecord
from lcml.tracking.records import Artifact, Finish, Metrics, RunStart
from lcml.tracking.spool import SpoolWriter
from tests.cli.commands import output
from tests.data.files import idx_bytes

SHORT = "--no-tracking --quiet --round-iterations 2 --final-iterations 2 --l2-path 0.1"
QUICK = f"{SHORT} --encoder scale"
COLUMNS = f"{SHORT} --column size=ordinal:s<m<l --time-limit 0.000001"
NO_HOST = "--host 256.0.0.1"
"""Where no service can listen: `lcml serve` ends once it has read its model."""


@dataclass(frozen=True)
class Format:
    """A format: the file of it in the folder that `write_all` fills, and commands in which {} is that file (of a folder
    or of a sidecar the name to give is said)."""

    file: str
    commands: tuple[str, ...]
    given: str | None = None

    def arguments(self, command: str) -> list[str]:
        return [word.replace("{}", self.given or self.file) for word in command.split()]


_DATA = (
    f"train {{}} {QUICK} --rounds 0 --backend numpy -o out.lcml",
    "predict model.lcml {} -o out.csv",
    "evaluate model.lcml {}",
    "explain model.lcml {}",
)
_MODEL = (
    *("evaluate {} table.csv", "predict {} table.csv -o out.csv", "explain {} table.csv", "inspect {}"),
    *("compact {} -o out.lcml", "convert {} -o out.circuit", "export {} -o out.onnx --explain"),
)
_MIXED = (
    f"train {{}} {COLUMNS} -o out.lcml",
    *(command.replace("model.lcml", "mixed.lcml") for command in _DATA[1:]),
)
_MIXED_MODEL = tuple(command.replace("table.csv", "mixed.csv") for command in _MODEL if "convert" not in command)
_SERVE = (f"serve {{}} {NO_HOST}",)
_RESUME = ("train --resume {} --no-tracking --quiet --rounds 0 --time-limit 0.000001 --backend numpy -o out.lcml",)

FORMATS = {
    "csv": Format("table.csv", _DATA),
    "tsv": Format("table.tsv", _DATA),
    "csv.gz": Format("packed.csv.gz", _DATA),
    "parquet": Format("table.parquet", _DATA),
    "npy": Format("arrays/features.npy", _DATA, "arrays"),
    "npy labels": Format("arrays/labels.npy", (_DATA[0], _DATA[2]), "arrays"),
    "npz": Format("arrays.npz", _DATA),
    "npz compressed": Format("packed.npz", _DATA),
    "idx": Format("idx/train-images-idx3-ubyte", _DATA, "idx"),
    "idx gz": Format("idx/train-labels-idx1-ubyte.gz", _DATA, "idx"),
    "lcml": Format("model.lcml", _MODEL),
    "mixed csv": Format("mixed.csv", _MIXED),
    "mixed parquet": Format("mixed.parquet", _MIXED),
    "mixed lcml": Format("mixed.lcml", _MIXED_MODEL),
    "mixed onnx": Format("mixed.onnx", _SERVE),
    "circuit": Format("model.circuit", ("convert {} --vtree model.vtree -o out.lcml",)),
    "psdd": Format("0.psdd", ("convert {} 1.psdd --vtree model.vtree -o out.lcml",)),
    "vtree": Format("model.vtree", ("convert model.circuit --vtree {} -o out.lcml",)),
    "onnx": Format("model.onnx", _SERVE),
    "sidecar": Format("model.explain.json", _SERVE, "model.onnx"),
    "toml": Format("recipe.toml", ("train nowhere.csv --config {}",)),
    "checkpoint": Format("half.checkpoint", _RESUME),
    "mixed checkpoint": Format("mixed.checkpoint", _RESUME),
    "spool": Format("spool.jsonl", ("runs --replay {}",)),
}


def write_all(folder: Path) -> None:
    """Write a whole file of every format; forty examples of four whole numbers from 0 to 255, two classes."""
    features = np.random.default_rng(0).integers(0, 256, (40, 4))
    labels = (features[:, 0] > 127).astype(np.int64)
    lines = ["a,b,c,d,label", *(",".join(map(str, (*x, "01"[y]))) for x, y in zip(features, labels, strict=True))]
    text = "\n".join(lines) + "\n"
    for name, content in {"table.csv": text, "table.tsv": text.replace(",", "\t")}.items():
        (folder / name).write_text(content)
    (folder / "packed.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    columns: dict[str, Any] = {name: features[:, j] for j, name in enumerate("abcd")}
    parquet.write_table(pa.table({**columns, "label": ["01"[y] for y in labels]}), folder / "table.parquet")
    for name in ("arrays", "idx"):
        (folder / name).mkdir()
    np.save(folder / "arrays/features.npy", features.astype(np.float64))
    np.save(folder / "arrays/labels.npy", labels)
    np.savez(folder / "arrays.npz", X=features.astype(np.float64), y=labels)
    np.savez_compressed(folder / "packed.npz", X=features.astype(np.float64), y=labels)
    (folder / "idx/train-images-idx3-ubyte").write_bytes(idx_bytes(features.reshape(40, 2, 2)))
    (folder / "idx/train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(labels), mtime=0))
    mixed = _mixed_table(features, labels)
    parquet.write_table(mixed, folder / "mixed.parquet")
    csv.write_csv(mixed, folder / "mixed.csv")
    _train(folder, "table.csv", "model", "half", *QUICK.split(), "--rounds", "2", "--criterion", "variance")
    _train(folder, "mixed.csv", "mixed", "mixed", *COLUMNS.split())
    output("convert", folder / "model.lcml", "-o", folder / "model.circuit")
    vtree = read_vtree(folder / "model.vtree")
    for k in (0, 1):
        rows = features[labels == k] / 255
        write_psdd(ProbabilisticCircuit.fit(initial_circuit(vtree), rows), folder / f"{k}.psdd")
    options = {"rounds": 3, "l2_path": [0.1, 0.001], "vtree_offset": [1, 0], "metric": "log-loss"}
    (folder / "recipe.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in options.items()))
    data = DatasetRecord("table", "ab" * 32, "table.csv", 29, 3, 8, 4, 2, tuple("abcd"))
    start = RunStart("spool", "a run", "lcml", None, {"rounds": "2"}, {"kind": "test"}, data, 1_700_000_000_000, None)
    spool = SpoolWriter(folder, start, "http://127.0.0.1:9")
    spool.write(Metrics(start.time + 1, 0, {"valid/accuracy": 0.5, "train/loss": 0.7}))
    spool.write(Artifact("settings.toml", b"rounds = 2\n"))
    spool.write(Finish(start.time + 2, "FINISHED"))
    spool.close()


def _train(folder: Path, data: str, name: str, checkpoint: str, *options: str) -> None:
    """Write a model, its checkpoint and its graph."""
    kept, model = folder / "kept", folder / f"{name}.lcml"
    output("train", folder / data, *options, "--checkpoint-dir", kept, "-o", model)
    next(kept.iterdir()).rename(folder / f"{checkpoint}.checkpoint")
    kept.rmdir()
    output("export", model, "-o", model.with_suffix(".onnx"), "--explain")
    (folder / f"{name}.report.json").unlink()


def _mixed_table(features: NDArray[np.int64], labels: NDArray[np.int64]) -> pa.Table:
    """Numbers with gaps, categories, dates, an order and truth values, made of the four columns."""
    a, b, c, d = features.T.tolist()
    columns: dict[str, Any] = {
        "age": [None if value % 9 == 0 else value / 2 for value in a],
        "contract": [("monthly", "yearly", "none, yet")[value % 3] for value in b],
        "since": [date(2020, 1, 1) + timedelta(value) for value in c],
        "size": ["sml"[value % 3] for value in d],
        "open": [value > 99 for value in d],
    }
    return pa.table({**columns, "label": ["01"[y] for y in labels]})
