"""The report: a page of a model and of what it makes of some examples."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import lcml
from lcml.errors import DataError
from lcml.explain.pixels import image_shape
from lcml.explain.report.columns import columns_section
from lcml.explain.report.examples import examples_section
from lcml.explain.report.html import hidden, page, said, section, table
from lcml.explain.report.images import images_section
from lcml.explain.report.measured import Measured
from lcml.explain.report.quality import curves_section, quality_section
from lcml.explain.report.structure import structure_section

_LONGEST = 200


def report_page(found: Measured) -> str:
    """One HTML page that needs nothing else; DataError without examples."""
    if not found.n_examples:
        raise DataError(f"{found.data} has no examples to report of; give at least one")
    seen = images_section if image_shape(found.model) is not None else columns_section
    sections = [
        quality_section(found),
        seen(found),
        examples_section(found),
        curves_section(found.model.facts("history")),
        structure_section(found),
        _origin(found),
    ]
    data = found.model.facts("data")
    made = f"lcml {lcml.__version__}, {datetime.now(UTC):%Y-%m-%d}"
    trained = f"Trained on {data['name']}" if "name" in data else "The model does not say what it was trained on"
    subtitle = f"{trained}; measured on {found.n_examples:,} {found.rows} rows of {found.data}. {made}"
    return page(f"Logistic circuit for {data.get('name', found.data)}", subtitle, sections)


def _origin(found: Measured) -> tuple[str, str, str]:
    """What was trained on what, how it was divided, with which settings, and by which versions."""
    model = found.model
    if not model.provenance:
        return section("origin", "Where it comes from", said("The model does not say: it has no provenance."))
    titles = {
        "data": "Data and their division",
        "training": "What learning reached",
        "machine": "Machine",
        "versions": "Versions",
    }
    shown = [_facts(title, model.facts(name)) for name, title in titles.items()]
    settings = hidden("all settings", table(("setting", "value"), _lines(model.facts("settings"))))
    return section("origin", "Where it comes from", *shown, settings)


def _facts(title: str, facts: Mapping[str, Any]) -> str:
    return f"<h3>{title}</h3>" + (table((), _lines(facts)) if facts else said("The model does not say."))


def _lines(facts: Mapping[str, Any]) -> list[tuple[str, object]]:
    return [(name.replace("_", " "), _value(value)) for name, value in facts.items()]


def _value(value: object) -> object:
    """A value of the provenance as a cell: of a long list the beginning."""
    if value is None or isinstance(value, int | float):
        return value
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    more = f"... ({len(value):,} in all)" if isinstance(value, list) else "..."
    return text if len(text) <= _LONGEST else text[:_LONGEST] + more
