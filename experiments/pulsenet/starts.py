"""How long an emergency instance takes: the real agent over gRPC with mutual TLS, runc, and one HTTP request.

`start_ms` is what a placement sees: from its Start until the function's first HTTP answer. So it holds what
the issue asks for (the agent's receipt until function code answers) and the two ways between the processes.
`agent_ms` is the agent's own account: from receipt until the port is open. Every start finds the same: the
pool is filled again before the next. `surgekit bench pulsenet --starts`.
"""

from __future__ import annotations

import asyncio
import math
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from burst_plane.model import Function, InstanceSpec, NodeState, Preparation, Started
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
from experiments.results.about import write_figures
from kwok.burst import images as burst_images
from kwok.burst.node import CONTROLLER, PLACEMENT, SERVER_NAME, BurstNode, why_no_burst_node
from kwok.images import build, reference
from surgekit.wire.client import WireClient

__all__ = ["measure", "run", "why_not"]

MIB = 1 << 20
ORIGINS = ("frozen", "created", "cold")
_PATIENCE_S = 120.0
_AT_ONCE = 10


@dataclass(frozen=True)
class _Rounds:
    alone: int
    at_once: int


# p99 of ten at once needs more than a hundred starts; cold ones are no goal of the issue.
_FULL = {"frozen": _Rounds(200, 30), "created": _Rounds(200, 30), "cold": _Rounds(50, 10)}
_QUICK = {"frozen": _Rounds(15, 3), "created": _Rounds(15, 3), "cold": _Rounds(5, 1)}

FUNCTIONS = {
    "static": InstanceSpec(
        image=reference("function-server"), env=(("SERVICE_TIME_MS", "0"),), memory_bytes=64 * MIB
    ),
    # Users' functions import much: https://arxiv.org/abs/2504.19283 and the issue: 300 ms.
    "python-300ms": InstanceSpec(
        image=burst_images.PYTHON, env=(("IMPORTS_MS", "300"),), memory_bytes=96 * MIB
    ),
}


def why_not() -> str | None:
    """Why it cannot be measured on this machine."""
    return why_no_burst_node()


def measure(quick: bool = False, functions: Sequence[str] = tuple(FUNCTIONS), runtime: str = "runc",
            origins: Sequence[str] = ORIGINS) -> dict[str, Any]:  # fmt: skip
    """Figures by function and origin. Starts and removes a node agent of its own."""
    archives = [build("function-server"), burst_images.python()]
    with tempfile.TemporaryDirectory(prefix="surgekit-starts-") as directory:
        settings = {"cpu_millis": 12_000, "memory_mib": 4096, "networks": 12, "runtime": runtime}
        with BurstNode(Path(directory), archives, **settings) as node:
            try:
                return asyncio.run(_measure(node, _QUICK if quick else _FULL, functions, origins))
            except Exception as error:
                error.add_note(node.said()[-3000:])
                raise


@dataclass
class _Taken:
    """Of one function and origin, in milliseconds."""

    start_ms: list[float] = field(default_factory=list)
    agent_ms: list[float] = field(default_factory=list)
    at_once_ms: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    other_origins: int = 0  # the pool was not full: left out

    def figures(self) -> dict[str, Any]:
        return {
            "starts": len(self.start_ms),
            "start_ms_p50": _quantile(self.start_ms, 0.5),
            "start_ms_p99": _quantile(self.start_ms, 0.99),
            "agent_ms_p50": _quantile(self.agent_ms, 0.5),
            "agent_ms_p99": _quantile(self.agent_ms, 0.99),
            "ten_at_once": len(self.at_once_ms),
            "ten_at_once_ms_p50": _quantile(self.at_once_ms, 0.5),
            "ten_at_once_ms_p99": _quantile(self.at_once_ms, 0.99),
            "other_origins": self.other_origins,
            "load_average": round(sum(self.loads) / max(len(self.loads), 1), 1),
        }


class _Caller:
    """As a placement and the controller call an agent."""

    def __init__(self, node: BurstNode) -> None:
        self._clients = [
            WireClient(node.address, PULSELET, node.certificates, SERVER_NAME, name)
            for name in (PLACEMENT, CONTROLLER)
        ]
        self._placement, self._controller = self._clients
        self._number = 0
        self._latest: NodeState | None = None

    async def follow(self) -> None:
        """Keep the latest state, and say that we are alive."""
        async for state in self._placement.stream("Watch", WatchRequest(), NodeState):
            self._latest = state
            await self._placement.call("End", EndRequest(placement="bench"), EndReply, 10)

    async def ready(self, preparation: Preparation) -> None:
        """Prepare this one function, and wait until nothing is left to do."""
        request = PrepareRequest(term=1, sequence=time.monotonic_ns(), preparations=(preparation,))
        await self._controller.call("Prepare", request, PrepareReply, 10)
        deadline_s = time.monotonic() + _PATIENCE_S
        while not self._is_ready(preparation):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"not ready: {self._latest}")
            await asyncio.sleep(0.02)

    def _is_ready(self, wanted: Preparation) -> bool:
        state = self._latest
        return (
            state is not None
            and state.cpu_millis_free == state.cpu_millis
            and len(state.prepared) == 1
            and state.prepared[0].template == wanted.spec.template
            and state.prepared[0].image_present
            and (state.prepared[0].created, state.prepared[0].frozen) == (wanted.created, wanted.frozen)
        )

    async def start(self, function: Function, spec: InstanceSpec) -> tuple[Started, float]:
        """One start and one request; and how long they took."""
        self._number += 1
        request = StartRequest(
            request=f"r{self._number}", placement="bench", function=function, template=spec.template,
            budget_s=30.0,
        )  # fmt: skip
        began_s = time.perf_counter()
        reply = await self._placement.call("Start", request, StartReply, 60)
        if reply.started is None:
            raise RuntimeError(f"not started: {reply}")
        await _get(reply.started)
        return reply.started, (time.perf_counter() - began_s) * 1000

    async def end(self, *started: Started) -> None:
        self._latest = None
        request = EndRequest(placement="bench", instances=tuple(each.instance for each in started))
        await self._placement.call("End", request, EndReply, 10)

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


async def _measure(
    node: BurstNode, rounds: dict[str, _Rounds], functions: Sequence[str], origins: Sequence[str]
) -> dict[str, Any]:
    caller = _Caller(node)
    following = asyncio.create_task(caller.follow())
    try:
        figures = {
            name: {
                origin: (await _one(caller, name, FUNCTIONS[name], origin, rounds[origin])).figures()
                for origin in origins
            }
            for name in functions
        }
    finally:
        following.cancel()
        await caller.close()
    return {"cores": os.cpu_count(), "starts": figures}


async def _one(caller: _Caller, name: str, spec: InstanceSpec, origin: str, rounds: _Rounds) -> _Taken:
    function, taken = Function("bench", name), _Taken()
    for at_once, count in ((1, rounds.alone), (_AT_ONCE, rounds.at_once)):
        for number in range(count + 1):
            await caller.ready(
                Preparation(
                    function=function,
                    spec=spec,
                    created=at_once if origin == "created" else 0,
                    frozen=at_once if origin == "frozen" else 0,
                )
            )
            taken.loads.append(os.getloadavg()[0])
            done = await asyncio.gather(*(caller.start(function, spec) for _ in range(at_once)))
            await caller.end(*(started for started, _ in done))
            if number == 0:  # fills caches
                continue
            right = [(started, ms) for started, ms in done if started.origin == origin]
            taken.other_origins += len(done) - len(right)
            if at_once == 1:
                taken.start_ms += [ms for _, ms in right]
                taken.agent_ms += [started.start_s * 1000 for started, _ in right]
            else:
                taken.at_once_ms += [ms for _, ms in right]
    return taken


async def _get(started: Started) -> None:
    reader, writer = await asyncio.open_connection(started.address, started.port)
    try:
        writer.write(b"GET / HTTP/1.1\r\nHost: function\r\nConnection: close\r\n\r\n")
        status = await reader.readline()
    finally:
        writer.close()
    if b" 200 " not in status:
        raise RuntimeError(f"the function answered {status!r}")


def _quantile(values: Sequence[float], q: float) -> float | None:
    """The smallest value that at least this share does not pass."""
    ordered = sorted(values)
    return round(ordered[max(math.ceil(q * len(ordered)) - 1, 0)], 1) if ordered else None


def run(quick: bool, json_file: Path | None) -> None:
    """`surgekit bench pulsenet --starts`."""
    if reason := why_not():
        raise typer.BadParameter(f"no emergency instance can be started here: {reason}")
    figures = measure(quick)
    # The keys of the issue, for what every function has ready.
    prepared = figures["starts"]["static"]["created"]
    keys = ("start_ms_p50", "start_ms_p99", "ten_at_once_ms_p99")
    if not write_figures({key: prepared[key] for key in keys} | figures, json_file):
        Console().print(_table(figures))


def _table(figures: Mapping[str, Any]) -> Table:
    columns = (
        "start_ms_p50", "start_ms_p99", "agent_ms_p50", "agent_ms_p99", "ten_at_once_ms_p99", "load_average",
    )  # fmt: skip
    table = Table("function", "from", *columns)
    for function, origins in figures["starts"].items():
        for origin, of in origins.items():
            table.add_row(function, origin, *("-" if of[each] is None else str(of[each]) for each in columns))
    return table
