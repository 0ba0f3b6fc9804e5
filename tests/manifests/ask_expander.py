"""Asks an expander as Cluster Autoscaler does: `python -m tests.manifests.ask_expander TARGET CA_FILE`.

A process, because it must run inside the lab's network. Prints the names of the node groups chosen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import grpc

from tests.cluster_autoscaler_hook.expander.builders import RECORDED, chosen


def main(target: str, ca: Path) -> None:
    # The Service's address stands for its name, which only pods can resolve.
    named = [("grpc.ssl_target_name_override", "surgekit-expander.surgekit-system.svc")]
    with grpc.secure_channel(target, grpc.ssl_channel_credentials(ca.read_bytes()), named) as channel:
        best_options: Callable[..., bytes] = channel.unary_unary("/grpcplugin.Expander/BestOptions")
        answer = best_options(RECORDED[0].read_bytes(), timeout=10)
    sys.stdout.write("\n".join(chosen(answer)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
