"""What a run says about files that it leaves to the next one. It fails if none could be read, or too many are held."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from blizzard.core.events import Emit, HoldsBack, Warned
from blizzard.core.kinds import Kind
from blizzard.core.lists import count, count_are, some
from blizzard.core.look import Listed
from blizzard.core.position import FOR_A_PERSON, Position
from blizzard.errors import BadData, Temporary
from blizzard.run.discover import warn_of

_REASONS_SHOWN = 3
_MAX_NAMED = 100


def tell_held(emit: Emit, held: dict[str, str], *, is_all: bool = False) -> None:
    """Those that were found last come first: files that are only young were found when the run began."""
    emit(HoldsBack(files=len(held), first=dict(islice(reversed(held.items()), _MAX_NAMED)), is_all=is_all))


def warn_of_unreadable(emit: Emit, unreadable: Mapping[str, str]) -> None:
    for_a_person = [f"{path} ({why})" for path, why in unreadable.items() if why.startswith(FOR_A_PERSON)]
    others = tuple(path for path, why in unreadable.items() if not why.startswith(FOR_A_PERSON))
    warn_of(emit, others, "left to the next run: cannot be read to the end")
    if for_a_person:
        held = f"{count(len(for_a_person), 'file')} held back until somebody acts, and tried by every run"
        emit(Warned(message=f"{held}: {some(for_a_person, at_most=_REASONS_SHOWN)}"))


def check_held(held: Mapping[str, str], position: Position, listed: Listed, *, at_most: int, has_read: bool) -> None:
    """One unreadable file must not stop the others. `has_read`: something was committed in this run."""
    named = position.marks.in_progress  # a file that is only young counts if the mark has passed it
    for_long = {path: why for path, why in held.items() if path in named or path not in listed.held}
    if len(for_long) > at_most:
        raise BadData(
            f"{count_are(len(for_long), 'file')} held back, more than limits.max_held_files ({at_most:,}); the first:"
            f" {_first(for_long)}. What could be read is committed. Fix or move them, or raise the limit.",
            kind=Kind.TOO_MANY_HELD_FILES,
        )
    if has_read:
        return
    unavailable = {path: why for path, why in held.items() if why.startswith(f"{Kind.UNAVAILABLE}:")}
    if unavailable:
        raise Temporary(
            f"none of the new files could be read: {_first(unavailable)}. Run again.", kind=Kind.STORE_UNAVAILABLE
        )
    unreadable = {path: why for path, why in held.items() if why.startswith(FOR_A_PERSON)}
    if unreadable:
        raise BadData(
            f"none of the new files could be read, {len(unreadable)} of them for a reason that a retry does not"
            f" change: {_first(unreadable)}. Every run tries them again.",
            kind=Kind.UNREADABLE_FILES,
        )


def _first(held: Mapping[str, str]) -> str:
    path, why = next(iter(held.items()))
    return f"{path} ({why})"
