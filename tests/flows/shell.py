"""The command line as a person uses it, with the tasks of a run in this process; and what a refusal says, followed by
the letter."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli.main import main
from tests.ingesting import DDL


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it printed. `last` is the object of a run."""

    code: int
    text: str
    last: dict[str, Any]

    @property
    def kind(self) -> str | None:
        found = re.search(r"\[(\w+)\]\s*$", self.text.splitlines()[-1]) if self.text else None
        return self.last.get("error_kind") or (found[1] if found else None)


@dataclass(frozen=True)
class Shell:
    """Commands over the table in `folder`, and over its folder src unless another source is given."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def table(self) -> Path:
        return self.folder / "table"

    def __call__(self, *words: str) -> Said:
        code = main(list(words))
        captured = self.capsys.readouterr()
        assert "Traceback" not in captured.err
        last = captured.out.splitlines()[-1] if captured.out else ""
        fields = json.loads(last) if last.startswith("{") and words[0] == "run" else {}
        return Said(code, captured.out + captured.err if words[0] != "run" else captured.err, fields)

    def run(self, *words: str, source: str = "src") -> Said:
        return self("run", *self.where(*words, source=source))

    def where(self, *words: str, source: str = "src") -> list[str]:
        given = [] if "--source" in words else ["--source", str(self.folder / source)]
        new = [] if self.table.exists() else ["--schema", DDL]
        return [*given, "--table", str(self.table), *new, *words]

    def follow(self, said: Said) -> list[Said]:
        """Every `blizzard …` command of a refusal in its order, with the table named; then the run again."""
        commands = re.findall(r"blizzard (checkpoint .+?)(?=, then|\. )", said.last.get("error", said.text))
        done = [self(*shlex.split(command), "--table", str(self.table)) for command in commands]
        return [*done, self.run(*self.pipeline_named_by(said))]

    def obey(self, said: Said, verb: str, **names: str) -> Said:
        """The one command of this verb that a text gives, by the letter, with the table and source of its runs. `names`
        stand for the words in capitals that a person has to fill in."""
        text = str(said.last.get("error", said.text))
        (command,) = [c for c in commands_in(text) if c.split()[:2] == verb.split()]
        words = [names.get(word, word) for word in shlex.split(command)]
        pipeline = [] if "--pipeline" in words else self.pipeline_named_by(said) or ["--pipeline", "p"]
        source = [] if words[1] in ("export", "import") else ["--source", str(self.folder / "src")]
        return self(*words, *source, "--table", str(self.table), *pipeline)

    @staticmethod
    def pipeline_named_by(said: Said) -> list[str]:
        found = re.search(r"--pipeline (\S+?)(?=[\s.,]|$)", said.last.get("error", said.text))
        return ["--pipeline", found[1]] if found else []


def commands_in(text: str) -> list[str]:
    """Every `blizzard checkpoint …` and `blizzard dlq …` of a text, each once."""
    found = re.findall(r"blizzard ((?:checkpoint|dlq) .+?)(?=, then|; |\. |\.$|\)|`|$)", text, re.MULTILINE)
    return list(dict.fromkeys(found))


def options_in(said: Said, after: str) -> list[str]:
    """The options that a refusal gives after these words, as they would be copied."""
    text = said.last["error"].split(after, 1)[1]
    words = []
    for word in shlex.split(text):
        words.append(word)
        if words[-2:-1] == ["--pipeline"]:
            break
    return [*words[:-1], words[-1].rstrip(".,")]
