"""A task says how far it is while it runs: a few datagrams a second to a port of the driver, on the same machine.

For people only. A datagram may be lost, and nothing depends on one: what was read is in the report of the task. A task
without an address says nothing, and so does one that cannot send.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass
from typing import NamedTuple

from blizzard.core.types import Slice
from blizzard.source.decode import DecodedStream
from blizzard.source.lines import Block

KEY_BYTES = 8
_EVERY_S = 0.2
_FORM = struct.Struct(f"!{KEY_BYTES}sIIQQQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveAddress:
    """A port on loopback. `key` tells the datagrams of one batch from all others."""

    port: int
    key: bytes


class Told(NamedTuple):
    """How far one attempt of a task is. `stored_bytes` are those of its files as they are stored."""

    slot: int
    files: int
    stored_bytes: int
    records: int
    json_bytes: int


def unpack_told(datagram: bytes, key: bytes) -> Told | None:
    """None: it is not of this batch."""
    if len(datagram) != _FORM.size or datagram[:KEY_BYTES] != key:
        return None
    return Told(*_FORM.unpack(datagram)[1:])


class Telling:
    """Of one task."""

    def __init__(self, to: LiveAddress | None, slot: int) -> None:
        self._to, self._slot = to, slot
        self._next_s = 0.0
        self._socket: socket.socket | None = None
        self.begin()

    def begin(self) -> None:
        """An attempt begins: everything is read again."""
        self._files = self._passed_bytes = self._current_bytes = self._records = self._json_bytes = 0

    def take(self, block: Block, stream: DecodedStream) -> None:
        """This block of the current file is read."""
        if self._to is None:
            return
        self._records += block.lines
        self._json_bytes += len(block.data)
        self._current_bytes = stream.stored_bytes
        now = time.monotonic()
        if now >= self._next_s:
            self._next_s = now + _EVERY_S
            self._send()

    def end_file(self, piece: Slice, *, finished: bool) -> None:
        """Not `finished`: the rest is for another batch, or cannot be read."""
        self._files += finished
        self._passed_bytes += piece.size_bytes if finished else self._current_bytes
        self._current_bytes = 0

    def _send(self) -> None:
        to = self._to
        if to is None:
            return
        stored_bytes = self._passed_bytes + self._current_bytes
        told = _FORM.pack(to.key, self._slot, self._files, stored_bytes, self._records, self._json_bytes)
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                self._socket.setblocking(False)
            self._socket.sendto(told, ("127.0.0.1", to.port))
        except OSError:
            self._to = None  # the driver is not there, or the system has no socket to give

    def close(self) -> None:
        self._send()
        if self._socket is not None:
            self._socket.close()
