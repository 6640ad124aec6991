"""The options of `blizzard serve`, without anything that is slow to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blizzard.cli.help import EXIT_CODES, add_command

if TYPE_CHECKING:
    from blizzard.cli.help import Commands

_DESCRIPTION = """Run many pipelines in one process and one Spark session. Each has its own position, fence, state and
pauses: one that fails does not touch the others. The file has the keys of every configuration at its top, for all
pipelines, and below `pipelines` a name and the keys of each. See docs/fleet.md and conf/fleet.example.yaml.

The configuration is read at the start: to change it, restart. SIGTERM, SIGINT and SIGHUP stop gracefully: every batch
under way ends at a record boundary and is committed. A second signal, or the end of stop_grace_s, gives batches up.

The last line on stdout is one JSON object with a summary for each pipeline, on failure too."""

_ENDING = """The exit code is 0 if no pipeline was failing at the end; else that of the first one in the file that
needs a person; 75 if all that failed may pass by itself, or if Spark's JVM has died."""


def add_serve_parser(commands: Commands) -> None:
    serve = add_command(
        commands,
        "serve",
        says="run many pipelines in one process, from one file",
        description=_DESCRIPTION,
        takes="--config FLEET.yaml",
        examples=[
            "blizzard serve --config fleet.yaml --api-addr 127.0.0.1:8080",
            "blizzard serve --config fleet.yaml --once",
        ],
        ending=f"{EXIT_CODES}\n\n{_ENDING}",
    )
    serve.add_argument("--config", metavar="FLEET.yaml", required=True, help="the file of the fleet")
    serve.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="assignments",
        help="set one key at the top of the file, such as api.address=127.0.0.1:8080; a pipeline's own key wins;"
        " repeatable",
    )
    serve.add_argument(
        "--once", action="store_true", help="do not go on: drain every pipeline once, then exit (for cron and Airflow)"
    )
    serve.add_argument("--api-addr", metavar="HOST:PORT", help="serve the page, the REST API and metrics here")
    serve.add_argument(
        "--log-json", action="store_const", const="json", dest="log_format", help="lines on stderr as JSON objects"
    )
    serve.add_argument("--summary", metavar="URI", help="also write the final JSON object to this file")
    serve.add_argument(
        "--attempt",
        metavar="ID",
        help="an id from the caller; the final JSON object repeats it, so that nobody takes it for another one's",
    )
    serve.add_argument(
        "--exit-99-when-idle", action="store_true", help="with --once: exit 99 instead of 0 when nothing was new"
    )
