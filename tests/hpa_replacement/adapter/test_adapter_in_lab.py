"""With a real API server and the stock HPA: it follows to the replica, and stays when there is doubt."""

from __future__ import annotations

import http.client
import secrets
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest
import yaml

from hpa_replacement.adapter.discovery import CUSTOM, EXTERNAL
from hpa_replacement.adapter.registration import OwnedByAnother, Owner, Service, register
from kwok.binaries import Binaries
from kwok.lab import Lab
from kwok.parts import MANIFESTS
from kwok.pods import wait_for_account
from surgekit.kube.client import ApiError, Kube
from surgekit.kube.watch import Watch
from surgekit.tls import ensure
from tests.hpa_replacement.adapter import in_lab

pytestmark = pytest.mark.lab
HPA = MANIFESTS / "adapter" / "examples" / "hpa.yaml"
SELECTED = {"labelSelector": "policy=checkout"}
APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


@pytest.fixture(scope="module")
def cluster(binaries: Binaries) -> Iterator[Lab]:
    with Lab.temporary("adapter", instant_pods=True, time_factor=4.0) as lab:
        lab.add_nodes(2)
        lab.start_scheduler()
        in_lab.install(lab)
        yield lab


@pytest.fixture(scope="module")
def port(cluster: Lab) -> int:
    """Where the adapter serves both APIs."""
    port = cluster.free_port()
    in_lab.start(cluster, port)
    in_lab.register_both(cluster, port)
    return port


@pytest.fixture
def namespace(cluster: Lab) -> Iterator[str]:
    name = f"shop-{secrets.token_hex(3)}"
    cluster.kube.create("/api/v1/namespaces", {"metadata": {"name": name}})
    wait_for_account(cluster.kube, name)
    yield name
    cluster.kube.delete(f"/api/v1/namespaces/{name}")


class Steps:
    """The distinct numbers of replicas a Deployment was told to have, in order."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def replace(self, objects: list[dict[str, Any]], arrival_s: float) -> None:
        for obj in objects:
            self.apply("ADDED", obj, arrival_s)

    def apply(self, kind: str, obj: dict[str, Any], arrival_s: float) -> None:
        replicas = obj["spec"]["replicas"]
        if kind != "DELETED" and self.seen[-1:] != [replicas]:
            self.seen.append(replicas)


@contextmanager
def watched(lab: Lab, namespace: str) -> Iterator[Steps]:
    steps = Steps()
    watch = Watch(lab.kube, f"/apis/apps/v1/namespaces/{namespace}/deployments", steps).start()
    try:
        lab.wait_for(watch.synced.is_set, "the watch of the Deployment")
        yield steps
    finally:
        watch.stop()


def deploy(lab: Lab, namespace: str, replicas: int, change: Callable[[Any], None] = lambda _: None) -> None:
    """A Deployment `checkout` of KWOK pods, and the HPA as it is shipped."""
    labels = {"app": "checkout"}
    containers = [{"name": "app", "image": "registry.example/app:1"}]
    lab.kube.create(
        f"/apis/apps/v1/namespaces/{namespace}/deployments",
        {
            "metadata": {"name": "checkout"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"terminationGracePeriodSeconds": 0, "containers": containers},
                },
            },
        },
    )
    autoscaler = yaml.safe_load(HPA.read_text())
    change(autoscaler)
    lab.kube.create(f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers", autoscaler)


def condition(lab: Lab, namespace: str, kind: str) -> dict[str, Any]:
    path = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/checkout"
    conditions = (lab.kube.get(path).get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c["type"] == kind), {})


def cannot_read(lab: Lab, namespace: str, message: str) -> Callable[[], bool]:
    def found() -> bool:
        active = condition(lab, namespace, "ScalingActive")
        return active.get("status") == "False" and message in active["message"]

    return found


def by_object(autoscaler: Any) -> None:
    """The custom metric in place of the external one, as the comment in the manifest has it."""
    described = {"apiVersion": "surgekit.dev/v1alpha1", "kind": "KneePolicy", "name": "checkout"}
    autoscaler["spec"]["metrics"] = [
        {
            "type": "Object",
            "object": {
                "describedObject": described,
                "metric": {"name": "knee-replicas"},
                "target": {"type": "AverageValue", "averageValue": "1"},
            },
        }
    ]


@pytest.mark.parametrize("change", [lambda _: None, by_object], ids=["external", "custom"])
def test_the_hpa_follows_to_the_replica(
    cluster: Lab, port: int, namespace: str, change: Callable[[Any], None]
) -> None:
    wanted = [20, 21, 20, 1, 37]
    in_lab.set_policy(cluster, namespace, "checkout", wanted[0])
    with watched(cluster, namespace) as steps:
        deploy(cluster, namespace, 5, change)
        for replicas in wanted:
            in_lab.set_policy(cluster, namespace, "checkout", replicas)
            cluster.wait_for(
                lambda replicas=replicas: steps.seen[-1:] == [replicas],  # type: ignore[misc]
                f"{replicas} replicas: {steps.seen}, {condition(cluster, namespace, 'ScalingActive')}",
            )
        assert steps.seen == [5, *wanted]
    assert condition(cluster, namespace, "ScalingActive")["status"] == "True"
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/checkout"
    cluster.wait_for(
        lambda: cluster.kube.get(path)["status"].get("readyReplicas") == 37, "as many pods as replicas"
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (None, "matches the selector"),
        ({"mode": "shadow"}, "its mode is shadow"),
        ({"paused": True}, "it is paused"),
        ({"via": "scale"}, "applied through `scale`"),
    ],
)
def test_a_policy_that_is_missing_or_not_meant_leaves_the_replicas(
    cluster: Lab, port: int, namespace: str, spec: dict[str, Any] | None, message: str
) -> None:
    if spec is not None:
        in_lab.set_policy(cluster, namespace, "checkout", 2, **spec)
    with watched(cluster, namespace) as steps:
        deploy(cluster, namespace, 7)
        cluster.wait_for(cannot_read(cluster, namespace, message), f"the HPA to say {message!r}")
        assert steps.seen == [7]


def test_with_the_adapter_killed_the_replicas_stay_and_all_resumes(
    cluster: Lab, port: int, namespace: str
) -> None:
    in_lab.set_policy(cluster, namespace, "checkout", 9)
    with watched(cluster, namespace) as steps:
        deploy(cluster, namespace, 4)
        cluster.wait_for(lambda: steps.seen[-1:] == [9], "9 replicas")
        cluster.kill(in_lab.ADAPTER)
        try:
            in_lab.set_policy(cluster, namespace, "checkout", 2)
            cluster.wait_for(cannot_read(cluster, namespace, "unable to fetch"), "the HPA to notice")
            assert steps.seen == [4, 9]
        finally:
            in_lab.start(cluster, port)
        cluster.wait_for(lambda: steps.seen[-1:] == [2], "2 replicas", 60)
        assert steps.seen == [4, 9, 2]


def test_the_api_server_passes_on_values_reasons_and_discovery(
    cluster: Lab, port: int, namespace: str
) -> None:
    in_lab.set_policy(cluster, namespace, "checkout", 12)
    path = f"/apis/{EXTERNAL}/v1beta1/namespaces/{namespace}/knee-replicas"
    cluster.wait_for(lambda: _status(cluster.kube, path, **SELECTED) == 200, "the value")
    (item,) = cluster.kube.get(path, **SELECTED)["items"]
    assert (item["value"], item["metricLabels"]) == ("12", {"policy": "checkout"})
    (item,) = cluster.kube.get(
        f"/apis/{CUSTOM}/v1beta2/namespaces/{namespace}/kneepolicies.surgekit.dev/checkout/knee-replicas"
    )["items"]
    assert (item["value"], item["describedObject"]["name"]) == ("12", "checkout")
    with pytest.raises(ApiError, match=r"404 NotFound: no KneePolicy .* matches the selector"):
        cluster.kube.get(path, labelSelector="policy=never")
    # The API server gathers what aggregated APIs serve every few seconds, apart from what it passes on.
    listed = ["knee-replicas", f"{EXTERNAL}/v1beta1", "true", "ExternalMetricValueList"]
    resources = ("api-resources", "--no-headers", "--cached=false", "--api-group", EXTERNAL)
    cluster.wait_for(lambda: cluster.kubectl(*resources).split() == listed, "discovery")


def test_who_may_not_gets_403_from_the_api_server_and_from_the_adapter(
    cluster: Lab, port: int, namespace: str
) -> None:
    in_lab.set_policy(cluster, namespace, "checkout", 12)
    path = f"/apis/{EXTERNAL}/v1beta1/namespaces/{namespace}/knee-replicas"
    account = cluster.account_kubeconfig(namespace, "default")
    with pytest.raises(ApiError, match="403 Forbidden"):
        Kube.connect(account).get(path, **SELECTED)
    token = yaml.safe_load(account.read_text())["users"][0]["user"]["token"]
    bearer = {"Authorization": f"Bearer {token}"}
    selected = f"{path}?{urlencode(SELECTED)}"
    status, answer = ask(cluster, port, selected, bearer)
    assert (status, answer["reason"]) == (403, "Forbidden")
    assert f"system:serviceaccount:{namespace}:default" in answer["message"]

    rule = {"apiGroups": [EXTERNAL], "resources": ["knee-replicas"], "verbs": ["list"]}
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    cluster.kube.create(f"{rbac}/roles", {"metadata": {"name": "reader"}, "rules": [rule]})
    cluster.kube.create(
        f"{rbac}/rolebindings",
        {
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}],
        },
    )
    # The denial is remembered for ten seconds.
    cluster.wait_for(lambda: ask(cluster, port, selected, bearer)[0] == 200, "the right to be seen")
    assert Kube.connect(account).get(path, **SELECTED)["items"][0]["value"] == "12"


def test_nobody_but_the_front_proxy_speaks_for_others(cluster: Lab, port: int, namespace: str) -> None:
    path = f"/apis/{EXTERNAL}/v1beta1"
    forged = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    certificates = cluster.directory / "tls" / "front-proxy"
    ensure(certificates, [], ["front-proxy-client", "somebody-else"], datetime.now(UTC))
    assert ask(cluster, port, path, forged, certificates / "front-proxy-client")[0] == 200
    status, answer = ask(cluster, port, path, forged, certificates / "somebody-else")
    assert (status, answer["reason"]) == (401, "Unauthorized")
    assert "'somebody-else', which is not an allowed name" in answer["message"]
    status, answer = ask(cluster, port, path, forged)
    assert (status, answer["reason"]) == (401, "Unauthorized")
    # The administrator's own certificate is of another CA.
    administrator = cluster.directory / "kwok" / "clusters" / "lab" / "pki" / "admin"
    with pytest.raises((OSError, http.client.HTTPException)):
        ask(cluster, port, path, forged, administrator)


def test_another_adapters_api_service_is_left_alone(cluster: Lab, port: int) -> None:
    name = f"v1beta1.{EXTERNAL}"
    ours = cluster.kube.get(f"{APISERVICES}/{name}")
    keda = {"namespace": "keda", "name": "keda-operator-metrics-apiserver", "port": 443}
    cluster.kube.patch(f"{APISERVICES}/{name}", {"spec": {"service": keda}})
    try:
        custom = cluster.kube.get(f"{APISERVICES}/v1beta2.{CUSTOM}")
        with pytest.raises(OwnedByAnother, match="belongs to service keda/keda-operator-metrics-apiserver"):
            register(cluster.kube, [CUSTOM, EXTERNAL], Service(port=port + 1), b"another CA")
        assert cluster.kube.get(f"{APISERVICES}/{name}")["spec"]["service"] == keda
        assert cluster.kube.get(f"{APISERVICES}/v1beta2.{CUSTOM}")["spec"] == custom["spec"], "nor half done"
    finally:
        cluster.kube.patch(f"{APISERVICES}/{name}", {"spec": {"service": ours["spec"]["service"]}})


def test_registration_creates_keeps_and_renews(cluster: Lab, port: int) -> None:
    ca_pem = (in_lab.certificates(cluster) / "ca.crt").read_bytes()
    cluster.kube.delete(f"{APISERVICES}/v1beta2.{CUSTOM}")
    found = register(cluster.kube, [EXTERNAL, CUSTOM], Service(port=port), ca_pem)
    assert [(s.owner, s.current) for s in found] == [(Owner.OURS, True), (Owner.NOBODY, False)]
    cluster.kube.patch(f"{APISERVICES}/v1beta2.{CUSTOM}", {"spec": {"caBundle": None}})
    found = register(cluster.kube, [EXTERNAL, CUSTOM], Service(port=port), ca_pem)
    assert [(s.owner, s.current) for s in found] == [(Owner.OURS, True), (Owner.OURS, False)]
    assert (
        cluster.kube.get(f"{APISERVICES}/v1beta2.{CUSTOM}")["spec"]["caBundle"] == b64encode(ca_pem).decode()
    )
    in_lab.register_both(cluster, port)


def test_the_shipped_api_services_are_the_registered_ones(cluster: Lab, port: int) -> None:
    """Applied over what `register` made, they change nothing but the port, which is the lab's own."""
    rendered = yaml.safe_load_all(cluster.kubectl("kustomize", MANIFESTS / "adapter" / "apiservices"))
    for shipped in rendered:
        spec = cluster.kube.get(f"{APISERVICES}/{shipped['metadata']['name']}")["spec"]
        spec.pop("caBundle")
        assert spec | {"service": spec["service"] | {"port": 443}} == {
            key: value for key, value in shipped["spec"].items() if value is not False
        }


def _status(kube: Kube, path: str, **query: str) -> int:
    try:
        kube.get(path, **query)
    except ApiError as error:
        return error.code
    return 200


def ask(
    lab: Lab, port: int, path: str, headers: dict[str, str], certificate: Path | None = None
) -> tuple[int, Any]:
    """The adapter itself, past the API server."""
    context = ssl.create_default_context(cafile=str(in_lab.certificates(lab) / "ca.crt"))
    if certificate:
        context.load_cert_chain(certificate.with_suffix(".crt"), certificate.with_suffix(".key"))
    connection = http.client.HTTPSConnection("localhost", port, timeout=10, context=context)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, orjson.loads(answer.read())
    finally:
        connection.close()
