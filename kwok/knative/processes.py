"""Run Knative's Deployments as processes: one network namespace each, as each pod would have."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from kwok.cluster import account_kubeconfig
from kwok.knative.installation import NAMESPACE, deployments
from kwok.lab import Lab
from kwok.network import addresses, bridge
from kwok.network.namespaces import inside, make_namespace
from kwok.ports import answers_ready
from kwok.real_node import identity

__all__ = ["bridge_kubeconfig", "process_name", "start"]

Json = dict[str, Any]
# Its own mount namespace: the machine's /etc/resolv.conf stays as it is.
_WITH_NAMES = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'
_PROBE = {"User-Agent": "kube-probe/1.36"}


def start(lab: Lab) -> None:
    """Start all, each under the service account of its manifest, and wait until each is ready."""
    names = lab.directory / "knative.resolv.conf"
    names.write_text(
        f"nameserver {addresses.CONTROL_PLANE}\n"
        f"search {NAMESPACE}.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
    )
    pods = {name: deployment["spec"]["template"]["spec"] for name, deployment in deployments(lab).items()}
    for account in {pod["serviceAccountName"] for pod in pods.values()}:
        lab.wait_for(partial(_has_rights, lab, account), f"the rights of Knative's account {account}")
    for name, pod in pods.items():
        _start(lab, name, pod, names)


def process_name(deployment: str) -> str:
    return f"knative-{deployment}"


def bridge_kubeconfig(lab: Lab) -> Path:
    """The administrator's, usable in every namespace on the lab's bridge."""
    file = lab.directory / "bridge.kubeconfig"
    file.touch(mode=0o600)
    file.write_text(identity.kubeconfig(lab, "surgekit-lab", ["system:masters"]))
    return file


def _has_rights(lab: Lab, account: str) -> bool:
    """Knative's controller exits without its rights, which kube-controller-manager aggregates from several
    roles."""
    asked = {"verb": "get", "resource": "configmaps", "namespace": NAMESPACE}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": f"system:serviceaccount:{NAMESPACE}:{account}", "resourceAttributes": asked},
    }
    answer = lab.kube.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


def _start(lab: Lab, name: str, pod: Json, names: Path) -> None:
    address, account = addresses.KNATIVE[name], pod["serviceAccountName"]
    namespace = make_namespace(lab.directory, process_name(name))
    bridge.join(lab.directory, name, namespace, address)
    kubeconfig = account_kubeconfig(
        lab.kube, bridge_kubeconfig(lab), NAMESPACE, account, lab.directory / "accounts" / process_name(name)
    )
    (container,) = pod["containers"]
    fields = {
        "metadata.name": f"{name}-0",
        "metadata.namespace": NAMESPACE,
        "status.podIP": str(address),
    }
    environment = {
        variable["name"]: variable["value"]
        if "value" in variable
        else fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        for variable in container["env"]
    }
    lab.start(
        process_name(name),
        [
            "nsenter", f"--net={namespace}", "unshare", "--mount", "sh", "-c", _WITH_NAMES, "sh", names,
            lab.binaries.path(process_name(name)), "--kubeconfig", kubeconfig,
        ],
        env=environment,
        ready=partial(_ready, namespace, container),
    )  # fmt: skip


def _ready(namespace: Path, container: Json) -> bool:
    """As the kubelet asks."""
    probe = container["readinessProbe"]["httpGet"]
    named = {port["name"]: port["containerPort"] for port in container["ports"]}
    port = named.get(probe["port"], probe["port"])
    ask = partial(answers_ready, port, probe.get("path", "/"), probe.get("scheme") == "HTTPS", _PROBE)
    return inside(namespace, ask)
