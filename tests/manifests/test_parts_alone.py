"""Each part is one kustomization that an empty cluster takes; together they do not disturb each other."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kwok.binaries import Binaries
from kwok.lab import Lab
from surgekit.kube.client import ApiError
from tests.manifests.installed_cluster import MANIFESTS, NAMESPACE, until

pytestmark = pytest.mark.lab

PARTS = (
    "overlays/self-signed",
    "overlays/second-scheduler",
    "expander",
    "karpenter",
    "kneescale",
    "combofunc",
    "adapter",
    "load-balancer",
    "limit-allocator",
    "burst-plane",
    "burst-plane/balancer",
)


@pytest.fixture(scope="module")
def cluster(binaries: Binaries) -> Iterator[Lab]:
    """Without nodes: what is applied is asked about, and whether pods are let in; not whether they run."""
    with Lab.temporary("parts", instant_pods=True) as lab:
        yield lab


@pytest.mark.parametrize("part", PARTS)
def test_a_part_alone_is_taken_by_an_empty_cluster_and_goes_again(cluster: Lab, part: str) -> None:
    assert not _there(cluster, f"/api/v1/namespaces/{NAMESPACE}"), "the part before has gone"
    cluster.apply(MANIFESTS / part)
    for deployment in _rendered(cluster, part, "Deployment"):
        until(lambda d=deployment: _pods_let_in(cluster, d), f"pods of {part}", 90)  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
    cluster.kubectl("delete", "-k", MANIFESTS / part, "--ignore-not-found", "--timeout=110s")


def test_parts_live_side_by_side_and_one_can_go(cluster: Lab) -> None:
    """As the README says: applied in any order, again and again; one is removed, the others stay."""
    for part in (*PARTS, *reversed(PARTS)):
        cluster.apply(MANIFESTS / part)
    cluster.kubectl(
        "delete",
        "-k",
        MANIFESTS / "expander",
        "-l",
        "!surgekit.dev/shared",
        "--ignore-not-found",
        "--timeout=110s",
    )
    left = {d["metadata"]["name"] for d in cluster.kube.list_all("/apis/apps/v1/deployments")[0]}
    wanted = {d["metadata"]["name"] for part in PARTS for d in _rendered(cluster, part, "Deployment")}
    assert wanted - left == {"surgekit-expander"}
    for path in (
        f"/api/v1/namespaces/{NAMESPACE}",
        f"/apis/batch/v1/namespaces/{NAMESPACE}/cronjobs/surgekit-certificates",
        "/apis/scheduling.k8s.io/v1/priorityclasses/surgekit",
    ):
        assert _there(cluster, path), path


def test_one_place_names_the_image_of_every_part(cluster: Lab, tmp_path: Path) -> None:
    mine = shutil.copytree(MANIFESTS, tmp_path / "manifests")
    component = mine / "image" / "kustomization.yaml"
    named = re.sub(r"newName: \S+", "newName: registry.example/mine", component.read_text())
    component.write_text(named)
    for part in PARTS:
        ours = [i for i in _images(cluster, part, MANIFESTS) if i.startswith("surgekit")]
        assert ours == ["surgekit:0.1.0"] * len(ours)
        assert _images(cluster, part, mine) == [
            "registry.example/mine:0.1.0" if i.startswith("surgekit") else i
            for i in _images(cluster, part, MANIFESTS)
        ]


def test_no_pod_asks_for_a_priority_that_kube_system_alone_may_have(cluster: Lab) -> None:
    """GKE refuses system-cluster-critical and system-node-critical elsewhere."""
    for part in PARTS:
        for deployment in _rendered(cluster, part, "Deployment"):
            assert deployment["spec"]["template"]["spec"]["priorityClassName"] == "surgekit"


@pytest.mark.parametrize(
    "part", ["overlays/self-signed", "expander", "adapter", "limit-allocator", "burst-plane"]
)
def test_cert_manager_takes_the_place_of_our_keeper(cluster: Lab, part: str, tmp_path: Path) -> None:
    """The component in a kustomization of one's own: the keeper is gone, the Certificates are there."""
    mine = shutil.copytree(MANIFESTS, tmp_path / "manifests")
    own = {"resources": [f"../manifests/{part}"], "components": ["../manifests/cert-manager"]}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kustomization.yaml").write_text(yaml.safe_dump(own))
    before = _documents(cluster.kubectl("kustomize", mine / part))
    after = _documents(cluster.kubectl("kustomize", tmp_path / "mine"))
    keeper = {k for k in before if "certificates" in k[1]}
    assert {kind for kind, _ in keeper} >= {"Job", "CronJob", "ServiceAccount", "Role"}
    assert before.keys() - after.keys() == keeper
    assert {kind for kind, _ in after.keys() - before.keys()} == {"Certificate", "Issuer"}
    mounted = set(re.findall(r"'secretName': '([^']+)'", str(before)))
    issued = {o["spec"]["secretName"] for (kind, _), o in after.items() if kind == "Certificate"}
    assert mounted <= issued


def _documents(text: str) -> dict[tuple[str, str], Any]:
    return {(d["kind"], d["metadata"]["name"]): d for d in yaml.safe_load_all(text)}


def _rendered(lab: Lab, part: str, kind: str) -> list[dict[str, Any]]:
    documents = _documents(lab.kubectl("kustomize", MANIFESTS / part))
    return [d for (of_kind, _), d in documents.items() if of_kind == kind]


def _images(lab: Lab, part: str, manifests: Path) -> list[str]:
    return re.findall(r"^ +image: (\S+)$", lab.kubectl("kustomize", manifests / part), flags=re.MULTILINE)


def _pods_let_in(lab: Lab, deployment: dict[str, Any]) -> bool:
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{deployment['metadata']['name']}"
    return bool(lab.kube.get(path).get("status", {}).get("replicas") == deployment["spec"]["replicas"])


def _there(lab: Lab, path: str) -> bool:
    try:
        lab.kube.get(path)
    except ApiError as error:
        if error.code != 404:
            raise
        return False
    return True
