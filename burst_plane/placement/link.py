"""A placement's connections: to the leading controller and to every node agent. All in one asyncio loop.

The last directory stays in use while no controller answers: what runs without us goes on running.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from pathlib import Path

import structlog

from burst_plane.model import NodeState
from burst_plane.placement.desk import Desk, Running
from burst_plane.placement.settings import Settings
from burst_plane.wire.messages import (
    DIRECTOR,
    PULSELET,
    AgentAddress,
    Directory,
    EndReply,
    EndRequest,
    StartReply,
    StartRequest,
    TrafficReport,
    WatchRequest,
)
from surgekit.process.back_off import back_off_s
from surgekit.wire.client import WireClient, WireError
from surgekit.wire.messages import MessageError

__all__ = ["Link"]

log = structlog.get_logger(__name__)

_FIRST_S, _LONGEST_S = 0.1, 3.0  # of the back-off
_ALIVE_EVERY_S = 1.0  # agents end the instances of a placement that they do not hear
_END_S = 2.0  # an End may take
_LEAST_BETWEEN_S = 0.05  # two accounts of an agent: no honest one speaks more often
_ENDED = (WireError, MessageError, OSError)


class Link:
    def __init__(
        self, name: str, settings: Settings, desk: Desk, report: Callable[[], TrafficReport]
    ) -> None:
        self._name, self._settings, self._desk, self._report = name, settings, desk, report
        self._agents: dict[AgentAddress, asyncio.Task[None]] = {}
        self._clients: dict[str, WireClient] = {}  # by node
        self._ends: dict[str, tuple[set[str], set[str]]] = {}  # by node: instances, requests
        self._due = asyncio.Event()
        self._sending: set[asyncio.Task[None]] = set()
        self.controller = ""  # that this placement is attached to

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_controller())
            tasks.create_task(self._send_ends())

    # --- for one request ---

    async def start(self, agent: AgentAddress, request: StartRequest) -> StartReply:
        """Raise WireError or MessageError."""
        client = self._clients.get(agent.node)
        if client is None:
            raise WireError("UNAVAILABLE", f"no connection to {agent.node}", sent=False)
        return await client.call("Start", request, StartReply, request.budget_s)

    def end(self, running: Running, request: str) -> None:
        """Send with the next batch."""
        if running.instance:
            self.end_instance(running.node, running.instance)
        else:
            self._ends.setdefault(running.node, (set(), set()))[1].add(request)
            self._due.set()

    def end_instance(self, node: str, instance: str) -> None:
        self._ends.setdefault(node, (set(), set()))[0].add(instance)
        self._due.set()

    # --- the controller ---

    async def _follow_controller(self) -> None:
        failures = 0
        while True:
            accepted = False
            for address in await self._addresses():
                accepted = await self._attach(address) or accepted
            failures = 0 if accepted else failures + 1
            await asyncio.sleep(back_off_s(max(failures, 1), _FIRST_S, _LONGEST_S))

    async def _addresses(self) -> list[str]:
        host, _, port = self._settings.controller.rpartition(":")
        try:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        except OSError as error:
            log.warning("the controller's address is unknown", controller=host, error=str(error))
            return []
        hosts = dict.fromkeys(str(place[0]) for *_, place in found)
        return [f"[{each}]:{port}" if ":" in each else f"{each}:{port}" for each in hosts]

    async def _attach(self, address: str) -> bool:
        """One stream, from its beginning to its end. Whether this controller leads."""
        host = self._settings.controller.rpartition(":")[0]
        try:
            client = self._client(address, DIRECTOR, self._settings.server_name or host)
        except OSError as error:
            log.error("certificate cannot be read", error=str(error))
            return False
        accepted = False
        try:
            async for directory in client.converse("Attach", self._reports(), Directory):
                first, accepted = not accepted, True
                if first:
                    self.controller = address
                    log.info("attached", controller=address)
                if self._desk.take(directory, first=first):
                    self._follow_agents(directory.agents)
        except _ENDED as error:
            if accepted:
                log.warning("controller lost", controller=address, error=str(error))
        finally:
            self.controller = ""
            await client.close()
        return accepted

    async def _reports(self) -> AsyncIterator[TrafficReport]:
        while True:
            yield self._report()
            await asyncio.sleep(self._settings.report_every_s)

    # --- the agents ---

    def _follow_agents(self, agents: Iterable[AgentAddress]) -> None:
        """Keep one watch for each place; speeds may change without a new one."""
        wanted = {AgentAddress(node=a.node, address=a.address, port=a.port) for a in agents}
        for gone in self._agents.keys() - wanted:
            self._agents.pop(gone).cancel()
        for new in wanted - self._agents.keys():
            self._agents[new] = asyncio.create_task(self._watch(new))

    async def _watch(self, agent: AgentAddress) -> None:
        failures = 0
        address = f"[{agent.address}]" if ":" in agent.address else agent.address
        while True:
            client = None
            try:
                client = self._client(f"{address}:{agent.port}", PULSELET, self._settings.agent_name)
                async for state in client.stream("Watch", WatchRequest(), NodeState):
                    failures = 0
                    self._clients[agent.node] = client
                    self._desk.heard(agent.node, state, time.monotonic())
                    await asyncio.sleep(_LEAST_BETWEEN_S)
            except _ENDED as error:
                log.info("agent lost", node=agent.node, error=str(error))
            except Exception:  # a fault of ours must not end the watch for good
                log.exception("agent lost", node=agent.node)
            finally:
                if client is not None and self._clients.get(agent.node) is client:
                    del self._clients[agent.node]
                    self._desk.lost(agent.node)
                if client is not None:
                    await client.close()
            failures += 1
            await asyncio.sleep(back_off_s(failures, _FIRST_S, _LONGEST_S))

    async def _send_ends(self) -> None:
        """Ends as they come due; each second one to every agent, which says that we are alive."""
        alive_s = 0.0
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), _ALIVE_EVERY_S / 2)
            self._due.clear()
            ends, self._ends = self._ends, {}
            if time.monotonic() - alive_s >= _ALIVE_EVERY_S:
                alive_s = time.monotonic()
                ends = {node: (set(), set()) for node in self._clients} | ends
            for node, (instances, requests) in ends.items():
                if client := self._clients.get(node):
                    message = EndRequest(
                        placement=self._name,
                        instances=tuple(sorted(instances)),
                        requests=tuple(sorted(requests)),
                    )
                    task = asyncio.create_task(self._end(client, node, message))
                    self._sending.add(task)
                    task.add_done_callback(self._sending.discard)

    async def _end(self, client: WireClient, node: str, message: EndRequest) -> None:
        """If it fails, the agent ends them by itself: their connections are closed."""
        try:
            await client.call("End", message, EndReply, _END_S)
        except _ENDED as error:
            log.info("end not told", node=node, instances=len(message.instances), error=str(error))

    def _client(self, address: str, service: str, server_name: str) -> WireClient:
        """Certificates are read anew for each connection: they are renewed."""
        directory: Path | None = self._settings.tls_directory
        return WireClient(address, service, directory, server_name if directory else "")
