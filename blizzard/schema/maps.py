"""Tells objects whose keys are data (an id, a host, a label) from objects whose keys are names of columns.

Pure. A wrong answer never loses a value: a MAP takes every key, and a struct gets new columns.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from blizzard.schema.seen import MAX_KEYS, Seen
from blizzard.schema.value_kinds import MANY_KEYS

# Keys that nobody would choose for a column.
_DATA = re.compile(
    r"""[0-9]+                                                      # an index, a number
    | [0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}          # a UUID
    | (?=[a-fA-F]*[0-9])[0-9a-fA-F]{12,}                            # a hash, an ObjectId
    | [0-9]{4}-[0-9]{2}-[0-9]{2}.*                                  # a date or a time
    | (?:[0-9]{1,3}\.){3}[0-9]{1,3}(?:[:/][0-9]+)?                  # an IPv4 address
    | [0-9a-fA-F]*:[0-9a-fA-F:]*:[0-9a-fA-F:.]*                     # an IPv6 address
    | [^@\s]+@[^@\s]+\.[^@\s]+                                      # an e-mail address
    | (?:[A-Za-z0-9_-]+\.)+(?:com|net|org|io|dev|gov|edu|local|internal|cloud|de|uk|eu|fr|jp|cn|us)  # a host
    | arn:.*
    | .*/.*                                                         # a path, a URL, app.kubernetes.io/name
    | [A-Za-z]+[-_:](?=[a-fA-F]*[0-9])[0-9a-fA-F]{5,}               # i-0abc12, user_10001
    """,
    re.VERBOSE | re.DOTALL,
)
_MAP_NAME = re.compile(
    r"(?:.*[a-z_])?(?:labels|tags|annotations|headers|cookies|selector|dimensions|env_?vars|query_?params)",
    re.IGNORECASE,
)
_FEW_KEYS = 50


def are_data(keys: Collection[str], *, at_least: int, share: float) -> bool:
    """Whether so many keys, and such a share of them, look like data."""
    return len(keys) >= at_least and sum(map(is_data, keys)) >= share * len(keys)


def is_data(key: str) -> bool:
    return _DATA.fullmatch(key[:200]) is not None


def why_a_map(name: str, seen: Seen) -> str | None:
    """Why the keys of the objects in this column are data, for a message; None if they are names."""
    if seen.entries is not None:
        return f"it has more than {MAX_KEYS:,} different keys"
    keys = len(seen.fields)
    held = [inner for inner in seen.fields.values() if inner.values]
    filled = sum(inner.values for inner in held) / max(keys * seen.values, 1)
    types = {json_name for inner in held for json_name in inner.examples}
    if keys > MANY_KEYS and filled < 0.1:
        return f"it has {keys:,} different keys, most of them rare"
    if len(types) != 1:
        return None
    if are_data(seen.fields, at_least=2, share=0.8):
        return f"keys such as {_shown(next(key for key in seen.fields if is_data(key)))} are data"
    if keys >= _FEW_KEYS and filled < 0.2:
        return f"it has {keys:,} different keys, most of them rare"
    if keys > 2 and filled < 0.95 and _MAP_NAME.fullmatch(name) and types == {"string"}:
        return f"by its name its {keys:,} keys are data, and they differ from record to record"
    return None


def _shown(key: str) -> str:
    return f'"{key if len(key) <= 40 else key[:39] + "…"}"'
