"""The OpenAPI description of an API, made from the routes that serve it."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from blizzard import __version__
from blizzard.service.router import HTML, JSON, Answer, Described, Route
from blizzard.service.schemas import SCHEMAS

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

_NOT_NOW = Described(text="The table cannot be read now.", schema="Error")
PAGE = {200: Described(text="A page for a browser.", kind=HTML)}
REPORT = {**PAGE, 503: _NOT_NOW}
READY = {200: Described(text="It is.", schema="Ready"), 503: Described(text="Not yet.", schema="Ready")}
METRICS = {200: Described(text="Prometheus' text format.", kind=PROMETHEUS)}
CHECKPOINTS = {200: Described(text="Newest first.", schema="Checkpoints"), 503: _NOT_NOW}
ASKED = {
    202: Described(text="It is asked for, and done as soon as possible.", schema="Asked"),
    409: Described(text="It cannot be done now, and why.", schema="Asked"),
    303: Described(text="For a form of a browser without JavaScript: back to its page.", schema="Asked"),
}
# Any request may be refused: see docs/observe.md, "Who may use it".
_REFUSED = {
    401: Described(text="The token is missing or wrong.", schema="Error"),
    403: Described(text="By a name that is not this machine's, or from a page of another site.", schema="Error"),
}
_NO_PIPELINE = Described(text="There is no pipeline of this name.", schema="Error")
_NAME = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$", "minLength": 1, "maxLength": 100}


def answers(schema: str, text: str, *also: int) -> dict[int, Described]:
    """200 with this schema, and other statuses with the same."""
    return {status: Described(text=text, schema=schema) for status in (200, *also)}


def description(routes: Sequence[Route], *, title: str, needs_token: bool, names: Sequence[str] = ()) -> Route:
    """`/openapi.json`, which describes itself too. `names` are those of pipelines, as examples."""
    text = "This description, as OpenAPI 3.1."
    own = Route(
        method="GET",
        path="/openapi.json",
        view=lambda: Answer.json(made),
        summary=text,
        answers=answers("Description", text),
    )
    made = _describe([*routes, own], title=title, needs_token=needs_token, names=names)
    return own


def _describe(routes: Sequence[Route], *, title: str, needs_token: bool, names: Sequence[str]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        told = _operation(route, needs_token=needs_token, names=names)
        paths.setdefault(route.path, {})[route.method.lower()] = told
    secured: dict[str, Any] = {"security": [{"token": []}]} if needs_token else {}
    schemes = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if needs_token else {}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": __version__,
            "description": "Look at pipelines that append NDJSON to Delta tables, and control them.",
        },
        "paths": paths,
        "components": {"schemas": _used(routes), **schemes},
        **secured,
    }


def _operation(route: Route, *, needs_token: bool, names: Sequence[str]) -> dict[str, Any]:
    told = dict(route.answers) | {code: said for code, said in _REFUSED.items() if needs_token or code != 401}
    if route.parameters:
        told[404] = _NO_PIPELINE
    schema = _NAME | ({"examples": list(names)} if names else {})
    parameters = [{"name": name, "in": "path", "required": True, "schema": schema} for name in route.parameters]
    words = [part.strip("{}").replace(".", "_") or "page" for part in route.parts]
    return {
        "summary": route.summary,
        "operationId": "_".join([route.method.lower(), *words]),
        **({"parameters": parameters} if parameters else {}),
        "responses": {str(code): _response(code, said) for code, said in sorted(told.items())},
    }


def _response(code: int, said: Described) -> dict[str, Any]:
    schema = {"type": "string"} if said.schema is None else {"$ref": f"#/components/schemas/{said.schema}"}
    text = f"{HTTPStatus(code).phrase}. {said.text}"
    location = {"Location": {"required": True, "schema": {"type": "string"}}} if code == HTTPStatus.SEE_OTHER else {}
    return {
        "description": text,
        "content": {(said.kind if said.schema is None else JSON): {"schema": schema}},
        **({"headers": location} if location else {}),
    }


def _used(routes: Sequence[Route]) -> dict[str, Any]:
    """The schemas that these routes name, with those that they name in turn."""
    waiting = ["Error", *(said.schema for route in routes for said in route.answers.values() if said.schema)]
    used: dict[str, Any] = {}
    while waiting:
        name = waiting.pop()
        if name not in used:
            used[name] = SCHEMAS[name]
            waiting += _named(SCHEMAS[name])
    return dict(sorted(used.items()))


def _named(schema: Any) -> list[str]:
    match schema:
        case {"$ref": str(ref)}:
            return [ref.rsplit("/", 1)[-1]]
        case dict():
            return [name for inner in schema.values() for name in _named(inner)]
        case list():
            return [name for inner in schema for name in _named(inner)]
        case _:
            return []
