"""Just enough HTTP/1.1 to pass messages on byte for byte: heads, framed bodies, and how a connection ends."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_PIECE_BYTES = 65536


class Closed(Exception):
    """The other side closed the connection."""


@dataclass(frozen=True, slots=True)
class Head:
    """A start line and headers. `raw` is what arrived and what is passed on: a signature covers parts of it."""

    raw: bytes
    start: tuple[str, str, str]
    headers: dict[str, str]

    @property
    def keeps_alive(self) -> bool:
        return self.headers.get("connection", "").lower() != "close"

    @property
    def is_framed(self) -> bool:
        """Says where its body ends, or can have none. Otherwise only the end of the connection does."""
        return "content-length" in self.headers or self.is_chunked or self.start[1] in ("204", "304")

    @property
    def is_chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "").lower()


class Connection:
    """A socket with a buffer in front of it."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = b""

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def head(self) -> Head:
        raw = self._until(b"\r\n\r\n")
        first, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
        a, b, c = [*first.split(" ", 2), "", ""][:3]
        pairs = (line.split(":", 1) for line in lines if ":" in line)
        return Head(raw, (a, b, c), {name.strip().lower(): value.strip() for name, value in pairs})

    def body(self, head: Head, *, until_close: bool = False) -> Iterator[bytes]:
        """The bytes of a message's body as they are on the wire, chunk headers included."""
        if head.is_chunked:
            yield from self._chunks()
        elif "content-length" in head.headers:
            yield from self._exactly(int(head.headers["content-length"]))
        elif until_close:
            yield from self._rest()

    def wait_for_close(self) -> None:
        """Returns when the other side, or `close` in another thread, ends the connection."""
        for _ in self._rest():
            pass

    def close(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already
        self._socket.close()

    def reset(self) -> None:
        """Ends the connection with RST: with a linger of no seconds, close() sends that and not FIN."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def _chunks(self) -> Iterator[bytes]:
        while True:
            line = self._until(b"\r\n")
            yield line
            size = int(line.split(b";")[0], 16)
            if size == 0:
                break
            yield from self._exactly(size + 2)
        while line != b"\r\n":  # trailers, up to the empty line
            line = self._until(b"\r\n")
            yield line

    def _until(self, end: bytes) -> bytes:
        while end not in self._buffer:
            self._fill()
        found, self._buffer = self._buffer.split(end, 1)
        return found + end

    def _exactly(self, count: int) -> Iterator[bytes]:
        while count > 0:
            if not self._buffer:
                self._fill()
            piece, self._buffer = self._buffer[:count], self._buffer[count:]
            count -= len(piece)
            yield piece

    def _rest(self) -> Iterator[bytes]:
        while True:
            try:
                if not self._buffer:
                    self._fill()
            except (Closed, OSError):
                return
            piece, self._buffer = self._buffer, b""
            yield piece

    def _fill(self) -> None:
        received = self._socket.recv(_PIECE_BYTES)
        if not received:
            raise Closed
        self._buffer += received
