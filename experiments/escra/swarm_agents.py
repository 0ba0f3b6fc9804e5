"""Agents without nodes: they report made-up use of up to 110 containers each, and carry out all commands."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from limit_allocator.allocation.model import PERIOD_US, Integers, Parameters
from limit_allocator.fleet.model import Application, PodRow
from limit_allocator.wire.messages import (
    CPU_ORDER_ROWS,
    MEMORY_ORDER_ROWS,
    Found,
    Hello,
    Orders,
    Report,
    ReserveReport,
    table,
)  # fmt: skip
from surgekit.process.modes import Mode

__all__ = ["CONTAINERS_PER_NODE", "SwarmAgent", "applications", "make_agents"]

CONTAINERS_PER_NODE = 110  # the kubelet's default for pods
_MIB = 1024 * 1024
_CEILING_US, _CEILING_BYTES = 8 * PERIOD_US, 1024 * _MIB
_DEMANDS_US = (8_000, 16_000, 32_000, 64_000)
_MEMORY_EVERY = 5  # the agent reads a container's memory in every fifth tick
_ROOM_BYTES = 64 * 1024 * _MIB


class SwarmAgent:
    """One node. In each tick a share of its containers comes to need another CPU limit."""

    def __init__(self, number: int, pods: Mapping[str, str], changing: float) -> None:
        """`pods`: application by pod uid; each has one container, whose key is its place in `pods`."""
        self.node = f"node-{number}"
        self._draw = np.random.default_rng(number)
        self._changing = changing
        self._pods = list(pods)
        self._names = sorted(set(pods.values()))
        count = len(pods)
        self._keys, zeros = np.arange(count), np.zeros(count, np.int64)
        self._demand_us = self._draw.choice(_DEMANDS_US, count)
        self._used_bytes = self._draw.integers(50, 200, count) * _MIB
        self._periods, self._used_us, self._throttled, self._lacked_us = (zeros.copy() for _ in range(4))
        # Of each ledger: applied, written, folded, and whether the controller has to be told.
        self._applied, self._written = np.zeros((2, count), np.int64), np.zeros((2, count), np.int64)
        self._news = np.ones((2, count), np.bool_)
        self._reserves = dict.fromkeys(self._names, (0, 0))
        self._reserve_news = set(self._names)
        self._number = self._term = 0
        self._knows_pods = False

    def hello(self) -> Hello:
        return Hello(node=self.node, boot_id="1", start=1, term=0)

    def obey(self, orders: Orders) -> None:
        self._term, self._knows_pods = orders.term, True
        for resource, content, rows in (
            (0, orders.cpu, CPU_ORDER_ROWS),
            (1, orders.memory, MEMORY_ORDER_ROWS),
        ):
            key, sequence, value, *_ = table(content, rows)
            newer = sequence > self._applied[resource, key]
            key = key[newer]
            self._applied[resource, key], self._written[resource, key] = sequence[newer], value[newer]
            self._news[resource, key] = True
        for reserve in orders.reserves:
            self._reserves[reserve.application] = reserve.sequence, reserve.value_bytes
            self._reserve_news.add(reserve.application)

    def report(self) -> Report | None:
        """One tick; nothing until it knows its pods."""
        self._run()
        if not self._knows_pods:
            return None
        self._number += 1
        first = self._number == 1
        keys = self._keys
        cpu = (keys, self._periods, self._used_us, self._throttled, self._lacked_us, self._written[0])
        read = keys if first else keys[(keys + self._number) % _MEMORY_EVERY == 0]
        none = np.zeros_like(read)
        reserves = [ReserveReport(
            application=name, applied=self._reserves[name][0], granted_bytes=self._reserves[name][1],
            spent_bytes=0,
        ) for name in sorted(self._reserve_news)]  # fmt: skip
        self._reserve_news.clear()
        return Report(
            number=self._number,
            term=self._term,
            at_us=self._number * PERIOD_US,
            room_bytes=_ROOM_BYTES,
            found=tuple(self._found()) if first else (),
            cpu=_bytes(cpu),
            memory=_bytes((read, self._used_bytes[read], none, none, none)),
            cpu_accounts=self._accounts(0),
            memory_accounts=self._accounts(1),
            reserves=tuple(reserves),
        )

    def _run(self) -> None:
        count = len(self._keys)
        others = self._draw.random(count) < self._changing
        self._demand_us = np.where(others, self._draw.choice(_DEMANDS_US, count), self._demand_us)
        quota = np.where(self._written[0] > 0, self._written[0], _CEILING_US)
        lacked = np.maximum(self._demand_us - quota, 0)
        self._periods += 1
        self._used_us += self._demand_us - lacked
        self._throttled += lacked > 0
        self._lacked_us += lacked

    def _accounts(self, resource: int) -> bytes:
        keys = np.flatnonzero(self._news[resource])
        self._news[resource] = False
        applied, written = self._applied[resource, keys], self._written[resource, keys]
        none = np.zeros_like(keys)
        return _bytes((keys, applied, (applied > 0).astype(np.int64), written, none, none))

    def _found(self) -> list[Found]:
        return [
            Found(
                key=key, pod_uid=uid, container_id=f"id of {uid}", quota_us=_CEILING_US,
                memory_bytes=_CEILING_BYTES,
            )
            for key, uid in enumerate(self._pods)
        ]  # fmt: skip


def make_agents(containers: int, per_application: int, changing: float) -> list[SwarmAgent]:
    """Applications have containers on all nodes."""
    agents = []
    many = max(containers // per_application, 1)
    for number, first in enumerate(range(0, containers, CONTAINERS_PER_NODE)):
        numbers = range(first, min(first + CONTAINERS_PER_NODE, containers))
        pods = {f"pod-{n}": f"swarm/application-{n % many}" for n in numbers}
        agents.append(SwarmAgent(number, pods, changing))
    return agents


def applications(containers: int, per_application: int) -> list[Application]:
    """Their limits are a bit more than what is needed, so that raises mostly find room."""
    many = max(containers // per_application, 1)
    pods: list[dict[str, PodRow]] = [{} for _ in range(many)]
    for n in range(containers):
        pods[n % many][f"pod-{n}"] = PodRow(f"node-{n // CONTAINERS_PER_NODE}", f"pod-{n}")
    return [
        Application(
            f"swarm/application-{i}",
            Mode.ENFORCE,
            Parameters(),
            len(own) * 50_000,
            len(own) * 400 * _MIB,
            own,
        )
        for i, own in enumerate(pods)
    ]


def _bytes(rows: tuple[Integers, ...]) -> bytes:
    return np.stack(rows).astype("<i8", copy=False).tobytes()
