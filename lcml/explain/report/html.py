"""Pieces of a page: tables, figures, sections. All text is escaped here."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from lcml.explain.report.drawing import Drawing, svg

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""A browser refuses what would leave the page."""


def figure(drawing: Drawing, caption: str = "") -> str:
    """A drawing, its text alternative in it, over its caption."""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure data-words="{escape(drawing.label.lower())}">{svg(drawing)}{below}</figure>'


def figures(drawn: Iterable[str]) -> str:
    return f'<div class="figures">{"".join(drawn)}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Cells: below a head numbers to the right; None as a dash."""
    lines = "".join("<tr>" + "".join(_cell(value, bool(head)) for value in row) + "</tr>" for row in rows)
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    top = f"<thead><tr>{names}</tr></thead>" if head else ""
    return f'<div class="wide"><table>{top}<tbody>{lines}</tbody></table></div>'


def _cell(value: object, right: bool) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    text = f"{value:,}" if isinstance(value, int) and is_number else f"{value:.4g}" if is_number else str(value)
    text = "-" if value is None or text == "nan" else escape(text)
    return f'<td class="number">{text}</td>' if is_number and right else f"<td>{text}</td>"


def said(*sentences: str) -> str:
    return f"<p>{escape(' '.join(sentences))}</p>"


def heading(text: str) -> str:
    return f"<h3>{escape(text)}</h3>"


def hidden(summary: str, content: str) -> str:
    """What is shown when its summary is pressed."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def section(name: str, title: str, *content: str) -> tuple[str, str, str]:
    """Its name in the page, its title, and what is in it."""
    return name, title, "".join(content)


def page(title: str, subtitle: str, sections: Iterable[tuple[str, str, str]]) -> str:
    """The whole page, with its style and script inside."""
    sections = list(sections)
    style, script = (files("lcml.explain.report").joinpath(f"page.{kind}").read_text("utf-8") for kind in ("css", "js"))
    links = "".join(f'<a href="#{name}">{escape(heading)}</a>' for name, heading, _ in sections)
    body = "".join(
        f'<section id="{name}"><h2>{escape(heading)}</h2>{content}</section>' for name, heading, content in sections
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{style}</style></head><body><header><h1>{escape(title)}</h1><p>{escape(subtitle)}</p></header>"
        f"<nav>{links}</nav><main>{body}</main><script>{script}</script></body></html>\n"
    )
