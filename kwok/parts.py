"""Run surgekit's own parts as processes of a lab, each under its own service account, with TLS as shipped.

Objects come from the manifests. Only programs that would run in pods run as processes: KWOK's pods run
nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kwok.cgroups import cgroup_name
from kwok.cluster import account_token
from kwok.lab import Lab
from kwok.network import addresses
from kwok.pods import pod, wait_for_account
from kwok.ports import answers_ready, get_text
from kwok.processes import Process
from kwok.real_node.machine import Machine
from surgekit.shipped_manifests import MANIFESTS
from surgekit.tls import ensure, mutual_tls

__all__ = [
    "HAPROXY",
    "LIMITS_EXAMPLE",
    "MANIFESTS",
    "ExtenderPart",
    "apply_manifests",
    "find_extender",
    "install",
    "install_burst_plane",
    "install_combofunc",
    "install_kneescale",
    "install_limit_allocator",
    "install_load_balancer",
    "start_burst_controller",
    "start_burst_placement",
    "start_combofunc",
    "start_extender",
    "start_haproxy",
    "start_kneescale",
    "start_limit_agent",
    "start_limit_allocator",
    "start_limits",
    "start_load_balancer",
    "start_probe",
    "view_account",
]

NAMESPACE, AGENTS = "surgekit-system", "surgekit-agents"
PLACEMENT = "surgekit.dev/placement"  # label: the mode a pod asks for
SCORED = "surgekit.dev/scored"  # resource: asked for by pods that opted in, an amount of zero
HAPROXY = "balancer-haproxy"
LIMITS_EXAMPLE = MANIFESTS / "limit-allocator" / "examples" / "lab.yaml"
# The extender's weight in the scheduler's configuration; docs/decisions/extender.md says why 30.
WEIGHT = 30
SCHEDULER_CLIENT, LAB_CLIENT, LIMIT_AGENT = "kube-scheduler", "surgekit-lab", "surgekit-limit-agent"
AGENTS_TALK_TO = (
    "surgekit-limit-allocator"  # audience, as manifests/limit-allocator/agent/daemonset.yaml has it
)
_IN_PODS = {"Deployment", "DaemonSet", "Job", "CronJob", "PodDisruptionBudget", "Service", "NetworkPolicy"}


def install(lab: Lab) -> None:
    """Apply CRDs, RBAC and the opt-in policy from the manifests, and wait until the policy is in force."""
    apply_manifests(lab, MANIFESTS / "base", MANIFESTS / "base" / "opt-in")
    wait_for_account(lab.kube, "default")
    asking = pod("asking", "1m", "1Mi", labels={PLACEMENT: "enforce"})

    def in_force() -> bool:
        made = lab.kube.create("/api/v1/namespaces/default/pods", asking, dryRun="All")
        return SCORED in made["spec"]["containers"][0]["resources"]["requests"]

    lab.wait_for(in_force, "the opt-in policy to be in force")


def apply_manifests(lab: Lab, *directories: Path) -> None:
    """Apply the kustomize output of `directories`, without objects that need running pods."""
    rendered = [lab.kubectl("kustomize", directory) for directory in directories]
    documents = [d for text in rendered for d in yaml.safe_load_all(text)]
    kept = [d for d in documents if d["kind"] not in _IN_PODS]
    kept.sort(key=lambda d: d["kind"] not in ("Namespace", "CustomResourceDefinition"))
    file = lab.directory / "installed.yaml"
    file.write_text(yaml.safe_dump_all(kept))
    lab.apply(file)


@dataclass(frozen=True)
class ExtenderPart:
    """A running extender: where it listens, and how to speak to it."""

    name: str
    port: int
    health_port: int
    certificates: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def scheduler_entry(self, weight: int, only_opted_in: bool = True) -> dict[str, Any]:
        """The `extenders` entry of a KubeSchedulerConfiguration, as manifests/control-plane has it."""
        entry = {
            "urlPrefix": self.url,
            "prioritizeVerb": "prioritize",
            "weight": weight,
            "enableHTTPS": True,
            "tlsConfig": {
                "caFile": str(self.certificates / "ca.crt"),
                "certFile": str(self.certificates / f"{SCHEDULER_CLIENT}.crt"),
                "keyFile": str(self.certificates / f"{SCHEDULER_CLIENT}.key"),
            },
            "nodeCacheCapable": True,
            "ignorable": True,
            "httpTimeout": "1s",
        }
        if only_opted_in:
            entry["managedResources"] = [{"name": SCORED, "ignoredByScheduler": True}]
        return entry

    def request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        return mutual_tls.request(self.url + path, self.certificates, LAB_CLIENT, method, body)

    def metrics(self) -> str:
        """The text of /metrics."""
        return get_text(self.health_port, "/metrics")

    def ready(self) -> bool:
        return answers_ready(self.health_port)


def start_extender(
    lab: Lab, name: str = "extender", settings: Mapping[str, Any] | None = None
) -> ExtenderPart:
    certificates = lab.directory / "tls" / "extender"
    hosts = ["127.0.0.1", "localhost", f"surgekit-extender.{NAMESPACE}.svc"]
    ensure(certificates, hosts, [SCHEDULER_CLIENT, LAB_CLIENT], datetime.now(UTC))
    file = lab.directory / f"{name}.settings.yaml"
    clients = {"client_names": [SCHEDULER_CLIENT, LAB_CLIENT]}
    file.write_text(yaml.safe_dump(clients | dict(settings or {})))
    part = ExtenderPart(name, lab.free_port(), lab.free_port(), certificates)
    facts = asdict(part) | {"certificates": str(certificates)}
    _record(lab, name).write_text(json.dumps(facts))
    lab.start(
        name,
        [
            sys.executable, "-m", "surgekit", "serve", "extender",
            "--settings", file,
            "--kubeconfig", lab.account_kubeconfig(NAMESPACE, "surgekit-extender"),
            "--bind", f"127.0.0.1:{part.port}",
            "--health-bind", f"127.0.0.1:{part.health_port}",
            "--tls-directory", certificates,
        ],
        ready=part.ready,
        port=part.port,
    )  # fmt: skip
    return part


def find_extender(lab: Lab, name: str = "extender") -> ExtenderPart | None:
    """The extender of this lab, whichever process started it; None if there is none."""
    try:
        facts = json.loads(_record(lab, name).read_text())
    except FileNotFoundError:
        return None
    return ExtenderPart(**facts | {"certificates": Path(facts["certificates"])})


def _record(lab: Lab, name: str) -> Path:
    return lab.directory / f"{name}.part.json"


def start_probe(lab: Lab, name: str = "probe", settings: Mapping[str, Any] | None = None) -> None:
    _start_controller(lab, _Part("probe"), name, settings)


def install_kneescale(lab: Lab) -> None:
    apply_manifests(lab, MANIFESTS / "kneescale")


def start_kneescale(lab: Lab, settings: Mapping[str, Any], name: str = "kneescale", module: str = "") -> None:
    """`module`: runs instead of `surgekit serve kneescale`, with the same options."""
    _start_controller(lab, _Part("kneescale", module=module), name, settings)


def install_combofunc(lab: Lab) -> None:
    """Call `install` too, which has the CRD NodeSpeed."""
    apply_manifests(lab, MANIFESTS / "combofunc")


def start_combofunc(lab: Lab, settings: Mapping[str, Any] | None = None, name: str = "combofunc") -> None:
    _start_controller(lab, _Part("combofunc"), name, settings)


def install_limit_allocator(lab: Lab) -> None:
    apply_manifests(lab, MANIFESTS / "limit-allocator")


def start_limit_allocator(
    lab: Lab, settings: Mapping[str, Any] | None = None, name: str = "limit-allocator"
) -> Process:
    """Start Escra's controller. Agents reach it at `settings["bind"]`; see `start_limit_agent`."""
    tls = {"tls_directory": str(_limit_certificates(lab) / "controller")}
    return _start_controller(lab, _Part("limit-allocator"), name, tls | dict(settings or {}))


def start_limit_agent(
    lab: Lab, machine: Machine, controller: str, settings: Mapping[str, Any] | None = None
) -> Process:
    """Start Escra's agent on a real node. It talks to the controller only, with a token of its node."""
    port, file = lab.free_port(), lab.directory / f"{machine.name}-limit-agent.settings.yaml"
    known = {
        "health_bind": f"{machine.address}:{port}",
        "node": machine.name,
        "controller": controller,
        "server_name": "localhost",
        "tls_directory": str(_limit_certificates(lab) / "agent"),
        "token_file": str(_agent_token(lab, machine.name)),
        "cgroup_root": f"{cgroup_name(lab.directory)}/{machine.name}",
    }
    file.write_text(yaml.safe_dump(known | dict(settings or {})))
    serve: list[str | Path] = [sys.executable, "-m", "surgekit", "serve", "limit-agent", "--settings", file]
    return machine.start_process("limit-agent", serve)


def start_limits(lab: Lab, real_nodes: Iterable[int], settings: Mapping[str, Any] | None = None) -> None:
    """Start Escra: its controller, and an agent on each of these real nodes."""
    install_limit_allocator(lab)
    port = lab.free_port()
    start_limit_allocator(lab, {"bind": f"0.0.0.0:{port}"} | dict(settings or {}))
    for index in real_nodes:
        start_limit_agent(lab, Machine(lab, index), f"{addresses.CONTROL_PLANE}:{port}")


def _agent_token(lab: Lab, node: str) -> Path:
    """As the kubelet gets it for the agent's pod; here there is none, so the token is bound to the node."""
    uid = lab.kube.get(f"/api/v1/nodes/{node}")["metadata"]["uid"]
    bound = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
    file = lab.directory / f"{node}-limit-agent.token"
    file.touch(mode=0o600)
    file.write_text(account_token(lab.kube, AGENTS, LIMIT_AGENT, AGENTS_TALK_TO, bound))
    return file


def _limit_certificates(lab: Lab) -> Path:
    """Directories `controller` and `agent`, as the Secrets of manifests/limit-allocator are mounted."""
    made = lab.directory / "tls" / "limits"
    ensure(made, ["localhost", "127.0.0.1"], [LIMIT_AGENT], datetime.now(UTC))
    for name, pair in (("controller", "tls"), ("agent", LIMIT_AGENT)):
        directory = made / name
        directory.mkdir(exist_ok=True)
        (directory / "ca.crt").write_bytes((made / "ca.crt").read_bytes())
        for suffix in (".crt", ".key"):
            (directory / f"tls{suffix}").write_bytes((made / f"{pair}{suffix}").read_bytes())
    return made


def install_load_balancer(lab: Lab) -> None:
    apply_manifests(lab, MANIFESTS / "load-balancer")


def start_load_balancer(
    lab: Lab,
    haproxy: Path,
    settings: Mapping[str, Any],
    edit_configuration: Callable[[str], str] = str,
    name: str = "balancer",
) -> Process:
    """Start HAProxy and the balancer that drives it; return the balancer's process.

    `settings["directory"]` is where both keep their files. `edit_configuration` changes the HAProxy
    configuration that the balancer wrote, before HAProxy reads it."""
    file, directory = lab.directory / f"{name}.settings.yaml", Path(settings["directory"])
    file.write_text(yaml.safe_dump(dict(settings)))
    serve: list[str | Path] = [sys.executable, "-m", "surgekit", "serve", "load-balancer", "--settings", file]
    subprocess.run([*serve, "--write-configuration"], check=True, timeout=60)
    written = directory / "haproxy.cfg"
    written.write_text(edit_configuration(written.read_text()))
    start_haproxy(lab, haproxy, directory)
    return _start_controller(lab, _Part("load-balancer", "surgekit-balancer"), name, settings)


def start_haproxy(lab: Lab, haproxy: Path, directory: Path) -> None:
    control = directory / "control.sock"
    control.unlink(missing_ok=True)
    lab.start(HAPROXY, [haproxy, "-db", "-f", directory / "haproxy.cfg"], ready=control.exists)


def install_burst_plane(lab: Lab) -> None:
    apply_manifests(lab, MANIFESTS / "burst-plane")


def start_burst_controller(lab: Lab, settings: Mapping[str, Any], name: str = "burst-controller") -> Process:
    return _start_controller(lab, _Part("burst-controller"), name, settings)


def start_burst_placement(lab: Lab, settings: Mapping[str, Any], name: str = "burst-placement") -> Process:
    """Start the placement beside the HAProxy whose directory is in the settings. It needs no API server."""
    port, file = lab.free_port(), lab.directory / f"{name}.settings.yaml"
    file.write_text(yaml.safe_dump({"health_bind": f"127.0.0.1:{port}"} | dict(settings)))
    serve: list[str | Path] = [
        sys.executable,
        "-m",
        "surgekit",
        "serve",
        "burst-placement",
        "--settings",
        file,
    ]
    return lab.start(name, serve, ready=lambda: answers_ready(port), port=port)


def view_account(lab: Lab) -> Path:
    """A kubeconfig for `surgekit ui` and `surgekit top`, which may only look."""
    lab.apply(MANIFESTS / "view")
    return lab.account_kubeconfig(NAMESPACE, "surgekit-view")


class _Part(NamedTuple):
    """How to run a controller: what `surgekit serve` calls it, and where it differs from the rule."""

    name: str
    account: str = ""  # its ServiceAccount; surgekit-NAME unless set
    module: str = ""  # runs instead of `surgekit serve NAME`


def _start_controller(lab: Lab, part: _Part, name: str, settings: Mapping[str, Any] | None) -> Process:
    port = lab.free_port()
    file = lab.directory / f"{name}.settings.yaml"
    file.write_text(yaml.safe_dump({"health_bind": f"127.0.0.1:{port}"} | dict(settings or {})))
    return lab.start(
        name,
        [
            sys.executable, "-m", *([part.module] if part.module else ["surgekit", "serve", part.name]),
            "--settings", file,
            "--kubeconfig", lab.account_kubeconfig(NAMESPACE, part.account or f"surgekit-{part.name}"),
        ],
        ready=lambda: answers_ready(port),
        port=port,
    )  # fmt: skip
