"""A model card in the form of the Hugging Face Hub: a YAML header with a model-index, then text in Markdown.

What is not known is said to be not known: a model read from a .circuit file has no provenance, and without data no
figure is measured.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import lcml
from lcml.explain.contributions import top_conditions
from lcml.explain.report.measured import Measured
from lcml.model.head import THRESHOLD
from lcml.model.intervals import Interval, auc_intervals, log_loss, wilson
from lcml.model.metrics import N_BINS, calibration_error, confusion_matrix
from lcml.model.model import LogisticCircuit
from lcml.runs.config import TrainConfig

MOST_CLASSES = 50
"""Classes up to which there is a line, or a list of conditions, for each."""

TOP = 5
UNKNOWN = "not known: the model does not say"


def model_card(model: LogisticCircuit, name: str, measured: Measured | None = None) -> str:
    """The card of a model called `name`, a README.md; measured: that model on examples."""
    figures = None if measured is None else _figures(measured)
    known = model.facts("data")
    header: dict[str, Any] = {
        "library_name": "lcml",
        "tags": ["logistic-circuit", "probabilistic-circuit", "interpretable", _task(model)],
        "pipeline_tag": _task(model),
    }
    if figures is not None and measured is not None:
        split = {"valid": "validation"}.get(measured.rows, measured.rows)
        dataset = {"name": measured.data, "type": measured.data, "split": split}
        metrics = [{"type": key, "name": text, "value": value} for key, text, value in figures.header]
        task = {"type": _task(model), "name": _task(model).replace("-", " ")}
        result = {"task": task, "dataset": dataset, "metrics": metrics}
        header["model-index"] = [{"name": name, "results": [result]}]
    sections = [
        f"# {name}",
        "\n".join(_what(model)),
        "## Data\n\n" + "\n".join(_data(known)),
        "## Quality\n\n" + ("\n".join(figures.lines) if figures else "Not measured for this card: give it data."),
        "## What weighs most\n\n" + "\n".join(_conditions(model)),
        "## What it cannot know\n\n" + "\n".join(_limits(model, measured)),
        "## How to use and reproduce it\n\n" + "\n".join(_reproduce(model, name)),
    ]
    return "---\n" + "".join(_yaml(header)) + "---\n\n" + "\n\n".join(sections) + "\n"


@dataclass(frozen=True)
class _Figures:
    header: list[tuple[str, str, float]]
    lines: list[str]


def _figures(measured: Measured) -> _Figures:
    probabilities, labels, n, classes = measured.probabilities, measured.labels, measured.n_examples, measured.classes
    counts = confusion_matrix(measured.predicted, labels, len(classes))
    known = {
        "accuracy": ("Accuracy", wilson(int(np.trace(counts)), n)),
        "log_loss": ("Log-loss", log_loss(measured.of_truth)),
        "roc_auc": ("AUC, macro", auc_intervals(probabilities, labels)[0]),
    }
    header = [(key, text, round(one.value, 6)) for key, (text, one) in known.items() if np.isfinite(one.value)]
    lines = [
        f"On the {measured.rows} rows of `{measured.data}`, {n:,} examples, with 95% intervals"
        + (f". **{measured.warning[0].upper()}{measured.warning[1:]}.**" if measured.warning else "."),
        "",
        "| figure | value | 95% interval |",
        "|---|---|---|",
        *(f"| {text} | {_number(one.value)} | {_ends(one)} |" for text, one in known.values()),
    ]
    error = calibration_error(probabilities, labels)
    lines += [f"| Expected calibration error, {N_BINS} bins | {_number(error)} | |"]
    if len(classes) > MOST_CLASSES:
        return _Figures(header, [*lines, "", f"{len(classes):,} classes: too many for a line each."])
    lines += ["", "| class | precision | recall | examples |", "|---|---|---|---|"]
    for k, label in enumerate(classes):
        right, predicted, present = int(counts[k, k]), int(counts[:, k].sum()), int(counts[k].sum())
        cells = [
            f"{_number(one.value)} ({_ends(one)})" if one else "not known: none"
            for one in (wilson(right, predicted) if predicted else None, wilson(right, present) if present else None)
        ]
        lines.append(f"| {_cell(label)} | {cells[0]} | {cells[1]} | {present:,} |")
    return _Figures(header, lines)


def _what(model: LogisticCircuit) -> Iterator[str]:
    yield (
        f"A logistic circuit (Liang & Van den Broeck, AAAI 2019) that tells {len(model.classes)} classes apart: "
        f"{', '.join(_cell(label) for label in model.classes[:MOST_CLASSES])}"
        + (", and more." if len(model.classes) > MOST_CLASSES else ".")
    )
    yield (
        f"It has {model.n_parameters:,} parameters, {model.n_elements:,} elements and {model.n_or_gates:,} or gates, "
        f"reads {model.encoder.n_features:,} features (encoder {model.encoder.kind}), and its link is the {model.link}."
    )
    if model.threshold != THRESHOLD:
        yield f"It predicts {_cell(model.classes[1])} where its probability is above {model.threshold:.4g}."


def _data(known: Mapping[str, Any]) -> Iterator[str]:
    if not known:
        yield f"What it was trained on is {UNKNOWN}."
        return
    counts = [known.get(f"n_{part}") for part in ("train", "valid", "test")]
    yield f"- trained on: `{known.get('name', UNKNOWN)}`"
    yield f"- SHA-256 of its features and labels: `{known.get('fingerprint', UNKNOWN)}`"
    if all(isinstance(count, int) for count in counts):
        yield "- divided, stratified by class, into {:,} training, {:,} validation and {:,} test rows".format(*counts)
        yield f"- with the seed {known.get('seed')}; test rows trained and chose nothing"


def _conditions(model: LogisticCircuit) -> Iterator[str]:
    yield "Of every class, the conditions that add most to its logit, or take most from it, where they hold."
    for label, found in list(top_conditions(model, top=TOP).items())[:MOST_CLASSES]:
        yield f"\n{_cell(label)}:\n"
        yield from (f"- {weight:+.3f} {_cell(text)}" for text, weight in found)


def _limits(model: LogisticCircuit, measured: Measured | None) -> Iterator[str]:
    yield "- Classes beside those above: every example gets one of these, also one that is of none."
    yield "- Whether what it found are causes: conditions tell what went together in the training rows."
    yield "- Values that training never met: beyond the ends of a column, or a pixel's range, they count as the ends."
    if measured is None:
        yield "- How good it is on rows of today; measure it on some (`lcml evaluate`)."
    else:
        absent = [label for k, label in enumerate(model.classes) if not (measured.labels == k).any()]
        if absent:
            some = ", ".join(map(_cell, absent[:MOST_CLASSES]))
            yield f"- How well it knows {some}: no example measured here was of it."
    if not model.provenance:
        yield "- Where it comes from: it has no provenance, as one read from a .circuit file."
    if model.provenance.get("edits"):
        yield f"- It was edited by hand, {len(model.provenance['edits'])} conditions; `lcml inspect` lists them."
    if model.provenance.get("pruning"):
        yield "- It was pruned after training: " + _cell(json.dumps(model.provenance["pruning"])) + "."


def _reproduce(model: LogisticCircuit, name: str) -> Iterator[str]:
    yield f"```sh\npip install lcml=={model.facts('versions').get('lcml', lcml.__version__)}"
    yield f"lcml predict {name}.lcml rows.csv"
    settings, data = model.facts("settings"), model.facts("data")
    if settings:
        yield f"lcml train --config settings.toml -o {name}.lcml\n```\n"
        yield "with `settings.toml`, beside defaults\n\n```toml"
        usual = TrainConfig().settings()
        values = {key: value for key, value in settings.items() if value != usual.get(key)}
        values["data"] = Path(str(settings.get("data"))).name
        yield from (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
    yield "```"
    if not settings:
        yield f"\nHow it was trained is {UNKNOWN}."
    if versions := model.facts("versions"):
        machine = model.facts("machine")
        told = ", ".join(f"{package} {version}" for package, version in versions.items())
        device = machine.get("device", "a machine that is not known")
        yield f"\nTrained with {told}, on {device}, seed {data.get('seed')}."


def _task(model: LogisticCircuit) -> str:
    shape = model.facts("data").get("image_shape")
    return "image-classification" if shape or model.encoder.channels else "tabular-classification"


def _number(value: float) -> str:
    return f"{value:.4f}" if np.isfinite(value) else "not known"


def _ends(one: Interval) -> str:
    return f"{one.low:.4f} to {one.high:.4f}" if np.isfinite(one.low) else "not known"


def _cell(value: object) -> str:
    """Text in a line or cell of Markdown: as code, on one line, its bars escaped."""
    text = " ".join(str(value).split()).replace("|", "\\|").replace("`", "'")
    return f"`{text}`" if text else "` `"


def _yaml(value: Any, indent: str = "") -> Iterator[str]:
    """Lines of YAML in block style; texts, numbers and keys as JSON, which YAML reads."""
    for key, part in value.items():
        if isinstance(part, dict):
            yield f"{indent}{key}:\n"
            yield from _yaml(part, indent + "  ")
        elif isinstance(part, Sequence) and not isinstance(part, str):
            yield f"{indent}{key}:\n"
            for item in part:
                if isinstance(item, dict):
                    first, *others = _yaml(item, indent + "  ")
                    yield f"{indent}- {first.lstrip()}"
                    yield from others
                else:
                    yield f"{indent}- {json.dumps(item)}\n"
        else:
            yield f"{indent}{key}: {json.dumps(part)}\n"
