"""The manifests against the published schemas of Kubernetes, and against what blizzard needs of them."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from blizzard import errors
from blizzard.config.load import load_config
from blizzard.service.http import ApiServer
from blizzard.service.router import Answer
from tests.jobs.examples import manifests, pod_of
from tests.service.test_http import routed

OLDEST, NEWEST = "1.31", kubernetes_validate.latest_version()
ALL = manifests()
WORKLOADS = [(name, manifest) for name, manifest in ALL if manifest["kind"] != "ConfigMap"]
((_, CRON),) = [(name, manifest) for name, manifest in ALL if manifest["kind"] == "CronJob"]
((_, FOLLOW),) = [(name, manifest) for name, manifest in ALL if manifest["kind"] == "StatefulSet"]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize(("name", "manifest"), ALL, ids=lambda value: value if isinstance(value, str) else "")
def test_kubernetes_takes_the_manifests(name: str, manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("spec",), {"concurencyPolicy": "Forbid"}),
        (("spec", "jobTemplate", "spec"), {"backoffLimit": "4"}),
        (("spec", "jobTemplate", "spec", "podFailurePolicy"), {"rules": [{"onExitCodes": {"values": [2]}}]}),
    ],
)
def test_the_schemas_do_find_mistakes(path: tuple[str, ...], wrong: dict[str, Any]) -> None:
    manifest = copy.deepcopy(CRON)
    at: Any = manifest
    for step in path:
        at = at[step]
    at.update(wrong)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, NEWEST, strict=True)


def test_a_cron_job_never_has_two_drivers() -> None:
    job = CRON["spec"]["jobTemplate"]["spec"]
    assert CRON["spec"]["concurrencyPolicy"] == "Forbid"
    assert (job["parallelism"], job["completions"]) == (1, 1)
    assert job["podReplacementPolicy"] == "Failed"
    assert pod_of(CRON)["restartPolicy"] == "Never", "podFailurePolicy is refused with any other"


def test_a_follower_never_has_two_drivers() -> None:
    assert (FOLLOW["kind"], FOLLOW["spec"]["replicas"]) == ("StatefulSet", 1)
    assert FOLLOW["spec"]["selector"]["matchLabels"] == FOLLOW["spec"]["template"]["metadata"]["labels"]


def test_exit_codes_have_the_end_that_they_mean() -> None:
    job = CRON["spec"]["jobTemplate"]["spec"]
    fail, ignore = job["podFailurePolicy"]["rules"]
    (container,) = pod_of(CRON)["containers"]
    needs_a_person = {1} | {
        kind("").exit_code for kind in (errors.ConfigError, errors.Refused, errors.Fenced, errors.BadData)
    }
    assert (fail["action"], fail["onExitCodes"]["operator"]) == ("FailJob", "In")
    assert fail["onExitCodes"]["containerName"] == container["name"]
    # The API server wants them sorted and without 0; the schema does not say so.
    assert fail["onExitCodes"]["values"] == sorted(needs_a_person)
    assert errors.Temporary("").exit_code not in needs_a_person
    assert job["backoffLimit"] > 0
    assert ignore == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert "--exit-99-when-idle" not in container["args"]


@pytest.mark.parametrize(("name", "manifest"), WORKLOADS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_pod_is_given_what_it_asks_for(name: str, manifest: dict[str, Any], tmp_path: Path) -> None:
    maps = {m["metadata"]["name"]: m["data"] for _, m in ALL if m["kind"] == "ConfigMap"}
    pod = pod_of(manifest)
    (container,) = pod["containers"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    (text,) = maps[manifest["metadata"]["name"]].values()
    (tmp_path / "pipeline.yaml").write_text(text)
    config = load_config(file=str(tmp_path / "pipeline.yaml"))
    assert config.table.path
    assert pod["terminationGracePeriodSeconds"] >= (config.stop_grace_s or 0) + 20
    assert container["command"] == ["blizzard"], "a shell would get the signal and not pass it on"
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert pod["securityContext"]["runAsNonRoot"]


@pytest.mark.parametrize("token", [None, "secret"])
@pytest.mark.parametrize("code", [200, 503])
def test_the_probe_hears_what_the_api_says(token: str | None, code: int) -> None:
    """With the token that the API needs as soon as it is reached from elsewhere."""
    (container,) = pod_of(FOLLOW)["containers"]
    python, *words = container["readinessProbe"]["exec"]["command"]
    assert python == "python3"
    server = ApiServer("127.0.0.1:0", routed({"/health": lambda: Answer.json({}, code)}), token=token)
    try:
        here = [word.replace("http://127.0.0.1:8080", server.url) for word in words]
        env = os.environ | ({"API_TOKEN": token} if token else {})
        done = subprocess.run([sys.executable, *here], env=env, capture_output=True, check=False, timeout=300)
    finally:
        server.close()
    assert (done.returncode == 0) == (code == 200), done.stderr


def test_the_api_takes_its_token_from_the_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "secret")
    (tmp_path / "p.yaml").write_text("api: {address: '0.0.0.0:8080', token: '${API_TOKEN}'}\n")
    assert load_config(file=str(tmp_path / "p.yaml")).api.token == "secret"
