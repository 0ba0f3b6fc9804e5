"""Answer metrics-server for the nodes' kubelets, with what the emulated pods use:
`python -m kwok.knative.kubelets_process`."""

from __future__ import annotations

import argparse
import time
import urllib.request
from pathlib import Path
from typing import Any

import orjson
import uvloop

from kwok.nodes import kubelet_addresses
from kwok.traffic.kubelet_metrics import KubeletMetrics, PodUsage, listen, server_context
from kwok.traffic.wait_for_signal import wait_for_signal
from surgekit.kube.client import Kube
from surgekit.process import logs

__all__: list[str] = []

_PERIOD_S = 1.0


class _Usage:
    """The usage of all pods, a second old at most."""

    def __init__(self, url: str) -> None:
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({})
        )  # no proxy of the machine's
        self._url = url
        self._at_s = float("-inf")
        self._pods: list[dict[str, Any]] = []

    def usage(self, node: str) -> list[PodUsage]:
        if time.monotonic() > self._at_s + _PERIOD_S:
            with self._opener.open(self._url, timeout=5) as answer:
                self._pods, self._at_s = orjson.loads(answer.read()), time.monotonic()
        return [
            PodUsage(
                pod["namespace"], pod["name"], pod["container"],
                pod["cpu_s"], pod["memory_bytes"], pod["started_s"],
            )
            for pod in self._pods
            if pod["node"] == node
        ]  # fmt: skip


async def _run(given: argparse.Namespace) -> None:
    addresses = kubelet_addresses(Kube.connect(given.kubeconfig))
    kubelets = KubeletMetrics(_Usage(given.pods), addresses, server_context(given.certificates))
    async with kubelets.serving(listen(given.kubelet_port)):
        given.ready_file.touch()
        await wait_for_signal()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--kubelet-port", type=int, required=True)
    parser.add_argument("--certificates", type=Path, required=True, help="directory with tls.crt and tls.key")
    parser.add_argument("--pods", required=True, help="URL of what plays the pods")
    parser.add_argument("--ready-file", type=Path, required=True, help="created when it answers")
    given = parser.parse_args()
    logs.configure()
    uvloop.run(_run(given))


if __name__ == "__main__":
    main()
