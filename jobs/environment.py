"""Makes a Python environment and installs into it, and says what it is doing: make shows one line for each step.

python jobs/environment.py FOLDER [arguments of pip's install]

uv installs in seconds what takes pip minutes. It comes from the same place as every other package. If it cannot be
installed, or cannot install (an index that only pip was told of), pip does the work. Where versions are pinned, uv
first tries without the network: it asks for a source package such as pyspark's again if the index does not say how long
it may be kept, and builds it again.
"""

from __future__ import annotations

import queue
import shutil
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Iterable, Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_CONSTRAINTS = _ROOT / "conf" / "constraints.txt"
# How often a long step says that it is still alive.
_SILENCE_S = 10
# What uv says line by line is a list of every package. These lines tell how far it is.
_WORTH_SHOWING = ("Resolved", "Downloading pyspark", "Building", "Built", "Prepared", "Installed")
_NO_PIP = "On Debian and Ubuntu: apt-get install python3-venv. Or choose another one: make PYTHON=python3.12 ..."
_STARTED = time.monotonic()


def main(folder: Path, arguments: Sequence[str]) -> int:
    python = folder / "bin" / "python"
    if not (folder / "bin" / "pip").exists():
        _say(f"an environment with its own packages: {folder}")
        try:
            venv.create(folder, with_pip=True)
        except subprocess.CalledProcessError:
            sys.stderr.write(f"{sys.executable} cannot make an environment with pip. {_NO_PIP}\n")
            return 1
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    uv = _find_uv(folder, pip)
    _say(f"into {folder}: {' '.join(arguments)}")
    if uv:
        install = [uv, "pip", "install", "--python", str(python), *arguments]
        if "-c" in arguments and _run([*install, "--offline"])[0] == 0:
            return 0
        code, said = _run(install)
        if code == 0:
            return 0
        sys.stderr.write("".join(said))
        _say("uv could not install it; pip tries")
    code, said = _run([*pip, *arguments])
    sys.stderr.write("".join(said) if code else "")
    return code


def _find_uv(folder: Path, pip: Sequence[str]) -> str | None:
    """That of .venv, of this environment, or of this machine; else it is installed into this environment."""
    for home in (_ROOT / ".venv", folder):
        if (found := home / "bin" / "uv").exists():
            return str(found)
    if on_path := shutil.which("uv"):
        return on_path
    _say("uv, which installs the rest")
    code, _ = _run([*pip, "--constraint", str(_CONSTRAINTS), "uv"])
    return str(folder / "bin" / "uv") if code == 0 else None


def _run(command: Sequence[str]) -> tuple[int, list[str]]:
    """Its exit code and all that it said."""
    said: list[str] = []
    doing = ""
    lines: queue.Queue[str | None] = queue.Queue()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        threading.Thread(target=_pass_on, args=(process.stdout, lines), daemon=True).start()
        while True:
            try:
                line = lines.get(timeout=_SILENCE_S)
            except queue.Empty:
                _say(f"… {doing}".rstrip())
                continue
            if line is None:
                break
            said.append(line)
            if line.strip().startswith(_WORTH_SHOWING):
                doing = line.strip().replace(_ROOT.as_uri(), ".")
                if doing.startswith("Building blizzard-delta") and shutil.which("cargo"):
                    doing += ", and its native parser with cargo"
                _say(doing)
    return process.returncode, said


def _pass_on(output: Iterable[str], lines: queue.Queue[str | None]) -> None:
    for line in output:
        lines.put(line)
    lines.put(None)


def _say(text: str) -> None:
    sys.stdout.write(f"{time.monotonic() - _STARTED:5.0f} s  {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
    except KeyboardInterrupt:
        sys.exit("stopped; the same make goes on from here")
