"""Parses each block once for every way in which a target wants its lines parsed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from blizzard.schema import DeltaSchema
from blizzard.source.lines import Block
from blizzard.tasks.parse import RecordParser
from blizzard.tasks.parsed import ParsedBlock
from blizzard.tasks.policy import ParsePolicy
from blizzard.tasks.spec import TaskSpec

# By the number of the parsing.
ParsedBlocks: TypeAlias = Mapping[int, ParsedBlock]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsing:
    """What decides what a line becomes."""

    schema: DeltaSchema
    policy: ParsePolicy
    parser: str

    def make(self) -> RecordParser:
        return RecordParser(self.schema, self.policy, self.parser)


def parsing_of(spec: TaskSpec) -> Parsing:
    return Parsing(schema=spec.record_schema, policy=spec.parsing, parser=spec.parser)


class Parsings:
    """Different parsings, numbered. Equal ones have one number."""

    def __init__(self) -> None:
        self._distinct: list[Parsing] = []

    def number(self, parsing: Parsing) -> int:
        if parsing not in self._distinct:
            self._distinct.append(parsing)
        return self._distinct.index(parsing)

    def parser(self) -> BlockParser:
        return BlockParser(self._distinct)


class BlockParser:
    """A parser for each parsing. Not for two threads at once: make one for each."""

    def __init__(self, parsings: Sequence[Parsing]) -> None:
        self._parsers = [parsing.make() for parsing in parsings]

    def name(self, number: int) -> str:
        return self._parsers[number].name

    def parse(self, block: Block, needed: Collection[int]) -> ParsedBlocks:
        return self._parse(block.data, needed, first_of_file=block.first_line == 0)

    def parse_joined(self, data: bytes, needed: Collection[int]) -> ParsedBlocks:
        """Lines of different files, without a byte order mark."""
        return self._parse(data, needed, first_of_file=False)

    def parse_again(self, data: bytes, number: int) -> ParsedBlock:
        return self._parsers[number].parse(data, first_of_file=False)

    def _parse(self, data: bytes, needed: Collection[int], *, first_of_file: bool) -> ParsedBlocks:
        return {number: self._parsers[number].parse(data, first_of_file=first_of_file) for number in needed}
