"""Escra as pods on a real node, from the manifests: what the agent's pod may do is enough to move limits."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kwok import images, real_node
from kwok.binaries import Binaries
from kwok.cgroups import cgroup_name, trees
from kwok.errors import BinariesError, ImageError
from kwok.lab import Lab
from kwok.pods import delete_pods, wait_for_account
from tests.limit_allocator import loaded_pods
from tests.limit_allocator.loaded_pods import (
    follow_need_and_give_back,
    limits,
    load,
    quota_cores,
    start_pods,
)
from tests.manifests.parts_as_pods import all_objects, overlay, wait_for_rollouts

pytestmark = [pytest.mark.lab, pytest.mark.real_node]

Json = dict[str, Any]
AGENTS = "surgekit-agents"
SYS_RESOURCE = 1 << 24  # include/uapi/linux/capability.h
# The lab's kubelet has cgroups below one of its own, and a status shall come soon.
ROOTS = """\
- op: add
  path: /spec/template/spec/containers/0/env/-
  value: {{name: SURGEKIT_LIMIT_AGENT_CGROUP_ROOT, value: "{root}"}}
- op: add
  path: /spec/template/spec/containers/1/args/-
  value: "--root={root}"
"""
# Where the machine itself may not have it, as in a container: cgroup v1 needs none.
WITHOUT_CAPABILITY = """\
- op: remove
  path: /spec/template/spec/containers/0/securityContext/capabilities/add
"""
OFTEN = """\
- op: add
  path: /spec/template/spec/containers/0/env/-
  value: {name: SURGEKIT_LIMIT_ALLOCATOR_STATUS_EVERY_S, value: "1"}
"""


def granted() -> int:
    """The agent's one capability, or 0 if this machine has it not."""
    return int(status_of(os.getpid())["CapBnd"], 16) & SYS_RESOURCE


def limits_overlay(lab: Lab) -> Path:
    directory = overlay(lab, "limit-allocator")
    file = directory / "kustomization.yaml"
    content = yaml.safe_load(file.read_text())
    patch = ROOTS.format(root=f"{cgroup_name(lab.directory)}/real-0")
    content["patches"] = [
        {"target": {"kind": "DaemonSet"}, "patch": patch + ("" if granted() else WITHOUT_CAPABILITY)},
        {"target": {"kind": "Deployment"}, "patch": OFTEN},
    ]
    file.write_text(yaml.safe_dump(content))
    return directory


@pytest.fixture(scope="module")
def lab(real_node_binaries: Binaries) -> Iterator[Lab]:
    """One real node and the stock scheduler."""
    try:
        images.build("surgekit")
    except (BinariesError, ImageError) as error:
        pytest.skip(f"the image cannot be had: {error}")
    with Lab.temporary("limit-pods", own_network=True) as lab:
        lab.start_scheduler()
        real_node.start(lab, 1, ("surgekit", "function-server"))
        yield lab


@pytest.fixture(scope="module")
def before(lab: Lab) -> set[str]:
    return all_objects(lab)


@pytest.fixture(scope="module")
def installed(lab: Lab, before: set[str]) -> Lab:
    lab.apply(limits_overlay(lab))
    wait_for_rollouts(lab)
    lab.wait_for(lambda: all(c["ready"] for c in agent_containers(lab).values()), "the agent runs", 120)
    return lab


@pytest.fixture
def shop(installed: Lab) -> Iterator[str]:
    """A namespace that is gone afterwards."""
    name = f"shop-{secrets.token_hex(3)}"
    installed.kube.create("/api/v1/namespaces", {"metadata": {"name": name}})
    wait_for_account(installed.kube, name)
    yield name
    delete_pods(installed.kube, name)
    installed.kubectl("delete", "namespace", name, "--timeout=110s")


def agent_pod(lab: Lab) -> Json:
    pods, _ = lab.kube.list_all(f"/api/v1/namespaces/{AGENTS}/pods")
    return dict(next((pod for pod in pods if "deletionTimestamp" not in pod["metadata"]), {}))


def agent_containers(lab: Lab) -> dict[str, Json]:
    """Statuses of `agent` and `guard`."""
    found = agent_pod(lab).get("status", {}).get("containerStatuses") or []
    return {c["name"]: c for c in found} or {"agent": {"ready": False}}


def process(lab: Lab, container: str) -> int:
    """The number of the first process of one of the agent's containers, on this machine."""
    name = agent_containers(lab)[container]["containerID"].removeprefix("containerd://")
    files = (f for tree in trees() for f in tree.glob(f"{cgroup_name(lab.directory)}/**/{name}/cgroup.procs"))
    return min(int(number) for number in next(files).read_text().split())


def status_of(number: int) -> dict[str, str]:
    lines = Path(f"/proc/{number}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def test_the_agent_has_at_most_one_capability_and_its_guard_none(installed: Lab) -> None:
    """As the kernel sees them, whatever the manifest says."""
    for container, capabilities in (("agent", granted()), ("guard", 0)):
        seen = status_of(process(installed, container))
        assert {int(seen[key], 16) for key in ("CapPrm", "CapEff", "CapBnd")} == {capabilities}, container
        assert (seen["NoNewPrivs"], seen["Seccomp"]) == ("1", "2"), container
        assert seen["Uid"].split() == ["0"] * 4, container
    (spec,) = [agent_pod(installed)["spec"]]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    paths = {volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    assert paths == {"/sys/fs/cgroup", "/run/surgekit/limits"}


def test_the_agents_pod_has_no_token_for_the_api_server(installed: Lab) -> None:
    program = (
        "import base64, json, os, pathlib\n"
        "token = pathlib.Path('/run/surgekit-token/token').read_text().split('.')[1]\n"
        "print(os.path.exists('/var/run/secrets/kubernetes.io'),"
        " *json.loads(base64.urlsafe_b64decode(token + '=='))['aud'])"
    )
    name = agent_pod(installed)["metadata"]["name"]
    said = installed.kubectl("exec", "-n", AGENTS, name, "-c", "agent", "--", "python", "-c", program)
    assert said.split() == ["False", "surgekit-limit-allocator"]


def test_limits_follow_need_and_are_given_back(installed: Lab, shop: str) -> None:
    follow_need_and_give_back(installed, shop)


def test_a_killed_agent_is_started_again_and_goes_on(installed: Lab, shop: str) -> None:
    a, _ = start_pods(installed, shop).values()
    installed.wait_for(lambda: quota_cores(a) < loaded_pods.IDLE_CORES, "an idle container has little CPU")
    restarts = agent_containers(installed)["agent"]["restartCount"]
    os.kill(process(installed, "agent"), signal.SIGKILL)
    installed.wait_for(
        lambda: agent_containers(installed)["agent"].get("restartCount") == restarts + 1, "its restart", 120
    )
    load(installed, shop, "a", cores=1, mebibytes=0)
    installed.wait_for(
        lambda: quota_cores(a) > loaded_pods.BUSY_CORES, "the quota follows the load again", 120
    )
    load(installed, shop, "a", cores=0, mebibytes=0)
    installed.wait_for(lambda: quota_cores(a) < loaded_pods.IDLE_CORES, "and falls with it", 120)


def test_without_the_agents_pod_limits_are_as_in_the_specs(installed: Lab, shop: str) -> None:
    """Its end writes back what its journal, which outlives it, has."""
    pods = start_pods(installed, shop)
    installed.wait_for(
        lambda: all(quota_cores(c) < loaded_pods.IDLE_CORES for c in pods.values()),
        "limits are below ceilings",
    )
    never = {"spec": {"template": {"spec": {"nodeSelector": {"example.com/none": "true"}}}}}
    path = f"/apis/apps/v1/namespaces/{AGENTS}/daemonsets/surgekit-limit-agent"
    installed.kube.patch(path, never, "application/strategic-merge-patch+json")
    installed.wait_for(lambda: not agent_pod(installed), "the agent is gone", 120)
    installed.wait_for(lambda: [limits(c) for c in pods.values()] == [(1.5, 600)] * 2, "the ceilings")


def test_after_the_removal_the_cluster_is_as_before(installed: Lab, before: set[str]) -> None:
    installed.kubectl("delete", "-k", limits_overlay(installed), "--ignore-not-found", "--timeout=110s")
    installed.wait_for(lambda: all_objects(installed) == before, "the cluster is as before", 120)
