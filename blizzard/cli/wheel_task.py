"""Entry point for job services that call a function of a wheel by name, as a Databricks python_wheel_task does.

Such a service ignores what the function returns, and takes any SystemExit for a failure. So this function returns if
all is well, and exits with blizzard's code if not. Named parameters arrive as `--key=value`, each once and never
without a value: `--infer=true` is the flag, `--limits.max_files=100` a configuration key, an empty value is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

_FLAGS = (
    "infer",
    "variant",
    "adopt",
    "accept-quarantine-loss",
    "reads-again",
    "follow",
    "log-json",
    "exit-99-when-idle",
)
_SAID = {"true": True, "false": False, "": False}


def main(argv: Sequence[str] | None = None) -> None:
    from blizzard.cli.main import main as run_command

    code = run_command(["run", *arguments_of(sys.argv[1:] if argv is None else argv)])
    if code != 0:
        sys.exit(code)


def arguments_of(argv: Sequence[str]) -> list[str]:
    """The arguments of `blizzard run`. Arguments that already have its own form stay as they are."""
    return [word for argument in argv for word in _arguments(argument)]


def _arguments(argument: str) -> Iterator[str]:
    name, equals, value = argument.partition("=")
    if not name.startswith("--") or not equals:
        yield argument
        return
    key = name.removeprefix("--")
    flag = key.replace("_", "-")
    if flag in _FLAGS and value.lower() in _SAID:
        if _SAID[value.lower()]:
            yield f"--{flag}"
    elif value == "":
        return  # a job parameter that was left at its default
    elif "." in key:
        yield from ("--set", f"{key}={value}")
    else:
        yield f"--{flag}={value}"
