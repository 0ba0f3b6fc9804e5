"""BurstFunctions on a real API server: what is refused, and what the dry-run create honours.

An emergency instance is no pod and sees no admission, so what would refuse the function's pod must make it
ineligible. Each thing that can refuse it is tried here, under the controller's own account.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from burst_plane.burst_function import BURST_FUNCTIONS, read
from burst_plane.conditions import Readiness, conditions
from burst_plane.egress import read_policy
from burst_plane.functions import Resolution
from burst_plane.knative.route import Route
from burst_plane.resolver import ROLE, Resolver
from burst_plane.status import Facts, Regular, history_before, status_of
from burst_plane.traffic import Totals, View
from kwok.lab import Lab
from kwok.pods import wait_for_account
from surgekit.kube.client import ApiError, Kube
from surgekit.kube.conditions import status_before
from surgekit.kube.status import patch_status
from surgekit.process.modes import Mode
from tests.burst_plane import objects
from tests.manifests.installed_cluster import NAMESPACE, until

pytestmark = pytest.mark.lab

Json = dict[str, Any]
ACCOUNT = "surgekit-burst-controller"
KNATIVE = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "resize"}
ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def stripped(obj: Json, namespace: str) -> Json:
    """Without what the API server writes."""
    metadata = {k: obj["metadata"][k] for k in ("name", "labels", "annotations") if k in obj["metadata"]}
    kept = {key: value for key, value in obj.items() if key != "status"}
    return kept | {"metadata": metadata | {"namespace": namespace}}


class Tenant:
    """A namespace with the Deployment of one function."""

    def __init__(self, lab: Lab, name: str, *, bound: bool = True, labels: Json | None = None) -> None:
        self.lab, self.name = lab, name
        lab.kube.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels or {}}})
        wait_for_account(lab.kube, name)
        self.kube = Kube.connect(lab.account_kubeconfig(NAMESPACE, ACCOUNT))
        if bound:
            self.bind()

    def bind(self) -> None:
        binding = {
            "metadata": {"name": "burst"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        }
        self.lab.kube.create(
            f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.name}/rolebindings", binding
        )

    def deploy(self, **container: Any) -> None:
        body = stripped(objects.deployment(replicas=0, **container), self.name)
        self.lab.kube.create(f"/apis/apps/v1/namespaces/{self.name}/deployments", body)

    def resolve(self, *policies: Json) -> Resolution:
        egress = [p for obj in policies if (p := read_policy(obj))]
        return Resolver(self.kube).resolve(objects.function(namespace=self.name), 8080, egress)

    def comes_to(self, reason: str, text: str = "") -> None:
        """Rights and policies take moments to be in force."""
        last: list[Resolution] = []

        def said() -> bool:
            last[:] = [self.resolve()]
            return last[0].reason == reason and text in last[0].message

        until(said, f"{reason} {text} in {self.name}")


@pytest.fixture(scope="module")
def tenant(installed: Lab) -> Callable[..., Tenant]:
    made = 0

    def make(**more: Any) -> Tenant:
        nonlocal made
        made += 1
        return Tenant(installed, f"burst-{made}", **more)

    def served() -> bool:
        try:
            installed.kube.get(BURST_FUNCTIONS.path("default"))
        except ApiError:
            return False
        return True

    until(served, "the CRD is served")
    return make


def test_a_namespace_lets_the_controller_in_by_a_binding(tenant: Callable[..., Tenant]) -> None:
    of = tenant(bound=False)
    of.deploy()
    of.comes_to("NotAllowed", ROLE)
    of.bind()
    of.comes_to("Eligible")
    found = of.resolve()
    assert found.spec is not None
    assert (found.spec.image, found.spec.port) == ("registry.example/resize:1", 8080)
    assert of.lab.kube.list_all(f"/api/v1/namespaces/{of.name}/pods")[0] == []


def test_the_controller_can_create_no_pod(tenant: Callable[..., Tenant]) -> None:
    of = tenant()
    of.deploy()
    of.comes_to("Eligible")
    body = {"metadata": {"name": "real"}, "spec": objects.template()["spec"]}

    def refused() -> bool:
        try:
            of.kube.create(f"/api/v1/namespaces/{of.name}/pods", body)
        except ApiError as error:
            return "as a dry run only" in error.message
        of.lab.kube.delete(f"/api/v1/namespaces/{of.name}/pods/real")
        return False

    until(refused, "a create that is no dry run is refused")


def test_the_pod_security_level_is_honoured(tenant: Callable[..., Tenant]) -> None:
    of = tenant(labels={"pod-security.kubernetes.io/enforce": "restricted"})
    of.deploy()
    of.comes_to("Refused", "PodSecurity")
    strict = {
        "runAsUser": 1000, "runAsNonRoot": True, "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    path = f"/apis/apps/v1/namespaces/{of.name}/deployments/resize"
    of.lab.kube.delete(path)
    of.deploy(securityContext=strict)
    of.comes_to("Eligible")


def test_a_validating_admission_policy_is_honoured(tenant: Callable[..., Tenant]) -> None:
    of = tenant()
    of.deploy()
    of.comes_to("Eligible")
    policy: Json = {
        "metadata": {"name": "registries.test.surgekit.dev"},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": of.name}},
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ],
            },
            "validations": [
                {
                    "expression": "object.spec.containers.all(c, c.image.startsWith('mirror.example/'))",
                    "message": "images come from the mirror",
                }
            ],
        },
    }
    spec = {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
    binding = {"metadata": policy["metadata"], "spec": spec}
    of.lab.kube.create(f"{ADMISSION}/validatingadmissionpolicies", policy)
    of.lab.kube.create(f"{ADMISSION}/validatingadmissionpolicybindings", binding)
    of.comes_to("Refused", "images come from the mirror")


def test_a_resource_quota_is_honoured(tenant: Callable[..., Tenant]) -> None:
    of = tenant()
    of.deploy()
    of.comes_to("Eligible")
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"limits.memory": "64Mi"}}}
    of.lab.kube.create(f"/api/v1/namespaces/{of.name}/resourcequotas", quota)
    of.comes_to("Refused", "exceeded quota")


def test_the_defaults_of_a_limit_range_are_its_limits(tenant: Callable[..., Tenant]) -> None:
    of = tenant()
    limits = [{"type": "Container", "default": {"memory": "96Mi", "cpu": "250m"}}]
    of.deploy(resources={})
    of.comes_to("CannotBeHonoured", "resources.limits.memory")
    body = {"metadata": {"name": "defaults"}, "spec": {"limits": limits}}
    of.lab.kube.create(f"/api/v1/namespaces/{of.name}/limitranges", body)
    of.comes_to("Eligible")
    found = of.resolve().spec
    assert found is not None
    assert (found.memory_bytes, found.cpu_millis) == (96 << 20, 250)


def test_a_network_policy_for_egress_is_honoured(tenant: Callable[..., Tenant]) -> None:
    of = tenant()
    of.deploy()
    of.comes_to("Eligible")
    path = f"/apis/networking.k8s.io/v1/namespaces/{of.name}/networkpolicies"
    kube = of.lab.kube
    for name, spec, reason in (
        ("ingress", {"ingress": []}, "Eligible"),
        ("all", {"policyTypes": ["Egress"], "egress": [{}]}, "Eligible"),
        ("others", {"podSelector": {"matchLabels": {"app": "x"}}, "policyTypes": ["Egress"]}, "Eligible"),
        ("some", {"egress": [{"ports": [{"port": 53}]}]}, "EgressPolicy"),
        ("none", {"policyTypes": ["Egress"]}, "EgressPolicy"),
    ):
        made = kube.create(path, stripped(objects.network_policy(name, **spec), of.name))
        assert of.resolve(made).reason == reason, name


def test_a_token_of_the_service_account_makes_it_ineligible(tenant: Callable[..., Tenant]) -> None:
    """The API server mounts one unless the template says no."""
    of = tenant()
    body = stripped(objects.deployment(replicas=0), of.name)
    body["spec"]["template"]["spec"] |= {"automountServiceAccountToken": True}
    of.lab.kube.create(f"/apis/apps/v1/namespaces/{of.name}/deployments", body)
    of.comes_to("CannotBeHonoured", "automountServiceAccountToken")


# --- the CRD ---


def test_the_defaults_are_those_of_the_code(tenant: Callable[..., Tenant]) -> None:
    of = tenant()
    bare = stripped(objects.burst_function(), of.name)
    made = of.lab.kube.create(BURST_FUNCTIONS.path(of.name), bare, dryRun="All")
    before, after = read(bare | {"metadata": made["metadata"]}), read(made)
    assert before == after
    assert made["spec"]["thresholdPercentile"] == 50


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"mode": "on"}, "spec.mode"),
        ({"variant": "fast"}, "spec.variant"),
        ({"concurrency": 0}, "spec.concurrency"),
        ({"concurrency": "1"}, "spec.concurrency"),
        *(({"keepalive": text}, "spec.keepalive") for text in ("60", "0s", "2h", "-1s", "soon", "9" * 40)),
        ({"longest": "0s"}, "spec.longest"),
        ({"thresholdPercentile": 0}, "spec.thresholdPercentile"),
        ({"thresholdPercentile": 101}, "spec.thresholdPercentile"),
        ({"mostInstances": -1}, "spec.mostInstances"),
        ({"scaling": {"via": "hpa"}}, "spec.scaling.via"),
        ({"scaling": {"minReplicas": 9, "maxReplicas": 1}}, "minReplicas must not be more than"),
        ({"scaling": {"via": "knative"}}, "scaling.via is knative, or none, for targets of serving"),
        (
            {"targetRef": KNATIVE, "scaling": {"via": "scale"}},
            "scaling.via is knative, or none, for targets of serving",
        ),
        ({"targetRef": {"kind": "Deployment", "name": "web"}}, "spec.targetRef.apiVersion"),
        (
            {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}},
            "neither Deployment.apps nor ComboFunc.surgekit.dev",
        ),
    ],
)
def test_nonsense_is_refused(tenant: Callable[..., Tenant], installed: Lab, spec: Json, why: str) -> None:
    body = stripped(objects.burst_function(**spec), "default")
    with pytest.raises(ApiError, match=r"403|422") as caught:
        installed.kube.create(BURST_FUNCTIONS.path("default"), body, dryRun="All")
    assert why in caught.value.message


def test_a_knative_target_is_taken_and_its_revision_kept(tenant: Callable[..., Tenant]) -> None:
    of = tenant()
    path = BURST_FUNCTIONS.path(of.name)
    for via in ({}, {"via": "knative"}, {"via": "none"}):
        body = stripped(objects.burst_function(targetRef=KNATIVE, scaling=via), of.name)
        of.lab.kube.create(path, body, dryRun="All")
    made = of.lab.kube.create(path, stripped(objects.burst_function(targetRef=KNATIVE), of.name))
    regular = {"revision": "resize-00001", "concurrency": 4}
    patch_status(of.kube, BURST_FUNCTIONS, made["metadata"], {"regular": regular})
    assert of.lab.kube.get(f"{path}/resize")["status"]["regular"] == regular


def test_its_name_is_a_host_name_and_its_target_stays(tenant: Callable[..., Tenant]) -> None:
    of = tenant()
    path = BURST_FUNCTIONS.path(of.name)
    for name in ("a.b", "a" * 64):
        body = stripped(objects.burst_function(name), of.name)
        body["spec"]["targetRef"]["name"] = "resize"
        with pytest.raises(ApiError, match="must be a DNS label"):
            of.lab.kube.create(path, body, dryRun="All")
    of.lab.kube.create(path, stripped(objects.burst_function(), of.name))
    with pytest.raises(ApiError, match="targetRef cannot be changed"):
        of.lab.kube.patch(f"{path}/resize", {"spec": {"targetRef": {"name": "other"}}})


def test_the_api_server_keeps_what_the_controller_writes(tenant: Callable[..., Tenant]) -> None:
    of = tenant()
    made = of.lab.kube.create(
        BURST_FUNCTIONS.path(of.name), stripped(objects.burst_function(mode="enforce"), of.name)
    )
    view = View(3.2, 0.3, 2e9, 0.5, 1.0, 1.0, 0.025, Totals(1 << 40, 20, 15, 3, 2), 4.0, True)
    saved = tuple((float(i), 1 << 30) for i in range(64))
    readiness = Readiness(0)
    revision = Route("shop", "r" * 63, "uid", 1000, 3, 4)
    facts = Facts(1, Mode.ENFORCE, view, saved, Regular(1, 2, "x" * 9000), readiness, revision)
    said = conditions(Mode.ENFORCE, "Refused", "y" * 9000, readiness)
    body = status_of({}, said, facts, time.time())
    kept = patch_status(of.kube, BURST_FUNCTIONS, made["metadata"], body)
    assert kept["status"] == body | {"emergency": kept["status"]["emergency"]}
    assert history_before(status_before(kept))[0] == list(saved)


# --- tenants ---


def test_nobody_has_scaled_what_they_may_not_scale(tenant: Callable[..., Tenant]) -> None:
    of = tenant()
    rules = [{"apiGroups": ["surgekit.dev"], "resources": ["burstfunctions"], "verbs": ["*"]}]
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{of.name}"
    of.lab.kube.create(f"{rbac}/roles", {"metadata": {"name": "writer"}, "rules": rules})
    for name, role in (
        ("writer", {"kind": "Role", "name": "writer"}),
        ("editor", {"kind": "ClusterRole", "name": "edit"}),
    ):
        of.lab.kube.create(f"/api/v1/namespaces/{of.name}/serviceaccounts", {"metadata": {"name": name}})
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", **role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": of.name}],
        }
        of.lab.kube.create(f"{rbac}/rolebindings", binding)
    writer, editor = (Kube.connect(of.lab.account_kubeconfig(of.name, name)) for name in ("writer", "editor"))
    body = stripped(objects.burst_function(), of.name)

    def tried(kube: Kube, body: Json = body) -> str:
        try:
            kube.create(BURST_FUNCTIONS.path(of.name), body, dryRun="All")
        except ApiError as error:
            return error.message
        return "made"

    until(lambda: "may not patch deployments/scale" in tried(writer), "the writer is refused")
    until(lambda: tried(editor) == "made", "the editor is let")
    controller = of.kube
    assert tried(controller) == "made"  # for annotations
    knative = stripped(objects.burst_function(targetRef=KNATIVE), of.name)
    assert "may not patch services/scale of resize" in tried(editor, knative)
    more = [{"apiGroups": ["serving.knative.dev"], "resources": ["services"], "verbs": ["patch"]}]
    of.lab.kube.patch(f"{rbac}/roles/writer", {"rules": rules + more})
    until(lambda: tried(writer, knative) == "made", "who may patch the Knative Service is let")
