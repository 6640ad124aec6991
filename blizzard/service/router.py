"""Which view answers which request: paths with parameters, and what each view may answer.

The same table makes the OpenAPI description, so that what is described is what is served.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from blizzard.config.request import PIPELINE_NAME
from blizzard.text.json import json_text

JSON = "application/json"
HTML = "text/html; charset=utf-8"


class NotThere(LookupError):
    """What the path names is not there: the answer is 404."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int = 200
    body: bytes = b""
    kind: str = JSON
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def is_good(self) -> bool:
        return self.status < 400

    @staticmethod
    def json(value: Any, status: int = 200) -> Answer:
        return Answer(status=status, body=json_text(value).encode() + b"\n")

    @staticmethod
    def error(text: str, status: int, **more: Any) -> Answer:
        return Answer.json({"error": text, **more}, status)


View = Callable[..., Answer]  # takes the parameters of its path


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What a status of an answer means. `schema` is the name of a JSON Schema, or None for what is no JSON."""

    text: str
    schema: str | None = None
    kind: str = JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """`/pipelines/{name}/pause`: a parameter is one whole part of a path, and the name of a pipeline."""

    method: str
    path: str
    view: View
    summary: str
    answers: Mapping[int, Described]

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.strip("/").split("/"))

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(part[1:-1] for part in self.parts if part.startswith("{"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is at a path: its routes by method, and the parameters in it. No route: there is nothing."""

    routes: Mapping[str, Route] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def allowed(self) -> str:
        names = {*self.routes, *(("HEAD",) if "GET" in self.routes else ())}
        return ", ".join(sorted(names))


class Router:
    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)

    @property
    def paths(self) -> list[str]:
        return sorted({route.path for route in self.routes})

    def find(self, target: str) -> Found:
        """`target` is the path of a request as it was sent: with a query, percent-encoded, maybe with a slash at its
        end. Every part is decoded once and alone, so an encoded slash is part of a name, and no name has one."""
        parts = [unquote(part) for part in target.split("?", 1)[0].rstrip("/").removeprefix("/").split("/")]
        found: dict[str, Route] = {}
        parameters: dict[str, str] = {}
        for route in self.routes:
            fitting = _fit(route.parts, parts)
            if fitting is not None:
                found[route.method], parameters = route, fitting
        return Found(routes=found, parameters=parameters)


def _fit(template: Sequence[str], parts: Sequence[str]) -> dict[str, str] | None:
    """The parameters, if the path is one of this template."""
    if len(template) != len(parts):
        return None
    found: dict[str, str] = {}
    for wanted, part in zip(template, parts, strict=True):
        if not wanted.startswith("{"):
            if wanted != part:
                return None
        elif PIPELINE_NAME.fullmatch(part):
            found[wanted[1:-1]] = part
        else:
            return None
    return found
