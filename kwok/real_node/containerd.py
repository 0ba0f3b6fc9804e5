"""Run containerd on a real node, with images that come from no registry."""

from __future__ import annotations

import json
from pathlib import Path

from kwok import images
from kwok.real_node.machine import Machine
from kwok.real_node.requirements import CNI_PLUGINS

__all__ = ["SOCKET", "import_image", "start"]

SOCKET = "/run/containerd/containerd.sock"
_PAUSE = "pause"


def start(machine: Machine) -> None:
    """Start containerd and give it the pause image."""
    network = machine.write("cni/10-lab.conflist", _network(machine))
    configuration = machine.write("containerd.toml", _configuration(network.parent))
    socket = machine.outside(SOCKET)
    machine.start_process("containerd", ["containerd", "--config", configuration], socket.exists)
    import_image(machine, images.build(_PAUSE))


def import_image(machine: Machine, archive: Path) -> None:
    """Load an OCI archive, as if it had been pulled."""
    # By its standard input: the archive may lie where the machine has directories of its own.
    with archive.open("rb") as content:
        machine.run(
            "ctr", "--address", SOCKET, "--namespace", "k8s.io", "images", "import", "-", stdin=content
        )


def _configuration(networks: Path) -> str:
    return f"""\
version = 2
oom_score = 0
[grpc]
address = "{SOCKET}"
# /opt/containerd would be the host's.
[plugins."io.containerd.internal.v1.opt"]
path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{images.reference(_PAUSE)}"
restrict_oom_score_adj = true
disable_hugetlb_controller = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI_PLUGINS}"
conf_dir = "{networks}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def _network(machine: Machine) -> str:
    """Pods on a bridge of the node, which routes for them. The lab knows the way to them: no masquerading."""
    plugin = {
        "type": "bridge",
        "bridge": "pods",
        "isDefaultGateway": True,
        "ipMasq": False,
        "hairpinMode": True,  # a pod may be an endpoint of a Service that it calls
        "ipam": {"type": "host-local", "ranges": [[{"subnet": str(machine.pods)}]]},
    }
    return json.dumps({"cniVersion": "0.4.0", "name": "lab", "plugins": [plugin]})
