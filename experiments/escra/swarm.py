"""What the controller costs with thousands of containers: a swarm of simulated agents in the same process.

Counts the controller's share only, in CPU time of its thread: reading messages, reports, decisions, commands
and writing messages, but no gRPC (`experiments.escra.swarm_over_grpc` has that).

    python -m experiments.escra.swarm [--containers 10000] [--ticks 100] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np

from experiments.escra.swarm_agents import applications, make_agents
from limit_allocator.fleet.fleet import Fleet
from limit_allocator.wire.messages import Report, decode_from_agent, encode

__all__ = ["measure"]

_TICK_S = 0.1
_WARM_UP = 20  # ticks


def measure(
    containers: int, ticks: int, per_application: int = 100, changing: float = 0.03
) -> dict[str, Any]:
    agents = make_agents(containers, per_application, changing)
    wanted = applications(containers, per_application)
    fleet = Fleet(term=1)
    began = thread_time()
    fleet.set_applications(wanted)
    set_up_s = thread_time() - began
    by_session = {fleet.attach(agent.hello()): agent for agent in agents}
    report_s: list[float] = []
    tick_s: list[float] = []
    per_tick_s: list[float] = []
    commands = up = down = 0
    for tick in range(_WARM_UP + ticks):
        now_s = tick * _TICK_S
        counts = tick >= _WARM_UP
        whole = 0.0
        for session, agent in by_session.items():
            report = agent.report()
            if report is None:
                continue
            content = encode(report)
            began = thread_time()
            message = decode_from_agent(content)
            if isinstance(message, Report):
                fleet.report(session, message, now_s)
            took = thread_time() - began
            whole += took
            if counts:
                report_s.append(took)
                up += len(content)
        if tick < 5:
            for application in wanted:
                nodes = fleet.nodes_with_limits(application.name)
                fleet.confirm_nodes(application.name, nodes)
        began = thread_time()
        sent = {session: (orders, encode(orders)) for session, orders in fleet.tick(now_s).items()}
        took = thread_time() - began
        for session, (orders, content) in sent.items():
            by_session[session].obey(orders)
            if counts:
                down += len(content)
                commands += len(orders.cpu) // 24
        if counts:
            tick_s.append(took)
            per_tick_s.append(whole + took)
    core = float(np.mean(per_tick_s)) / _TICK_S
    seconds = ticks * _TICK_S
    return {
        "containers": containers,
        "agents": len(agents),
        "applications": len(wanted),
        "ticks": ticks,
        "changed_share": commands / containers / ticks,
        "set_applications_ms": 1000 * set_up_s,
        "report_us": _quantiles(report_s, 1e6),
        "tick_ms": _quantiles(tick_s, 1e3),
        "core_share": core,
        "containers_per_core_without_grpc": containers / core,
        "bytes_per_container_second": {"up": up / containers / seconds, "down": down / containers / seconds},
    }


def _quantiles(seconds: list[float], factor: float) -> dict[str, float]:
    p50, p99 = np.percentile(seconds, [50, 99])
    return {"p50": float(p50) * factor, "p99": float(p99) * factor, "max": max(seconds) * factor}


def main() -> None:
    parser = argparse.ArgumentParser(prog="swarm", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--containers", type=int, nargs="+", default=[5_000, 10_000])
    parser.add_argument("--per-application", type=int, default=100, help="containers of an application")
    parser.add_argument(
        "--changing", type=float, default=0.03, help="share that needs another limit each tick"
    )
    parser.add_argument("--ticks", type=int, default=100)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    measured = [
        measure(count, given.ticks, given.per_application, given.changing) for count in given.containers
    ]
    text = json.dumps(measured, indent=2)
    sys.stdout.write(text + "\n")
    if given.json:
        given.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
