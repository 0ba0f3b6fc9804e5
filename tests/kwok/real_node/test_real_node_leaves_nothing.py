"""A lab with a real node beside another: they share a plan of addresses, and leave the machine as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwok.cgroups import trees
from kwok.lab import Lab
from kwok.network_namespace import directory_digest
from kwok.places import labs_directory
from kwok.waiting import wait_for
from tests.kwok.real_node.real_pods import FUNCTION_PORT, create, real_pod, status_in_lab, wait_until_ready

pytestmark = [pytest.mark.lab, pytest.mark.real_node]

# A lab with a real node and a pod on it, until it is told to go on or is killed.
PROGRAM = """
import sys
from kwok import real_node
from kwok.lab import Lab
from kwok.pods import wait_for_account
from tests.kwok.real_node.real_pods import *
with Lab.temporary("second", own_network=True) as lab:
    lab.start_scheduler()
    real_node.start(lab)
    wait_for_account(lab.kube, "default")
    create(lab, "default", real_pod("f"))
    address = wait_until_ready(lab, "default", "f")["status"]["podIP"]
    assert status_in_lab(lab, address, FUNCTION_PORT) == 200
    print(lab.directory, address, flush=True)
    sys.stdin.read()
"""
SYSCTLS = (
    "kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "vm/panic_on_oom", "net/ipv4/ip_forward",
    "net/ipv4/conf/all/route_localnet", "net/ipv4/conf/all/send_redirects", "net/netfilter/nf_conntrack_max",
)  # fmt: skip
# Where a kubelet, containerd and CNI plugins write on a machine of their own.
PLACES = ("/run", "/run/containerd", "/var/lib", "/var/log", "/opt", "/etc", "/etc/cni", "/usr/libexec")


@pytest.fixture
def own_labs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setenv("SURGEKIT_STATE_DIR", str(tmp_path))
    yield labs_directory()
    for name in Lab.names():
        Lab.remove(name)


def machine_state() -> dict[str, object]:
    """What a real node could change on the machine. Namespaces of other labs come and go meanwhile."""
    listed = {
        "links": ["ip", "-oneline", "link"],
        "addresses": ["ip", "-oneline", "addr"],
        "routes": ["ip", "route", "show", "table", "all"],
        "rules": ["iptables-save"],
    }
    environ = dict(os.environ) | {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    state: dict[str, object] = {
        what: subprocess.run(
            command, capture_output=True, text=True, check=True, env=environ
        ).stdout.splitlines()
        for what, command in listed.items()
    }
    state["rules"] = [line for line in state["rules"] if line[0] not in "#:"]  # type: ignore[attr-defined]
    state["mounts"] = [
        line.split()[4]
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
        if "/netns" not in line
    ]
    state["sysctls"] = {
        name: sysctl.read_text() for name in SYSCTLS if (sysctl := Path("/proc/sys", name)).exists()
    }
    state["files"] = {place: sorted(os.listdir(place)) for place in PLACES if Path(place).is_dir()}
    return state


def left_of(directory: Path) -> list[str]:
    """What still bears the lab's name: cgroups, namespaces, processes."""
    name = directory_digest(directory)
    found = [str(group) for tree in trees() for group in tree.glob(f"*{name}*")]
    found += [str(path) for path in Path("/run/netns").glob(f"*{name}*")]
    return found + ([str(directory)] if directory.exists() else [])


@pytest.mark.parametrize("killed", [False, True], ids=["taken down", "killed"])
def test_a_second_lab_leaves_the_machine_as_it_was(
    lab: Lab, namespace: str, own_labs: Path, killed: bool
) -> None:
    create(lab, namespace, real_pod("f", "real-0"))
    address = wait_until_ready(lab, namespace, "f")["status"]["podIP"]
    before = machine_state()
    second = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert second.stdin is not None
    assert second.stdout is not None
    with second:
        told = second.stdout.readline().split()
        assert told, "the second lab did not come up"
        directory, its_address = Path(told[0]), told[1]
        assert address.rpartition(".")[0] == its_address.rpartition(".")[0], "both use the same plan"
        assert left_of(directory)
        assert status_in_lab(lab, address, FUNCTION_PORT) == 200
        if killed:
            second.send_signal(signal.SIGKILL)
        else:
            second.stdin.close()
    wait_for(lambda: not left_of(directory), f"nothing is left of {directory}")
    assert machine_state() == before
    assert status_in_lab(lab, address, FUNCTION_PORT) == 200
