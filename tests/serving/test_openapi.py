"""The OpenAPI description, and requests that schemathesis makes up from it."""

import html.parser
import re
from pathlib import Path
from typing import Any

import hypothesis
import schemathesis
from schemathesis.specs.openapi import checks
from starlette.routing import Route

from lcml_serving.app import create_app
from lcml_serving.openapi import describe
from lcml_serving.service import Service
from lcml_serving.settings import Settings
from tests.serving.running import Running

CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]

EXAMPLES = 8  # per operation


def _operations(running: Running) -> list[Any]:
    schema = schemathesis.openapi.from_url(f"http://{running.url}/openapi.json")
    return [result.ok() for result in schema.get_all_operations()]


def test_the_description_is_that_of_the_routes(repository: Path) -> None:
    settings = Settings(paths=(repository,))
    service = Service(settings)
    described = describe(settings)["paths"]
    service.close()
    routes: dict[str, set[str]] = {}
    for route in create_app(service).routes:
        assert isinstance(route, Route)
        routes.setdefault(route.path, set()).update((route.methods or set()) - {"HEAD"})
    assert {
        path: {method.upper() for method in item if method != "parameters"} for path, item in described.items()
    } == routes


def test_the_page_shows_every_operation_and_asks_nobody(service: Running) -> None:
    answer = service.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    page = _Page()
    page.feed(answer.body.decode())
    page.close()
    described = service.get("/openapi.json").json()
    assert page.open_elements == []
    assert page.paths == [
        path for path, item in described["paths"].items() for method in item if method != "parameters"
    ]
    targets = {link.removeprefix("#") for link in page.links} - {"openapi.json"}
    assert targets <= page.names
    assert not re.search(rb"//(?!www\.w3\.org)|@import|url\(|<script", answer.body)


class _Page(html.parser.HTMLParser):
    """Links, anchors and the paths of operations in a page; `open_elements` must be empty in the end."""

    def __init__(self) -> None:
        super().__init__()
        self.open_elements: list[str] = []
        self.links: list[str] = []
        self.names: set[str] = set()
        self.paths: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open_elements.append(tag)
        given = dict(attrs)
        self.links += [value for key in ("href", "src") if (value := given.get(key))]
        self.names.add(given.get("id") or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open_elements.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open_elements and self.open_elements[-1] == "code":
            self.paths.append(data)


def test_made_up_requests_get_described_answers(service: Running) -> None:
    """Valid by the description and not: never a 5xx, always a described status, media type and body."""
    n_calls = 0
    for operation in _operations(service):
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

            def check(case: Any) -> None:
                nonlocal n_calls
                n_calls += 1
                # a real model's name, else every request would end at 404
                if "name" in case.path_parameters:
                    case.path_parameters["name"] = "plain"
                if "version" in case.path_parameters:
                    case.path_parameters["version"] = "3"
                case.call_and_validate(checks=CHECKS)

            strategy = operation.as_strategy(generation_mode=mode)
            settings = hypothesis.settings(
                max_examples=EXAMPLES,
                derandomize=True,
                database=None,
                deadline=None,
                suppress_health_check=list(hypothesis.HealthCheck),
            )
            try:
                settings(hypothesis.given(case=strategy)(check))()
            except hypothesis.errors.Unsatisfiable:
                assert mode is schemathesis.GenerationMode.NEGATIVE
    assert n_calls > 100
