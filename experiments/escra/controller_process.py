"""The real controller core behind the real stream, for one application, without a cluster.

    python -m experiments.escra.controller_process PORT CERTIFICATES APPLICATION STATUS

It does what the controller's shell does with the API server, from a file: APPLICATION is JSON. STATUS is
written five times a second. Everything else is the shipped code: `Fleet` decides, `AgentServer` talks to agents.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import time
from pathlib import Path
from typing import Any

from limit_allocator.allocation.model import Parameters
from limit_allocator.fleet.fleet import Fleet
from limit_allocator.fleet.model import Application, PodRow
from limit_allocator.wire.messages import Hello, MessageError, Report
from limit_allocator.wire.server import AgentServer, Stream
from surgekit.process import logs
from surgekit.process.modes import Mode

__all__ = ["AGENT", "NODE"]

AGENT = "surgekit-limit-agent"  # the name in agents' certificates
NODE = "bench"
_TERM = 1
_TICK_S = 0.1
_STATUS_S = 0.2


class _Controller:
    def __init__(self, port: int, certificates: Path, wanted: dict[str, Any], status: Path) -> None:
        self._name, self._pods, self._status = wanted["name"], wanted["pods"], status
        self._fleet = Fleet(_TERM)
        self._fleet.set_applications(
            [
                Application(
                    wanted["name"], Mode.ENFORCE, Parameters(**wanted["parameters"]), wanted["cpu_us"],
                    wanted["memory_bytes"],
                    {uid: PodRow(NODE, uid) for uid in wanted["pods"]},
                )
            ]
        )  # fmt: skip
        self._tick_s = min(wanted["report_period_s"], _TICK_S)
        self._sessions: dict[Stream, int] = {}
        self._server = AgentServer(f"127.0.0.1:{port}", certificates, AGENT, accepts=lambda: True)

    def run(self) -> None:
        self._server.start()
        tick_s = status_s = time.monotonic()
        while True:
            urgent = self._take_until(tick_s)
            now_s = time.monotonic()
            if now_s >= tick_s:
                tick_s = max(tick_s + self._tick_s, now_s)
            if urgent or now_s < tick_s:
                self._tick(now_s)
            if now_s >= status_s:
                status_s = now_s + _STATUS_S
                self._write_status()

    def _take_until(self, until_s: float) -> bool:
        """Take what arrives; True as soon as something should not wait."""
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                arrival = self._server.inbox.get(timeout=left_s)
            except queue.Empty:
                return False
            self._server.take(arrival)
            stream, message = arrival
            try:
                if isinstance(message, Hello):
                    self._sessions[stream] = self._fleet.attach(message)
                    return True
                if isinstance(message, Report):
                    if stream in self._sessions and self._fleet.report(
                        self._sessions[stream], message, time.monotonic()
                    ):
                        return True
                elif stream in self._sessions:
                    self._fleet.detach(self._sessions.pop(stream))
            except MessageError as error:
                self._server.close(stream, str(error))
        return False

    def _tick(self, now_s: float) -> None:
        # The shell writes them to the application's status before it confirms them.
        self._fleet.confirm_nodes(self._name, self._fleet.nodes_with_limits(self._name))
        orders = self._fleet.tick(now_s)
        streams = {session: stream for stream, session in self._sessions.items()}
        self._server.send({streams[session]: order for session, order in orders.items() if session in streams})

    def _write_status(self) -> None:
        group = self._fleet.groups.get(self._name)
        delays_s = [] if group is None else list(group.registration_delays_s)
        said = {
            "registration_s": delays_s,
            "received_bytes": self._server.received_bytes,
            "sent_bytes": self._server.sent_bytes,
        }
        aside = self._status.with_suffix(".part")
        aside.write_text(json.dumps(said))
        os.replace(aside, self._status)


def main(port: str, certificates: str, application: str, status: str) -> None:
    logs.configure("WARNING")
    wanted = json.loads(Path(application).read_text())
    _Controller(int(port), Path(certificates), wanted, Path(status)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
