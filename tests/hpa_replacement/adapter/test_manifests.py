"""What the adapter's manifests and README say against what the code says; no cluster needed."""

from __future__ import annotations

import re
from typing import Any

import yaml

from hpa_replacement.adapter.discovery import VERSIONS
from hpa_replacement.adapter.model import METRIC, POLICY_LABEL
from hpa_replacement.adapter.registration import Service, api_service
from tests.paths import ROOT

MANIFESTS = ROOT / "manifests" / "adapter"
README = ROOT / "hpa_replacement" / "adapter" / "README.md"


def documents(*files: str) -> list[dict[str, Any]]:
    return [d for file in files for d in yaml.safe_load_all((MANIFESTS / file).read_text())]


def test_every_resource_is_named_and_has_a_namespace() -> None:
    named = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())
    files = {file.name for file in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml"}
    generated = {name for generator in named["configMapGenerator"] for name in generator["files"]}
    own = {name for name in named["resources"] if not name.startswith("../")}
    assert own | generated == files
    for document in documents(*own):
        if not document["kind"].startswith("Cluster"):
            assert document["metadata"]["namespace"] in ("surgekit-system", "kube-system")


def test_applying_the_adapter_takes_no_api_from_another() -> None:
    assert "APIService" not in {
        d["kind"] for d in documents(*(f.name for f in MANIFESTS.glob("*.yaml"))) if d
    }


def test_the_api_services_are_what_registration_makes() -> None:
    for file, group in (("external", "external.metrics.k8s.io"), ("custom", "custom.metrics.k8s.io")):
        (shipped,) = documents(f"apiservices/{file}.yaml")
        made = api_service(group, Service(), b"")
        made["spec"].pop("caBundle")  # not known before there is a CA
        assert (shipped["metadata"]["name"], shipped["spec"]) == (made["metadata"]["name"], made["spec"])


def test_the_example_follows_the_metric_exactly() -> None:
    """Every default of the HPA that would add a judgement of its own is overridden."""
    (autoscaler,) = documents("examples/hpa.yaml")
    (metric,) = autoscaler["spec"]["metrics"]
    assert metric["external"]["metric"]["name"] == METRIC
    assert set(metric["external"]["metric"]["selector"]["matchLabels"]) == {POLICY_LABEL}
    assert metric["external"]["target"] == {"type": "AverageValue", "averageValue": "1"}
    for direction in ("scaleUp", "scaleDown"):
        behavior = autoscaler["spec"]["behavior"][direction]
        assert (behavior["tolerance"], behavior["stabilizationWindowSeconds"]) == ("0", 0)
        assert len(behavior["policies"]) == 1


def test_the_readme_names_every_metric_and_api() -> None:
    text = README.read_text()
    source = "".join(file.read_text() for file in README.parent.glob("*.py"))
    for metric in set(re.findall(r'"(surgekit_adapter_\w+)"', source)):
        assert f"`{metric}`" in text
    for group, version in VERSIONS.items():
        assert f"{group}/{version}" in text
