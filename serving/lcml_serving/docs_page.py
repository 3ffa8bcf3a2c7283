"""The page at /docs: the operations of the OpenAPI description, readable in a browser that can reach nothing else."""

import json
from html import escape
from typing import Any

HEADERS = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
details { border: 1px solid #8886; border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem }
summary { cursor: pointer } code, pre { font-family: ui-monospace, monospace } pre { overflow-x: auto }
summary b { display: inline-block; width: 3.5rem } td { padding-right: 1rem; vertical-align: top }
:root { color-scheme: light dark }
"""


def render_page(description: dict[str, Any]) -> bytes:
    """HTML of the description: every operation with its parameters, body and answers, then the schemas."""
    info = description["info"]
    operations = [
        _operation(path, method, operation)
        for path, item in description["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    ]
    schemas = [_schema(name, schema) for name, schema in description["components"]["schemas"].items()]
    token = "<p>Every request but the probes needs a bearer token.</p>" if "security" in description else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(info["title"])}</title><style>{_STYLE}</style></head><body>
<h1>{escape(info["title"])} {escape(info["version"])}</h1><p>{escape(info["description"])}
The same for programs: <a href="openapi.json">openapi.json</a>.</p>{token}
<h2>Operations</h2>{"".join(operations)}<h2>Schemas</h2>{"".join(schemas)}</body></html>
""".encode()


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    rows = [("body", ", ".join(_contents(operation["requestBody"]["content"])))] if "requestBody" in operation else []
    for status, answer in operation["responses"].items():
        shown = ", ".join(_contents(answer["content"]))
        rows.append((status, f"{escape(answer['description'])}: {shown}"))
    table = "".join(f"<tr><td>{name}</td><td>{content}</td></tr>" for name, content in rows)
    head = f"<b>{method.upper()}</b><code>{escape(path)}</code> {escape(operation['summary'])}"
    return f"<details><summary>{head}</summary><table>{table}</table></details>"


def _contents(content: dict[str, Any]) -> list[str]:
    """Media types, with a link to the schema where there is one."""
    shown = []
    for media_type, value in content.items():
        name = value.get("schema", {}).get("$ref", "").rpartition("/")[2]
        shown.append(escape(media_type) + (f' <a href="#{escape(name)}">{escape(name)}</a>' if name else ""))
    return shown


def _schema(name: str, schema: dict[str, Any]) -> str:
    shown = escape(json.dumps(schema, indent=1))
    return f'<details id="{escape(name)}" open><summary>{escape(name)}</summary><pre>{shown}</pre></details>'
