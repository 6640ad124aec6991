"""The scripts of `blizzard completion`, asked by real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from blizzard.cli.completion import script_for

# What is typed, and what the shell offers for its last word.
TYPED = {
    "blizzard che": {"checkpoint"},
    "blizzard checkpoint ro": {"rollback"},
    "blizzard run --ta": {"--table"},
    "blizzard run --source events.ndjson --infer --ta": {"--table"},
    "blizzard schema infer --sam": {"--sample-records", "--sample-files"},
    "blizzard run --committer delta-s": {"delta-spark"},
    "blizzard completion ": {"bash", "zsh", "fish"},
    "blizzard try ev": {"events.ndjson"},
    "blizzard run --source ev": {"events.ndjson"},
    "blizzard run --config fl": {"fleet 1.yaml"},
}
_BASH = """
source "$1"
shift
[[ $(complete -p blizzard) == *"-F _shtab_blizzard blizzard" ]] || exit 9
for typed; do
    COMP_LINE=$typed COMP_POINT=${#typed} COMP_WORDS=($typed)
    [[ $typed == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
    _shtab_blizzard blizzard "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\\n' "${COMPREPLY[@]}" ==
done
"""
_FISH = 'source $argv[1]; for typed in $argv[2..]; complete -C "$typed"; echo ==; end'


def offered(shell: list[str], folder: Path) -> list[set[str]]:
    (folder / "events.ndjson").touch()
    (folder / "fleet 1.yaml").touch()
    script = folder / "script"
    script.write_text(script_for(shell[0]))
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    words = [str(script), *TYPED]
    done = subprocess.run(
        [*shell, *words], cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    parts = done.stdout.split("==\n")
    assert parts.pop() == ""
    return [{line.partition("\t")[0] for line in part.splitlines()} for part in parts]


def need(shell: str) -> None:
    """In CI it must be there: `make test` installs Debian's packages."""
    if shutil.which(shell) is None and os.environ.get("CI", "").lower() not in ("1", "true"):
        pytest.skip(f"there is no {shell}: make setup-shells installs it")


def test_bash_completes_commands_options_values_and_files(tmp_path: Path) -> None:
    found = offered(["bash", "--norc", "-c", _BASH, "bash"], tmp_path)
    assert dict(zip(TYPED, found, strict=True)) == TYPED


def test_fish_completes_the_same(tmp_path: Path) -> None:
    need("fish")
    found = offered(["fish", "--no-config", "-c", _FISH], tmp_path)
    for typed, wanted, got in zip(TYPED, TYPED.values(), found, strict=True):
        assert {word.replace("\\ ", " ") for word in got} == wanted, typed


def test_zsh_can_read_its_script(tmp_path: Path) -> None:
    need("zsh")
    script = tmp_path / "_blizzard"
    script.write_text(script_for("zsh"))
    load = f"fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -D; print $_comps[blizzard]"
    done = subprocess.run(["zsh", "-f", "-c", load], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == "_blizzard\n", done.stderr
    subprocess.run(["zsh", "-n", str(script)], check=True, timeout=300)
