"""The entry point for services that call a function: what it makes of named parameters, and how it ends."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from blizzard.cli.parser import build_parser
from blizzard.cli.wheel_task import _FLAGS, arguments_of, main


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (["--source=s3://a/b=c"], ["--source=s3://a/b=c"]),
        (
            ["--limits.max_files=10", "--spark.conf.a.b=c=d"],
            ["--set", "limits.max_files=10", "--set", "spark.conf.a.b=c=d"],
        ),
        (["--infer=true", "--log_json=True", "--adopt=false", "--follow="], ["--infer", "--log-json"]),
        (["--max_batches=3", "--max-batches=4"], ["--max-batches=3", "--max-batches=4"]),
        (["--attempt=", "--summary="], []),
        (["--source", "x", "--infer", "--set", "a.b=c"], ["--source", "x", "--infer", "--set", "a.b=c"]),
        (["--infer=perhaps"], ["--infer=perhaps"]),  # for the parser to refuse
    ],
)
def test_named_parameters_become_arguments(given: list[str], made: list[str]) -> None:
    assert arguments_of(given) == made


def test_every_flag_of_run_is_known() -> None:
    (commands,) = [a for a in build_parser()._actions if a.dest == "command"]
    run = dict(commands.choices or {})["run"]
    flags = {a.option_strings[0][2:] for a in run._actions if a.nargs == 0 and a.dest != "help"}
    assert flags == set(_FLAGS)


def test_it_returns_when_all_is_well_and_exits_when_not(tmp_path: Path) -> None:
    job = [f"--source={tmp_path}", f"--table={tmp_path}/table", "--schema=id BIGINT"]
    main(job)
    with pytest.raises(SystemExit) as e:
        main([*job, "--exit_99_when_idle=true"])
    assert e.value.code == 99
    with pytest.raises(SystemExit) as e:
        main([*job, "--infer=perhaps"])
    assert e.value.code == 2


def test_the_wheel_names_the_entry_point() -> None:
    (entry,) = entry_points(group="console_scripts", name="blizzard-ingest")
    assert entry.load() is main
