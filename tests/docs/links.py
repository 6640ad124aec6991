"""Links of a page to files of this repository, and the headings that they may point to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_FENCED = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(<?([^)\s>]+)>?\)")


def broken_links(page: Path) -> Iterator[str]:
    """Links that lead nowhere. Addresses of the web are not looked at."""
    text = re.sub(r"`[^`\n]+`", "", _FENCED.sub("", page.read_text()))
    for link in _LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists():
            yield f"{link}: there is no such file"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{link}: it has no such heading"


@cache
def anchors(page: Path) -> frozenset[str]:
    """As GitHub makes them: letters, digits, hyphens; a second heading of the same name gets a number."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", _FENCED.sub("", page.read_text()), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return frozenset(found)
