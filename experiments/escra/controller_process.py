"""The real controller core behind the real stream, for one application, without a cluster.

    python -m experiments.escra.controller_process PORT CERTIFICATES APPLICATION STATUS

It does what the controller's shell does with the API server, from a file: APPLICATION is JSON. STATUS is
written five times a second. The rest is the shipped code: `Fleet` decides, `AgentServer` talks to agents.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from limit_allocator.allocation.model import Parameters
from limit_allocator.fleet.fleet import Fleet
from limit_allocator.fleet.model import Application, PodRow
from limit_allocator.wire.messages import Hello, MessageError, Report
from limit_allocator.wire.server import AgentServer, Closed, Stream
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
        self._sessions: dict[Stream, int] = {}
        self._server = AgentServer(f"127.0.0.1:{port}", certificates, AGENT, accepts=lambda: True)

    def run(self) -> None:
        """Tick after every report, or the decision would wait for another clock; at least every 100 ms."""
        self._server.start()
        status_s = time.monotonic()
        while True:
            self._take()
            now_s = time.monotonic()
            self._tick(now_s)
            if now_s >= status_s:
                status_s = now_s + _STATUS_S
                self._write_status()

    def _take(self) -> None:
        """Wait for one arrival, and take all that have come."""
        with suppress(queue.Empty):
            arrival = self._server.inbox.get(timeout=_TICK_S)
            while True:
                self._server.take(arrival)
                self._hear(*arrival)
                arrival = self._server.inbox.get_nowait()

    def _hear(self, stream: Stream, message: Hello | Report | Closed) -> None:
        session = self._sessions.get(stream)
        try:
            if isinstance(message, Hello):
                self._sessions[stream] = self._fleet.attach(message)
            elif isinstance(message, Report) and session is not None:
                self._fleet.report(session, message, time.monotonic())
            elif session is not None:
                self._fleet.detach(session)
                del self._sessions[stream]
        except MessageError as error:
            self._server.close(stream, str(error))

    def _tick(self, now_s: float) -> None:
        # The shell writes them to the application's status before it confirms them.
        self._fleet.confirm_nodes(self._name, self._fleet.nodes_with_limits(self._name))
        orders = self._fleet.tick(now_s)
        streams = {session: stream for stream, session in self._sessions.items()}
        self._server.send(
            {streams[session]: order for session, order in orders.items() if session in streams}
        )

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
