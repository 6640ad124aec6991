"""Emulators of Google Cloud Storage and Azure Blob Storage: in memory, on a free loopback port, gone with the tests."""

from __future__ import annotations

import json
import shutil
import urllib.request
from pathlib import Path
from typing import Any

from tests.s3.processes import ServerProcess

AZURE_ACCOUNT = "devstoreaccount1"
AZURE_HOST = f"{AZURE_ACCOUNT}.dfs.core.windows.net"
# Azurite's own, the same everywhere and published: not a secret.
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def options_for_gcs(endpoint: str) -> dict[str, str]:
    # delta-rs signs what it writes in any case, except under such a key.
    key = {"gcs_base_url": endpoint, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    return {
        "GOOGLE_BASE_URL": endpoint,
        "GOOGLE_SKIP_SIGNATURE": "true",
        "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(key),
    }


class GcsServer:
    def __init__(self, binary: Path, folder: Path) -> None:
        self._process = ServerProcess(
            lambda port: [
                str(binary),
                *("-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)),
                *("-public-host", f"127.0.0.1:{port}", "-external-url", f"http://127.0.0.1:{port}"),
                *("-log-level", "error"),
            ],
            health="/_internal/healthcheck",
            log=folder / "fake-gcs-server.log",
        )
        self.endpoint = f"http://127.0.0.1:{self._process.port}"

    @property
    def options(self) -> dict[str, str]:
        return options_for_gcs(self.endpoint)

    def make_bucket(self, name: str) -> None:
        self.post("/storage/v1/b?project=test", json.dumps({"name": name}).encode())

    def post(self, path: str, body: bytes, **headers: str) -> Any:
        headers = {"Content-Type": "application/json", **headers}
        request = urllib.request.Request(self.endpoint + path, data=body, headers=headers, method="POST")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read()

    def stop(self) -> None:
        self._process.stop()


class AzureServer:
    def __init__(self, folder: Path, azurite: Path) -> None:
        node = shutil.which("node") or "node"
        script = azurite / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
        self._process = ServerProcess(
            lambda port: [
                *(node, str(script), "--blobHost", "127.0.0.1", "--blobPort", str(port)),
                *("--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"),
            ],
            health=None,
            log=folder / "azurite.log",
        )
        self.url = f"http://127.0.0.1:{self._process.port}"
        self.endpoint = f"{self.url}/{AZURE_ACCOUNT}"

    @property
    def options(self) -> dict[str, str]:
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": AZURE_ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY,
            # Without this delta-rs counts on an option of listings that the emulator does not know.
            "AZURE_STORAGE_USE_EMULATOR": "true",
        }

    def client(self) -> Any:
        from azure.storage.blob import BlobServiceClient

        return BlobServiceClient(self.endpoint, credential=AZURE_KEY)

    def make_bucket(self, name: str) -> None:
        self.client().create_container(name)

    def stop(self) -> None:
        self._process.stop()
