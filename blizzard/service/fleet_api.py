"""The API of a fleet: what each pipeline is, has and may be asked, under its name; and a page with all of them."""

from __future__ import annotations

from collections.abc import Callable

from blizzard.report.facts import FleetFacts
from blizzard.run.clock import SystemClock
from blizzard.service.fleet import Fleet
from blizzard.service.member import Member
from blizzard.service.openapi import (
    ASKED,
    CHECKPOINTS,
    METRICS,
    PAGE,
    PROMETHEUS,
    READY,
    REPORT,
    answers,
    description,
)
from blizzard.service.router import HTML, Answer, Described, NotThere, Route, Router


class FleetApi:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    @property
    def router(self) -> Router:
        routes, names = self._routes(), list(self._fleet.members)
        title = "blizzard: a fleet of pipelines"
        return Router([*routes, description(routes, title=title, needs_token=self._needs_token, names=names[:5])])

    def _routes(self) -> list[Route]:
        one = "/pipelines/{name}"
        health = "Whether the process gets on: 503 if every pipeline that is not paused or stopped fails."
        gets: dict[str, tuple[Callable[..., Answer], str, dict[int, Described]]] = {
            "/": (self._page, "All pipelines, live, with buttons.", PAGE),
            "/health": (self._health, health, answers("FleetHealth", "", 503)),
            "/ready": (self._ready, "Whether every pipeline has been looked at once, well or not.", READY),
            "/metrics": (self._metrics, "Metrics of all pipelines, for Prometheus.", METRICS),
            "/pipelines": (self._pipelines, "All pipelines, in the order of the file.", answers("Pipelines", "")),
            one: (self._pipeline, "One pipeline, with what it did.", answers("Pipeline", "")),
            f"{one}/report": (self._report, "The report of its table, live, with buttons.", REPORT),
            "/checkpoints": (
                self._newest,
                "The newest position of each pipeline, as this process knows it.",
                answers("NewestCheckpoints", ""),
            ),
            "/checkpoints/{name}": (self._checkpoints, "The newest 50 positions in the log.", CHECKPOINTS),
        }
        posts: dict[str, tuple[Callable[[Member], Answer], str]] = {
            "pause": (Member.pause, "Commit what is read, and begin nothing more."),
            "resume": (Member.resume, "Go on; after a failure, try again now; after a stop, start again."),
            "checkpoint": (Member.commit_now, "Commit what is read so far. The answer has the sequence to wait for."),
            "stop": (Member.stop, "Commit what is read, and end this pipeline. The others go on."),
        }
        routes = [Route(method="GET", path=p, view=v, summary=s, answers=a) for p, (v, s, a) in gets.items()]
        for action, (ask, summary) in posts.items():
            view = self._asking(ask)
            routes.append(Route(method="POST", path=f"{one}/{action}", view=view, summary=summary, answers=ASKED))
        return routes

    def _member(self, name: str) -> Member:
        found = self._fleet.members.get(name)
        if found is None:
            raise NotThere(f"there is no pipeline {name!r}")
        return found

    def _asking(self, ask: Callable[[Member], Answer]) -> Callable[..., Answer]:
        return lambda name: ask(self._member(name))

    def _page(self) -> Answer:
        from blizzard.report.fleet import render_fleet  # its template engine is slow to load

        fleet = self._fleet
        facts = FleetFacts(
            rows=tuple(fleet.rows()),
            state=fleet.state,
            uptime_s=fleet.uptime_s,
            max_active=fleet.config.max_active,
            queued=fleet.turns.waiting,
            config=fleet.config.path,
            config_changed=fleet.config_changed,
            needs_token=self._needs_token,
            made_at_ms=SystemClock().now_ms(),
        )
        return Answer(body=render_fleet(facts).encode(), kind=HTML)

    def _health(self) -> Answer:
        fleet = self._fleet
        told = {"healthy": fleet.is_healthy, "pipelines": fleet.count_states(), "failing": fleet.failing}
        return Answer.json(told, 200 if fleet.is_healthy else 503)

    def _ready(self) -> Answer:
        return Answer.json({"ready": self._fleet.is_ready}, 200 if self._fleet.is_ready else 503)

    def _metrics(self) -> Answer:
        return Answer(body=self._fleet.metrics.text(), kind=PROMETHEUS)

    def _pipelines(self) -> Answer:
        fleet = self._fleet
        return Answer.json(
            {
                "state": fleet.state,
                "uptime_seconds": fleet.uptime_s,
                "max_active": fleet.config.max_active,
                "queued": fleet.turns.waiting,
                "config_changed": fleet.config_changed,
                "pipelines": fleet.rows(),
            }
        )

    def _pipeline(self, name: str) -> Answer:
        return Answer.json(self._member(name).status())

    def _report(self, name: str) -> Answer:
        return self._member(name).report()

    def _newest(self) -> Answer:
        return Answer.json({"checkpoints": [m.newest_checkpoint() for m in self._fleet.members.values()]})

    def _checkpoints(self, name: str) -> Answer:
        return self._member(name).listed_checkpoints()

    @property
    def _needs_token(self) -> bool:
        return self._fleet.config.process.api.token is not None
