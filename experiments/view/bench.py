"""Time to the first snapshot, CPU time and bytes of a change, and memory, with a made-up cluster.

Objects arrive as the API server writes them, and go the way that those of watches go: decoded, read into
facts, applied to the state, encoded once. A reader on a socket then asks the real server for the snapshot.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from cluster_view.functions import READERS
from cluster_view.publisher import Publisher
from cluster_view.readers import read_node, read_pod, read_speed
from cluster_view.server import LIMITS, application, hosts
from cluster_view.state import State
from cluster_view.terminal import Terminal
from experiments.view import in_browser
from experiments.view.feed import FakeCluster
from surgekit.errors import UserError
from surgekit.process.http_port import HttpPort
from surgekit.process.listener import Listener

__all__ = ["run"]

_LABELS = ("surgekit.dev/price-per-hour",)
_ROUNDS_A_SECOND = 2.0


class _Arrived:
    """What the watches would have queued."""

    def __init__(self) -> None:
        self.inbox: list[Callable[[], object]] = []

    def apply(self) -> None:
        inbox, self.inbox = self.inbox, []
        for change in inbox:
            change()


def run(
    nodes: int,
    pods: int,
    functions: int,
    changes_per_s: int,
    rounds: int,
    seed: int,
    say: Callable[[str], None],
    browser: bool = False,
) -> dict[str, Any]:
    """With `browser`, also what a person sees of it, in as many rounds again."""
    now_s = time.time()
    cluster = FakeCluster(seed, nodes, pods, functions, now_s)
    lists = cluster.nodes(), cluster.speeds(), cluster.pods(), cluster.policies()
    memory_before = _resident_bytes()
    state, arrived = State("bench", {}), _Arrived()
    publisher = Publisher(state, arrived)
    say(f"{nodes} nodes, {pods} pods, {functions} functions")
    began_s, cpu_s = time.monotonic(), time.process_time()
    for node in map(orjson.loads, lists[0]):
        state.put_node(read_node(node, _LABELS))
    for speed in map(orjson.loads, lists[1]):
        if (facts := read_speed(speed)) is not None:
            state.put_speed(facts, now_s)
    for pod in map(orjson.loads, lists[2]):
        _take_pod(state, "MODIFIED", pod, now_s)
    for policy in map(orjson.loads, lists[3]):
        state.put_function(READERS["KneePolicy"](policy), now_s)
    publisher.round(now_s)
    _, snapshot = publisher.snapshot()
    first_s, first_cpu_s = time.monotonic() - began_s, time.process_time() - cpu_s
    over_http_s = [_first_event_s(publisher, len(snapshot)) for _ in range(3)]
    say(f"{changes_per_s} changes of pods a second, {rounds} rounds")
    each = [_round(cluster, state, arrived, publisher, round(changes_per_s / _ROUNDS_A_SECOND), now_s + i / 2)
            for i in range(rounds)]  # fmt: skip
    memory_bytes = _resident_bytes() - memory_before
    terminal_ms = asyncio.run(_terminal_ms(cluster, state, round(changes_per_s / _ROUNDS_A_SECOND), rounds))
    median_cpu_s = statistics.median(cpu for cpu, _ in each)
    seen: dict[str, Any] = {}
    if browser:
        say("in a browser")
        count = round(changes_per_s / _ROUNDS_A_SECOND)
        with _listening(publisher) as number:
            url = f"http://localhost:{number}/"
            seen = in_browser.figures(
                url, lambda: _round(cluster, state, arrived, publisher, count, time.time()), rounds
            )
    return {
        "nodes": nodes,
        "pods": pods,
        "functions": functions,
        "changes_per_s": changes_per_s,
        "first_snapshot_s": round(first_s, 3),
        "first_snapshot_cpu_s": round(first_cpu_s, 3),
        "snapshot_bytes": len(snapshot),
        "snapshot_over_http_s": round(statistics.median(over_http_s), 3),
        "change_cpu_ms": round(1e3 * median_cpu_s, 2),
        "change_cpu_ms_worst": round(1e3 * max(cpu for cpu, _ in each), 2),
        "change_bytes": statistics.median(size for _, size in each),
        "cpu_share": round(median_cpu_s * _ROUNDS_A_SECOND, 4),
        "terminal_cpu_ms": round(terminal_ms, 2),
        "memory_bytes": memory_bytes,
        **seen,
    }


def _round(
    cluster: FakeCluster, state: State, arrived: _Arrived, publisher: Publisher, count: int, at_s: float
) -> tuple[float, int]:
    """CPU seconds to decode, read, apply and encode the changes of one round; bytes sent to each reader."""
    lines = list(cluster.changes(count))
    number, _ = publisher.snapshot()
    cpu_s = time.process_time()
    for kind, line in lines:
        arrived.inbox.append(partial(_take_pod, state, kind, orjson.loads(line), at_s))
    publisher.round(at_s)
    spent_s = time.process_time() - cpu_s
    news = publisher.after(number, 0.0)
    return spent_s, sum(map(len, news[1])) if news else 0


async def _terminal_ms(cluster: FakeCluster, state: State, count: int, rounds: int) -> float:
    """CPU time in which `surgekit top` applies and draws the changes of one round: the median."""
    terminal, spent_ms = Terminal(state, lambda: None, time.time), []
    async with terminal.run_test(size=(160, 50)) as pilot:
        for _ in range(rounds):
            for kind, line in cluster.changes(count):
                _take_pod(state, kind, orjson.loads(line), time.time())
            cpu_s = time.process_time()
            terminal.round()
            await pilot.pause(0.0)
            spent_ms.append(1e3 * (time.process_time() - cpu_s))
    return statistics.median(spent_ms)


def _take_pod(state: State, kind: str, pod: dict[str, Any], at_s: float) -> None:
    if kind == "DELETED":
        state.drop_pod(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
    elif (facts := read_pod(pod)) is not None:
        state.put_pod(facts, at_s)


def _first_event_s(publisher: Publisher, size: int) -> float:
    """From the connection on until a reader has the whole snapshot."""
    with _listening(publisher) as number:
        began_s = time.monotonic()
        with closing(socket.create_connection(("127.0.0.1", number))) as reader:
            reader.sendall(b"GET /events HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" % number)
            heard = 0
            while heard < size:
                heard += len(reader.recv(1 << 20))
        return time.monotonic() - began_s


@contextmanager
def _listening(publisher: Publisher) -> Iterator[int]:
    """The page's real server; its port."""

    def nobody(_: str) -> dict[str, Any]:
        raise UserError("no extender")

    allowed: set[str] = set()
    port = HttpPort(application(publisher, nobody, allowed).wsgi_app, LIMITS)
    listener = Listener(("127.0.0.1", 0), port)
    allowed |= hosts("127.0.0.1", listener.number)
    listener.start()
    try:
        yield listener.number
    finally:
        listener.stop()


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
