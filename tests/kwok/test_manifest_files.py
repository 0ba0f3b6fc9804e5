"""What the manifests say against what the code says; no cluster needed."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import typer
import yaml

import burst_plane.controller
import combofunc.controller
import combofunc.settings
import hpa_replacement.adapter.settings
import hpa_replacement.controller
import hpa_replacement.settings
import node_speed_probe.controller
import node_speed_probe.settings
from surgekit.cli import app
from tests.paths import ROOT

MANIFESTS = ROOT / "manifests"


@pytest.mark.parametrize(
    "file",
    [
        "base/extender/deployment.yaml",
        "base/probe/deployment.yaml",
        "base/certificates/job.yaml",
        "base/certificates/cronjob.yaml",
        "kneescale/deployment.yaml",
        "combofunc/deployment.yaml",
        "adapter/deployment.yaml",
    ],
)
def test_the_command_line_takes_the_arguments_of_the_pods(file: str) -> None:
    spec = yaml.safe_load((MANIFESTS / file).read_text())["spec"]
    spec = spec.get("jobTemplate", {"spec": spec})["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    arguments: list[str] = container["args"]
    command: Any = typer.main.get_command(app)
    context = command.make_context("surgekit", list(arguments))
    while hasattr(command, "resolve_command"):  # a group of commands
        name, command, arguments = command.resolve_command(context, arguments)
        context = command.make_context(name, list(arguments), parent=context)
    assert not context.args, f"left over: {context.args}"


@pytest.mark.parametrize(
    ("part", "lease"),
    [
        ("probe", node_speed_probe.controller.LEASE_NAME),
        ("kneescale", hpa_replacement.controller.LEASE_NAME),
        ("combofunc", combofunc.controller.LEASE_NAME),
        ("burst-controller", burst_plane.controller.LEASE_NAME),
    ],
)
def test_the_role_of_a_controller_names_its_lease(part: str, lease: str) -> None:
    documents = yaml.safe_load_all((MANIFESTS / PARTS[part][0] / "rbac.yaml").read_text())
    named = [r["resourceNames"] for d in documents for r in d.get("rules", []) if "resourceNames" in r]
    assert named == [[lease]]


def test_the_three_lists_of_kept_secrets_agree() -> None:
    """RBAC, the admission policy and the command must name the same Secrets."""
    directory = MANIFESTS / "base" / "certificates"
    command = (ROOT / "surgekit" / "cli" / "certificates.py").read_text()
    names = r"surgekit-(?:ca\b|[a-z-]+-tls\b)"
    agents = (MANIFESTS / "limit-allocator" / "agent", MANIFESTS / "burst-plane")
    texts = [(of / "certificate.yaml").read_text() for of in agents]
    rights = "".join([(directory / "rbac.yaml").read_text(), *texts])
    assert (
        set(re.findall(names, rights))
        == set(re.findall(names, (directory / "admissionpolicy.yaml").read_text()))
        == set(re.findall(names, command))
    )


# Part -> where its manifests are, and its code.
PARTS = {
    "extender": ("base/extender", "scheduler_extender"),
    "probe": ("base/probe", "node_speed_probe"),
    "expander": ("expander", "cluster_autoscaler_hook/expander"),
    "node-planner": ("karpenter", "cluster_autoscaler_hook/karpenter"),
    "kneescale": ("kneescale", "hpa_replacement"),
    "combofunc": ("combofunc", "combofunc"),
    "adapter": ("adapter", "hpa_replacement/adapter"),
    "limit-allocator": ("limit-allocator", "limit_allocator"),
    "burst-controller": ("burst-plane", "burst_plane"),
}
MONITORING = MANIFESTS / "overlays" / "monitoring"


def _prefix(part: str) -> str:
    return f"surgekit_{part.replace('-', '_')}_"


def _asked() -> dict[str, set[str]]:
    """Part -> the metrics that the dashboard and the alerts ask for, less what a suffix adds."""
    dashboard: dict[str, Any] = json.loads((MONITORING / "surgekit.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    rules = yaml.safe_load((MONITORING / "rules.yaml").read_text())
    expressions += [rule["expr"] for group in rules["spec"]["groups"] for rule in group["rules"]]
    asked: dict[str, set[str]] = {}
    for metric in re.findall(r"surgekit_\w+", " ".join(expressions)):
        name = re.sub(r"_(bucket|total|count|sum)$", "", metric)
        part = next(part for part in PARTS if name.startswith(_prefix(part)))
        asked.setdefault(part, set()).add(name.removeprefix(_prefix(part)))
    return asked


@pytest.mark.parametrize("part", sorted(PARTS))
def test_dashboard_and_alerts_ask_for_metrics_that_exist(part: str) -> None:
    asked = _asked()
    assert set(asked) == set(PARTS)
    assert len(asked[part]) > 3
    sources = "".join(file.read_text() for file in (ROOT / PARTS[part][1]).glob("*.py"))
    sources += (ROOT / "surgekit" / "process" / "controller.py").read_text()
    for name in asked[part]:
        # The probe and the shell put the prefix in front of their metrics' names by code.
        found = re.search(rf'"({_prefix(part)}|{{prefix}}_)?{name}(_total)?"', sources)
        assert found, f"{_prefix(part)}{name} is not among the metrics of {PARTS[part][1]}"


@pytest.mark.parametrize("part", sorted(PARTS))
def test_every_part_is_scraped_at_a_port_its_service_has(part: str) -> None:
    monitors = {
        monitor["metadata"]["name"]: monitor["spec"]
        for monitor in yaml.safe_load_all((MONITORING / "servicemonitors.yaml").read_text())
        if monitor["kind"] == "ServiceMonitor"
    }
    assert set(monitors) == {f"surgekit-{known}" for known in PARTS}
    service = yaml.safe_load((MANIFESTS / PARTS[part][0] / "service.yaml").read_text())
    spec = monitors[f"surgekit-{part}"]
    assert spec["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = spec["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}


def documents(kind: str) -> list[dict[str, Any]]:
    """Of the parts; what examples deploy is users' own."""
    files = (file for file in MANIFESTS.rglob("*.yaml") if file.parent.name != "examples")
    texts = (file.read_text() for file in files)
    found = (d for text in texts if f"kind: {kind}\n" in text for d in yaml.safe_load_all(text))
    return [d for d in found if d and d["kind"] == kind]


def test_kubelet_asks_on_the_port_for_health_which_strangers_cannot_reach() -> None:
    """Every part has its own policy; its port for health is open to labelled namespaces alone."""
    policies = {p["metadata"]["name"]: p["spec"] for p in documents("NetworkPolicy")}
    for deployment in documents("Deployment"):
        name, containers = (
            deployment["metadata"]["name"],
            deployment["spec"]["template"]["spec"]["containers"],
        )
        policy = policies[name]
        assert policy["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": name}
        (probed,) = {
            container[probe]["httpGet"]["port"]
            for container in containers
            for probe in ("startupProbe", "livenessProbe", "readinessProbe")
            if probe in container
        }
        opened = {port["name"] for container in containers for port in container["ports"]}
        assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == opened
        (rule,) = [r for r in policy["ingress"] if probed in [p["port"] for p in r["ports"]]]
        assert rule["ports"] == [{"port": probed}]
        assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"surgekit.dev/metrics": "enabled"}}}]


def test_prometheus_scrapes_the_port_for_health() -> None:
    for monitor in documents("ServiceMonitor"):
        assert [endpoint["port"] for endpoint in monitor["spec"]["endpoints"]] == ["http"]


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    panels = json.loads((MONITORING / "surgekit.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    covered = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in panels
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(set(covered)) == len(covered)


def test_both_scheduler_configurations_name_the_same_extender() -> None:
    """They differ in the address, the paths, and in whom they call for; never in how."""
    entries = []
    for file in ("control-plane", "overlays/second-scheduler"):
        (entry,) = yaml.safe_load((MANIFESTS / file / "kube-scheduler-config.yaml").read_text())["extenders"]
        for key in ("urlPrefix", "tlsConfig", "managedResources"):
            entry.pop(key, None)
        entries.append(entry)
    assert entries[0] == entries[1]
    assert entries[0]["nodeCacheCapable"]
    assert entries[0]["ignorable"]
