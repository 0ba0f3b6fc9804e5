"""The controller as a process under its own account, with the CRDs; the test plays the rest of Knative."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hpa_replacement.settings import Settings
from kwok import prometheus
from kwok.binaries import Binaries
from kwok.lab import Lab
from kwok.parts import MANIFESTS, NAMESPACE, apply_manifests, install_kneescale, start_kneescale
from kwok.pods import wait_for_account
from surgekit.kube.client import ApiError
from tests.hpa_replacement.knative import queue_proxy
from tests.hpa_replacement.knative.builders import GROUP, condition, pod_autoscaler, sks_status

pytestmark = pytest.mark.lab
Json = dict[str, Any]
CRDS = Path(__file__).with_name("crds")
PAS = "/apis/autoscaling.internal.knative.dev/v1alpha1"
SKSS = "/apis/networking.internal.knative.dev/v1alpha1"
NAME = "shop-00001"


@pytest.fixture(scope="module")
def cluster(binaries: Binaries) -> Iterator[Lab]:
    """Knative comes after the controller, which is Ready without it."""
    with Lab.temporary("knative", instant_pods=True) as lab:
        lab.add_nodes(1)
        lab.start_scheduler()
        install_kneescale(lab)
        lab.kube.create("/api/v1/namespaces", {"metadata": {"name": "knative-serving"}})
        apply_manifests(lab, MANIFESTS / "kneescale" / "knative")
        prometheus_port = prometheus.start(lab, {}).port
        start_kneescale(
            lab,
            {
                "knative": True,
                "prometheus_url": f"http://127.0.0.1:{prometheus_port}",
                "scrape_interval_s": 1.0,
            },
        )
        for file in sorted(CRDS.glob("*.yaml")):
            lab.apply(file)
        lab.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
        yield lab


@pytest.fixture
def revision(cluster: Lab) -> Iterator[Revision]:
    namespace = f"fns-{secrets.token_hex(3)}"
    cluster.kube.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    wait_for_account(cluster.kube, namespace)
    yield Revision(cluster, namespace)
    cluster.kube.delete(f"/api/v1/namespaces/{namespace}")


class Revision:
    """What Knative's controllers would do for a revision, and what came of it."""

    def __init__(self, lab: Lab, namespace: str) -> None:
        self._lab, self._kube, self.namespace = lab, lab.kube, namespace
        paths = {"pa": f"{PAS}/namespaces/{namespace}/podautoscalers"}
        paths["sks"] = f"{SKSS}/namespaces/{namespace}/serverlessservices"
        paths["policy"] = f"/apis/surgekit.dev/v1alpha1/namespaces/{namespace}/kneepolicies"
        paths["deployment"] = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        self._paths = paths

    def create(self, annotations: dict[str, str], name: str = NAME, **rest: Any) -> None:
        self.create_deployment(name)
        self.create_pa(annotations, name, **rest)

    def create_deployment(self, name: str = NAME) -> None:
        labels = {"app": name}
        template = {
            "metadata": {"labels": labels},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "app", "image": "registry.example/app:1"}],
            },
        }
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        deployment = {"metadata": {"name": f"{name}-deployment"}, "spec": spec}
        self._kube.create(self._paths["deployment"], deployment)

    def create_pa(self, annotations: dict[str, str], name: str = NAME, **rest: Any) -> None:
        pa = pod_autoscaler(annotations, name=name, **rest)
        for field in ("uid", "resourceVersion", "generation", "namespace"):
            del pa["metadata"][field]
        self._kube.create(self._paths["pa"], pa)

    def get(self, kind: str, name: str = NAME) -> Json:
        """Empty when there is none."""
        try:
            return self._kube.get(f"{self._paths[kind]}/{name}")
        except ApiError as error:
            if error.code != 404:
                raise
            return {}

    def annotate(self, **annotations: str) -> None:
        named = {f"{GROUP}/{key.replace('_', '-')}": value for key, value in annotations.items()}
        self._kube.patch(f"{self._paths['pa']}/{NAME}", {"metadata": {"annotations": named}})

    def patch(self, kind: str, body: Json, subresource: str = "") -> None:
        self._kube.patch(f"{self._paths[kind]}/{NAME}{subresource}", body)

    def delete(self) -> None:
        self._kube.delete(f"{self._paths['pa']}/{NAME}")

    def make_sks(self, body: Json) -> None:
        self._kube.create(self._paths["sks"], body)

    def play_sks(self) -> None:
        self.patch("sks", {"status": sks_status(self.get("sks"))}, "/status")

    def until(self, found: Callable[[], object], what: str) -> None:
        # The collector of garbage learns of new CRDs every 30 s.
        self._lab.wait_for(lambda: bool(found()), what, timeout_s=90.0)

    def until_condition(self, kind: str, status: str) -> Json:
        self.until(lambda: condition(self.get("pa"), kind).get("status") == status, f"{kind}: {status}")
        return condition(self.get("pa"), kind)


def serve(revision: Revision, annotations: dict[str, str], replicas: int) -> None:
    """Create it, and play along until it is Ready."""
    revision.create(annotations)
    deployment = f"{NAME}-deployment"
    revision.until(
        lambda: revision.get("deployment", deployment).get("status", {}).get("readyReplicas") == replicas,
        f"{replicas} Ready replicas",
    )
    revision.until(lambda: revision.get("sks").get("spec", {}).get("mode") == "Serve", "mode Serve")
    revision.play_sks()
    revision.until_condition("Ready", "True")


def decided(revision: Revision, replicas: int) -> None:
    """Until the first decision, which may come after the revision is Ready, and what is told of it."""
    revision.until(lambda: condition(revision.get("policy"), "Deciding").get("reason") == "NoData", "NoData")
    told = {"desiredScale": replicas, "actualScale": replicas}
    revision.until(lambda: told.items() <= revision.get("pa")["status"].items(), f"{replicas} replicas")


def test_a_revision_of_our_class_becomes_ready(revision: Revision) -> None:
    serve(revision, {"min-scale": "3", "max-scale": "20"}, replicas=3)
    decided(revision, 3)
    pa, policy, sks = (revision.get(kind) for kind in ("pa", "policy", "sks"))
    for made in (policy, sks):
        (owner,) = made["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (pa["metadata"]["uid"], True)
    assert sks["spec"]["objectRef"] == policy["spec"]["scaleTargetRef"] == pa["spec"]["scaleTargetRef"]
    assert (policy["spec"]["minReplicas"], policy["spec"]["maxReplicas"]) == (3, 20)
    assert policy["spec"]["metrics"] == {"preset": "knative", "function": NAME}
    assert [entry["manager"] for entry in pa["metadata"]["managedFields"] if entry.get("subresource")] == [
        "surgekit-kneescale"
    ]
    status = pa["status"]
    assert (status["serviceName"], status["metricsServiceName"]) == (NAME, f"{NAME}-private")
    assert (status["desiredScale"], status["actualScale"]) == (3, 3)
    assert status["observedGeneration"] == pa["metadata"]["generation"]
    assert {c["type"]: c["status"] for c in status["conditions"]} == dict.fromkeys(
        ("Active", "Ready", "SKSReady", "ScaleTargetInitialized"), "True"
    )


def test_bounds_follow_the_annotations_and_the_policy_goes_with_its_owner(revision: Revision) -> None:
    serve(revision, {"max-scale": "20"}, replicas=1)
    active = condition(revision.get("pa"), "Active")
    assert active["reason"] == "NoScaleToZero"
    assert active["message"].endswith("not known: activator-service has no address")
    revision.annotate(max_scale="7", min_scale="2")
    bounds = {"minReplicas": 2, "maxReplicas": 7}
    revision.until(lambda: revision.get("policy")["spec"].items() >= bounds.items(), "the new bounds")
    revision.until(lambda: revision.get("pa")["status"]["actualScale"] == 2, "two replicas")
    assert "reason" not in condition(revision.get("pa"), "Active")
    revision.delete()
    for kind in ("policy", "sks"):
        revision.until(lambda kind=kind: not revision.get(kind), f"the {kind} is gone")  # type: ignore[misc]  # mypy cannot infer a lambda with defaults


def test_decisions_that_change_nothing_write_nothing(revision: Revision) -> None:
    serve(revision, {"min-scale": "1"}, replicas=1)
    decided(revision, 1)
    before = {kind: revision.get(kind)["metadata"]["resourceVersion"] for kind in ("pa", "sks")}
    revision.patch("policy", {"spec": {"samplingInterval": "1s"}})  # which is the user's to set
    seen: set[str] = set()

    def decisions() -> int:
        seen.add(revision.get("policy").get("status", {}).get("decidedAt"))
        return len(seen)

    revision.until(lambda: decisions() > 3, "several decisions")
    assert {kind: revision.get(kind)["metadata"]["resourceVersion"] for kind in before} == before
    assert revision.get("policy")["spec"]["samplingInterval"] == "1s"


def test_a_sample_is_what_clients_of_the_queue_proxy_see(cluster: Lab, revision: Revision) -> None:
    """Waiting and refusals included; whatever else is scraped."""
    serve(revision, {"min-scale": "1", "max-scale": "1"}, replicas=1)
    revision.patch("policy", {"spec": {"samplingInterval": "5s"}})
    with (
        queue_proxy.exporter(revision.namespace, NAME) as ours,
        queue_proxy.exporter(revision.namespace, "shop-00000") as before,
        queue_proxy.exporter("", "") as stranger,
    ):
        prometheus.set_targets(cluster, {"knative": [ours, before], "others": [stranger]})
        revision.until(lambda: "lastSample" in revision.get("policy").get("status", {}), "a sample")
        prometheus.set_targets(cluster, {})
    sample = revision.get("policy")["status"]["lastSample"]
    assert sample["throughputPerSecond"] > 0
    share = sample["errorsPerSecond"] / sample["throughputPerSecond"]
    assert share == pytest.approx(queue_proxy.REFUSED / queue_proxy.OK, rel=0.001)
    assert sample["latencySeconds"] == pytest.approx(queue_proxy.LATENCY_S, rel=0.001)


def test_knatives_hpa_class_gets_a_policy_for_our_metric_and_nothing_else(revision: Revision) -> None:
    annotations = {"metric": "knee-replicas", "target": "1", "max-scale": "9"}
    revision.create(annotations, klass="hpa.autoscaling.knative.dev")
    revision.until(lambda: revision.get("policy"), "the policy")
    spec = revision.get("policy")["spec"]
    assert (spec["via"], spec["mode"], spec["maxReplicas"]) == ("metrics", "enforce", 9)
    revision.annotate(target="2")  # the HPA would ask for half of the replicas
    revision.until(lambda: revision.get("policy")["spec"]["mode"] == "off", "mode off")
    assert not revision.get("sks")
    assert "status" not in revision.get("pa")


def test_a_bad_annotation_is_said_until_it_is_mended(revision: Revision) -> None:
    revision.create({"max-scale": "many"})
    said = revision.until_condition("Active", "False")
    message = f"{GROUP}/max-scale: must be a whole number from 0 to 100000, is 'many'"
    assert (said["reason"], said["message"]) == ("Invalid", message)
    assert condition(revision.get("pa"), "Ready")["message"] == message
    assert not revision.get("policy")
    assert not revision.get("sks")
    revision.annotate(max_scale="5")
    revision.until(lambda: revision.get("policy") and revision.get("sks"), "policy and service")
    revision.until_condition("Active", "True")


def test_a_target_that_comes_later(revision: Revision) -> None:
    revision.create_pa({"max-scale": "5"})
    revision.until(lambda: condition(revision.get("pa"), "Active"), "a condition")
    active = condition(revision.get("pa"), "Active")
    assert (active["status"], active["reason"]) == ("Unknown", "TargetNotScalable")
    assert "actualScale" not in revision.get("pa")["status"]
    revision.until(lambda: revision.get("sks"), "the service")
    assert revision.get("sks")["spec"]["mode"] == "Proxy"
    revision.create_deployment()
    revision.until_condition("Active", "True")
    assert revision.get("pa")["status"]["actualScale"] == 1


def test_another_class_is_left_alone(revision: Revision) -> None:
    revision.create({"min-scale": "5"}, name="other-00001", klass="kpa.autoscaling.knative.dev")
    serve(revision, {}, replicas=1)  # by then the other one was passed over more than once
    assert "status" not in revision.get("pa", "other-00001")
    assert not revision.get("policy", "other-00001")
    assert not revision.get("sks", "other-00001")
    assert revision.get("deployment", "other-00001-deployment")["spec"]["replicas"] == 1


def test_another_s_service_is_not_taken_over(revision: Revision) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "theirs"}
    metadata = {"name": NAME}
    spec = {"mode": "Serve", "objectRef": reference, "protocolType": "h2c"}
    revision.make_sks(
        {"apiVersion": SKSS[6:], "kind": "ServerlessService", "metadata": metadata, "spec": spec}
    )
    revision.create({})
    assert revision.until_condition("Active", "False")["reason"] == "NotOwned"
    assert revision.get("sks")["spec"] == spec
    assert not revision.get("policy")


@pytest.mark.parametrize(
    ("verb", "group", "resource", "subresource", "allowed"),
    [
        ("patch", "autoscaling.internal.knative.dev", "podautoscalers", "status", True),
        ("patch", "autoscaling.internal.knative.dev", "podautoscalers", "", False),
        ("create", "autoscaling.internal.knative.dev", "podautoscalers", "", False),
        ("delete", "networking.internal.knative.dev", "serverlessservices", "", False),
        ("patch", "networking.internal.knative.dev", "serverlessservices", "status", False),
        ("delete", "surgekit.dev", "kneepolicies", "", False),
        ("list", "serving.knative.dev", "revisions", "", False),
        ("list", "discovery.k8s.io", "endpointslices", "", False),  # elsewhere than in knative-serving
        ("list", "", "secrets", "", False),
    ],
)
def test_its_account_may_do_its_work_and_nothing_else(
    cluster: Lab, verb: str, group: str, resource: str, subresource: str, allowed: bool
) -> None:
    asked = {
        "verb": verb, "group": group, "resource": resource, "subresource": subresource,
        "namespace": "default",
    }  # fmt: skip
    review = cluster.kube.create(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{NAMESPACE}:surgekit-kneescale",
                "resourceAttributes": asked,
            },
        },
    )
    assert review["status"]["allowed"] is allowed


def test_it_is_off_by_default() -> None:
    assert not Settings().knative
