"""The README keeps its word: every key is in its table, every command is one there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from blizzard.config.keys import KEYS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def row(name: str, default: Any, text: str) -> str:
    match default:
        case None:
            shown = ""
        case bool():
            shown = str(default).lower()
        case float():
            shown = f"{default:g}"
        case int() if default % 2**20 == 0:
            shown = f"{default // 2**20}MiB"
        case _:
            shown = f"{default:,}" if isinstance(default, int) else f"`{default}`"
    return f"| `{name}` | {shown} | {text} |"


def config_table() -> str:
    return "\n".join(row(name, key.default, key.help) for name, key in KEYS.items())


def test_the_configuration_table_lists_every_key_as_it_is() -> None:
    assert config_table() in README


def test_the_commands_of_the_readme_are_the_commands_there_are() -> None:
    from blizzard.cli.parser import build_parser

    (commands,) = [a for a in build_parser()._actions if a.dest == "command"]
    assert set(commands.choices or ()) == set(re.findall(r"\| `blizzard ([\w-]+)", README))
