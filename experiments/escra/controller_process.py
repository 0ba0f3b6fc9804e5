"""The real controller behind the real stream, for one application, without a cluster.

    python -m experiments.escra.controller_process PORT CERTIFICATES APPLICATION STATUS

It does what the controller's shell does with the API server, from a file: APPLICATION is JSON, and read again
when it was replaced. STATUS is written five times a second. The rest is the shipped code.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from limit_allocator.allocation.model import Parameters
from limit_allocator.fleet.model import Application, PodRow
from limit_allocator.leader_session import LeaderSession
from limit_allocator.metrics import LimitMetrics
from limit_allocator.settings import Settings
from limit_allocator.wire.server import AgentServer
from surgekit.process import logs
from surgekit.process.controller import Loop
from surgekit.process.modes import Mode

__all__ = ["AGENT", "NODE"]

AGENT = "surgekit-limit-agent"  # the name in agents' certificates
NODE = "bench"
_CONFIRM_S, _STATUS_S = 0.02, 0.2


class _Controller:
    """The leader's fast loop as shipped (`leader_session`); of the slow one, what needs no API server."""

    def __init__(self, port: int, certificates: Path, application: Path, status: Path) -> None:
        self._application, self._status = application, status
        self._read = (0, 0)
        self._server = AgentServer(
            f"127.0.0.1:{port}",
            certificates,
            AGENT,
            accepts=lambda: True,
            on_arrival=lambda: self._loop.wake(),  # noqa: PLW0108  # there is no loop yet
        )
        self._session = LeaderSession(self._server, LimitMetrics(), 1, Settings.tick_s)
        self._loop = Loop("limits", self._session.step, _end, stuck_s=60.0)
        self._follow()

    def run(self) -> None:
        self._server.start()
        self._loop.start()
        status_s = 0.0
        while True:
            self._follow()
            with self._session.lock:
                # The slow loop writes them to the application's status before it confirms them.
                fleet = self._session.fleet
                fleet.confirm_nodes(self._name, fleet.nodes_with_limits(self._name))
            if (now_s := time.monotonic()) >= status_s:
                status_s = now_s + _STATUS_S
                self._write_status()
            time.sleep(_CONFIRM_S)

    def _follow(self) -> None:
        """Take the application over, if the file is another one than before."""
        found = self._application.stat()
        if (read := (found.st_ino, found.st_mtime_ns)) == self._read:
            return
        self._read, wanted = read, json.loads(self._application.read_text())
        self._name = wanted["name"]
        application = Application(
            wanted["name"], Mode.ENFORCE, Parameters(**wanted["parameters"]), wanted["cpu_us"],
            wanted["memory_bytes"], {uid: PodRow(NODE, uid) for uid in wanted["pods"]},
        )  # fmt: skip
        with self._session.lock:
            self._session.fleet.set_applications([application])

    def _write_status(self) -> None:
        group = self._session.fleet.groups.get(self._name)
        said = {
            "registration_s": [] if group is None else list(group.registration_delays_s),
            "received_bytes": self._server.received_bytes,
            "sent_bytes": self._server.sent_bytes,
        }
        aside = self._status.with_suffix(".part")
        aside.write_text(json.dumps(said))
        os.replace(aside, self._status)


def _end(_loop: Loop, why: str) -> None:
    """The bench must not go on with a loop that failed."""
    sys.stderr.write(f"{why}\n")
    os._exit(1)


def main(port: str, certificates: str, application: str, status: str) -> None:
    logs.configure("WARNING")
    _Controller(int(port), Path(certificates), Path(application), Path(status)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
