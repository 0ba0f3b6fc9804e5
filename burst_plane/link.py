"""The controller's connections to the node agents: what each should be ready for, and its account of itself.

All in the loop of the server's thread. An agent that cannot be reached keeps what it was told last.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import structlog

from burst_plane.model import NodeState, Preparation
from burst_plane.wire.messages import PULSELET, AgentAddress, PrepareReply, PrepareRequest, WatchRequest
from surgekit.process.back_off import back_off_s
from surgekit.wire.client import WireClient, WireError
from surgekit.wire.messages import MessageError

__all__ = ["AgentLinks"]

log = structlog.get_logger(__name__)

_FIRST_S, _LONGEST_S = 0.2, 10.0  # of the back-off
_AGAIN_S = 30.0  # what was said is said again
_PREPARE_S = 10.0  # a Prepare may take
_LEAST_BETWEEN_S = 0.05  # two accounts of an agent: no honest one speaks more often


class AgentLinks:
    """One leader's. `follow` and `prepare` may be called from any thread; others belong to the loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, term: int, agent_name: str, tls_directory: Path | None
    ) -> None:
        self._loop, self._term, self._name, self._tls = loop, term, agent_name, tls_directory
        self._tasks: dict[AgentAddress, asyncio.Task[None]] = {}
        self._wanted: dict[str, tuple[Preparation, ...]] = {}
        self._changed: dict[AgentAddress, asyncio.Event] = {}
        self._said: dict[AgentAddress, NodeState] = {}
        self._sequence = 0
        self.states: Mapping[str, NodeState] = {}  # by node, of agents that answer; replaced as a whole

    def follow(self, agents: Iterable[AgentAddress]) -> None:
        self._loop.call_soon_threadsafe(self._follow, frozenset(agents))

    def prepare(self, wanted: Mapping[str, tuple[Preparation, ...]]) -> None:
        self._loop.call_soon_threadsafe(self._prepare, dict(wanted))

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._follow, frozenset())

    def _follow(self, agents: frozenset[AgentAddress]) -> None:
        for gone in self._tasks.keys() - agents:
            self._tasks.pop(gone).cancel()
        for new in agents - self._tasks.keys():
            self._tasks[new] = self._loop.create_task(self._attend(new))

    def _prepare(self, wanted: dict[str, tuple[Preparation, ...]]) -> None:
        before, self._wanted = self._wanted, wanted
        for agent, event in self._changed.items():
            if before.get(agent.node) != wanted.get(agent.node):
                event.set()

    async def _attend(self, agent: AgentAddress) -> None:
        """Watch one agent, and tell it what to be ready for, until cancelled."""
        failures, host = 0, f"[{agent.address}]" if ":" in agent.address else agent.address
        while True:
            client = None
            began_s = time.monotonic()
            try:
                name = self._name if self._tls else ""
                client = WireClient(f"{host}:{agent.port}", PULSELET, self._tls, name)
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._tell(agent, client))
                    tasks.create_task(self._watch(agent, client))
            except* (WireError, MessageError, OSError) as errors:
                log.info("agent lost", node=agent.node, error=str(errors.exceptions[0]))
            except* Exception:  # a fault of ours must not end it for good
                log.exception("agent lost", node=agent.node)
            finally:
                self._hear(agent, None)
                self._changed.pop(agent, None)
                if client is not None:
                    await client.close()
            failures = 1 if time.monotonic() - began_s > _LONGEST_S else failures + 1
            await asyncio.sleep(back_off_s(failures, _FIRST_S, _LONGEST_S))

    async def _watch(self, agent: AgentAddress, client: WireClient) -> None:
        async for state in client.stream("Watch", WatchRequest(), NodeState):
            self._hear(agent, state)
            await asyncio.sleep(_LEAST_BETWEEN_S)
        raise WireError("UNAVAILABLE", "the agent ended the stream", sent=True)

    def _hear(self, agent: AgentAddress, state: NodeState | None) -> None:
        """While an agent is replaced, a node may have two."""
        self._said.pop(agent, None)
        if state is not None:
            self._said[agent] = state
        self.states = {of.node: state for of, state in self._said.items()}

    async def _tell(self, agent: AgentAddress, client: WireClient) -> None:
        event = self._changed[agent] = asyncio.Event()
        while True:
            event.clear()
            if (wanted := self._wanted.get(agent.node)) is not None:
                self._sequence += 1
                message = PrepareRequest(term=self._term, sequence=self._sequence, preparations=wanted)
                reply = await client.call("Prepare", message, PrepareReply, _PREPARE_S)
                if not reply.accepted:
                    log.warning("agent knows a later leader", node=agent.node, term=self._term)
            try:
                await asyncio.wait_for(event.wait(), _AGAIN_S)
            except TimeoutError:
                continue
