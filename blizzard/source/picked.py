"""Files that somebody names one by one, as folders or as patterns, as one listing below one folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from blizzard.core.kinds import Kind
from blizzard.core.left_out import NONE_LEFT_OUT, LeftOut
from blizzard.core.types import NO_FILTERS, Filters, SourceFile, SourceIdentity
from blizzard.errors import ConfigError
from blizzard.source.listing import list_source
from blizzard.source.uri import SourceLocation, locate_source
from blizzard.store.access import Access
from blizzard.store.uri import is_local, locate, show_uri


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """`location` is the folder that holds all of them. `files` are sorted, each once. `left_out`: what else is in the
    folder, if one folder was named."""

    location: SourceLocation
    files: Sequence[SourceFile]
    left_out: LeftOut = NONE_LEFT_OUT


def pick_files(
    uris: Sequence[str], pattern: str | None, access_to: Callable[[str], Access], *, filters: Filters = NO_FILTERS
) -> Picked:
    """The files that these name. Files that are named themselves are taken whatever their names are. The filters leave
    out what they would leave out of a run."""
    places = []
    for uri in uris:
        access = access_to(locate(uri, what="file"))
        places.append(locate_source(uri, pattern if len(uris) == 1 else None, access, filters=filters))
    root = _common([place.root for place in places])
    found = {}
    for place in places:
        inside = place.root.removeprefix(root).strip("/")
        listing = list_source(place)
        for file in listing:
            path = f"{inside}/{file.path}" if inside else file.path
            found[path] = replace(file, path=path)
    location, left_out = places[0], listing.left_out
    if len(places) > 1:
        identity = SourceIdentity(root=show_uri(root), pattern=location.identity.pattern)
        location = SourceLocation(root=root, identity=identity, access=location.access)
        left_out = NONE_LEFT_OUT
    return Picked(location=location, files=[found[path] for path in sorted(found)], left_out=left_out)


def _common(roots: Sequence[str]) -> str:
    """The innermost folder that all of these are in, or are."""
    heads = [_parts(root) for root in roots]
    shared = heads[0]
    for parts in heads[1:]:
        same = 0
        while same < min(len(shared), len(parts)) and shared[same] == parts[same]:
            same += 1
        shared = shared[:same]
    if not shared:
        raise ConfigError(
            f"{roots[0]} and {next(r for r in roots if _parts(r)[0] != heads[0][0])} are not in the same bucket, or not"
            f" both on this machine: try them one after the other",
            kind=Kind.USAGE,
        )
    return "/".join(shared) or "/"


def _parts(root: str) -> list[str]:
    """The first part is the bucket; on local disk it is empty, before the first slash."""
    if is_local(root):
        return root.rstrip("/").split("/")
    scheme, rest = root.split("://", 1)
    bucket, *folders = rest.split("/")
    return [f"{scheme}://{bucket}", *folders]
