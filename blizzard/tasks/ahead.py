"""Reads and parses the blocks of a slice on other threads, ahead of where they take effect.

Blocks are handed out in order, and then the error that ended them. Nothing here has an effect: what was read or parsed
ahead is forgotten if nobody asks for it. Leaving the `with` ends all threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from blizzard.source.lines import Block
from blizzard.tasks.parsings import ParsedBlocks

Parse: TypeAlias = Callable[[], ParsedBlocks]
# Of one thread.
ParseBlock: TypeAlias = Callable[[Block], ParsedBlocks]


class ReadAhead:
    """One thread reads `blocks`; the other threads parse those that `is_wanted` names, each with its own parser."""

    def __init__(
        self,
        blocks: Iterator[Block],
        parsers: Sequence[ParseBlock],
        *,
        is_wanted: Callable[[Block], bool],
        max_bytes: int,
    ) -> None:
        """The first parser is for the thread that asks for the blocks. `max_bytes` bounds what waits to take effect: so
        many bytes as read, and so many again in parsed tables."""
        self._blocks, self._is_wanted, self._max_bytes = blocks, is_wanted, max_bytes
        self._own_parser = parsers[0]
        self._changed = threading.Condition()
        self._waiting: deque[_Ahead] = deque()  # read, and not yet handed out
        self._unparsed: deque[_Ahead] = deque()  # no thread has begun with them
        self._read_bytes = self._parsed_bytes = 0  # of all blocks that have not yet taken effect
        self._has_ended = self._is_stopped = False
        self._error: BaseException | None = None
        # Daemons: a worker that is told to exit does not wait for a read from the network.
        self._threads = [threading.Thread(target=self._read_all, name="blizzard-read", daemon=True)] + [
            threading.Thread(target=self._parse_all, args=(parser,), name=f"blizzard-parse-{i}", daemon=True)
            for i, parser in enumerate(parsers[1:])
        ]

    def __enter__(self) -> Iterator[tuple[Block, Parse | None]]:
        started = []
        try:
            for thread in self._threads:
                thread.start()
                started.append(thread)
        except BaseException:  # the system gives no more threads
            self._threads = started
            self._stop()
            raise
        return self._hand_out()

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._waiting.clear()
        self._unparsed.clear()

    def _hand_out(self) -> Iterator[tuple[Block, Parse | None]]:
        """The blocks in order, each with the way to its rows. It has taken effect when the next one is asked for."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._has_ended)
                if not self._waiting:
                    break
                ahead = self._waiting.popleft()
            yield ahead.block, partial(self._rows_of, ahead) if ahead.is_wanted else None
            self._forget(ahead)
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _rows_of(self, ahead: _Ahead) -> ParsedBlocks:
        """If no thread has begun with the block, this one parses it. If another one is at it, this one parses blocks
        that come later, as long as there are any."""
        with self._changed:
            is_ours = ahead in self._unparsed
            if is_ours:
                self._unparsed.remove(ahead)
        if is_ours:
            return self._own_parser(ahead.block)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: ahead.is_done or self._may_parse())
                if ahead.is_done:
                    break
                later = self._unparsed.popleft()
            self._parse(self._own_parser, later)
        if ahead.error is not None:
            raise ahead.error
        assert ahead.parsed is not None
        return ahead.parsed

    def _forget(self, ahead: _Ahead) -> None:
        with self._changed:
            ahead.is_forgotten = True
            self._read_bytes -= ahead.block.held_bytes
            self._parsed_bytes -= ahead.parsed_bytes
            if ahead in self._unparsed:
                self._unparsed.remove(ahead)
            self._changed.notify_all()

    def _read_all(self) -> None:
        try:
            for block in self._blocks:
                with self._changed:
                    self._add(_Ahead(block, is_wanted=self._is_wanted(block)))
                    self._changed.wait_for(lambda: self._is_stopped or self._read_bytes < self._max_bytes)
                    if self._is_stopped:
                        return
        except BaseException as e:
            self._error = e
        finally:
            with self._changed:
                self._has_ended = True
                self._changed.notify_all()

    def _add(self, ahead: _Ahead) -> None:
        self._waiting.append(ahead)
        self._read_bytes += ahead.block.held_bytes
        if ahead.is_wanted:
            self._unparsed.append(ahead)
        self._changed.notify_all()

    def _parse_all(self, parser: ParseBlock) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over() or self._may_parse())
                if self._is_over():
                    return
                ahead = self._unparsed.popleft()
            self._parse(parser, ahead)

    def _parse(self, parser: ParseBlock, ahead: _Ahead) -> None:
        parsed, error = None, None
        try:
            parsed = parser(ahead.block)
        except BaseException as e:
            error = e
        with self._changed:
            ahead.parsed, ahead.error = parsed, error
            if parsed is not None and not ahead.is_forgotten:
                ahead.parsed_bytes = sum(block.table.nbytes for block in parsed.values())
                self._parsed_bytes += ahead.parsed_bytes
            self._changed.notify_all()

    def _may_parse(self) -> bool:
        return bool(self._unparsed) and self._parsed_bytes < self._max_bytes

    def _is_over(self) -> bool:
        return self._is_stopped or (self._has_ended and not self._unparsed)


class _Ahead:
    """A block, and what a thread made of it."""

    __slots__ = ("block", "error", "is_forgotten", "is_wanted", "parsed", "parsed_bytes")

    def __init__(self, block: Block, *, is_wanted: bool) -> None:
        self.block, self.is_wanted = block, is_wanted
        self.is_forgotten = False
        self.parsed: ParsedBlocks | None = None
        self.parsed_bytes = 0
        self.error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self.parsed is not None or self.error is not None
