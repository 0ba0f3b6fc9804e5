"""Run containerd on a real node, with images that come from no registry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO

from kwok.images import build, reference
from kwok.real_node.machine import Machine
from kwok.real_node.requirements import CNI_PLUGINS

__all__ = ["SOCKET", "allow_plain_http", "images", "import_image", "start"]

SOCKET = "/run/containerd/containerd.sock"
_PAUSE = "pause"
_REGISTRIES = "registries"


def start(machine: Machine) -> None:
    """Start containerd and give it the pause image."""
    network = machine.write("cni/10-lab.conflist", _network(machine))
    configuration = machine.write("containerd.toml", _configuration(network))
    socket = machine.outside(SOCKET)
    machine.start_process("containerd", ["containerd", "--config", configuration], socket.exists)
    import_image(machine, build(_PAUSE))


def import_image(machine: Machine, archive: Path) -> None:
    """Load an OCI archive, as if it had been pulled."""
    # By its standard input: the archive may lie where the machine has directories of its own.
    with archive.open("rb") as content:
        images(machine, "import", "-", stdin=content)


def images(machine: Machine, *arguments: str, stdin: IO[bytes] | None = None) -> str:
    """Run `ctr images` for the images that the kubelet uses; its output."""
    ctr = ("ctr", "--address", SOCKET, "--namespace", "k8s.io")
    return machine.run(*ctr, "images", *arguments, stdin=stdin)


def allow_plain_http(machine: Machine, registry: str) -> None:
    """Let the machine pull from this registry without TLS. containerd reads this at each pull."""
    host = f'server = "http://{registry}"\n[host."http://{registry}"]\ncapabilities = ["pull", "resolve"]\n'
    machine.write(f"{_REGISTRIES}/{registry}/hosts.toml", host)


def _configuration(network: Path) -> str:
    return f"""\
version = 2
oom_score = 0
[grpc]
address = "{SOCKET}"
# /opt/containerd would be the host's.
[plugins."io.containerd.internal.v1.opt"]
path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{reference(_PAUSE)}"
restrict_oom_score_adj = true
disable_hugetlb_controller = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI_PLUGINS}"
conf_dir = "{network.parent}"
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "{network.parent.parent / _REGISTRIES}"
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
