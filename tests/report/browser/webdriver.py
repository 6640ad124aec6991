"""A real Chromium, driven through chromedriver's own HTTP protocol: a few requests, and so no library for them."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the name that the W3C protocol gives to references
_OPTIONS = {
    "browserName": "chrome",
    "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
    "goog:chromeOptions": {
        "args": [
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
            *("--window-size=1240,1400", "--force-device-scale-factor=1", "--disable-background-networking"),
        ]
    },
}


class Browser:
    def __init__(self, chromedriver: str, chromium: str) -> None:
        self._process = subprocess.Popen([chromedriver, "--port=0"], stdout=subprocess.PIPE, text=True)
        try:
            self._begin(chromium)
        except BaseException:
            self._process.kill()
            raise

    def _begin(self, chromium: str) -> None:
        assert self._process.stdout is not None
        port = next(m[1] for line in self._process.stdout if (m := re.search(r"successfully on port (\d+)", line)))
        self._url = f"http://127.0.0.1:{port}/session"
        options = json.loads(json.dumps(_OPTIONS))
        options["goog:chromeOptions"]["binary"] = chromium
        answer = self._ask("POST", "", {"capabilities": {"alwaysMatch": options}})
        self._url += f"/{answer['sessionId']}"

    def close(self) -> None:
        try:
            self._ask("DELETE", "")
        finally:
            self._process.terminate()
            self._process.wait(20)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self._url + path, data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as e:
            raise AssertionError(f"{method} {path}: {json.load(e)['value']['message']}") from e

    def chrome(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, url: str) -> None:
        """What was logged before is forgotten."""
        self._ask("POST", "/url", {"url": "about:blank"})
        self._log("browser")
        self._log("performance")
        self._ask("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, selector: str) -> str:
        found = self._ask("POST", "/element", {"using": "css selector", "value": selector})
        return str(found[_ELEMENT])

    def text(self, selector: str) -> str:
        return str(self._ask("GET", f"/element/{self.find(selector)}/text"))

    def click(self, selector: str) -> None:
        self._ask("POST", f"/element/{self.find(selector)}/click")

    def type(self, selector: str, text: str) -> None:
        element = self.find(selector)
        self._ask("POST", f"/element/{element}/clear")
        self._ask("POST", f"/element/{element}/value", {"text": text})

    def accept(self) -> None:
        """Yes to what the page asks."""
        self._ask("POST", "/alert/accept")

    def point_at(self, selector: str) -> None:
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": {_ELEMENT: self.find(selector)}}
        self._ask("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})

    def console(self) -> list[str]:
        return [entry["message"] for entry in self._log("browser")]

    def requests(self) -> list[str]:
        """What the page has asked for since it was opened, itself included."""
        events = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        sent = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith(("about:", "data:"))]

    def _log(self, kind: str) -> Any:
        return self._ask("POST", "/se/log", {"type": kind})

    def screenshot(self) -> bytes:
        return base64.b64decode(self._ask("GET", "/screenshot"))

    def prefer(self, scheme: str) -> None:
        self.chrome("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def resize(self, width: int, height: int, *, mobile: bool = False, scale: float = 1) -> None:
        self.chrome(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile
        )

    def allow_scripts(self, allowed: bool) -> None:
        self.chrome("Emulation.setScriptExecutionDisabled", value=not allowed)

    def wait_until(self, condition: Callable[[], object], seconds: float = 20) -> None:
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, "it did not come about"
            time.sleep(0.1)
