"""Create the control plane of a lab with kwokctl, and a kubeconfig for each identity."""

from __future__ import annotations

import base64
import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from kwok.binaries import Binaries
from kwok.errors import ClusterError
from kwok.hpa_loops import controller_flags
from kwok.network import addresses, door
from kwok.network_namespace import entering, has_network
from kwok.ports import free_ports
from kwok.processes import marked_environment
from surgekit.kube.client import Kube
from surgekit.tls import ensure

__all__ = ["FRONT_PROXY", "account_kubeconfig", "account_token", "certificates", "create", "stage_files"]

_STAGES = Path(__file__).parent / "stages"
# Stages that wait for the node model, and those that do not (the model writes resizes itself).
_TIMED = {"pod-create", "pod-ready"}
_INSTANT = {"pod-ready-instant", "pod-resize-instant"}
_NAME = "lab"
FRONT_PROXY = "front-proxy-client"  # kubeadm's name; the only one that may act for others
_TOKEN_S = 24 * 3600
_API = "config.kwok.x-k8s.io/v1alpha1"
_READY_S = 90  # for a control plane that takes 3 s on idle cores
# By default kwokctl takes the first free ports; two labs starting at once would take the same.
_PORTS = ("etcdPort", "etcdPeerPort", "kubeApiserverPort", "kubeControllerManagerPort", "kwokControllerPort")
# KWOK plays 4 stages at a time by default; a burst of pods would wait for KWOK, not for its nodes. A
# KwokConfiguration drops KWOK's other defaults (knative-on-kwok.md, 2a), so all are written out.
_KWOK = {
    "apiVersion": _API,
    "kind": "KwokConfiguration",
    "options": {
        "podPlayStageParallelism": 32,
        "nodePlayStageParallelism": 4,
        "nodeLeaseParallelism": 4,
        "podsOnNodeSyncParallelism": 1,
        "enablePodsOnNodeSyncListPager": True,
        "enablePodsOnNodeSyncStreamWatch": False,
        "enableDebuggingHandlers": False,
        "cidr": str(addresses.SHARED_PODS),
    },
}


def stage_files(instant_pods: bool) -> list[Path]:
    """The KWOK stages of a lab: pods created by the node model, or Ready at once."""
    left_out = _TIMED if instant_pods else _INSTANT
    return [file for file in sorted(_STAGES.glob("*.yaml")) if file.stem not in left_out]


def certificates(directory: Path) -> Path:
    """Where kwokctl keeps the cluster's CA (`ca`) and the administrator's pair (`admin`)."""
    return directory / "kwok" / "clusters" / _NAME / "pki"


def create(directory: Path, binaries: Binaries, instant_pods: bool, time_factor: float) -> Path:
    """Bring up etcd, API server, controller manager and KWOK; the admin's kubeconfig.

    kube-scheduler is left out: the lab starts the same stock binary itself, so that experiments can
    change its configuration while the cluster lives. `time_factor` divides the HPA's clocks. In a lab with a
    network of its own, real nodes may join.
    """
    config, kubeconfig = directory / "kwokctl.yaml", directory / "kubeconfig"
    documents = [file.read_text() for file in stage_files(instant_pods)]
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    options: dict[str, Any] = {"bindAddress": "127.0.0.1", **ports}
    patches = _flags(directory / "tls" / "front-proxy", time_factor)
    if has_network(directory):
        door.open_ports(directory, ports.values())
        options["kubeApiserverCertSANs"] = [str(addresses.CONTROL_PLANE), str(addresses.KUBERNETES_SERVICE)]
        for name, flags in _flags_for_real_nodes(certificates(directory)).items():
            patches[name] = patches.get(name, {}) | flags
    control_plane = {
        "apiVersion": _API,
        "kind": "KwokctlConfiguration",
        "options": options,
        # Not by --extra-args, which loses count of components once flags of two alternate (kwokctl 0.8.0).
        # Where kwokctl sets a flag too, the last one counts.
        "componentsPatches": [
            {"name": name, "extraArgs": [{"key": key, "value": value} for key, value in flags.items()]}
            for name, flags in patches.items()
        ],
    }
    documents += [yaml.safe_dump(control_plane), yaml.safe_dump(_KWOK)]
    config.write_text("---\n".join(documents))
    path = binaries.path
    argv: list[str | Path] = [
        *entering(directory),
        path("kwokctl"), "--config", config, "--name", _NAME, "create", "cluster", "--runtime", "binary",
        "--kubeconfig", kubeconfig, "--wait", f"{_READY_S}s", "--timeout", f"{_READY_S}s",
        "--disable", "kube-scheduler",
        "--disable-qps-limits", "--kube-authorization", "--kube-admission",
        # Nodes here never fail silently, so leases are renewed every 10 minutes: at kwokctl's 50 s, those of
        # 5,000 nodes take up to 1.6 of 2 cores.
        "--heartbeat-factor", "60",
        "--etcd-binary", path("etcd"),
        "--kube-apiserver-binary", path("kube-apiserver"),
        "--kube-controller-manager-binary", path("kube-controller-manager"),
        "--kube-scheduler-binary", path("kube-scheduler"),
        "--kwok-controller-binary", path("kwok"),
    ]  # fmt: skip
    done = subprocess.run(
        argv,
        env=marked_environment(directory, {"KWOK_WORKDIR": str(directory / "kwok")}),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    (directory / "logs").mkdir(exist_ok=True)
    (directory / "logs" / "kwokctl.log").write_text(done.stdout + done.stderr)
    # kwokctl exits with 0 even if waiting for readiness failed.
    if done.returncode != 0 or "Failed to wait" in done.stderr:
        raise ClusterError(
            f"kwokctl create cluster failed:\n{_messages(done.stderr)}\n{_last_words(directory)}"
        )
    for log in _component_logs(directory):
        (directory / "logs" / log.name).symlink_to(log)
    kubeconfig.chmod(0o600)
    return kubeconfig


def _flags(front_proxy: Path, time_factor: float) -> dict[str, dict[str, str]]:
    """Flags beside kwokctl's own, by component."""
    api_server = {
        # The default, 10.0.0.0/24, overlaps the pods' addresses.
        "service-cluster-ip-range": str(addresses.SERVICES),
        # Nodes register Ready: no need to taint each until a controller takes the taint off, nor (below) to
        # annotate each whenever their number changes. Both are one write a node, 5,000 on a large lab.
        "disable-admission-plugins": "TaintNodesByCondition",
        **_aggregation(front_proxy),
    }
    # A lab's data end with it; syncing to disk would only add noise.
    etcd = {"unsafe-no-fsync": "true"}
    controller_manager = {"controllers": "*,-ttl-controller", **controller_flags(time_factor)}
    return {"kube-apiserver": api_server, "etcd": etcd, "kube-controller-manager": controller_manager}


def _flags_for_real_nodes(pki: Path) -> dict[str, dict[str, str]]:
    """Pods and kubelets reach the API server on the lab's bridge; KWOK plays only the nodes made for it."""
    return {
        "kube-apiserver": {
            # All addresses of the lab's network namespace, none of the machine's.
            "bind-address": "0.0.0.0",  # noqa: S104  # see above
            "advertise-address": str(addresses.CONTROL_PLANE),
            "allow-privileged": "true",
            "kubelet-preferred-address-types": "InternalIP",
            "kubelet-certificate-authority": str(pki / "ca.crt"),
            "kubelet-client-certificate": str(pki / "admin.crt"),
            "kubelet-client-key": str(pki / "admin.key"),
        },
        "kwok-controller": {
            "manage-all-nodes": "false",
            "manage-nodes-with-annotation-selector": "kwok.x-k8s.io/node=fake",
        },
    }


def _aggregation(certificates: Path) -> dict[str, str]:
    """Flags for aggregated APIs. The API server calls them with a certificate of its own CA, and passes the
    caller's name. kwokctl would use the administrator's certificate, and aggregated APIs would take every
    request for the administrator's."""
    ensure(certificates, [], [FRONT_PROXY], datetime.now(UTC))
    return {
        "requestheader-client-ca-file": str(certificates / "ca.crt"),
        "requestheader-allowed-names": FRONT_PROXY,
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "proxy-client-cert-file": str(certificates / f"{FRONT_PROXY}.crt"),
        "proxy-client-key-file": str(certificates / f"{FRONT_PROXY}.key"),
    }


def _last_words(directory: Path) -> str:
    """The last log lines of each component: the directory is deleted with the lab, so the error must have
    them."""
    tails = []
    for log in sorted(_component_logs(directory)):
        lines = log.read_text(errors="replace").splitlines()[-3:]
        tails += [f"{log.stem}: {line[:300]}" for line in lines]
    return "\n".join(tails)


def _component_logs(directory: Path) -> list[Path]:
    return list((directory / "kwok" / "clusters" / _NAME / "logs").glob("*.log"))


def _messages(log: str) -> str:
    """kwokctl's JSON log lines as text."""
    lines = []
    for line in log.splitlines()[-10:]:
        try:
            entry: dict[str, Any] = json.loads(line)
        except ValueError:
            lines.append(line)
        else:
            lines.append(" ".join(str(entry[k]) for k in ("level", "msg", "err") if k in entry))
    return "\n".join(lines)


def account_token(
    kube: Kube, namespace: str, service_account: str, audience: str = "", bound: dict[str, str] | None = None
) -> str:
    """A token of a service account. `audience`: whom it is for; `bound`: the object it is valid with."""
    spec: dict[str, Any] = {"expirationSeconds": _TOKEN_S}
    if audience:
        spec["audiences"] = [audience]
    if bound:
        spec["boundObjectRef"] = bound
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
    return str(kube.create(path, request)["status"]["token"])


def account_kubeconfig(kube: Kube, admin: Path, namespace: str, service_account: str, target: Path) -> Path:
    """Write a kubeconfig that acts as a service account, as its pod would in a real cluster."""
    token = account_token(kube, namespace, service_account)
    cluster = dict(yaml.safe_load(admin.read_text())["clusters"][0]["cluster"])
    if authority := cluster.pop("certificate-authority", None):
        cluster["certificate-authority-data"] = base64.b64encode(Path(authority).read_bytes()).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": service_account, "user": {"token": token}}],
        "contexts": [
            {"name": _NAME, "context": {"cluster": _NAME, "user": service_account, "namespace": namespace}}
        ],
        "current-context": _NAME,
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch(mode=0o600)
    target.write_text(yaml.safe_dump(content))
    return target
