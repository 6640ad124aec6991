"""The API is as it describes itself: schemathesis asks for what the description allows, and for some of what it does
not, and holds every answer against it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blizzard.service.fleet_api import FleetApi
from tests.flows.fleets import FleetFolder, Readers, Running, running, several_in_a_fleet
from tests.flows.in_process import Flow
from tests.flows.operating import LONGEST_S, InProcessOperation, SeveralOperation, ask, going, wait_until
from tests.ingesting import write

_EXAMPLES = "5"  # of each path and method, beside those that are tried always


@pytest.fixture
def folder(tmp_path: Path, readers: Readers) -> FleetFolder:
    """One of each: at work, with something in quarantine, failed, without a table."""
    made = FleetFolder(tmp_path).add("orders", "users", "failed", "empty")
    made.put("orders", 0, 3)
    write(made.src("users") / "a.ndjson", b'{"id":1}\n{"id":2}\nnonsense\n')
    made.src("failed").rmdir()
    return made


@pytest.fixture
def fleet(folder: FleetFolder) -> Iterator[Running]:
    with running(folder) as made:
        wait_until(lambda: made.fleet.is_ready and made.state("failed") == "failed")
        wait_until(lambda: made.row("users")["quarantined_records"] == 1)
        yield made


def check_conforms(url: str, folder: Path, *more: str) -> None:
    """Every check that schemathesis has: statuses, types, schemas and headers; no answer of 500 or more; what is not
    described is refused; without the token nothing is told."""
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json"]
    options = ["--checks", "all", "--max-examples", _EXAMPLES, "--seed", "1", "--no-color", "--warnings", "off"]
    patience = ["--request-timeout", str(LONGEST_S), "--suppress-health-check", "too_slow"]  # a busy machine
    done = subprocess.run(
        [*command, *options, *patience, *more],
        cwd=folder,  # it keeps a folder of its own where it runs
        capture_output=True,
        text=True,
        timeout=5 * LONGEST_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]


@pytest.mark.slow
def test_a_fleet_answers_as_it_says(folder: FleetFolder, tmp_path: Path) -> None:
    """With a token, so that what is asked without it counts too."""
    folder.top["api"] = {"token": "s3cret-token"}
    with running(folder) as fleet:
        wait_until(lambda: fleet.fleet.is_ready)
        check_conforms(fleet.url, tmp_path, "-H", "Authorization: Bearer s3cret-token")


@pytest.mark.slow
def test_one_run_answers_as_it_says(tmp_path: Path) -> None:
    """All but a stop, which ends it."""
    operation = InProcessOperation(Flow(tmp_path).first_run(), {"api.address": "127.0.0.1:0"})
    with going(operation) as (url, _):
        wait_until(lambda: ask(f"{url}/ready").status == 200)
        check_conforms(url, tmp_path, "--exclude-path", "/stop")


@pytest.mark.slow
def test_one_run_with_several_targets_answers_as_it_says(tmp_path: Path, in_process: None) -> None:
    write(tmp_path / "src" / "a.ndjson", b'{"id":1}\n{"id":2}\n')
    targets: dict[str, dict[str, Any]] = {"good": {}, "bad": {"required": False, "schema.ddl": "id DATE"}}
    operation = SeveralOperation(tmp_path, targets, {"api.address": "127.0.0.1:0", "follow.poll_s": 0.2})
    with going(operation) as (url, _):
        wait_until(lambda: ask(f"{url}/status").json["cycles"] > 1)
        check_conforms(url, tmp_path, "--exclude-path", "/stop")


@pytest.mark.slow
def test_a_fleet_with_several_targets_answers_as_it_says(tmp_path: Path, in_process: None) -> None:
    with running(several_in_a_fleet(tmp_path)) as fleet:
        wait_until(lambda: fleet.fleet.is_ready and len(fleet.row("orders")["targets"]) == 2)
        check_conforms(fleet.url, tmp_path, "--exclude-path", "/pipelines/{name}/stop")


def test_everything_that_is_served_is_described(fleet: Running) -> None:
    told = ask(f"{fleet.url}/openapi.json").json
    served = {(route.method.lower(), route.path) for route in FleetApi(fleet.fleet).router.routes}
    assert {(method, path) for path, methods in told["paths"].items() for method in methods} == served
    assert all(answers_of(told, method, path) for method, path in served)
    ids = [operation["operationId"] for methods in told["paths"].values() for operation in methods.values()]
    assert len(ids) == len(set(ids))


def answers_of(told: Any, method: str, path: str) -> Any:
    return told["paths"][path][method]["responses"]
