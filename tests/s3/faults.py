"""What a FaultProxy can do to a request, and the rules that say to which one."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class CutAnswer:
    """The server performs the request; its answer is thrown away and the client's connection reset."""


@dataclass(frozen=True, slots=True)
class CutBody:
    """The client gets the head of the answer and this many bytes of its body, then the connection ends."""

    after_bytes: int


@dataclass(frozen=True, slots=True)
class Delay:
    """The request waits before the server sees it, or its answer before the client does. `Rule.release` ends it."""

    seconds: float
    before: Literal["request", "answer"] = "request"


@dataclass(frozen=True, slots=True)
class Status:
    """The client gets an S3 error. The server never sees the request, or (`performed`) has carried it out."""

    status: int
    code: str = "SlowDown"
    performed: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    """The client's connection is reset; the server never sees the request."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The client's connection is reset now; the server gets the request after this time, or at `Rule.release`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class HalfOpen:
    """The request is read and never answered; the connection stays open until the client gives up."""


Action: TypeAlias = CutAnswer | CutBody | Delay | Status | Reset | Hold | HalfOpen


@dataclass(slots=True)
class Request:
    """One request as it came through the proxy; `path` and `query` are decoded."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    # What the client got, or would have got, had its connection lived. None: nobody has answered.
    status: int | None = None
    action: Action | None = None

    @property
    def range(self) -> str | None:
        return self.headers.get("range")

    @property
    def target(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path

    def matches(self, method: str | None, path: str) -> bool:
        return method in (None, self.method) and re.search(path, self.target) is not None


@dataclass(slots=True, kw_only=True)
class Rule:
    """Which requests an action applies to. FaultProxy.add makes them; a test holds on to one to watch or release it."""

    action: Action
    method: str | None
    path: str
    when: Callable[[Request], bool] | None
    nth: int | Container[int] | None
    probability: float
    rng: random.Random
    matched: int = 0
    acted: int = 0
    _released: threading.Event = field(default_factory=threading.Event)
    _acted: threading.Event = field(default_factory=threading.Event)
    _held: list[threading.Thread] = field(default_factory=list)

    def applies(self, request: Request) -> bool:
        """Counts a match, and says whether it is one to act on. The proxy calls it for one request at a time."""
        if not request.matches(self.method, self.path) or (self.when is not None and not self.when(request)):
            return False
        self.matched += 1
        match self.nth:
            case None:
                return self.rng.random() < self.probability
            case int():
                return self.matched == self.nth
            case _:
                return self.matched in self.nth

    def announce(self) -> None:
        """Ends every `wait`."""
        self._acted.set()

    def wait(self, timeout_s: float = 30) -> None:
        """Returns once a request has met the rule and the action has begun."""
        if not self._acted.wait(timeout_s):
            raise AssertionError(f"no request met the rule {self.action} within {timeout_s} s")

    def pause(self, seconds: float) -> None:
        self._released.wait(seconds)

    def hold(self, deliver: Callable[[], None]) -> None:
        """Runs `deliver` in a thread that `release` waits for."""
        thread = threading.Thread(target=deliver, daemon=True)
        self._held.append(thread)
        thread.start()

    def release(self) -> None:
        """Ends every delay and hold of this rule, also later ones; held requests have been answered when it returns."""
        self._released.set()
        for thread in self._held:
            thread.join(30)
