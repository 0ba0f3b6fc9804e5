"""All parts in one kustomization beside Knative: it can be taken apart, and leaves Knative as it was."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kwok.binaries import Binaries
from kwok.lab import Lab
from kwok.pods import wait_for_account
from tests.hpa_replacement.knative.builders import pod_autoscaler
from tests.manifests.installed_cluster import MANIFESTS
from tests.paths import ROOT

pytestmark = pytest.mark.lab
Json = dict[str, Any]
Rendered = dict[tuple[str, str, str], Json]  # by kind, namespace, name
OVERLAY = "overlays/knative"
KNATIVE, NAMESPACE = "knative-serving", "fns"
CRDS = ROOT / "tests" / "hpa_replacement" / "knative" / "crds"
PARTS = (
    "extender", "kneescale", "adapter", "combofunc", "load-balancer", "limit-allocator", "burst-plane",
    "expander", "karpenter",
)  # fmt: skip


@pytest.fixture(scope="module")
def knative(binaries: Binaries) -> Iterator[Lab]:
    """A cluster without nodes, with Knative's objects and none of its processes."""
    with Lab.temporary("overlay", instant_pods=True) as lab:
        for name in (KNATIVE, NAMESPACE):
            lab.kube.create("/api/v1/namespaces", {"metadata": {"name": name}})
            wait_for_account(lab.kube, name)
        for file in sorted(CRDS.glob("*.yaml")):
            lab.apply(file)
        lab.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
        for config in ("config-autoscaler", "config-observability"):
            body = {"metadata": {"name": config}, "data": {"_example": "as it came"}}
            lab.kube.create(f"/api/v1/namespaces/{KNATIVE}/configmaps", body)
        pa = pod_autoscaler({"max-scale": "20"})
        for field in ("uid", "resourceVersion", "generation"):
            del pa["metadata"][field]
        path = f"/apis/autoscaling.internal.knative.dev/v1alpha1/namespaces/{NAMESPACE}/podautoscalers"
        lab.kube.create(path, pa)
        yield lab


def knatives(lab: Lab) -> dict[str, Json]:
    """Knative's objects as they are stored, resourceVersion included: an unchanged one was not written."""
    paths = [
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/autoscaling.internal.knative.dev/v1alpha1/podautoscalers",
        "/apis/networking.internal.knative.dev/v1alpha1/serverlessservices",
        *(f"/api/v1/namespaces/{KNATIVE}/{kind}" for kind in ("configmaps", "services", "serviceaccounts")),
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{KNATIVE}/roles",
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{KNATIVE}/rolebindings",
    ]
    found = {f"{path}/{o['metadata']['name']}": o for path in paths for o in lab.kube.list_all(path)[0]}
    return {path: o for path, o in found.items() if not path.endswith("surgekit.dev")}


def rendered(lab: Lab, directory: Path) -> Rendered:
    documents = yaml.safe_load_all(lab.kubectl("kustomize", directory))
    return {(d["kind"], d["metadata"].get("namespace", ""), d["metadata"]["name"]): d for d in documents}


@pytest.fixture(scope="module")
def everything(knative: Lab) -> Rendered:
    return rendered(knative, MANIFESTS / OVERLAY)


def test_it_leaves_knative_as_it_was(knative: Lab, everything: Rendered) -> None:
    before = knatives(knative)
    assert len(before) >= 6
    knative.apply(MANIFESTS / OVERLAY)
    beside = knatives(knative)
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{KNATIVE}"
    ours = {f"{rbac}/{kind}/surgekit-kneescale" for kind in ("roles", "rolebindings")}
    assert beside.keys() - before.keys() == ours
    assert {path: beside[path] for path in before} == before
    for kind in ("deployments", "daemonsets"):
        made = knative.kube.list_all(f"/apis/apps/v1/{kind}")[0]
        assert {o["metadata"]["name"] for o in made} == {
            name for of, _, name in everything if f"{of.lower()}s" == kind
        }
    knative.kubectl("delete", "-k", MANIFESTS / OVERLAY, "--ignore-not-found", "--timeout=110s")
    assert knatives(knative) == before


def test_it_has_every_part_as_it_is_alone(knative: Lab, everything: Rendered) -> None:
    """But for the settings that tell two of them of Knative."""
    for part in PARTS:
        kustomization = yaml.safe_load((MANIFESTS / OVERLAY / part / "kustomization.yaml").read_text())
        for directory in kustomization["resources"]:
            alone = rendered(knative, (MANIFESTS / OVERLAY / part / directory).resolve())
            told = part in ("kneescale", "adapter")
            for key, document in alone.items():
                if told and key[0] in ("ConfigMap", "Deployment") and "surgekit-" + part in key[2]:
                    continue
                assert everything[key] == document
    settings = [d for (kind, _, name), d in everything.items() if kind == "ConfigMap" and "settings" in name]
    assert [yaml.safe_load(d["data"]["settings.yaml"]) for d in settings].count({"knative": True}) == 2


@pytest.mark.parametrize("part", PARTS)
def test_a_part_can_be_left_out(knative: Lab, everything: Rendered, part: str, tmp_path: Path) -> None:
    mine = shutil.copytree(MANIFESTS, tmp_path / "manifests") / OVERLAY
    file = mine / "kustomization.yaml"
    listed = yaml.safe_load(file.read_text())
    assert listed["resources"] == ["shared", *PARTS]
    listed["resources"].remove(part)
    file.write_text(yaml.safe_dump(listed))
    gone = everything.keys() - rendered(knative, mine).keys()
    assert gone == rendered(knative, mine / part).keys()
    assert {kind for kind, _, _ in gone} & {"Deployment", "DaemonSet"}
