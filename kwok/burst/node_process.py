"""Run a node of the burst plane as a process of a lab: `python -m kwok.burst.node_process`.

What it is called and where its agent listens is in the file RECORD as soon as it is ready. An agent that died
is started again, as the kubelet would. It ends with SIGTERM and takes its containers along.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from pathlib import Path

from kwok.burst.images import python
from kwok.burst.node import BurstNode
from kwok.traffic.wait_for_signal import wait_for_signal

__all__: list[str] = []


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--certificates", type=Path, required=True)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--settings", default="{}", help="of the agent, as JSON")
    given = parser.parse_args()
    node = BurstNode(given.directory, [python()], **json.loads(given.settings))
    node.certificates = given.certificates
    with node:
        _tell(node, given.record)
        asyncio.run(_keep(node, given.record))


async def _keep(node: BurstNode, record: Path) -> None:
    ending = asyncio.create_task(wait_for_signal())
    while not ending.done():
        await asyncio.wait([ending], timeout=0.2)
        if node.agent is not None and node.agent.poll() is not None and not ending.done():
            await asyncio.to_thread(node.start_agent)
            _tell(node, record)


def _tell(node: BurstNode, record: Path) -> None:
    written = record.with_suffix(".new")
    agent = node.agent.pid if node.agent else 0
    written.write_text(json.dumps({"node": node.name, "address": node.address, "agent": agent}))
    os.replace(written, record)


if __name__ == "__main__":
    main()
