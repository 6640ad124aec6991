"""A real Chromium, driven by Selenium. Both programs are named, so that Selenium never looks for or downloads one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any, TypeVar

from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver import ActionChains
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.command import Command
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

Result = TypeVar("Result")
_LONGEST_S = 120  # for what takes a moment, on a busy machine
_ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--window-size=1240,1400", "--force-device-scale-factor=1", "--disable-background-networking"),
)


@cache
def _axe() -> str:
    return (resources.files("selenium_axe_python") / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


class Browser(WebDriver):
    def __init__(self, chromedriver: str, chromium: str) -> None:
        assert chromedriver, "without a path Selenium would download a driver"
        options = Options()
        options.binary_location = chromium
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        for argument in _ARGUMENTS:
            options.add_argument(argument)
        super().__init__(options, Service(chromedriver))

    def open(self, url: str) -> None:
        """What was logged before is forgotten."""
        self.get("about:blank")
        self._log("browser")
        self._log("performance")
        self.get(url)

    def find(self, selector: str) -> WebElement:
        return self.find_element(By.CSS_SELECTOR, selector)

    def execute(self, driver_command: Any, params: dict[str, Any] | None = None) -> Any:
        try:
            return super().execute(driver_command, params)
        except WebDriverException as error:
            # Chromedriver's words for a page that was replaced since the command before, while the new one loads. A
            # click may have done so itself, and must not be made again.
            if "inspector error" in str(error) and driver_command != Command.CLICK_ELEMENT:
                raise StaleElementReferenceException(str(error)) from error
            raise

    def text(self, selector: str) -> str:
        return self._of_now(lambda: self.find(selector).text)

    def click(self, selector: str) -> None:
        self._of_now(lambda: self.find(selector).click())

    def is_enabled(self, selector: str) -> bool:
        return self._of_now(lambda: self.find(selector).is_enabled())

    def _of_now(self, look: Callable[[], Result]) -> Result:
        """The page replaces its elements every few seconds: one that has just gone is looked up again."""
        until = time.monotonic() + _LONGEST_S
        while True:
            try:
                return look()
            except StaleElementReferenceException:
                if time.monotonic() > until:
                    raise

    def type(self, selector: str, text: str) -> None:
        self._of_now(lambda: self.find(selector).clear())
        self._of_now(lambda: self.find(selector).send_keys(text))

    def point_at(self, selector: str) -> None:
        self._of_now(lambda: ActionChains(self).move_to_element(self.find(selector)).perform())

    def console(self) -> list[str]:
        return [entry["message"] for entry in self._log("browser")]

    def requests(self) -> list[str]:
        """What the page has asked for since it was opened, itself included."""
        events = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        sent = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith(("about:", "data:"))]

    def complaints(self) -> list[str]:
        """What axe finds on the page that is open, of any impact: rule, impact, and where. It judges no colours over a
        shade, so there is none."""
        self.execute_script("for (const e of document.querySelectorAll('.scroll')) e.style.background = 'none'")
        self.execute_script(_axe())
        found = self.execute_async_script(
            "const done = arguments[0];"
            "axe.run(document, {resultTypes: ['violations']}).then(done, (error) => done(String(error)))"
        )
        assert isinstance(found, dict), found
        assert found["testEngine"]["name"] == "axe-core"
        return [
            f"{one['id']} ({one['impact']}): {[node['target'] for node in one['nodes'][:5]]}"
            for one in found["violations"]
        ]

    def _log(self, kind: str) -> Any:
        return self.get_log(kind)  # type: ignore[no-untyped-call]

    def prefer(self, scheme: str) -> None:
        self._emulate("EmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def resize(self, width: int, height: int, *, mobile: bool = False) -> None:
        self._emulate("DeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def allow_scripts(self, allowed: bool) -> None:
        self._emulate("ScriptExecutionDisabled", value=not allowed)

    def _emulate(self, what: str, **parameters: Any) -> None:
        self.execute_cdp_cmd(f"Emulation.set{what}", parameters)

    def wait_until(self, condition: Callable[[], object], seconds: float = _LONGEST_S) -> None:
        """An element that the page has just replaced is no failure: the next look finds the new one."""
        WebDriverWait(self, seconds, 0.1, [StaleElementReferenceException]).until(lambda _: condition())
