"""The user that a session runs as. In containers it is often a user id without a name in /etc/passwd."""

from __future__ import annotations

import os
import pwd

from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError


def has_name() -> bool:
    try:
        return bool(pwd.getpwuid(os.geteuid()).pw_name)
    except KeyError:
        return False


def home_folder() -> str:
    """Without a name and without $HOME it is /, as Docker says of such users."""
    home = os.path.expanduser("~")
    return home if os.path.isabs(home) else "/"


def settings_without_name() -> dict[str, str]:
    """What a local session needs if the user has no name. Spark asks Hadoop for the name, which fails, unless
    SPARK_USER says it. Spark's launcher takes Java's word for the home, which is `?`."""
    if has_name():
        return {}
    os.environ.setdefault("SPARK_USER", str(os.geteuid()))
    return {"spark.jars.ivy": os.path.join(home_folder(), ".ivy2")}


def require_name(what: str) -> None:
    if not has_name():
        raise ConfigError(
            f"{what} needs a user with a name, and the user id {os.geteuid()} has none here. Run as a user that"
            f" /etc/passwd has, or add one when the image is built:"
            f" echo 'blizzard:x:{os.geteuid()}:{os.getegid()}::/tmp:/bin/sh' >> /etc/passwd",
            kind=Kind.NO_USER_NAME,
        )


def check_name_after_failure() -> None:
    """After a session did not start, where nothing said the name."""
    if "SPARK_USER" not in os.environ:
        require_name("Spark")
