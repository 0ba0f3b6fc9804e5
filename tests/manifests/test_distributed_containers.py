"""DistributedContainers on a real API server: what is refused, and what admission does to pods."""

from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

import pytest

from kwok.lab import Lab
from kwok.pods import wait_for_account
from limit_allocator.allocation.model import Parameters
from limit_allocator.allowance import allow
from limit_allocator.ceilings import Resize, resizes
from limit_allocator.distributed_container import DISTRIBUTED_CONTAINERS, read
from limit_allocator.membership import members
from limit_allocator.pod import ORIGINAL, read_pod
from limit_allocator.sources import ClusterSource
from limit_allocator.status import status_of
from limit_allocator.view import View
from surgekit.kube.client import ApiError, Kube
from surgekit.kube.conditions import status_before
from surgekit.kube.status import patch_status
from surgekit.process.modes import Mode
from tests.events_at_once import unreadable
from tests.manifests.installed_cluster import NAMESPACE, until

pytestmark = pytest.mark.lab

Json = dict[str, Any]
SHOP = "shop"
PODS = f"/api/v1/namespaces/{SHOP}/pods"
PATH = DISTRIBUTED_CONTAINERS.path(SHOP)
STRATEGIC = "application/strategic-merge-patch+json"
LIMITS = {"cpu": "500m", "memory": "128Mi"}
REQUESTS = {"cpu": "100m", "memory": "64Mi"}


def application(name: str = "web", **spec: Any) -> Json:
    labels = {"matchLabels": {"app": "web"}}
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "DistributedContainer",
        "metadata": {"name": name},
        "spec": {"selector": labels, "cpu": "4", "memory": "1Gi"} | spec,
    }


def container(
    name: str = "c", limits: Json | None = LIMITS, requests: Json | None = REQUESTS, **more: Any
) -> Json:
    resources = {"limits": limits, "requests": requests}
    return {
        "name": name,
        "image": "example/app",
        "resources": {key: value for key, value in resources.items() if value is not None},
    } | more


def pod(*containers: Json, name: str = "p", annotations: Json | None = None, **spec: Any) -> Json:
    metadata = {"name": name, "labels": {"app": "web", "tier": "front"}, "annotations": annotations or {}}
    spec = {"containers": list(containers) or [container()]} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def made(lab: Lab, body: Json, namespace: str = SHOP) -> Json:
    return lab.kube.create(f"/api/v1/namespaces/{namespace}/pods", body, dryRun="All")


def limits_of(obj: Json) -> list[tuple[str, str]]:
    limits = [c["resources"].get("limits", {}) for c in obj["spec"]["containers"]]
    return [(of.get("cpu", ""), of.get("memory", "")) for of in limits]


def original_of(obj: Json) -> Any:
    text = obj["metadata"].get("annotations", {}).get(ORIGINAL)
    return None if text is None else json.loads(text)


def raised(obj: Json) -> bool:
    return original_of(obj) is not None


@pytest.fixture(scope="module")
def shop(installed: Lab) -> Lab:
    """A namespace with the CRD served."""

    def there() -> bool:
        try:
            installed.kube.get(PATH)
        except ApiError:
            return False
        return True

    installed.kube.create("/api/v1/namespaces", {"metadata": {"name": SHOP}})
    wait_for_account(installed.kube, SHOP)
    until(there, "the CRD is served")
    return installed


def enforce(lab: Lab, name: str = "web", ceilings: Json | None = None, **spec: Any) -> Json:
    """Make one in mode enforce, with the ceilings that the controller would write, under its account."""
    lab.kube.create(PATH, application(name, mode="enforce", **spec))
    controller = Kube.connect(lab.account_kubeconfig(NAMESPACE, "surgekit-limit-allocator"))
    obj = controller.get(f"{PATH}/{name}")
    said = {"cpu": "4", "memory": "1Gi"} if ceilings is None else ceilings
    status = {"mode": "enforce", "ceilings": said}
    return patch_status(controller, DISTRIBUTED_CONTAINERS, obj["metadata"], status)


@pytest.fixture(scope="module")
def enforced(shop: Lab) -> Lab:
    enforce(shop)
    until(lambda: raised(made(shop, pod())), "admission is in force")
    return shop


# --- the schema ---


def test_the_defaults_are_those_of_the_code(shop: Lab) -> None:
    obj = shop.kube.create(PATH, application(), dryRun="All")
    bare = read(application() | {"metadata": obj["metadata"]})
    spec = read(obj)
    assert spec.parameters == bare.parameters == Parameters()
    assert (spec.mode, spec.cpu_us, spec.memory_bytes) == (Mode.SHADOW, 400_000, 1 << 30)
    assert spec == bare


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"cpu": "0"}, "cpu must be millicores"),
        ({"cpu": "9m"}, "cpu must be millicores"),
        ({"cpu": "-1"}, "cpu must be millicores"),
        ({"cpu": "1e3"}, "cpu must be millicores"),
        ({"cpu": "100001"}, "cpu must be millicores"),
        ({"cpu": None}, "spec.cpu: Required value"),
        ({"memory": "15Mi"}, "memory must be bytes"),
        ({"memory": "1Pi"}, "memory must be bytes"),
        ({"memory": "much"}, "memory must be bytes"),
        ({"mode": "on"}, "spec.mode"),
        ({"selector": None}, "spec.selector: Required value"),
        ({"selector": {"matchLabels": {"a b": "x"}}}, "not a label's key"),
        ({"selector": {"matchLabels": {"a": "x y"}}}, "spec.selector.matchLabels"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, "operator"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, "values must be given"),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}},
            "values must be given",
        ),
        ({"parameters": {"variant": "worst"}}, "spec.parameters.variant"),
        ({"parameters": {"kappa": 1.1}}, "spec.parameters.kappa"),
        ({"parameters": {"windowPeriods": 0}}, "spec.parameters.windowPeriods"),
        ({"parameters": {"sigma": 0.95}}, "spec.parameters.sigma"),
        ({"parameters": {"floorMicroseconds": 999}}, "spec.parameters.floorMicroseconds"),
        ({"parameters": {"deltaBytes": 1}}, "tightDeltaBytes must not be more than"),
    ],
)
def test_nonsense_is_refused_and_the_field_named(shop: Lab, spec: Json, why: str) -> None:
    with pytest.raises(ApiError) as error:
        shop.kube.create(PATH, application(**spec), dryRun="All")
    assert error.value.code == 422
    assert why in error.value.message


def test_what_makes_sense_is_taken_as_it_is_read(shop: Lab) -> None:
    expressions = [
        {"key": "app", "operator": "In", "values": ["web"]},
        {"key": "surgekit.dev/x", "operator": "DoesNotExist"},
    ]
    wanted = application(
        selector={"matchExpressions": expressions}, cpu=2, memory=1 << 28, mode="off",
        parameters={"variant": "paper", "upsilon": 35.5, "floorBytes": 1 << 25},
    )  # fmt: skip
    obj = shop.kube.create(PATH, copy.deepcopy(wanted), dryRun="All")
    spec = read(obj)
    assert (spec.cpu_us, spec.memory_bytes, spec.mode) == (200_000, 1 << 28, Mode.OFF)
    assert (spec.parameters.upsilon, spec.parameters.floor_bytes) == (35.5, 1 << 25)
    assert spec.selector.matches({"app": "web"})


def test_the_columns(enforced: Lab) -> None:
    table = enforced.kubectl("get", "dctr", "-n", SHOP).splitlines()
    assert table[0].split() == [
        "NAME", "MODE", "PODS", "CPU", "ALLOCATED", "USED", "MEMORY", "MEMALLOCATED", "SURVIVED", "ENFORCED",
        "AGE",
    ]  # fmt: skip


# --- ceilings ---


def test_a_pod_gets_the_ceiling_and_its_authors_limits_are_kept(enforced: Lab) -> None:
    second = container("d", {"cpu": "1500m", "memory": "0.5Gi"}, {"cpu": "0"})
    obj = made(enforced, pod(container(), second))
    assert limits_of(obj) == [("4", "1Gi")] * 2
    requests = [c["resources"]["requests"] for c in obj["spec"]["containers"]]
    assert requests == [REQUESTS, {"cpu": "0", "memory": "512Mi"}], (
        "as without us: memory's is its own limit's"
    )
    assert original_of(obj) == {
        "c": {"cpu": "500m", "memory": "128Mi"},
        "d": {"cpu": "1500m", "memory": "512Mi"},
    }
    read_back = read_pod(obj | {"metadata": obj["metadata"] | {"uid": "u"}})
    assert (read_back.fault, read_back.guaranteed) == (None, False)
    assert [c.original and c.original.cpu_us for c in read_back.containers] == [50_000, 150_000]


def test_a_limit_above_the_ceiling_stays(enforced: Lab) -> None:
    obj = made(enforced, pod(container(limits={"cpu": "6", "memory": "128Mi"})))
    assert limits_of(obj) == [("6", "1Gi")]


LEFT_ALONE = [
    pod(container(limits=None)),
    pod(container(limits={"memory": "128Mi"})),
    pod(container(), container("d", {"cpu": "1"}, None)),
    pod(container(limits=LIMITS, requests=None)),
    pod(container(limits=LIMITS, requests=LIMITS)),
    pod(container(resizePolicy=[{"resourceName": "memory", "restartPolicy": "RestartContainer"}])),
    pod(initContainers=[container("i", None, None)]),
    pod(resources={"limits": {"cpu": "2", "memory": "1Gi"}}),
    pod(*(container(f"c{i}") for i in range(33))),
]


@pytest.mark.parametrize("body", LEFT_ALONE, ids=range(len(LEFT_ALONE)))
def test_what_cannot_be_given_back_is_left_alone(enforced: Lab, body: Json) -> None:
    obj = made(enforced, copy.deepcopy(body))
    assert not raised(obj)
    seen = read_pod(obj | {"metadata": obj["metadata"] | {"uid": "u"}})
    assert seen.fault or seen.guaranteed, "the code says the same of it as admission does"
    assert limits_of(obj)[0] == limits_of(body)[0]


def test_other_pods_are_not_touched(enforced: Lab) -> None:
    other = pod()
    other["metadata"]["labels"] = {"app": "db"}
    assert not raised(made(enforced, other))
    for namespace in ("default", "kube-system"):
        assert not raised(made(enforced, pod(), namespace))


def test_ceilings_follow_the_status(shop: Lab) -> None:
    """A resource that is not in it, a mode that is not enforce: authors' limits."""
    expression = {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front"]}]}
    for name, ceilings, expected in (
        ("memory-only", {"memory": "1Gi"}, [("500m", "1Gi")]),
        ("nothing", {}, [("500m", "128Mi")]),
    ):
        body = pod()
        body["metadata"]["labels"] = {"tier": "front"}
        enforce(shop, name, ceilings, selector=expression)
        try:
            until(lambda e=expected, b=body: limits_of(made(shop, b)) == e, name)  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
            shop.kube.patch(f"{PATH}/{name}", {"spec": {"mode": "shadow"}})
            until(lambda b=body: not raised(made(shop, b)), "shadow raises nothing")  # type: ignore[misc]  # the same
        finally:
            shop.kube.delete(f"{PATH}/{name}")


@pytest.mark.parametrize(
    ("plural", "spec", "expected"),
    [
        ("limitranges", {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}, ("500m", "1Gi")),
        ("limitranges", {"limits": [{"type": "Container", "max": {"cpu": "8"}}]}, ("4", "1Gi")),
        ("limitranges", {"limits": [{"type": "Pod", "max": {"memory": "512Mi"}}]}, ("4", "128Mi")),
        (
            "limitranges",
            {"limits": [{"type": "Container", "maxLimitRequestRatio": {"cpu": "5"}}]},
            ("500m", "1Gi"),
        ),
        ("resourcequotas", {"hard": {"limits.cpu": "3"}}, ("500m", "1Gi")),
        ("resourcequotas", {"hard": {"limits.cpu": "3", "limits.memory": "512Mi"}}, ("500m", "128Mi")),
        ("resourcequotas", {"hard": {"requests.cpu": "3"}}, ("4", "1Gi")),
    ],
)
def test_what_the_namespace_counts_refuses_no_pod_though_the_controller_is_away(
    enforced: Lab, plural: str, spec: Json, expected: tuple[str, str]
) -> None:
    """The status still says 4 cores and 1Gi."""
    path = f"/api/v1/namespaces/{SHOP}/{plural}"
    enforced.kube.create(path, {"metadata": {"name": "late"}, "spec": spec})

    def limits() -> list[tuple[str, str]]:
        try:
            return limits_of(made(enforced, pod(container(), container("d"))))
        except ApiError:  # the policies' watches learn of it a moment later
            return []

    try:
        until(lambda: limits() == [expected] * 2, f"{expected}")
    finally:
        enforced.kube.delete(f"{path}/late")
    until(lambda: limits() == [("4", "1Gi")] * 2, "as before")


def test_what_the_namespace_counts_decides_how_high_admission_goes(shop: Lab) -> None:
    """Watches, decisions and status under the controller's account; the answers of admission to them."""
    controller = Kube.connect(shop.account_kubeconfig(NAMESPACE, "surgekit-limit-allocator"))
    source = ClusterSource(controller, unreadable(controller))
    body = pod()
    body["metadata"]["labels"] = {"app": "counted"}
    shop.kube.create(
        PATH, application("counted", mode="enforce", selector={"matchLabels": {"app": "counted"}})
    )
    source.start()

    def decide() -> Json:
        """What the controller does in a round, as far as it is about Kubernetes."""
        objects = {obj["metadata"]["name"]: obj for obj in source.distributed_containers()}
        found = members([read(objects["counted"])], source.pods(), Mode.ENFORCE, exclusive_cpus=True)
        app = found.applications[f"{SHOP}/counted"]
        allowance = allow(app.spec, app.pods, source.quotas(SHOP), source.limit_ranges(SHOP))
        before = status_before(objects["counted"])
        status = status_of(before, app, allowance, View(), 1_800_000_000.0, 10.0)
        obj = patch_status(controller, DISTRIBUTED_CONTAINERS, objects["counted"]["metadata"], status)
        stored: Json = obj["status"]
        kept = {key: value for key, value in status.items() if key != "ceilings"}
        assert {key: stored[key] for key in kept} == kept, "the API server prunes and changes nothing"
        return stored

    def follows(expected: list[tuple[str, str]], reason: str) -> None:
        def settled() -> bool:
            conditions = {c["type"]: c["reason"] for c in decide()["conditions"]}
            with contextlib.suppress(ApiError):  # refused: admission has not heard of the change yet
                return conditions["CeilingsFit"] == reason and limits_of(made(shop, body)) == expected
            return False

        until(settled, f"{expected}, {reason}")

    def exists() -> bool:
        return source.complete and any(
            o["metadata"]["name"] == "counted" for o in source.distributed_containers()
        )

    ranges, quotas = f"/api/v1/namespaces/{SHOP}/limitranges", f"/api/v1/namespaces/{SHOP}/resourcequotas"
    try:
        until(exists, "the watches have listed")
        follows([("4", "1Gi")], "Fit")
        most = {"type": "Container", "max": {"cpu": "2"}}
        shop.kube.create(ranges, {"metadata": {"name": "r"}, "spec": {"limits": [most]}})
        follows([("2", "1Gi")], "Fit")
        hard = {"limits.memory": "512Mi"}
        shop.kube.create(quotas, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        follows([("2", "128Mi")], "LimitsCounted")
        assert decide()["ceilings"] == {"cpu": "2"}
        shop.kube.delete(f"{ranges}/r")
        follows([("4", "128Mi")], "LimitsCounted")
    finally:
        source.stop()
        for path in (f"{ranges}/r", f"{quotas}/q", f"{PATH}/counted"):
            with contextlib.suppress(ApiError):
                shop.kube.delete(path)


# --- the annotation ---


@pytest.mark.parametrize(
    ("original", "why"),
    [
        ('{"c":{"cpu":"500m","memory":"128Mi"}}', ""),  # true, so it gains nothing
        ('{"c":{"cpu":"501m","memory":"128Mi"}}', "more than"),
        ('{"c":{"cpu":"500m","memory":"1Gi"}}', "more than"),
        ('{"d":{"cpu":"500m","memory":"128Mi"}}', "more than"),
        ('{"c":{"cpu":"500m","memory":"128Mi"},"d":{"cpu":"9","memory":"1Gi"}}', "more than"),
        ('{"c":{"cpu":"5","cpu":"500m","memory":"128Mi"}}', "admission's to write"),
        ('{"c":{"memory":"128Mi","cpu":"500m"}}', "admission's to write"),
        ('{"c": {"cpu":"500m","memory":"128Mi"}}', "admission's to write"),
        ("", "admission's to write"),
        ("{}", "admission's to write"),
        ('{"c":{"cpu":"1.1.1","memory":"128Mi"}}', "more than"),
        ("9" * 9000, "admission's to write"),
    ],
)
def test_nobody_gains_by_writing_the_annotation(enforced: Lab, original: str, why: str) -> None:
    body = pod(annotations={ORIGINAL: original})

    def said() -> str:
        try:
            return "" if limits_of(made(enforced, body)) == [("500m", "128Mi")] else "raised"
        except ApiError as error:
            return error.message

    until(lambda: why in said() if why else said() == "", why or "taken")


@pytest.fixture
def running(enforced: Lab) -> Json:
    """A raised pod on a node, with the resources that a kubelet would report."""
    enforced.kube.create(PODS, pod(name="running"))
    path = f"{PODS}/running"

    def is_running() -> bool:
        status = enforced.kube.get(path)["status"]
        return bool(status.get("containerStatuses")) and status.get("phase") == "Running"

    until(is_running, "the pod runs")
    return enforced.kube.get(path)


def test_a_ceiling_is_moved_and_given_back_by_the_controllers_account(enforced: Lab, running: Json) -> None:
    """The pure decision, the patch it makes, and what the API server lets the account do."""
    controller = Kube.connect(enforced.account_kubeconfig(NAMESPACE, "surgekit-limit-allocator"))
    path = f"{PODS}/running"

    def resize(patch: Json) -> Json:
        return controller.patch(f"{path}/resize", patch, content_type=STRATEGIC)

    try:
        if "resources" not in running["status"]["containerStatuses"][0]:
            statuses = [{"name": "c", "resources": running["spec"]["containers"][0]["resources"]}]
            enforced.kube.patch(
                f"{path}/status", {"status": {"containerStatuses": statuses}}, content_type=STRATEGIC
            )
        seen = read_pod(running)
        assert seen.marked
        (back,) = resizes([seen], members([], [seen], Mode.ENFORCE, exclusive_cpus=True), {})
        assert back == Resize(
            SHOP, "running", seen.uid, {"c": ("500m", "128Mi")}, "back to its author's limits"
        )
        requests = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}]}}
        with pytest.raises(ApiError, match="not requests"):
            resize(requests)
        given_back = resize({"metadata": {"uid": seen.uid, "labels": {"a": "b"}}, "spec": back.patch["spec"]})
        assert limits_of(given_back) == [("500m", "128Mi")]
        assert given_back["metadata"]["labels"] == running["metadata"]["labels"]
        with pytest.raises(ApiError, match=r"422 .* immutable"):
            resize(back.patch | {"metadata": {"uid": "of-an-earlier-pod"}})
        again = read_pod(enforced.kube.get(path))
        assert resizes([again], members([], [again], Mode.ENFORCE, exclusive_cpus=True), {}) == ()
        with pytest.raises(ApiError, match="nobody changes"):
            enforced.kube.patch(path, {"metadata": {"annotations": {ORIGINAL: None}}})
        with pytest.raises(ApiError, match="403"):
            controller.patch(path, {"metadata": {"labels": {"a": "b"}}})
    finally:
        enforced.kube.delete(path)


def test_the_controller_resizes_raised_pods_only(enforced: Lab) -> None:
    controller = Kube.connect(enforced.account_kubeconfig(NAMESPACE, "surgekit-limit-allocator"))
    body = pod(name="plain")
    body["metadata"]["labels"] = {"app": "db"}
    enforced.kube.create(PODS, body)
    try:
        lower = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "400m"}}}]}}
        with pytest.raises(ApiError, match="raised limits only"):
            controller.patch(f"{PODS}/plain/resize", lower, content_type=STRATEGIC)
    finally:
        enforced.kube.delete(f"{PODS}/plain")
