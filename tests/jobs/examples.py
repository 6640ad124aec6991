"""Every example of a deployment: which pipeline it runs, on which source, into which table."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from blizzard.cli.parser import build_parser

ROOT = Path(__file__).parents[2]
JOBS = ROOT / "jobs"


@dataclass(frozen=True)
class Example:
    where: str
    pipeline: str | None  # None: the file does not say
    source: str | None
    table: str


def every_example() -> list[Example]:
    return [*of_airflow(), *of_emr(), *of_systemd(), *of_kubernetes(), *of_conf(), *of_documents()]


def of_airflow() -> Iterator[Example]:
    for path in sorted(JOBS.glob("airflow_*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "Ingest":
                given = {word.arg: _text(word.value) for word in call.keywords}
                yield Example(path.name, given["pipeline"], given["source"], str(given["table"]))


def _text(value: ast.expr) -> str | None:
    """A constant, or the default of os.environ.get(…, default)."""
    if isinstance(value, ast.Call):
        value = value.args[-1]
    return str(value.value) if isinstance(value, ast.Constant) else None


def emr_arguments() -> dict[str, list[str]]:
    """What each file of jobs/emr gives to jobs/ingest.py."""
    (step,) = json.loads((JOBS / "emr/steps.json").read_text())
    words = step["HadoopJarStep"]["Args"]
    application = next(i for i, word in enumerate(words) if word.endswith("/ingest.py"))
    job_run = json.loads((JOBS / "emr/serverless-job-run.json").read_text())
    return {
        "steps.json": words[application + 1 :],
        "serverless-job-run.json": job_run["jobDriver"]["sparkSubmit"]["entryPointArguments"],
    }


def of_emr() -> Iterator[Example]:
    for name, arguments in emr_arguments().items():
        options = build_parser().parse_args(["run", *arguments])
        yield Example(name, options.pipeline, options.source, options.table)


def of_systemd() -> Iterator[Example]:
    for path in sorted((JOBS / "systemd").glob("*.yaml")):
        yield from _of_config(f"systemd/{path.name}", yaml.safe_load(path.read_text()), path.stem)


def manifests() -> list[tuple[str, dict[str, Any]]]:
    files = sorted((JOBS / "kubernetes").glob("*.yaml"))
    return [(path.name, manifest) for path in files for manifest in yaml.safe_load_all(path.read_text())]


def pod_of(manifest: dict[str, Any]) -> dict[str, Any]:
    spec = manifest["spec"]
    found: dict[str, Any] = (spec["jobTemplate"]["spec"] if manifest["kind"] == "CronJob" else spec)["template"]["spec"]
    return found


def of_kubernetes() -> Iterator[Example]:
    maps = {m["metadata"]["name"]: m["data"] for _, m in manifests() if m["kind"] == "ConfigMap"}
    for name, manifest in manifests():
        if manifest["kind"] != "ConfigMap":
            (container,) = pod_of(manifest)["containers"]
            options = build_parser().parse_args(container["args"])
            (volume,) = [v for v in pod_of(manifest)["volumes"] if "configMap" in v]
            config = maps[volume["configMap"]["name"]][Path(options.config).name]
            yield from _of_config(f"kubernetes/{name}", yaml.safe_load(config), options.pipeline)


def of_conf() -> Iterator[Example]:
    for path in (ROOT / "conf/example.yaml", ROOT / "conf/fleet.example.yaml"):
        yield from _of_config(path.name, yaml.safe_load(path.read_text()), None)


def of_documents() -> Iterator[Example]:
    for path in sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]):
        for block in re.findall(r"^```yaml\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL):
            yield from _of_config(path.name, yaml.safe_load(block), None)


def _of_config(where: str, config: Any, pipeline: str | None) -> Iterator[Example]:
    if not isinstance(config, dict):
        return
    for name, own in config.get("pipelines", {}).items():
        yield from _of_config(where, {**config, "pipelines": {}, **own}, name)
    source = config.get("source", {}).get("path")
    tables = [target.get("table", {}).get("path") for target in config.get("targets", {}).values()]
    for table in [config.get("table", {}).get("path"), *tables]:
        if table is not None:
            yield Example(where, pipeline, source, table)
