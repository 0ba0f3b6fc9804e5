"""Run a node of the burst plane as a process of a lab: `python -m kwok.burst.node_process`.

What it is called and where its agent listens is in the file RECORD as soon as it is ready. It ends with
SIGTERM and takes its containers along.
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
        written = given.record.with_suffix(".new")
        agent = node.agent.pid if node.agent else 0
        written.write_text(json.dumps({"node": node.name, "address": node.address, "agent": agent}))
        os.replace(written, given.record)
        asyncio.run(wait_for_signal())


if __name__ == "__main__":
    main()
