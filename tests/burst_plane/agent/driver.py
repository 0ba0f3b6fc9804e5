"""Speaks to a node agent as the placement and the controller do."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
import urllib.request
from collections.abc import Callable
from types import TracebackType
from typing import Any

from burst_plane.model import Function, InstanceSpec, NodeState, Preparation, Prepared, Started
from burst_plane.wire.messages import (
    PULSELET,
    EndReply,
    EndRequest,
    PrepareReply,
    PrepareRequest,
    StartReply,
    StartRequest,
    WatchRequest,
)  # fmt: skip
from kwok.burst.node import CONTROLLER, PLACEMENT, SERVER_NAME, BurstNode
from surgekit.wire.client import WireClient

__all__ = ["Driver", "ask"]

_numbers = itertools.count(1)
_PATIENCE_S = 60.0


class Driver:
    """Use it as an asynchronous context. Its placement has a name of its own."""

    def __init__(self, node: BurstNode) -> None:
        self.node = node
        self.name = f"placement-{next(_numbers)}"

    async def __aenter__(self) -> Driver:
        node = self.node
        self.placement = WireClient(node.address, PULSELET, node.certificates, SERVER_NAME, PLACEMENT)
        self.controller = WireClient(node.address, PULSELET, node.certificates, SERVER_NAME, CONTROLLER)
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.placement.close()
        await self.controller.close()

    async def prepare(self, *preparations: Preparation) -> bool:
        request = PrepareRequest(term=1, sequence=time.monotonic_ns(), preparations=preparations)
        return (await self.controller.call("Prepare", request, PrepareReply, 10)).accepted

    async def prepared(
        self, function: str, spec: InstanceSpec, created: int = 0, frozen: int = 0
    ) -> Function:
        """Prepare one function, and wait until it is."""
        named = Function("test", function)
        await self.prepare(Preparation(function=named, spec=spec, created=created, frozen=frozen))

        def ready(state: NodeState) -> bool:
            of = found(state, named)
            return of.image_present and of.created >= created and of.frozen >= frozen

        await self.until(ready)
        return named

    async def until(self, holds: Callable[[NodeState], bool]) -> NodeState:
        """Wait for a state of the node."""
        latest: NodeState | None = None

        async def follow() -> NodeState:
            nonlocal latest
            async for state in self.placement.stream("Watch", WatchRequest(), NodeState):
                latest = state
                if holds(state):
                    return state
            raise AssertionError("the agent ended the stream")

        try:
            return await asyncio.wait_for(follow(), _PATIENCE_S)
        except TimeoutError:
            raise AssertionError(f"never: {latest}\n{self.node.said()[-2000:]}") from None

    async def try_start(
        self, function: Function, spec: InstanceSpec, request: str = "", budget_s: float = 20.0
    ) -> StartReply:
        message = StartRequest(
            request=request or f"r{next(_numbers)}", placement=self.name, function=function,
            template=spec.template, budget_s=budget_s,
        )  # fmt: skip
        return await self.placement.call("Start", message, StartReply, 30)

    async def start(self, function: Function, spec: InstanceSpec, request: str = "") -> Started:
        reply = await self.try_start(function, spec, request)
        assert reply.started is not None, (reply, self.node.said()[-2000:])
        return reply.started

    async def end(self, *started: Started) -> None:
        names = tuple(each.instance for each in started)
        await self.placement.call("End", EndRequest(placement=self.name, instances=names), EndReply, 10)

    async def gone(self, started: Started) -> None:
        """Wait until nothing is left of an instance."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while started.instance in self.node.instances():
            assert time.monotonic() < deadline_s, self.node.said()[-2000:]
            await asyncio.sleep(0.02)


def found(state: NodeState, function: Function) -> Prepared:
    """What a node says of a function; nothing is ready of one that it does not know."""
    nothing = Prepared(function=function, template="", image_present=False)
    return next((each for each in state.prepared if each.function == function), nothing)


async def ask(started: Started, path: str = "", timeout_s: float = 20.0) -> Any:
    """What the function answers; raises OSError if it does not."""

    def get() -> Any:
        url = f"http://{started.address}:{started.port}/{path}"
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:
            return json.loads(answer.read())

    return await asyncio.to_thread(get)
