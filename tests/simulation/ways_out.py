"""Following the text of a refusal to the letter, as somebody would who reads nothing else."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from blizzard.config.load import make_config
from blizzard.config.request import make_request
from blizzard.errors import Refused
from blizzard.operate.positions import Edit, apply_edit, plan_reset, plan_skip
from blizzard.operate.realign import realign
from blizzard.run.assemble import Assembly
from tests.flows.in_process import Flow
from tests.flows.replaying import STRICT
from tests.flows.rollbacks import roll_back
from tests.simulation.invariants import EVERY_REFUSAL_HAS_A_WAY_OUT, InvariantBroken

_RESTORE = re.compile(r"RESTORE the table to version (\d+)")
_ROLL_BACK = re.compile(r"(?:checkpoint rollback --to|[Rr]oll back to sequence) (\d+(?: --accept-quarantine-loss)?)")
_REALIGN = re.compile(r"blizzard dlq realign --pipeline (\w+)")
_ACCEPT = re.compile(r"(add|with|up:) --accept-quarantine-loss")
_SKIP = re.compile(r"blizzard checkpoint skip --file (\S+?)\.?$")
_FORMS = {"restore": _RESTORE, "rollback": _ROLL_BACK, "realign": _REALIGN, "accept": _ACCEPT, "skip": _SKIP}
_MOST = 12  # commands that anybody would try


@dataclass(frozen=True)
class Way:
    command: str
    argument: str


def ways_in(message: str) -> list[Way]:
    """What the text says can be done, in its order."""
    found = [(m.start(), Way(name, m[1])) for name, form in _FORMS.items() for m in form.finditer(message)]
    return [way for _, way in sorted(found, key=lambda pair: pair[0])]


def follow(flow: Flow, refusal: Refused, run: Callable[[], None], choice: int = 0) -> list[Way]:
    """Do what the text says, of several ways the one that is chosen, and go on; also with what is refused on the way.
    Returns what was done, in order; it is an error if nothing of it ends well."""
    said, open_ways, done, tries = [refusal], ways_in(str(refusal)), list[Way](), Counter[Way]()
    while open_ways and len(done) < _MOST:
        way = open_ways.pop(choice % len(open_ways))
        tries[way] += 1
        done.append(way)
        try:
            _do(flow, way)
            run()
        except Refused as e:
            said.append(e)
            fresh = [w for w in ways_in(str(e)) if tries[w] < 2 and w not in open_ways]
            open_ways = fresh + open_ways
        except DeltaError:
            continue  # the files of that version have been vacuumed
        else:
            return done
    told = " | ".join(f"{e.kind}: {e}" for e in said)
    raise InvariantBroken(EVERY_REFUSAL_HAS_A_WAY_OUT, f"{told} | tried: {done}")


def _do(flow: Flow, way: Way) -> None:
    match way.command:
        case "restore":
            DeltaTable(str(flow.table)).restore(int(way.argument))
        case "rollback":
            to, _, word = way.argument.partition(" ")
            roll_back(flow, int(to), accepts_loss=bool(word))
        case "realign":
            realign(flow.open(), flow.quarantine, pipeline=way.argument)
        case "accept" if way.argument in ("with", "up:"):  # a run that gives them up
            flow.run(spec=STRICT, accepts_loss=True)
        case "accept":
            realign(flow.open(), replace(flow.quarantine, accepts_loss=True), pipeline=flow.pipeline)
        case "skip":
            edit(flow, "skip", shlex.split(way.argument)[0])


def edit(flow: Flow, action: str, path: str) -> None:
    """`checkpoint reset` from where the file stands, or `checkpoint skip`."""
    given = {"source.path": str(flow.src), "table.path": str(flow.table), "quarantine.path": flow.quarantine.root}
    assembly = Assembly(request=make_request(make_config(given), pipeline=flow.pipeline))
    table = flow.open()

    def plan() -> Edit:
        return plan_reset(assembly, table, path, None) if action == "reset" else plan_skip(assembly, table, path)

    apply_edit(assembly, table, plan(), plan)
