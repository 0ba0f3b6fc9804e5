"""Run the load generator as a process of the lab: `python -m kwok.traffic.load_process`.

Control it over the host's loopback: POST /clients {"target", "clients"} sets a closed loop, POST /replay
{"target", "offsets_s"} adds the requests of an open loop ("paths": one of each), GET /counters returns the
counters. Each request is in the file of records (`kwok.traffic.load_records`).
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path
from typing import Any

import orjson
import structlog
import uvloop

from kwok.traffic import endpoints
from kwok.traffic.load import Generator
from kwok.traffic.wait_for_signal import wait_for_signal
from surgekit.process import logs

__all__: list[str] = []

log = structlog.get_logger(__name__)

_WRITE_S = 0.5


def _order(body: bytes, key: str, kind: type) -> tuple[str, Any]:
    order = orjson.loads(body)
    target, value = order.get("target"), order.get(key)
    if not isinstance(target, str) or not isinstance(value, kind):
        raise ValueError(f"target: {target!r} must be text and {key}: {value!r:.40} a {kind.__name__}")
    return target, value


async def _run(given: argparse.Namespace) -> None:
    generator = Generator(given.gateway_port)

    async def ready(_: bytes) -> str:
        return "ok\n"

    async def clients(body: bytes) -> str:
        target, count = _order(body, "clients", int)
        if not 0 <= count <= 10_000:
            raise ValueError(f"clients: {count} is not in 0..10000")
        generator.target(target).set_clients(count)
        return "ok\n"

    async def replay(body: bytes) -> str:
        target, offsets_s = _order(body, "offsets_s", list)
        generator.target(target).replay(offsets_s, orjson.loads(body).get("paths"))
        return "ok\n"

    async def counters(_: bytes) -> bytes:
        found = {
            target.name: {
                "number": target.number,
                "clients": target.clients,
                "in_flight": target.in_flight,
                "still_due": target.still_due,
                "latency_sum_s": target.latency_sum_s,
                "statuses": {str(status): count for status, count in target.statuses.items()},
            }
            for target in generator.targets.values()
        }
        return orjson.dumps({"at_s": time.time(), "targets": found})

    with given.records.open("ab") as records:

        def write() -> None:
            records.write(generator.take_records())
            records.flush()

        async def write_again_and_again() -> None:
            while True:
                await asyncio.sleep(_WRITE_S)
                write()

        async def flush(_: bytes) -> str:
            write()
            return "ok\n"

        writing = asyncio.create_task(write_again_and_again())
        routes: dict[str, endpoints.Route] = {
            "/readyz": ready,
            "/clients": clients,
            "/replay": replay,
            "/counters": counters,
            "/flush": flush,
        }
        async with endpoints.serving_routes(given.port, routes):
            await wait_for_signal()
        writing.cancel()
        generator.close()
        write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gateway-port", type=int, required=True)
    parser.add_argument("--port", type=int, required=True, help="of /readyz, /clients, /replay, /counters")
    parser.add_argument("--records", type=Path, required=True)
    given = parser.parse_args()
    logs.configure()
    uvloop.run(_run(given))


if __name__ == "__main__":
    main()
