"""Runs `surgekit` as a user does: each command in a process of its own.

Other people's packages take most of the time that a command needs to start. One process imports them once and
forks for each command. The fork imports our own modules, as a process started by a user does.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from tests.paths import ROOT

__all__ = ["Commands", "Ended"]

Ended = subprocess.CompletedProcess[str]

_PRELOADED = (
    "cryptography.x509", "flask", "grpc", "gunicorn.app.base", "highspy", "kneed", "kubernetes.client",
    "kubernetes.config", "kubernetes.stream", "msgspec", "numpy", "prometheus_api_client",
    "prometheus_client", "promql_parser", "rich.live", "rich.table", "structlog", "typer.rich_utils",
    "werkzeug.serving", "yaml",
)  # fmt: skip
# A fork leaves the loop and is the command from then on. One that hangs is ended by the alarm.
_SERVER = """
import gc, importlib, json, os, signal, sys

hidden, preloaded, limit_s = json.loads(sys.argv[1])

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hide())
for name in preloaded:
    importlib.import_module(name)
gc.freeze()  # else each fork looks through all of this when it ends
for line in sys.stdin:
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()

signal.alarm(limit_s)
command = json.loads(line)
os.chdir(command["cwd"])
os.environ.clear()
os.environ.update(command["environ"])
for number, file in enumerate((os.devnull, command["stdout"], command["stderr"])):
    os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), number)
sys.argv = ["surgekit", *command["words"]]
from surgekit.cli import main
main()
"""
_LIMIT_S = 90


class Commands:
    """Commands that cannot import the modules `hidden`."""

    def __init__(self, hidden: tuple[str, ...] = ()) -> None:
        arguments = json.dumps((hidden, _PRELOADED, _LIMIT_S))
        self._server = subprocess.Popen(
            [sys.executable, "-c", _SERVER, arguments],
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.communicate()

    def run(self, *words: str, cwd: Path = ROOT, environ: dict[str, str] | None = None) -> Ended:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with TemporaryDirectory() as directory:
            said = {name: f"{directory}/{name}" for name in ("stdout", "stderr")}
            command = said | {"words": words, "cwd": str(cwd), "environ": environ or {}}
            self._server.stdin.write(json.dumps(command) + "\n")
            self._server.stdin.flush()
            code = int(self._server.stdout.readline())
            texts = {name: Path(file).read_text() for name, file in said.items()}
        return Ended(words, code, **texts)
