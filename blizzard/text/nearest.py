"""What somebody may have meant by a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_NEAR = 0.6  # difflib's own: about two wrong letters of five
_SHOWN = 3
_LONGEST = 100  # characters that are compared: the time grows with them, and no name is longer


def nearest_of(given: str, known: Iterable[str]) -> list[str]:
    """Names that begin so, or else the one that is most alike. Empty: none is near."""
    given, names = given[:_LONGEST], sorted(known)
    longer = [name for name in names if given and name.startswith(given)]
    return longer[:_SHOWN] or difflib.get_close_matches(given, names, n=1, cutoff=_NEAR)


def nearest(given: str, known: Iterable[str], *, called: str = "{}") -> str:
    """The same, as the end of a sentence. `called` is how a name is written there."""
    found = [called.format(name) for name in nearest_of(given, known)]
    return f"; did you mean {' or '.join(found)}?" if found else ""
