"""Which view answers which path: parameters are decoded once, part by part, and are names of pipelines or nothing."""

from __future__ import annotations

import pytest

from blizzard.service.router import Answer, Route, Router


def route(method: str, path: str) -> Route:
    return Route(method=method, path=path, view=lambda **_: Answer(), summary="", answers={})


ROUTER = Router(
    [
        route("GET", "/"),
        route("GET", "/pipelines"),
        route("GET", "/pipelines/{name}"),
        route("POST", "/pipelines/{name}/pause"),
        route("GET", "/checkpoints/{name}"),
    ]
)


@pytest.mark.parametrize(
    ("target", "path", "parameters"),
    [
        ("/", "/", {}),
        ("", "/", {}),
        ("/?a=/pipelines", "/", {}),
        ("/pipelines", "/pipelines", {}),
        ("/pipelines/", "/pipelines", {}),
        ("/pipelines/orders", "/pipelines/{name}", {"name": "orders"}),
        ("/pipelines/orders.eu-1_x?x=1", "/pipelines/{name}", {"name": "orders.eu-1_x"}),
        ("/pipelines/%6Frders", "/pipelines/{name}", {"name": "orders"}),
        ("/pipelines/a%2Eb", "/pipelines/{name}", {"name": "a.b"}),
        ("/%70ipelines/x/pause", "/pipelines/{name}/pause", {"name": "x"}),
        ("/pipelines/pause", "/pipelines/{name}", {"name": "pause"}),
    ],
)
def test_a_path_and_its_parameters(target: str, path: str, parameters: dict[str, str]) -> None:
    found = ROUTER.find(target)
    assert {r.path for r in found.routes.values()} == {path}
    assert found.parameters == parameters


@pytest.mark.parametrize(
    "target",
    [
        "/pipelines/a%2Fb",  # a slash in a name is no slash of the path
        "/pipelines/..",
        "/pipelines/%2e%2e",
        "/pipelines/.hidden",
        "/pipelines/a%00b",
        "/pipelines/%ff",
        "/pipelines/%",
        "/pipelines/a b",
        "/pipelines/ü",
        "/pipelines/" + "x" * 101,
        "/pipelines/a%252Eb",  # decoded once
        "/pipelines//pause",
        "/pipelines/a/pause/x",
        "/Pipelines",
        "//pipelines/x/y",
    ],
)
def test_what_names_nothing(target: str) -> None:
    assert not ROUTER.find(target).routes


def test_what_may_be_done_with_a_path() -> None:
    assert ROUTER.find("/pipelines/x").allowed == "GET, HEAD"
    assert ROUTER.find("/pipelines/x/pause").allowed == "POST"
